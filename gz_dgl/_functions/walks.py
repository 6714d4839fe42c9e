"""DGL's random walks over a store, each with the signature and the result of its original."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gz import adapter
from gz.adapter import host_ids
from gz_dgl import _random
from gz_dgl._dgl import DGLError, utils
from gz_dgl._functions.sampling import NONE, Request


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
    edge_type = adapter.LayerEdgeType(
        topology, 0, 1, 1, names=index.ids_topology(etype), weights=r._weights(prob, etype)
    )
    layer = adapter.sample_layer(
        [topology.num_nodes, topology.num_other],
        [edge_type],
        [at, NONE],
        replace=True,
        numbered=True,
        by_place=True,
        rng_seed=_random.next_seed(),
    )
    edges = layer.edges[0]
    moved = np.flatnonzero(np.diff(edges.indptr))
    return moved, layer.nodes[1][edges.neighbour], edges.ids


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
        adapter.random_walk(
            index.out_topology(0), starts, int(walk_length), float(p), float(q), _random.next_seed()
        )
    )
