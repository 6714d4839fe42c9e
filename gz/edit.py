"""Changing a store that is in use: columns added, replaced and removed.

A column is written beside the others under a name no one has used, and becomes the store's when a new
store.json is renamed over the old one. Readers that have the old column open keep it; its file goes away
with its last mapping.

  .lock                   held for the moment in which store.json changes, so that no change is lost
  NAME~TOKEN.new/lock     held as long as a column is being written, so that a dead writer's can be told apart
  NAME~TOKEN.new/rows.gd  the column until it is published as NAME~TOKEN.gd
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from gz import _engine, manifest
from gz._base.arrays import as_shape
from gz._base.dtypes import dtype_name
from gz._base.files import FileNames, check_inside, is_inside
from gz._base.journal import sync
from gz._base.lock import Lock, try_lock, wait_for_lock
from gz._base.place import temporary_folder
from gz._base.sizes import parse_memory
from gz._engine import InputError
from gz._ingest.plan.column_input import adoptable, open_column
from gz._ingest.read.files import Files
from gz._ingest.write.columns import write_column
from gz._ingest.write.edge_rows import write_by_edge_id
from gz._ingest.write.placed_rows import write_by_ids
from gz.feature import FeatureStore
from gz.graph import Graph
from gz.manifest import ColumnEntry, EdgeType, Manifest, only_type
from gz.output import new_rows, open_rows

__all__ = [
    "Draft",
    "Editable",
    "OutputColumn",
    "Target",
    "add_feature",
    "editing",
    "new_column",
    "remove_feature",
    "scratch",
]

Type = str | EdgeType | None  # a node type; an edge type; None: the only node type
_DRAFT = re.compile(r".*~[0-9a-f]{8}\.new")
_PUBLISHED = re.compile(r".*~[0-9a-f]{8}\.gd")


class Editable(Protocol):
    """What editing asks of an open store."""

    @property
    def path(self) -> str: ...
    @property
    def manifest(self) -> Manifest: ...
    @property
    def node_types(self) -> list[str]: ...
    def num_nodes(self, t: str | None = None) -> int: ...
    def num_edges(self, t: EdgeType | None = None) -> int: ...
    def _ordering(self, t: EdgeType | None = None) -> Graph: ...
    def feature(self, name: str, t: str | EdgeType | None = None) -> FeatureStore: ...
    def check_current(self) -> None: ...
    def _reload(self, name: str | None, t: Any) -> None: ...


def add_feature(
    store: Editable,
    name: str,
    value: Any,
    t: Type = None,
    *,
    overwrite: bool = False,
    dtype: str | None = None,
    order: str = "original",
    adopt: bool = False,
    by: Any = None,
    memory: str | int = "2GB",
    tmp: str | os.PathLike[str] | None = None,
) -> FeatureStore:
    """See Store.add_feature."""
    if by is not None and (adopt or order != "original"):
        raise ValueError("by= (--by) says where each row goes: give neither an order nor adopt with it")
    budget, place = parse_memory(memory), temporary_folder(tmp)
    target = Target(store, name, t, overwrite)
    if order not in ("original", "stored"):
        raise ValueError(f"order={order!r}: choose 'original' or 'stored'")
    in_place = target.node or order == "stored"
    with Files() as files:
        if adopt and in_place and dtype is None and (npy := adoptable(value, files)) is not None:
            if npy.rows != target.rows:
                raise InputError(
                    f"{npy.name}: has {npy.rows} rows, but there are {target.rows} {target.what}"
                )
            return target.publish(ColumnEntry(npy=npy.file.path))
        if not in_place and by is None:
            target.check_original_order()
        with Draft(target) as new:
            source = open_column(name, value, files, None if dtype is None else dtype_name(dtype))
            if by is not None:
                graph = None if target.node else store._ordering(target.type)
                with tempfile.TemporaryDirectory(dir=place or new.folder) as tmp:
                    write_by_ids(
                        new.file, value, source, by, target.type, target.rows, graph, budget, Path(tmp)
                    )
            elif in_place:
                write_column(new.file, source, target.rows, target.what)
            else:
                with tempfile.TemporaryDirectory(dir=place or new.folder) as tmp:
                    write_by_edge_id(new.file, value, source, store._ordering(target.type), budget, Path(tmp))
            names = source.categories.names if source.categories else None
            return new.publish(names, source.column.unit)


def remove_feature(store: Editable, name: str, t: Type = None) -> None:
    """See Store.remove_feature."""
    Target(store, name, t, overwrite=True, must_exist=True).publish(None)


def new_column(
    store: Editable,
    name: str,
    row_shape: int | Sequence[int] = (),
    dtype: Any = "float32",
    t: Type = None,
    *,
    overwrite: bool = False,
) -> OutputColumn:
    """See Store.new_column."""
    kind = dtype_name(dtype).removesuffix(":keep")
    target, shape = Target(store, name, t, overwrite), as_shape(row_shape)
    return OutputColumn(Draft(target), (target.rows, *shape), kind)


def scratch(store: Editable) -> Draft:
    """A ``folder`` in the store for files that are needed until ``discard``. What a killed process leaves
    there is removed by the next change of a column."""
    return Draft(Target(store, "scratch", store.node_types[0], overwrite=True))


class OutputColumn:
    """A column being filled. Use it in a ``with`` block: the end publishes it, an exception gives it up.

    ``array`` is a shared mapping of the file: threads write to it as they like, and so do processes that have
    been given this object. Only the process that made it can publish. Made by ``Store.new_column``.

    Attributes:
        shape, dtype: of ``array``; rows first.
    """

    def __init__(self, draft: Draft | None, shape: tuple[int, ...], dtype: str, file: str = ""):
        self._draft = draft
        self._owner = os.getpid()
        self.shape, self.dtype = shape, dtype
        if draft is not None:
            try:
                new_rows(draft.file, shape, dtype)
            except BaseException:
                draft.discard()
                raise
            file = str(draft.file)
        self._file = file
        self._array: NDArray[Any] | None = None

    @property
    def array(self) -> NDArray[Any]:
        """``[rows, *row_shape]``, zeros at first; bfloat16 shows as uint16."""
        if self._array is None:
            self._array = open_rows(self._file, self.shape, self.dtype)
        return self._array

    def publish(self) -> FeatureStore:
        """Makes it a column of the store, in one step. What is written to `array` later is lost or worse."""
        if self._draft is None or os.getpid() != self._owner:
            raise ValueError("only the process that made the column can publish it, and only once")
        self._array = None
        _engine.seal_column(self._file, self.dtype, list(self.shape))
        column = self._draft.publish()
        self._draft = None
        return column

    def abort(self) -> None:
        """Gives it up; the store stays as it is."""
        if self._draft is not None and os.getpid() == self._owner:
            self._draft.discard()
            self._draft = None

    def __enter__(self) -> OutputColumn:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self._draft is not None and os.getpid() == self._owner:  # not in a forked child
            self.publish() if kind is None else self.abort()

    def __reduce__(self) -> tuple[Any, ...]:
        return OutputColumn, (None, self.shape, self.dtype, self._file)


# ---- inside ----


class Target:
    """The place of a column in a store."""

    def __init__(self, store: Editable, name: str, t: Type, overwrite: bool, must_exist: bool = False):
        self.store, self.name, self.overwrite, self.must_exist = store, name, overwrite, must_exist
        self.root = Path(store.path)
        self.node = t is None or isinstance(t, str)
        if t is None or isinstance(t, str):
            self.type: Any = t if t is not None else only_type(store.path, store.node_types)
            self.rows, self.what = store.num_nodes(self.type), "nodes"
        else:
            self.type = tuple(t)
            self.rows, self.what = store.num_edges(self.type), "edges"
        self.check(store.manifest)

    def columns(self, m: Manifest) -> dict[str, ColumnEntry]:
        return m.nodes[self.type].columns if self.node else m.edge(self.type).columns

    def check(self, m: Manifest) -> None:
        there = self.name in self.columns(m)
        where = f"{self.root}: {'node' if self.node else 'edge'} type {self.type!r}"
        if self.must_exist and not there:
            raise KeyError(f"{where} has no column {self.name!r}; it has {sorted(self.columns(m))}")
        if there and not self.overwrite:
            raise FileExistsError(
                errno.EEXIST,
                f"has a column {self.name!r}; pass overwrite=True (--overwrite) to replace it",
                where,
            )

    def check_original_order(self) -> None:
        if self.store.manifest.edge(self.type).edge_ids != "original":
            raise InputError(
                f"{self.root}: edge type {self.type} keeps no original edge ids: rows in the original order "
                "cannot be placed. Ingest with keep_edge_ids=True (--keep-edge-ids); or give the rows as the "
                "edges are stored, one list after the other, and say order='stored' (--order stored)"
            )

    @property
    def folder(self) -> Path:
        """Where the type's files lie."""
        m = self.store.manifest
        if not self.node:
            edge = m.edge(self.type)
            return self.root / os.path.dirname(edge.in_file or edge.out_file or "")
        entry = m.nodes[self.type]
        files = [c.file for c in (*entry.columns.values(), *entry.splits.values()) if c.file]
        if ids := entry.id_map:
            files += [ids[part] for part in manifest.ID_MAP_FILES[ids["kind"]]]
        if files:
            return self.root / os.path.dirname(files[0])
        return self.root / FileNames().get("nodes", self.type)

    def publish(self, entry: ColumnEntry | None, written: Path | None = None) -> Any:
        """Puts the column (or its absence) into store.json; removes the file of the one that was there.
        `written` is where the column's file lies so far."""
        with editing(self.root) as m:
            self.store.check_current()  # or the column would go into a store it was not made for
            self.check(m)
            columns = self.columns(m)
            if written is not None and entry is not None:
                os.rename(written, entry.path(self.root))
                sync(entry.path(self.root).parent)
            before = columns.pop(self.name, None)
            if entry is not None:
                columns[self.name] = entry
            manifest.write(m, self.root)
            sync(self.root)
            if before is not None and before.file and is_inside(self.root, (self.root / before.file).parent):
                (self.root / before.file).unlink(missing_ok=True)
        self.store._reload(self.name, self.type)
        if entry is None:
            return None
        return self.store.feature(self.name, self.type)


