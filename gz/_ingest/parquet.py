"""Parquet files and folders, one row group at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gz._engine import InputError

from .arrays import Column
from .row_groups import in_order
from .tables import Chunk, Table
from .text import Text


class ParquetTable(Table):
    reads_files = True

    def __init__(self, path: str, columns: list[str] | None = None):
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.name = path
        try:
            self._file = pq.ParquetFile(path, memory_map=False, pre_buffer=False)
        except (pa.ArrowInvalid, OSError) as e:
            if isinstance(e, FileNotFoundError):
                raise
            raise InputError(f"{path}: is not a readable Parquet file: {e}") from None
        self.rows = self._file.metadata.num_rows
        schema = self._file.schema_arrow
        names = columns if columns is not None else schema.names
        for n in names:
            if n not in schema.names:
                raise InputError(f"{path}: has no column {n!r}; it has {', '.join(schema.names)}")
        self._names = names
        self.columns = [self._column(schema.field(n)) for n in names]

    def _column(self, field: Any) -> Column:
        import pyarrow as pa

        t = field.type
        if pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_binary(t):
            return Column(field.name, "text")
        if pa.types.is_dictionary(t) and pa.types.is_string(t.value_type):
            return Column(field.name, "text")
        if pa.types.is_fixed_size_list(t):
            return Column(field.name, t.value_type.to_pandas_dtype()().dtype.name, (t.list_size,))
        if pa.types.is_list(t) or pa.types.is_large_list(t):
            width = self._first_list_width(field.name)
            return Column(field.name, t.value_type.to_pandas_dtype()().dtype.name, (width,))
        try:
            return Column(field.name, np.dtype(t.to_pandas_dtype()).name)
        except (NotImplementedError, TypeError):
            raise InputError(
                f"{self.name}: column {field.name!r} has type {t}, which cannot be stored"
            ) from None

    def _first_list_width(self, name: str) -> int:
        for batch in self._file.iter_batches(batch_size=1, columns=[name]):
            if batch.num_rows and batch.column(0)[0].is_valid:
                return len(batch.column(0)[0])
        return 0

    def chunks(self, rows: int) -> Iterator[Chunk]:
        at = 0
        for batch in self._batches(rows):
            part = {c.name: self._array(batch.column(c.name), c, at) for c in self.columns}
            yield Chunk(part, batch.num_rows, self.name, at)
            at += batch.num_rows

    def _batches(self, rows: int) -> Iterator[Any]:
        return in_order(self.name, self._file, self._names, rows)

    def _array(self, values: Any, column: Column, first_row: int) -> Any:
        import pyarrow as pa

        where = f"{self.name}: column {column.name!r}"
        if values.null_count:
            row = first_row + next(i for i, v in enumerate(values.is_valid()) if not v.as_py())
            raise InputError(f"{where} is null in row {row}")
        if column.dtype == "text":
            if pa.types.is_dictionary(values.type):
                values = values.dictionary_decode()
            return Text.from_arrow(values)
        if not column.shape:
            return values.to_numpy(zero_copy_only=False)
        width = column.shape[0]
        flat = values.flatten()
        if flat.null_count:
            raise InputError(f"{where} has a list with a null in it, in rows {first_row} and on")
        if len(flat) != width * len(values):
            lengths = values.value_lengths().to_numpy(zero_copy_only=False)
            bad = int((lengths != width).argmax())
            raise InputError(f"{where} has {lengths[bad]} values in row {first_row + bad}, expected {width}")
        return flat.to_numpy(zero_copy_only=False).reshape(len(values), width)
