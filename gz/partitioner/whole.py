"""A store as one graph of all its types, numbered as DGL's partitions number it: type after type.

Node ids "of the whole" count the nodes of the first type, then those of the second, and so on. Everything
that is as long as the graph lies in mapped files, which the kernel may write out and drop; what is read of
the topologies comes in blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz._base.arrays import first_outside
from gz._engine import FormatError, PageGuard
from gz.graph import Graph
from gz.manifest import EdgeType
from gz.output import reserve
from gz.store import Store

Ids = NDArray[np.int64]
EDGE_BYTES = 96  # an edge of a block with what is worked out of it: ends, parts, order, records


@dataclass
class Block:
    """Edges at consecutive positions of a topology. `counts[i]` of them end in node `first + i`."""

    begin: int
    first: int
    counts: Ids
    src: Ids  # ids of the source type

    @property
    def dst(self) -> Ids:
        return np.repeat(np.arange(self.first, self.first + len(self.counts)), self.counts)


class Whole:
    """Args:
    ntypes, etypes: the store's types in the order DGL has them. Edges into nodes must be stored: a part has
        those into its own.
    """

    def __init__(self, store: Store, ntypes: list[str], etypes: list[EdgeType]):
        self.store, self.ntypes, self.etypes = store, ntypes, etypes
        for t in etypes:
            store.graph(t)  # says what is missing
        counts = [store.num_nodes(t) for t in ntypes]
        self.offsets: Ids = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.num_nodes = int(self.offsets[-1])
        self.num_edges = sum(store.num_edges(t) for t in etypes)

    @property
    def id_dtype(self) -> np.dtype[Any]:
        """Of node ids in temporary files."""
        return np.dtype(np.uint32 if self.num_nodes < 1 << 32 else np.int64)

    def nodes(self, t: int) -> slice:
        """Where the nodes of a type are among all."""
        return slice(int(self.offsets[t]), int(self.offsets[t + 1]))

    def ends(self, e: int) -> tuple[int, int]:
        """The node types that an edge type joins, as numbers."""
        source, _, destination = self.etypes[e]
        return self.ntypes.index(source), self.ntypes.index(destination)

    def degrees(self, e: int, first: int, last: int) -> Ids:
        """Edges of a type that end in each of the nodes first to last."""
        graph = self.store.graph(self.etypes[e])
        with PageGuard():
            return _counts(graph, np.array(graph.indptr[first : last + 1], np.int64), first)


def steps(total: int, step: int) -> Iterator[tuple[int, int]]:
    return ((a, min(total, a + step)) for a in range(0, total, step))


def blocks(graph: Graph, step: int) -> Iterator[Block]:
    """All edges of a topology, `step` at a time."""
    for a, b in steps(graph.num_edges, step):
        with PageGuard():
            first = int(np.searchsorted(graph.indptr, a, "right")) - 1
            last = int(np.searchsorted(graph.indptr, b, "left"))
            counts = _counts(graph, np.clip(graph.indptr[first : last + 1], a, b), first)
            src = graph.indices[a:b].astype(np.int64)
        if int(counts.sum()) != b - a:
            raise FormatError(f"{graph.path}: the lists of nodes {first} to {last} do not follow each other")
        yield Block(a, first, counts, checked(src, graph))


def lists(graph: Graph, step: int) -> Iterator[Block]:
    """The same in whole lists: blocks of at most `step` edges, or of one node that has more."""
    at, nodes = 0, graph.num_nodes
    while at < nodes:
        with PageGuard():
            begin = int(graph.indptr[at])
            end = int(np.searchsorted(graph.indptr, begin + step, "right")) - 1
            end = min(max(end, at + 1), at + step, nodes)
            indptr = np.array(graph.indptr[at : end + 1], np.int64)
            src = graph.indices[begin : int(indptr[-1])].astype(np.int64)
        yield Block(begin, at, _counts(graph, indptr, at), checked(src, graph))
        at = end


def checked(neighbours: Ids, graph: Graph) -> Ids:
    other = graph.num_dst if graph.direction == "out" else graph.num_src
    if (i := first_outside(neighbours, other)) is not None:
        raise FormatError(f"{graph.path}: has the neighbour {neighbours[i]}, but there are {other} nodes")
    return neighbours


def _counts(graph: Graph, indptr: Ids, first: int) -> Ids:
    counts = np.diff(indptr).astype(np.int64)
    if len(counts) and counts.min() < 0:
        raise FormatError(
            f"{graph.path}: the list of node {first + int(counts.argmin())} ends before it begins"
        )
    return counts


# ---- arrays in files ----


def new_array(path: Path, length: int, dtype: Any) -> NDArray[Any]:
    """Zeros in a new file, which has its place on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb"):
        pass
    reserve(path, 0, length * np.dtype(dtype).itemsize)
    return open_array(path, dtype)


def open_array(path: Path, dtype: Any) -> NDArray[Any]:
    """A file as an array; what is written to it goes to the file."""
    if os.path.getsize(path) == 0:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, "r+").view(np.ndarray)
