"""One part as arrays: its graph with the nodes one hop beyond it, and the rows of its own nodes and edges.

Local ids: the part's own nodes first, in the order of their new ids; then, as they are first met, nodes of
other parts, the sources of edges into the part before the destinations of edges out of it. Own edges come
first, by new id, then those that leave the part, by new id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz._base.arrays import numpy_dtype
from gz._engine import FormatError, PageGuard
from gz.feature import FeatureStore
from gz.partitioner.balance import masks_of, split_ids
from gz.partitioner.edges import inner_file, outer_file, outer_record
from gz.partitioner.number import Numbers
from gz.partitioner.whole import EDGE_BYTES, Ids, Whole, new_array, steps


@dataclass
class PartGraph:
    src: Ids
    dst: Ids
    eid: Ids  # new ids of all edges
    edge_types: NDArray[np.int32] | None  # where there are several
    own_edges: int
    nid: Ids  # new ids of all nodes
    node_types: NDArray[np.int32] | None
    part_id: Ids
    own_nodes: int


@dataclass
class Rows:
    """A column's rows of a part. `dtype`: gz's name; bfloat16 shows as uint16."""

    values: NDArray[Any]
    dtype: str


class Part:
    """Args:
    orig_nids: old ids by new one, for each type.
    new_ids: new ids by old one, of the whole.
    scratch: what `edges.spread` wrote, and room for a table.
    """

    def __init__(
        self,
        whole: Whole,
        numbers: Numbers,
        number: int,
        orig_nids: list[NDArray[np.int64]],
        new_ids: NDArray[Any],
        scratch: Path,
        memory: int,
    ):
        self._whole, self._numbers, self.number = whole, numbers, number
        self._orig_nids, self._new_ids, self._scratch = orig_nids, new_ids, scratch
        self._step = max(1024, memory // 4 // EDGE_BYTES)
        self._memory = memory

    # ---- the graph ----

    def graph(self, typed: bool) -> PartGraph:
        """`typed`: with the type of each node and edge."""
        numbers, p, relations = self._numbers, self.number, range(len(self._whole.etypes))
        own = int(numbers.edges[p].sum())
        record = outer_record(self._whole)
        leaving = [outer_file(self._scratch, p, e).stat().st_size // record.itemsize for e in relations]
        total = own + sum(leaving)
        src, dst, eid = (np.empty(total, np.int64) for _ in range(3))
        edge_types = np.empty(total if typed else 0, np.int32)
        at = 0
        for e in relations:
            end = at + int(numbers.edges[p, e])
            self._inner(e, src[at:end], dst[at:end])
            edge_types[at:end] = e
            at = end
        eid[:own] = np.arange(own) + numbers.edge_range(p, 0)[0]
        for e, count in enumerate(leaving):
            out = np.fromfile(outer_file(self._scratch, p, e), record)
            assert len(out) == count
            end = at + count
            src[at:end], dst[at:end], eid[at:end] = out["src"], out["dst"], out["eid"]
            edge_types[at:end] = e
            at = end
            del out
        order = own + np.argsort(eid[own:], kind="stable")
        arrays: list[NDArray[Any]] = [src, dst, eid, *([edge_types] if typed else [])]
        for array in arrays:
            array[own:] = array[order]
        del order
        nid = self._localize(src, dst, own)
        part_id = (np.searchsorted(numbers.starts, nid, "right") - 1).astype(np.int64)
        types = self._types(nid) if typed else None
        nodes = int(numbers.nodes[p].sum())
        return PartGraph(src, dst, eid, edge_types if typed else None, own, nid, types, part_id, nodes)

    def _inner(self, e: int, src: Ids, dst: Ids) -> None:
        """The ends of the part's own edges of a type."""
        whole, p = self._whole, self.number
        _, t = whole.ends(e)
        with open(inner_file(self._scratch, p, e), "rb") as f:
            for a, b in steps(len(src), self._step):
                src[a:b] = np.fromfile(f, whole.id_dtype, b - a)
        first, at = self._numbers.node_range(p, t)[0], 0
        for begin, nodes in self._own_nodes(t):
            counts = self._degrees(e, nodes)
            end = at + int(counts.sum())
            dst[at:end] = np.repeat(np.arange(first + begin, first + begin + len(nodes)), counts)
            at = end
        if at != len(dst):
            raise FormatError(f"{whole.store.path}: changed while it was partitioned")

    def _own_nodes(self, t: int) -> Iterator[tuple[int, Ids]]:
        """The part's nodes of a type, old ids in the order of the new ones, some at a time."""
        mine = self._orig_nids[t][self._numbers.node_rows(self.number, t)]
        return ((a, mine[a:b]) for a, b in steps(len(mine), self._step))

    def _degrees(self, e: int, nodes: Ids) -> Ids:
        return self._whole.store.graph(self._whole.etypes[e]).degree(nodes)

    def _localize(self, src: Ids, dst: Ids, own_edges: int) -> Ids:
        """Turns new ids into local ones, in place; returns the new ids of the local ones."""
        numbers, p = self._numbers, self.number
        first, own = numbers.first_node(p), int(numbers.nodes[p].sum())
        path = self._scratch / "table"
        # 1 + the local id of nodes of other parts: a file, for it is as long as the graph has nodes.
        table = new_array(path, self._whole.num_nodes, self._whole.id_dtype)
        halo: list[Ids] = []
        count = own
        for ends in (src[:own_edges], dst[own_edges:]):
            for a, b in steps(len(ends), self._step):
                met = ends[a:b][_beyond(ends[a:b], first, own)]
                unique, at = np.unique(met[table[met] == 0], return_index=True)
                unique = unique[np.argsort(at)]
                table[unique] = np.arange(count + 1, count + 1 + len(unique))
                halo.append(unique)
                count += len(unique)
        for ends in (src, dst):
            for a, b in steps(len(ends), self._step):
                chunk = ends[a:b]
                beyond = _beyond(chunk, first, own)
                local = chunk - first
                local[beyond] = table[chunk[beyond]].astype(np.int64) - 1
                ends[a:b] = local
        del table
        path.unlink()
        return np.concatenate([np.arange(first, first + own), *halo]).astype(np.int64)

    def _types(self, nid: Ids) -> NDArray[np.int32]:
        numbers, types = self._numbers, len(self._whole.ntypes)
        ranges = [numbers.node_range(q, t)[0] for q in range(len(numbers.nodes)) for t in range(types)]
        return ((np.searchsorted(ranges, nid, "right") - 1) % types).astype(np.int32)

    # ---- rows ----

    def node_rows(self, t: int) -> Iterator[tuple[str, Rows]]:
        """The columns of the part's nodes of a type, and its splits as masks."""
        store, name = self._whole.store, self._whole.ntypes[t]
        ids = self._orig_nids[t][self._numbers.node_rows(self.number, t)]
        for column in store.node_columns(name):
            found = store.feature(column, name)
            yield (
                column,
                self._gather(found, len(ids), ((a, ids[a:b]) for a, b in self._steps(found, len(ids)))),
            )
        first, end = self._numbers.node_range(self.number, t)
        new = self._new_ids[self._whole.nodes(t)]
        for mask, split in masks_of(self._whole, t).items():
            values = np.zeros(len(ids), np.bool_)
            members = split_ids(self._whole, t, split)
            for a, b in steps(len(members), self._step):
                at = new[members[a:b]].astype(np.int64)
                values[at[(at >= first) & (at < end)] - first] = True
            yield mask, Rows(values, "bool")

    def edge_rows(self, e: int) -> Iterator[tuple[str, Rows]]:
        """The columns of the part's own edges of a type."""
        store, edge_type = self._whole.store, self._whole.etypes[e]
        count = int(self._numbers.edges[self.number, e])
        for column in store.edge_columns(edge_type):
            found = store.feature(column, edge_type)
            yield column, self._gather(found, count, self._positions(e))

    def write_edge_ids(self, e: int, out: NDArray[np.int64]) -> None:
        """The old ids of the part's own edges: what the store calls an edge, else its position."""
        graph = self._whole.store.graph(self._whole.etypes[e])
        ids = graph.edge_ids
        for at, positions in self._positions(e):
            if ids is not None:
                with PageGuard():
                    positions = ids[positions].astype(np.int64)
            out[at : at + len(positions)] = positions

    def _positions(self, e: int) -> Iterator[tuple[int, Ids]]:
        """Where the part's own edges of a type lie in the topology, in the order of their new ids."""
        graph = self._whole.store.graph(self._whole.etypes[e])
        at = 0
        for _, nodes in self._own_nodes(self._whole.ends(e)[1]):
            with PageGuard():
                begin = graph.indptr[nodes].astype(np.int64)
            counts = self._degrees(e, nodes)
            ends = np.cumsum(counts)
            for a, b in _runs(counts, self._step):  # a hub may have more edges than there is room for
                skip = int(ends[a - 1]) if a else 0
                here = counts[a:b]
                start = np.repeat(begin[a:b] - (np.cumsum(here) - here), here)
                positions = start + np.arange(len(start))
                yield at + skip, positions
            at += int(ends[-1]) if len(ends) else 0

    def _steps(self, column: FeatureStore, rows: int) -> Iterator[tuple[int, int]]:
        row_bytes = max(1, column._read_bytes // max(1, len(column)))
        return steps(rows, max(1024, self._memory // 8 // row_bytes))

    def _gather(self, column: FeatureStore, rows: int, pieces: Iterator[tuple[int, Ids]]) -> Rows:
        out = np.empty((rows, *column.shape[1:]), numpy_dtype(column.dtype))
        for at, ids in pieces:
            if len(ids):
                column.gather(ids, out[at : at + len(ids)])
        return Rows(out, column.dtype)


def _runs(counts: Ids, most: int) -> Iterator[tuple[int, int]]:
    """Consecutive lists of at most `most` edges in all, or one that has more."""
    ends = np.cumsum(counts)
    at = 0
    while at < len(counts):
        before = int(ends[at - 1]) if at else 0
        end = max(at + 1, int(np.searchsorted(ends, before + most, "right")))
        yield at, end
        at = end


def _beyond(ids: Ids, first: int, own: int) -> NDArray[np.bool_]:
    """Which of them are no nodes of the part."""
    return (ids < first) | (ids >= first + own)
