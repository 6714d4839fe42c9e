"""DGL's sampling functions over a store, each with the signature and the result of its original."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gz import adapter
from gz.adapter import host_ids
from gz_dgl import _build, _random
from gz_dgl._columns import MappedColumn
from gz_dgl._dgl import DGLError, DGLGraph, utils

NONE = np.zeros(0, np.int64)


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
            sampled = fanouts[e] and len(self.seeds[near])
            # An edge type that is not sampled needs no topology of this direction.
            topology = self.index.topology(e, edge_dir) if sampled else self.index.in_topology(e)
            self.edge_types.append(
                adapter.LayerEdgeType(
                    topology,
                    near if sampled else destination,
                    far if sampled else source,
                    fanouts[e] if sampled else 0,
                    names=self.index.ids_topology(e),
                    weights=self._weights(prob, e),
                    exclude=excluded[e],
                )
            )

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
        return [host_ids(self.given[t]) if t in self.given else NONE for t in g.ntypes]

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
        mapped = column.by_row() if isinstance(column, MappedColumn) else None
        return self.g._by_row(etype, column.data if mapped is None else None, mapped, prob)

    def sample(self, replace: bool, numbered: bool = False) -> adapter.Layer:
        """Neighbours of the seeds; `numbered` as the nodes of a block."""
        return adapter.sample_layer(
            self.index.counts,
            self.edge_types,
            self.seeds,
            replace=replace,
            numbered=numbered,
            rng_seed=_random.next_seed(),
            narrow=self.index.bits == 32,
        )

    def tensors(self, edges: adapter.LayerEdges) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(source, destination, edge ids) of a frontier."""
        to = self.index.tensor
        neighbour, owner = to(edges.neighbour), to(edges.frontier)
        return (owner, neighbour, to(edges.ids)) if self.out else (neighbour, owner, to(edges.ids))

    def frontier(self, edges: list[adapter.LayerEdges], copy_ndata: bool, copy_edata: bool) -> Any:
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
    frontier = r.frontier(r.sample(replace).edges, copy_ndata, copy_edata)
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
    index, layer = r.index, r.sample(replace, numbered=True)
    empty = torch.zeros(0, dtype=index.tensor_dtype)
    src = [index.tensor(n) for n in layer.nodes]
    dst = [r.given.get(t, empty) for t in g.ntypes]
    csc, ids = [], []
    for edges, (s, d) in zip(layer.edges, index.ends, strict=True):
        size = len(dst[s if r.out else d]) + 1
        # An edge type that was not sampled (fanout 0, no seeds) has no groups: give it empty ones.
        indptr = edges.indptr if len(edges.indptr) == size else np.zeros(size, edges.indptr.dtype)
        csc.append((index.tensor(indptr), index.tensor(edges.neighbour)))
        ids.append(index.tensor(edges.ids))
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
    layer = adapter.labor_layer(
        r.index.counts,
        r.edge_types,
        r.seeds,
        importance=int(importance_sampling),
        random_seed=seeds[0],
        second_seed=seeds[-1],
        second_share=float(seed2_contribution),
        narrow=r.index.bits == 32,
    )
    device = output_device if output_device is not None else r.device
    frontier = r.frontier(layer.edges, copy_ndata, copy_edata)
    return frontier.to(device), [torch.from_numpy(e.importance).to(device) for e in layer.edges]


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
        return index.tensor(NONE), index.tensor(NONE)
    rng = np.random.Generator(np.random.Philox(key=_random.next_seed()))
    share = index.num_edges(e) / (sources * destinations)
    extra = redundancy if redundancy is not None else min(9.0, 1.3 / max(1 - share, 1e-3) - 1)
    kept = np.zeros((0, 2), np.int64)
    for _ in range(4):
        draws = max(16, int((num_samples - len(kept)) * (1 + extra)))
        pairs = np.stack([rng.integers(0, sources, draws), rng.integers(0, destinations, draws)], 1)
        free = adapter.match_edges(index.in_topology(e), pairs[:, 1].copy(), pairs[:, 0].copy()) < 0
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
