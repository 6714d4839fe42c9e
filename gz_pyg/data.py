"""What `gz_pyg.load` returns: a PyG graph whose attributes lie in the files of a store."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import N_KEYS

import gz
from gz.adapter import check_fits
from gz_pyg._source.subgraph import subgraph_of_data, subgraph_of_hetero_data
from gz_pyg._store import edge_facts
from gz_pyg._store.open import fill_data, fill_hetero_data, open_store
from gz_pyg._store.overlay import Overlay, raw_items
from gz_pyg._store.storage import StoredEdges, StoredNodes
from gz_pyg._store.stored import Stored, StoredColumn, StoredEdgeIndex
from gz_pyg.feature_store import FeatureStore
from gz_pyg.graph_store import GraphStore


class StoreGraph:
    """What a ``StoreData`` and a ``StoreHeteroData`` have besides what PyG's classes have."""

    @property
    def store(self) -> gz.Store:
        """The open ``gz.Store``."""
        if "_gz" not in self.__dict__:
            raise AttributeError("made out of several graphs, this one is of no store")
        return self.__dict__["_gz"]

    @property
    def feature_store(self) -> FeatureStore:
        """The attributes behind PyG's interface for remote backends; what is written to either is in both."""
        return FeatureStore(self)  # type: ignore[arg-type]

    @property
    def graph_store(self) -> GraphStore:
        """The edges behind PyG's interface; PyG's own loaders take ``(feature_store, graph_store)``."""
        return GraphStore(self)  # type: ignore[arg-type]

    @property
    def is_hetero(self) -> bool:
        """Whether this is a ``HeteroData``."""
        return isinstance(self, HeteroData)

    def get_edge_split(self) -> dict[str, dict[str, Any]]:
        """Edges by split as OGB's link-prediction datasets give them.

        ``{"valid": {"edge": ..., "edge_neg": ...}}``, or whatever the dataset calls them. Tensors lie over
        the mapped files; a column of names (``head_type``) is a list.
        """
        if not self.store.edge_splits():
            raise AttributeError(
                f"{self.store.path}: the store has no edge splits; `gz ingest --ogb` keeps those of a "
                "link-prediction dataset, and PyG's RandomLinkSplit makes some"
            )
        return {
            name: {
                k: v if isinstance(v, list) else torch.from_numpy(v)
                for k, v in self.store.edge_split(name).items()
            }
            for name in self.store.edge_splits()
        }

    # ---- copies and devices: what PyG does, without reading files for it ----

    def _on_each(self, name: str, *args: Any, **kwargs: Any) -> Any:
        for storage in self.stores:  # type: ignore[attr-defined]
            getattr(storage, name)(*args, **kwargs)
        return self

    def to(self, device: Any, *args: str, non_blocking: bool = False) -> Any:
        """As PyG's. What lies in files stays there: mini-batches bring these attributes on the device."""
        return self._on_each("to", device, *args, non_blocking=non_blocking)

    def cpu(self, *args: str) -> Any:
        """As PyG's, as ``to``."""
        return self._on_each("cpu", *args)

    def cuda(self, device: Any = None, *args: str, non_blocking: bool = False) -> Any:
        """As PyG's, as ``to``."""
        return self._on_each("cuda", device, *args, non_blocking=non_blocking)

    def pin_memory(self, *args: str) -> Any:
        """As PyG's; what lies in files comes in pinned memory with each batch."""
        return self._on_each("pin_memory", *args)

    def contiguous(self, *args: str) -> Any:
        """As PyG's."""
        return self._on_each("contiguous", *args)

    def share_memory_(self, *args: str) -> Any:
        """As PyG's; files are shared already."""
        return self._on_each("share_memory_", *args)

    def clone(self, *args: str) -> Any:
        """As PyG's. What lies in files is mapped anew: writes to the one are not seen in the other."""
        out: Any = copy.copy(self)
        store: Any = copy.deepcopy(self.__dict__.get("_gz"))
        for storage in out.stores:
            for name, value in raw_items(storage):
                if args and name not in args:
                    continue
                if isinstance(value, Stored):
                    storage._mapping.keep(name, value.fresh(store))
                elif isinstance(value, Tensor):
                    storage[name] = value.clone()
                else:
                    storage[name] = copy.deepcopy(value)
        return out

    def validate(self, raise_on_error: bool = True) -> bool:
        """As PyG's. Edges that lie in files are not read: the files say how many nodes they are among.

        ``gz verify`` reads all of them.
        """
        written: Any = copy.copy(self)
        try:
            for storage in written.stores:
                for name, value in raw_items(storage):
                    if isinstance(value, StoredEdgeIndex) and not value.version:
                        _ = value.graph
                        del storage[name]
                    elif isinstance(value, StoredColumn):
                        _ = value.shape
        except (ValueError, OSError):
            if raise_on_error:
                raise
            return False
        return super(StoreGraph, written).validate(raise_on_error)  # type: ignore[misc]

    # ---- all of it ----

    def to_data(self) -> Data | HeteroData:
        """All of it in memory, as an ordinary PyG object. The splits of a store become masks.

        Raises:
            MemoryError: it would not fit into the memory that is free.
        """
        hetero = isinstance(self, HeteroData)
        parts: list[tuple[Any, Any]] = (
            [*self.node_items(), *self.edge_items(), (None, self._global_store)]
            if isinstance(self, HeteroData)
            else [(None, self._store)]  # type: ignore[attr-defined]
        )
        stored = [v for _, storage in parts for _, v in raw_items(storage) if isinstance(v, Stored)]
        edges = [v.num_edges for v in stored if isinstance(v, StoredEdgeIndex)]
        check_fits(
            sum(v.nbytes for v in stored if isinstance(v, StoredColumn))
            + 16 * sum(edges)
            + 4 * 8 * max(edges, default=0),  # while the edges of a type are put in order
            f"{self.store.path}: the whole graph",
            "use it where it lies, with gz_pyg's loaders",
        )
        out: Any = HeteroData() if hetero else Data()
        for t, storage in parts:
            part = out if t is None else out[t]
            for name, value in raw_items(storage):
                part[name] = value.in_memory() if isinstance(value, Stored) else value
            if isinstance(storage, StoredNodes) and (N_KEYS | {"num_nodes"}).isdisjoint(storage.keys()):
                part.num_nodes = storage.num_nodes
            if isinstance(storage._mapping, Overlay):
                for name, mask in storage._mapping.masks().items():
                    part[name] = mask.clone()
        return out

    to_memory = to_data

    def __repr__(self) -> str:
        if "_gz" not in self.__dict__:  # made by PyG out of others
            return super().__repr__()
        name, path = self.__class__.__name__, self.store.path
        if isinstance(self, HeteroData):
            parts = [(t, s) for t, s in (*self.node_items(), *self.edge_items())]
            lines = [f"  {t}={{ {_listing(s)} }}," for t, s in parts]
            graph = _listing(self._global_store)
            return "\n".join([f"{name}({path!r},", *([f"  {graph},"] if graph else []), *lines, ")"])
        return f"{name}({path!r}, {_listing(self._store)})"  # type: ignore[attr-defined]


