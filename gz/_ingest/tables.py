"""Tables read in chunks: arrays, .npy/.npz, Parquet, iterators. (Text tables are in csv_table.py.)

A table has columns (known before the first row is read; an iterator is asked for its first chunk) and gives
chunks: named arrays of equal length, with where they come from for messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gz._engine import InputError

from .arrays import Column, as_numpy, storable
from .npy import NpyArray


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
    skipped = 0
    first_skipped = ""

    def chunks(self, rows: int) -> Iterator[Chunk]:
        raise NotImplementedError


class ArrayTable(Table):
    """Named arrays in memory."""

    def __init__(self, arrays: dict[str, Any], name: str):
        self.name = name
        self._arrays = {k: as_numpy(v) for k, v in arrays.items()}
        lengths = {k: len(a) if a.ndim else 0 for k, (a, _) in self._arrays.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{k!r} has {n}" for k, n in lengths.items())
            raise InputError(f"{name}: columns differ in length: {listed} rows")
        self.rows = next(iter(lengths.values()), 0)
        self.columns = [Column(k, dt, a.shape[1:]) for k, (a, dt) in self._arrays.items()]

    def chunks(self, rows: int) -> Iterator[Chunk]:
        for at in range(0, self.rows or 0, rows):
            part = {k: a[at : at + rows] for k, (a, _) in self._arrays.items()}
            yield Chunk(
                part,
                min(rows, (self.rows or 0) - at),
                self.name,
                at,
                {k: d for k, (_, d) in self._arrays.items()},
            )


class NpyTable(Table):
    """Arrays of equal length on disk, one column each."""

    def __init__(self, arrays: dict[str, NpyArray], name: str):
        self.name = name
        self._arrays = arrays
        for a in arrays.values():
            if a.fortran:
                raise InputError(f"{a.name}: is stored in Fortran order; save it with np.ascontiguousarray")
        lengths = {k: a.rows for k, a in arrays.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{k!r} has {n}" for k, n in lengths.items())
            raise InputError(f"{name}: columns differ in length: {listed} rows")
        self.rows = next(iter(lengths.values()), 0)
        self.columns = [Column(k, a.dtype.name, tuple(a.shape[1:])) for k, a in arrays.items()]

    def chunks(self, rows: int) -> Iterator[Chunk]:
        streams = {k: a.stream() for k, a in self._arrays.items()}
        try:
            for at in range(0, self.rows or 0, rows):
                n = min(rows, (self.rows or 0) - at)
                part = {}
                for k, a in self._arrays.items():
                    items = int(np.prod(a.shape[1:], dtype=np.int64))
                    part[k] = streams[k].take(n * items).reshape((n, *a.shape[1:]))
                yield Chunk(part, n, self.name, at)
        finally:
            for s in streams.values():
                s.close()


class NpyEdgeIndex(Table):
    """An edge_index on disk: [2, E] or [E, 2], either order of memory."""

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
        self._first: Chunk | None = None
        for raw in self._iterator:
            self._first = self._convert(raw)
            break
        self.columns = []
        if self._first is not None:
            self.columns = [
                Column(k, self._first.dtypes.get(k, a.dtype.name), a.shape[1:])
                for k, a in self._first.columns.items()
            ]
        else:
            self.columns = [Column(n, "int64") for n in names]

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
        arrays = {k: a for k, (a, _) in table._arrays.items()}
        chunk = Chunk(
            arrays, table.rows or 0, self.name, self._row, {k: d for k, (_, d) in table._arrays.items()}
        )
        self._row += chunk.rows
        return chunk

    def chunks(self, rows: int) -> Iterator[Chunk]:
        expected = {c.name: c.shape for c in self.columns}
        pending = [self._first] if self._first is not None else []
        self._first = None
        while True:
            chunk = pending.pop() if pending else None
            if chunk is None:
                try:
                    chunk = self._convert(next(self._iterator))
                except StopIteration:
                    return
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
    """Tables one after the other, with the same columns."""

    def __init__(self, tables: list[Table]):
        self._tables = tables
        self.name = tables[0].name if len(tables) == 1 else f"{tables[0].name} and {len(tables) - 1} more"
        self.columns = tables[0].columns
        for t in tables[1:]:
            if [(c.name, c.shape) for c in t.columns] != [(c.name, c.shape) for c in self.columns]:
                mine, theirs = [c.name for c in self.columns], [c.name for c in t.columns]
                raise InputError(f"{t.name}: has columns {theirs}, but {tables[0].name} has {mine}")
        counts = [t.rows for t in tables]
        self.rows = None if any(c is None for c in counts) else sum(c for c in counts if c is not None)

    def chunks(self, rows: int) -> Iterator[Chunk]:
        for t in self._tables:
            yield from t.chunks(rows)
            self.skipped += t.skipped
            self.first_skipped = self.first_skipped or t.first_skipped


class MatrixTable(Table):
    """The columns of a table side by side as one column of rows, also when there is only one of them."""

    def __init__(self, name: str, table: Table):
        self.name, self.rows, self._table = table.name, table.rows, table
        self.columns = [Column(name, table.columns[0].dtype, (len(table.columns),))]

    def chunks(self, rows: int) -> Iterator[Chunk]:
        name = self.columns[0].name
        for c in self._table.chunks(rows):
            matrix = np.stack(list(c.columns.values()), axis=1)
            yield Chunk({name: matrix}, c.rows, c.where, c.first_row)


def stored_column(c: Column, where: str) -> Column:
    return Column(c.name, storable(c.dtype, f"{where}: column {c.name!r}"), tuple(int(d) for d in c.shape))
