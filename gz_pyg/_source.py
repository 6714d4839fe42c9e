"""What a sampler samples from: the types, the sizes, the edges, the times and the weights of any `data`.

`data` is a PyG `Data` or `HeteroData`, what `gz_pyg.load` returns, or any (FeatureStore, GraphStore) pair.
A homogeneous graph has the one node type None and the one edge type None.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.graph_store import EdgeLayout

from gz_pyg._edges import ArrayEdges, Edges, StoreEdges
from gz_pyg._tensors import Mapped

NodeKey = str | None
EdgeKey = tuple[str, str, str] | None
Column = Tensor | Mapped


@dataclass
class Source:
    num_nodes: dict[NodeKey, int]
    edges: dict[EdgeKey, Edges]
    node_time: dict[NodeKey, Column] = field(default_factory=dict)
    edge_time: dict[EdgeKey, Column] = field(default_factory=dict)  # in the order of the edges here
    weight: dict[EdgeKey, Column] = field(default_factory=dict)  # in the order of the edges here

    @property
    def is_hetero(self) -> bool:
        return None not in self.num_nodes


def make_source(
    data: Any, backward: bool, is_sorted: bool, time_attr: str | None, weight_attr: str | None
) -> Source:
    from gz_pyg.data import StoreData

    if isinstance(data, StoreData):
        return _of_store(data, backward, time_attr, weight_attr)
    if isinstance(data, Data):
        return _of_data(data, backward, is_sorted, time_attr, weight_attr)
    if isinstance(data, HeteroData):
        return _of_hetero_data(data, backward, is_sorted, time_attr, weight_attr)
    return _of_remote(data, backward, time_attr, weight_attr)


# ---- in memory ----


def _storage_edges(
    store: Any,
    size: tuple[int, int],
    backward: bool,
    is_sorted: bool,
    name: str,
    node_time: Any = None,
    edge_time: Any = None,
) -> ArrayEdges:
    """The edges of one storage; lists in the order of time, where there is one, as PyG has them."""
    if "edge_index" in store and store.edge_index is not None:
        time = edge_time
        if node_time is not None and not is_sorted:
            time = node_time[store.edge_index[1 if backward else 0]]
        time = None if time is None else time.detach().cpu().reshape(-1)
        return ArrayEdges.from_edge_index(store.edge_index, size, backward, is_sorted, name, time)
    if "adj_t" in store:
        if hasattr(store.adj_t, "csr"):
            pointer, neighbours, _ = store.adj_t.csc() if backward else store.adj_t.csr()
            if backward:
                neighbours, pointer = pointer, neighbours
            return ArrayEdges.from_compressed(pointer, neighbours, None, size, backward, name)
        adj_t = store.adj_t.to_sparse_csr()
        if backward:
            raise ValueError(f"{name}: sampling backward needs edge_index, not a torch.sparse adj_t")
        return ArrayEdges.from_compressed(adj_t.crow_indices(), adj_t.col_indices(), None, size, False, name)
    return ArrayEdges.from_edge_index(torch.empty(2, 0, dtype=torch.int64), size, backward, False, name)


def _permuted(value: Tensor, edges: Edges, what: str) -> Tensor:
    """Edge values brought into the order of the edges."""
    value = value.detach().cpu()
    if value.dim() > 1:
        value = value.view(value.size(0), -1)
        if value.size(1) != 1:
            raise ValueError(f"{what} must have one value per edge, not the shape {tuple(value.shape)}")
        value = value.view(-1)
    permutation = edges.permutation
    return value if permutation is None else value[permutation]  # type: ignore[index]


def _of_data(
    data: Data, backward: bool, is_sorted: bool, time_attr: str | None, weight_attr: str | None
) -> Source:
    n = data.num_nodes
    if n is None:
        raise ValueError("the number of nodes is unknown; set data.num_nodes")
    node_time = edge_time = None
    if time_attr is not None:
        if time_attr in data and data.is_node_attr(time_attr):
            node_time = data[time_attr]
        elif time_attr in data and data.is_edge_attr(time_attr):
            edge_time = data[time_attr]
        else:
            raise ValueError(
                f"The time attribute '{time_attr}' is neither a node-level or edge-level attribute; "
                f"data holds {sorted(data.keys())}"
            )
    edges = _storage_edges(data._store, (n, n), backward, is_sorted, "data", node_time, edge_time)
    source = Source({None: n}, {None: edges})
    if node_time is not None:
        source.node_time[None] = node_time
    if edge_time is not None:
        source.edge_time[None] = _permuted(edge_time, edges, f"time_attr '{time_attr}'")
    if weight_attr is not None:
        if weight_attr not in data or not data.is_edge_attr(weight_attr):
            found = sorted(k for k in data.keys() if data.is_edge_attr(k))  # noqa: SIM118
            raise ValueError(
                f"no edge-level weight_attr '{weight_attr}'; data holds the edge attributes {found}"
            )
        source.weight[None] = _permuted(data[weight_attr], edges, f"weight_attr '{weight_attr}'")
    return source


def _of_hetero_data(
    data: HeteroData, backward: bool, is_sorted: bool, time_attr: str | None, weight_attr: str | None
) -> Source:
    num_nodes: dict[NodeKey, int] = {}
    for t in data.node_types:
        n = data[t].num_nodes
        if n is None:
            raise ValueError(f"the number of nodes of type '{t}' is unknown; set data['{t}'].num_nodes")
        num_nodes[t] = n
    for t in data.edge_types:
        for end in (t[0], t[2]):
            if end not in num_nodes:
                raise ValueError(
                    f"edge type {t} names node type '{end}', but data has only {data.node_types}"
                )
    on_nodes = {t: s[time_attr] for t, s in data.node_items() if time_attr in s} if time_attr else {}
    on_edges = {t: s[time_attr] for t, s in data.edge_items() if time_attr in s} if time_attr else {}
    edges: dict[EdgeKey, Edges] = {}
    for t, store in data.edge_items():
        size = (num_nodes[t[0]], num_nodes[t[2]])
        times = on_nodes.get(t[2 if backward else 0]), on_edges.get(t)
        edges[t] = _storage_edges(store, size, backward, is_sorted, str(t), *times)
    source = Source(num_nodes, edges)
    if time_attr is not None:
        _place_times(source, on_nodes, on_edges, time_attr)
    if weight_attr is not None:
        weights = {t: s[weight_attr] for t, s in data.edge_items() if weight_attr in s}
        _place_weights(source, weights, weight_attr)
    return source


def _place_times(
    source: Source, on_nodes: Mapping[Any, Any], on_edges: Mapping[Any, Any], time_attr: str
) -> None:
    if on_nodes and on_edges:
        raise ValueError(
            f"The time attribute '{time_attr}' holds both node-level and edge-level information: "
            f"{sorted(on_nodes)} and {sorted(on_edges)}"
        )
    if not on_nodes and not on_edges:
        raise ValueError(
            f"The time attribute '{time_attr}' is neither a node-level or edge-level attribute of any of "
            f"{[*source.num_nodes, *source.edges]}"
        )
    source.node_time.update(on_nodes)
    for t, value in on_edges.items():
        source.edge_time[t] = _permuted(value, source.edges[t], f"time_attr '{time_attr}'")


def _place_weights(source: Source, weights: Mapping[Any, Any], weight_attr: str) -> None:
    if not weights:
        raise ValueError(f"no edge type has the weight_attr '{weight_attr}'; there are {list(source.edges)}")
    for t, value in weights.items():
        source.weight[t] = _permuted(value, source.edges[t], f"weight_attr '{weight_attr}'")


# ---- a store ----


def _of_store(data: Any, backward: bool, time_attr: str | None, weight_attr: str | None) -> Source:
    store = data.store
    key = data._key
    direction = "out" if backward else "in"
    source = Source(
        {key(t): store.num_nodes(t) for t in store.node_types},
        {key(t): StoreEdges(store.graph(t, direction)) for t in store.edge_types},
    )
    features = data.feature_store
    node_columns = {t: features._names(t) for t in store.node_types}
    edge_columns = {t: features._names(t) for t in store.edge_types}
    if time_attr is not None:
        on_nodes = {
            key(t): features._column(t, time_attr) for t, names in node_columns.items() if time_attr in names
        }
        on_edges = {
            key(t): features._column(t, time_attr) for t, names in edge_columns.items() if time_attr in names
        }
        if not on_nodes and not on_edges:
            raise ValueError(
                f"no column '{time_attr}' for time_attr; the store has {_listing(node_columns, edge_columns)}"
            )
        if on_nodes and on_edges:
            raise ValueError(
                f"'{time_attr}' is a column of nodes and of edges; time_attr must be one of the two"
            )
        source.node_time.update(on_nodes)
        source.edge_time.update(on_edges)
    if weight_attr is not None:
        found = {
            key(t): features._column(t, weight_attr)
            for t, names in edge_columns.items()
            if weight_attr in names
        }
        if not found:
            raise ValueError(
                f"no edge column '{weight_attr}' for weight_attr; the store has {_listing({}, edge_columns)}"
            )
        source.weight.update(found)
    return source


def _listing(nodes: Mapping[Any, list[str]], edges: Mapping[Any, list[str]]) -> str:
    return "; ".join(f"{t}: {', '.join(names) or 'none'}" for t, names in {**nodes, **edges}.items())


# ---- any other (FeatureStore, GraphStore) ----


def _of_remote(data: Any, backward: bool, time_attr: str | None, weight_attr: str | None) -> Source:
    feature_store, graph_store = data
    attrs = [copy.copy(a) for a in feature_store.get_all_tensor_attrs()]
    edge_attrs = graph_store.get_all_edge_attrs()
    types = list(dict.fromkeys(a.edge_type for a in edge_attrs))
    hetero = bool(types) and None not in types
    if not hetero and not edge_attrs:
        raise ValueError("the graph store holds no edges")
    num_nodes = remote_sizes(feature_store, graph_store)
    if hetero:
        first, second, permutations = graph_store.csr() if backward else graph_store.csc()
    else:
        one = graph_store.csr() if backward else graph_store.csc()
        first, second, permutations = ({None: v} for v in one)
    edges: dict[EdgeKey, Edges] = {}
    for t in types:
        pointer, neighbours = (first[t], second[t]) if backward else (second[t], first[t])
        size = (num_nodes[t[0]], num_nodes[t[2]]) if hetero else (num_nodes[None], num_nodes[None])
        name = "the graph store" if t is None else str(t)
        edges[t] = ArrayEdges.from_compressed(pointer, neighbours, permutations.get(t), size, backward, name)
    source = Source(num_nodes, edges)
    on_nodes, on_edges = split_attrs(feature_store, attrs, source)

    def columns(of: list[tuple[Any, Any]], name: str) -> dict[Any, Any]:
        found = {}
        for key, attr in of:
            if attr.attr_name == name:
                attr.index = None
                found[key] = torch.as_tensor(feature_store.get_tensor(attr))
        return found

    if time_attr is not None:
        times = columns(on_nodes, time_attr), columns(on_edges, time_attr)
        if not times[0] and not times[1]:
            raise ValueError(
                f"Temporal sampling specified but did not find any temporal data: no attribute "
                f"'{time_attr}'; the feature store has {sorted({str(a.attr_name) for a in attrs})}"
            )
        _place_times(source, *times, time_attr)
    if weight_attr is not None:
        _place_weights(source, columns(on_edges, weight_attr), weight_attr)
    return source


def remote_sizes(feature_store: Any, graph_store: Any) -> dict[NodeKey, int]:
    """Nodes by type: from the sizes of the edge types, from the feature tensors, or else from the edges."""
    edge_attrs = graph_store.get_all_edge_attrs()
    homogeneous = any(a.edge_type is None for a in edge_attrs)
    sizes: dict[NodeKey, int] = {}
    for a in edge_attrs:
        if a.size is None:
            continue
        ends = (None, None) if homogeneous else (a.edge_type[0], a.edge_type[2])
        for t, n in zip(ends, a.size, strict=True):
            if n is not None:
                sizes[t] = max(int(n), sizes.get(t, 0))
    if not homogeneous:
        for attr in feature_store.get_all_tensor_attrs():
            if isinstance(attr.group_name, str) and attr.group_name not in sizes:
                size = feature_store.get_tensor_size(attr)
                if size is not None:
                    sizes[attr.group_name] = int(size[0])
    for a in edge_attrs:  # nothing says how many: the largest id must do
        ends = (None, None) if homogeneous else (a.edge_type[0], a.edge_type[2])
        if all(t in sizes for t in ends):
            continue
        row, col = graph_store.get_edge_index(a)
        found = (
            row.numel() - 1 if a.layout == EdgeLayout.CSR else int(row.max()) + 1 if row.numel() else 0,
            col.numel() - 1 if a.layout == EdgeLayout.CSC else int(col.max()) + 1 if col.numel() else 0,
        )
        for t, n in zip(ends, found, strict=True):
            sizes[t] = max(n, sizes.get(t, 0))
    return sizes


def split_attrs(feature_store: Any, attrs: list[Any], source: Source) -> tuple[list[Any], list[Any]]:
    """Which tensors go with nodes and which with edges: two lists of (type, attr).

    A homogeneous feature store does not say; the length of the tensor does. Where it fits both, a name that
    begins with "edge" goes with the edges.
    """
    on_nodes: list[Any] = []
    on_edges: list[Any] = []
    for attr in attrs:
        group = attr.group_name
        if source.is_hetero:
            if isinstance(group, tuple) and group in source.edges:
                on_edges.append((group, attr))
            elif group in source.num_nodes:
                on_nodes.append((group, attr))
            continue
        size = feature_store.get_tensor_size(attr)
        num_edges = source.edges[None].topology.num_edges
        fits_nodes, fits_edges = (
            size is not None and len(size) > 0 and size[0] == n for n in (source.num_nodes[None], num_edges)
        )
        if fits_edges and (
            not fits_nodes or str(attr.attr_name).startswith("edge") or isinstance(group, tuple)
        ):
            on_edges.append((None, attr))
        else:
            on_nodes.append((None, attr))
    return on_nodes, on_edges