class StoreData(StoreGraph, Data):
    """A homogeneous graph of a store as a PyG ``Data``.

    Nothing is read before it is used: ``x`` is a tensor over the mapped file. What is written stays in this
    process, over the store; samplers, loaders and their workers, copies, pickles and ``gz_pyg.save`` see it.
    Made by ``gz_pyg.load``; ``kwargs`` are attributes, as of ``Data``.
    """

    def __init__(self, store: gz.Store | None = None, **kwargs: Any):
        Data.__init__(self)
        if store is not None:
            self.__dict__["_gz"] = store
            fill_data(self, store)
        for name, value in kwargs.items():
            setattr(self, name, value)

    @property
    def node_types(self) -> list[str]:
        """Its name in the store."""
        return self.store.node_types

    @property
    def edge_types(self) -> list[tuple[str, str, str]]:
        """Its name in the store."""
        return self.store.edge_types

    def metadata(self) -> tuple[list[str], list[tuple[str, str, str]]]:
        """``(node_types, edge_types)``, as of PyG's ``HeteroData``."""
        return self.node_types, self.edge_types

    def subgraph(self, subset: Tensor) -> Any:
        """As PyG's, without reading the other edges."""
        return subgraph_of_data(self, subset)

    def get_idx_split(self) -> dict[str, Any]:
        """Node ids by split, ``train``, ``valid`` and ``test`` as OGB names them."""
        return self._store.get_idx_split()

    def __contains__(self, key: object) -> bool:
        return key in self._store  # masks of stored splits too


