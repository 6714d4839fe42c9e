"""gz_pyg.save: an in-memory PyG graph to a store."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

import gz
from gz import manifest
from gz_pyg.data import META, decode_extras, encode_extras


def save(
    data: Data | HeteroData,
    path: str | os.PathLike[str],
    *,
    directions: str = "in",
    overwrite: bool = False,
    memory: str | int = "2GB",
) -> str:
    """Writes ``data`` to a store: edges with their order and ids, node and edge attributes, and the rest.

    ``gz_pyg.load(path)`` gives equal tensors back. Neighbours keep the order of ``edge_index``, so that
    sampling with fanout -1 returns what it returns on ``data``.

    Args:
        data: a ``Data`` or ``HeteroData``.
        path: the store to make.
        directions: ``"both"`` to allow ``sample_direction="backward"`` as well.
        overwrite: replace the store if it exists.
        memory: what the conversion may take besides ``data`` itself.

    Returns:
        ``path``.
    """
    if not isinstance(data, (Data, HeteroData)):
        raise TypeError(f"data is a {type(data).__name__}; give a Data or a HeteroData")
    common: dict[str, Any] = {
        "directions": directions,
        "keep_edge_ids": True,
        "memory": memory,
        "neighbor_order": "input",
        "overwrite": overwrite,
        "progress": False,
    }
    extras: dict[Any, Any] = {}
    if isinstance(data, Data):
        nodes, edges, rest = _split(data._store, data.num_nodes, manifest.NODE_TYPE)
        extras.update(rest)
        what: dict[str, Any] = {
            "edges": _ends(data._store),
            "features": nodes,
            "num_nodes": _count(data.num_nodes, "data"),
            "edge_features": edges,
        }
    else:
        extras.update(data._global_store.to_dict())
        node_spec, edge_spec = {}, {}
        for t, store in data.node_items():
            features, _, rest = _split(store, store.num_nodes, t)
            node_spec[t] = {"num_nodes": _count(store.num_nodes, f"data[{t!r}]"), "features": features}
            extras.update({(t, k): v for k, v in rest.items()})
        for t, store in data.edge_items():
            _, features, rest = _split(store, None, t)
            edge_spec[t] = {"edges": _ends(store), "features": features}
            extras.update({(t, k): v for k, v in rest.items()})
        what = {"spec": {"nodes": node_spec, "edges": edge_spec}}
    gz.ingest(path, meta={META: _encoded(extras)} if extras else None, **what, **common)
    return os.fspath(path)


def _count(n: int | None, what: str) -> int:
    if n is None:
        raise ValueError(f"the number of nodes is unknown; set {what}.num_nodes")
    return int(n)


def _ends(store: Any) -> tuple[Any, Any]:
    if "adj_t" in store:
        raise ValueError("adj_t cannot be saved; keep the edges in edge_index")
    edge_index = store.get("edge_index")
    if edge_index is None:
        edge_index = torch.empty(2, 0, dtype=torch.int64)
    row, col = edge_index.detach().cpu().as_subclass(Tensor)
    return row.contiguous().numpy(), col.contiguous().numpy()  # no copy of what lies row by row


def _split(
    store: Any, num_nodes: int | None, t: Any
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Node columns, edge columns and the rest of one storage."""
    nodes: dict[str, Any] = {}
    edges: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in store.items():
        if name == "edge_index":
            continue
        if isinstance(value, np.ndarray) and value.ndim > 0 and value.dtype.kind in "fiub":
            column = True  # np.memmap too: nothing of it is read here
        else:
            column = isinstance(value, Tensor) and value.layout == torch.strided and value.dim() > 0
        first = column and store._parent().__cat_dim__(name, value, store) == 0
        where = rest
        if first and hasattr(store, "is_node_attr") and store.is_node_attr(name):
            where = nodes
        elif first and hasattr(store, "is_edge_attr") and store.is_edge_attr(name):
            where = edges
        where[name] = value.detach().cpu().contiguous() if isinstance(value, Tensor) else value
    return nodes, edges, rest


def _encoded(extras: dict[Any, Any]) -> str:
    """What belongs to no node and no edge, as text for store.json; read back once, to be sure."""
    try:
        text = encode_extras(extras)
        decode_extras(text)
    except Exception as e:
        bad = {str(k): type(v).__name__ for k, v in extras.items()}
        raise TypeError(
            f"these attributes cannot be saved, remove them from the graph first: {bad} ({e})"
        ) from None
    return text
