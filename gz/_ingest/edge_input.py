"""Every form that edges can come in, as one table with two id columns."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gz._engine import InputError

from . import remote
from .arrays import as_numpy, is_array
from .csv_table import SOURCE_NAMES, TARGET_NAMES, CsvTable
from .graphzero import GraphZeroEdges
from .hive import partitions
from .npy import members, open_array, split_member
from .parquet import ParquetTable
from .tables import ArrayTable, IteratorTable, JoinedTable, NpyEdgeIndex, NpyTable, Table


@dataclass
class EdgeOptions:
    columns: tuple[str | int, str | int] | None = None  # the two id columns
    edge_columns: Any = None  # names to keep, or {name: dtype}; None: all
    weight: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    on_bad_line: str = "error"
    mapped: bool = False  # ids are of any kind
    text: bool | None = None  # ids are text, integers (False), or to be found out
    memory: int = 1 << 31
    base: str = ""  # relative paths start here
    key_names: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # for the report


def expand(path: Any, base: str = "") -> list[str]:
    """The files a path stands for: itself, a folder's files, or what a pattern matches; sorted."""
    p = remote.local(os.fspath(path))
    if remote.is_remote(p):
        return remote.expand(p)
    p = os.path.join(base, os.path.expanduser(p))
    if os.path.isdir(p):
        found = []
        for directory, folders, files in os.walk(p):
            folders[:] = sorted(f for f in folders if not f.startswith((".", "_")) or "=" in f)
            found += [os.path.join(directory, f) for f in sorted(files) if not f.startswith((".", "_"))]
        if not found:
            raise InputError(f"{p}: the folder holds no files")
        return found
    if not os.path.exists(p) and glob.has_magic(p):
        found = sorted(glob.glob(p, recursive=True))
        if not found:
            raise FileNotFoundError(f"no file matches {p}")
        return found
    return [p]


def is_path(obj: Any) -> bool:
    return isinstance(obj, (str, os.PathLike))


def open_edges(edges: Any, o: EdgeOptions) -> Table:
    """A table whose first two columns are the ends of the edges; o.key_names is set to their names."""
    if is_path(edges):
        return _files([edges], o)
    if is_array(edges):
        return _array(edges, o)
    if isinstance(edges, dict):
        return _named(ArrayTable(edges, "edges"), o)
    if isinstance(edges, (tuple, list)):
        if edges and all(is_path(e) for e in edges):
            return _files(edges, o)
        if len(edges) == 2 and not is_path(edges[0]):
            o.key_names = ["src", "dst"]
            return ArrayTable({"src": _ids(edges[0]), "dst": _ids(edges[1])}, "edges")
        raise InputError("edges as a tuple must be (src, dst) or a list of files")
    if isinstance(edges, Iterable):
        return _named(IteratorTable(edges, ["src", "dst"], "edges"), o)
    raise TypeError(f"edges cannot be a {type(edges).__name__}; give arrays, files or an iterator of chunks")


def _ids(values: Any) -> Any:
    if is_array(values):
        return values
    return np.asarray(values) if len(values) else np.zeros(0, np.int64)


def _array(edges: Any, o: EdgeOptions) -> Table:
    a, _ = as_numpy(edges)
    if a.ndim != 2 or 2 not in a.shape:
        raise InputError(f"edges: an array of shape {a.shape}; edges are [2, E] or [E, 2]")
    src, dst = (a[0], a[1]) if a.shape[0] == 2 else (a[:, 0], a[:, 1])
    o.key_names = ["src", "dst"]
    return ArrayTable({"src": src, "dst": dst}, "edges")


def _named(table: Table, o: EdgeOptions) -> Table:
    """Finds the id columns of a table that has names."""
    names = [c.name for c in table.columns]
    if o.columns is not None:
        keys: list[Any] = [names[c] if isinstance(c, int) and c < len(names) else c for c in o.columns]
        for k in keys:
            if k not in names:
                raise InputError(f"{table.name}: has no column {k!r}; it has {', '.join(names)}")
    else:
        src = [n for n in names if n.lower() in SOURCE_NAMES]
        dst = [n for n in names if n.lower() in TARGET_NAMES]
        keys = [src[0], dst[0]] if len(src) == len(dst) == 1 else names[:2]
        if len(keys) < 2:
            raise InputError(f"{table.name}: has columns {', '.join(names)}; an edge needs two")
    o.key_names = [str(k) for k in keys]
    return table


def _files(given: Sequence[Any], o: EdgeOptions) -> Table:
    tables = []
    for path in given:
        files = expand(path, o.base)
        inside, text = partitions(files, _folder(path, o.base))
        if text:
            o.notes.append(
                f"note: {os.fspath(path)}: the partitions {', '.join(text)} are text and were left out"
            )
        tables += [_file(f, o, part) for f, part in zip(files, inside, strict=True)]
    return tables[0] if len(tables) == 1 else JoinedTable(tables)


def _folder(path: Any, base: str) -> str:
    """What partitions are looked for below: the folder as it is given, or nothing above a file or pattern."""
    p = remote.local(os.fspath(path))
    if not remote.is_remote(p):
        p = os.path.join(base, os.path.expanduser(p))
        while glob.has_magic(p) and not os.path.exists(p):
            p = os.path.dirname(p)
    return p


def _file(path: str, o: EdgeOptions, partition: dict[str, int]) -> Table:
    plain, member = split_member(path)
    swapped = o.columns is not None and tuple(o.columns) in ((1, 0), ("dst", "src"))
    ends = ["dst", "src"] if swapped else ["src", "dst"]
    if plain.endswith(".gl"):
        o.key_names = ends
        return GraphZeroEdges(plain)
    if plain.endswith(".npy"):
        o.key_names = ends
        return NpyEdgeIndex(open_array(plain))
    if plain.endswith(".npz"):
        if member is None:
            names = [m[:-4] for m in members(plain)]
            if "edge_index" in names:
                member = "edge_index"
            elif len(names) > 1:
                return _named(NpyTable({n: open_array(plain, n) for n in names}, plain), o)
        o.key_names = ends
        return NpyEdgeIndex(open_array(plain, member))
    if plain.endswith((".parquet", ".pq")):
        return _named(ParquetTable(plain, partition=partition), o)
    table = CsvTable(
        plain,
        keys=list(o.columns) if o.columns is not None else None,
        values=list(o.edge_columns) if o.edge_columns is not None else None,
        dtypes=o.edge_columns if isinstance(o.edge_columns, dict) else None,
        weight=o.weight,
        text_keys=o.text if o.mapped else False,
        any_integer=o.mapped,
        delimiter=o.delimiter,
        header=o.header,
        skip_bad=o.on_bad_line == "skip",
        piece_bytes=max(1 << 14, min(8 << 20, o.memory // 96)),
    )
    o.key_names = table.key_names
    return table
