"""Is there room? What the parts will take on the disk, before anything is written and again once the cut is
known."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np

from gz._base.sizes import amount
from gz.partitioner.balance import masks_of
from gz.partitioner.edges import outer_record
from gz.partitioner.number import Numbers
from gz.partitioner.whole import Ids, Whole

# Of DGL's graph.dgl: both ends, id, type and flag of an edge; id, part, type and flag of a node.
_EDGE, _NODE = 8 + 8 + 8 + 4 + 1, 8 + 8 + 2 + 1


def check_before(whole: Whole, folder: Path, finished: int) -> None:
    """Without the edges that will be cut: nobody knows them yet."""
    edges = whole.num_edges * (_EDGE + 8 + whole.id_dtype.itemsize)
    nodes = whole.num_nodes * (_NODE + 8 + 2 + 2 * whole.id_dtype.itemsize)
    _check(edges + nodes + _rows(whole), folder, finished)


def check_parts(whole: Whole, numbers: Numbers, between: Ids, todo: list[int], folder: Path) -> None:
    """The parts that are still to be written. Each gives back what was put aside for it."""
    cut = between - np.diag(np.diag(between))
    inner = sum(int(numbers.edges[p].sum()) for p in todo)
    leaving = sum(int(cut[p].sum()) for p in todo)
    share = sum(int(numbers.nodes[p].sum()) for p in todo) / max(1, whole.num_nodes)
    halo = min(sum(int(cut[p].sum() + cut[:, p].sum()) for p in todo), len(todo) * whole.num_nodes)
    given_back = inner * whole.id_dtype.itemsize + leaving * outer_record(whole).itemsize
    nodes = int(share * whole.num_nodes) + halo
    _check((inner + leaving) * _EDGE + nodes * _NODE + int(share * _rows(whole)) - given_back, folder, 0)


def _rows(whole: Whole) -> int:
    store, total = whole.store, 0
    for t, name in enumerate(whole.ntypes):
        total += sum(store.feature(c, name)._read_bytes for c in store.node_columns(name))
        total += len(masks_of(whole, t)) * store.num_nodes(name)
    for edge_type in whole.etypes:
        total += sum(store.feature(c, edge_type)._read_bytes for c in store.edge_columns(edge_type))
    return total


def _check(need: int, folder: Path, finished: int) -> None:
    s = os.statvfs(folder)
    free, missing = s.f_bavail * s.f_frsize, need - finished
    if missing > free:
        raise OSError(
            errno.ENOSPC,
            f"the parts need about {amount(missing)} here, but only {amount(free)} are free; make room, "
            "write to another disk, or pass check_disk=False (--no-disk-check) to try",
            str(folder),
        )
