"""Rows into .gd columns."""

from __future__ import annotations

from pathlib import Path

from gz._base.background import ahead
from gz._engine import InputError
from gz._ingest.plan.column_input import CHUNK_BYTES, ColumnInput, chunk_row_bytes


def write_column(path: Path, source: ColumnInput, expected: int | None = None, what: str = "nodes") -> int:
    """Writes a .gd file and returns its number of rows; a wrong number is an error that names both."""
    return write_columns({path: source}, expected, what)


def write_columns(sources: dict[Path, ColumnInput], expected: int | None = None, what: str = "nodes") -> int:
    """The same for columns of one table, which is read once for all of them."""
    first = next(iter(sources.values()))
    table = first.table.whole

    def check(rows: int, more: str = "") -> None:
        if expected is not None and rows != expected:
            raise InputError(f"{first.label}: has {rows} {more}rows, but there are {expected} {what}")

    if table.rows is not None:
        check(table.rows)
    writers = {path: s.column.writer(path) for path, s in sources.items()}
    row_bytes = sum(chunk_row_bytes(s.column) for s in sources.values())
    chunks = table.chunks(max(1, CHUNK_BYTES // row_bytes))
    stored = ((c.rows, {path: s.stored(c) for path, s in sources.items()}) for c in chunks)
    count = 0
    for rows, parts in ahead(stored) if table.reads_files else stored:
        for path, part in parts.items():
            source = sources[path]
            if part.shape[1:] != source.column.row.shape:
                raise InputError(
                    f"{source.label}: rows from {count} on have shape {part.shape[1:]}, the first had "
                    f"{source.column.shape}"
                )
            writers[path].append(part)
        count += rows
        if expected is not None and count > expected:
            check(count, "or more ")
    check(count)
    for writer in writers.values():
        writer.finish(count)
    return count
