"""A store as the attributes of a PyG graph: puts the storages of its types into a Data or HeteroData."""

from __future__ import annotations

import os
from typing import Any

from torch_geometric.data import Data, HeteroData

import gz
from gz_pyg._store.extras import extras_of
from gz_pyg._store.overlay import Overlay
from gz_pyg._store.storage import StoredEdgeStorage, StoredGlobalStorage, StoredNodeStorage


def open_store(path: str | os.PathLike[str] | gz.Store, cache: str | int = "auto") -> gz.Store:
    return path if isinstance(path, gz.Store) else gz.open(path, cache)


def graph_of(store: gz.Store) -> Data | HeteroData:
    """A plain PyG graph over a store."""
    if store.is_homogeneous:
        return fill_data(Data(), store)
    return fill_hetero_data(HeteroData(), store)


def store_of(graph: Data | HeteroData) -> gz.Store:
    """The store that a graph lies in."""
    found = find_store(graph)
    if found is None:
        raise ValueError(
            f"a {type(graph).__name__} in memory is given; give what gz_pyg.load returns, or a path"
        )
    return found


def find_store(data: Any) -> gz.Store | None:
    """The same of anything that a loader takes; None where it lies in memory, or in stores of others."""
    parts = getattr(data, "stores", ())
    return next((s._mapping.store for s in parts if isinstance(s._mapping, Overlay)), None)


def fill_data(data: Any, store: gz.Store) -> Any:
    if not store.edge_types:
        raise ValueError(f"{store.path}: holds no edges; a PyG graph needs an edge type")
    overlay = Overlay(store, store.node_types[0], store.edge_types[0], extras_of(store))
    data.__dict__["_store"] = StoredGlobalStorage.over(overlay, data)
    return data


def fill_hetero_data(data: Any, store: gz.Store) -> Any:
    extras = extras_of(store)

    def of(t: Any) -> dict[str, Any]:
        return {k[1]: v for k, v in extras.items() if isinstance(k, tuple) and k[0] == t}

    for t in store.node_types:
        data._node_store_dict[t] = StoredNodeStorage.over(Overlay(store, t, None, of(t)), data, t)
    for e in store.edge_types:
        data._edge_store_dict[e] = StoredEdgeStorage.over(Overlay(store, None, e, of(e)), data, e)
    for name, value in extras.items():
        if not isinstance(name, tuple):
            data._global_store[name] = value
    return data
