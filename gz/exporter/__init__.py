"""gz export: a store back to Parquet or .npy files, in bounded memory, with the spec that ingests them again.

OUT/graph.toml              gz ingest NEW --spec OUT/graph.toml makes an equal store
OUT/nodes/TYPE.parquet      the columns of a node type; or OUT/nodes/TYPE/NAME.npy
OUT/edges/A__R__B.parquet   src, dst and the columns of an edge type; or OUT/edges/A__R__B/edge_index.npy,
                            OUT/edges/A__R__B/NAME.npy
OUT/splits/SPLIT/NAME/      what a link-prediction split holds, always as .npy

Edges come in the order they were ingested in where the store can tell (original edge ids are kept, and no
edge was added or dropped), else as they are stored: by destination, or by source where only that is. In
Parquet, nodes with mapped ids go by their original ids, codes are the text they stand for, and times have
their type; .npy has the numbers, and the spec says what they mean.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz._base.arrays import first_outside, numpy_dtype
from gz._base.files import FileNames
from gz._base.place import new_store, temporary_folder
from gz._base.replace import EXPORT, EXPORT_FILES, EXPORT_HEAD
from gz._base.sizes import parse_memory
from gz._engine import FormatError, PageGuard
from gz._ingest.write.permute import permuted
from gz.exporter.files import Chunks, Part, write_npy, write_parquet
from gz.feature import FeatureStore
from gz.graph import Graph
from gz.manifest import ColumnEntry, EdgeType
from gz.store import Store, open_store

__all__ = ["export", "weight_column"]


def export(
    path: str | os.PathLike[str] | Store,
    out: str | os.PathLike[str],
    format: str = "parquet",
    *,
    overwrite: bool = False,
    memory: str | int = "2GB",
    tmp: str | os.PathLike[str] | None = None,
) -> str:
    """Writes a store's nodes, edges, columns and splits to a folder of Parquet or .npy files.

    Args:
        path: the store.
        out: the folder to make; it appears complete or not at all.
        format: ``"parquet"`` or ``"npy"``. bfloat16, which neither knows, becomes float32.
        overwrite: replace OUT if it is an export that holds nothing else.
        memory: what the export may take.
        tmp: a folder for temporary files; by default they lie beside OUT.

    Returns:
        ``out``.
    """
    if format not in ("parquet", "npy"):
        raise ValueError(f"format={format!r}: choose 'parquet' or 'npy'")
    store = path if isinstance(path, Store) else open_store(path)
    budget = parse_memory(memory)
    with new_store(out, overwrite, kind=EXPORT) as work:
        exporter = _Exporter(store, work.root, format == "parquet", budget, temporary_folder(tmp))
        lines = exporter.run()
        made = sorted(str(p.relative_to(work.root)) for p in work.root.rglob("*") if p.is_file())
        head = [f"{EXPORT_HEAD}{Path(out).name}/graph.toml", f"{EXPORT_FILES}{json.dumps(made)}"]
        text = "\n".join([*head, *lines, ""])
        with open(work.root / "graph.toml", "w", encoding="utf-8") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
    return os.fspath(out)


_ID = "\0id"  # no column is called so


class _Exporter:
    def __init__(self, store: Store, root: Path, parquet: bool, memory: int, tmp: Path | None):
        self._tmp = tmp or root
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
        for split in self.store.edge_splits():
            lines += self._edge_split(split)
        return lines

    # ---- nodes ----

    def _nodes(self, t: str) -> list[str]:
        store, rows = self.store, self.store.num_nodes(t)
        entry = store.manifest.nodes[t]
        columns = {name: store.feature(name, t) for name in store.node_columns(t)}
        parts = [_part(name, c, entry.columns[name]) for name, c in columns.items()]
        has_ids = entry.id_map is not None
        id_name = _unused("id", columns)
        id_part = Part(id_name, self._key_dtype(t) if has_ids else None)
        if has_ids and self._together(id_part):
            parts.insert(0, id_part)

        def chunks() -> Chunks:
            for a, b in self._ranges(rows, parts):
                out = {n: _values(c.gather(np.arange(a, b)), c.dtype) for n, c in columns.items()}
                if id_part in parts:
                    out[id_name] = store.id_map(t).to_original(np.arange(a, b))
                yield out

        lines = ["", f"[nodes.{_toml(t)}]", f"num_nodes = {rows}"]
        base = self.names.get("nodes", t)
        files = self._write(base, rows, parts, chunks())
        if has_ids:
            where = files.pop(id_name, None) or self._text_ids(base, t, id_part)
            ids = {"file": where["file"], "id": id_name} if isinstance(where, dict) else where
            lines.append(f"{'ids' if self.mapped else 'original_ids'} = {_toml(ids)}")
        if columns:
            told = {p.name: p.described(files[p.name]) for p in parts if p is not id_part}
            lines += [f"[nodes.{_toml(t)}.features]", *(f"{_toml(n)} = {_toml(f)}" for n, f in told.items())]
        splits = {name: self._split(name, t) for name in store.splits(t)}
        if splits:
            lines += [f"[nodes.{_toml(t)}.splits]", *(f"{_toml(n)} = {_toml(f)}" for n, f in splits.items())]
        return lines

    def _together(self, part: Part) -> bool:
        """Whether a part can lie where the others do: there is no .npy of text."""
        return self.parquet or part.dtype is not None

    def _text_ids(self, base: str, t: str, part: Part) -> dict[str, Any]:
        ids = self.store.id_map(t)
        ranges = self._ranges(len(ids), [part])
        chunks = ({part.name: ids.to_original(np.arange(a, b))} for a, b in ranges)
        found: dict[str, Any] = write_parquet(self.root, f"{base}/{part.name}", [part], chunks)[part.name]
        return found

    def _split(self, name: str, t: str) -> Any:
        ids = self.store.split(name, t)
        base = self.names.get("nodes", f"{t}-split-{name}")
        part = Part("id", self._key_dtype(t) if self.mapped else np.dtype(np.int64))

        def chunks() -> Chunks:
            for a, b in self._ranges(len(ids), [part]):
                yield {"id": self.store.id_map(t).to_original(ids[a:b]) if self.mapped else ids[a:b]}

        if self.mapped:
            return self._write(base, len(ids), [part], chunks())["id"]["file"]
        return write_npy(self.root, base, len(ids), [part], chunks())["id"]

    def _key_dtype(self, t: str) -> np.dtype[Any] | None:
        return np.dtype(np.int64) if self.store.id_map(t).kind == "int" else None

    # ---- edges ----

    def _edges(self, t: EdgeType) -> list[str]:
        graph, entry = self.store._ordering(t), self.store.manifest.edge(t)
        edges = _Edges(
            graph, {name: self.store.edge_feature(name, t) for name in entry.columns}, entry.columns
        )
        parts = edges.parts
        src, dst = edges.ends
        if self.mapped:
            parts[0].dtype, parts[1].dtype = self._key_dtype(t[0]), self._key_dtype(t[2])

        def chunks() -> Chunks:
            with tempfile.TemporaryDirectory(dir=self._tmp) as folder:
                for out in edges.chunks(self._step(parts), Path(folder), self.memory):
                    if self.mapped:
                        out[src] = self.store.id_map(t[0]).to_original(out[src])
                        out[dst] = self.store.id_map(t[2]).to_original(out[dst])
                    yield out

        files = self._write(
            self.names.get("edges", "__".join(t)), graph.num_edges, parts, chunks(), [src, dst]
        )
        lines = ["", "[[edges]]", f"type = {_toml(list(t))}"]
        if self.parquet:
            lines += [
                f"file = {_toml(files[src]['file'])}",
                f"ends = {_toml([src, dst])}",
                f"columns = {_toml(edges.kept)}",
            ]
            for key, of in (("categories", "names"), ("units", "unit")):
                named = {p.name: value for p in parts if (value := getattr(p, of)) is not None}
                lines += [f"{key} = {_toml(named)}"] if named else []
        else:
            lines.append(f"file = {_toml(files['edge_index'])}")
            if edges.kept:
                told = {p.name: p.described(files[p.name]) for p in parts if p.name in edges.kept}
                lines.append(f"features = {_toml(told)}")
        lines.append(f"neighbor_order = {_toml('id' if graph.sorted else 'input')}")
        lines.append(f"keep_edge_ids = {_toml(graph.edge_ids is not None)}")
        if entry.out_file is not None:
            lines.append(f"directions = {_toml('both' if entry.in_file else 'out')}")
        if edges.weight is not None:
            lines.append(f"weight = {_toml(edges.weight)}")
        return lines

    def _edge_split(self, split: str) -> list[str]:
        """Always .npy: the arrays of a split differ in length and rank, and hold dense ids."""
        lines = ["", f"[edge_splits.{_toml(split)}]"]
        folder = self.names.get("splits", split)
        for key, (rows, names) in self.store._edge_split_columns(split).items():
            part = Part(key, rows.dtype, rows.shape[1:])
            chunks = ({key: rows[a:b]} for a, b in self._ranges(len(rows), [part]))
            file = write_npy(self.root, self.names.get(folder, key), len(rows), [part], chunks)[key]
            lines.append(f"{_toml(key)} = {_toml({'file': file, 'names': names} if names else file)}")
        return lines

    # ---- files ----

    def _step(self, parts: list[Part]) -> int:
        return max(1024, self.memory // 8 // (32 + sum(2 * p.row_bytes for p in parts)))

    def _ranges(self, rows: int, parts: list[Part]) -> Iterator[tuple[int, int]]:
        step = self._step(parts)
        return ((a, min(rows, a + step)) for a in range(0, rows, step))

    def _write(
        self, base: str, rows: int, parts: list[Part], chunks: Chunks, ends: list[str] | None = None
    ) -> dict[str, Any]:
        if self.parquet:
            return write_parquet(self.root, base, parts, chunks)
        return write_npy(self.root, base, rows, parts, chunks, ends)


class _Edges:
    """The edges of a type with all that goes with them, in the order they are written in."""

    def __init__(self, graph: Graph, columns: dict[str, FeatureStore], entries: dict[str, ColumnEntry]):
        self._graph, self._columns = graph, columns
        positions = graph.edge_positions
        self._positions = positions if positions is not None and len(positions) == graph.num_edges else None
        self.kept = list(columns)
        self.weight = weight_column(graph, columns)
        self._own_weight = None
        i64 = np.dtype(np.int64)
        self.parts = [_part(name, c, entries[name]) for name, c in columns.items()]
        if graph.has_weights and self.weight is None:
            self.weight = self._own_weight = _unused("weight", self.kept)
            self.kept.append(self.weight)
            self.parts.append(Part(self.weight, np.dtype(np.float32)))
        self._id_name = None
        if graph.edge_ids is not None and self._positions is None:
            self._id_name = _unused("edge_id", self.kept)
            self.parts.append(Part(self._id_name, i64))
        self.ends = _unused("src", self.kept), _unused("dst", self.kept)
        self.parts[:0] = [Part(self.ends[0], i64), Part(self.ends[1], i64)]

    def chunks(self, step: int, folder: Path, memory: int) -> Chunks:
        n = self._graph.num_edges
        self._check_lists()
        if self._positions is None:
            for a in range(0, n, step):
                yield self._shown(self._stored(a, min(n, a + step)))
            return
        # With the ids: rows that a damaged file sends elsewhere are seen to be others.
        fields: list[Any] = [(name, "<i8", ()) for name in (*self.ends, _ID)]
        fields += [(name, str(numpy_dtype(c.dtype)), c.shape[1:]) for name, c in self._columns.items()]
        if self._own_weight is not None:
            fields.append((self._own_weight, "<f4", ()))
        row, positions = np.dtype(fields), self._positions

        def read(a: int, b: int) -> NDArray[Any]:
            out = np.empty(b - a, row)
            for name, values in (self._stored(a, b) | {_ID: self._ids(a, b)}).items():
                out[name] = values
            return out

        def places(a: int, b: int) -> NDArray[np.int64]:
            with PageGuard():
                return self._below(positions[a:b].astype(np.int64), n, a, "edge position")

        at = 0
        for rows in permuted(read, n, places, n, row, folder, memory):
            wrong = np.flatnonzero(rows[_ID] != np.arange(at, at + len(rows)))
            if len(wrong):
                raise self._damaged(
                    f"the position of edge id {at + wrong[0]} is not where an edge with it lies"
                )
            at += len(rows)
            yield self._shown({name: rows[name] for name in row.names or () if name != _ID})

    def _stored(self, a: int, b: int) -> dict[str, Any]:
        """Edges at positions a to b of the topology."""
        g = self._graph
        with PageGuard():
            first = int(np.searchsorted(g.indptr, a, "right")) - 1
            last = int(np.searchsorted(g.indptr, b, "left"))
            counts = np.diff(np.clip(g.indptr[first : last + 1], a, b)).astype(np.int64)
            near = g.indices[a:b].astype(np.int64)
            own, other = self.ends if g.direction == "out" else self.ends[::-1]
            limit = g.num_dst if g.direction == "out" else g.num_src
            out: dict[str, Any] = {other: self._below(near, limit, a, "neighbour")}
            if self._own_weight is not None and g.weights is not None:
                out[self._own_weight] = g.weights[a:b].copy()
        if self._id_name is not None:
            out[self._id_name] = self._ids(a, b)
        out[own] = np.repeat(np.arange(first, last), counts)
        return out | {name: c.gather(np.arange(a, b)) for name, c in self._columns.items()}

    def _ids(self, a: int, b: int) -> NDArray[np.int64]:
        ids = self._graph.edge_ids
        assert ids is not None
        with PageGuard():
            return self._below(ids[a:b].astype(np.int64), self._graph._topology.num_edge_ids, a, "edge id")

    def _check_lists(self) -> None:
        """That they lie one after the other, without which nothing below finds the owner of an edge."""
        indptr, step = self._graph.indptr, 1 << 20
        for begin in range(0, len(indptr), step):
            with PageGuard():
                block = indptr[begin : begin + step + 1]
                wrong = np.flatnonzero(block[1:] < block[:-1])
            if len(wrong):
                raise self._damaged(f"indptr of node {begin + wrong[0]} is damaged")

    def _below(self, ids: NDArray[np.int64], limit: int, first: int, what: str) -> NDArray[np.int64]:
        if (i := first_outside(ids, limit)) is not None:
            raise self._damaged(f"the {what} at {first + i} is {ids[i]}, but there are {limit}")
        return ids

    def _damaged(self, what: str) -> FormatError:
        return FormatError(f"{self._graph.path}: {what}; run `gz verify`")

    def _shown(self, values: dict[str, Any]) -> dict[str, Any]:
        return values | {n: _values(values[n], c.dtype) for n, c in self._columns.items()}


def _part(name: str, column: FeatureStore, entry: ColumnEntry) -> Part:
    dtype = "float32" if column.dtype == "bfloat16" else column.dtype
    return Part(name, np.dtype(dtype), column.shape[1:], entry.names, entry.unit)


def _values(a: NDArray[Any], dtype: str) -> NDArray[Any]:
    return (a.astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else a


def weight_column(graph: Graph, columns: dict[str, FeatureStore]) -> str | None:
    """store.json does not say which column the weights came from: the one that holds the same numbers."""
    weights = graph.weights
    if weights is None:
        return None
    for name, c in columns.items():
        if len(c.shape) == 1 and c.dtype != "bfloat16" and c.stored == c.dtype:
            step = 1 << 20
            rows = c.get_tensor()
            with PageGuard():
                same = all(
                    np.array_equal(rows[a : a + step].astype(np.float32), weights[a : a + step])
                    for a in range(0, len(rows), step)
                )
            if same:
                return name
    return None


def _unused(name: str, taken: Any) -> str:
    while name in taken:
        name += "_"
    return name


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
