"""What an ingest would do, in one string: the same string means that finished phases can be used again.

Files count by absolute path, size and time of change, options by their value, small arrays by their content.
A large array in memory, or an iterator, has no cheap fingerprint: such an ingest cannot go on after a kill
and starts anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from .arrays import as_numpy, is_array
from .edge_input import expand, is_path
from .npy import split_member
from .spec import Spec

_SMALL = 64 << 20  # bytes of an array: hashed in a tenth of a second
_INPUTS = {"ids", "edges"}
_NAMED_INPUTS = {"features", "splits"}


class _InMemory(Exception):
    pass


def fingerprint(plan: Spec, adopt: bool) -> str | None:
    """None when some input lies in memory."""
    import gz

    try:
        told = {
            "gz": gz.__version__,
            "adopt": adopt,
            "homogeneous": plan.homogeneous,
            "ids": plan.ids,
            "meta": plan.meta,
            "nodes": [_record(n, plan.base) for n in plan.nodes.values()],
            "edges": [_record(e, plan.base) for e in plan.edges],
        }
        text = json.dumps(told, sort_keys=True, default=_scalar)
    except _InMemory:
        return None
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _record(spec: Any, base: str) -> dict[str, Any]:
    told = dict(vars(spec))
    for k, v in told.items():
        if k in _INPUTS:
            told[k] = _input(v, base)
        elif k in _NAMED_INPUTS:
            told[k] = [[name, _input(part, base)] for name, part in v.items()]
    return told


def _input(value: Any, base: str) -> Any:
    if value is None:
        return None
    files = getattr(value, "input_files", None)  # a reader of a layout of its own says what it reads
    if files is not None:
        return [type(value).__name__, repr(value), _files(files() if callable(files) else files, base)]
    if is_path(value):
        return _files([value], base)
    if isinstance(value, dict) and "file" in value:
        rest = {k: v for k, v in value.items() if k != "file"}
        return [_input(value["file"], base), rest]
    if isinstance(value, (list, tuple)) and value and all(is_path(v) for v in value):
        return _files(value, base)
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
    return [dtype, a.shape, hashlib.blake2b(np.ascontiguousarray(a).data, digest_size=16).hexdigest()]


def _files(paths: Iterable[Any], base: str) -> list[Any]:
    out: list[Any] = []
    for path in paths:
        for file in expand(path, base):
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
