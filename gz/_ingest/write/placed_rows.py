"""Rows that come with the ids they belong to, written in the order of ids: what a distributed run, which
numbers nodes anew, hands back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz._base.replace import PARTITION
from gz._engine import InputError, PageGuard
from gz._ingest.plan.column_input import ColumnInput
from gz._ingest.write.edge_rows import original_rows
from gz._ingest.write.permute import permuted
from gz.graph import Graph
from gz.output import new_npy

_CHUNK = 1 << 20


def write_by_ids(
    file: Path,
    value: Any,
    source: ColumnInput,
    by: Any,
    t: str | tuple[str, str, str],
    rows: int,
    graph: Graph | None,
    memory: int,
    tmp: Path,
) -> None:
    """Row i of `value` goes to node by[i], or to the edge of that id; each of them has to come once.

    `by`: an array, an .npy, or a folder that `gz partition` made, for its original ids. `graph`: of an edge
    type, whose columns lie in its order.
    """
    ids, name = _ids(by, t)
    if len(ids) != rows:
        what = "nodes" if graph is None else "edges"
        raise InputError(f"{name}: has {len(ids)} ids, but there are {rows} {what} of type {t!r}")
    read, given = original_rows(tmp, value, source)
    if given != rows:
        raise InputError(f"{source.table.name}: has {given} rows, but {name} has {rows} ids")
    places = _places(ids, name, rows, graph, tmp)
    writer = source.column.writer(file)
    for out in permuted(read, rows, lambda a, b: places[a:b], rows, source.column.row, tmp, memory):
        writer.append(out)
    writer.finish(rows)


def _ids(by: Any, t: str | tuple[str, str, str]) -> tuple[NDArray[Any], str]:
    if not isinstance(by, str | os.PathLike):
        ids, name = np.asarray(by), "by"
    else:
        path = _original_ids(Path(by), t) if os.path.isdir(by) else Path(by)
        name = str(path)
        ids = np.load(path, mmap_mode="r")
    if not isinstance(ids, np.ndarray) or ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise InputError(f"{name}: is no list of ids: it takes whole numbers, one for each row")
    return ids, name


def _original_ids(folder: Path, t: str | tuple[str, str, str]) -> Path:
    """Where a folder that `gz partition` made has the old ids of a type, in the order of the new ones."""
    try:
        told = json.loads((folder / PARTITION.marker).read_text(encoding="utf-8"))
        found = told["orig_nids" if isinstance(t, str) else "orig_eids"]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise InputError(f"{folder}: is no folder that `gz partition` made ({e})") from None
    name = t if isinstance(t, str) else ":".join(t)
    if name not in found:
        raise InputError(f"{folder}: holds no original ids of {name!r}; it has those of {sorted(found)}")
    return folder / str(found[name])


def _places(ids: NDArray[Any], name: str, rows: int, graph: Graph | None, tmp: Path) -> NDArray[np.int64]:
    """By place in the column, the row that belongs there; in a file."""
    out = new_npy(tmp / "places.npy", (rows,), np.int64)
    out[:] = -1
    positions = None if graph is None else graph.edge_positions
    limit = rows if positions is None else len(positions)
    for a in range(0, rows, _CHUNK):
        part = np.asarray(ids[a : a + _CHUNK])
        wrong = np.flatnonzero((part < 0) | (part >= limit))
        if len(wrong):
            raise InputError(f"{name}: row {a + wrong[0]} is {part[wrong[0]]}; ids are 0 to {limit - 1}")
        place = part.astype(np.int64)
        if positions is not None:
            with PageGuard():
                place = positions[place].astype(np.int64)
            dropped = (place < 0) | (place >= rows)  # by the ingest
            if dropped.any():
                i = int(dropped.argmax())
                raise InputError(f"{name}: row {a + i} is {part[i]}, an edge that the store does not hold")
        out[place] = np.arange(a, a + len(part))
    for a in range(0, rows, _CHUNK):
        missing = np.flatnonzero(out[a : a + _CHUNK] < 0)
        if len(missing):
            raise InputError(
                f"{name}: some id comes twice, so that {a + missing[0]} has no row; each must come once"
            )
    return out
