"""gz export: a store back to Parquet or .npy files, in bounded memory, with the spec that ingests them again.

OUT/graph.toml              gz ingest NEW --spec OUT/graph.toml makes an equal store
OUT/nodes/TYPE.parquet      the columns of a node type; or OUT/nodes/TYPE/NAME.npy
OUT/edges/A__R__B.parquet   src, dst and the columns of an edge type; or OUT/edges/A__R__B/edge_index.npy,
                            OUT/edges/A__R__B/NAME.npy

Edges come in the order they were ingested in where the store can tell (original edge ids are kept, and no
edge was added or dropped), else as they are stored: by destination. In Parquet, nodes with mapped ids go by
their original ids.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz._ingest.memory import parse_memory
from gz._ingest.place import new_store
from gz._ingest.spec import FileNames
from gz.feature import FeatureStore
from gz.graph import Graph
from gz.manifest import EdgeType
from gz.store import Store, open_store

__all__ = ["export"]


def export(
    path: str | os.PathLike[str] | Store,
    out: str | os.PathLike[str],
    format: str = "parquet",
    *,
    overwrite: bool = False,
    memory: str | int = "2GB",
) -> str:
    """Writes a store's nodes, edges, columns and splits to a folder of Parquet or .npy files.

    Args:
        path: the store.
        out: the folder to make; it appears complete or not at all.
        format: ``"parquet"`` or ``"npy"``. bfloat16, which neither knows, becomes float32.
        overwrite: replace OUT if it exists.
        memory: what the export may take.

    Returns:
        ``out``.
    """
    if format not in ("parquet", "npy"):
        raise ValueError(f"format={format!r}: choose 'parquet' or 'npy'")
    store = path if isinstance(path, Store) else open_store(path)
    budget = parse_memory(memory)
    with new_store(out, overwrite) as work:
        exporter = _Exporter(store, work.root, format == "parquet", budget)
        text = "\n".join([f"# gz ingest NEW --spec {Path(out).name}/graph.toml", *exporter.run(), ""])
        with open(work.root / "graph.toml", "w", encoding="utf-8") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
    return os.fspath(out)


Positions = NDArray[np.int64]


@dataclass
class _Part:
    """A column to write. read(first, last) gives its rows: an array, or a list of str."""

    name: str
    dtype: np.dtype[Any] | None  # None: text
    shape: tuple[int, ...]
    read: Callable[[int, int], Any]

    @property
    def row_bytes(self) -> int:
        return (
            int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize if self.dtype is not None else 64
        )


class _Exporter:
    def __init__(self, store: Store, root: Path, parquet: bool, memory: int):
        self.store, self.root, self.parquet, self.memory = store, root, parquet, memory
        self.names = FileNames()
        self.mapped = parquet and any(n.id_map is not None for n in store.manifest.nodes.values())

    def run(self) -> list[str]:
        """Writes all files; returns the lines of the spec."""
        lines = [f"ids = {_toml('map' if self.mapped else 'dense')}"]
        if self.store.is_homogeneous:
            lines.append("homogeneous = true")
        if self.store.manifest.meta:
            lines.append(f"meta = {_toml(self.store.manifest.meta)}")
        for t in self.store.node_types:
            lines += self._nodes(t)
        for edge_type in self.store.edge_types:
            lines += self._edges(edge_type)
        return lines

    # ---- nodes ----

    def _nodes(self, t: str) -> list[str]:
        store, rows = self.store, self.store.num_nodes(t)
        parts = [_column_part(name, store.feature(name, t)) for name in store.node_columns(t)]
        has_ids = store.manifest.nodes[t].id_map is not None
        id_name = _unused("id", [p.name for p in parts])
        if has_ids:
            parts.insert(0, self._keys(id_name, t, lambda a, b: np.arange(a, b)))
        lines = ["", f"[nodes.{_toml(t)}]", f"num_nodes = {rows}"]
        files = self._write(self.names.get("nodes", t), rows, parts)
        if has_ids:
            where = files.pop(id_name)
            if self.mapped:
                lines.append(f"ids = {_toml({'file': where['file'], 'column': id_name})}")
        if files:
            lines += [f"[nodes.{_toml(t)}.features]", *(f"{_toml(n)} = {_toml(f)}" for n, f in files.items())]
        splits = {name: self._split(name, t) for name in store.splits(t)}
        if splits:
            lines += [f"[nodes.{_toml(t)}.splits]", *(f"{_toml(n)} = {_toml(f)}" for n, f in splits.items())]
        return lines

    def _split(self, name: str, t: str) -> Any:
        ids = self.store.split(name, t)
        base = self.names.get("nodes", f"{t}-split-{name}")
        if self.mapped:
            return self._write(base, len(ids), [self._keys("id", t, lambda a, b: ids[a:b])])["id"]["file"]
        part = _Part("ids", np.dtype(np.int64), (), lambda a, b: ids[a:b])
        return _write_npy(self.root, base, len(ids), [part], self._step([part]))["ids"]

    def _keys(self, name: str, t: str, dense: Callable[[int, int], Any]) -> _Part:
        """Nodes by their original ids."""
        ids = self.store.id_map(t)
        return _Part(
            name,
            np.dtype(np.int64) if ids.kind == "int" else None,
            (),
            lambda a, b: ids.to_original(dense(a, b)),
        )

    # ---- edges ----

    def _edges(self, t: EdgeType) -> list[str]:
        graph, entry = self.store.graph(t), self.store.manifest.edge(t)
        order = _Order(graph)
        columns = {name: self.store.edge_feature(name, t) for name in entry.columns}
        weight = _weight_column(graph, columns)
        parts = [
            _Part(name, _written(c.dtype), c.shape[1:], _reader(c, order)) for name, c in columns.items()
        ]
        if graph.has_weights and weight is None:
            weight, weights = _unused("weight", columns), graph.weights
            assert weights is not None
            parts.append(_Part(weight, np.dtype(np.float32), (), lambda a, b: weights[order.positions(a, b)]))
        kept = [p.name for p in parts]
        ids = graph.edge_ids
        if ids is not None and not order.original:
            name = _unused("edge_id", kept)
            parts.append(_Part(name, np.dtype(np.int64), (), lambda a, b: ids[a:b].astype(np.int64)))
        ends = [_unused(n, kept) for n in ("src", "dst")]
        i64 = np.dtype(np.int64)
        parts[:0] = [
            _Part(ends[0], i64, (), lambda a, b: order.ends(a, b)[0]),
            _Part(ends[1], i64, (), lambda a, b: order.ends(a, b)[1]),
        ]
        if self.mapped:
            parts[0] = self._keys(ends[0], t[0], lambda a, b: order.ends(a, b)[0])
            parts[1] = self._keys(ends[1], t[2], lambda a, b: order.ends(a, b)[1])
        files = self._write(self.names.get("edges", "__".join(t)), graph.num_edges, parts, ends)
        lines = ["", "[[edges]]", f"type = {_toml(list(t))}"]
        if self.parquet:
            lines += [
                f"file = {_toml(files[ends[0]]['file'])}",
                f"columns = {_toml(ends)}",
                f"edge_columns = {_toml(kept)}",
            ]
        else:
            lines.append(f"file = {_toml(files['edge_index'])}")
            if kept:
                lines.append(f"features = {_toml({n: files[n] for n in kept})}")
        lines.append(f"neighbor_order = {_toml('id' if graph.sorted else 'input')}")
        lines.append(f"keep_edge_ids = {_toml(ids is not None)}")
        if entry.out_file is not None:
            lines.append('directions = "both"')
        if weight is not None:
            lines.append(f"weight = {_toml(weight)}")
        return lines

    # ---- files ----

    def _step(self, parts: list[_Part]) -> int:
        return max(1024, self.memory // 8 // (32 + sum(2 * p.row_bytes for p in parts)))

    def _write(
        self, base: str, rows: int, parts: list[_Part], ends: list[str] | None = None
    ) -> dict[str, Any]:
        step = self._step(parts)
        if self.parquet:
            return _write_parquet(self.root, base, rows, parts, step)
        return _write_npy(self.root, base, rows, parts, step, ends)


class _Order:
    """The order edges are written in, and their ends."""

    def __init__(self, graph: Graph):
        self._graph = graph
        positions = graph.edge_positions
        self.original = positions is not None and len(positions) == graph.num_edges
        self._positions = positions
        self._last: tuple[tuple[int, int], Any] | None = None

    def positions(self, a: int, b: int) -> Positions:
        if self.original and self._positions is not None:
            return self._positions[a:b].astype(np.int64)
        return np.arange(a, b, dtype=np.int64)

    def ends(self, a: int, b: int) -> tuple[Positions, Positions]:
        if self._last is None or self._last[0] != (a, b):
            self._last = (a, b), self._find(a, b)
        return self._last[1]

    def _find(self, a: int, b: int) -> tuple[Positions, Positions]:
        g = self._graph
        if self.original:
            p = self.positions(a, b)
            by_place = np.argsort(p)
            dst = np.empty(b - a, np.int64)
            dst[by_place] = np.searchsorted(g.indptr, p[by_place], "right") - 1
            return g.indices[p].astype(np.int64), dst
        first = int(np.searchsorted(g.indptr, a, "right")) - 1
        last = int(np.searchsorted(g.indptr, b, "left"))
        counts = np.diff(np.clip(g.indptr[first : last + 1], a, b))
        return g.indices[a:b].astype(np.int64), np.repeat(np.arange(first, last), counts.astype(np.int64))


def _reader(column: FeatureStore, order: _Order) -> Callable[[int, int], Any]:
    if order.original:
        return lambda a, b: _values(column.gather(order.positions(a, b)), column.dtype)
    return lambda a, b: _values(column.get_tensor()[a:b], column.dtype)


def _column_part(name: str, column: FeatureStore) -> _Part:
    rows = column.get_tensor()
    return _Part(
        name, _written(column.dtype), column.shape[1:], lambda a, b: _values(rows[a:b], column.dtype)
    )


def _written(dtype: str) -> np.dtype[Any]:
    return np.dtype("float32" if dtype == "bfloat16" else dtype)


def _values(a: NDArray[Any], dtype: str) -> NDArray[Any]:
    return (a.astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else a


def _weight_column(graph: Graph, columns: dict[str, FeatureStore]) -> str | None:
    """store.json does not say which column the weights came from: the one that holds the same numbers."""
    weights = graph.weights
    if weights is None:
        return None
    for name, c in columns.items():
        if len(c.shape) == 1 and c.dtype != "bfloat16":
            step = 1 << 20
            rows = c.get_tensor()
            if all(
                np.array_equal(rows[a : a + step].astype(np.float32), weights[a : a + step])
                for a in range(0, len(rows), step)
            ):
                return name
    return None


def _unused(name: str, taken: Any) -> str:
    while name in taken:
        name += "_"
    return name


def _write_npy(
    root: Path, base: str, rows: int, parts: list[_Part], step: int, ends: list[str] | None = None
) -> dict[str, Any]:
    """A file for each part; the two ends of edges go to one, edge_index.npy, [2, rows]."""
    (root / base).mkdir(parents=True, exist_ok=True)
    names = FileNames()
    files: dict[str, Any] = {}
    places: list[tuple[Any, int]] = []  # by part: the file, and where in it the first row lies
    with ExitStack() as stack:
        for part in parts:
            if ends and part.name == ends[1]:
                f, at = places[0]
                places.append((f, at + rows * part.row_bytes))
                continue
            joined = bool(ends) and part.name == ends[0]  # type: ignore[index]
            key = "edge_index" if joined else part.name
            files[key] = names.get(base, key, ".npy" if part.dtype is not None else ".csv")
            f = stack.enter_context(open(root / files[key], "wb"))
            if part.dtype is None:  # there is no .npy of text
                f.write(f'"{part.name}"\n'.encode())
            else:
                shape = (2, rows) if joined else (rows, *part.shape)
                header = {"descr": part.dtype.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(f, header)
            f.flush()
            places.append((f, f.tell()))
        for a in range(0, rows, step):
            b = min(rows, a + step)
            for part, (f, first) in zip(parts, places, strict=True):
                values = part.read(a, b)
                if part.dtype is None:
                    f.write("".join('"' + v.replace('"', '""') + '"\n' for v in values).encode())
                else:
                    _pwrite(f, first + a * part.row_bytes, np.ascontiguousarray(values, part.dtype))
        for f in {id(f): f for f, _ in places}.values():
            f.flush()
            os.fsync(f.fileno())
    return files


def _pwrite(f: Any, at: int, values: NDArray[Any]) -> None:
    view = memoryview(values.reshape(-1).view(np.uint8)) if values.nbytes else memoryview(b"")  # type: ignore[arg-type]
    while len(view):
        n = os.pwrite(f.fileno(), view[: 1 << 30], at)
        view, at = view[n:], at + n


def _write_parquet(root: Path, base: str, rows: int, parts: list[_Part], step: int) -> dict[str, Any]:
    """One file for all parts, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = f"{base}.parquet"
    if not parts:
        return {}
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([(p.name, _arrow_type(p, pa)) for p in parts])
    with open(root / file, "wb") as f:
        # Ids and floats are too varied for a dictionary, and plain pages read fastest.
        with pq.ParquetWriter(f, schema, use_dictionary=False) as writer:
            for a in range(0, rows, step):
                b = min(rows, a + step)
                arrays = [
                    _arrow_array(p.read(a, b), p, t, pa) for p, t in zip(parts, schema.types, strict=True)
                ]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=step)
        f.flush()
        os.fsync(f.fileno())
    return {p.name: {"file": file, "columns": [p.name]} for p in parts}


def _arrow_type(p: _Part, pa: Any) -> Any:
    if p.dtype is None:
        return pa.large_string()
    if len(p.shape) > 1:
        raise ValueError(
            f"column {p.name!r} has rows of shape {p.shape}, which Parquet cannot hold; export to npy"
        )
    inner = pa.from_numpy_dtype(p.dtype)
    return pa.list_(inner, p.shape[0]) if p.shape else inner


def _arrow_array(values: Any, p: _Part, t: Any, pa: Any) -> Any:
    if p.dtype is None:
        return pa.array(values, t)
    flat = pa.array(np.ascontiguousarray(values, p.dtype).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, type=t) if p.shape else flat


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{_toml(str(k))} = {_toml(v)}" for k, v in value.items() if v is not None) + "}"
        )
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(v) for v in value if v is not None) + "]"
    return json.dumps(value)
