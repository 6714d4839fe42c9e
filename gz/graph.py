"""Graph: one edge type's topology. Sampling, walking, degrees."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gz import _engine
from gz._arrays import Ids, as_ids, view
from gz._plan import Part, Share, divide

# Sections of a topology file; csrc/format.h.
_INDPTR, _INDICES, _EDGE_IDS, _EDGE_POSITIONS, _WEIGHTS, _ALIAS = range(6)

# rng_seed is any Python integer; the engine takes 64 bits of it.
_SEED_MASK = (1 << 64) - 1


@dataclass(slots=True)
class Sample:
    """A sampled neighbourhood. Local ids count the entries of ``nodes``.

    Attributes:
        nodes: global ids, ``[n]``; the seeds first, then in the order first seen.
        src, dst: the ends of each sampled edge as local ids, ``[e]``.
        edge_ids: original ids where the store keeps them, else positions in the topology, ``[e]``.
        nodes_per_hop: seeds, then nodes first seen in each hop.
        edges_per_hop: edges of each hop.
        batch: with ``disjoint``, the index of the seed each node belongs to, ``[n]``.
        edge_rows: rows of the store's edge columns, ``[e]``.
    """

    nodes: Ids
    src: Ids
    dst: Ids
    edge_ids: Ids
    nodes_per_hop: list[int]
    edges_per_hop: list[int]
    batch: Ids | None
    edge_rows: Ids


class Graph:
    """The edges of one type, grouped by one end, in a mapped ``.gl`` file.

    The neighbours of a node are the sources of the edges into it when the direction is ``"in"``, and the
    destinations of the edges out of it when it is ``"out"``; the file says which. Opening reads three pages
    whatever the size. Pickles by path.

    Args:
        path: a ``.gl`` file.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, _in_graph: Graph | None = None, _share: Share | None = None
    ):
        self._path = os.path.abspath(path)
        self._topology = _engine.Topology.open(self._path)
        if _share is None:
            _share = divide([Part("", os.path.getsize(self._path))], 0)[""]
        self._topology.allow_loading(_share.held)
        self._share = _share
        self._in_graph = _in_graph  # names the edges of an `out` topology of a store
        if self._topology.ids_are_in_rows and _in_graph is None:
            beside = os.path.join(os.path.dirname(self._path), "in.gl")
            self._in_graph = Graph(beside) if os.path.exists(beside) else None

    @property
    def path(self) -> str:
        return self._path

    @property
    def direction(self) -> str:
        return "out" if self._topology.out else "in"

    @property
    def num_nodes(self) -> int:
        """Nodes that can be sampled from: destinations when the direction is ``"in"``."""
        return self._topology.num_nodes

    @property
    def num_src(self) -> int:
        return self._topology.num_nodes if self._topology.out else self._topology.num_other

    @property
    def num_dst(self) -> int:
        return self._topology.num_other if self._topology.out else self._topology.num_nodes

    @property
    def num_edges(self) -> int:
        return self._topology.num_edges

    @property
    def has_weights(self) -> bool:
        return self._topology.weighted

    @property
    def has_edge_ids(self) -> bool:
        """Whether edges keep ids of their own; otherwise an edge's id is its position."""
        return self._ids_topology is not None

    @property
    def sorted(self) -> bool:
        """Whether every neighbour list ascends by id."""
        return self._topology.sorted

    def __repr__(self) -> str:
        ends = f"{self.num_nodes}" if self.num_src == self.num_dst else f"{self.num_src}->{self.num_dst}"
        return f"Graph({self._path!r}, nodes={ends}, edges={self.num_edges}, direction={self.direction})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Graph, (self._path,)

    def stats(self) -> dict[str, Any]:
        """Reads made, and bytes read, for lists not in memory; ``plan``: what the file was given."""
        return {"plan": str(self._share), **self._topology.stats()}

    # ---- arrays over the file ----

    @property
    def indptr(self) -> NDArray[np.int64]:
        """Where each node's list begins, ``[num_nodes + 1]``, over the mapped file."""
        array = self._section(_INDPTR)
        assert array is not None
        return array.view(np.int64)

    @property
    def indices(self) -> NDArray[Any]:
        """Neighbours, ``[num_edges]``, over the mapped file: uint32 where ids fit, else int64."""
        array = self._section(_INDICES)
        assert array is not None
        return array

    @property
    def edge_ids(self) -> NDArray[Any] | None:
        """Original id by position, over the mapped file; None where ids are positions."""
        return self._section(_EDGE_IDS)

    @property
    def edge_positions(self) -> NDArray[Any] | None:
        """Position by original id, over the mapped file; None where ids are positions."""
        return self._section(_EDGE_POSITIONS)

    @property
    def weights(self) -> NDArray[np.float32] | None:
        return self._section(_WEIGHTS)

    def _section(self, index: int) -> NDArray[Any] | None:
        found = self._topology.section(index)
        if found is None:
            return None
        dtype, raw = found
        return view(raw, dtype, (-1,), self._topology.writable)

    # ---- one node ----

    def degree(self, nodes: ArrayLike) -> Any:
        """Number of neighbours: an int for one node, int64 ``[n]`` for an array of them."""
        if np.ndim(nodes) == 0:
            return int(self._topology.degree(as_ids(np.atleast_1d(nodes), "nodes"))[0])
        return self._topology.degree(as_ids(nodes, "nodes"))

    def neighbors(self, node: int) -> Ids:
        """The neighbours of ``node``, int64, in stored order."""
        return self._topology.neighbors(int(node))[0]

    # ---- many ----

    @property
    def _ids_topology(self) -> Any:
        """The topology whose edge_ids translate rows of the edge columns; None where rows are the ids."""
        graph = self._in_graph if self._topology.ids_are_in_rows else self
        return graph._topology if graph is not None and graph._topology.has_edge_ids else None

    def sample(
        self,
        seeds: ArrayLike,
        fanouts: Sequence[int],
        replace: bool = False,
        rng_seed: int = 0,
        disjoint: bool = False,
        weights: ArrayLike | None = None,
    ) -> Sample:
        """Samples the neighbourhood of ``seeds`` hop by hop.

        The result is a function of the arguments alone, whatever the number of threads: give every batch its
        own ``rng_seed``.

        Args:
            seeds: global ids, ``[n]``. Duplicates are kept, each with its own edges.
            fanouts: neighbours per node, one entry per hop from the seeds outward. -1 takes all.
            replace: draw with replacement: exactly ``fanout`` draws where there is a neighbour.
            rng_seed: names the random stream.
            disjoint: sample a tree of its own for every seed.
            weights: one weight per edge in topology order (float32 or float64): neighbours are taken in
                proportion. An edge of weight 0 is never taken, unless the fanout is -1.

        Raises:
            IndexError: a seed is not in the graph.
        """
        if self.num_src != self.num_dst:
            raise ValueError(
                f"{self._path}: joins {self.num_src} to {self.num_dst} nodes of two types; use Store.sample"
            )
        n = self.num_nodes
        edge_type = (
            self._topology,
            0,
            0,
            [int(k) for k in fanouts],
            self._ids_topology,
            None if weights is None else _as_weights(weights, self.num_edges),
            None,
            None,
        )
        nodes, edges = _engine.sample(
            [n],
            [edge_type],
            [(0, as_ids(seeds, "seeds"), None)],
            replace=replace,
            disjoint=disjoint,
            rng_seed=rng_seed & _SEED_MASK,
        )
        (ids, batch, nodes_per_hop), (neighbour, frontier, rows, edge_ids, edges_per_hop) = nodes[0], edges[0]
        src, dst = (frontier, neighbour) if self._topology.out else (neighbour, frontier)
        return Sample(
            ids, src, dst, rows if edge_ids is None else edge_ids, nodes_per_hop, edges_per_hop, batch, rows
        )

    def batch_random_fanout(
        self, start_nodes: ArrayLike, K: int, replace: bool = False, rng_seed: int = 0
    ) -> NDArray[np.int64]:
        """``K`` neighbours of each start, int64 ``[n, K]``, -1 where there are fewer. No deduplication."""
        if K < 0:
            raise ValueError(f"K is {K}; give 0 or more")
        return _engine.random_fanout(
            self._topology, as_ids(start_nodes, "start nodes"), int(K), replace, rng_seed & _SEED_MASK
        )

    def batch_random_walk(
        self, start_nodes: ArrayLike, walk_length: int, p: float = 1.0, q: float = 1.0, rng_seed: int = 0
    ) -> NDArray[np.int64]:
        """Walks of ``walk_length`` steps, int64 ``[n, walk_length + 1]``, start first, -1 after a dead end.

        Uniform when ``p == q == 1``, node2vec otherwise; by weight where the graph has weights.
        """
        if walk_length < 0:
            raise ValueError(f"walk_length is {walk_length}; give 0 or more")
        starts = as_ids(start_nodes, "start nodes")
        return _engine.random_walk(
            self._topology, starts, int(walk_length), float(p), float(q), rng_seed & _SEED_MASK
        )


def _as_weights(weights: ArrayLike, num_edges: int) -> NDArray[Any]:
    array = np.ascontiguousarray(weights)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.shape != (num_edges,):
        raise ValueError(f"weights have shape {array.shape}; the graph has {num_edges} edges")
    return array
