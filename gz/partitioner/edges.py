"""One sweep over the topologies: every edge to the part of its destination, and where it is cut, also to that
of its source.

    scratch/inner-P-E   new ids of the sources of the edges of type E that end in part P, by new edge id
    scratch/outer-P-E   (source, destination, edge), new ids, of edges of type E that leave part P

Both by appending, so that memory is a block of edges however many there are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz._base.journal import sync
from gz._base.progress import Progress
from gz.partitioner.assign import Parts
from gz.partitioner.number import Numbers, grouped
from gz.partitioner.whole import EDGE_BYTES, Ids, Whole, blocks


def inner_file(scratch: Path, part: int, e: int) -> Path:
    return scratch / f"inner-{part}-{e}"


def outer_file(scratch: Path, part: int, e: int) -> Path:
    return scratch / f"outer-{part}-{e}"


def outer_record(whole: Whole) -> np.dtype[Any]:
    ids = whole.id_dtype
    return np.dtype([("src", ids), ("dst", ids), ("eid", np.int64)])


def spread(
    whole: Whole,
    parts: Parts,
    new_ids: NDArray[Any],
    numbers: Numbers,
    wanted: list[int],
    scratch: Path,
    memory: int,
    progress: Progress,
) -> Ids:
    """Writes the files of the parts in `wanted`. Returns how many edges lead from part to part, [p, q]."""
    k = len(numbers.nodes)
    between = np.zeros((k, k), np.int64)
    for p in wanted:
        for e in range(len(whole.etypes)):
            inner_file(scratch, p, e).write_bytes(b"")
            outer_file(scratch, p, e).write_bytes(b"")
    progress.phase("dividing edges")
    before = 0
    for e, edge_type in enumerate(whole.etypes):
        graph = whole.store.graph(edge_type)
        _Relation(whole, parts, new_ids, numbers, e, set(wanted), scratch).spread(
            blocks(graph, max(1024, memory // 2 // EDGE_BYTES)), between, progress, before
        )
        before += graph.num_edges
    for p in wanted:
        for e in range(len(whole.etypes)):
            sync(inner_file(scratch, p, e))
            sync(outer_file(scratch, p, e))
    return between


class _Relation:
    """The edges of one type."""

    def __init__(
        self,
        whole: Whole,
        parts: Parts,
        new_ids: NDArray[Any],
        numbers: Numbers,
        e: int,
        wanted: set[int],
        scratch: Path,
    ):
        source, destination = whole.ends(e)
        self._whole, self._e, self._wanted, self._scratch = whole, e, wanted, scratch
        self._k = len(numbers.nodes)
        self._src_parts, self._dst_parts = parts[whole.nodes(source)], parts[whole.nodes(destination)]
        self._src_new, self._dst_new = new_ids[whole.nodes(source)], new_ids[whole.nodes(destination)]
        self._next = np.array([numbers.edge_range(p, e)[0] for p in range(self._k)], np.int64)

    def spread(self, found: Any, between: Ids, progress: Progress, before: int) -> None:
        k = self._k
        for block in found:
            nodes = slice(block.first, block.first + len(block.counts))
            to = np.repeat(self._dst_parts[nodes], block.counts)
            come = self._src_parts[block.src]
            new = self._src_new[block.src]
            order, rank, counts = grouped(to, k)
            self._append(inner_file, new[order], counts)
            cut = np.flatnonzero(come != to)
            between += np.bincount(come.astype(np.int64) * k + to, minlength=k * k).reshape(k, k)
            if len(cut):
                eids = np.empty(len(to), np.int64)
                eids[order] = self._next[to[order]] + rank
                records = np.empty(len(cut), outer_record(self._whole))
                records["src"], records["eid"] = new[cut], eids[cut]
                records["dst"] = np.repeat(self._dst_new[nodes], block.counts)[cut]
                leave, _, leaving = grouped(come[cut], k)
                self._append(outer_file, records[leave], leaving)
            self._next += counts
            progress.update(before + block.begin + len(to), self._whole.num_edges, " edges")

    def _append(self, name: Any, values: NDArray[Any], counts: Ids) -> None:
        ends = np.cumsum(counts)
        for p in np.flatnonzero(counts).tolist():
            if p in self._wanted:
                with open(name(self._scratch, p, self._e), "ab") as f:
                    f.write(values[ends[p] - counts[p] : ends[p]].tobytes())
