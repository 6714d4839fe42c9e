"""Node features, labels, masks and splits: from any form into a .gd column, or adopted where they lie."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gz import _engine
from gz._engine import InputError
from gz._ingest.ahead import ahead

from . import graphzero
from .arrays import STORABLE, Column, is_array, to_dtype
from .csv_table import CsvTable
from .edge_input import expand, is_path
from .npy import RawArray, members, open_array, split_member
from .parquet import ParquetTable
from .pickled import PickledArray
from .pt import FromPt
from .tables import ArrayTable, IteratorTable, JoinedTable, MatrixTable, NpyTable, Table, stored_column

_CHUNK_BYTES = 16 << 20
_SPLIT_ROWS = 1 << 20


def open_column(name: str, value: Any, base: str = "") -> Table:
    """A table whose columns together make up the column `name`. `value`: an array, a file, an iterator of
    chunks, or {"file": ..., "columns": [...], "dtype": ..., "member": ..., "delimiter": ..., "header": ...}.
    For the dataset layouts also: "matrix" (of text: rows even if there is one column), "empty_is_nan", and
    "raw" (dtype and shape of a file without a header).
    """
    options: dict[str, Any] = {}
    if isinstance(value, dict):
        options = dict(value)
        if "file" not in options:
            raise InputError(
                f'feature {name!r}: a description needs "file"; it has {", ".join(options) or "nothing"}'
            )
        value = options.pop("file")
    if is_array(value):
        return ArrayTable({name: value}, f"feature {name!r}")
    if is_path(value) or (isinstance(value, (list, tuple)) and value and all(is_path(v) for v in value)):
        paths = [p for v in (value if isinstance(value, (list, tuple)) else [value]) for p in expand(v, base)]
        tables = [_open_file(name, p, options) for p in paths]
        return tables[0] if len(tables) == 1 else JoinedTable(tables)
    if isinstance(value, (list, tuple)) and not any(is_array(v) for v in value):
        return ArrayTable({name: np.asarray(value)}, f"feature {name!r}")
    if isinstance(value, Iterable):
        return IteratorTable(value, [name], f"feature {name!r}")
    raise TypeError(
        f"feature {name!r} cannot be a {type(value).__name__}; give an array, a file or an iterator of chunks"
    )


def _open_file(name: str, path: str, options: dict[str, Any]) -> Table:
    known = {"columns", "dtype", "member", "delimiter", "header", "matrix", "empty_is_nan", "raw"}
    if set(options) - known:
        raise InputError(
            f"feature {name!r}: unknown {sorted(set(options) - known)}; known are {sorted(known)}"
        )
    plain, member = split_member(path)
    if "raw" in options:
        dtype, shape = options["raw"]
        return NpyTable({name: RawArray(plain, dtype, tuple(shape))}, plain)
    if plain.endswith((".npy", ".npz")):
        return NpyTable({name: open_array(plain, options.get("member") or member)}, plain)
    if plain.endswith(".gd"):
        return NpyTable({name: graphzero.open_features(plain)}, plain)
    if plain.endswith((".parquet", ".pq")):
        return ParquetTable(plain, options.get("columns"))
    dtype = options.get("dtype")
    if dtype is None and not (options.get("columns") and len(options["columns"]) == 1):
        dtype = _common_dtype(CsvTable(plain, values=options.get("columns"), **_text_options(options)))
    table = CsvTable(plain, values=options.get("columns"), dtype=dtype, **_text_options(options))
    return MatrixTable(name, table) if options.get("matrix") else table


def _text_options(options: dict[str, Any]) -> dict[str, Any]:
    return {k: options[k] for k in ("delimiter", "header", "empty_is_nan") if k in options}


def _common_dtype(table: CsvTable) -> str:
    kinds = {c.dtype for c in table.columns}
    return kinds.pop() if len(kinds) == 1 else "float32"


def combined(name: str, table: Table, dtype: str | None = None) -> Column:
    """The one column the table's columns make: scalars side by side become a row."""
    cols = [stored_column(c, table.name) for c in table.columns]
    if not cols:
        raise InputError(f"{table.name}: has no columns")
    kinds = {c.dtype for c in cols}
    kind = dtype or (kinds.pop() if len(kinds) == 1 else "float32")
    if kind not in STORABLE:
        raise InputError(
            f"feature {name!r}: dtype {kind!r} cannot be stored; choose one of {', '.join(STORABLE)}"
        )
    if len(cols) == 1:
        return Column(name, kind, cols[0].shape)
    if any(c.shape for c in cols):
        raise InputError(
            f"{table.name}: several columns, not all of single numbers; name one for feature {name!r}"
        )
    return Column(name, kind, (len(cols),))


