"""PairSource: any (FeatureStore, GraphStore) pair, by PyG's interfaces alone."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.graph_store import EdgeLayout

from gz_pyg._edges import ArrayEdges, Edges
from gz_pyg._source.protocol import (
    EdgeKey,
    NodeKey,
    Part,
    Sampled,
    SampleGraph,
    State,
    Wanted,
    in_order_of,
)
from gz_pyg._tensors import stack


class PairSource:
    """See ``Source``. What such a store holds is taken not to change."""

    joins_anywhere = True
    places = False
    reads_by_row = False  # that is the store's business

    def __init__(self, data: Any):
        self.data = tuple(data)
        self._features, self._graph = self.data
        self._sizes: dict[NodeKey, int] | None = None
        self._num_edges: int | None = None  # of a homogeneous graph that was sampled

    # ---- sizes ----

    @property
    def edge_types(self) -> list[EdgeKey]:
        return list(dict.fromkeys(a.edge_type for a in self._graph.get_all_edge_attrs()))

    @property
    def is_hetero(self) -> bool:
        types = self.edge_types
        return bool(types) and None not in types

    @property
    def node_types(self) -> list[NodeKey]:
        return list(self._all_sizes())

    def num_nodes(self, t: NodeKey) -> int:
        return self._all_sizes()[t]

    def _all_sizes(self) -> dict[NodeKey, int]:
        if self._sizes is None:
            self._sizes = _sizes(self._features, self._graph)
        return self._sizes

    # ---- edges ----

    def edge_index(self, t: EdgeKey) -> Tensor:
        row, col, _ = self._graph.coo(None if t is None else [t])
        return torch.stack([row, col] if t is None else [row[t], col[t]])

    def sample_graph(self, wanted: Wanted) -> SampleGraph:
        types = self.edge_types
        if not types:
            raise ValueError("the graph store holds no edges")
        sizes = self._all_sizes()
        found: Any = self._graph.csr() if wanted.backward else self._graph.csc()
        if not self.is_hetero:
            found = [{None: part} for part in found]
        first, second, permutations = found
        edges: dict[EdgeKey, Edges] = {}
        for t in types:
            pointer, neighbours = (first[t], second[t]) if wanted.backward else (second[t], first[t])
            size = (sizes[None], sizes[None]) if t is None else (sizes[t[0]], sizes[t[2]])
            name = "the graph store" if t is None else str(t)
            edges[t] = ArrayEdges.from_compressed(
                pointer, neighbours, permutations.get(t), size, wanted.backward, name
            )
        if not self.is_hetero:
            self._num_edges = second[None].numel() if wanted.backward else first[None].numel()
        graph = SampleGraph(sizes, edges)
        if wanted.time_attr is not None:
            self._place_times(graph, wanted.time_attr)
        if wanted.weight_attr is not None:
            weights = self._columns(wanted.weight_attr, edges=True)
            if not weights:
                raise ValueError(
                    f"no edge type has the weight_attr '{wanted.weight_attr}'; there are {types}"
                )
            what = f"weight_attr '{wanted.weight_attr}'"
            graph.weight.update({t: in_order_of(edges[t], v, what) for t, v in weights.items()})
        return graph

    def _place_times(self, graph: SampleGraph, name: str) -> None:
        on_nodes, on_edges = self._columns(name, edges=False), self._columns(name, edges=True)
        if not on_nodes and not on_edges:
            names = sorted({str(a.attr_name) for a in self._features.get_all_tensor_attrs()})
            raise ValueError(
                f"Temporal sampling specified but did not find any temporal data: no attribute "
                f"'{name}'; the feature store has {names}"
            )
        if on_nodes and on_edges:
            raise ValueError(
                f"The time attribute '{name}' holds both node-level and edge-level information: "
                f"{sorted(on_nodes)} and {sorted(on_edges)}"
            )
        graph.node_time.update(on_nodes)
        for t, value in on_edges.items():
            graph.edge_time[t] = in_order_of(graph.edges[t], value, f"time_attr '{name}'")

    def _columns(self, name: str, edges: bool) -> dict[Any, Tensor]:
        found = {}
        for key, attr in self._attrs()[1 if edges else 0]:
            if attr.attr_name == name:
                attr.index = None
                found[key] = torch.as_tensor(self._features.get_tensor(attr))
        return found

    # ---- rows ----

    def _attrs(self) -> tuple[list[Any], list[Any]]:
        """Which tensors go with nodes and which with edges: two lists of (type, attr).

        A homogeneous feature store does not say; the length of the tensor does. Where it fits both, a name
        that begins with "edge" goes with the edges.
        """
        attrs = [copy.copy(a) for a in self._features.get_all_tensor_attrs()]
        on_nodes: list[Any] = []
        on_edges: list[Any] = []
        hetero, edge_types = self.is_hetero, self.edge_types
        for attr in attrs:
            group = attr.group_name
            if hetero:
                if isinstance(group, tuple) and group in edge_types:
                    on_edges.append((group, attr))
                elif group in self._all_sizes():
                    on_nodes.append((group, attr))
            elif self._fits_edges(attr):
                on_edges.append((None, attr))
            else:
                on_nodes.append((None, attr))
        return on_nodes, on_edges

    def _fits_edges(self, attr: Any) -> bool:
        if self._num_edges is None:  # sampled by something else
            return isinstance(attr.group_name, tuple)
        size = self._features.get_tensor_size(attr)
        rows = size[0] if size is not None and len(size) > 0 else None
        if rows != self._num_edges:
            return False
        named = str(attr.attr_name).startswith("edge") or isinstance(attr.group_name, tuple)
        return rows != self.num_nodes(None) or named

    def join(self, sampled: Sampled, custom_cls: Any) -> Any:
        batch = custom_cls() if custom_cls is not None else HeteroData() if self.is_hetero else Data()
        for t, node in sampled.nodes.items():
            (batch if t is None else batch[t]).num_nodes = node.numel()
        for e, row in sampled.row.items():
            (batch if e is None else batch[e]).edge_index = stack(row, sampled.col[e])
        wanted, places = [], []
        on_nodes, on_edges = self._attrs()
        for found, index in ((on_nodes, sampled.nodes), (on_edges, sampled.edges)):
            for t, attr in found:
                if index.get(t) is not None:
                    attr.index = index[t]
                    wanted.append(attr)
                    places.append((t, attr.attr_name))
        for (t, name), tensor in zip(places, self._features.multi_get_tensor(wanted), strict=True):
            (batch if t is None else batch[t])[name] = tensor
        return batch

    def together(self, nodes: Sequence[dict[NodeKey, Tensor]]) -> list[Part]:
        return [Part(self, 0, 0)] * len(nodes)

    def place(self, batch: Any) -> Any:
        return batch

    # ---- state ----

    def check(self) -> None:
        pass

    def frozen(self) -> PairSource:
        return self

    def state(self) -> State | None:
        return None

    def is_still(self, state: State) -> bool:
        return False

    def sampling_state(self, wanted: Wanted) -> State | None:
        return None


def _sizes(feature_store: Any, graph_store: Any) -> dict[NodeKey, int]:
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
