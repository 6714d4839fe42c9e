"""Parquet files and folders, one row group at a time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from gz._engine import InputError

from . import remote
from .arrays import Column
from .row_groups import in_order
from .tables import Chunk, Table
from .text import Text


class ParquetTable(Table):
    reads_files = True

    def __init__(self, path: str, columns: list[str] | None = None, partition: dict[str, int] | None = None):
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.name = path
        try:
            source = remote.open_file(path) if remote.is_remote(path) else path
            self._file = pq.ParquetFile(source, memory_map=False, pre_buffer=False)
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
        self._partition = {k: v for k, v in (partition or {}).items() if k not in schema.names}
        self.columns += [Column(k, "int64") for k in self._partition]
        self._file = OpenedWhenUsed(path, self._file)

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
        stored = [c for c in self.columns if c.name not in self._partition]
        for batch in self._batches(rows):
            part = {c.name: self._array(batch.column(c.name), c, at) for c in stored}
            part |= {k: np.full(batch.num_rows, v, np.int64) for k, v in self._partition.items()}
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


class OpenedWhenUsed:
    """A ParquetFile that is open while it is among the last few in use: a folder may have more files than a
    process may have open. Reads like the ParquetFile."""

    _in_use: ClassVar[OrderedDict[int, Any]] = OrderedDict()
    _at_most = 16
    _lock = threading.Lock()

    def __init__(self, path: str, file: Any):
        self._path, self.metadata = path, file.metadata
        self._keep(file)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        with self._lock:
            file = self._in_use.pop(id(self), None)
        if file is None:
            import pyarrow.parquet as pq

            source = remote.open_file(self._path) if remote.is_remote(self._path) else self._path
            file = pq.ParquetFile(source, metadata=self.metadata, memory_map=False)
        self._keep(file)
        return getattr(file, name)

    def _keep(self, file: Any) -> None:
        with self._lock:
            self._in_use[id(self)] = file
            done = [self._in_use.popitem(last=False)[1]] if len(self._in_use) > self._at_most else []
        for f in done:
            f.close(force=True)

    def __del__(self) -> None:
        file = self._in_use.pop(id(self), None)
        if file is not None:
            file.close(force=True)
