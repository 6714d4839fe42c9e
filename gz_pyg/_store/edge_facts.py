"""What PyG says of edges (sorted, undirected, self loops, ...), found out without bringing them into memory.

Edges are looked at a piece at a time, as they lie in the file, so that a graph of any size is read once from
its beginning to its end; those that look at the order of `edge_index` end at the first edge out of order.
Whether a graph is undirected is told by sums of hashes: the sum over all edges and the sum over all edges
turned round are equal if the edges are the same, and otherwise, the hashes being salted at random, with a
probability below 2**-60.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import gz
from gz.adapter import PageGuard, lookup
from gz_pyg._edges import by_id, num_other
from gz_pyg._store.stored import StoredColumn, StoredEdgeIndex

_EDGES = 1 << 20  # looked at at once

Ids = NDArray[np.int64]


def has_self_loops(edges: StoredEdgeIndex) -> bool:
    return any(bool((src == dst).any()) for src, dst in pieces(edges))


def has_isolated_nodes(edges: StoredEdgeIndex, bipartite: bool) -> bool:
    """Nodes without an edge to or from another node; in a bipartite type, destinations without an edge."""
    graph = edges.graph
    if bipartite and graph.direction == "out":
        seen = np.zeros(graph.num_dst, bool)
        for _, dst in pieces(edges):
            seen[dst] = True
        return not bool(seen.all())
    if bipartite:
        return any(bool((np.diff(part) == 0).any()) for part in _pointers(graph))
    return not all_connected(graph.num_nodes, pieces(edges))


def all_connected(num_nodes: int, edges: Iterable[tuple[Ids, Ids]]) -> bool:
    """Whether every node has an edge to or from another one."""
    seen = np.zeros(num_nodes, bool)
    for src, dst in edges:
        others = src != dst
        seen[src[others]] = seen[dst[others]] = True
    return bool(seen.all())


def is_sorted(edges: StoredEdgeIndex, by_row: bool) -> bool:
    last = -1
    for row, col in _in_order(edges.graph):
        ids = row if by_row else col
        if len(ids) and (ids[0] < last or bool((ids[1:] < ids[:-1]).any())):
            return False
        last = int(ids[-1]) if len(ids) else last
    return True


def is_coalesced(edges: StoredEdgeIndex) -> bool:
    """Sorted by source, then by destination, with no edge twice."""
    last = (-1, -1)
    for row, col in _in_order(edges.graph):
        if not len(row):
            continue
        ascending = (row[1:] > row[:-1]) | ((row[1:] == row[:-1]) & (col[1:] > col[:-1]))
        if (int(row[0]), int(col[0])) <= last or not bool(ascending.all()):
            return False
        last = (int(row[-1]), int(col[-1]))
    return True


class Symmetry:
    """Whether edges, of one type or of several, are the same when all are turned round."""

    def __init__(self) -> None:
        self._salts = [np.uint64(secrets.randbits(64)) for _ in range(2)]
        self._sums = [0, 0]

    @property
    def holds(self) -> bool:
        return self._sums == [0, 0]

    def add(self, src: Ids, dst: Ids, values: NDArray[np.uint64] | None = None) -> None:
        """``values``: a hash of what goes with each edge."""
        for i, salt in enumerate(self._salts):
            there, back = _mixed(salt, src, dst), _mixed(salt, dst, src)
            if values is not None:
                there, back = _mix(there ^ values), _mix(back ^ values)
            total = int(there.sum(dtype=np.uint64)) - int(back.sum(dtype=np.uint64))
            self._sums[i] = (self._sums[i] + total) % (1 << 64)


def all_undirected(edges: Iterable[tuple[Ids, Ids]]) -> bool:
    found = Symmetry()
    for src, dst in edges:
        found.add(src, dst)
    return found.holds


def is_undirected(edges: StoredEdgeIndex, attr: StoredColumn | None) -> bool:
    """With ``attr``: both directions have equal rows; of several edges between two nodes, in order."""
    found = Symmetry()
    if attr is None:
        return all_undirected(pieces(edges))
    for begin, src, dst in _pieces(edges.graph):
        rows = attr.mapped.take(np.arange(begin, begin + len(src)))
        if rows.is_floating_point() and bool(torch.isnan(rows).any()):
            return False  # as in PyG: NaN equals nothing
        values = _row_hashes(rows)
        found.add(src, dst, _mix(values ^ _ranks(edges.graph, begin, src, dst)))
    return found.holds


# ---- pieces ----


def pieces(edges: StoredEdgeIndex) -> Iterator[tuple[Ids, Ids]]:
    """Sources and destinations of all edges, some at a time, as they lie in the file."""
    yield from ((src, dst) for _, src, dst in _pieces(edges.graph))


def _pieces(graph: gz.Graph) -> Iterator[tuple[int, Ids, Ids]]:
    """(position of the first, sources, destinations) of edges as they lie in the file. The list of a node is
    never divided: a hub's makes a longer piece."""
    pointer, node = graph.indptr, 0
    while node < graph.num_nodes:
        with PageGuard():
            begin = int(pointer[node])
            end_node = int(np.searchsorted(pointer, begin + _EDGES, side="right")) - 1
            end_node = min(max(end_node, node + 1), graph.num_nodes, node + _EDGES)
            bounds = np.asarray(pointer[node : end_node + 1], np.int64)
            others = np.asarray(graph.indices[begin : int(bounds[-1])]).astype(np.int64)
        owners = np.repeat(np.arange(node, end_node), np.diff(bounds))
        yield begin, *((owners, others) if graph.direction == "out" else (others, owners))
        node = end_node


