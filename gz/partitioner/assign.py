"""Who goes where: the part of each node, in a file of two bytes a node.

random   as many nodes of each type in every part, shuffled
range    as many, in the order of their ids
fennel   near to their neighbours, balanced, in a few sweeps over the topologies (csrc/assign/fennel.h)
file     as the caller says
metis    by a function that is handed in, for it needs DGL and the graph in memory
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz import _engine
from gz._base.progress import Progress
from gz._engine import InputError
from gz.partitioner.whole import EDGE_BYTES, Block, Ids, Whole, lists, steps

NO_PART = 0xFFFF
MOST_PARTS = NO_PART - 1
_STEP = 1 << 20
_SLACK = 1.03  # of the fair share, and no part takes more while another has room

Parts = NDArray[np.uint16]
# (graph, parts, classes or None, balance edges) -> the part of each node of the whole
Metis = Callable[["Whole", int, "NDArray[np.uint8] | None", bool], NDArray[Any]]


@dataclass
class Balance:
    """What is to be spread evenly: nodes by class, and the edges that end in them."""

    classes: NDArray[np.uint8]  # of each node of the whole
    sizes: list[int]
    chosen: list[bool]  # of each class: whether it is the split
    edges: bool = True


def random_parts(whole: Whole, parts: Parts, k: int, rng_seed: int) -> None:
    for t in range(len(whole.ntypes)):
        mine = parts[whole.nodes(t)]
        for a, b in steps(len(mine), _STEP):
            rng = np.random.Generator(np.random.SFC64([rng_seed, t, a]))
            mine[a:b] = rng.permutation(np.arange(a, b) % k)


def range_parts(whole: Whole, parts: Parts, k: int) -> None:
    for t in range(len(whole.ntypes)):
        mine = parts[whole.nodes(t)]
        for a, b in steps(len(mine), _STEP):
            mine[a:b] = np.arange(a, b) * k // len(mine)


# ---- given ----


def given_parts(whole: Whole, parts: Parts, k: int, given: Mapping[str | None, Any]) -> None:
    """`given`: part of each node by type; under None, of all nodes, type after type."""
    if list(given) == [None]:
        whole_given = _one(given[None], whole.num_nodes, "nodes", k)
        _copy(whole_given, parts)
        return
    unknown = [t for t in given if t not in whole.ntypes]
    missing = [t for t in whole.ntypes if t not in given]
    if unknown or missing:
        raise InputError(
            f"the assignment is for {[str(t) for t in given]}, but the store has the node types "
            f"{whole.ntypes}: give an array for each, or one for all nodes, type after type"
        )
    for t, name in enumerate(whole.ntypes):
        mine = parts[whole.nodes(t)]
        _copy(_one(given[name], len(mine), f"nodes of type {name!r}", k), mine)


def _one(value: Any, nodes: int, what: str, k: int) -> NDArray[Any]:
    name = os.fspath(value) if isinstance(value, str | os.PathLike) else "the assignment"
    array = np.load(value, mmap_mode="r") if isinstance(value, str | os.PathLike) else np.asarray(value)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or array.ndim != 1:
        found = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        raise InputError(
            f"{name}: holds {found}; an assignment is a list of whole numbers, the part of each node"
        )
    if len(array) != nodes:
        raise InputError(f"{name}: assigns {len(array)} nodes, but there are {nodes} {what}")
    for a, b in steps(nodes, _STEP):
        part = array[a:b]
        wrong = np.flatnonzero((part < 0) | (part >= k))
        if len(wrong):
            raise InputError(
                f"{name}: puts node {a + wrong[0]} into part {part[wrong[0]]}; parts are 0 to {k - 1}"
            )
    return array


def _copy(array: NDArray[Any], parts: Parts) -> None:
    for a, b in steps(len(array), _STEP):
        parts[a:b] = array[a:b]


# ---- streamed ----


def fennel_parts(
    whole: Whole, parts: Parts, k: int, balance: Balance, passes: int, memory: int, progress: Progress
) -> None:
    """Sweeps over all nodes `passes` times; `parts` ends up filled."""
    neighbours = _neighbours(whole)
    edges = whole.num_edges if balance.edges else 0
    degree = sum(whole.store.num_edges(whole.etypes[e]) for of in neighbours for e, _ in of)
    fennel = _engine.Fennel(k, balance.sizes, edges, degree / max(1, whole.num_nodes), _SLACK)
    step = max(1024, memory // 4 // EDGE_BYTES)
    parts[:] = NO_PART
    for sweep in range(passes):
        progress.phase(f"assigning nodes, sweep {sweep + 1} of {passes}")
        for t, of in enumerate(neighbours):
            offset, size = int(whole.offsets[t]), whole.store.num_nodes(whole.ntypes[t])
            for first, last, indptr, near in _chunks(whole, of, size, step):
                incoming = sum(
                    (whole.degrees(e, first, last) for e, out in of if not out),
                    np.zeros(last - first, np.int64),
                )
                classes = balance.classes[offset + first : offset + last]
                fennel.add(offset + first, classes, incoming, indptr, near, parts)
                progress.update(offset + last, whole.num_nodes, " nodes")


def _neighbours(whole: Whole) -> list[list[tuple[int, bool]]]:
    """By node type: the edge types that give its nodes neighbours; True: along `out`, where it is stored."""
    found: list[list[tuple[int, bool]]] = [[] for _ in whole.ntypes]
    for e, edge_type in enumerate(whole.etypes):
        source, destination = whole.ends(e)
        found[destination].append((e, False))
        if whole.store.manifest.edge(edge_type).out_file is not None:
            found[source].append((e, True))
    return found


def _chunks(
    whole: Whole, of: list[tuple[int, bool]], size: int, step: int
) -> Iterator[tuple[int, int, Ids, Ids]]:
    """Nodes of a type with all their neighbours: (first, last, indptr, neighbours as ids of the whole)."""
    if not of:
        yield from (
            (a, b, np.zeros(b - a + 1, np.int64), np.zeros(0, np.int64)) for a, b in steps(size, step)
        )
        return
    streams = [_Lists(whole, e, out, max(1, step // len(of))) for e, out in of]
    at = 0
    while at < size:
        end = min(s.end(at) for s in streams)
        found = [s.take(at, end) for s in streams]
        at_first, at = at, end
        if len(found) == 1:
            counts, near = found[0]
        else:  # the lists of a node one after the other
            near = np.concatenate([n for _, n in found])
            owner = np.concatenate([np.repeat(np.arange(len(c)), c) for c, _ in found])
            near = near[np.argsort(owner, kind="stable")]
            counts = sum((c for c, _ in found), np.zeros(end - at_first, np.int64))
        yield at_first, end, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), near


class _Lists:
    """The lists of one topology, whole ones, in the order of their nodes."""

    def __init__(self, whole: Whole, e: int, out: bool, step: int):
        graph = whole.store.graph(whole.etypes[e], "out" if out else "in")
        self._offset = int(whole.offsets[whole.ends(e)[1 if out else 0]])
        self._blocks = lists(graph, step)
        self._block: Block | None = None

    def end(self, at: int) -> int:
        """Up to which node the lists from `at` on are at hand."""
        block = self._block
        if block is None or at >= block.first + len(block.counts):
            block = self._block = next(self._blocks)
        return block.first + len(block.counts)

    def take(self, first: int, last: int) -> tuple[Ids, Ids]:
        block = self._block
        assert block is not None
        counts = block.counts[first - block.first : last - block.first]
        skip = int(block.counts[: first - block.first].sum())
        return counts, block.src[skip : skip + int(counts.sum())] + self._offset
