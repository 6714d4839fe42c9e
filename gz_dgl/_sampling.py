"""DGL's sampling functions over a store, each with the signature and the result of its original."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gz import _engine
from gz_dgl import _build, _random
from gz_dgl._columns import EdgeColumn, host_ids
from gz_dgl._dgl import DGLError, DGLGraph, utils

_NONE = np.zeros(0, np.int64)


class Request:
    """The arguments of one sampling call, in the engine's terms."""

    def __init__(self, g: Any, nodes: Any, fanout: Any, edge_dir: str, prob: Any, exclude_edges: Any):
        self.g, self.index, self.out = g, g._graph, edge_dir == "out"
        self.device = torch.device("cpu")
        self.seeds = self._seeds(nodes)
        fanouts = self._fanouts(fanout)
        excluded = self._excluded(exclude_edges)
        self.edge_types = []
        for e, (source, destination) in enumerate(self.index.ends):
            near, far = (source, destination) if self.out else (destination, source)
            self.edge_types.append(
                (
                    # An edge type that is not sampled needs no topology of this direction.
                    self.index.topology(e, edge_dir)
                    if fanouts[e] and len(self.seeds[near])
                    else self._any_way(e),
                    near if fanouts[e] and len(self.seeds[near]) else destination,
                    far if fanouts[e] and len(self.seeds[near]) else source,
                    fanouts[e] if len(self.seeds[near]) else 0,
                    self.index.ids_topology(e),
                    self._weights(prob, e),
                    excluded[e],
                )
            )

    def _any_way(self, etype: int) -> Any:
        return self.index.in_topology(etype)

    def _seeds(self, nodes: Any) -> list[NDArray[np.int64]]:
        g = self.g
        if not isinstance(nodes, Mapping):
            if len(g.ntypes) > 1:
                raise DGLError("Must specify node type when the graph is not homogeneous.")
            nodes = {g.ntypes[0]: nodes}
        if not nodes:
            raise ValueError(
                "Got an empty dictionary in the nodes argument. "
                "Please pass in a dictionary with empty tensors as values instead."
            )
        self.given = {}
        for ntype, ids in nodes.items():
            if g.get_ntype_id(ntype) is None:
                raise DGLError(f"no node type {ntype!r}")
            if torch.is_tensor(ids) and ids.device.type != "cpu":
                self.device = ids.device
                ids = ids.cpu()
            self.given[ntype] = utils.prepare_tensor(g, ids, f'nodes["{ntype}"]')
        return [host_ids(self.given[t]) if t in self.given else _NONE for t in g.ntypes]

    def _fanouts(self, fanout: Any) -> list[int]:
        etypes = self.g.etypes
        if not isinstance(fanout, Mapping):
            if hasattr(fanout, "asnumpy") or torch.is_tensor(fanout):
                values = fanout.asnumpy() if hasattr(fanout, "asnumpy") else fanout
                return [int(k) for k in values]
            return [int(fanout)] * len(etypes)
        if len(fanout) != len(etypes):
            raise DGLError("Fan-out must be specified for each edge type if a dict is provided.")
        values = [0] * len(etypes)
        for etype, k in fanout.items():
            values[self.g.get_etype_id(etype)] = int(k)
        return values

    def _excluded(self, exclude_edges: Any) -> list[NDArray[np.int64] | None]:
        etypes = self.g.canonical_etypes
        if exclude_edges is None:
            return [None] * len(etypes)
        if not isinstance(exclude_edges, Mapping):
            if len(etypes) > 1:
                raise DGLError("Must specify etype when the graph is not homogeneous.")
            exclude_edges = {etypes[0]: exclude_edges}
        ids = {self.g.to_canonical_etype(t): torch.as_tensor(v) for t, v in exclude_edges.items()}
        return [host_ids(ids[t]) if t in ids and len(ids[t]) else None for t in etypes]

    def _weights(self, prob: Any, etype: int) -> NDArray[Any] | None:
        if prob is None:
            return None
        if isinstance(prob, list):
            given = prob[etype]
            if given is None or not len(given):
                return None
            given = given if torch.is_tensor(given) else torch.from_numpy(given.asnumpy())
            return self.g._by_row(etype, given, None)
        column = self.g._edge_frames[etype]._columns.get(prob)
        if column is None:
            return None
        mapped = column.by_row() if isinstance(column, EdgeColumn) else None
        return self.g._by_row(etype, column.data if mapped is None else None, mapped, prob)

    def tensors(self, edge: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(source, destination, edge ids) of a frontier."""
        _, neighbour, owner, _, ids, _ = edge
        source, destination = (owner, neighbour) if self.out else (neighbour, owner)
        to = self.index.tensor
        return to(source), to(destination), to(ids)

    def frontier(self, edges: Any, copy_ndata: bool, copy_edata: bool) -> Any:
        found = [self.tensors(e) for e in edges]
        g = self.g
        graph = DGLGraph(
            _build.coo_index(self.index, [t[:2] for t in found], self.index.counts), g.ntypes, g.etypes
        )
        if copy_ndata:
            utils.set_new_frames(graph, node_frames=utils.extract_node_subframes(g, None))
        if copy_edata:
            utils.set_new_frames(graph, edge_frames=utils.extract_edge_subframes(g, [t[2] for t in found]))
        return graph


def sample_neighbors(
    g: Any,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: Any = None,
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    _dist_training: bool = False,
    exclude_edges: Any = None,
    output_device: Any = None,
    **_: Any,
) -> Any:
    """dgl.sampling.sample_neighbors: a graph of all the nodes and the sampled edges."""
    r = Request(g, nodes, fanout, edge_dir, prob, exclude_edges)
    _, edges = _engine.sample_layer(
        r.index.counts, r.edge_types, r.seeds, replace, False, False, _random.next_seed(), r.index.bits == 32
    )
    frontier = r.frontier(edges, copy_ndata, copy_edata)
    return frontier.to(output_device if output_device is not None else r.device)


def sample_neighbors_fused(
    g: Any,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: Any = None,
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    exclude_edges: Any = None,
    mapping: Any = None,
    **_: Any,
) -> Any:
    """dgl.sampling.sample_neighbors_fused: a block. Seeds may repeat, each with its own edges."""
    del mapping  # DGL's scratch of 8 bytes per node of the graph; the engine's follows the batch
    r = Request(g, nodes, fanout, edge_dir, prob, exclude_edges)
    index = r.index
    sampled, edges = _engine.sample_layer(
        index.counts, r.edge_types, r.seeds, replace, True, False, _random.next_seed(), index.bits == 32
    )
    empty = torch.zeros(0, dtype=index.tensor_dtype)
    src = [index.tensor(n) for n in sampled]
    dst = [r.given.get(t, empty) for t in g.ntypes]
    csc, ids = [], []
    for (indptr, neighbour, _o, _r, edge_ids, _i), (s, d) in zip(edges, index.ends, strict=True):
        size = len(dst[s if r.out else d]) + 1
        # An edge type that was not sampled (fanout 0, no seeds) has no groups: give it empty ones.
        indptr = indptr if len(indptr) == size else np.zeros(size, indptr.dtype)
        csc.append((index.tensor(indptr), index.tensor(neighbour)))
        ids.append(index.tensor(edge_ids))
    block = _build.block(index, g.ntypes, g.etypes, csc, [len(n) for n in src], [len(n) for n in dst], r.out)
    if copy_ndata:
        utils.set_new_frames(block, node_frames=utils.extract_node_subframes_for_block(g, src, dst))
    if copy_edata:
        utils.set_new_frames(block, edge_frames=utils.extract_edge_subframes(g, ids))
    return block


def sample_labors(
    g: Any,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: Any = None,
    importance_sampling: int = 0,
    random_seed: Any = None,
    seed2_contribution: float = 0,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    exclude_edges: Any = None,
    output_device: Any = None,
    **_: Any,
) -> tuple[Any, list[torch.Tensor]]:
    """dgl.sampling.sample_labors: a frontier and, where edges are weighed, the weights of each edge type."""
    if random_seed is None:
        seeds = [_random.next_seed()]
    else:
        array = random_seed.asnumpy() if hasattr(random_seed, "asnumpy") else np.asarray(random_seed)
        seeds = [int(v) & ((1 << 64) - 1) for v in array.reshape(-1)]
    r = Request(g, nodes, fanout, edge_dir, prob, exclude_edges)
    _, edges = _engine.labor_layer(
        r.index.counts,
        r.edge_types,
        r.seeds,
        int(importance_sampling),
        seeds[0],
        seeds[-1],
        float(seed2_contribution),
        r.index.bits == 32,
    )
    device = output_device if output_device is not None else r.device
    frontier = r.frontier(edges, copy_ndata, copy_edata)
    return frontier.to(device), [torch.from_numpy(e[5]).to(device) for e in edges]


def global_uniform_negative_sampling(
    g: Any,
    num_samples: int,
    exclude_self_loops: bool = True,
    replace: bool = False,
    etype: Any = None,
    redundancy: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """dgl.sampling.global_uniform_negative_sampling: pairs without an edge; at most num_samples of them."""
    index, e = g._graph, g.get_etype_id(etype)
    source_type, destination_type = index.ends[e]
    sources, destinations = index.num_nodes(source_type), index.num_nodes(destination_type)
    if num_samples <= 0 or sources == 0 or destinations == 0:
        return index.tensor(_NONE), index.tensor(_NONE)
    rng = np.random.Generator(np.random.Philox(key=_random.next_seed()))
    share = index.num_edges(e) / (sources * destinations)
    extra = redundancy if redundancy is not None else min(9.0, 1.3 / max(1 - share, 1e-3) - 1)
    kept = np.zeros((0, 2), np.int64)
    for _ in range(4):
        draws = max(16, int((num_samples - len(kept)) * (1 + extra)))
        pairs = np.stack([rng.integers(0, sources, draws), rng.integers(0, destinations, draws)], 1)
        free = _engine.match_edges(index.in_topology(e), pairs[:, 1].copy(), pairs[:, 0].copy()) < 0
        if exclude_self_loops and source_type == destination_type:
            free &= pairs[:, 0] != pairs[:, 1]
        kept = np.concatenate([kept, pairs[free]])
        if not replace:
            _, first = np.unique(kept, axis=0, return_index=True)
            kept = kept[np.sort(first)]  # the order drawn: the first num_samples must not favour small ids
        if len(kept) >= num_samples:
            break
    kept = kept[:num_samples]
    return index.tensor(kept[:, 0].copy()), index.tensor(kept[:, 1].copy())


def random_walk(
    g: Any,
    nodes: Any,
    *,
    metapath: Any = None,
    length: int | None = None,
    prob: Any = None,
    restart_prob: Any = None,
    return_eids: bool = False,
) -> Any:
    """dgl.sampling.random_walk: traces along outgoing edges, -1 after a dead end or a stop; node types."""
    index = g._graph
    if metapath is None:
        if len(g.etypes) > 1 or len(g.ntypes) > 1:
            raise DGLError("metapath not specified and the graph is not homogeneous.")
        if length is None:
            raise ValueError("Please specify either the metapath or the random walk length.")
        path = [0] * length
    else:
        path = [g.get_etype_id(t) for t in metapath]
    if restart_prob is not None and not isinstance(restart_prob, float) and not torch.is_tensor(restart_prob):
        raise TypeError("restart_prob should be float or Tensor.")
    stops = torch.as_tensor(0.0 if restart_prob is None else restart_prob).reshape(-1).double().numpy()
    stops = np.broadcast_to(stops, (len(path),)) if len(stops) == 1 else stops
    at = host_ids(utils.prepare_tensor(g, nodes, "nodes"))
    types = [index.ends[path[0]][0] if path else 0]
    traces = np.full((len(at), len(path) + 1), -1, np.int64)
    edges = np.full((len(at), len(path)), -1, np.int64)
    traces[:, 0] = at
    walkers = np.arange(len(at))
    rng = np.random.Generator(np.random.Philox(key=_random.next_seed()))
    for step, e in enumerate(path):
        types.append(index.ends[e][1])
        if stops[step] > 0:
            goes_on = rng.random(len(walkers)) >= stops[step]
            walkers, at = walkers[goes_on], at[goes_on]
        if not len(walkers):
            continue
        moved, at, ids = _one_step(g, e, at, prob)
        walkers = walkers[moved]
        traces[walkers, step + 1] = at
        edges[walkers, step] = ids
    result = index.tensor(traces), index.tensor(np.asarray(types, np.int64))
    return (result[0], index.tensor(edges), result[1]) if return_eids else result


def _one_step(g: Any, etype: int, at: NDArray[np.int64], prob: Any) -> tuple[NDArray[Any], ...]:
    """One draw per walker: which of them moved, where to, along which edge."""
    index = g._graph
    topology = index.out_topology(etype)
    r = Request.__new__(Request)
    r.g, r.index = g, index
    edge_type = (topology, 0, 1, 1, index.ids_topology(etype), r._weights(prob, etype), None)
    sampled, edges = _engine.sample_layer(
        [topology.num_nodes, topology.num_other],
        [edge_type],
        [at, _NONE],
        True,
        True,
        True,
        _random.next_seed(),
    )
    indptr, neighbour, _, _, ids, _ = edges[0]
    moved = np.flatnonzero(np.diff(indptr))
    return moved, sampled[1][neighbour], ids


def node2vec_random_walk(
    g: Any, nodes: Any, p: float, q: float, walk_length: int, prob: Any = None, return_eids: bool = False
) -> Any:
    """dgl.sampling.node2vec_random_walk on a homogeneous graph, without prob and edge ids."""
    if prob is not None or return_eids or len(g.etypes) != 1:
        raise DGLError(
            "node2vec walks over a store take no prob and return no edge ids; use random_walk, or weights "
            "given to gz.ingest(weight=...) and store.graph(direction='out').batch_random_walk"
        )
    index = g._graph
    starts = host_ids(utils.prepare_tensor(g, nodes, "nodes"))
    return index.tensor(
        _engine.random_walk(
            index.out_topology(0), starts, int(walk_length), float(p), float(q), _random.next_seed()
        )
    )


def in_subgraph(
    graph: Any, nodes: Any, *, relabel_nodes: bool = False, store_ids: bool = True, output_device: Any = None
) -> Any:
    """dgl.in_subgraph: all edges into `nodes`."""
    return _all_edges(graph, nodes, "in", relabel_nodes, store_ids, output_device)


def out_subgraph(
    graph: Any, nodes: Any, *, relabel_nodes: bool = False, store_ids: bool = True, output_device: Any = None
) -> Any:
    """dgl.out_subgraph: all edges out of `nodes`."""
    return _all_edges(graph, nodes, "out", relabel_nodes, store_ids, output_device)


def _all_edges(g: Any, nodes: Any, edge_dir: str, relabel: bool, store_ids: bool, device: Any) -> Any:
    r = Request(g, nodes, -1, edge_dir, None, None)
    _, edges = _engine.sample_layer(r.index.counts, r.edge_types, r.seeds, False, False, False, 0)
    ids = {t: r.tensors(e)[2] for t, e in zip(g.canonical_etypes, edges, strict=True)}
    return g.edge_subgraph(ids, relabel_nodes=relabel, store_ids=store_ids, output_device=device)
