"""Columns of Arrow's types as what a store holds, and tables in memory that speak Arrow's C interface.

Text stays text here (it names nodes, or becomes codes). Dates, times and durations are int64 in the unit they
have, which goes with the column. Decimals are float64. A null is an error unless a value was named for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gz._base.dtypes import Column
from gz._base.text import Text
from gz._engine import InputError
from gz._ingest.read.tables import Chunk, Table


def is_table(obj: Any) -> bool:
    """Whether it has named columns: a frame of pandas or polars, an Arrow table, a stream of batches."""
    if isinstance(obj, (type, str, bytes, dict, list, tuple)):
        return False
    if type(obj).__module__.split(".")[0] == "pandas":
        return type(obj).__name__ == "DataFrame"
    return hasattr(obj, "__arrow_c_stream__") and hasattr(obj, "schema")


def is_series(obj: Any) -> bool:
    """One column of the same libraries."""
    named = type(obj).__module__.split(".")[0] in ("pandas", "polars", "pyarrow")
    return (named and type(obj).__name__ in ("Series", "ChunkedArray", "Index")) or hasattr(
        obj, "__arrow_c_array__"
    )


def series_table(obj: Any, name: str, where: str, fill: dict[str, Any] | None = None) -> ArrowTable:
    import pyarrow as pa

    if type(obj).__module__.split(".")[0] == "pandas":
        values: Any = _pandas_column(obj)
    elif isinstance(obj, (pa.Array, pa.ChunkedArray)):
        values = obj
    else:
        values = pa.chunked_array(obj) if hasattr(obj, "__arrow_c_stream__") else pa.array(obj)
    return ArrowTable(pa.table({name: values}), where, fill=fill)


class ArrowTable(Table):
    """A table in memory, or a stream of batches that is read once. `choose`: of its names those to read."""

    def __init__(
        self,
        source: Any,
        name: str,
        choose: Callable[[list[str]], list[str]] | None = None,
        fill: dict[str, Any] | None = None,
    ):
        import pyarrow as pa

        self.name, self._fill = name, fill or {}
        if isinstance(source, pa.RecordBatchReader):
            self._source, schema = source, source.schema
        else:
            self._source = reusable(source)
            schema, self.rows = self._source.schema, self._source.num_rows
        if len(set(schema.names)) < len(schema.names):
            twice = next(n for n in schema.names if schema.names.count(n) > 1)
            raise InputError(f"{name}: has the column {twice!r} twice; rename one")
        self.names: list[str] = schema.names
        kept = self.names if choose is None else choose(self.names)
        self.columns = [arrow_column(schema.field(n), name, self._width) for n in kept]

    def _width(self, name: str) -> int:
        import pyarrow as pa

        if isinstance(self._source, pa.RecordBatchReader):
            raise InputError(
                f"{self.name}: the length of the lists in column {name!r} is not known; cast it to lists of "
                f"fixed size, or leave it out with drop=[{name!r}] (--drop {name})"
            )
        column = self._source[name]
        return next((len(v) for v in column if v.is_valid), 0)

    def head(self, rows: int) -> list[list[str]]:
        import pyarrow as pa

        if isinstance(self._source, pa.RecordBatchReader):
            return []
        part = self._source.slice(0, rows).to_pylist()
        return [[str(r[c.name]) for c in self.columns] for r in part]

    def chunks(self, rows: int) -> Iterator[Chunk]:
        import pyarrow as pa

        batches = self._source
        if isinstance(batches, pa.Table):
            batches = batches.to_batches(max_chunksize=rows)
        at = 0
        for whole in batches:
            for start in range(0, whole.num_rows, rows):
                batch = whole.slice(start, rows)
                part = {
                    c.name: arrow_values(batch.column(c.name), c, at, self.name, self._fill)
                    for c in self.columns
                }
                yield Chunk(part, batch.num_rows, self.name, at)
                at += batch.num_rows


def reusable(source: Any) -> Any:
    """An Arrow table that can be read more than once."""
    import pyarrow as pa

    if isinstance(source, pa.RecordBatchReader):
        return source.read_all()
    return _from_pandas(source) if _is_pandas(source) else pa.table(source)


def _is_pandas(obj: Any) -> bool:
    return type(obj).__module__.split(".")[0] == "pandas"


def _pandas_column(values: Any) -> Any:
    """NaN in a column of floats is a value; in others it is what pandas writes for nothing."""
    import pyarrow as pa

    plain = isinstance(values.dtype, np.dtype) and values.dtype.kind in "iufb"
    try:
        return pa.array(values.to_numpy(), from_pandas=False) if plain else pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as e:
        shown = " ".join(str(e).split())
        raise InputError(
            f"column {values.name!r} cannot be stored: {shown}; leave it out with drop=[{values.name!r}]"
        ) from None


def _from_pandas(frame: Any) -> Any:
    """A named index is a column like the others; an unnamed one only counts rows."""
    import pyarrow as pa

    if any(n is not None for n in frame.index.names):
        frame = frame.reset_index()
    names = [str(n) for n in frame.columns]
    columns = [_pandas_column(frame.iloc[:, i]) for i in range(len(names))]
    return pa.Table.from_arrays(columns, names=names)


def arrow_column(field: Any, where: str, width: Callable[[str], int]) -> Column:
    """What a column of this Arrow type is stored as. `width` tells the length of lists that may vary."""
    import pyarrow as pa

    t, name = field.type, field.name
    is_ = pa.types
    if is_.is_dictionary(t):
        t = t.value_type
    if is_text(t):
        return Column(name, "text")
    if is_.is_temporal(t):
        return Column(name, "int64", unit=str(t))
    if is_.is_decimal(t):
        return Column(name, "float64")
    if is_.is_boolean(t):
        return Column(name, "bool")
    if is_.is_uint64(t):
        return Column(name, "int64")
    lists = is_.is_fixed_size_list(t) or is_.is_list(t) or is_.is_large_list(t)
    inner = t.value_type if lists else t
    if is_.is_integer(inner) or is_.is_floating(inner):
        dtype = np.dtype(inner.to_pandas_dtype()).name
        if not lists:
            return Column(name, dtype)
        return Column(name, dtype, (t.list_size if is_.is_fixed_size_list(t) else width(name),))
    raise InputError(
        f"{where}: column {name!r} has type {field.type}, which cannot be stored; leave it out with "
        f"drop=[{name!r}] (--drop {name})"
    )


def is_text(t: Any) -> bool:
    import pyarrow as pa

    views = (getattr(pa.types, n, None) for n in ("is_string_view", "is_binary_view"))
    return (
        pa.types.is_string(t)
        or pa.types.is_large_string(t)
        or pa.types.is_binary(t)
        or pa.types.is_large_binary(t)
        or any(v is not None and v(t) for v in views)
    )


def arrow_values(values: Any, column: Column, first_row: int, name: str, fill: dict[str, Any]) -> Any:
    """An array, or Text. `fill`: what stands for a null, by column."""
    import pyarrow as pa

    where = f"{name}: column {column.name!r}"
    if pa.types.is_dictionary(values.type):
        values = _copied_views(values.dictionary).take(values.indices)
    values = _copied_views(values)
    if values.null_count:
        values = _filled(values, column, first_row, where, fill)
    t = values.type
    if column.dtype == "text":
        return Text.from_arrow(_utf8(values, where))
    if pa.types.is_temporal(t):
        narrow = pa.types.is_date32(t) or pa.types.is_time32(t)
        return (values.cast(pa.int32()) if narrow else values).cast(pa.int64()).to_numpy(zero_copy_only=False)
    if pa.types.is_decimal(t):
        # By way of text, which is read as the nearest number; the cast makes 0.47000000000000003 of 0.47.
        return values.cast(pa.string()).cast(pa.float64()).to_numpy(zero_copy_only=False)
    if pa.types.is_uint64(t):
        return _signed(values.to_numpy(zero_copy_only=False), where, first_row)
    if not column.shape:
        return values.to_numpy(zero_copy_only=False)
    width = column.shape[0]
    flat = values.flatten()
    if flat.null_count:
        raise InputError(f"{where} has a list with a null in it, in rows {first_row} and on")
    if len(flat) != width * len(values):
        lengths = values.value_lengths().to_numpy(zero_copy_only=False)
        bad = int((lengths != width).argmax())
        raise InputError(
            f"{where} has {lengths[bad]} values in row {first_row + bad}, expected {width}; lists of "
            f"different lengths cannot be stored: leave it out with drop= (--drop {column.name})"
        )
    return flat.to_numpy(zero_copy_only=False).reshape(len(values), width)


def _copied_views(values: Any) -> Any:
    """Views of text, as polars has them, as text that every function of pyarrow takes."""
    import pyarrow as pa

    if is_text(values.type) and str(values.type).endswith("_view"):
        return values.cast(pa.large_string() if str(values.type) == "string_view" else pa.large_binary())
    return values


def _utf8(values: Any, where: str) -> Any:
    """Bytes are text if they are UTF-8."""
    import pyarrow as pa

    if not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
        return values
    try:
        return values.cast(pa.large_string())
    except pa.ArrowInvalid:
        raise InputError(f"{where} holds bytes that are no UTF-8 text; make text of them (.hex())") from None


def _filled(values: Any, column: Column, first_row: int, where: str, fill: dict[str, Any]) -> Any:
    import pyarrow as pa

    if column.name not in fill:
        row = first_row + values.is_valid().index(pa.scalar(False)).as_py()
        raise InputError(
            f"{where} is null in row {row}; give a value that stands for it, nulls={{{column.name!r}: ...}} "
            f"(--null {column.name}=VALUE), or leave the column out with drop= (--drop {column.name})"
        )
    value = fill[column.name]
    try:
        if pa.types.is_temporal(values.type) and isinstance(value, int):
            narrow = pa.types.is_date32(values.type) or pa.types.is_time32(values.type)
            of = pa.scalar(value, pa.int32() if narrow else pa.int64()).cast(values.type)
        elif column.dtype == "text" or (pa.types.is_temporal(values.type) and isinstance(value, str)):
            of = pa.scalar(str(value)).cast(values.type)
        else:
            of = pa.scalar(value, values.type)
            if pa.types.is_integer(values.type) and of.as_py() != value:  # a fraction, which pyarrow cuts off
                raise pa.ArrowInvalid("it is no integer")
        return values.fill_null(of)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as e:
        shown = " ".join(str(e).split())
        raise InputError(f"{where}: {value!r} cannot stand for a null in {values.type}: {shown}") from None


def _signed(a: np.ndarray, where: str, first_row: int) -> np.ndarray:
    bad = a > np.iinfo(np.int64).max
    if bad.any():
        i = int(bad.argmax())
        raise InputError(
            f"{where}, row {first_row + i}: {a[i]} does not fit a signed 64-bit integer; cast it to text or "
            "float64"
        )
    return a.astype(np.int64)


def text_values(
    text: Text, column: Column, dtype: str, first_row: int, name: str, fill: dict[str, Any]
) -> Any:
    """A column of a text table read as `dtype`: a date, a time, or anything in which nothing may stand."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = text.to_arrow()
    empty = pc.equal(values, "")
    if pc.any(empty).as_py():
        values = pc.if_else(empty, pa.scalar(None, values.type), values)
    if dtype == "text":
        return arrow_values(values, column, first_row, name, fill)
    try:
        values = values.cast(arrow_type(dtype))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        shown = " ".join(str(e).split())
        raise InputError(
            f"{name}: column {column.name!r} is read as {dtype}, but in rows {first_row} to "
            f"{first_row + len(text)}: {shown}; give its dtype (text, float64, ...)"
        ) from None
    return arrow_values(values, column, first_row, name, fill)


def arrow_type(dtype: str) -> Any:
    import pyarrow as pa

    if dtype.startswith("timestamp["):
        unit, _, zone = dtype[10:-1].partition(", tz=")
        return pa.timestamp(unit, zone or None)
    return pa.date32() if dtype == "date32[day]" else pa.type_for_alias(dtype)


def is_time(dtype: str) -> bool:
    return dtype.startswith(("timestamp[", "date32["))
