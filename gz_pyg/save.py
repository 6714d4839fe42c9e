"""gz_pyg.save: a PyG graph to a store."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

import gz
from gz import manifest
from gz.adapter import Carried, amount, ingest_carrying, ordering, weight_column
from gz_pyg._source.adjacency import edges_of_adjacency
from gz_pyg._store.extras import META, decode_extras, encode_extras
from gz_pyg._store.overlay import Overlay, raw, raw_items
from gz_pyg._store.stored import Stored, StoredEdgeIndex

_EXTRAS = 64 << 20  # bytes that store.json may hold of what belongs to no node and no edge


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
    sampling with fanout -1 returns what it returns on ``data``. Edges that ``data`` keeps as a matrix,
    ``adj_t``, come back as ``edge_index`` in its order, and its values as ``edge_weight``.

    Args:
        data: a ``Data`` or ``HeteroData``, in memory or loaded from a store; of the latter, with all that was
            written to it, and with its splits, original ids, categories and units. What of these does not go
            with what was written is left out with a warning.
        path: the store to make.
        directions: ``"in"``, edges grouped by destination, as loaders sample them; ``"out"``, by source, for
            ``sample_direction="backward"``; ``"both"``.
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
    known = _Known()
    if isinstance(data, Data):
        storage = data._store
        what: dict[str, Any] = {
            "edges": _ends(storage),
            "num_nodes": _count(data.num_nodes, "data"),
            "weight": known.edges(storage),
            "splits": known.nodes(storage),
        }
        what["features"], what["edge_features"], rest = _split(storage, manifest.NODE_TYPE)
        extras.update(rest)
    else:
        extras.update(data._global_store.to_dict())
        node_spec, edge_spec = {}, {}
        for t, storage in data.node_items():
            features, _, rest = _split(storage, t)
            count = _count(storage.num_nodes, f"data[{t!r}]")
            node_spec[t] = {"num_nodes": count, "features": features, "splits": known.nodes(storage)}
            extras.update({(t, k): v for k, v in rest.items()})
        for t, storage in data.edge_items():
            _, features, rest = _split(storage, t)
            edge_spec[t] = {"edges": _ends(storage), "features": features, "weight": known.edges(storage)}
            extras.update({(t, k): v for k, v in rest.items()})
        what = {"spec": {"nodes": node_spec, "edges": edge_spec}}
    meta = known.finish() | ({META: _encoded(extras)} if extras else {})
    for left_out in known.left_out:
        warnings.warn(left_out, stacklevel=2)
    ingest_carrying(known.carried, path, meta=meta, **what, **common)
    return os.fspath(path)


class _Known:
    """What the store that a graph was loaded from knows beyond its attributes, as far as it still holds.

    Attributes:
        carried: goes into the new store.
        left_out: does not, and why.
    """

    def __init__(self) -> None:
        self.carried = Carried()
        self._store: gz.Store | None = None
        self.left_out: list[str] = []
        self._changed: list[str] = []  # node types whose nodes are no longer those of the store

    def nodes(self, storage: Any) -> dict[str, Any]:
        """Takes note of what goes with nodes; the splits of the store."""
        overlay = storage._mapping
        if not isinstance(overlay, Overlay):
            return {}
        t, store = str(overlay.node_type), overlay.store
        self._store = store
        self._meanings(storage)
        if overlay.renumbered or storage.num_nodes != overlay.num_nodes:
            self._changed.append(t)
            if store.manifest.nodes[t].id_map is not None:
                self.left_out.append(
                    f"the original ids of {t!r} are not saved: its nodes are no longer all of these"
                )
            if not overlay.renumbered and store.splits(t):
                self.left_out.append(
                    f"the splits of {t!r} are not saved: its nodes are no longer all of these"
                )
            return {}
        if store.manifest.nodes[t].id_map is not None:
            self.carried.id_map(store, t)
        return overlay.splits()

    def edges(self, storage: Any) -> str | None:
        """Takes note of what goes with edges; the column that has the weights of walks, where one has."""
        overlay = storage._mapping
        if not isinstance(overlay, Overlay):
            return None
        t: Any = overlay.edge_type
        store = overlay.store
        if overlay.node_type is None:  # else nodes() takes note of all columns
            self._meanings(storage)
        if ordering(store, t).weights is None:
            return None
        edges = raw(storage, "edge_index")
        if isinstance(edges, StoredEdgeIndex) and not edges.version:
            columns = {n: store.edge_feature(n, t) for n in store.edge_columns(t)}
            found = weight_column(edges.graph, columns)
            for name in (found, f"edge_{found}"):  # the second where nodes have a column of that name
                value = None if name is None else raw(storage, name)
                if isinstance(value, Stored) and value.of_edges:
                    return name
        self.left_out.append(f"{t}: the weights of walks are not saved: no attribute of the edges has them")
        return None

    def _meanings(self, storage: Any) -> None:
        overlay = storage._mapping
        for name, value in raw_items(storage):
            entry = overlay.entry(name)
            if entry is None or (entry.names is None and entry.unit is None):
                continue
            if not isinstance(value, Stored):
                what = "categories" if entry.unit is None else "unit"
                self.left_out.append(f"the {what} of {name!r} are not saved: it was written to")
                continue
            of_nodes = not value.of_edges
            self.carried.meaning(overlay.node_type if of_nodes else overlay.edge_type, name, entry)

    def finish(self) -> dict[str, Any]:
        """Takes note of what goes with the graph; the notes of the store that are not PyG's."""
        store = self._store
        if store is None:
            return {}
        if store.edge_splits() and self._changed:
            self.left_out.append(
                f"the edge splits are not saved: the nodes of {self._changed} are no longer all of these",
            )
        elif store.edge_splits():
            self.carried.edge_splits(store)
        return {k: v for k, v in store.manifest.meta.items() if k != META}


