"""FeatureStore: a store's columns behind PyG's interface."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import FeatureStore as PyGFeatureStore
from torch_geometric.data import TensorAttr

import gz
from gz_pyg._tensors import Mapped, take

NodeOrEdgeType = str | tuple[str, str, str]

NODE_IDS = "n_id"  # served for node types that have no column, which PyG would otherwise not know of


class FeatureStore(PyGFeatureStore):
    """The node and edge columns of a store. Nothing is read before it is asked for; pickles by path.

    ``group_name`` is a node type or an edge type; of a homogeneous store None. Edge columns are indexed by
    original edge id. Tensors without an index come over the mapped file, without a copy, except edge columns
    whose stored order is not the original one.

    Args:
        store: a ``gz.Store``, or the path of one.
    """

    def __init__(self, store: gz.Store | str | os.PathLike[str]):
        super().__init__()
        self._store = store if isinstance(store, gz.Store) else gz.open(store)
        self._mapped: dict[tuple[NodeOrEdgeType, str], Mapped] = {}
        self._added: dict[tuple[NodeOrEdgeType, str], Tensor] = {}

    @property
    def store(self) -> gz.Store:
        return self._store

    @property
    def _types(self) -> list[Any]:
        return [*self._store.node_types, *self._store.edge_types]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mapped": {}}

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._store.path!r})"

    # ---- by the store's own types ----

    def _names(self, t: NodeOrEdgeType) -> list[str]:
        stored = self._store.edge_columns(t) if isinstance(t, tuple) else self._store.node_columns(t)
        return [*stored, *(name for group, name in self._added if group == t and name not in stored)]

    def _column(self, t: NodeOrEdgeType, name: str) -> Tensor | Mapped:
        if (t, name) in self._added:
            return self._added[t, name]
        if (t, name) not in self._mapped:
            self._mapped[t, name] = Mapped(self._store.feature(name, t))
        return self._mapped[t, name]

    def _take(self, t: NodeOrEdgeType, name: str, rows: Tensor) -> Tensor:
        """Rows as they lie in the file: node ids, or positions of edges in the topology."""
        column = self._column(t, name)
        return column.take(rows) if isinstance(column, Mapped) else take(column, rows)

    def _state(self) -> list[Any]:
        """Changes whenever a tensor is added, or one of them or of the mapped ones is written to."""
        added = [(key, id(value), value._version) for key, value in list(self._added.items())]
        mapped = [(key, m._tensor) for key, m in list(self._mapped.items()) if m._tensor is not None]
        return [*added, *((key, tensor._version) for key, tensor in mapped if tensor._version)]

    def _locate(self, attr: TensorAttr) -> tuple[Any, str]:
        """The store's type and column that an attr means; KeyError when there is none."""
        group, name = attr.group_name, attr.attr_name
        if group is None:
            if not self._store.is_homogeneous:
                raise KeyError(f"name a type; the store has {self._types}")
            types = self._types
        else:
            group = tuple(group) if isinstance(group, (list, tuple)) else group
            types = [t for t in self._types if t == group]
            if not types:
                raise KeyError(f"no type {group!r}; the store has {self._types}")
        for t in types:
            if name in self._names(t) or (name == NODE_IDS and isinstance(t, str) and not self._names(t)):
                return t, name
        there = sorted({n for t in types for n in self._names(t)})
        raise KeyError(f"no column {name!r} for {group or 'the nodes or edges'}; there are {there}")

    # ---- PyG's interface ----

    def _get_tensor(self, attr: TensorAttr) -> Any:
        t, name = self._locate(attr)
        index = attr.index
        if isinstance(index, np.ndarray):
            index = torch.from_numpy(index)
        if isinstance(index, Tensor) and index.dtype == torch.bool:
            index = index.nonzero().view(-1)
        if name == NODE_IDS and name not in self._names(t):
            ids = (
                torch.arange(self._store.num_nodes(t))
                if not isinstance(index, Tensor)
                else index.to(torch.int64)
            )
            return ids if index is None or isinstance(index, Tensor) else ids[index]
        if isinstance(index, Tensor):
            return self._take(t, name, self._rows(t, index))
        whole = self._whole(t, name)
        return whole if index is None else whole[index]

    def _multi_get_tensor(self, attrs: list[TensorAttr]) -> list[Any]:
        return [self._get_tensor(attr) for attr in attrs]

    def _rows(self, t: NodeOrEdgeType, index: Tensor) -> Tensor:
        if not isinstance(t, tuple) or (positions := self._positions(t)) is None:
            return index
        limit = len(positions)
        if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < limit:
            bad = next(int(i) for i in index.view(-1) if not 0 <= int(i) < limit)
            raise IndexError(f"edge {bad} is out of range: edge type {t} has {limit} edge ids")
        return torch.from_numpy(positions[index.to(torch.int64).numpy()].astype(np.int64))

    def _positions(self, t: tuple[str, str, str]) -> Any:
        return self._store.graph(t).edge_positions

    def _whole(self, t: NodeOrEdgeType, name: str) -> Tensor:
        column = self._column(t, name)
        if isinstance(column, Tensor):
            return column
        if isinstance(t, tuple) and (positions := self._positions(t)) is not None:
            return column.take(torch.from_numpy(positions.astype(np.int64)))
        return column.tensor

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        try:
            t, name = self._locate(attr)
        except KeyError:
            return None
        if name == NODE_IDS and name not in self._names(t):
            return (self._store.num_nodes(t),)
        shape = tuple(self._column(t, name).shape)
        if isinstance(t, tuple) and (positions := self._positions(t)) is not None:
            return (len(positions), *shape[1:])
        return shape

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """All columns. Of a homogeneous store the node columns only: PyG would index the others by node."""
        if self._store.is_homogeneous:
            t = self._store.node_types[0]
            return [TensorAttr(None, name) for name in self._names(t) or [NODE_IDS]]
        out = [TensorAttr(t, name) for t in self._store.node_types for name in self._names(t) or [NODE_IDS]]
        return out + [TensorAttr(t, name) for t in self._store.edge_types for name in self._names(t)]

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        """Adds a node tensor beside the stored ones, in memory; the files stay as they are."""
        group = attr.group_name
        if group is None and self._store.is_homogeneous:
            group = self._store.node_types[0]
        if not isinstance(group, str) or group not in self._store.node_types:
            raise NotImplementedError(
                f"{group!r}: only node tensors can be added, to one of {self._store.node_types}; "
                f"ingest the graph again for others"
            )
        if attr.index is not None:
            raise NotImplementedError(
                "a stored column cannot be changed in part; put the whole tensor (index=None)"
            )
        tensor = torch.as_tensor(tensor)
        n = self._store.num_nodes(group)
        if tensor.dim() == 0 or tensor.size(0) != n:
            raise ValueError(
                f"the tensor has shape {tuple(tensor.shape)}; it needs a row for each of {n} nodes"
            )
        self._added[group, attr.attr_name] = tensor
        return True

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        t, name = self._locate(attr)
        if (t, name) not in self._added:
            raise NotImplementedError(
                f"{name!r} lies in the files of {self._store.path}, which are never changed"
            )
        del self._added[t, name]
        return True
