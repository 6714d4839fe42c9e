"""Batches made ahead, under the governor: one is begun only where there is room for it.

The engine's governor (csrc/memory) knows how much room the script leaves; this tells it what one iteration
wants, has begun and has made, and asks before the next.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
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


@dataclass(eq=False, slots=True)
class BatchAhead:
    """One of them: bytes it is expected to take while it is being made, then bytes it takes."""

    begun: int = 0
    there: int = 0


class BatchesAhead:
    """The batches that one iteration makes ahead.

    Args:
        depth: how many are wanted.
        sizes: of the loader; learned from here, too.
    """

    def __init__(self, depth: int, sizes: BatchSizes):
        self._depth, self._sizes = depth, sizes
        self._lock = threading.Lock()
        self._wanted = 0  # bytes, as told to the governor
        self._batches: set[BatchAhead] = set()
        self._want()

    def may_begin(self) -> bool:
        """Whether there is room for one more."""
        return _engine.room_ahead(self._sizes.largest, self._sizes.taken >= _KNOWN_AFTER)

    def begin(self) -> BatchAhead:
        """Notes that one is begun."""
        batch = BatchAhead(self._sizes.largest)
        with self._lock:
            self._batches.add(batch)
            _engine.change_ahead(0, batch.begun, 0)
        return batch

    def made(self, batch: BatchAhead | None, size: int) -> None:
        """Notes that it takes so many bytes now. From any thread."""
        with self._lock:
            if batch is None or batch not in self._batches:
                return
            _engine.change_ahead(0, -batch.begun, size - batch.there)
            batch.begun, batch.there = 0, size
            self._sizes.largest = max(self._sizes.largest, size)
            self._want()

    def taken(self, batch: BatchAhead | None) -> None:
        """Notes that the script has it now, or that it came to nothing."""
        with self._lock:
            self._sizes.taken += 1
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

    def _drop(self, batch: BatchAhead | None) -> None:
        if batch is not None and batch in self._batches:
            self._batches.remove(batch)
            _engine.change_ahead(0, -batch.begun, -batch.there)

    def _want(self) -> None:
        wanted = self._depth * self._sizes.largest
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
