"""Every form that a column can come in, as one table whose columns together make it up."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from gz._base.dtypes import STORABLE, Column, asked_for, is_array, parsed_as, to_dtype
from gz._engine import InputError
from gz._ingest.plan.categories import Categories
from gz._ingest.read import graphzero
from gz._ingest.read.arrow import ArrowTable, is_series, is_table, reusable, series_table
from gz._ingest.read.csv_table import CsvTable
from gz._ingest.read.files import Files
from gz._ingest.read.npy import NpyArray, RawArray, members, open_array, split_member
from gz._ingest.read.parquet import ParquetTable
from gz._ingest.read.paths import as_paths, is_path, located
from gz._ingest.read.tables import (
    ArrayTable,
    Chunk,
    IteratorTable,
    JoinedTable,
    MatrixTable,
    NpyTable,
    Table,
    TablePart,
    stored_column,
)

CHUNK_BYTES = 16 << 20


class ColumnInput:
    """A column to be: where its rows come from, and what they are stored as. `categories`, `unit`: what its
    integers stand for, where they come without."""

    def __init__(
        self,
        name: str,
        table: Table,
        dtype: str | None = None,
        categories: list[str] | None = None,
        unit: str | None = None,
    ):
        self.table = table
        self.column = with_unit(_combined(name, table, dtype), unit, table.name)
        text = len(table.columns) == 1 and table.columns[0].dtype == "text"
        self.categories = Categories(name, categories) if text or categories is not None else None
        if self.categories is not None and unit is not None:
            raise no_unit(name, unit, table.name)
        if categories is not None:
            self.column = Column(name, "int32")

    @property
    def label(self) -> str:
        """For messages."""
        called = f"feature {self.column.name!r}"
        return called if self.table.name == called else f"{called} ({self.table.name})"

    def rows(self) -> Iterator[np.ndarray]:
        """In order, chunk by chunk, in the dtype the column is stored as."""
        column = self.column
        for chunk in self.table.chunks(max(1, CHUNK_BYTES // chunk_row_bytes(column))):
            yield self.stored(chunk)

    def stored(self, chunk: Chunk) -> np.ndarray:
        """Of a chunk of the table, or of the whole it is a part of, the rows as they are stored."""
        column = self.column
        names = (
            [c.name for c in self.table.columns] if self.table.whole is not self.table else [*chunk.columns]
        )
        if len(names) == 1:
            a = chunk.columns[names[0]]
            if self.categories is not None:
                a = self.categories.encode(a, chunk.where, chunk.first_row)
            given = chunk.dtypes.get(names[0], a.dtype.name)
            return to_dtype(a, column, given, chunk.where, chunk.first_row)
        wide = Column(column.name, column.dtype)
        parts = [np.asarray(chunk.columns[n]) for n in names]
        rows = np.stack([to_dtype(a, wide, a.dtype.name) for a in parts], axis=1)
        return to_dtype(rows, column, wide.dtype, chunk.where, chunk.first_row) if column.stored else rows


def chunk_row_bytes(column: Column) -> int:
    """Of a row on its way to the file, in the dtype it comes in or is read as."""
    return max(column.numpy.itemsize, column.row_bytes, math.prod(column.shape) * column.numpy.itemsize)


def no_unit(name: str, unit: str, where: str) -> InputError:
    return InputError(
        f"{where}: column {name!r} holds codes of text; the unit {unit!r} is for single integers"
    )


def with_unit(column: Column, unit: str | None, where: str) -> Column:
    """The column with a unit that was named for it."""
    if unit is None or unit == column.unit:
        return column
    if column.unit is not None or column.shape or column.numpy.kind not in "iu":
        is_ = column.unit or f"{column.dtype}{list(column.shape) or ''}"
        raise InputError(
            f"{where}: column {column.name!r} is {is_}; the unit {unit!r} is for single integers"
        )
    return Column(column.name, "int64", (), unit, column.stored)


def _combined(name: str, table: Table, dtype: str | None) -> Column:
    """The one column the table's columns make: scalars side by side become a row."""
    cols = [stored_column(c, table.name) for c in table.columns]
    if not cols:
        raise InputError(f"{table.name}: has no columns")
    if len(cols) > 1 and (words := [c.name for c in table.columns if c.dtype == "text" or c.unit]):
        raise InputError(
            f"{table.name}: feature {name!r} is a row of numbers, but column {words[0]!r} does not hold "
            "numbers; name its columns with columns="
        )
    kinds = {c.dtype for c in cols}
    plain = len(kinds) == 1 or "bfloat16" in kinds
    found = cols[0].dtype if plain else np.result_type(*(c.numpy for c in cols)).name
    asked = dtype if dtype and dtype != "text" else None
    what = f"feature {name!r}"
    if len(cols) == 1:
        return asked_for(Column(name, found, cols[0].shape, cols[0].unit), asked, what)
    if any(c.shape for c in cols):
        raise InputError(
            f"{table.name}: several columns, not all of single numbers; name one for feature {name!r}"
        )
    return asked_for(Column(name, found, (len(cols),)), asked, what)


