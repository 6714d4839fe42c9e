"""What PyG may build of a store's edges in memory: how much must be free for it, and what to do instead.

PyG's transforms and functions work on whole arrays of edges. They are let in where what they take at their
worst is free, and refused before anything is read otherwise, with the option of gz.ingest that does the same
on disk.
"""

from __future__ import annotations

import sys
from typing import Any

from torch_geometric.transforms import BaseTransform, Compose

import gz
from gz.adapter import check_fits

# Bytes an edge. The first is taken while edges are put in order (16 of it stay), the second by PyG besides:
# measured on 3 M edges, RandomLinkSplit takes 206, ToUndirected 178, ToSparseTensor 104, others below 60.
_LISTING = 48
_CHANGING = 208

_UNDIRECTED = "undirected=True (--undirected), which adds rev_ types between two node types"
_ADD = "self_loops='add' (--self-loops add)"
_REMOVE = "self_loops='remove' (--self-loops remove)"
_COALESCE = "coalesce=True (--coalesce)"
ON_DISK = {
    "ToUndirected": _UNDIRECTED,
    "to_undirected": _UNDIRECTED,
    "AddSelfLoops": _ADD,
    "add_self_loops": _ADD,
    "AddRemainingSelfLoops": _ADD,
    "add_remaining_self_loops": _ADD,
    "RemoveSelfLoops": _REMOVE,
    "remove_self_loops": _REMOVE,
    "RemoveDuplicatedEdges": _COALESCE,
    "coalesce": _COALESCE,
}
_INSTEAD = {
    "RandomLinkSplit": "LinkNeighborLoader(data, ...) takes seed edges and negatives batch by batch; splits "
    "that were made before come along with an ingest ([edge_splits] of a spec, data.get_edge_split())",
    "ToSparseTensor": "gz_pyg's loaders sample from the files and need no adj_t; as transform= of a loader "
    "it makes that of a batch",
}
_ANYTHING = (
    "gz_pyg's loaders need it only batch by batch, and `gz ingest` does on disk what changes edges "
    "(undirected, coalesce, self_loops)"
)


def check_edges(num_edges: int, store: gz.Store) -> None:
    """Raises MemoryError where listing all edges, and what is about to be done with them, would not fit."""
    name = _at_work()
    check_fits(
        num_edges * (_LISTING + (_CHANGING if name is not None else 0)),
        f"{store.path}: edge_index in memory{'' if name is None else f', for {name},'}",
        _instead_of(name),
    )


def check_column(nbytes: int, store: gz.Store, name: str) -> None:
    """The same for a column of edges, which is put in the order of the edges."""
    check_fits(nbytes, f"{store.path}: {name} in memory", _instead_of(_at_work()))


def _instead_of(name: str | None) -> str:
    if name in ON_DISK:
        return f"on disk it is an option of `gz ingest`: {ON_DISK[name]}"
    return _ANYTHING if name is None else _INSTEAD.get(name, _ANYTHING)


def _at_work() -> str | None:
    """The transform or function of PyG's that asks for the edges, as the script called it.

    Looked up in the stack: edges are listed by the first operation on them, wherever that is.
    """
    found = None
    frame = sys._getframe(1)
    while frame is not None:
        called: Any = frame.f_code.co_name
        if called == "forward" and isinstance(me := frame.f_locals.get("self"), BaseTransform):
            found = found if isinstance(me, Compose) else type(me).__name__
        elif called in ON_DISK and frame.f_globals.get("__name__", "").startswith("torch_geometric.utils"):
            found = called
        frame = frame.f_back  # type: ignore[assignment]
    return found
