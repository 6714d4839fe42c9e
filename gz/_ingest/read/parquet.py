"""Parquet files, several row groups at a time and handed out in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from gz import _engine
from gz._base.background import calls
from gz._engine import InputError
from gz._ingest.read.arrow import arrow_column, arrow_values
from gz._ingest.read.files import InputFile
from gz._ingest.read.tables import Chunk, Table

_SMALL = 1 << 16  # rows


class ParquetTable(Table):
    reads_files = True

    def __init__(
        self,
        file: InputFile,
        columns: list[str] | None = None,
        partition: dict[str, Any] | None = None,
        choose: Callable[[list[str]], list[str]] | None = None,
        fill: dict[str, Any] | None = None,
    ):
        """`columns`, or what `choose` picks of the names there are. `partition`: columns of one value each.
        `fill`: what stands for nulls."""
        import pyarrow as pa

        path = self.name = file.path
        self._file, self._metadata = file, None
        try:
            opened = self._open()
        except (pa.ArrowInvalid, OSError) as e:
            if isinstance(e, FileNotFoundError):
                raise
            raise InputError(f"{path}: is not a readable Parquet file: {e}") from None
        self._metadata = opened.metadata
        self.rows = opened.metadata.num_rows
        schema = opened.schema_arrow
        self._partition = {k: v for k, v in (partition or {}).items() if k not in schema.names}
        self._fill = fill or {}
        self.names: list[str] = [*schema.names, *self._partition]
        if choose is not None:
            columns = choose(self.names)
        elif columns is None:
            columns = self.names
        self._partition = {k: v for k, v in self._partition.items() if k in columns}
        names = [n for n in columns if n not in self._partition]
        for n in names:
            if n not in schema.names:
                raise InputError(f"{path}: has no column {n!r}; it has {', '.join(schema.names)}")
        self._names = names
        self.columns = [
            arrow_column(schema.field(n), path, lambda n: self._first_list_width(n, opened)) for n in names
        ]
        self.columns += [arrow_column(pa.field(k, v.type), path, len) for k, v in self._partition.items()]

    def _open(self) -> Any:
        """pyarrow's reader: cheap, once the metadata are known; not to be shared by threads."""
        import pyarrow.parquet as pq

        return pq.ParquetFile(self._file.arrow(), metadata=self._metadata)

    def _first_list_width(self, name: str, opened: Any) -> int:
        for batch in opened.iter_batches(batch_size=1, columns=[name]):
            if batch.num_rows and batch.column(0)[0].is_valid:
                return len(batch.column(0)[0])
        return 0

    def head(self, rows: int) -> list[list[str]]:
        first: Any = next(self._open().iter_batches(rows, columns=self._names), None)
        return [[str(v) for v in r.values()] for r in (first.to_pylist() if first is not None else [])]

    def chunks(self, rows: int) -> Iterator[Chunk]:
        import pyarrow as pa

        at = 0
        for batch in self._batches(rows):
            n = batch.num_rows
            fixed = {k: pa.repeat(v, n) for k, v in self._partition.items()}
            part = {
                c.name: arrow_values(
                    fixed[c.name] if c.name in fixed else batch.column(c.name), c, at, self.name, self._fill
                )
                for c in self.columns
            }
            yield Chunk(part, n, self.name, at)
            at += n

    def _batches(self, rows: int) -> Iterator[Any]:
        """Record batches of at most `rows` rows. Row groups of about that size are decoded whole, one on each
        thread, and cut without a copy; a larger one is decoded piece by piece."""
        metadata: Any = self._metadata
        own = threading.local()  # each thread's reader
        # Columns at the same time where groups cannot be: a file that is elsewhere has one position.
        alone = metadata.num_row_groups == 1 or self._file.is_remote
        threads = 1 if alone else _engine.num_threads()

        def decode(group: int) -> Any:
            if not hasattr(own, "file"):
                own.file = self._open()
            return own.file.read_row_group(group, columns=self._names, use_threads=alone)

        def is_small(group: int) -> bool:
            return metadata.row_group(group).num_rows <= max(rows, _SMALL)

        for small, groups in groupby(range(metadata.num_row_groups), is_small):
            if small:
                for table in calls(decode, groups, threads, most=max(1, threads - 1)):
                    yield from table.to_batches(max_chunksize=rows)
            else:
                yield from self._open().iter_batches(rows, row_groups=list(groups), columns=self._names)
