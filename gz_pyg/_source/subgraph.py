"""`data.subgraph` of a loaded store: PyG's, with only the edges of the nodes it keeps read from the files."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import bipartite_subgraph

from gz import adapter
from gz_pyg._edges import EdgeIds, by_id
from gz_pyg._source.protocol import rows_of
from gz_pyg._store.overlay import Overlay, raw, raw_items
from gz_pyg._store.stored import Stored, StoredEdgeIndex


def subgraph_of_data(data: Any, subset: Tensor) -> Any:
    """Of a ``StoreData``: nodes in the order of ``subset``, edges in that of ``edge_index``."""
    out, storage, nodes = copy.copy(data), data._store, _ids(subset)
    found = _edges_among(storage, nodes, nodes, (storage.num_nodes, storage.num_nodes))
    for key, value in raw_items(storage):
        if key == "num_nodes":
            out.num_nodes = nodes.numel()
        elif key == "edge_index" and found is not None:
            out.edge_index = found[0]
        elif storage.is_node_attr(key):
            out[key] = _rows(storage, key, value, nodes)
        elif storage.is_edge_attr(key) and found is not None:
            out[key] = _rows(storage, key, value, found[1])
    _renumber(storage, out._store, nodes)
    return out


def subgraph_of_hetero_data(data: Any, subset_dict: dict[str, Tensor]) -> Any:
    """Of a ``StoreHeteroData``: all nodes stay of types that ``subset_dict`` does not name."""
    out = copy.copy(data)
    nodes = {t: _ids(subset) for t, subset in subset_dict.items()}
    for t, ids in nodes.items():
        storage = data[t]
        for key, value in raw_items(storage):
            if key == "num_nodes":
                out[t].num_nodes = ids.numel()
            elif storage.is_node_attr(key):
                out[t][key] = _rows(storage, key, value, ids)
        _renumber(storage, out[t], ids)
    for e, storage in data.edge_items():
        size = (data[e[0]].num_nodes, data[e[2]].num_nodes)
        ends = [nodes[t] if t in nodes else torch.arange(n) for t, n in zip((e[0], e[2]), size, strict=True)]
        found = _edges_among(storage, ends[0], ends[1], size)
        if found is None:
            continue
        for key, value in raw_items(storage):
            if key == "edge_index":
                out[e].edge_index = found[0]
            elif storage.is_edge_attr(key):
                out[e][key] = _rows(storage, key, value, found[1])
    return out


def _renumber(storage: Any, out: Any, nodes: Tensor) -> None:
    """The masks of the store's splits go along, and ids of the store mean nothing here any more."""
    if isinstance(out._mapping, Overlay):
        for name, mask in storage._mapping.masks().items():
            out[name] = mask[nodes]
        out._mapping.renumbered = True


def _ids(subset: Tensor) -> Tensor:
    return subset.nonzero().view(-1) if subset.dtype == torch.bool else subset


def _rows(storage: Any, key: str, value: Any, index: Tensor) -> Any:
    dim = 0 if isinstance(value, Stored) else storage._parent().__cat_dim__(key, value, storage)
    return rows_of(value, index, dim)


def _edges_among(
    storage: Any, src: Tensor, dst: Tensor, size: tuple[int, int]
) -> tuple[Tensor, Tensor] | None:
    """(ends, renumbered; numbers) of the edges between nodes, in order; None where there is no edge_index."""
    edges = raw(storage, "edge_index")
    if edges is None:
        return None
    if not isinstance(edges, StoredEdgeIndex) or edges.version:
        ends, _, mask = bipartite_subgraph(
            (src, dst), storage.edge_index, relabel_nodes=True, size=size, return_edge_mask=True
        )
        return ends, mask.nonzero().view(-1)
    graph = edges.graph
    out = graph.direction == "out"
    owners, others = (src, dst) if out else (dst, src)
    found = adapter.induced_edges(
        adapter.topology(graph), adapter.host_ids(owners), adapter.host_ids(others), None, None
    )
    numbers = torch.from_numpy(found.rows)
    numbers = EdgeIds(graph)[numbers] if by_id(graph) else numbers
    order = numbers.argsort()
    ends = [torch.from_numpy(found.neighbour)[order], torch.from_numpy(found.frontier)[order]]
    return torch.stack(ends[::-1] if out else ends), numbers[order]
