"""The whole graph in memory, for what DGL can do only there: changing edges, transforms, saving.

A store does not change, so what changes the structure is done to a graph in memory: the edges as an ordinary
DGLGraph has them, the columns still over their files until they are touched. It must fit the memory limit
given to gz_dgl.load; past it, the error names the option of gz.ingest that does the same on disk. A warning
says when a script goes on with a graph in memory.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from gz_dgl._dgl import DGLGraph
from gz_dgl._frames import StoreFrame
from gz_dgl._index import SAMPLE_INSTEAD

# What DGL's function, method or transform does, done by gz.ingest on disk.
_UNDIRECTED = "undirected=True (--undirected), which adds rev_ types between two node types"
_ADD = "self_loops='add' (--self-loops add)"
_REMOVE = "self_loops='remove' (--self-loops remove)"
_COALESCE = "coalesce=True (--coalesce)"
ON_DISK = {
    "add_reverse_edges": _UNDIRECTED,
    "AddReverse": _UNDIRECTED,
    "to_bidirected": _UNDIRECTED,
    "add_self_loop": _ADD,
    "AddSelfLoop": _ADD,
    "remove_self_loop": _REMOVE,
    "RemoveSelfLoop": _REMOVE,
    "to_simple": _COALESCE,
    "to_simple_graph": _COALESCE,
    "ToSimple": _COALESCE,
}
_NEW_STORE = (
    "Make another store from the edges you want: gz.ingest takes arrays, files and iterators of chunks."
)
_INSTEAD = {
    "save_graphs": "The store is a file already: copy its folder. Or dgl.save_graphs(file, g.to_dgl()).",
    "partition_graph": "On a machine that holds it: dgl.distributed.partition_graph(g.to_dgl(), ...).",
}
_CHANGES = {"add_edges", "add_nodes", "remove_edges", "remove_nodes", "AddEdge", "DropEdge", "DropNode"}


class InMemoryWarning(UserWarning):
    """A script goes on with a graph in memory in place of the store's."""


def instead_of(name: str) -> str:
    """What to do where `name` would need more memory than allowed."""
    if name in ON_DISK:
        return f"On disk it is an option of gz.ingest: {ON_DISK[name]}."
    return _NEW_STORE if name in _CHANGES else _INSTEAD.get(name, SAMPLE_INSTEAD)


def in_memory(g: Any, name: str) -> Any:
    """The graph as an ordinary DGLGraph: edges in memory, columns over their files. `g` stays as it is."""
    twin = DGLGraph.__new__(DGLGraph)
    twin.__dict__.update(g.__dict__)
    _leave_store(twin, name)
    return twin


def become_in_memory(g: Any, name: str) -> None:
    """The same, but of the object itself, which DGL is about to change."""
    _leave_store(g, name)
    g.__class__ = DGLGraph
    say_so(name, "the graph is changed in memory; its store stays as it is")


def _leave_store(g: Any, name: str) -> None:
    g._graph = g._graph.in_memory(name, instead_of(name))
    g._node_frames = [_plain(f) for f in g._node_frames]
    g._edge_frames = [_plain(f) for f in g._edge_frames]


def _plain(frame: Any) -> Any:
    return frame.plain() if isinstance(frame, StoreFrame) else frame.clone()


def say_so(name: str, what: str) -> None:
    on_disk = f" (on disk: gz.ingest with {ON_DISK[name]})" if name in ON_DISK else ""
    warnings.warn(f"{name}: {what}{on_disk}", InMemoryWarning, stacklevel=_caller())


def _caller() -> int:
    """How far up the stack the script is: past DGL's frames and ours."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    return level


def _is_inside(module: str) -> bool:
    return module.split(".")[0] in ("dgl", "gz_dgl")
