"""Graph: one edge type's topology. Sampling, walking, degrees."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gz import _engine
from gz._base.arrays import Ids, as_ids, as_integer, as_seed, view
from gz._base.files import Folder, as_path, replaced
from gz._base.memory_plan import Part, Share, divide
from gz.feature import FeatureStore


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
        self,
        path: str | os.PathLike[str],
        *,
        _in_graph: Graph | None = None,
        _share: Share | None = None,
        _opened: int = -1,
    ):
        self._path = as_path(path)
        self._topology = _engine.Topology.open(self._path, _opened)
        if _share is None:
            _share = divide([Part("", os.path.getsize(self._path))], 0)[""]
        self._topology.allow_loading(_share.held)
        self._share = _share
        self._in_graph = _in_graph  # names the edges of an `out` topology of a store
        if self._topology.ids_are_in_rows and _in_graph is None:
            self._in_graph = self._beside()
        # The topology whose edge_ids translate rows of the edge columns; None where rows are the ids.
        named_by = self._in_graph if self._topology.ids_are_in_rows else self
        self._ids_topology = None
        if named_by is not None and named_by._topology.has_edge_ids:
            self._ids_topology = named_by._topology

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def direction(self) -> str:
        """``"in"``, lists of sources of the edges into a node, or ``"out"``, of destinations."""
        return "out" if self._topology.out else "in"

    @property
    def num_nodes(self) -> int:
        """Nodes that can be sampled from: destinations when the direction is ``"in"``."""
        return self._topology.num_nodes

    @property
    def num_src(self) -> int:
        """Nodes at the end that edges come from."""
        return self._topology.num_nodes if self._topology.out else self._topology.num_other

    @property
    def num_dst(self) -> int:
        """Nodes at the end that edges lead to."""
        return self._topology.num_other if self._topology.out else self._topology.num_nodes

    @property
    def num_edges(self) -> int:
        """Edges, and so entries of all lists."""
        return self._topology.num_edges

    @property
    def has_weights(self) -> bool:
        """Whether walks go by weight: the ``weight`` of the ingest."""
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

    @property
    def version(self) -> str:
        """Differs between files of different contents: the header's checksum."""
        return f"{self._topology.checksum:016x}"

    def _use_hot(self, ids: FeatureStore, starts: FeatureStore, lists: FeatureStore) -> None:
        """Lists that are sampled most are taken from ``lists``, which hold those of nodes ``ids`` one after
        the other. Before the first sample; a store does it for its topologies (``gz.reorder``)."""
        self._topology.use_hot(ids._file, starts._file, lists._file)

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_again, (self._path, self.version)

    def _beside(self) -> Graph | None:
        """The `in` topology of the store that an `out` file opened on its own lies in."""
        folder = Folder(os.path.dirname(self._path))
        path = os.path.join(folder.path, "in.gl")
        if path == self._path or not os.path.lexists(path):
            return None
        with folder.opened("in.gl") as fd:
            topology = _engine.Topology.open(path, fd)
            if topology.out or topology.num_edges != self.num_edges:
                raise _engine.FormatError(f"{path}: is not the 'in' topology of {self._path}")
            return Graph(path, _opened=fd)

    def stats(self) -> dict[str, Any]:
        """Reads made, and bytes read, for lists not in memory; ``hot``: lists that were found in the copy of
        those that are sampled most; ``plan``: what the file was given."""
        return {"plan": str(self._share), **self._topology.stats()}

    # ---- arrays over the file ----

    @property
    def indptr(self) -> NDArray[np.int64]:
        """Where each node's list begins, ``[num_nodes + 1]``, over the mapped file."""
        array = self._shown(self._topology.indptr)
        assert array is not None
        return array.view(np.int64)

    @property
    def indices(self) -> NDArray[Any]:
        """Neighbours, ``[num_edges]``, over the mapped file: uint32 where ids fit, else int64."""
        array = self._shown(self._topology.indices)
        assert array is not None
        return array

    @property
    def edge_ids(self) -> NDArray[Any] | None:
        """Original id by position, over the mapped file; None where ids are positions."""
        return self._shown(self._topology.edge_ids)

    @property
    def edge_positions(self) -> NDArray[Any] | None:
        """Position by original id, over the mapped file; None where ids are positions."""
        return self._shown(self._topology.edge_positions)

    @property
    def weights(self) -> NDArray[np.float32] | None:
        """A weight for each edge in the order of the lists, float32, over the file; None: there are none."""
        return self._shown(self._topology.weights)

    def _shown(self, part: _engine.Section | None) -> NDArray[Any] | None:
        return None if part is None else view(part.bytes, part.dtype, (-1,), self._topology.writable)

    # ---- one node ----

    def degree(self, nodes: ArrayLike) -> Any:
        """Number of neighbours of ``nodes``: an int for one node, int64 ``[n]`` for an array of them."""
        if np.ndim(nodes) == 0:
            return int(self._topology.degree(as_ids(np.atleast_1d(nodes), "nodes"))[0])
        return self._topology.degree(as_ids(nodes, "nodes"))

    def neighbors(self, node: int) -> Ids:
        """The neighbours of ``node``, int64, in stored order."""
        return self._topology.neighbors(as_integer(node, "node")).ids

    # ---- many ----

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
        t = self._topology
        if t.num_nodes != t.num_other:
            raise ValueError(
                f"{self._path}: joins {self.num_src} to {self.num_dst} nodes of two types; use Store.sample"
            )
        edge_type = _engine.SampleEdgeType(
            t,
            0,
            0,
            [as_integer(k, "a fanout") for k in fanouts],
            names=self._ids_topology,
            weights=None if weights is None else as_weights(weights, self.num_edges),
        )
        found = _engine.sample(
            [t.num_nodes],
            [edge_type],
            [_engine.SampleSeeds(0, as_ids(seeds, "seeds"))],
            replace=replace,
            disjoint=disjoint,
            rng_seed=as_seed(rng_seed),
        )
        nodes, edges = found.nodes[0], found.edges[0]
        src, dst = ends(edges, t.out)
        return Sample(
            nodes=nodes.ids,
            src=src,
            dst=dst,
            edge_ids=edges.rows if edges.ids is None else edges.ids,
            nodes_per_hop=nodes.per_hop,
            edges_per_hop=edges.per_hop,
            batch=nodes.batch,
            edge_rows=edges.rows,
        )

    def batch_random_fanout(
        self, start_nodes: ArrayLike, K: int, replace: bool = False, rng_seed: int = 0
    ) -> NDArray[np.int64]:
        """``K`` neighbours of each of ``start_nodes``, int64 ``[n, K]``, -1 where there are fewer.

        Nothing is deduplicated. ``replace``: draw with replacement, so that there are ``K`` wherever there is
        one. ``rng_seed`` names the random stream.
        """
        if (K := as_integer(K, "K")) < 0:
            raise ValueError(f"K is {K}; give 0 or more")
        return _engine.random_fanout(
            self._topology, as_ids(start_nodes, "start nodes"), K, replace, as_seed(rng_seed)
        )

    def batch_random_walk(
        self, start_nodes: ArrayLike, walk_length: int, p: float = 1.0, q: float = 1.0, rng_seed: int = 0
    ) -> NDArray[np.int64]:
        """Walks of ``walk_length`` steps from each of ``start_nodes``.

        Int64 ``[n, walk_length + 1]``, the start first, -1 after a dead end. Uniform when ``p == q == 1``,
        node2vec otherwise; by weight where the graph has weights. ``rng_seed`` names the random stream.
        """
        if (walk_length := as_integer(walk_length, "walk_length")) < 0:
            raise ValueError(f"walk_length is {walk_length}; give 0 or more")
        starts = as_ids(start_nodes, "start nodes")
        return _engine.random_walk(self._topology, starts, walk_length, float(p), float(q), as_seed(rng_seed))


def ends(edges: _engine.SampledEdges, out: bool) -> tuple[Ids, Ids]:
    """(source, destination) of sampled edges; ``out``: sampled along their direction."""
    return (edges.frontier, edges.neighbour) if out else (edges.neighbour, edges.frontier)


def _open_again(path: str, version: str) -> Graph:
    graph = Graph(path)
    if graph.version != version:
        raise replaced(path, "since it was pickled")
    return graph


def as_weights(weights: ArrayLike, num_edges: int) -> NDArray[Any]:
    array = np.ascontiguousarray(weights)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"weights must be numbers, not {array.dtype}")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.shape != (num_edges,):
        raise ValueError(f"weights have shape {array.shape}; the graph has {num_edges} edges")
    return array


def are_loops(graph: Graph, positions: Any) -> bool:
    with _engine.PageGuard():
        dst = np.searchsorted(graph.indptr, positions, "right") - 1
        return bool((graph.indices[positions] == dst).all())