class Draft:
    """A column being written, invisible to readers. Discarded unless published."""

    def __init__(self, target: Target):
        self.target = target
        check_inside(target.root, target.folder)
        target.folder.mkdir(parents=True, exist_ok=True)
        safe = FileNames().get("", target.name)
        while True:
            self.folder = target.folder / f"{safe}~{secrets.token_hex(4)}.new"
            self.folder.mkdir()
            lock = try_lock(self.folder / "lock", create=True)
            if lock is not None:
                break
        self._lock: Lock | None = lock
        self.file = self.folder / "rows.gd"

    def publish(self, names: list[str] | None = None, unit: str | None = None) -> FeatureStore:
        final = self.folder.with_name(self.folder.name.removesuffix(".new") + ".gd")
        try:
            entry = ColumnEntry(str(final.relative_to(self.target.root)), None, names, unit)
            return self.target.publish(entry, self.file)
        finally:
            self.discard()

    def discard(self) -> None:
        if self._lock is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, *_: Any) -> None:
        self.discard()


@contextmanager
def editing(root: Path) -> Iterator[Manifest]:
    """The manifest as it is now, which no one else can change until the block ends."""
    fd = os.open(root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        wait_for_lock(fd, str(root))
        m = manifest.read(root)
        yield m
        _clean_up(root, manifest.read(root))
    finally:
        os.close(fd)


def _clean_up(root: Path, m: Manifest) -> None:
    """Removes what killed writers left: drafts that nobody holds, columns that never got into store.json."""
    named = set(m.named_files())
    for folder in [*root.glob("nodes/*"), *root.glob("edges/*")]:
        for path in folder.iterdir() if folder.is_dir() and is_inside(root, folder) else ():
            if _PUBLISHED.fullmatch(path.name) and str(path.relative_to(root)) not in named:
                path.unlink(missing_ok=True)
            elif _DRAFT.fullmatch(path.name) and (lock := try_lock(path / "lock")) is not None:
                shutil.rmtree(path, ignore_errors=True)
                lock.release()
