"""Orders in which the rows of a column could lie, for layout.py to count. Each is the rows, first to last.

Most have the rows that an epoch has touched in front and the others behind, by id: what differs is how the
touched ones lie among each other. Memory: a few numbers a node; the lists are read in order.

    ids          as they are
    tiers        the most read eighth of the rows in front, as `gz reorder` copies them; the others by id
    tiers, labels   the same 16 tiers, each of them by community
    frequency    the most read first
    labels       by community, as label propagation over the lists finds it in a few sweeps
    breadth      as a search outward from the training seeds meets them
    seeds        by the first training seed whose sample had it
    truth        by the communities the graph was generated from: more than a search could find
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

_EDGES = 1 << 21  # of the lists, looked at at once


def touched_first(count: np.ndarray, *keys: np.ndarray) -> np.ndarray:
    """The touched rows by `keys`, of which the first counts most, then the others."""
    touched = np.flatnonzero(count)
    order = np.lexsort([key[touched] for key in reversed(keys)])
    return np.concatenate([touched[order], np.flatnonzero(count == 0)])


def tiers(rank: np.ndarray, *keys: np.ndarray, share: float = 0.125, count: int = 16) -> np.ndarray:
    """So many tiers of the lowest ranks, in each of them by `keys`, or by rank; then the others."""
    most = int(len(rank) * share)
    front = np.argsort(rank)[:most]
    if keys:
        front = front[np.lexsort([*(key[front] for key in reversed(keys)), rank[front] * count // most])]
    return np.concatenate([front, np.flatnonzero(rank >= most)])


def labels(graph: Any, sweeps: int = 4) -> np.ndarray:
    """A community for each node: what most of its neighbours are in, of equal ones the lowest number."""
    indptr, indices = np.asarray(graph.indptr), graph.indices
    n = len(indptr) - 1
    label = np.arange(n, dtype=np.int64)
    bounds = np.searchsorted(indptr, np.arange(0, indptr[-1] + _EDGES, _EDGES)).clip(0, n)
    bounds[-1] = n
    for _ in range(sweeps):
        for a, b in pairwise(bounds):
            if a == b:
                continue
            degree = np.diff(indptr[a : b + 1])
            of = np.repeat(np.arange(b - a), degree)
            pair, times = np.unique(of * n + label[indices[indptr[a] : indptr[b]]], return_counts=True)
            of, found = np.divmod(pair, n)
            best = np.lexsort([found, -times, of])
            first = best[np.concatenate([[True], np.diff(of[best]) > 0])] if len(best) else best
            label[a + of[first]] = found[first]
    return label


def breadth(graph: Any, start: np.ndarray) -> np.ndarray:
    """When a search from `start` on meets each node; nodes it does not meet come last."""
    indptr, indices = np.asarray(graph.indptr), graph.indices
    n = len(indptr) - 1
    when = np.full(n, n, np.int64)
    front, met = np.asarray(start, np.int64), 0
    while len(front):
        when[front] = np.arange(met, met + len(front))
        met += len(front)
        parts = []
        for at in range(0, len(front), 1 << 16):
            some = front[at : at + (1 << 16)]
            degree = indptr[some + 1] - indptr[some]
            places = np.repeat(indptr[some] - np.cumsum(degree) + degree, degree) + np.arange(degree.sum())
            near = indices[places].astype(np.int64)
            near = near[when[near] == n]
            near = near[np.sort(np.unique(near, return_index=True)[1])]
            when[near] = n - 1  # taken
            parts.append(near)
        front = np.concatenate(parts)
    return when


def by_seed(graph: Any, seeds: np.ndarray, fanouts: list[int]) -> np.ndarray:
    """Of each node, which seed's sample was the first to have it; the number of seeds where none had."""
    first = np.full(graph.num_nodes, len(seeds), np.int64)
    for number, seed in enumerate(seeds):
        nodes = graph.sample(np.array([seed]), fanouts, rng_seed=number).nodes
        first[nodes[first[nodes] == len(seeds)]] = number
    return first
