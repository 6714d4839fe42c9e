"""What a sampler reads of a graph: how much of it an epoch touches, and what a cache of its rows would hit.

PUBLISHED has what was measured on the real graphs; `measure` gives the same figures of a generated one. At a
scale below 1 a batch has that share of the published seeds, so that an epoch has as many batches, and a batch
as large a share of the graph, as the original's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Published:
    """Shares of 1, by the share of rows that a cache holds."""

    source: str
    batch: int  # seeds, of the full graph
    fanouts: tuple[int, ...]  # from the seeds outward
    touched_below: float | None = None  # share of the nodes in an epoch
    by_frequency: dict[float, float] = field(
        default_factory=dict
    )  # hits; ranked in one epoch, used in the next
    by_degree: dict[float, float] = field(default_factory=dict)  # hits; ranked by the lists a node stands in
    sieve_first: dict[float, float] = field(default_factory=dict)  # misses of the first epoch
    sieve_later: dict[float, float] = field(default_factory=dict)  # misses of the second


PUBLISHED = {
    "papers100m-directed": Published(
        "GNNLab",
        8000,
        (15, 10, 5),
        touched_below=0.10,
        by_frequency={0.05: 0.960, 0.10: 0.983},
        by_degree={0.05: 0.289, 0.10: 0.496, 0.20: 0.751, 0.30: 0.884},
    ),
    "papers100m-symmetric": Published(
        "GraphBolt",
        1024,
        (10, 10, 10),
        sieve_first={0.189: 0.058},
        sieve_later={0.189: 0.032, 0.36: 0.010},
    ),
    "friendster": Published("issue 16", 1024, (10, 10, 10), by_frequency={0.12: 0.63, 0.30: 0.89}),
    "igb": Published("issue 16", 1024, (10, 10, 10), by_frequency={0.11: 0.76, 0.33: 0.997}),
}


class Sieve:
    """A cache of so many rows by SIEVE, a batch at a time: found rows are marked, the hand goes from old to
    new, takes marks away and rows that have none; what was missed comes in at the new end."""

    def __init__(self, capacity: int, num_rows: int):
        self._capacity = capacity
        self._queue = np.empty(0, np.int64)  # from old to new
        self._hand = 0
        self._cached = np.zeros(num_rows, bool)
        self._marked = np.zeros(num_rows, bool)

    def misses(self, rows: np.ndarray) -> int:
        return len(self.missed(rows))

    def missed(self, rows: np.ndarray) -> np.ndarray:
        """Of distinct rows, which are in the cache afterwards as far as they fit."""
        there = self._cached[rows]
        self._marked[rows[there]] = True
        missed = rows[~there]
        fresh = missed[: self._capacity]
        self._evict(len(self._queue) + len(fresh) - self._capacity)
        self._queue = np.concatenate([self._queue, fresh])
        self._cached[fresh], self._marked[fresh] = True, False
        return missed

    def _evict(self, count: int) -> None:
        while count > 0:
            ahead = self._queue[self._hand :]
            free = np.flatnonzero(~self._marked[ahead])[:count]
            passed = int(free[-1]) + 1 if len(free) == count else len(ahead)
            self._cached[ahead[free]] = False
            self._marked[ahead[:passed]] = False
            kept = np.delete(ahead[:passed], free)
            self._queue = np.concatenate([self._queue[: self._hand], kept, ahead[passed:]])
            self._hand = 0 if passed == len(ahead) else self._hand + len(kept)
            count -= len(free)


def epoch(graph: Any, seeds: np.ndarray, batch: int, fanouts: tuple[int, ...], number: int) -> Iterator[Any]:
    """The nodes of each batch."""
    seeds = np.random.default_rng(number).permutation(seeds)
    for i, at in enumerate(range(0, len(seeds), batch)):
        yield graph.sample(seeds[at : at + batch], list(fanouts), rng_seed=number * 1_000_003 + i).nodes


def top(score: np.ndarray, share: float) -> np.ndarray:
    """Which rows are among the highest; ties by chance, as a sort of shuffled ids would break them."""
    order = np.random.default_rng(0).permutation(len(score))
    keep = order[np.argsort(-score[order], kind="stable")[: round(share * len(score))]]
    out = np.zeros(len(score), bool)
    out[keep] = True
    return out


def measure(
    graph: Any, degree: np.ndarray, seeds: np.ndarray, scale: float, like: Published
) -> dict[str, Any]:
    """Two epochs: the first ranks, the second is served."""
    n = len(degree)
    batch = max(1, round(like.batch * scale))
    sieves = {size: Sieve(round(size * n), n) for size in {**like.sieve_first, **like.sieve_later}}
    counts, rows, misses = np.zeros((2, n), np.int64), [0, 0], [dict.fromkeys(sieves, 0) for _ in range(2)]
    batches = 0
    for number in range(2):
        for nodes in epoch(graph, seeds, batch, like.fanouts, number):
            counts[number, nodes] += 1
            rows[number] += len(nodes)
            batches += 1
            for size, sieve in sieves.items():
                misses[number][size] += sieve.misses(nodes)

    def hits(score: np.ndarray, share: float) -> float:
        return float(counts[1][top(score, share)].sum() / rows[1])

    return {
        "batch": batch,
        "batches": batches,
        "rows_per_batch": rows[1] / batches * 2,
        "touched": float((counts[0] > 0).mean()),
        "by_frequency": {s: hits(counts[0], s) for s in like.by_frequency},
        "by_degree": {s: hits(degree, s) for s in like.by_degree},
        "sieve_first": {s: misses[0][s] / rows[0] for s in like.sieve_first},
        "sieve_later": {s: misses[1][s] / rows[1] for s in like.sieve_later},
    }