def open_column(name: str, value: Any, files: Files, dtype: str | None = None) -> ColumnInput:
    """`value`: an array, a file, an iterator of chunks, or {"file": ..., "columns": [...], "dtype": ...,
    "member": ..., "delimiter": ..., "header": ..., "categories": [...], "unit": ...}. For the dataset layouts
    also: "matrix" (of text: rows even if there is one column), "empty_is_nan", and "raw" (dtype and shape of
    a file without a header).
    """
    told = value if isinstance(value, dict) else {}
    dtype = told.get("dtype") if dtype is None else dtype
    table = open_table(name, value, files)
    if told.get("columns") is None and len(table.columns) > 1:
        _warn_of_ids(name, table)
    return ColumnInput(name, table, dtype, told.get("categories"), told.get("unit"))


def _warn_of_ids(name: str, table: Table) -> None:
    """Rows of a feature go by their places: where a column says whose they are, that is worth a word."""
    called = [c.name for c in table.columns if c.name.strip().lower() in ("id", "node_id", "nodeid")]
    if called:
        warnings.warn(
            f"feature {name!r} ({table.name}): row i is taken for node i, and {called[0]!r} for one of its "
            f"values.\n  rows in the order of the nodes: choose the columns, or drop {called[0]!r}\n"
            f"  rows by their ids: nodes= (--nodes FILE:{called[0]})",
            RuntimeWarning,
            4,
        )


def open_table(name: str, value: Any, files: Files) -> Table:
    if isinstance(value, Table):
        return value
    options: dict[str, Any] = {}
    if isinstance(value, dict):
        options = dict(value)
        if "file" not in options:
            raise InputError(
                f'feature {name!r}: a description needs "file"; it has {", ".join(options) or "nothing"}'
            )
        value = options.pop("file")
    if is_table(value):
        return ArrowTable(value, f"feature {name!r}", _chosen(options, f"feature {name!r}"), _nulls(options))
    if is_series(value) and not isinstance(value, np.ndarray):
        return series_table(value, name, f"feature {name!r}", _nulls(options))
    if is_array(value):
        return ArrayTable({name: value}, f"feature {name!r}")
    if (paths := as_paths(value)) is not None:
        tables = [_open_file(name, p, options, files) for path in paths for p in files.expand(path)]
        return tables[0] if len(tables) == 1 else JoinedTable(tables)
    if isinstance(value, (list, tuple)) and not any(is_array(v) for v in value):
        return ArrayTable({name: np.asarray(value)}, f"feature {name!r}")
    if isinstance(value, Iterable):
        return IteratorTable(value, [name], f"feature {name!r}")
    raise TypeError(
        f"feature {name!r} cannot be a {type(value).__name__}; give an array, a file or an iterator of chunks"
    )


def _open_file(name: str, path: str, options: dict[str, Any], files: Files) -> Table:
    known = {
        "columns",
        "drop",
        "nulls",
        "dtype",
        "categories",
        "unit",
        "member",
        "delimiter",
        "header",
        "matrix",
        "empty_is_nan",
        "raw",
    }
    if set(options) - known:
        raise InputError(
            f"feature {name!r}: unknown {sorted(set(options) - known)}; known are {sorted(known)}"
        )
    plain, member = split_member(path)
    file, columns = files.get(plain), options.get("columns")
    if "raw" in options:
        dtype, shape = options["raw"]
        return NpyTable({name: RawArray(file, dtype, tuple(shape))}, plain)
    if plain.endswith((".npy", ".npz")):
        return NpyTable({name: open_array(plain, files, options.get("member") or member)}, plain)
    if plain.endswith(".gd"):
        return NpyTable({name: graphzero.open_features(file)}, plain)
    if plain.endswith((".parquet", ".pq")):
        return ParquetTable(file, choose=_chosen(options, plain), fill=_nulls(options))
    text = {k: options[k] for k in ("delimiter", "header", "empty_is_nan") if k in options}
    table = CsvTable(
        file,
        dtype=None if options.get("dtype") == "int8" else parsed_as(options.get("dtype")),
        values=columns,
        drop=options.get("drop", ()),
        fill=_nulls(options),
        one_dtype=not (columns and len(columns) == 1),
        **text,
    )
    return MatrixTable(name, table) if options.get("matrix") else table


