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

from gz._base.sizes import amount
from gz._ingest.plan.column_input import ColumnInput
from gz._ingest.plan.edge_input import EdgeInput
from gz._ingest.plan.inputs import Inputs

_HELD = 0.8  # of the memory budget: records beyond it go to the spill file (held_share in builder.cpp)


@dataclass
class Need:
    """Bytes."""

    columns: int = 0
    topology: int = 0
    temporary: int = 0

    @property
    def total(self) -> int:
        return self.columns + self.topology + self.temporary


def check_disk(inputs: Inputs, memory: int, folder: Path, finished: int = 0, tmp: Path | None = None) -> None:
    """Raises OSError (ENOSPC) when the folder's disk has less room than is needed besides what is
    `finished`. `tmp`: where temporary files go, which may be another disk."""
    need = estimate(inputs, memory)
    if tmp is not None and os.stat(tmp).st_dev != os.stat(folder).st_dev:
        if need.temporary > (free := _free(tmp)):
            raise OSError(
                errno.ENOSPC,
                f"needs about {amount(need.temporary)} for temporary files here, but only {amount(free)} are "
                "free; make room, name another folder (--tmp), or pass check_disk=False (--no-disk-check)",
                str(tmp),
            )
        need.temporary = 0
    free = _free(folder)
    missing = need.total - finished
    if missing > free:
        raise OSError(
            errno.ENOSPC,
            f"needs about {amount(missing)} here ({amount(need.columns)} columns, {amount(need.topology)} "
            f"topology, {amount(need.temporary)} temporary"
            f"{f'; {amount(finished)} are done' if finished else ''}), but only {amount(free)} are free; "
            "make room, write to another disk, or pass check_disk=False (--no-disk-check) to try",
            str(folder),
        )


def _free(folder: Path) -> int:
    s = os.statvfs(folder)
    return s.f_bavail * s.f_frsize


def estimate(inputs: Inputs, memory: int) -> Need:
    need = Need()
    counts: dict[str, int | None] = {}
    for name, node in inputs.nodes.items():
        counts[name] = node.estimated_nodes()
        written = [c for c in node.columns.values() if isinstance(c, ColumnInput)]
        need.columns += sum(c.table.estimated_rows() * c.column.row_bytes for c in written)
    for split in inputs.spec.edge_splits.values():
        need.columns += sum(os.path.getsize(f) for f in getattr(split, "input_files", ()))
    mapped = inputs.spec.mapped
    temporary = [_edges(e, mapped, counts, memory, need) for e in inputs.edges]
    # Where numbers of nodes come out of the edges, all types are read before one is built.
    together = mapped or any(n is None for n in counts.values())
    need.temporary = sum(temporary) if together else max(temporary, default=0)
    return need


def _edges(edges: EdgeInput, mapped: bool, counts: dict[str, int | None], memory: int, need: Need) -> int:
    """Adds an edge type's files to `need`; returns its temporary bytes."""
    e, rows, payload = edges.spec, edges.table.estimated_rows(), edges.record.itemsize
    src, dst = (rows // 8 if (n := counts[t]) is None else n for t in (e.type[0], e.type[2]))
    stored = rows * (2 if e.undirected else 1) + (dst if e.self_loops == "add" else 0)
    node_id, edge_id = 4 if max(src, dst) < 1 << 32 else 8, 4 if stored < 1 << 32 else 8
    weight = 12 if e.weight is not None else 0  # the weight and its alias entry
    need.columns += stored * sum(c.row_bytes for c in edges.columns)
    grouped = src if e.directions == "out" else dst
    need.topology += 8 * (grouped + 1) + stored * (node_id + weight)
    if edges.keep_ids:
        need.topology += edge_id * (stored + rows)
    record = 3 + node_id + (8 if edges.keep_ids else 0) + payload
    temporary = _spilled(rows * (2 if e.undirected else 1) * record, memory * _HELD)
    if edges.keep_ids:
        temporary += _spilled(rows * (3 + edge_id), memory / 8)
    plain = not (e.undirected or e.coalesce or e.self_loops != "keep")
    if not plain:  # sections wait in files of their own until their sizes are known
        temporary += stored * ((edge_id if edges.keep_ids else 0) + (4 if weight else 0))
    if e.directions == "both":
        need.topology += 8 * (src + 1) + stored * (node_id + edge_id + weight)
        turned = _spilled(stored * (3 + node_id + 8 + (4 if weight else 0)), memory * _HELD)
        temporary = max(temporary, turned)
    if mapped:  # hash, place and id of every appearance of a key, and the key
        temporary += rows * payload + 2 * rows * 32
        need.topology += (src + dst) * 24
    return temporary


def _spilled(total: float, held: float) -> int:
    return int(total) if total > held else 0