class StoreHeteroData(StoreGraph, HeteroData):
    """A heterogeneous graph of a store as a PyG ``HeteroData``, as ``StoreData``. Made by ``gz_pyg.load``."""

    def __init__(self, store: gz.Store | None = None, **kwargs: Any):
        HeteroData.__init__(self, **kwargs)
        if store is not None:
            self.__dict__["_gz"] = store
            fill_hetero_data(self, store)

    @property
    def num_classes(self) -> int:
        """One more than the largest label of the node type that has labels. Reads ``y``."""
        if "num_classes" in self._global_store:
            return self._global_store["num_classes"]
        found = [s.num_classes for s in self.node_stores if "y" in s]
        if len(found) != 1:
            raise AttributeError(f"{len(found)} node types have labels; ask data[node_type].num_classes")
        return found[0]

    def subgraph(self, subset_dict: dict[str, Tensor]) -> Any:
        """As PyG's, without reading the other edges."""
        return subgraph_of_hetero_data(self, subset_dict)

    def is_undirected(self) -> bool:
        """As PyG's, over all types together, without bringing stored edges into memory."""
        return edge_facts.all_undirected(self._all_edges())

    def has_isolated_nodes(self) -> bool:
        """As PyG's, over all types together; takes a byte a node."""
        return not edge_facts.all_connected(int(self.num_nodes or 0), self._all_edges())

    def _all_edges(self) -> Iterator[tuple[Any, Any]]:
        """Ends of edges, some at a time, with the nodes of all types numbered one type after the other."""
        counts = [int(self[t].num_nodes or 0) for t in self.node_types]
        first = dict(zip(self.node_types, itertools.accumulate([0, *counts]), strict=False))
        for e, storage in self.edge_items():
            stored = storage.stored_edges() if isinstance(storage, StoredEdges) else None
            if stored is not None:
                found: Any = edge_facts.pieces(stored)
            else:
                found = [tuple(storage.edge_index.cpu().numpy())] if "edge_index" in storage else []
            for src, dst in found:
                yield src + first[e[0]], dst + first[e[2]]

    def get_idx_split(self, node_type: str | None = None) -> dict[str, Any]:
        """Node ids by split, ``train``, ``valid`` and ``test`` as OGB names them, of ``node_type``; by node
        type if there are several and none is named."""
        if node_type is not None:
            return self[node_type].get_idx_split()
        by_type = {t: s.get_idx_split() for t, s in self.node_items() if isinstance(s, StoredNodes)}
        names = dict.fromkeys(n for splits in by_type.values() for n in splits)
        return {n: {t: s[n] for t, s in by_type.items() if n in s} for n in names}


def _listing(storage: Any) -> str:
    count = f"num_nodes={storage.num_nodes}" if isinstance(storage, StoredNodes) else ""
    items = [(k, v) for k, v in raw_items(storage) if not (count and k == "num_nodes")]
    return ", ".join([*([count] if count else []), *(f"{k}={_size(v)}" for k, v in items)])


def _size(value: Any) -> Any:
    return list(value.shape) if isinstance(value, (Tensor, Stored)) and len(value.shape) else value


def load(path: str | os.PathLike[str] | gz.Store, cache: str | int = "auto") -> StoreData | StoreHeteroData:
    """Opens a store for PyG, at once, at any size.

    Args:
        path: the directory that ``gz.ingest`` or ``gz_pyg.save`` wrote, or a store opened already.
        cache: as in ``gz.open``: memory for rows of columns that do not fit into it.

    Returns:
        A PyG ``Data``, or ``HeteroData`` where there are several types, whose attributes lie in the files:
        for gz_pyg's loaders, and for what scripts ask of one; with ``get_idx_split()``, ``num_classes`` and
        ``to_data()`` besides. PyG's own loaders take it too, in memory, or as the pair
        ``(data.feature_store, data.graph_store)``.
    """
    store = open_store(path, cache)
    return StoreData(store) if store.is_homogeneous else StoreHeteroData(store)
