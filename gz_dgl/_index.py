"""StoreIndex: what a DGLGraph asks its graph index, answered from a store.

DGL's Python code asks `graph._graph` for counts, degrees, ends of edges, neighbours and subgraphs; those
answers come from the mapped files, at a cost that follows the size of the question. What remains is C++ code
of DGL that takes the index itself and needs the whole graph in memory: asobject() and __getattr__ build that,
once, where it fits the memory limit, and refuse with the alternative where it does not.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import gz
from gz import adapter
from gz.adapter import host_ids, lookup, take_rows
from gz_dgl import _memory
from gz_dgl._build import coo_index, empty_index
from gz_dgl._columns import EdgeOrder
from gz_dgl._dgl import DGLError, ObjectGeneric, dgl

_IDS = NDArray[np.int64]
SAMPLE_INSTEAD = "Sample it with dgl.dataloading.DataLoader, or take part of it: g.subgraph, g.in_subgraph."
_SAVE_OUT = "Make the store with directions='both' (gz_dgl.save's default; gz ingest ... --directions both)."


class Subgraph:
    """What DGL's subgraph functions expect of the index: a graph and where it came from."""

    def __init__(self, graph: Any, nodes: list[torch.Tensor], edges: list[torch.Tensor]):
        self.graph, self.induced_nodes, self.induced_edges = graph, nodes, edges


