"""What each phase of an ingest is made from, in one string a phase: the same string means that what it made
can be used again, whatever else has changed.

Files count by absolute path, size and time of change, options by their value, small arrays by their content.
A phase that reads a large array in memory, or an iterator, has no key: it runs again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from gz._base import __version__
from gz._base.dtypes import as_numpy, is_array
from gz._ingest.plan.spec import EdgeSpec, NodeSpec, Spec
from gz._ingest.read.arrow import is_table
from gz._ingest.read.files import Files
from gz._ingest.read.npy import split_member
from gz._ingest.read.paths import as_paths
from gz.manifest import EdgeType

COUNTS = "numbers of nodes"
IDS = "id mapping"

_SMALL = 64 << 20  # bytes of an array: hashed in a tenth of a second
_NAMED_INPUTS = {"features", "splits"}
_INPUTS = {"ids", "edges", "file", *_NAMED_INPUTS}
_OF_TABLE = ("file", "id", "nulls", "categories", "units", "delimiter", "header")  # of a table of nodes


def column_phase(node_type: str, name: str) -> str:
    return f"feature {name!r}{_of(node_type)}"


def edge_phase(t: EdgeType, direction: str) -> str:
    return f"edges {'/'.join(t)}, {direction}"


def _of(node_type: str) -> str:
    return f" of {node_type!r}"


class _InMemory(Exception):
    pass


class PhaseKeys:
    """The key of every phase there will be."""

    def __init__(self, plan: Spec):
        self.in_memory = False  # something was found that has no key
        self._plan = plan
        self._keys: dict[str, str | None] = {}
        self._tables: dict[str, str | None] = {}  # of node types whose columns are those of a table
        for node in plan.nodes.values():
            self._columns(node)
        every = [self._told(partial(_record, e, plan.files)) for e in plan.edges]
        names = {n.name: self._told(partial(self._names, n)) for n in plan.nodes.values()}
        mapped = [names, every] if plan.mapped and not plan.closed else []
        for e, told in zip(plan.edges, every, strict=True):
            ends = [names[e.type[0]], names[e.type[2]]] if plan.mapped else []
            key = self._hash(["edges", plan.ids, told, ends, mapped, *_said(self._asked(e))])
            self._keys |= {edge_phase(e.type, d): key for d in ("in", "out", "out only")}
        self._keys[COUNTS] = self._hash(["counts", every])
        self._keys[IDS] = self._hash(["ids", plan.ids, names, [] if plan.closed else every])

    def of(self, phase: str) -> str | None:
        """None: what this phase makes cannot be used again."""
        if phase in self._keys:
            return self._keys[phase]
        return next((k for end, k in self._tables.items() if phase.endswith(end)), None)

    def _columns(self, node: NodeSpec) -> None:
        files = self._plan.files
        if isinstance(node.features, dict):
            for name, value in node.features.items():
                told = self._told(partial(_input, value, files))
                asked = self._plan.dtype_of(name, node.name)
                self._keys[column_phase(node.name, name)] = self._hash(["column", told, *_said(asked)])
            if node.file is None:
                return
        self._tables[_of(node.name)] = self._hash(["table", self._told(partial(self._table, node))])

    def _table(self, node: NodeSpec) -> Any:
        """A table of nodes, and one of features."""
        dtypes = node.columns if isinstance(node.columns, dict) else None
        told = {k: getattr(node, k) for k in _OF_TABLE} | {"dtypes": dtypes, "ids": self._plan.ids}
        files = self._plan.files
        features = None if isinstance(node.features, dict) else _input(node.features, files)
        asked = {"asked": self._plan.dtypes} if self._plan.dtypes else {}
        return told | asked | {"file": _input(node.file, files), "features": features}

    def _asked(self, edge: EdgeSpec) -> dict[str, str]:
        """What columns are to be stored as, but for those that are columns of nodes."""
        of_nodes = {f for n in self._plan.nodes.values() if isinstance(n.features, dict) for f in n.features}
        return {k: v for k, v in self._plan.dtypes.items() if k in edge.features or k not in of_nodes}

    def _names(self, node: NodeSpec) -> Any:
        """What names the nodes of a type."""
        return [
            _input(node.ids, self._plan.files),
            node.file is not None and self._table(node),
            node.num_nodes,
        ]

    def _told(self, tell: Callable[[], Any]) -> Any:
        try:
            return tell()
        except _InMemory:
            self.in_memory = True
            return _InMemory

    def _hash(self, told: Any) -> str | None:
        try:
            text = json.dumps([__version__, told], sort_keys=True, default=_scalar)
        except _InMemory:
            self.in_memory = True
            return None
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _said(value: Any) -> list[Any]:
    """Nothing where nothing was said, so that keys stay what they are without it."""
    return [value] if value else []


def _record(spec: EdgeSpec, files: Files) -> dict[str, Any]:
    told = dict(vars(spec))
    for k, v in told.items():
        if k in _NAMED_INPUTS and isinstance(v, dict):
            told[k] = [[name, _input(part, files)] for name, part in v.items()]
        elif k in _INPUTS:
            told[k] = _input(v, files)
    return told


def _input(value: Any, files: Files) -> Any:
    if value is None:
        return None
    if is_table(value):
        raise _InMemory
    named = getattr(value, "input_files", None)  # a reader of a layout of its own says what it reads
    if named is not None:
        return [type(value).__name__, repr(value), _files(named, files)]
    if (paths := as_paths(value)) is not None:
        return _files(paths, files)
    if isinstance(value, dict) and "file" in value:
        rest = {k: v for k, v in value.items() if k != "file"}
        return [_input(value["file"], files), rest]
    if isinstance(value, range):
        return ["range", value.start, value.stop, value.step]
    if isinstance(value, (list, tuple)) and all(is_array(v) for v in value):
        return [_array(v) for v in value]
    if is_array(value):
        return _array(value)
    raise _InMemory


def _array(value: Any) -> list[Any]:
    a, dtype = as_numpy(value)
    if a.nbytes > _SMALL or a.dtype.hasobject:
        raise _InMemory
    return [dtype, a.shape, hashlib.blake2b(np.ascontiguousarray(a).tobytes(), digest_size=16).hexdigest()]


def _files(paths: Iterable[Any], files: Files) -> list[Any]:
    out: list[Any] = []
    for path in paths:
        for file in files.expand(path):
            plain, member = split_member(file)
            try:
                s = os.stat(plain)
            except OSError:
                raise _InMemory from None  # missing: the reader says so better; remote: no cheap way to tell
            out.append([os.path.abspath(plain), member, s.st_size, s.st_mtime_ns])
    return out


def _scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (np.dtype, os.PathLike)):
        return str(value)
    raise _InMemory
