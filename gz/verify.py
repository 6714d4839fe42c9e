"""Checks whole stores: every checksum and every rule of docs/format.md. What `gz verify` runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz import _engine
from gz._base.arrays import first_outside
from gz._base.files import Folder
from gz._base.memory_plan import Share
from gz.feature import FeatureStore
from gz.manifest import FILE_NAME, ID_MAP_FILES, ColumnEntry, EdgeEntry
from gz.store import Store, open_store

Check = tuple[str, Callable[[], object]]
_STEP = 1 << 20  # rows looked at at once, so that memory stays bounded
_ROW_BYTES = 1 << 24  # compared at once
_LISTS = 1 << 14  # likewise


def verify(path: str | os.PathLike[str]) -> Iterator[tuple[str, Exception | None]]:
    """Checks a store, or one .gl or .gd file: yields each file's path and what is wrong with it, or None.

    Goes on after a damaged file, so that one run shows all the damage. Reads every byte.
    """
    for name, check in _checks(os.fspath(path)):
        try:
            with _engine.PageGuard():
                check()
        except Exception as e:  # whatever a damaged file leads to, the next one is looked at
            yield name, e
        else:
            yield name, None


def _checks(path: str) -> Iterator[Check]:
    if os.path.isfile(path):
        yield _file(path)
        return
    try:
        store = open_store(path)
        store._files.copies = False  # topologies are looked at by themselves
    except _engine.FormatError as e:
        yield os.path.join(path, FILE_NAME), partial(_raise, e)
        for folder, _, files in sorted(os.walk(path)):  # nothing says what they are for; they may be sound
            yield from (_file(os.path.join(folder, f)) for f in sorted(files) if f.endswith((".gl", ".gd")))
        return
    yield from _store(store)


def _raise(e: Exception) -> None:
    raise e


def _file(path: str) -> Check:
    """A file on its own."""
    if path.endswith(".npy"):  # foreign: it has no checksum, only a shape to hold to
        return path, partial(FeatureStore, path)
    return path, partial(_engine.verify_topology if path.endswith(".gl") else _engine.verify_feature, path)


def _file_of(store: Store, file: str) -> None:
    """A file of a store, through its folder: no link is followed."""
    check = _engine.verify_topology if file.endswith(".gl") else _engine.verify_feature
    with Folder(store.path).opened(file) as fd:
        check(os.path.join(store.path, file), fd)


def _all(*checks: Callable[[], object]) -> None:
    for check in checks:
        check()


def _store(store: Store) -> Iterator[Check]:
    def checked(column: ColumnEntry, *more: Callable[[], object]) -> Check:
        path = str(column.path(store.path))
        first = _file(path)[1] if column.file is None else partial(_file_of, store, column.file)
        return path, partial(_all, first, *more)

    for t, node in store.manifest.nodes.items():
        for name, column in node.columns.items():
            yield checked(column, partial(_codes, store.feature, name, t, column))
            if column.hot is not None:
                yield from _hot(store, column)
        for name, column in node.splits.items():
            yield checked(column, partial(_split, store, name, t))
        if node.id_map is not None:
            for part in ID_MAP_FILES[node.id_map["kind"]]:
                file = node.id_map[part]
                yield os.path.join(store.path, file), partial(_file_of, store, file)
            yield f"{store.path} (ids of {t!r})", partial(_id_map, store, t)
    for edge in store.manifest.edges:
        yield from _topologies(store, edge)
        for name, column in edge.columns.items():
            yield checked(column, partial(_codes, store.edge_feature, name, edge.type, column))
            if column.hot is not None:
                yield from _hot(store, column)
    for split, columns in store.manifest.edge_splits.items():
        for key, column in columns.items():
            yield checked(column, partial(_edge_split, store, split, key, column))


def _opened(store: Store, file: str) -> FeatureStore:
    """A file of the store that no other belongs to, as it lies."""
    with Folder(store.path).opened(file) as fd:
        found = FeatureStore(os.path.join(store.path, file), 0, _share=Share(), _opened=fd)
    stated = store.manifest.files.get(file)
    if stated is not None and stated != found.version:
        raise _engine.FormatError(f"{found.path}: is not the file that store.json names")
    return found


def _hot_ids(ids: FeatureStore, limit: int, what: str, among: str) -> NDArray[Any]:
    """A list of distinct numbers below `limit`."""
    if ids.dtype not in ("int32", "int64") or len(ids.shape) != 1:
        raise _engine.FormatError(
            f"{ids.path}: {what} that are hot must be a list of int32 or int64, not {ids.dtype} of "
            f"shape {ids.shape}"
        )
    rows, seen = ids.get_tensor(), np.zeros(limit, bool)
    _check_range(rows, limit, ids.path, among)
    for begin in range(0, len(rows), _STEP):
        seen[rows[begin : begin + _STEP]] = True
    if (named := int(seen.sum())) != len(rows):
        raise _engine.FormatError(f"{ids.path}: names {named} in {len(rows)} places: one twice")
    return rows


def _hot(store: Store, column: ColumnEntry) -> Iterator[Check]:
    """The rows of a column that a store holds once more: each once, and those that the column has."""
    assert column.hot is not None
    files = column.hot.rows

    def check_ids(file: str) -> None:
        _file_of(store, file)
        ids = _opened(store, file)
        rows = _hot_ids(ids, len(_opened(store, column.file or "")), "the rows", "rows in the column")
        lying = sum(len(_opened(store, f)) for f in files)
        if lying != len(rows):
            raise _engine.FormatError(
                f"{ids.path}: names {len(rows)} rows, but {lying} lie in the files of rows"
            )

    def check_rows(file: str, before: list[str]) -> None:
        _file_of(store, file)
        hot, whole = _opened(store, file), _opened(store, column.file or "")
        if (hot.dtype, hot.stored, hot.shape[1:]) != (whole.dtype, whole.stored, whole.shape[1:]):
            raise _engine.FormatError(
                f"{hot.path}: rows that are hot must have the dtype and shape of their column, "
                f"{whole.stored} {whole.shape[1:]}, not {hot.stored} {hot.shape[1:]}"
            )
        ids = _opened(store, column.hot.ids if column.hot else "")
        first = sum(len(_opened(store, f)) for f in before)
        step = max(1, _ROW_BYTES // max(1, hot.nbytes // max(1, len(hot))))
        for a in range(0, len(hot), step):
            b = min(len(hot), a + step)
            rows = ids.gather(np.arange(first + a, first + b)).astype(np.int64)
            if hot._stored_rows(a, b).tobytes() != whole._file.gather(rows, whole.stored).tobytes():
                raise _engine.FormatError(f"{hot.path}: a row of {a} to {b} is not what the column has")

    yield os.path.join(store.path, column.hot.ids), partial(check_ids, column.hot.ids)
    for i, file in enumerate(files):
        yield os.path.join(store.path, file), partial(check_rows, file, files[:i])


def _hot_lists(store: Store, edge: EdgeEntry) -> Iterator[Check]:
    """The lists of a topology that a store holds once more: each once, and those that the topology has."""
    hot = edge.hot
    assert hot is not None

    def nodes() -> int:
        return store.graph(edge.type).num_nodes  # which has been compared with store.json

    def check_ids() -> None:
        _file_of(store, hot.ids)
        _hot_ids(_opened(store, hot.ids), nodes(), "the nodes whose lists", "nodes")

    def check_starts() -> None:
        _file_of(store, hot.starts)
        starts, count = _opened(store, hot.starts), len(_opened(store, hot.ids))
        if starts.dtype != "int64" or starts.shape != (count, 2):
            raise _engine.FormatError(
                f"{starts.path}: where {count} lists begin must be int64 of shape ({count}, 2), not "
                f"{starts.dtype} of shape {starts.shape}"
            )

    def check_lists() -> None:
        _file_of(store, hot.lists)
        copy, graph = _opened(store, hot.lists), store.graph(edge.type)
        if copy.dtype != f"int{8 * graph.indices.dtype.itemsize}" or len(copy.shape) != 1:
            raise _engine.FormatError(
                f"{copy.path}: lists that are hot must have the width of the topology's, not {copy.dtype} of "
                f"shape {copy.shape}"
            )
        check_starts()
        ids = _hot_ids(_opened(store, hot.ids), nodes(), "the nodes whose lists", "nodes")
        starts, entries = _opened(store, hot.starts).get_tensor(), copy.get_tensor()
        entries = entries.view(graph.indices.dtype)
        a = end = 0
        while a < len(ids):
            part = ids[a : a + _LISTS].astype(np.int64)
            ends = end + np.cumsum(graph.degree(part))
            count = max(1, int(np.searchsorted(ends, end + _ROW_BYTES // 8, "right")))
            part, ends, (begins, copied) = part[:count], ends[:count], starts[a : a + count].T
            found = graph._topology.lists(part)
            if not np.array_equal(copied, [end, *ends[:-1]]) or not np.array_equal(begins, found.begins):
                raise _engine.FormatError(f"{starts_path}: a list of {a} to {a + count} does not begin there")
            if not np.array_equal(entries[end : ends[-1]], found.ids.view(entries.dtype)):
                raise _engine.FormatError(
                    f"{copy.path}: a list of {a} to {a + count} is not what the topology has"
                )
            a, end = a + count, int(ends[-1])
        if end != len(entries):
            raise _engine.FormatError(f"{copy.path}: has {len(entries)} entries, but its lists have {end}")

    starts_path = os.path.join(store.path, hot.starts)
    yield os.path.join(store.path, hot.ids), check_ids
    yield starts_path, check_starts
    yield os.path.join(store.path, hot.lists), check_lists


def _topologies(store: Store, edge: EdgeEntry) -> Iterator[Check]:
    sound: set[str] = set()

    def check(direction: str, file: str) -> None:
        _file_of(store, file)
        _topology(store, edge, direction)
        sound.add(direction)
        if sound == {"in", "out"}:  # else it is the other that is damaged
            in_file, folder = edge.in_file or "", Folder(store.path)
            in_path, out_path = os.path.join(store.path, in_file), os.path.join(store.path, file)
            with folder.opened(in_file) as a, folder.opened(file) as b:
                _engine.verify_pair(in_path, out_path, a, b)

    for direction, file in (("in", edge.in_file), ("out", edge.out_file)):
        if file is not None:
            yield os.path.join(store.path, file), partial(check, direction, file)
    if edge.hot is not None:
        yield from _hot_lists(store, edge)


def _topology(store: Store, edge: EdgeEntry, direction: str) -> None:
    """Opening compares the file with what store.json says of it, but for what its edges are called."""
    graph = store.graph(edge.type, direction)
    named = graph.edge_positions is not None
    if (direction == "in" or edge.in_file is None) and named != (edge.edge_ids == "original"):
        raise _engine.FormatError(
            f"{graph.path}: {'keeps' if named else 'has no'} original edge ids, but store.json says "
            f'"{edge.edge_ids}"'
        )


def _check_range(ids: NDArray[Any], limit: int, where: str, what: str) -> None:
    for begin in range(0, len(ids), _STEP):
        i = first_outside(ids[begin : begin + _STEP], limit)
        if i is not None:
            raise _engine.FormatError(
                f"{where}: row {begin + i} is {ids[begin + i]}, but there are {limit} {what}"
            )


def _codes(opened: Callable[..., FeatureStore], name: str, t: Any, column: ColumnEntry) -> None:
    """Opening compares the file with what store.json says of it, but for the names of its codes."""
    rows = opened(name, t)
    if column.names is not None:
        _check_names(rows, column.names, rows.path)


def _check_names(column: FeatureStore, names: list[str], where: str) -> None:
    rows = column.get_tensor()
    if rows.dtype.kind not in "iu" or rows.ndim != 1:
        raise _engine.FormatError(
            f"{where}: its rows are positions in a list of names, and {column.dtype} of shape {column.shape} "
            "are none"
        )
    _check_range(rows, len(names), where, "names")


def _split(store: Store, name: str, t: str) -> None:
    where = f"{store.path}: split {name!r} of {t!r}"
    _check_range(store.split(name, t), store.num_nodes(t), where, "nodes")


def _edge_split(store: Store, split: str, key: str, column: ColumnEntry) -> None:
    rows = store.edge_split_column(split, key)
    if column.names is not None:
        _check_names(rows, column.names, f"{store.path}: edge split {split!r}: {key!r}")


def _id_map(store: Store, t: str) -> None:
    store.id_map(t).check()
