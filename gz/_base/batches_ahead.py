"""Batches made ahead, under the governor: one is begun only where there is room for it.

The engine's governor (csrc/memory) knows how much room the script leaves; this tells it what one iteration
wants, has begun and has made, and asks before the next.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gz import _engine

# A script has shown what it does with a batch when it comes back for the one after the next.
_KNOWN_AFTER = 2


@dataclass
class BatchSizes:
    """What is known of a loader's batches; kept from one iteration to the next."""

    largest: int = 0  # bytes
    taken: int = 0
    reading: int = 0  # bytes: the most that reading one together with others took besides


@dataclass(eq=False, slots=True)
class BatchAhead:
    """One of them: bytes it is expected to take while it is being made, then bytes it takes."""

    begun: int = 0
    there: int = 0
    in_block: int = 0  # of these: in a block of memory that it shares with others
    block: set[BatchAhead] | None = None  # those others that are not taken yet, and this one


@dataclass
class ReadTogether:
    """Of a batch whose rows were read with those of others: bytes it takes, those of them in the block of
    memory that they share, and bytes that reading it took besides."""

    size: int
    in_block: int
    reading: int


class BatchesAhead:
    """The batches that one iteration makes ahead.

    Args:
        depth: how many are wanted.
        sizes: of the loader; learned from here, too.
        together: whether several are read at once. Then none is begun beside another before the size of one
            is known: they would be too many to find out.
    """

    def __init__(self, depth: int, sizes: BatchSizes, together: bool = False):
        self._depth, self._sizes, self._together = depth, sizes, together
        self._lock = threading.Lock()
        self._wanted = 0  # bytes, as told to the governor
        self._batches: set[BatchAhead] = set()
        self._in_hand: BatchAhead | None = None  # of the script
        self.full_at: int | None = None
        self._want()

    def may_begin(self) -> bool:
        """Whether there is room for one more. If not, ``full_at`` says how many did ``fit``; it is None
        where nobody knows yet."""
        known = self._sizes.taken >= _KNOWN_AFTER
        unknown = self._together and not self._sizes.largest and bool(self._batches)
        room = not unknown and _engine.room_ahead(self._expected(), known)
        self.full_at = None if room or not known else self.fit()
        return room

    def fit(self) -> int:
        """How many like the largest what is begun and there would make."""
        with self._lock:
            return sum(b.begun + b.there for b in self._batches) // max(1, self._expected())

    def begin(self) -> BatchAhead:
        """Notes that one is begun."""
        batch = BatchAhead(self._expected())
        with self._lock:
            self._batches.add(batch)
            _engine.change_ahead(0, batch.begun, 0)
        return batch

    def made(self, batch: BatchAhead | None, size: int) -> None:
        """Notes that it takes so many bytes now. From any thread."""
        with self._lock:
            self._made(batch, size)
            self._want()

    def reading(self, batches: Iterable[BatchAhead | None]) -> None:
        """Notes that these are read now: from here on they take what was expected of them. Until they are
        made it would count as the script's, whose peaks are remembered, and a group is much."""
        with self._lock:
            for batch in batches:
                if batch is not None and batch in self._batches:
                    _engine.change_ahead(0, -batch.begun, batch.begun)
                    batch.there += batch.begun
                    batch.begun = 0

    def made_together(self, batches: Sequence[tuple[BatchAhead | None, ReadTogether]]) -> None:
        """Notes the same of several that share a block of memory, which is free when none of them is left."""
        with self._lock:
            block = {batch for batch, _ in batches if batch is not None and batch in self._batches}
            for batch, read in batches:
                self._made(batch, read.size)
                self._sizes.reading = max(self._sizes.reading, read.reading)
                if batch in block:
                    batch.in_block, batch.block = read.in_block, block
            self._want()

    def taken(self, batch: BatchAhead | None) -> None:
        """Notes that the script has it now, or that it came to nothing. One that lies in a block counts until
        the script has the next: what it has is the script's, but not the rest of the block."""
        with self._lock:
            self._sizes.taken += 1
            self._drop(self._in_hand)
            self._in_hand = batch if batch is not None and batch.block is not None else None
            if self._in_hand is None:
                self._drop(batch)

    def cancel(self, batch: BatchAhead) -> None:
        """Notes that nothing came of it."""
        with self._lock:
            self._drop(batch)

    def close(self) -> None:
        """Forgets what was not taken, and wants no more."""
        with self._lock:
            for batch in list(self._batches):
                self._drop(batch)
            self._depth = 0
            self._want()

    def __del__(self) -> None:
        self.close()

    def _expected(self) -> int:
        """Bytes that the next one will take."""
        return self._sizes.largest + self._sizes.reading

    def _made(self, batch: BatchAhead | None, size: int) -> None:
        if batch is None or batch not in self._batches:
            return
        _engine.change_ahead(0, -batch.begun, size - batch.there)
        batch.begun, batch.there = 0, size
        self._sizes.largest = max(self._sizes.largest, size)

    def _drop(self, batch: BatchAhead | None) -> None:
        if batch is None or batch not in self._batches:
            return
        self._batches.remove(batch)
        if batch.block is not None:
            batch.block.discard(batch)
            for heir in batch.block:  # its part of the block stays as long as one that has another
                heir.in_block += batch.in_block
                heir.there += batch.in_block
                batch.there -= batch.in_block
                break
        _engine.change_ahead(0, -batch.begun, -batch.there)

    def _want(self) -> None:
        wanted = self._depth * self._expected()
        if wanted != self._wanted:
            _engine.change_ahead(wanted - self._wanted, 0, 0)
            self._wanted = wanted


def tensor_bytes(value: Any) -> int:
    """Bytes of the arrays and tensors in a batch or a sample: in attributes, sequences and mappings."""
    if value is None or isinstance(value, str | int | float):
        return 0
    if isinstance(size := getattr(value, "nbytes", None), int):
        return size
    if isinstance(value, Mapping):
        return sum(map(tensor_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(tensor_bytes, value))
    if stores := getattr(value, "stores", None):  # of PyG's Data and HeteroData
        return sum(tensor_bytes(dict(store)) for store in stores)
    return sum(map(tensor_bytes, vars(value).values())) if hasattr(value, "__dataclass_fields__") else 0
