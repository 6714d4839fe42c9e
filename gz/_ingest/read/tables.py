"""Tables read in chunks: arrays, .npy/.npz, iterators. (Text and Parquet have files of their own.)

A table has columns (known before the first row is read; an iterator is asked for its first chunk) and gives
chunks: named arrays of equal length, with where they come from for messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from gz._base.dtypes import Column, as_numpy, storable
from gz._engine import InputError
from gz._ingest.read.npy import DiskArray, NpyArray


@dataclass
class Chunk:
    columns: dict[str, Any]  # arrays, or Text for columns of text
    rows: int
    where: str
    first_row: int
    dtypes: dict[str, str] = field(default_factory=dict)  # where they differ from the array's own (bfloat16)


class Table:
    name = "table"
    columns: list[Column]
    rows: int | None = None  # if known beforehand
    reads_files = False  # nothing but files: chunks may be made on another thread
    skipped = 0
    first_skipped = ""

    def chunks(self, rows: int) -> Iterator[Chunk]:
        raise NotImplementedError

    def head(self, rows: int) -> list[list[str]]:
        """The first rows as text, where they can be seen before the work."""
        return []

    def read_as(self, name: str, dtype: str) -> None:
        """Told what a column is stored as, where other files of the same table need it wider."""

    def estimated_rows(self) -> int:
        """0 where nobody can know: an iterator."""
        return self.rows or 0

    @property
    def parts(self) -> list[Table]:
        """The tables it is made of, one after the other."""
        return [self]

    @property
    def whole(self) -> Table:
        """What has to be read for its rows."""
        return self


def _same_length(lengths: dict[str, int], name: str) -> int:
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{k!r} has {n}" for k, n in lengths.items())
        raise InputError(f"{name}: columns differ in length: {listed} rows")
    return next(iter(lengths.values()), 0)


class ArrayTable(Table):
    """Named arrays in memory."""

    def __init__(self, arrays: dict[str, Any], name: str):
        self.name = name
        self._arrays = {k: as_numpy(v) for k, v in arrays.items()}
        for k, (a, _) in self._arrays.items():
            if a.ndim == 0:
                raise InputError(f"{name}: column {k!r} is a single value, {a}, not one for each row")
        self.rows = _same_length({k: len(a) for k, (a, _) in self._arrays.items()}, name)
        self.columns = [Column(k, dt, a.shape[1:]) for k, (a, dt) in self._arrays.items()]

    def chunks(self, rows: int) -> Iterator[Chunk]:
        for at in range(0, self.rows or 0, rows):
            yield self.chunk(at, min(rows, (self.rows or 0) - at))

    def head(self, rows: int) -> list[list[str]]:
        shown = [a[:rows] for a, _ in self._arrays.values() if a.ndim == 1]
        return [[str(v) for v in row] for row in zip(*shown, strict=True)]

    def chunk(self, at: int, rows: int) -> Chunk:
        part = {k: a[at : at + rows] for k, (a, _) in self._arrays.items()}
        return Chunk(part, rows, self.name, at, {k: d for k, (_, d) in self._arrays.items()})


class NpyTable(Table):
    """Arrays of equal length on disk, one column each."""

    reads_files = True

    def __init__(self, arrays: Mapping[str, DiskArray], name: str):
        self.name = name
        self._arrays = arrays
        for a in arrays.values():
            a.check_order()
        self.rows = _same_length({k: a.rows for k, a in arrays.items()}, name)
        self.columns = [Column(k, a.dtype.name, tuple(a.shape[1:])) for k, a in arrays.items()]

    def chunks(self, rows: int) -> Iterator[Chunk]:
        at = 0
        for parts in zip(*(a.chunks(rows) for a in self._arrays.values()), strict=True):
            yield Chunk(dict(zip(self._arrays, parts, strict=True)), len(parts[0]), self.name, at)
            at += len(parts[0])


class NpyEdgeIndex(Table):
    """An edge_index on disk: [2, E] or [E, 2], either order of memory."""

    reads_files = True

    def __init__(self, array: NpyArray):
        self.name = array.name
        self._array = array
        shape = array.shape
        if len(shape) != 2 or 2 not in shape:
            raise InputError(f"{array.name}: has shape {tuple(shape)}; edges are [2, E] or [E, 2]")
        by_rows = shape[0] == 2
        self.rows = int(shape[1] if by_rows else shape[0])
        # Two runs of E ids, or E pairs: which it is depends on the memory order too.
        self._two_runs = by_rows != array.fortran
        self.columns = [Column("src", array.dtype.name), Column("dst", array.dtype.name)]

    def chunks(self, rows: int) -> Iterator[Chunk]:
        total = self.rows or 0
        first = self._array.stream()
        second = self._array.stream(total) if self._two_runs else None
        try:
            for at in range(0, total, rows):
                n = min(rows, total - at)
                if second is not None:
                    src, dst = first.take(n), second.take(n)
                else:
                    pairs = first.take(2 * n).reshape(n, 2)
                    src, dst = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
                yield Chunk({"src": src, "dst": dst}, n, self.name, at)
        finally:
            first.close()
            if second is not None:
                second.close()


class IteratorTable(Table):
    """Chunks from a Python iterator: dicts of columns, or tuples of arrays named in order."""

    def __init__(self, chunks: Iterable[Any], names: list[str], name: str):
        self.name = name
        self._names = names
        self._iterator = iter(chunks)
        self._row = 0
        self._first = [self._convert(raw) for raw in islice(self._iterator, 1)]
        self.columns = [Column(n, "int64") for n in names]
        for chunk in self._first:
            shapes = {k: (chunk.dtypes.get(k, a.dtype.name), a.shape[1:]) for k, a in chunk.columns.items()}
            self.columns = [Column(k, *of) for k, of in shapes.items()]

    def _convert(self, raw: Any) -> Chunk:
        if not isinstance(raw, dict):
            parts = list(raw) if isinstance(raw, (tuple, list)) or len(self._names) > 1 else [raw]
            if len(parts) != len(self._names):
                raise InputError(
                    f"{self.name}: the chunk at row {self._row} has {len(parts)} parts, expected "
                    f"{', '.join(self._names)}"
                )
            raw = dict(zip(self._names, parts, strict=True))
        table = ArrayTable(raw, f"{self.name}, the chunk at row {self._row}")
        chunk = replace(table.chunk(0, table.rows or 0), where=self.name, first_row=self._row)
        self._row += chunk.rows
        return chunk

    def chunks(self, rows: int) -> Iterator[Chunk]:
        expected = {c.name: c.shape for c in self.columns}
        first, self._first = self._first, []
        for chunk in chain(iter(first), map(self._convert, self._iterator)):
            first.clear()  # it would live as long as this loop
            got = {k: a.shape[1:] for k, a in chunk.columns.items()}
            if got != expected:
                raise InputError(
                    f"{self.name}: the chunk at row {chunk.first_row} has columns {got}, the "
                    f"first had {expected}"
                )
            for at in range(0, chunk.rows, rows):
                part = {k: a[at : at + rows] for k, a in chunk.columns.items()}
                yield Chunk(part, min(rows, chunk.rows - at), self.name, chunk.first_row + at, chunk.dtypes)


class JoinedTable(Table):
    """Tables one after the other, with the same columns. `keys`: those whose type is settled elsewhere."""

    def __init__(self, tables: list[Table], keys: Sequence[str] = ()):
        self._tables = tables
        self.name = tables[0].name if len(tables) == 1 else f"{tables[0].name} and {len(tables) - 1} more"
        self.columns = list(tables[0].columns)
        self.reads_files = all(t.reads_files for t in tables)
        for t in tables[1:]:
            if [(c.name, c.shape) for c in t.columns] != [(c.name, c.shape) for c in self.columns]:
                mine, theirs = [c.name for c in self.columns], [c.name for c in t.columns]
                raise InputError(f"{t.name}: has columns {theirs}, but {tables[0].name} has {mine}")
            self.columns = [
                a if a.name in keys else self._widest(a, b, t)
                for a, b in zip(self.columns, t.columns, strict=True)
            ]
        for c in self.columns:
            for t in tables if c.name not in keys else ():
                t.read_as(c.name, c.dtype if c.unit is None else c.unit)
        counts = [t.rows for t in tables]
        self.rows = None if any(c is None for c in counts) else sum(c for c in counts if c is not None)

    def chunks(self, rows: int) -> Iterator[Chunk]:
        for t in self._tables:
            yield from t.chunks(rows)
            self.note_skipped(t)

    def _widest(self, a: Column, b: Column, t: Table) -> Column:
        if (a.dtype, a.unit) == (b.dtype, b.unit):
            return a
        if a.unit == b.unit and "text" not in (a.dtype, b.dtype) and "bfloat16" not in (a.dtype, b.dtype):
            return replace(a, dtype=np.result_type(a.numpy, b.numpy).name)
        raise InputError(
            f"{t.name}: column {a.name!r} is {b.unit or b.dtype}, but it is {a.unit or a.dtype} in "
            f"{self._tables[0].name}; give its dtype, or leave it out with drop=[{a.name!r}] "
            f"(--drop {a.name})"
        )

    def head(self, rows: int) -> list[list[str]]:
        return self._tables[0].head(rows)

    def note_skipped(self, part: Table) -> None:
        self.skipped += part.skipped
        self.first_skipped = self.first_skipped or part.first_skipped

    def estimated_rows(self) -> int:
        return sum(t.estimated_rows() for t in self._tables)

    @property
    def parts(self) -> list[Table]:
        return self._tables


class TablePart(Table):
    """One column of a table that is dear to read: who wants several of them reads the whole once."""

    def __init__(self, whole: Table, column: str):
        self._whole, self._column = whole, column
        self.name, self.rows, self.reads_files = whole.name, whole.rows, whole.reads_files
        self.columns = [c for c in whole.columns if c.name == column]

    @property
    def whole(self) -> Table:
        return self._whole

    def estimated_rows(self) -> int:
        return self._whole.estimated_rows()

    def chunks(self, rows: int) -> Iterator[Chunk]:
        for c in self._whole.chunks(rows):
            yield replace(c, columns={self._column: c.columns[self._column]})


class MatrixTable(Table):
    """The columns of a table side by side as one column of rows, also when there is only one of them."""

    def __init__(self, name: str, table: Table):
        self.name, self.rows, self._table = table.name, table.rows, table
        self.columns = [Column(name, table.columns[0].dtype, (len(table.columns),))]
        self.reads_files = table.reads_files

    def estimated_rows(self) -> int:
        return self._table.estimated_rows()

    def chunks(self, rows: int) -> Iterator[Chunk]:
        name = self.columns[0].name
        for c in self._table.chunks(rows):
            matrix = np.stack(list(c.columns.values()), axis=1)
            yield Chunk({name: matrix}, c.rows, c.where, c.first_row)


def stored_column(c: Column, where: str) -> Column:
    """What a column is stored as; text as codes."""
    dtype = "int32" if c.dtype == "text" else storable(c.dtype, f"{where}: column {c.name!r}")
    return Column(c.name, dtype, tuple(int(d) for d in c.shape), c.unit)
