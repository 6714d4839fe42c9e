"""Copies the lists that training samples most, side by side, in bounded memory. They become part of the edge
type when all is on the disk.

What a list is worth is how often it is sampled for each byte that it takes, since rows of features wait for
the same memory. Those that are worth least, long ones that are sampled once an epoch, are left out: without
the last 2 % of what is sampled a quarter of the copy's bytes are spared (papers100M, symmetrised).

Lists lie in the order of what they are worth, but only roughly, in 64 steps of it, and inside of a step by
node: so the topology is read through once, in order, and what is found goes to a file for each step.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from gz import _engine
from gz._base.progress import Progress
from gz._hot import publish
from gz._hot.rank import most_read
from gz._hot.room import check_room
from gz.graph import Graph
from gz.manifest import EdgeType
from gz.store import Store

_STEPS = 64
_SERVED = 0.98  # of all lists that are sampled
_NODES = 1 << 20  # looked at at once
_START = 16  # bytes, of where a list begins in the topology and in the copy
_PIECE = 8 << 20  # bytes that are copied at once
_FILES = ("ids.gd", "starts.gd", "lists.gd")


def write_lists(
    store: Store,
    edge_type: EdgeType,
    graph: Graph,
    counts: NDArray[np.uint32],
    share: float,
    budget: int,
    tmp: Path | None,
    show: Progress,
    check_disk: bool,
) -> int:
    """Returns how many lists were copied: those that are sampled most for their bytes, in at most `share` of
    the topology's bytes."""
    hot = _Hot(graph, counts, share, budget)
    if len(hot.ids) == 0:
        publish.remove_hot_lists(store, edge_type)
        return 0
    with publish.lists_draft(store, edge_type) as draft:
        if check_disk:
            needed = hot.bytes + len(hot.ids) * (_START + 8)
            check_room(draft.folder, needed, tmp or draft.folder, hot.bytes, f"{len(hot.ids):,} lists")
        show.phase("lists that are sampled most")
        with ExitStack() as stack:
            place = tmp or draft.folder
            steps = [stack.enter_context(tempfile.TemporaryFile(dir=place)) for _ in range(_STEPS)]
            begins = _sort_out(graph, hot, steps, budget, show)
            _join(steps, hot.dtype, draft.folder / _FILES[2])
        _write_starts(hot, begins, draft.folder)
        publish.set_hot_lists(store, edge_type, graph.version, draft, _FILES)
    return len(hot.ids)


class _Hot:
    """The nodes whose lists are copied, ascending, with the step and the degree of each."""

    def __init__(self, graph: Graph, counts: NDArray[np.uint32], share: float, budget: int):
        width = graph.indices.dtype.itemsize
        self.dtype = f"int{8 * width}"
        ids = np.sort(most_read(counts, 1.0, budget, as_fit=True))
        degrees = np.empty(len(ids), np.int64)
        for a in range(0, len(ids), _NODES):
            degrees[a : a + _NODES] = graph.degree(ids[a : a + _NODES])
        size, count = degrees * width + _START, counts[ids]
        order = np.argsort(-(count / size), kind="stable")
        most = int(share * (graph.num_edges * width + 8 * graph.num_dst))
        fit = int(np.searchsorted(np.cumsum(size[order]), most, "right"))
        del size
        served = np.cumsum(count[order], dtype=np.int64)
        enough = int(np.searchsorted(served, _SERVED * int(counts.sum(dtype=np.int64)))) + 1
        del served, count
        order = order[: min(fit, enough)]
        rank = np.argsort(order)
        kept = order[rank]  # by node
        self.ids, self.degrees = ids[kept], degrees[kept]
        self.step = (rank * _STEPS // max(1, len(kept))).astype(np.uint8)
        self.bytes = int(self.degrees.sum()) * width


def _sort_out(
    graph: Graph, hot: _Hot, steps: Sequence[IO[bytes]], budget: int, show: Progress
) -> NDArray[np.int64]:
    """Writes each list to the file of its step; returns where it begins in the topology."""
    begins = np.empty(len(hot.ids), np.int64)
    ends = np.cumsum(hot.degrees)
    most = max(1, budget // 16 // np.dtype(hot.dtype).itemsize)  # entries at once
    a = done = 0
    while a < len(hot.ids):
        b = max(a + 1, min(a + _NODES, int(np.searchsorted(ends, done + most, "right"))))
        order = a + np.argsort(hot.step[a:b], kind="stable")
        found = graph._topology.lists(hot.ids[order])
        begins[order] = found.begins
        entries = found.ids.view(hot.dtype)
        each = np.bincount(hot.step[order], hot.degrees[order], _STEPS).astype(np.int64)
        for file, end, count in zip(steps, np.cumsum(each), each, strict=True):
            if count:
                file.write(entries[end - count : end].data)
        a, done = b, int(ends[b - 1])
        show.update(a, len(hot.ids), " lists")
    return begins


def _join(steps: Sequence[IO[bytes]], dtype: str, path: Path) -> None:
    writer = _engine.ColumnWriter(str(path), dtype, [])
    for file in steps:
        file.seek(0)
        while piece := file.read(_PIECE):
            writer.append(np.frombuffer(piece, dtype))
    writer.finish()


def _write_starts(hot: _Hot, begins: NDArray[np.int64], folder: Path) -> None:
    order = np.argsort(hot.step, kind="stable")  # as they lie: by step, then by node
    kind = np.int32 if not len(hot.ids) or hot.ids[-1] < 1 << 31 else np.int64
    ids = _engine.ColumnWriter(str(folder / _FILES[0]), np.dtype(kind).name, [])
    starts = _engine.ColumnWriter(str(folder / _FILES[1]), "int64", [2])
    before = 0
    for a in range(0, len(order), _NODES):
        part = order[a : a + _NODES]
        ends = before + np.cumsum(hot.degrees[part])
        ids.append(hot.ids[part].astype(kind))
        starts.append(np.stack([begins[part], ends - hot.degrees[part]], axis=1))
        before = int(ends[-1])
    ids.finish()
    starts.finish()