def _pointers(graph: gz.Graph) -> Iterator[Ids]:
    for begin in range(0, graph.num_nodes, _EDGES):
        with PageGuard():
            part = np.asarray(graph.indptr[begin : begin + _EDGES + 1], np.int64)
        yield part


def _in_order(graph: gz.Graph) -> Iterator[tuple[Ids, Ids]]:
    """Sources and destinations in the order of ``edge_index``."""
    if not by_id(graph):
        yield from ((src, dst) for _, src, dst in _pieces(graph))
        return
    positions = graph.edge_positions
    assert positions is not None
    for begin in range(0, graph.num_edges, _EDGES):
        with PageGuard():
            rows = np.asarray(positions[begin : begin + _EDGES]).astype(np.int64)
        others = lookup(graph.indices, rows, num_other(graph), graph.path)
        with PageGuard():
            owners = np.searchsorted(graph.indptr, rows, side="right") - 1
        yield (owners, others) if graph.direction == "out" else (others, owners)


def _ranks(graph: gz.Graph, begin: int, src: Ids, dst: Ids) -> NDArray[np.uint64]:
    """Of each edge of whole lists, how many with the same ends come before it in ``edge_index``."""
    if by_id(graph) and graph.edge_ids is not None:
        with PageGuard():
            numbers = np.asarray(graph.edge_ids[begin : begin + len(src)]).astype(np.int64)
    else:
        numbers = np.arange(len(src))
    order = np.lexsort((numbers, src, dst))
    first = np.ones(len(src), bool)
    first[1:] = (src[order][1:] != src[order][:-1]) | (dst[order][1:] != dst[order][:-1])
    starts = np.maximum.accumulate(np.where(first, np.arange(len(src)), 0))
    ranks = np.empty(len(src), np.uint64)
    ranks[order] = (np.arange(len(src)) - starts).astype(np.uint64)
    return ranks


# ---- hashes ----


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finalizer."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _mixed(salt: Any, first: Ids, second: Ids) -> NDArray[np.uint64]:
    return _mix(_mix(first.astype(np.uint64) + salt) + second.astype(np.uint64))


def _row_hashes(rows: torch.Tensor) -> NDArray[np.uint64]:
    """Equal rows have equal hashes: 0.0 and -0.0 are equal."""
    if rows.is_floating_point():
        rows = rows.to(torch.float64) + 0.0
    flat = rows.reshape(len(rows), -1)
    flat = flat if flat.is_floating_point() else flat.to(torch.int64)
    words = flat.contiguous().view(torch.int64).numpy().view(np.uint64)
    found = np.zeros(len(rows), np.uint64)
    for column in words.T:
        found = _mix(found + column + np.uint64(0x9E3779B97F4A7C15))
    return found
