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
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz import _engine, manifest
from gz._engine import InputError
from gz._ingest.arrays import STORABLE, Column
from gz._ingest.columns import adoptable, combined, open_column, write_column
from gz._ingest.journal import sync
from gz._ingest.spec import FileNames
from gz._lock import Lock, try_lock
from gz._permute import permuted
from gz._sizes import parse_memory
from gz.feature import FeatureStore
from gz.graph import Graph
from gz.manifest import ColumnEntry, EdgeType, Manifest
from gz.output import PAGE, new_rows, open_rows
from gz.store import Store, open_store

__all__ = ["OutputColumn", "add", "add_feature", "new_column", "remove_feature"]

Type = str | EdgeType | None  # a node type; an edge type; None: the only node type
_DRAFT = re.compile(r".*~[0-9a-f]{8}\.new")
_PUBLISHED = re.compile(r".*~[0-9a-f]{8}\.gd")


def add(
    path: str | os.PathLike[str] | Store, features: Mapping[str, Any], t: Type = None, **options: Any
) -> Store:
    """Adds columns to a store: ``gz.add("papers", {"emb": "emb.npy"})``. The options are those of
    ``Store.add_feature``. Returns the open store."""
    store = path if isinstance(path, Store) else open_store(path)
    for name, value in features.items():
        add_feature(store, name, value, t, **options)
    return store


def add_feature(
    store: Store,
    name: str,
    value: Any,
    t: Type = None,
    *,
    replace: bool = False,
    dtype: str | None = None,
    order: str = "original",
    adopt: bool = False,
    memory: str | int = "2GB",
) -> FeatureStore:
    """See Store.add_feature."""
    budget = parse_memory(memory)
    target = _Target(store, name, t, replace)
    if order not in ("original", "stored"):
        raise ValueError(f"order={order!r}: choose 'original' or 'stored'")
    in_place = target.node or order == "stored"
    if adopt and in_place and dtype is None and (npy := adoptable(value)) is not None:
        if len(FeatureStore(npy)) != target.rows:
            raise InputError(
                f"{npy}: has {len(FeatureStore(npy))} rows, but there are {target.rows} {target.what}"
            )
        return target.publish(ColumnEntry(npy=npy))
    if not in_place:
        target.check_original_order()
    with _Draft(target) as draft:
        table = open_column(name, value)
        if in_place:
            write_column(draft.file, name, table, dtype, target.rows, target.what)
        else:
            _write_by_edge_id(draft, name, value, table, dtype, store.graph(target.type), budget)
        return draft.publish()


def remove_feature(store: Store, name: str, t: Type = None) -> None:
    """See Store.remove_feature."""
    _Target(store, name, t, replace=True, must_exist=True).publish(None)


def new_column(
    store: Store,
    name: str,
    row_shape: int | Sequence[int] = (),
    dtype: Any = "float32",
    t: Type = None,
    *,
    replace: bool = False,
) -> OutputColumn:
    """See Store.new_column."""
    kind = str(dtype).removeprefix("torch.")
    if kind not in STORABLE:
        kind = np.dtype(dtype).name
        if kind not in STORABLE:
            raise ValueError(f"dtype {dtype!r} cannot be stored; choose one of {', '.join(STORABLE)}")
    row = (row_shape,) if isinstance(row_shape, int) else tuple(int(n) for n in row_shape)
    target = _Target(store, name, t, replace)
    return OutputColumn(_Draft(target), (target.rows, *row), kind)


class OutputColumn:
    """A column being filled. Use it in a ``with`` block: the end publishes it, an exception gives it up.

    ``array`` is a shared mapping of the file: threads write to it as they like, and so do processes that have
    been given this object. Only the process that made it can publish.
    """

    def __init__(self, draft: _Draft | None, shape: tuple[int, ...], dtype: str, file: str = ""):
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


