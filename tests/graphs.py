"""Graphs for the tests: a few drawn by hand, one generated with communities, and two real citation networks.

Everything is plain numpy, so that what the engine is compared with was not made by it. An edge list is a pair
(src, dst) of int64 arrays; its order is the original order, and an edge's original id is its place in it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

EdgeType = tuple[str, str, str]


@dataclass(frozen=True)
class Csc:
    """Edges grouped by one end: the list of node v is indices[indptr[v]:indptr[v + 1]], in stored order."""

    indptr: np.ndarray
    indices: np.ndarray
    edge_ids: np.ndarray  # original id of the edge at each position

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        return len(self.indices)

    def neighbors(self, v: int) -> np.ndarray:
        return self.indices[self.indptr[v] : self.indptr[v + 1]]

    def degrees(self) -> np.ndarray:
        return np.diff(self.indptr)


def group_edges(src, dst, num_nodes: int, *, direction: str = "in", sort_lists: bool = False) -> Csc:
    """Group an edge list by destination ("in") or by source ("out").

    Within a list edges keep their original order, or ascend by neighbour with ties in original order.
    """
    src, dst = np.asarray(src, np.int64), np.asarray(dst, np.int64)
    grouped, other = (dst, src) if direction == "in" else (src, dst)
    order = np.lexsort((other, grouped)) if sort_lists else np.argsort(grouped, kind="stable")
    indptr = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(grouped, minlength=num_nodes), out=indptr[1:])
    return Csc(indptr, other[order], order.astype(np.int64))


@dataclass(frozen=True)
class EdgeList:
    """A homogeneous graph as its edge list, with features and labels where it has them."""

    src: np.ndarray
    dst: np.ndarray
    num_nodes: int
    x: np.ndarray | None = None  # float32 [num_nodes, F]
    y: np.ndarray | None = None  # int64 [num_nodes]

    @property
    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        return self.src, self.dst

    def grouped(self, direction: str = "in", sort_lists: bool = False) -> Csc:
        return group_edges(self.src, self.dst, self.num_nodes, direction=direction, sort_lists=sort_lists)


def _edge_list(pairs, num_nodes: int) -> EdgeList:
    pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
    return EdgeList(np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]), num_nodes)


def kite() -> EdgeList:
    """Everything awkward in eight nodes: double edge, self loop, two-way edge, sink, isolated node.

        0 -> 1 -> 2 -> 0        a triangle
        3 -> 0 twice            a double edge
        4 -> 4, 4 -> 0          a self loop
        5 <-> 0                 both ways
        0 -> 6                  6 is reached and reaches nobody
        7                       isolated
    The edges are listed out of order on purpose.
    """
    return _edge_list([(3, 0), (1, 2), (0, 1), (4, 4), (5, 0), (3, 0), (2, 0), (0, 6), (4, 0), (0, 5)], 8)


def path(length: int) -> EdgeList:
    """0 -> 1 -> ... -> length: node v has the one in-neighbour v - 1."""
    return _edge_list([(i, i + 1) for i in range(length)], length + 1)


def star(leaves: int) -> EdgeList:
    """Leaves 1..leaves all point at node 0: one hub with `leaves` in-neighbours."""
    ids = np.arange(1, leaves + 1, dtype=np.int64)
    return EdgeList(ids, np.zeros_like(ids), leaves + 1)


def empty(num_nodes: int) -> EdgeList:
    """Nodes without a single edge."""
    return _edge_list([], num_nodes)


@dataclass(frozen=True)
class HeteroGraph:
    num_nodes: dict[str, int]
    edges: dict[EdgeType, tuple[np.ndarray, np.ndarray]]

    def grouped(self, direction: str = "in") -> dict[EdgeType, Csc]:
        end = 2 if direction == "in" else 0
        return {
            t: group_edges(src, dst, self.num_nodes[t[end]], direction=direction)
            for t, (src, dst) in self.edges.items()
        }


def library() -> HeteroGraph:
    """Three authors, five papers, two venues; two relations share their end types, one runs both ways."""

    def pairs(*rows):
        e = _edge_list(rows, 0)
        return e.src, e.dst

    return HeteroGraph(
        {"author": 3, "paper": 5, "venue": 2},
        {
            ("author", "writes", "paper"): pairs((0, 0), (1, 0), (1, 1), (2, 3), (0, 3), (2, 2)),
            ("paper", "written_by", "author"): pairs((0, 0), (0, 1), (1, 1), (3, 2), (3, 0), (2, 2)),
            ("paper", "cites", "paper"): pairs((1, 0), (2, 0), (2, 1), (3, 3), (4, 2)),
            ("author", "reviews", "paper"): pairs((2, 0), (0, 1)),
            ("venue", "publishes", "paper"): pairs((0, 0), (0, 1), (1, 2), (1, 3)),
        },
    )


def community_graph(
    num_nodes: int = 2000, communities: int = 8, degree: int = 10, features: int = 16, seed: int = 0
) -> EdgeList:
    """A learnable graph: heavy tail, four edges in five inside a community, features = centroid + noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, communities, num_nodes)
    members = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[members], np.arange(communities + 1))
    dst = rng.integers(0, num_nodes, num_nodes * degree)
    # A cubed uniform favours the first members of each community: they become the hubs.
    u = rng.random(len(dst)) ** 3
    inside = rng.random(len(dst)) < 0.8
    c = np.where(inside, y[dst], rng.integers(0, communities, len(dst)))
    size = starts[c + 1] - starts[c]
    hub = members[np.minimum(starts[c] + (u * size).astype(np.int64), num_nodes - 1)]
    # Popular ends must be destinations too, or in-degrees stay flat: swap half of the edges.
    swap = rng.random(len(dst)) < 0.5
    centroids = rng.normal(size=(communities, features))
    x = (centroids[y] + rng.normal(scale=1.5, size=(num_nodes, features))).astype(np.float32)
    return EdgeList(np.where(swap, dst, hub), np.where(swap, hub, dst), num_nodes, x, y.astype(np.int64))


def random_edges(num_nodes: int, num_edges: int, seed: int = 0) -> EdgeList:
    """Uniformly random ends; double edges and self loops happen."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, num_nodes, (2, num_edges), dtype=np.int64)
    return EdgeList(ends[0], ends[1], num_nodes)


def shared_data() -> Path | None:
    """The folder of real graphs: $GZ_TEST_DATA, or shared/data beside this checkout or above it."""
    if given := os.environ.get("GZ_TEST_DATA"):
        return Path(given)
    root = Path(__file__).resolve().parent.parent
    return next((p / "shared" / "data" for p in root.parents if (p / "shared" / "data").is_dir()), None)


def citation_network(name: str) -> EdgeList:
    """Cora or Citeseer, edges from the citing to the cited paper. Skips where the file is missing."""
    folder = shared_data()
    if folder is None or not (folder / f"{name}.npz").is_file():
        pytest.skip(f"{name}.npz not found: put it in ../shared/data or set GZ_TEST_DATA to its folder")
    with np.load(folder / f"{name}.npz", allow_pickle=False) as z:
        n, width = (int(v) for v in z["attr_shape"])
        src = np.repeat(np.arange(n, dtype=np.int64), np.diff(z["adj_indptr"]))
        dst = z["adj_indices"].astype(np.int64)
        x = np.zeros((n, width), np.float32)
        rows = np.repeat(np.arange(n), np.diff(z["attr_indptr"]))
        x[rows, z["attr_indices"]] = z["attr_data"]
        return EdgeList(src, dst, n, x, z["labels"].astype(np.int64))
