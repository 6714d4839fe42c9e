"""Which rows are read from the disk, by who is kept in memory, and in how many reads: counted, not timed.

A policy gets the rows of each batch and gives what has to be read, one array of rows for each time that the
disk is asked. All get the same memory, in rows, and start with what an epoch before has taught them.

    prefix       the rows most read in the epoch before, held, and SIEVE for the rest (`gz reorder`); without
                 a prefix, SIEVE alone: gz's row cache (_curves.Sieve)
    look_ahead   the next K batches are sampled; who is needed last goes, and those whom none of them needs
                 before all others, the least read first. Read when needed. With all batches known it is
                 Belady's: no policy misses less
    unions       the next K batches are sampled, and what they need and memory lacks is read at once, in
                 order of place; K becomes smaller where that does not fit

`joined` counts the reads of an array of rows as csrc/read/extents.cpp makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from _curves import Sieve

BLOCK = 4096
LARGEST = 64 << 10  # bytes of a read
GAP = 4096  # bytes that are read rather than asking twice

Rows = np.ndarray


def joined(places: Rows, row_bytes: int, gap: int = GAP) -> tuple[int, int]:
    """(reads, bytes) for rows at these places of a column that begins on a block."""
    if len(places) == 0:
        return 0, 0
    start = np.sort(places).astype(np.int64) * row_bytes
    low = start // BLOCK * BLOCK
    high = -(-(start + row_bytes) // BLOCK) * BLOCK
    begins = np.flatnonzero(np.concatenate([[True], low[1:] > high[:-1] + gap]))
    lengths = high[np.append(begins[1:], len(high)) - 1] - low[begins]
    return int((-(-lengths // LARGEST)).sum()), int(lengths.sum())


@dataclass
class Count:
    """What a policy read, summed over batches."""

    rows: int = 0
    reads: int = 0
    bytes: int = 0

    def add(self, places: Rows, row_bytes: int, gap: int = GAP) -> None:
        reads, size = joined(places, row_bytes, gap)
        self.rows, self.reads, self.bytes = self.rows + len(places), self.reads + reads, self.bytes + size


def prefix(
    batches: Iterable[Rows], before: Iterable[Rows], rank: np.ndarray, capacity: int, share: float = 0.9
) -> Iterator[Rows]:
    """`before`: batches that fill SIEVE; `share` of the memory is the prefix."""
    held = int(capacity * share)
    rest = Sieve(capacity - held, len(rank))
    for rows in before:
        rest.missed(rows[rank[rows] >= held])
    return (rest.missed(rows[rank[rows] >= held]) for rows in batches)


def next_uses(batches: Sequence[Rows], num_rows: int) -> list[np.ndarray]:
    """Of each row of each batch, the number of the next batch that has it, or how many batches there are."""
    when = np.full(num_rows, len(batches), np.int32)
    out = []
    for number in range(len(batches) - 1, -1, -1):
        out.append(when[batches[number]])
        when[batches[number]] = number
    return out[::-1]


def look_ahead(
    batches: Sequence[Rows], uses: Sequence[np.ndarray], known: int, rank: np.ndarray, capacity: int
) -> Iterator[Rows]:
    """What each batch misses. `uses`: of `next_uses`; `known`: batches after the one that is read."""
    unknown = np.int64(len(batches) + 1)
    known = min(known, len(batches))
    key = rank + unknown  # who has the highest goes first
    for number in range(known - 1, -1, -1):
        key[batches[number]] = number
    held = np.flatnonzero(rank < capacity)
    cached = rank < capacity
    for number, rows in enumerate(batches):
        if number + known < len(batches):
            seen = batches[number + known]
            key[seen[key[seen] >= unknown]] = number + known
        missed = rows[~cached[rows]]
        coming = uses[number]
        far = coming > min(number + known, len(batches) - 1)
        key[rows] = np.where(far, rank[rows] + unknown, coming)
        held = np.concatenate([held, missed])
        cached[missed] = True
        if len(held) > capacity:
            order = np.argpartition(key[held], capacity)
            cached[held[order[capacity:]]] = False
            held = held[order[:capacity]]
        yield missed


def unions(batches: Sequence[Rows], known: int, rank: np.ndarray, capacity: int) -> Iterator[Rows]:
    """What each group of batches misses together. Beside it, the rows most read are kept."""
    cached = rank < capacity
    at = 0
    while at < len(batches):
        wanted, count = _union(batches[at : at + known], len(rank), capacity)
        missed = np.flatnonzero(wanted & ~cached)
        room = max(0, capacity - int(wanted.sum()))
        others = np.flatnonzero(cached & ~wanted)
        if len(others) > room:
            cached[others[np.argpartition(rank[others], room)[room:]]] = False
        cached[missed] = True
        at += count
        yield missed


def _union(batches: Sequence[Rows], num_rows: int, capacity: int) -> tuple[np.ndarray, int]:
    """The rows of the first of these batches, and of as many more as fit beside them."""
    wanted = np.zeros(num_rows, bool)
    total, count = 0, 0
    for rows in batches:
        total += int((~wanted[rows]).sum())
        if count and total > capacity:
            break
        wanted[rows] = True
        count += 1
    return wanted, count
