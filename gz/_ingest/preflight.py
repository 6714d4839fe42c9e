"""Is there room? What an ingest will need on the disk, before its first byte is written.

The sizes of arrays, .npy and Parquet are known; rows of text are counted from a sample of its lines. Where
nobody gave the number of nodes it is taken as an eighth of the edges. What comes from an iterator cannot be
known and is left out, so the estimate is then too low.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import remote
from .arrays import Column, as_numpy, is_array
from .columns import adoptable, combined, open_column
from .csv_table import CsvTable, is_stream, open_text
from .edge_input import EdgeOptions, is_path, open_edges
from .spec import EdgeSpec, Spec
from .tables import JoinedTable, Table, stored_column

_SAMPLE = 1 << 18  # bytes of text
_HELD = 0.8  # of the memory budget: records beyond it go to the spill file (held_share in csrc/builder.cpp)


@dataclass
class Need:
    """Bytes."""

    columns: int = 0
    topology: int = 0
    temporary: int = 0

    @property
    def total(self) -> int:
        return self.columns + self.topology + self.temporary


def check_disk(plan: Spec, memory: int, adopt: bool, folder: Path, finished: int = 0) -> None:
    """Raises OSError (ENOSPC) when the folder's disk has less room than is needed besides what is
    `finished`."""
    need = estimate(plan, memory, adopt)
    s = os.statvfs(folder)
    free = s.f_bavail * s.f_frsize
    missing = need.total - finished
    if missing > free:
        raise OSError(
            errno.ENOSPC,
            f"needs about {_gb(missing)} here ({_gb(need.columns)} columns, {_gb(need.topology)} topology, "
            f"{_gb(need.temporary)} temporary{f'; {_gb(finished)} are done' if finished else ''}), "
            f"but only {_gb(free)} are free; make room, write to another disk, or pass check_disk=False "
            "(--no-disk-check) to try",
            str(folder),
        )


def _gb(n: float) -> str:
    return f"{n / 1e9:,.1f} GB" if n >= 1e8 else f"{n / 1e6:,.1f} MB"


def estimate(plan: Spec, memory: int, adopt: bool) -> Need:
    need = Need()
    counts: dict[str, int | None] = {}
    for node in plan.nodes.values():
        counts[node.name] = node.num_nodes
        for name, value in node.features.items():
            if adopt and adoptable(value, plan.base) is not None:
                continue
            rows, width = _column(name, value, plan.base)
            need.columns += rows * width
            if counts[node.name] is None and rows:
                counts[node.name] = rows
    for split in plan.edge_splits.values():
        need.columns += sum(os.path.getsize(f) for f in getattr(split, "input_files", ()))
    temporary = [_edges(e, plan, counts, memory, need) for e in plan.edges]
    # Where numbers of nodes come out of the edges, all types are read before one is built.
    together = plan.ids == "map" or any(n is None for n in counts.values())
    need.temporary = sum(temporary) if together else max(temporary, default=0)
    return need


def _column(name: str, value: Any, base: str) -> tuple[int, int]:
    """(rows, bytes of a row); zeros where they cannot be known."""
    table = _open(name, value, base)
    if table is None:
        return 0, 0
    c = combined(name, table, value.get("dtype") if isinstance(value, dict) else None)
    return _rows(table), _width(c)


def _open(name: str, value: Any, base: str) -> Table | None:
    """Opens files and arrays only: an iterator would lose its first chunk."""
    inner = value.get("file") if isinstance(value, dict) else value
    listed = isinstance(inner, (list, tuple)) and inner and all(is_path(v) for v in inner)
    return open_column(name, value, base) if is_path(inner) or is_array(inner) or listed else None


def _width(c: Column) -> int:
    return int(np.prod(c.shape, dtype=np.int64)) * c.numpy.itemsize


def _rows(table: Table) -> int:
    if table.rows is not None:
        return table.rows
    if isinstance(table, JoinedTable):
        return sum(_rows(t) for t in table._tables)
    if isinstance(inner := getattr(table, "_table", None), Table):  # one that wraps another
        return _rows(inner)
    return _text_rows(table) if isinstance(table, CsvTable) else 0


def _text_rows(table: CsvTable) -> int:
    if remote.is_remote(table.name):
        return 0  # nobody knows before it is read
    size = os.path.getsize(table.name)
    if is_stream(table.name):
        with open_text(table.name) as f:
            text = f.read(_SAMPLE)
        # Ids in text shrink to a third or a quarter, rarely to an eighth.
        size = size * 8 if len(text) == _SAMPLE else len(text)
        samples = [text]
    else:
        samples = []
        with open(table.name, "rb") as f:
            for at in {0, max(0, size // 2), max(0, size - _SAMPLE)}:
                f.seek(at)
                samples.append(f.read(_SAMPLE))
    shortest = min((len(s) / max(1, s.count(b"\n")) for s in samples if s), default=1.0)
    return int(size / shortest) + 1


def _edge_table(e: EdgeSpec, plan: Spec, memory: int) -> tuple[int, int]:
    """(edges, bytes of the edge columns that lie with them)"""
    edges = e.edges
    if is_array(edges):
        a, _ = as_numpy(edges)
        return (int(max(a.shape)) if a.ndim == 2 else 0), 0
    if isinstance(edges, dict):
        rest = [as_numpy(v)[0] for v in list(edges.values())[2:] if is_array(v)]
        first = next(iter(edges.values()), ())
        return len(first), sum(int(r.itemsize * np.prod(r.shape[1:], dtype=np.int64)) for r in rest)
    listed = isinstance(edges, (tuple, list)) and edges and all(is_path(v) for v in edges)
    if isinstance(edges, (tuple, list)) and not listed:
        return (len(edges[0]), 0) if len(edges) == 2 and hasattr(edges[0], "__len__") else (0, 0)
    if not (is_path(edges) or listed):
        return 0, 0
    ends = tuple(e.columns) if e.columns is not None else None
    o = EdgeOptions(
        ends,
        e.edge_columns,
        e.weight,
        e.delimiter,
        e.header,
        e.on_bad_line,
        plan.ids == "map",
        None,
        memory,
        plan.base,
    )
    table = open_edges(edges, o)
    kept = None if e.edge_columns is None else set(e.edge_columns)
    own = [
        stored_column(c, table.name)
        for c in table.columns
        if c.name not in o.key_names and (kept is None or c.name in kept)
    ]
    return _rows(table), sum(_width(c) for c in own)


def _edges(e: EdgeSpec, plan: Spec, counts: dict[str, int | None], memory: int, need: Need) -> int:
    """Adds an edge type's files to `need`; returns its temporary bytes."""
    rows, payload = _edge_table(e, plan, memory)
    payload += sum(_column(name, v, plan.base)[1] for name, v in e.features.items())
    src, dst = (counts[t] if counts[t] is not None else rows // 8 for t in (e.type[0], e.type[2]))
    assert src is not None
    assert dst is not None
    stored = rows * (2 if e.undirected else 1) + (dst if e.self_loops == "add" else 0)
    node_id, edge_id = 4 if max(src, dst) < 1 << 32 else 8, 4 if stored < 1 << 32 else 8
    keep_ids = bool(payload) if e.keep_edge_ids is None else bool(e.keep_edge_ids)
    weight = 12 if e.weight is not None else 0  # the weight and its alias entry
    need.columns += stored * payload
    need.topology += 8 * (dst + 1) + stored * (node_id + weight)
    if keep_ids:
        need.topology += edge_id * (stored + rows)
    record = 3 + node_id + (8 if keep_ids else 0) + payload
    temporary = _spilled(rows * (2 if e.undirected else 1) * record, memory * _HELD)
    if keep_ids:
        temporary += _spilled(rows * (3 + edge_id), memory / 8)
    plain = not (e.undirected or e.coalesce or e.self_loops != "keep")
    if not plain:  # sections wait in files of their own until their sizes are known
        temporary += stored * ((edge_id if keep_ids else 0) + (4 if weight else 0))
    if e.directions != "in":
        need.topology += 8 * (src + 1) + stored * (node_id + edge_id + weight)
        turned = _spilled(stored * (3 + node_id + 8 + (4 if weight else 0)), memory * _HELD)
        temporary = max(temporary, turned)
    if plan.ids == "map":  # hash, place and id of every appearance of a key, and the key
        temporary += rows * payload + 2 * rows * 32
        need.topology += (src + dst) * 24
    return temporary


def _spilled(total: float, held: float) -> int:
    return int(total) if total > held else 0
