"""How many rows a cache of a given size misses in a stream of batches: SIEVE, simulated on a part of the ids.

The engine's row cache is SIEVE (csrc/cache). Of the ids only those are followed whose hash falls below a
threshold, in a cache smaller by the same factor ("SHARDS", Waldspurger et al. 2015): the share of misses is
that of the whole, at a hundredth of the work and of the memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_FOLLOWED = 400_000  # ids, over all batches: a second of Python
_HASH = np.uint64(0x9E3779B97F4A7C15)


class Sieve:
    """Who is in the cache. `hand` goes along a queue of slots for one not asked for since it last came by."""

    def __init__(self, size: int):
        self._size = size
        self._slot: dict[int, int] = {}
        self._ids: list[int] = []
        self._visited = bytearray(size)
        self._next: list[int] = []  # of the slot, towards newer ones
        self._hand = self._before_hand = -1  # -1: past the newest, so it begins at the oldest
        self._newest = -1
        self._oldest = -1

    def ask(self, row: int) -> bool:
        """Whether it was there. It is afterwards."""
        slot = self._slot.get(row)
        if slot is not None:
            self._visited[slot] = 1
            return True
        if self._size:
            self._insert(row)
        return False

    def _insert(self, row: int) -> None:
        if len(self._ids) < self._size:
            slot = len(self._ids)
            self._ids.append(row)
            self._next.append(-1)
        else:
            slot = self._evict()
            self._ids[slot] = row
        self._slot[row] = slot
        self._visited[slot] = 0
        self._next[slot] = -1
        if self._newest >= 0 and self._newest != slot:
            self._next[self._newest] = slot
        self._newest = slot
        if self._oldest < 0:
            self._oldest = slot

    def _evict(self) -> int:
        """Takes a slot out of the queue. The hand goes from old to new and begins again at the oldest."""
        before, at = self._before_hand, self._hand
        if at < 0:
            before, at = -1, self._oldest
        while self._visited[at]:
            self._visited[at] = 0
            before, at = at, self._next[at]
            if at < 0:
                before, at = -1, self._oldest
        after = self._next[at]
        if before < 0:
            self._oldest = after
        else:
            self._next[before] = after
        if at == self._newest:
            self._newest = before
        self._before_hand, self._hand = before, after
        del self._slot[self._ids[at]]
        return at


class Followed:
    """A stream of batches of ids, of which only a part is kept.

    Args:
        batches: how many there may be at most.
    """

    def __init__(self, batches: int):
        self._most = batches
        self._rate: float | None = None
        self._kept: list[list[int]] = []
        self.asked = 0

    def add(self, ids: NDArray[np.int64]) -> None:
        """The next batch: distinct ids."""
        if self._rate is None:
            self._rate = min(1.0, _FOLLOWED / max(1, len(ids) * self._most))
        threshold = np.uint64(int(self._rate * 2.0**32))
        hashed = ids.astype(np.uint64) * _HASH >> np.uint64(32)
        self._kept.append(ids[hashed < threshold].tolist())
        self.asked += len(ids)

    @property
    def mean(self) -> float:
        """Ids of a batch."""
        return self.asked / max(1, len(self._kept))

    def miss_rate(self, capacity: int) -> float:
        """Misses for each id asked for, at the end of the stream, in a cache of `capacity` that was empty at
        first. Counted is the last third of the batches."""
        if capacity <= 0 or self._rate is None:
            return 1.0
        sieve = Sieve(max(1, round(capacity * self._rate)))
        counted_from = len(self._kept) - max(1, len(self._kept) // 3)
        hits = rows = 0
        for number, ids in enumerate(self._kept):
            found = sum(map(sieve.ask, ids))
            if number >= counted_from:
                hits, rows = hits + found, rows + len(ids)
        return 1.0 - hits / rows if rows else 1.0