class StoreIndex(ObjectGeneric):
    """The index of some or all types of a store.

    Args:
        store: the open store.
        ntypes: its node types, in DGL's order.
        etypes: its edge types, in DGL's order.
        bits: 32 or 64, the width of the ids DGL sees.
        limit: bytes that may be built in memory.
    """

    def __init__(self, store: gz.Store, ntypes: list[str], etypes: list[Any], bits: int = 64, limit: int = 0):
        self.store, self.ntypes, self.etypes, self.bits, self.limit = store, ntypes, etypes, bits, limit
        self._cache: dict[Any, Any] = {}
        if bits == 32:
            largest = max(
                [*(self.num_nodes(t) for t in range(len(ntypes))), *(store.num_edges(e) for e in etypes), 0]
            )
            if largest >= 1 << 31:
                raise DGLError(f"{store.path}: {largest} ids do not fit 32 bits; leave the graph at int64")

    def __reduce__(self) -> tuple[Any, ...]:
        return StoreIndex, (self.store, self.ntypes, self.etypes, self.bits, self.limit)

    # ---- types, counts, formats ----

    @property
    def tensor_dtype(self) -> torch.dtype:
        return torch.int32 if self.bits == 32 else torch.int64

    @property
    def dtype(self) -> str:
        return f"int{self.bits}"

    @property
    def ctx(self) -> Any:
        return dgl.ndarray.cpu(0)

    @cached_property
    def ends(self) -> list[tuple[int, int]]:
        """(source type, destination type) of each edge type, as numbers."""
        return [(self.ntypes.index(s), self.ntypes.index(d)) for s, _, d in self.etypes]

    @cached_property
    def skeleton(self) -> Any:
        """A real index with these types and nodes but no edges: it has the metagraph."""
        return empty_index(self)

    @property
    def metagraph(self) -> Any:
        return self.skeleton.metagraph

    def is_metagraph_unibipartite(self) -> bool:
        return self.skeleton.is_metagraph_unibipartite()

    def number_of_ntypes(self) -> int:
        return len(self.ntypes)

    def number_of_etypes(self) -> int:
        return len(self.etypes)

    def num_nodes(self, ntype: int) -> int:
        return self.store.num_nodes(self.ntypes[ntype])

    def num_edges(self, etype: int) -> int:
        return self.store.num_edges(self.etypes[etype])

    number_of_nodes, number_of_edges = num_nodes, num_edges

    @property
    def counts(self) -> list[int]:
        return [self.num_nodes(t) for t in range(len(self.ntypes))]

    def bits_needed(self, etype: int | None) -> int:
        del etype
        return self.bits

    def asbits(self, bits: int) -> StoreIndex:
        return (
            self if bits == self.bits else StoreIndex(self.store, self.ntypes, self.etypes, bits, self.limit)
        )

    def is_pinned(self) -> bool:
        return False

    def is_readonly(self) -> bool:
        return True

    def formats(self, formats: Any = None) -> Any:
        if formats is not None:
            return self
        stored = ["csc"] + (["csr"] if all(self.has_out(e) for e in range(len(self.etypes))) else [])
        return {"created": stored, "not created": []}

    def create_formats_(self) -> None:
        """Nothing to do: the formats are files."""

    def get_relation_graph(self, etype: int) -> StoreIndex:
        source, _, destination = self.etypes[etype]
        ntypes = [source] if source == destination else [source, destination]
        return StoreIndex(self.store, ntypes, [self.etypes[etype]], self.bits, self.limit)

    # ---- topologies ----

    def has_out(self, etype: int) -> bool:
        return self.store.manifest.edge(self.etypes[etype]).out_file is not None

    def in_graph(self, etype: int) -> gz.Graph:
        return self.store.graph(self.etypes[etype])

    def in_topology(self, etype: int) -> Any:
        return adapter.topology(self.in_graph(etype))

    def out_topology(self, etype: int) -> Any:
        if self.has_out(etype):
            return adapter.topology(self.store.graph(self.etypes[etype], "out"))
        return self._once(("out", etype), lambda: self._invert(etype))

    def topology(self, etype: int, edge_dir: str) -> Any:
        if edge_dir not in ("in", "out"):
            raise DGLError(f"edge_dir is {edge_dir!r}; choose 'in' or 'out'")
        return self.in_topology(etype) if edge_dir == "in" else self.out_topology(etype)

    def _invert(self, etype: int) -> Any:
        needed = 8 * self.num_nodes(self.ends[etype][0]) + 16 * self.num_edges(etype)
        self._need(
            needed, f"edges of type {self.etypes[etype]} grouped by source, which the store lacks,", _SAVE_OUT
        )
        return adapter.invert(self.in_topology(etype))

    def ids_topology(self, etype: int) -> Any:
        """The topology that names edges; None where an edge's id is its position in the file.

        Ids that are not one per edge (an edge and its added reverse share one) cannot be DGL's: positions
        are.
        """
        graph = self.in_graph(etype)
        topology = adapter.topology(graph)
        return topology if graph.has_edge_ids and topology.num_edge_ids == topology.num_edges else None

    def order(self, etype: int) -> EdgeOrder | None:
        if self.ids_topology(etype) is None:
            return None
        return self._once(("order", etype), lambda: EdgeOrder(self.in_graph(etype), self.limit))

    def edge_ids_of(self, etype: int, rows: _IDS) -> _IDS:
        names = self.ids_topology(etype)
        if names is None:
            return rows
        graph = self.in_graph(etype)
        ids = graph.edge_ids
        assert ids is not None
        return lookup(ids, rows, names.num_edge_ids, graph.path)

    def positions_of(self, etype: int, ids: _IDS) -> _IDS:
        order = self.order(etype)
        return ids if order is None else order.positions(ids)

    def tensor(self, array: NDArray[Any]) -> torch.Tensor:
        """Engine ids as DGL wants them."""
        return torch.from_numpy(array).to(self.tensor_dtype)

    def _need(self, needed: int, what: str, instead: str) -> None:
        _memory.check(self.limit, needed, f"{self.store.path}: {what}", instead)

    def _once(self, key: Any, make: Any) -> Any:
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    # ---- nodes and edges ----

    def has_nodes(self, ntype: int, vids: torch.Tensor) -> torch.Tensor:
        return ((vids >= 0) & (vids < self.num_nodes(ntype))).to(self.tensor_dtype)

    def _match(self, etype: int, u: torch.Tensor, v: torch.Tensor) -> _IDS:
        sources, destinations = torch.broadcast_tensors(u, v)
        return adapter.match_edges(self.in_topology(etype), host_ids(destinations), host_ids(sources))

    def has_edges_between(self, etype: int, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return self.tensor((self._match(etype, u, v) >= 0).astype(np.int64))

    def edge_ids_one(self, etype: int, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        rows = self._match(etype, u, v)
        found = rows >= 0
        ids = np.full(len(rows), -1, np.int64)
        ids[found] = self.edge_ids_of(etype, rows[found])
        return self.tensor(ids)

    def edge_ids_all(self, etype: int, u: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        sources, destinations = (host_ids(t) for t in torch.broadcast_tensors(u, v))
        parts: list[tuple[_IDS, _IDS, _IDS]] = []
        for source, destination in zip(sources, destinations, strict=True):
            found = self.in_topology(etype).neighbors(int(destination))
            rows = found.positions[found.ids == source]
            parts.append(
                (np.full_like(rows, source), np.full_like(rows, destination), self.edge_ids_of(etype, rows))
            )
        joined = [np.concatenate(p) if p else np.zeros(0, np.int64) for p in zip(*parts, strict=True)] or [
            np.zeros(0, np.int64)
        ] * 3
        return tuple(self.tensor(a) for a in joined)

    def find_edges(self, etype: int, eid: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ids = host_ids(eid)
        if len(ids) and not (ids.min() >= 0 and ids.max() < self.num_edges(etype)):
            raise DGLError(
                f"an edge id is out of range: there are {self.num_edges(etype)} edges of {self.etypes[etype]}"
            )
        ends = adapter.locate_edges(self.in_topology(etype), self.positions_of(etype, ids))
        return self.tensor(ends.neighbour), self.tensor(ends.grouped), eid

    def all_edges_of(self, etype: int, nodes: torch.Tensor, edge_dir: str) -> tuple[torch.Tensor, ...]:
        """(neighbour, node, edge id) of every edge of `nodes`, by node."""
        topology = self.topology(etype, edge_dir)
        names = self.ids_topology(etype)
        counts = [topology.num_nodes, topology.num_other]
        empty = np.zeros(0, np.int64)
        edge_type = adapter.LayerEdgeType(topology, 0, 1, -1, names=names)
        edges = adapter.sample_layer(counts, [edge_type], [host_ids(nodes), empty]).edges[0]
        return self.tensor(edges.neighbour), self.tensor(edges.frontier), self.tensor(edges.ids)

    def in_edges(self, etype: int, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.all_edges_of(etype, v, "in")

    def out_edges(self, etype: int, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        destinations, sources, ids = self.all_edges_of(etype, v, "out")
        return sources, destinations, ids

    def predecessors(self, etype: int, v: int) -> torch.Tensor:
        return self.all_edges_of(etype, torch.tensor([int(v)]), "in")[0]

    def successors(self, etype: int, v: int) -> torch.Tensor:
        return self.all_edges_of(etype, torch.tensor([int(v)]), "out")[0]

    def edges(self, etype: int, order: str | None = None) -> tuple[torch.Tensor, ...]:
        self._need(
            3 * self.num_edges(etype) * self.bits // 8,
            f"all {self.num_edges(etype)} edges of type {self.etypes[etype]}",
            "Take part of them with g.find_edges(ids); for edge ids alone use torch.arange(g.num_edges()). "
            "SAINTSampler('edge') needs them all: use 'walk'.",
        )
        return self._once(("edges", etype, order or "eid"), lambda: self._list_edges(etype, order or "eid"))

    def _list_edges(self, etype: int, order: str) -> tuple[torch.Tensor, ...]:
        graph = self.in_graph(etype)
        sources = graph.indices.astype(np.int64)
        destinations = np.repeat(np.arange(graph.num_nodes, dtype=np.int64), np.diff(graph.indptr))
        ids = self.edge_ids_of(etype, np.arange(graph.num_edges, dtype=np.int64))
        if order == "eid":
            by = np.argsort(ids, kind="stable")
        elif order == "srcdst":
            by = np.lexsort((destinations, sources))
        else:
            raise DGLError(f"order is {order!r}; choose 'eid' or 'srcdst'")
        return self.tensor(sources[by]), self.tensor(destinations[by]), self.tensor(ids[by])

    # ---- degrees ----

    def in_degrees(self, etype: int, v: torch.Tensor) -> torch.Tensor:
        return self.tensor(self.in_topology(etype).degree(host_ids(v)))

    def out_degrees(self, etype: int, v: torch.Tensor) -> torch.Tensor:
        if self.has_out(etype) or ("out", etype) in self._cache:
            return self.tensor(self.out_topology(etype).degree(host_ids(v)))
        return take_rows(self.all_degrees(etype, "out"), host_ids(v))

    def all_degrees(self, etype: int, edge_dir: str) -> torch.Tensor:
        """Degrees of all nodes, from indptr; out-degrees without an `out` file by one scan of the edges."""
        nodes = self.num_nodes(self.ends[etype][1 if edge_dir == "in" else 0])
        self._need(
            16 * nodes,
            f"a degree for each of {nodes} nodes",
            f"Ask for those you need: g.{edge_dir}_degrees(ids).",
        )
        return self._once(("degrees", etype, edge_dir), lambda: self._count(etype, edge_dir, nodes))

    def _count(self, etype: int, edge_dir: str, nodes: int) -> torch.Tensor:
        if edge_dir == "in" or self.has_out(etype):
            graph = self.store.graph(self.etypes[etype], edge_dir)
            return self.tensor(np.diff(graph.indptr))
        counts = np.zeros(nodes, np.int64)
        indices, step = self.in_graph(etype).indices, 1 << 26
        for begin in range(0, len(indices), step):
            counts += np.bincount(indices[begin : begin + step], minlength=nodes)
        return self.tensor(counts)

    # ---- subgraphs ----

    def node_subgraph(self, induced_nodes: list[torch.Tensor]) -> Subgraph:
        lists = [host_ids(n) for n in induced_nodes]
        types = [adapter.SubgraphEdgeType(self.in_topology(e), d, s) for e, (s, d) in enumerate(self.ends)]
        pairs, ids = [], []
        for e, edges in enumerate(adapter.subgraph_edges(self.counts, types, lists)):
            pairs.append((self.tensor(edges.neighbour), self.tensor(edges.frontier)))
            ids.append(self.tensor(self.edge_ids_of(e, edges.positions)))
        return Subgraph(coo_index(self, pairs, [len(n) for n in lists]), induced_nodes, ids)

    def edge_subgraph(self, induced_edges: list[torch.Tensor], preserve_nodes: bool) -> Subgraph:
        pairs = [self.find_edges(e, ids)[:2] for e, ids in enumerate(induced_edges)]
        if preserve_nodes:
            return Subgraph(coo_index(self, pairs, self.counts), [], induced_edges)
        kept: list[torch.Tensor] = []
        local: list[list[Any]] = [[None, None] for _ in pairs]
        for t in range(len(self.ntypes)):
            places = [(e, end) for e, ends in enumerate(self.ends) for end in (0, 1) if ends[end] == t]
            seen = [pairs[e][end] for e, end in places]
            nodes, numbers = _by_appearance(torch.cat(seen) if seen else self.tensor(np.zeros(0, np.int64)))
            kept.append(nodes)
            for (e, end), part in zip(places, numbers.split([len(s) for s in seen]), strict=True):
                local[e][end] = part.to(self.tensor_dtype)
        return Subgraph(coo_index(self, local, [len(k) for k in kept]), kept, induced_edges)

    # ---- the whole graph, for code of DGL's that needs it ----

    def in_memory(self, why: str, instead: str = SAMPLE_INSTEAD) -> Any:
        size = sum(self.num_edges(e) for e in range(len(self.etypes))) * 6 * self.bits // 8 + 8 * sum(
            self.counts
        )
        self._need(size, f"{why} needs the whole graph in memory, which", instead)
        pairs = [self.edges(e)[:2] for e in range(len(self.etypes))]
        return self._once("memory", lambda: coo_index(self, pairs, self.counts))

    def asobject(self) -> Any:
        """Called where DGL hands the index to its C++ code."""
        return self.in_memory("this DGL function")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(dgl.heterograph_index.HeteroGraphIndex, name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.in_memory(f"{name}()"), name)


def _by_appearance(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The different ids as DGL numbers them, in the order in which they first appear; each id's number."""
    nodes, place = torch.unique(ids, return_inverse=True)
    first = torch.full((len(nodes),), len(ids)).scatter_reduce_(0, place, torch.arange(len(ids)), "amin")
    order = first.argsort()
    return nodes[order], order.argsort()[place]
