"""A sample joined with its features: what makes a mini-batch of a SamplerOutput."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import N_KEYS
from torch_geometric.loader.utils import filter_edge_store_
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from gz_pyg._source import Source, split_attrs
from gz_pyg._tensors import stack, take
from gz_pyg.data import StoreData

_NONE = torch.empty(0, dtype=torch.int64)


class Joiner:
    """Builds the mini-batches of one loader.

    Args:
        data: what the loader was given, resolved.
        sampler: its ``edge_permutation`` names the edges of a sample.
        custom_cls: class of the mini-batches of remote data.
    """

    def __init__(self, data: Any, sampler: Any, custom_cls: Any):
        self._data, self._sampler, self._custom_cls = data, sampler, custom_cls
        self._edge_attrs: set[tuple[Any, Any]] | None = None  # remote: which tensors go with edges

    def on(self, data: Any) -> Joiner:
        """The same, taking rows from another form of the data."""
        other = copy.copy(self)
        other._data = data
        return other

    def __call__(self, out: SamplerOutput | HeteroSamplerOutput) -> Any:
        if isinstance(out, SamplerOutput):
            return self._homogeneous(out)
        if isinstance(out, HeteroSamplerOutput):
            return self._heterogeneous(out)
        raise TypeError(
            f"a sampler returned a {type(out).__name__}, not a SamplerOutput or HeteroSamplerOutput"
        )

    # ---- one type ----

    def _homogeneous(self, out: SamplerOutput) -> Any:
        permutation = self._sampler.edge_permutation
        e_id = _original(out.edge, permutation)
        if isinstance(self._data, StoreData):
            data = self._new(Data)
            data.edge_index = stack(out.row, out.col)
            self._store_columns(data, self._data.node_types[0], out.node)
            if out.edge is not None:
                self._store_columns(data, self._data.edge_types[0], out.edge)
            self._store_extras(data)
        elif isinstance(self._data, Data):
            data = copy.copy(self._data)
            _filter_nodes(self._data._store, data._store, out.node)
            _filter_edges(self._data._store, data._store, out.row, out.col, e_id)
        else:
            data = self._new(Data)
            data.edge_index = stack(out.row, out.col)
            data.num_nodes = out.node.numel()
            self._remote_columns(data, {None: out.node}, {None: e_id})
        if "n_id" not in data:
            data.n_id = out.node
        if e_id is not None and "e_id" not in data:
            data.e_id = e_id
        data.batch = out.batch
        data.num_sampled_nodes = out.num_sampled_nodes
        data.num_sampled_edges = out.num_sampled_edges
        if out.orig_row is not None and out.orig_col is not None:
            data._orig_edge_index = torch.stack([out.orig_row, out.orig_col], dim=0)
        return data

    # ---- several types ----

    def _heterogeneous(self, out: HeteroSamplerOutput) -> Any:
        permutations = self._sampler.edge_permutation or {}
        e_ids = {t: _original(e, permutations.get(t)) for t, e in (out.edge or {}).items()}
        if isinstance(self._data, HeteroData):
            data = copy.copy(self._data)
            for t in data.node_types:
                _filter_nodes(self._data[t], data[t], out.node.setdefault(t, _NONE))
            for t in data.edge_types:
                row, col = out.row.get(t, _NONE), out.col.get(t, _NONE)
                _filter_edges(self._data[t], data[t], row, col, e_ids.get(t, _NONE))
        else:
            data = self._new(HeteroData)
            for t, node in out.node.items():
                if isinstance(self._data, StoreData):
                    self._store_columns(data[t], t, node)
                else:
                    data[t].num_nodes = node.numel()
            for t, row in out.row.items():
                data[t].edge_index = stack(row, out.col[t])
            if isinstance(self._data, StoreData):
                for t, edge in (out.edge or {}).items():
                    if edge is not None:
                        self._store_columns(data[t], t, edge)
                self._store_extras(data)
            else:
                self._remote_columns(data, out.node, e_ids)
        for t, node in out.node.items():
            if "n_id" not in data[t]:
                data[t].n_id = node
        for t, e_id in e_ids.items():
            if e_id is not None and "e_id" not in data[t]:
                data[t].e_id = e_id
        data.set_value_dict("batch", out.batch)
        data.set_value_dict("num_sampled_nodes", out.num_sampled_nodes)
        data.set_value_dict("num_sampled_edges", out.num_sampled_edges)
        if out.orig_row is not None and out.orig_col is not None:
            for t in out.orig_row:
                data[t]._orig_edge_index = torch.stack([out.orig_row[t], out.orig_col[t]], dim=0)
        return data

    # ---- features ----

    def _new(self, cls: Any) -> Any:
        return self._custom_cls() if self._custom_cls is not None else cls()

    def _store_extras(self, data: Any) -> None:
        """What goes with no node and no edge comes along as it is."""
        for key, value in self._data._extras().items():
            part, name = (data[key[0]], key[1]) if isinstance(key, tuple) else (data, key)
            if name != "num_nodes":
                part[name] = value

    def _store_columns(self, part: Any, t: Any, rows: Tensor) -> None:
        features = self._data.feature_store
        names = features._names(t)
        if not isinstance(t, tuple) and (N_KEYS.isdisjoint(names) or self._data._counts_nodes(t)):
            part.num_nodes = rows.numel()  # as in a Data: only where it was set, or no column says it
        for name in names:
            part[name] = features._take(t, name, rows)

    def _remote_columns(self, data: Any, nodes: dict[Any, Tensor], edges: dict[Any, Tensor | None]) -> None:
        feature_store = self._data[0]
        attrs = feature_store.get_all_tensor_attrs()
        if self._edge_attrs is None:
            self._edge_attrs = self._find_edge_attrs(feature_store, attrs)
        wanted, places = [], []
        for attr in attrs:
            on_edges = (attr.group_name, attr.attr_name) in self._edge_attrs
            t = None if nodes.keys() == {None} else attr.group_name
            index = edges.get(t) if on_edges else nodes.get(t)
            if index is None:
                continue
            attr.index = index
            wanted.append(attr)
            places.append((t, attr.attr_name))
        for (t, name), tensor in zip(places, feature_store.multi_get_tensor(wanted), strict=True):
            part = data if t is None else data[t]
            part[name] = tensor

    def _find_edge_attrs(self, feature_store: Any, attrs: list[Any]) -> set[tuple[Any, Any]]:
        source = getattr(self._sampler, "_source", None)
        if not isinstance(source, Source):
            return {(a.group_name, a.attr_name) for a in attrs if isinstance(a.group_name, tuple)}
        _, on_edges = split_attrs(feature_store, attrs, source)
        return {(a.group_name, a.attr_name) for _, a in on_edges}


def _original(edge: Tensor | None, permutation: Any) -> Tensor | None:
    if edge is None:
        return None
    if permutation is None:
        return edge.to(torch.int64)
    return take(permutation, edge) if isinstance(permutation, Tensor) else permutation[edge]


def _filter_nodes(store: Any, out: Any, index: Tensor) -> None:
    for key, value in store.items():
        if key == "num_nodes":
            out.num_nodes = index.numel()
        elif store.is_node_attr(key):
            dim = store._parent().__cat_dim__(key, value, store)
            out[key] = take(value, _on_device_of(value, index), dim)


def _filter_edges(store: Any, out: Any, row: Tensor, col: Tensor, e_id: Tensor | None) -> None:
    if "adj_t" in store:
        filter_edge_store_(store, out, row, col, e_id)
        return
    for key, value in store.items():
        if key == "edge_index":
            out.edge_index = stack(row, col).to(value.device)
        elif store.is_edge_attr(key):
            if e_id is None:
                out[key] = None
                continue
            dim = store._parent().__cat_dim__(key, value, store)
            out[key] = take(value, _on_device_of(value, e_id), dim)


def _on_device_of(value: Any, index: Tensor) -> Tensor:
    return index.to(value.device) if isinstance(value, Tensor) else index
