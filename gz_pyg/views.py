"""One node type or one edge type of a loaded store: what `data[type]` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gz_pyg.data import StoreData

# Splits go by several names; scripts ask for the masks.
MASKS = {"train_mask": ("train",), "val_mask": ("valid", "val"), "test_mask": ("test",)}


class NodeView:
    """What ``data[node_type]`` answers."""

    def __init__(self, data: StoreData, t: str):
        self._data, self._t = data, t

    def keys(self) -> list[str]:
        return self._data.feature_store._names(self._t)

    def __contains__(self, name: object) -> bool:
        return name in self.keys() or (isinstance(name, str) and self._split_of(name) is not None)

    def __getattr__(self, name: str) -> Tensor:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.keys():
            return self._data.feature_store._whole(self._t, name)
        split = self._split_of(name)
        if split is not None:
            mask = torch.zeros(self.num_nodes, dtype=torch.bool)
            mask[torch.from_numpy(self._data.store.split(split, self._t))] = True
            return mask
        extras = {
            k[1]: v for k, v in self._data._extras().items() if isinstance(k, tuple) and k[0] == self._t
        }
        if name in extras:
            return extras[name]
        raise AttributeError(f"no {name!r} for node type {self._t!r}; there are {self.keys()}")

    def __getitem__(self, name: str) -> Tensor:
        try:
            return getattr(self, name)
        except AttributeError as e:
            raise KeyError(str(e)) from None

    def _split_of(self, mask: str) -> str | None:
        splits = self._data.store.splits(self._t)
        return next((s for s in MASKS.get(mask, ()) if s in splits), None)

    @property
    def num_nodes(self) -> int:
        return self._data.store.num_nodes(self._t)

    @property
    def num_features(self) -> int:
        return self._data.feature_store._column(self._t, "x").shape[-1] if "x" in self.keys() else 0

    num_node_features = num_features

    @property
    def num_classes(self) -> int:
        y = self.y
        if y.dim() == 2 and y.size(1) > 1:
            return y.size(1)
        if y.numel() == 0:
            return 0
        if y.dtype.is_floating_point:  # papers100M marks what has no label with NaN
            y = y[~torch.isnan(y)]
        return int(y.max()) + 1 if y.numel() else 0

    def get_idx_split(self) -> dict[str, Tensor]:
        store = self._data.store
        if store.splits(self._t):
            return {s: torch.from_numpy(store.split(s, self._t)) for s in store.splits(self._t)}
        names = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
        return {s: getattr(self, m).nonzero().view(-1) for s, m in names.items() if m in self.keys()}

    def __repr__(self) -> str:
        return f"NodeView({self._t!r}, num_nodes={self.num_nodes}, {', '.join(self.keys())})"


class EdgeView:
    """What ``data[edge_type]`` answers. Edge attributes come in the order of ``edge_index``."""

    def __init__(self, data: StoreData, t: tuple[str, str, str]):
        self._data, self._t = data, t

    def keys(self) -> list[str]:
        return self._data.feature_store._names(self._t)

    def __contains__(self, name: object) -> bool:
        return name in self.keys() or name == "edge_index"

    @property
    def num_edges(self) -> int:
        return self._data.store.num_edges(self._t)

    @property
    def num_edge_features(self) -> int:
        if "edge_attr" not in self.keys():
            return 0
        shape = self._data.feature_store._column(self._t, "edge_attr").shape
        return shape[-1] if len(shape) > 1 else 1

    @property
    def edge_index(self) -> Tensor:
        """Every edge as ``[2, num_edges]``, in the order of the edge ids: 16 bytes an edge, in memory."""
        return torch.stack(self._data.graph_store.edge_index(self._t))

    def __getattr__(self, name: str) -> Tensor:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.keys():
            return self._data.feature_store._whole(self._t, name)
        extras = {
            k[1]: v for k, v in self._data._extras().items() if isinstance(k, tuple) and k[0] == self._t
        }
        if name in extras:
            return extras[name]
        raise AttributeError(f"no {name!r} for edge type {self._t}; there are {['edge_index', *self.keys()]}")

    def __getitem__(self, name: str) -> Tensor:
        try:
            return getattr(self, name)
        except AttributeError as e:
            raise KeyError(str(e)) from None

    def __repr__(self) -> str:
        return f"EdgeView({self._t}, num_edges={self.num_edges}, {', '.join(self.keys())})"
