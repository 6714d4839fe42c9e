"""The type of every key of a spec. A value of another type is an error that names the key by its path, the
type wanted and the one found, and the file, before anything is opened.

In a spec that is a dict a file may be an array, a frame or an iterator; in TOML it is a path.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gz._engine import InputError


@dataclass(frozen=True)
class _Kind:
    """What a key holds: its name for messages, and whether a value is one (and was read from TOML)."""

    name: str
    fits: Callable[[Any, bool], bool]


def _is(kind: Any, name: str) -> _Kind:
    return _Kind(name, lambda v, _: isinstance(v, kind))


def _is_int(v: Any) -> bool:
    return isinstance(v, int) and not isinstance(v, bool)


def _is_place(v: Any) -> bool:
    return isinstance(v, str) or _is_int(v)


def _are(v: Any, of: Callable[[Any], bool]) -> bool:
    return isinstance(v, (list, tuple)) and all(of(x) for x in v)


def _is_text(v: Any) -> bool:
    return isinstance(v, str)


def _is_source(v: Any, toml: bool) -> bool:
    """Something rows can come from."""
    if toml:
        return _is_text(v) or (_are(v, _is_text) and len(v) > 0)
    scalars = (bool, int, float, complex, datetime.date, datetime.time)
    return not isinstance(v, scalars)


def _is_column(v: Any, toml: bool) -> bool:
    return isinstance(v, dict) or _is_source(v, toml)


_TEXT = _is(str, "text")
_TRUTH = _is(bool, "true or false")
_TABLE = _is(dict, "a table")
_FILE = _Kind("a file or a list of files", _is_source)
_NAMES = _Kind("a list of names", lambda v, _: _is_text(v) or _are(v, _is_text))
_COLUMNS = _Kind(
    "a list of columns, or a table {name = dtype}",
    lambda v, _: (
        _are(list(v.items()), lambda i: _is_text(i[1])) if isinstance(v, dict) else _are(v, _is_place)
    ),
)
_COUNT = _Kind("an integer", lambda v, _: _is_int(v))
_OF_NAMES = _Kind(
    "a table {column = list of names}",
    lambda v, _: isinstance(v, dict) and all(_are(n, _is_text) for n in v.values()),
)
_OF_TEXT = _Kind(
    "a table {column = text}", lambda v, _: isinstance(v, dict) and all(_is_text(t) for t in v.values())
)

_OF_TEXT_TABLES = {"delimiter": _TEXT, "header": _TRUTH}
_OF_TABLES = {
    "file": _FILE,
    "columns": _COLUMNS,
    "drop": _NAMES,
    "nulls": _TABLE,
    "categories": _OF_NAMES,
    "units": _OF_TEXT,
    **_OF_TEXT_TABLES,
}
_OPTIONS = {  # of edges; at the top, the default of all
    "weight": _TEXT,
    "undirected": _TRUTH,
    "reverse": _is((bool, str), "true, false or a name"),
    "self_loops": _TEXT,
    "coalesce": _TRUTH,
    "neighbor_order": _TEXT,
    "keep_edge_ids": _TRUTH,
    "directions": _TEXT,
    "on_bad_line": _TEXT,
    "ends": _Kind("a list of two columns", lambda v, _: _are(v, _is_place) and len(v) == 2),
    "edge_columns": _COLUMNS,
}
_FEATURES = _Kind("a table of columns, or a file", _is_column)
SPEC = {
    **_OPTIONS,
    **{k: v for k, v in _OF_TABLES.items() if k != "file"},
    "ids": _TEXT,
    "homogeneous": _TRUTH,
    "meta": _TABLE,
    "nodes": _TABLE,
    "edge_splits": _TABLE,
}
NODE = {
    **_OF_TABLES,
    "id": _Kind("the name or position of a column", lambda v, _: _is_place(v)),
    "num_nodes": _COUNT,
    "ids": _Kind("a file, or a table {file = , id = }", _is_column),
    "original_ids": _Kind("a file, or a table {file = , id = }", _is_column),
    "features": _FEATURES,
    "splits": _TABLE,
}
EDGE = {**_OPTIONS, **_OF_TABLES, "features": _FEATURES}
_COLUMN = {
    "file": _FILE,
    "columns": _Kind("a list of columns", lambda v, _: _are(v, _is_place)),
    "drop": _NAMES,
    "nulls": _TABLE,
    "dtype": _TEXT,
    "member": _TEXT,
    "categories": _NAMES,
    "unit": _TEXT,
    **_OF_TEXT_TABLES,
}
_FOUND = {
    bool: "the truth value",
    int: "the integer",
    float: "the float",
    str: "the text",
    list: "the list",
    dict: "the table",
}


def check_types(given: Any, keys: dict[str, _Kind], what: str, where: str, toml: bool) -> None:
    """`what` holds the keys: the spec itself, a node type, an edge type; `where` is the file."""
    if not isinstance(given, dict):
        raise InputError(f"{where}: {what} is a table of keys, not {_shown(given)}")
    for key, value in given.items():
        if key in keys:
            _check(value, keys[key], key, what, where, toml)
    features, splits = given.get("features"), given.get("splits")
    for name, value in features.items() if isinstance(features, dict) else ():
        at = f"features.{name}"
        _check(value, _Kind("a file, or a table {file = , ...}", _is_column), at, what, where, toml)
        for key, part in value.items() if isinstance(value, dict) else ():
            if key in _COLUMN:
                _check(part, _COLUMN[key], f"{at}.{key}", what, where, toml)
    for name, value in splits.items() if isinstance(splits, dict) else ():
        _check(value, _FILE, f"splits.{name}", what, where, toml)


def _check(value: Any, kind: _Kind, key: str, what: str, where: str, toml: bool) -> None:
    value = value.item() if isinstance(value, np.generic) else value
    if value is None:
        return
    if not kind.fits(value, toml):
        raise InputError(f"{where}: {what}: {key} is {kind.name}, not {_shown(value)}")
    if kind is _COUNT and value < 0:
        raise InputError(f"{where}: {what}: {key} is a count, not {value}")


def _shown(value: Any) -> str:
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{_FOUND.get(type(value), type(value).__name__)} {text}"
