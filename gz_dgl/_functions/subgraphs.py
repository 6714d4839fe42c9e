"""DGL's subgraph functions over a store: of some nodes' edges, and of some types.

(dgl.node_subgraph and dgl.edge_subgraph ask the index, and need nothing here.)
"""

from __future__ import annotations

from typing import Any

from gz import adapter
from gz_dgl._dgl import DGLError
from gz_dgl._functions.sampling import Request
from gz_dgl._index import StoreIndex


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
    layer = adapter.sample_layer(r.index.counts, r.edge_types, r.seeds)
    ids = {t: r.tensors(e)[2] for t, e in zip(g.canonical_etypes, layer.edges, strict=True)}
    return g.edge_subgraph(ids, relabel_nodes=relabel, store_ids=store_ids, output_device=device)


def edge_type_subgraph(graph: Any, etypes: Any, output_device: Any = None) -> Any:
    """dgl.edge_type_subgraph: a graph over the same store with fewer types."""
    index: StoreIndex = graph._graph
    kept_e = [graph.get_etype_id(t) for t in etypes]
    kept_n = sorted({end for e in kept_e for end in index.ends[e]})
    part = StoreIndex(
        index.store,
        [index.ntypes[t] for t in kept_n],
        [index.etypes[e] for e in kept_e],
        index.bits,
        index.limit,
    )
    sub = type(graph)(
        part,
        [graph.ntypes[t] for t in kept_n],
        [graph.etypes[e] for e in kept_e],
        [graph._node_frames[t] for t in kept_n],
        [graph._edge_frames[e] for e in kept_e],
    )
    return sub.to(output_device)


def node_type_subgraph(graph: Any, ntypes: Any, output_device: Any = None) -> Any:
    """dgl.node_type_subgraph: the relations among some node types."""
    for t in ntypes:
        graph.get_ntype_id(t)
    among = [t for t in graph.canonical_etypes if t[0] in ntypes and t[2] in ntypes]
    if not among:
        raise DGLError("There are no edges among nodes of the specified types.")
    return edge_type_subgraph(graph, among, output_device)
