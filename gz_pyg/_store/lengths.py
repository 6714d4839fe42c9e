"""How many rows an attribute of a loaded store must have.

A store fixes the number of nodes and edges as long as its edges are used. What PyG would take for something
that goes with no node and no edge, because its length fits neither, is an error here where the name says
what it is: a column of the store, or a name that PyG itself counts nodes or edges by.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor
from torch_geometric.data.storage import N_KEYS, EdgeStorage, NodeStorage
from torch_geometric.typing import TensorFrame

from gz_pyg._store.stored import Stored, StoredEdgeIndex

_EDGE_NAMES = {"edge_attr", "edge_weight", "edge_type", "e_id"}


def check_length(storage: Any, key: str, value: Any) -> None:
    """Raises ValueError where ``value`` cannot be attribute ``key`` of what the store holds."""
    wrong = _wrong(storage, key, value)
    if wrong is not None:
        raise ValueError(f"{wrong}; where the edges change, set edge_index first")


def check_written(data: Any) -> None:
    """As `check_length`, for all that was written to a loaded graph."""
    for storage, key, value in _all(data):
        if not isinstance(value, Stored):
            check_length(storage, key, value)


def warn_of_left_behind(data: Any) -> None:
    """Of columns of the store whose edges were replaced by others: they now go with none of these."""
    for storage, key, value in _all(data):
        wrong = _wrong(storage, key, value) if isinstance(value, Stored) else None
        if wrong is not None:
            warnings.warn(
                f"{wrong}: batches get all of it, as in PyG; delete it or write it anew", stacklevel=2
            )


def _all(data: Any) -> Iterator[tuple[Any, str, Any]]:
    for storage in data.stores:
        if hasattr(storage._mapping, "raw_items"):
            yield from ((storage, key, value) for key, value in storage._mapping.raw_items())


def _wrong(storage: Any, key: str, value: Any) -> str | None:
    rows = _rows(key, value)
    if rows is None:
        return None
    counts: dict[str, int | None] = {}
    if isinstance(storage, NodeStorage) and _goes_with_nodes(storage, key):
        counts["nodes"] = _fixed_nodes(storage)
    if isinstance(storage, EdgeStorage) and _goes_with_edges(storage, key):
        counts["edges"] = _fixed_edges(storage)
    if not counts or None in counts.values() or rows in counts.values():
        return None
    overlay = storage._mapping
    of = overlay.edge_type if isinstance(storage, EdgeStorage) else overlay.node_type
    there = " or ".join(f"{n} {what}" for what, n in counts.items())
    says = f"is {rows}" if key == "num_nodes" else f"has {rows} rows"
    return f"{overlay.store.path}: {key!r} of {of} {says}, but there are {there}"


def _rows(key: str, value: Any) -> int | None:
    if key == "num_nodes":
        return value if isinstance(value, int) else None
    if isinstance(value, TensorFrame):
        return len(value)
    if key in ("edge_index", "adj", "adj_t") or not isinstance(value, (Tensor, np.ndarray, Stored)):
        return None
    return value.shape[0] if len(value.shape) else None


def _goes_with_nodes(storage: Any, key: str) -> bool:
    known = storage._mapping.node_column(key)
    return known or key == "num_nodes" or key in N_KEYS or key in ("train_mask", "val_mask", "test_mask")


def _goes_with_edges(storage: Any, key: str) -> bool:
    return storage._mapping.edge_column(key) or key in _EDGE_NAMES


def _fixed_nodes(storage: Any) -> int | None:
    """Nodes of the type, where stored edges begin or end at them; None where nothing says how many."""
    overlay = storage._mapping
    parent = storage._parent()
    edges = [s._mapping.raw("edge_index") for s in parent.edge_stores if hasattr(s._mapping, "raw")]
    ends = {
        t for e in edges if isinstance(e, StoredEdgeIndex) and e.store is overlay.store for t in e.type[::2]
    }
    return overlay.num_nodes if overlay.node_type in ends else None


def _fixed_edges(storage: Any) -> int | None:
    edges = storage._mapping.raw("edge_index")
    if isinstance(edges, StoredEdgeIndex):
        return edges.num_edges
    return int(edges.shape[-1]) if isinstance(edges, Tensor) and edges.dim() == 2 else None