def _count(n: int | None, what: str) -> int:
    if n is None:
        raise ValueError(f"the number of nodes is unknown; set {what}.num_nodes")
    return int(n)


def _ends(storage: Any) -> tuple[Any, Any]:
    edge_index = storage.get("edge_index")
    if "adj" in storage or "adj_t" in storage:
        edge_index = _ends_of_matrix(storage, edge_index)
    if edge_index is None:
        edge_index = torch.empty(2, 0, dtype=torch.int64)
    row, col = edge_index.detach().cpu().as_subclass(Tensor)
    return row.contiguous().numpy(), col.contiguous().numpy()  # no copy of what lies row by row


def _ends_of_matrix(storage: Any, edge_index: Any) -> Tensor:
    ends, _ = edges_of_adjacency(storage)
    if edge_index is not None and not torch.equal(edge_index.cpu(), ends.cpu()):
        raise ValueError(
            "the graph has edges in edge_index and others, or the same in another order, in adj_t; delete "
            "the one that is not to be saved"
        )
    return ends


def _split(storage: Any, t: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Node columns, edge columns and the rest of one storage."""
    nodes: dict[str, Any] = {}
    edges: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in storage.items():
        if name in ("adj", "adj_t"):
            _values_of_matrix(storage, edges)
        if name in ("edge_index", "adj", "adj_t"):
            continue
        if isinstance(value, np.ndarray) and value.ndim > 0 and value.dtype.kind in "fiub":
            column = True  # np.memmap too: nothing of it is read here
        else:
            column = isinstance(value, Tensor) and value.layout == torch.strided and value.dim() > 0
        first = column and storage._parent().__cat_dim__(name, value, storage) == 0
        where = rest
        if first and hasattr(storage, "is_node_attr") and storage.is_node_attr(name):
            where = nodes
        elif first and hasattr(storage, "is_edge_attr") and storage.is_edge_attr(name):
            where = edges
        where[name] = value.detach().cpu().contiguous() if isinstance(value, Tensor) else value
    return nodes, edges, rest


def _values_of_matrix(storage: Any, edges: dict[str, Any]) -> None:
    _, value = edges_of_adjacency(storage)
    if value is None:
        return
    if "edge_weight" not in storage:
        edges["edge_weight"] = value.detach().cpu().contiguous()
    elif not torch.equal(storage.edge_weight.cpu(), value.cpu()):
        raise ValueError("the graph has an edge_weight besides the values of adj_t; delete one of them")


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
    if len(text) > _EXTRAS:
        largest = max(extras, key=lambda k: len(encode_extras({k: extras[k]})))
        raise ValueError(
            f"{largest!r} is no column of a tensor's rows, so that it goes into store.json, where it would "
            f"take {amount(len(text))}; delete it, or save what it is made of as tensors with a row for each "
            "node or edge (of a TensorFrame: the tensors of tf.feat_dict)"
        )
    return text
