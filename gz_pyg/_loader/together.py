"""Batches whose rows are read together: what `look_ahead=K` makes of the step that joins.

K batches are sampled; then their rows are read by one call of the engine, in order of place: a row that
several of them want is read once, and rows that lie side by side come with one read. The rows lie in one
block of memory, of which each batch has its part, so the block is there as long as one of the batches is.

A batch waits here until K of them do, and fewer where memory is short: half of those that have room, so that
a group is read while the one before it is used. The thread that trains never waits for more than are on their
way: what has been sampled by then is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from gz.adapter import BatchesAhead, ReadTogether, tensor_bytes
from gz_pyg._loader.epoch import OVER, Epoch, Stage, Work


class Together(Stage):
    """The step that joins, for up to ``most`` batches at once.

    Args:
        told: called with the number of batches whenever their rows were read at once.
    """

    def __init__(self, epoch: Epoch, memory: BatchesAhead, most: int, told: Callable[[int], None]):
        super().__init__(epoch.join, memory)
        self._epoch, self._most, self._told = epoch, most, told
        self._size = most  # of the next group
        self._waiting: deque[Work] = deque()  # sampled; without a lock, which a fork might find taken

    def __call__(self, work: Work) -> Work:
        self._let_go()
        if work.put_off:
            if self._memory.full_at is not None:
                self._size = self._half(self._memory.full_at)
        elif work.index is not OVER:
            self._waiting.append(work)
            self._size = max(self._size, self._half(self._memory.fit()))  # there is more room by now
        if work.index is OVER or work.needed or len(self._waiting) >= self._size:
            self.read()
        return work

    def _half(self, batches: int) -> int:
        return max(1, min(self._most, batches // 2))

    def read(self) -> None:
        """Makes the batches that wait here. From any thread."""
        group: list[Work] = []
        while self._waiting:
            try:
                group.append(self._waiting.popleft())
            except IndexError:  # another thread took it
                break
        if not group:
            return
        self._memory.reading(work.memory for work in group)
        try:
            parts = self._epoch.join_together(group)
        except BaseException:  # an interrupt
            self._waiting.extendleft(reversed(group))
            raise
        if parts is None:
            for work in group:
                self._note(work)
            return
        self._told(len(group))
        self._memory.made_together(
            [
                (
                    work.memory,
                    ReadTogether(max(tensor_bytes(work.batch), part.in_block), part.in_block, part.reading),
                )
                for work, part in zip(group, parts, strict=True)
            ]
        )
        for work in group:
            work.made = True
