"""PyG's storages over a store: what `data["paper"]` and, of a homogeneous graph, `data._store` are.

Everything comes from PyG, by way of the mapping. Here is only what PyG would read files for, and what a store
knows better: how many nodes there are, and which attributes go with nodes and which with edges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data.storage import (
    N_KEYS,
    EdgeStorage,
    GlobalStorage,
    NodeStorage,
    recursive_apply,
)

from gz.adapter import check_fits
from gz_pyg._store import edge_facts
from gz_pyg._store.lengths import check_length
from gz_pyg._store.overlay import Overlay
from gz_pyg._store.stored import Stored, StoredEdgeColumn, StoredEdgeIndex


class StoredPart:
    """What the three kinds of storage have in common."""

    _mapping: Overlay

    @classmethod
    def over(cls, overlay: Overlay, parent: Any, key: Any = None) -> Any:
        storage = cls(_parent=parent) if key is None else cls(_parent=parent, _key=key)  # type: ignore[call-arg]
        storage.__dict__["_mapping"] = overlay
        return storage

    def __setitem__(self, key: str, value: Any) -> None:
        if self._mapping.checked:
            check_length(self, key, value)
        super().__setitem__(key, value)  # type: ignore[misc]

    def __getattr__(self, key: str) -> Any:
        try:
            return super().__getattr__(key)  # type: ignore[misc]
        except AttributeError:
            if key.startswith("_"):
                raise
            of = self._mapping.node_type if self._mapping.edge_type is None else self._mapping.edge_type
            raise AttributeError(f"no {key!r} for {of}; there are {[*self._mapping]}") from None

    def to_dict(self) -> dict[str, Any]:
        return dict(self._mapping)

    # ---- nodes and edges ----

    def _level(self, key: str, edges: bool) -> bool | None:
        """Whether what lies in the files under `key` goes with edges (or nodes); None for anything else."""
        value = self._mapping.raw(key)
        if not isinstance(value, Stored):
            return None
        if value.of_edges != edges:
            return False
        return value.shape[-1 if key == "edge_index" else 0] == (self.num_edges if edges else self.num_nodes)  # type: ignore[attr-defined]

    def is_node_attr(self, key: str) -> bool:
        known = self._level(key, edges=False)
        return super().is_node_attr(key) if known is None else known  # type: ignore[misc]

    def is_edge_attr(self, key: str) -> bool:
        known = self._level(key, edges=True)
        return super().is_edge_attr(key) if known is None else known  # type: ignore[misc]

    # ---- devices: files stay where they are, batches bring their rows there ----

    def _each(self, on_stored: Callable[[Stored], Any], on_value: Callable[[Any], Any], names: Any) -> Any:
        for name, value in self._mapping.raw_items():
            if names and name not in names:
                continue
            if isinstance(value, Stored):
                self._mapping.keep(name, on_stored(value))
            else:
                self[name] = recursive_apply(value, on_value)
        return self

    def to(self, device: Any, *args: str, non_blocking: bool = False) -> Any:
        return self._each(lambda s: s.on(device), lambda x: x.to(device, non_blocking=non_blocking), args)

    def cpu(self, *args: str) -> Any:
        return self._each(lambda s: s.on("cpu"), lambda x: x.cpu(), args)

    def cuda(self, device: Any = None, *args: str, non_blocking: bool = False) -> Any:
        device = "cuda" if device is None else device
        return self._each(lambda s: s.on(device), lambda x: x.cuda(device, non_blocking=non_blocking), args)

    def pin_memory(self, *args: str) -> Any:
        return self._each(lambda s: s.in_pinned_memory(), lambda x: x.pin_memory(), args)

    def contiguous(self, *args: str) -> Any:
        return self._each(lambda s: s, lambda x: x.contiguous(), args)

    def share_memory_(self, *args: str) -> Any:
        return self._each(lambda s: s, lambda x: x.share_memory_(), args)  # files are shared by their paths


class StoredNodes(StoredPart):
    """The part of storages that is about nodes."""

    @property
    def num_nodes(self) -> int | None:
        """What PyG makes of the attributes, or else what the store says."""
        for key, value in self._mapping.raw_items():
            if key == "num_nodes":
                return value
            if key in N_KEYS and isinstance(value, Stored) and "num_nodes" not in self._mapping:
                return value.shape[0]
        known = any(key in N_KEYS for key in self._mapping)
        return super().num_nodes if known else self._mapping.num_nodes  # type: ignore[misc]

    @num_nodes.setter
    def num_nodes(self, num_nodes: int | None) -> None:
        self["num_nodes"] = num_nodes

    @property
    def num_classes(self) -> int:
        """One more than the largest label. Reads ``y``."""
        if "num_classes" in self._mapping:
            return self._mapping["num_classes"]
        y: Tensor = self.y
        if y.dim() == 2 and y.size(1) > 1:
            return y.size(1)
        if y.numel() == 0:
            return 0
        if y.dtype.is_floating_point:  # papers100M marks what has no label with NaN
            y = y[~torch.isnan(y)]
        return int(y.max()) + 1 if y.numel() else 0

    def get_idx_split(self) -> dict[str, Tensor]:
        """Node ids by split, ``train``, ``valid`` and ``test`` as OGB names them."""
        masks = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
        written = {s: self[m].nonzero().view(-1) for s, m in masks.items() if m in [*self._mapping]}  # type: ignore[index]
        return {s: torch.from_numpy(ids) for s, ids in self._mapping.splits().items()} | written


class StoredEdges(StoredPart):
    """The part of storages that is about edges."""

    @property
    def num_edges(self) -> int:
        edges = self._mapping.raw("edge_index")
        if isinstance(edges, StoredEdgeIndex) and "num_edges" not in self._mapping:
            return edges.num_edges
        return super().num_edges  # type: ignore[misc]

    # ---- what PyG would bring all edges into memory for ----

    def stored_edges(self) -> StoredEdgeIndex | None:
        """The edges, where they are those of the files; None where others were written."""
        edges = self._mapping.raw("edge_index")
        if not isinstance(edges, StoredEdgeIndex) or edges.version or {"adj", "adj_t"} & {*self._mapping}:
            return None
        counts = (edges.store.num_nodes(edges.type[0]), edges.store.num_nodes(edges.type[2]))
        return edges if self.size() == counts else None  # type: ignore[attr-defined]

    def has_self_loops(self) -> bool:
        edges = None if self.is_bipartite() else self.stored_edges()  # type: ignore[attr-defined]
        return super().has_self_loops() if edges is None else edge_facts.has_self_loops(edges)  # type: ignore[misc]

    def has_isolated_nodes(self) -> bool:
        edges = self.stored_edges()
        if edges is None:
            return super().has_isolated_nodes()  # type: ignore[misc]
        return edge_facts.has_isolated_nodes(edges, self.is_bipartite())  # type: ignore[attr-defined]

    def is_undirected(self) -> bool:
        edges, attr = self.stored_edges(), self._mapping.raw("edge_attr")
        by_file = attr is None or (isinstance(attr, StoredEdgeColumn) and not attr.version)
        if edges is None or not by_file or self.is_bipartite():  # type: ignore[attr-defined]
            return super().is_undirected()  # type: ignore[misc]
        return edge_facts.is_undirected(edges, attr)

    def is_sorted(self, sort_by_row: bool = True) -> bool:
        edges = self.stored_edges()
        return super().is_sorted(sort_by_row) if edges is None else edge_facts.is_sorted(edges, sort_by_row)  # type: ignore[misc]

    def is_coalesced(self) -> bool:
        edges = self.stored_edges()
        return super().is_coalesced() if edges is None else edge_facts.is_coalesced(edges)  # type: ignore[misc]

    def sort(self, sort_by_row: bool = True) -> Any:
        self._check_room("sort", "gz_pyg's loaders need no sorted edges")
        return super().sort(sort_by_row)  # type: ignore[misc]

    def coalesce(self, reduce: str = "sum") -> Any:
        self._check_room("coalesce", "`gz ingest --coalesce` does it on disk")
        return super().coalesce(reduce)  # type: ignore[misc]

    def _check_room(self, what: str, instead: str) -> None:
        edges = self.stored_edges()
        if edges is not None:
            values = [v for _, v in self._mapping.raw_items() if isinstance(v, StoredEdgeColumn)]
            needed = 8 * 8 * edges.num_edges + 2 * sum(v.nbytes for v in values)
            check_fits(needed, f"{edges.store.path}: to {what} {edges.type}", instead)


class StoredGlobalStorage(StoredNodes, StoredEdges, GlobalStorage):
    """All attributes of a homogeneous graph."""


class StoredNodeStorage(StoredNodes, NodeStorage):
    """The attributes of a node type."""


class StoredEdgeStorage(StoredEdges, EdgeStorage):
    """The edges of a type and their attributes."""