def _nulls(options: dict[str, Any]) -> dict[str, Any]:
    return dict(options.get("nulls") or {})


def _chosen(options: dict[str, Any], where: str) -> Callable[[list[str]], list[str]]:
    return lambda names: kept_columns(names, options.get("columns"), options.get("drop", ()), where)


def kept_columns(
    names: list[str], columns: Any, drop: Sequence[str], where: str, some: bool = False
) -> list[str]:
    """Of the columns of a table those that are named (with `some`, as far as it has them), or all; without
    those to be left out."""
    if some and columns is not None:
        columns = [n for n in columns if n in names]
    for n in columns or ():
        if n not in names:
            raise InputError(f"{where}: has no column {n!r}; it has {', '.join(names)}")
    chosen = [n for n in names if not n.startswith("__index_level_")] if columns is None else list(columns)
    return [n for n in chosen if n not in drop]


def adoptable(value: Any, files: Files) -> NpyArray | None:
    """The array of an .npy that can serve as a column where it lies, or None."""
    path: Any = value.get("file") if isinstance(value, dict) and set(value) <= {"file"} else value
    if not is_path(path):
        return None
    full = os.path.abspath(located(path, files.base))
    if not full.endswith(".npy") or not os.path.isfile(full):
        return None
    a = open_array(full, files)
    little = a.dtype.byteorder in "<|" or (a.dtype.byteorder == "=" and np.little_endian)
    if a.fortran or not little or a.dtype.name not in STORABLE or not a.shape:
        raise InputError(
            f"{full}: cannot be adopted where it lies ({a.dtype}, "
            f"{'Fortran' if a.fortran else 'C'} order, shape {a.shape}); "
            "leave out adopt=True and it is copied"
        )
    return a


def split_table(value: Any, files: Files) -> dict[str, Any]:
    """`features` given as one table: each of its columns on its own."""
    if isinstance(value, dict):
        return value
    if value is None:
        return {}
    if is_table(value):
        value = reusable(value)
        names = value.schema.names
        _no_ids(names, "features")
        return {n: {"file": value, "columns": [n]} for n in kept_columns(names, None, (), "features")}
    if is_path(value):
        plain, member = split_member(located(value, files.base))
        if plain.endswith(".npz") and member is None:
            return {m: f"{plain}:{m}" for m in members(plain, files)}
        if plain.endswith(".npy") or member is not None:
            return {"x": value}
        first = files.get(files.expand(plain)[0])
        if first.path.endswith((".parquet", ".pq")):
            names = kept_columns(ParquetTable(first, choose=lambda _: []).names, None, (), plain)
        else:
            names = [n for n in CsvTable(first).layout.names if n]
            if not names:
                return {"x": value}
            _no_ids(names, plain)
            return dict(open_text(files.expand(plain), names, {}, files))
        _no_ids(names, plain)
        return {str(n): {"file": plain, "columns": [n]} for n in names}
    if is_array(value):
        return {"x": value}
    raise TypeError(f"features cannot be a {type(value).__name__}; give a dict of columns, or a table file")


def open_text(
    paths: list[str], columns: Sequence[str | int], dtypes: dict[str, str], files: Files, **options: Any
) -> Iterator[tuple[str, TablePart]]:
    """Columns of text tables, each on its own, by name; the text is parsed once for all of them."""
    if not columns:
        return
    parsed = {name: kind for name, dtype in dtypes.items() if (kind := parsed_as(dtype)) is not None}
    tables: list[Table] = [
        CsvTable(files.get(p), values=columns, dtypes=parsed, **options) for p in paths
    ]  # fmt: skip
    whole = tables[0] if len(tables) == 1 else JoinedTable(tables)
    for c in whole.columns:
        yield c.name, TablePart(whole, c.name)


def _no_ids(names: Sequence[str], where: str) -> None:
    """Rows go by their place; a table that names its nodes may have them in another order."""
    named = [n for n in names if n.lower() in ("id", "node_id", "nodeid")]
    if named:
        raise InputError(
            f"{where}: has a column {named[0]!r}. If it names the node of each row, give the table as nodes= "
            f"(--nodes FILE:{named[0]}); if row i is node i, name the columns, as in "
            f'features={{"x": {{"file": ..., "columns": [...]}}}}'
        )