class _Target:
    """The place of a column in a store."""

    def __init__(self, store: Store, name: str, t: Type, replace: bool, must_exist: bool = False):
        self.store, self.name, self.replace, self.must_exist = store, name, replace, must_exist
        self.root = Path(store.path)
        self.node = t is None or isinstance(t, str)
        if t is None or isinstance(t, str):
            self.type: Any = t if t is not None else _only(store)
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
        if there and not self.replace:
            raise FileExistsError(
                errno.EEXIST,
                f"has a column {self.name!r}; pass replace=True (--replace) to replace it",
                where,
            )

    def check_original_order(self) -> None:
        if self.store.manifest.edge(self.type).edge_ids != "original":
            raise InputError(
                f"{self.root}: edge type {self.type} keeps no original edge ids: rows in the original order "
                "cannot be placed. Ingest with keep_edge_ids=True (--keep-edge-ids); or give the rows as the "
                "edges are stored, by destination, and say order='stored' (--order stored)"
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
        files += [f for f in (entry.id_map or {}).values() if isinstance(f, str) and f.endswith(".gd")]
        if files:
            return self.root / os.path.dirname(files[0])
        return self.root / FileNames().get("nodes", self.type)

    def publish(self, entry: ColumnEntry | None, written: Path | None = None) -> Any:
        """Puts the column (or its absence) into store.json; removes the file of the one that was there.
        `written` is where the column's file lies so far."""
        with _editing(self.root) as m:
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
            if before is not None and before.file:
                (self.root / before.file).unlink(missing_ok=True)
        self.store._reload(self.name, self.type)
        if entry is None:
            return None
        return self.store.feature(self.name, self.type)


class _Draft:
    """A column being written, invisible to readers. Discarded unless published."""

    def __init__(self, target: _Target):
        self.target = target
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

    def publish(self) -> FeatureStore:
        final = self.folder.with_name(self.folder.name.removesuffix(".new") + ".gd")
        try:
            return self.target.publish(ColumnEntry(str(final.relative_to(self.target.root))), self.file)
        finally:
            self.discard()

    def discard(self) -> None:
        if self._lock is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._lock.release()
            self._lock = None

    def __enter__(self) -> _Draft:
        return self

    def __exit__(self, *_: Any) -> None:
        self.discard()


def _only(store: Store) -> str:
    if len(store.node_types) != 1:
        raise ValueError(f"{store.path}: name one of the node types {store.node_types} or of the edge types")
    return store.node_types[0]


@contextmanager
def _editing(root: Path) -> Iterator[Manifest]:
    """The manifest as it is now, which no one else can change until the block ends."""
    fd = os.open(root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        m = manifest.read(root)
        yield m
        _clean_up(root, manifest.read(root))
    finally:
        os.close(fd)


def _clean_up(root: Path, m: Manifest) -> None:
    """Removes what killed writers left: drafts that nobody holds, columns that never got into store.json."""
    named = {c.file for n in m.nodes.values() for c in (*n.columns.values(), *n.splits.values())}
    named |= {c.file for e in m.edges for c in e.columns.values()}
    for folder in [*root.glob("nodes/*"), *root.glob("edges/*")]:
        for path in folder.iterdir() if folder.is_dir() else ():
            if _PUBLISHED.fullmatch(path.name) and str(path.relative_to(root)) not in named:
                path.unlink(missing_ok=True)
            elif _DRAFT.fullmatch(path.name) and (lock := try_lock(path / "lock")) is not None:
                shutil.rmtree(path, ignore_errors=True)
                lock.release()


def _write_by_edge_id(
    draft: _Draft, name: str, value: Any, table: Any, dtype: str | None, graph: Graph, memory: int
) -> None:
    """Rows in the order of the original edges, written in the order of the topology."""
    column = combined(name, table, dtype)
    ids, positions = graph.edge_ids, graph.edge_positions
    assert ids is not None
    expected = len(positions) if positions is not None else graph.num_edges
    read, rows = _original_rows(draft, name, value, table, dtype, column)
    wrong = InputError(f"{table.name}: has {rows} rows, but the store was made from {expected} edges")
    if rows > expected:
        raise wrong

    def wanted(a: int, b: int) -> NDArray[np.int64]:
        """Self loops that the ingest added have ids after those of the input, and rows of zeros."""
        part = np.asarray(ids[a:b]).astype(np.int64)
        added = part >= rows
        if added.any():
            if not _are_loops(graph, a + np.flatnonzero(added)):
                raise wrong
            part[added] = -1
        return part

    writer = _engine.ColumnWriter(str(draft.file), column.dtype, list(column.shape))
    row = np.dtype((column.numpy, column.shape))
    if rows * row.itemsize <= memory // 4:
        whole, step = read(0, rows), max(1024, memory // 8 // (row.itemsize + 16))
        for a in range(0, graph.num_edges, step):
            part = wanted(a, min(graph.num_edges, a + step))
            out = whole[part] if rows else np.zeros((len(part), *column.shape), column.numpy)
            out[part < 0] = 0
            writer.append(out)
    else:
        for out in permuted(read, rows, wanted, graph.num_edges, row, draft.folder, memory):
            writer.append(out)
    writer.finish(graph.num_edges)


def _original_rows(
    draft: _Draft, name: str, value: Any, table: Any, dtype: str | None, column: Column
) -> tuple[Callable[[int, int], NDArray[Any]], int]:
    """A function that reads a range of rows, and how many there are. What is no array is spooled first."""
    if isinstance(value, np.ndarray) and value.dtype.name == column.dtype:
        return lambda a, b: np.ascontiguousarray(value[a:b]), len(value)
    spool = draft.folder / "original.gd"
    rows = write_column(spool, name, table, dtype)
    row = np.dtype((column.numpy, column.shape))

    def read(a: int, b: int) -> NDArray[Any]:
        # Not through a mapping: those expect random reads, and this is a sweep.
        if not row.itemsize:
            return np.zeros((b - a, *column.shape), column.numpy)
        return np.fromfile(spool, row, b - a, offset=PAGE + a * row.itemsize)

    return read, rows


def _are_loops(graph: Graph, positions: NDArray[np.int64]) -> bool:
    dst = np.searchsorted(graph.indptr, positions, "right") - 1
    return bool((graph.indices[positions] == dst).all())