def rows_of(table: Table, column: Column) -> Iterator[np.ndarray]:
    """The column's rows in order, chunk by chunk, in the dtype it is stored as."""
    width = max(1, int(np.prod(column.shape, dtype=np.int64))) * column.numpy.itemsize
    for chunk in table.chunks(max(1, _CHUNK_BYTES // width)):
        parts = list(chunk.columns.items())
        if len(parts) == 1:
            key, a = parts[0]
            yield to_dtype(a, column, chunk.dtypes.get(key, a.dtype.name))
        else:
            yield np.stack([np.asarray(a, dtype=column.numpy) for _, a in parts], axis=1)


def write_column(
    path: Path,
    name: str,
    table: Table,
    dtype: str | None = None,
    expected: int | None = None,
    what: str = "nodes",
) -> int:
    """Writes a .gd file and returns its number of rows; a wrong number is an error that names both."""
    column = combined(name, table, dtype)
    if expected is not None and table.rows is not None and table.rows != expected:
        raise _wrong_rows(table, table.rows, expected, what)
    writer = _engine.ColumnWriter(str(path), column.dtype, list(column.shape))
    count = 0
    pieces = rows_of(table, column)
    for rows in ahead(pieces) if table.reads_files else pieces:
        if rows.shape[1:] != column.shape:
            raise InputError(
                f"{table.name}: rows from {count} on have shape {rows.shape[1:]}, the first had "
                f"{column.shape}"
            )
        writer.append(rows)
        count += len(rows)
        if expected is not None and count > expected:
            raise _wrong_rows(table, count, expected, what, "or more ")
    if expected is not None and count != expected:
        raise _wrong_rows(table, count, expected, what)
    writer.finish(count)
    return count


def _wrong_rows(table: Table, rows: int, expected: int, what: str, more: str = "") -> InputError:
    return InputError(f"{table.name}: has {rows} {more}rows, but there are {expected} {what}")


def adoptable(value: Any, base: str = "") -> str | None:
    """The absolute path of an .npy that can serve as a column where it lies, or None."""
    path: Any = value.get("file") if isinstance(value, dict) and set(value) <= {"file"} else value
    if not is_path(path):
        return None
    full = os.path.abspath(os.path.join(base, os.path.expanduser(os.fspath(path))))
    if not full.endswith(".npy") or not os.path.isfile(full):
        return None
    a = open_array(full)
    little = a.dtype.byteorder in "<|" or (a.dtype.byteorder == "=" and np.little_endian)
    if a.fortran or not little or a.dtype.name not in STORABLE or not a.shape:
        raise InputError(
            f"{full}: cannot be adopted where it lies ({a.dtype}, "
            f"{'Fortran' if a.fortran else 'C'} order, shape {a.shape}); "
            "leave out adopt=True and it is copied"
        )
    return full


def split_table(value: Any, base: str) -> dict[str, Any]:
    """`features` given as one table: each of its columns on its own."""
    if isinstance(value, dict):
        return value
    if value is None:
        return {}
    if is_path(value):
        plain, member = split_member(os.path.join(base, os.path.expanduser(os.fspath(value))))
        if plain.endswith(".npz") and member is None:
            return {m[:-4]: f"{plain}:{m[:-4]}" for m in members(plain)}
        if plain.endswith(".npy") or member is not None:
            return {"x": value}
        first = expand(plain)[0]
        if first.endswith((".parquet", ".pq")):
            names: list[Any] = [c.name for c in ParquetTable(first).columns if c.dtype != "text"]
        else:
            names = CsvTable(first).layout.names
            if not names:
                return {"x": value}
        return {str(n): {"file": plain, "columns": [n]} for n in names}
    if is_array(value):
        return {"x": value}
    raise TypeError(f"features cannot be a {type(value).__name__}; give a dict of columns, or a table file")


@dataclass(frozen=True)
class IdRange:
    """A split of consecutive nodes, which may be too many to list beforehand."""

    start: int
    stop: int
    input_files = ()  # none: it is a rule


def check_split(name: str, value: Any, num_nodes: int | None, base: str = "") -> None:
    """Reads a split through, so that a wrong one is found before the work and not after it."""
    for _ in split_chunks(name, value, num_nodes or 0, base) if num_nodes is not None else ():
        pass


def split_chunks(name: str, value: Any, num_nodes: int, base: str) -> Iterator[np.ndarray]:
    """A split as node ids, in pieces: given as ids, a mask over all nodes, a range, or in a .pt file."""
    if isinstance(value, FromPt):
        value = value()
        value = value.chunks(_SPLIT_ROWS) if isinstance(value, PickledArray) else np.asarray(value)
    if isinstance(value, IdRange):
        for at in range(value.start, value.stop, _SPLIT_ROWS):
            yield np.arange(at, min(at + _SPLIT_ROWS, value.stop), dtype=np.int64)
        return
    row, mask = 0, False
    for chunk in open_column(name, value, base).chunks(_SPLIT_ROWS):
        ids = np.asarray(next(iter(chunk.columns.values())))
        if ids.ndim == 2 and ids.shape[-1] == 1:
            ids = ids[:, 0]
        if ids.ndim != 1 or ids.dtype.kind not in "iub":
            what = f"shape {ids.shape}" if ids.ndim != 1 else f"dtype {ids.dtype}"
            raise InputError(f"split {name!r}: has {what}; give node ids, or a mask over the nodes")
        mask = ids.dtype == np.bool_
        rows = len(ids)
        if mask:
            ids = row + np.flatnonzero(ids)
        else:
            outside = (ids < 0) | (ids >= num_nodes)
            if outside.any():
                i = int(outside.argmax())
                where = f"split {name!r}, row {row + i}"
                raise InputError(f"{where}: node {ids[i]} is out of range: there are {num_nodes} nodes")
        row += rows
        yield ids.astype(np.int64)
    if mask and row != num_nodes:
        raise InputError(f"split {name!r}: the mask has {row} rows, but there are {num_nodes} nodes")
