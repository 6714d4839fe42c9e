"""FeatureStore: the attributes of a loaded store behind PyG's interface for remote backends."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData, TensorAttr
from torch_geometric.data import FeatureStore as PyGFeatureStore
from torch_geometric.data.storage import EdgeStorage, NodeStorage

import gz
from gz_pyg._store.open import graph_of, open_store, store_of
from gz_pyg._store.overlay import raw, raw_items
from gz_pyg._store.stored import Stored, StoredColumn

NODE_IDS = "n_id"  # served for node types that have no column, which PyG would otherwise not know of


class FeatureStore(PyGFeatureStore):
    """The node and edge attributes of a store, with what was written over them. Pickles by path.

    ``group_name`` is a node type or an edge type; of a homogeneous store None. Edge attributes are indexed by
    edge, as ``edge_index`` has them. Nothing is read before it is asked for.

    Args:
        store: what ``gz_pyg.load`` returns, which then shares what is written to either; or the path of a
            store, or a ``gz.Store``.
    """

    def __init__(self, store: Data | HeteroData | gz.Store | str | os.PathLike[str]):
        super().__init__()
        self._graph = store if isinstance(store, (Data, HeteroData)) else graph_of(open_store(store))

    @property
    def graph(self) -> Data | HeteroData:
        """The PyG graph whose attributes these are."""
        return self._graph

    @property
    def store(self) -> gz.Store:
        """The open ``gz.Store``."""
        return store_of(self._graph)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.store.path!r})"

    def _parts(self) -> list[tuple[Any, Any]]:
        """(group, storage), nodes first; None for that of a homogeneous graph."""
        if isinstance(self._graph, Data):
            return [(None, self._graph._store)]
        return [*self._graph.node_items(), *self._graph.edge_items()]

    def _locate(self, attr: TensorAttr) -> tuple[Any, str]:
        """The storage and the name that an attr means; KeyError when there is none."""
        group, name = attr.group_name, attr.attr_name
        group = tuple(group) if isinstance(group, (list, tuple)) else group
        parts = dict(self._parts())
        if group not in parts:
            what = "name a type" if group is None else f"no type {group!r}"
            raise KeyError(f"{what}; there are {[*parts]}")
        storage = parts[group]
        if name in storage or (name == NODE_IDS and isinstance(storage, NodeStorage)):
            return storage, name
        raise KeyError(f"no column {name!r} for {group or 'the nodes or edges'}; there are {[*storage]}")

    # ---- PyG's interface ----

    def _get_tensor(self, attr: TensorAttr) -> Any:
        storage, name = self._locate(attr)
        index = attr.index
        if isinstance(index, np.ndarray):
            index = torch.from_numpy(index)
        if isinstance(index, Tensor) and index.dtype == torch.bool:
            index = index.nonzero().view(-1)
        if name not in storage:
            if isinstance(index, Tensor):
                return index.to(torch.int64)
            ids = torch.arange(storage.num_nodes)
            return ids if index is None else ids[index]
        value = raw(storage, name)
        if isinstance(value, StoredColumn) and isinstance(index, Tensor):
            return value.take(index)
        whole = storage[name]
        return whole if index is None else whole[index]

    def _multi_get_tensor(self, attrs: list[TensorAttr]) -> list[Any]:
        return [self._get_tensor(attr) for attr in attrs]

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        try:
            storage, name = self._locate(attr)
        except KeyError:
            return None
        return tuple(raw(storage, name).shape) if name in storage else (storage.num_nodes,)

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """All of them. Of a homogeneous store those of the nodes only: PyG would index the others by node."""
        out = []
        for group, storage in self._parts():
            names = []
            if isinstance(storage, NodeStorage):
                names = [k for k, v in raw_items(storage) if _is_tensor(v) and storage.is_node_attr(k)] or [
                    NODE_IDS
                ]
            elif isinstance(storage, EdgeStorage):
                names = [
                    k
                    for k, v in raw_items(storage)
                    if _is_tensor(v) and k != "edge_index" and storage.is_edge_attr(k)
                ]
            out += [TensorAttr(group, name) for name in names]
        return out

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        """Kept over the store, in memory; the files stay as they are."""
        group = attr.group_name
        parts = dict(self._parts())
        if group not in parts:
            raise KeyError(f"no type {group!r}; there are {[*parts]}")
        storage = parts[group]
        if attr.index is not None:
            storage[attr.attr_name][attr.index] = torch.as_tensor(tensor)
            return True
        tensor = torch.as_tensor(tensor)
        counts = {}
        if isinstance(storage, NodeStorage):
            counts[storage.num_nodes] = "nodes"
        if isinstance(storage, EdgeStorage):
            counts[storage.num_edges] = "edges"
        if tensor.dim() == 0 or tensor.size(0) not in counts:
            each = " or ".join(f"{n} {what}" for n, what in counts.items())
            raise ValueError(f"the tensor has shape {tuple(tensor.shape)}; it needs a row for each of {each}")
        storage[attr.attr_name] = tensor
        return True

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        storage, name = self._locate(attr)
        if name not in storage:
            return False
        del storage[name]
        return True


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray, Stored))
