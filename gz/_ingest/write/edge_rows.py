"""Rows of an edge column in the order of the original edges, written in the order of the topology."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz._engine import InputError, PageGuard
from gz._ingest.plan.column_input import ColumnInput
from gz._ingest.write.columns import write_column
from gz._ingest.write.permute import permuted
from gz.graph import Graph, are_loops
from gz.output import PAGE


def write_by_edge_id(
    file: Path, value: Any, source: ColumnInput, graph: Graph, memory: int, tmp: Path
) -> None:
    """Writes `file`; what does not fit into `memory` goes through `tmp`."""
    column = source.column
    ids, positions = graph.edge_ids, graph.edge_positions
    assert ids is not None
    expected = len(positions) if positions is not None else graph.num_edges
    read, rows = original_rows(tmp, value, source)
    wrong = InputError(f"{source.table.name}: has {rows} rows, but the store was made from {expected} edges")
    if rows > expected:
        raise wrong

    def wanted(a: int, b: int) -> NDArray[np.int64]:
        """Self loops that the ingest added have ids after those of the input, and rows of zeros."""
        with PageGuard():
            part = np.asarray(ids[a:b]).astype(np.int64)
        added = part >= rows
        if added.any():
            if not are_loops(graph, a + np.flatnonzero(added)):
                raise wrong
            part[added] = -1
        return part

    writer, row = column.writer(file), column.row
    if rows * row.itemsize <= memory // 4:
        whole, step = read(0, rows), max(1024, memory // 8 // (row.itemsize + 16))
        for a in range(0, graph.num_edges, step):
            part = wanted(a, min(graph.num_edges, a + step))
            out = whole[part] if rows else np.zeros((len(part), *row.shape), row.base)
            out[part < 0] = 0
            writer.append(out)
    else:
        for out in permuted(read, rows, wanted, graph.num_edges, row, tmp, memory):
            writer.append(out)
    writer.finish(graph.num_edges)


def original_rows(
    tmp: Path, value: Any, source: ColumnInput
) -> tuple[Callable[[int, int], NDArray[Any]], int]:
    """A function that reads a range of rows, and how many there are. What is no array is spooled first."""
    column = source.column
    if isinstance(value, np.ndarray) and value.dtype.name == column.dtype and column.stored is None:
        return lambda a, b: np.ascontiguousarray(value[a:b]), len(value)
    spool = tmp / "original.gd"
    rows = write_column(spool, source)
    row = column.row

    def read(a: int, b: int) -> NDArray[Any]:
        # Not through a mapping: those expect random reads, and this is a sweep.
        if not row.itemsize:
            return np.zeros((b - a, *row.shape), row.base)
        return np.fromfile(spool, row, b - a, offset=PAGE + a * row.itemsize)

    return read, rows
