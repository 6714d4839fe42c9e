"""Which rows and which lists training reads most: an epoch is sampled, or appearances in lists are counted,
and the highest counts are taken. Two counts of 4 bytes a node, on the disk where they do not fit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gz import _engine
from gz._base.progress import Progress
from gz._base.sizes import amount
from gz.store import Store

_BATCH = 1024
_MOST_SEEDS = 1 << 21  # of more, so many by chance: they rank the rows as well
_TOP = 1 << 16  # rows sampled more often than this rank alike
_STEP = 1 << 22  # counts looked at at once
_RANKING = 48  # bytes for each row that is ranked

Seeds = dict[str, NDArray[np.int64]]
Counts = dict[str, NDArray[np.uint32]]  # by node type


def counter(n: int, budget: int, folder: Path, stack: ExitStack) -> NDArray[np.uint32]:
    """A number for each node; on the disk where memory has no room for them."""
    if 4 * n <= budget // 2:
        return np.zeros(n, np.uint32)
    file = stack.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115 - the stack closes it
    file.truncate(4 * n)
    return np.memmap(file, np.uint32, "r+", shape=(n,))


@contextmanager
def lists_within(store: Store, budget: int) -> Iterator[None]:
    """While samples are drawn, lists that do not fit into a quarter of the budget are read where they lie:
    the engine would copy them into huge pages where memory is plentiful, and knows of no budget."""
    graphs = [store.graph(t)._topology for t in store.edge_types]
    fit = sum(8 * t.num_nodes + 8 * t.num_edges for t in graphs) <= budget // 4
    for t in graphs:
        t.allow_copy(fit)
    try:
        yield
    finally:
        for t in graphs:
            t.allow_copy(True)


def sampled(
    store: Store,
    seeds: Seeds,
    fanouts: list[int],
    counts: Counts,
    expanded: Counts,
    show: Progress,
) -> None:
    """How often each node is read in an epoch, and how often its list is."""
    show.phase("sampling what is read most")
    rng = np.random.default_rng(0)
    total, done = sum(min(len(s), _MOST_SEEDS) for s in seeds.values()), 0
    for of, ids in seeds.items():
        some = rng.permutation(len(ids))[:_MOST_SEEDS]
        for at in range(0, len(some), _BATCH):
            batch = ids[np.sort(some[at : at + _BATCH])]
            found = store.sample({of: batch}, fanouts, rng_seed=at)
            for node_type, count in counts.items():
                count[found.nodes[node_type]] += 1
            for node_type, count in expanded.items():
                last = found.nodes_per_hop[node_type][len(fanouts)]  # found, and not followed
                count[found.nodes[node_type][: len(found.nodes[node_type]) - last]] += 1
            done += len(batch)
            show.update(done, total, " seeds")


def degrees(store: Store, counts: Counts, show: Progress) -> None:
    """In how many lists each node stands."""
    show.phase("counting who stands in most lists")
    done, total = 0, store.num_edges()
    for edge_type in store.edge_types:
        if edge_type[0] not in counts:
            continue
        indices, limit = store.graph(edge_type).indices, store.num_nodes(edge_type[0])
        for begin in range(0, len(indices), _STEP):
            with _engine.PageGuard():
                block = indices[begin : begin + _STEP].astype(np.int64)
            if len(block) and not 0 <= block.min() <= block.max() < limit:
                raise _engine.FormatError(f"{store.graph(edge_type).path}: is damaged; run `gz verify`")
            np.add.at(counts[edge_type[0]], block, 1)
            done += len(block)
            show.update(done, total, " edges")


def rankable(budget: int) -> int:
    """How many rows can be ranked within a budget."""
    return budget // _RANKING


def most_read(
    counts: NDArray[np.uint32], share: float, budget: int, as_fit: bool = False
) -> NDArray[np.int64]:
    """The rows with the highest counts, those first; of equal ones the lower id. None with a count of 0.

    `as_fit`: fewer, where the budget does not allow to rank so many.
    """
    steps = range(0, len(counts), _STEP)
    blocks = (np.minimum(counts[a : a + _STEP], _TOP - 1) for a in steps)
    histogram = sum((np.bincount(b, minlength=_TOP) for b in blocks), np.zeros(_TOP, np.int64))
    histogram[0] = 0
    most = min(int(share * len(counts)), int(histogram.sum()))
    if as_fit:
        most = min(most, budget // 96)
    if most > rankable(budget):
        raise ValueError(
            f"to rank {most:,} rows takes {amount(_RANKING * most)} of memory; allow more (memory=, "
            "--memory) or a smaller share"
        )
    above = np.concatenate([np.cumsum(histogram[::-1])[::-1][1:], [0]])  # rows with a higher count
    level = int(np.argmax(above < most)) if most else _TOP  # the lowest of which some are taken
    ties = most - int(above[level]) if most else 0
    parts, ranks = [], []
    for a in steps if most else ():
        block = np.minimum(counts[a : a + _STEP], _TOP - 1).astype(np.int64)
        equal = np.flatnonzero(block == level)[:ties]
        ties -= len(equal)
        taken = np.sort(np.concatenate([np.flatnonzero(block > level), equal]))
        parts.append(taken + a)
        ranks.append(block[taken])
    if not parts:
        return np.zeros(0, np.int64)
    ids, rank = np.concatenate(parts), np.concatenate(ranks)
    return ids[np.argsort(-rank, kind="stable")]
