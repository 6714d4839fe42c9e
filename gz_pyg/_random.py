"""Where a sample gets its random numbers from.

A loader without workers names every batch: its rng_seed is a function of (the epoch's seed, which the loader
draws from torch's generator when its iteration begins, and the number of the batch). So it does not matter
who makes a batch, when, and what else draws from torch's generator in between, dropout for one: `prefetch`
changes nothing. Everywhere else, in workers and in samplers used on their own, torch's generator is asked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gz.adapter import MASK, fold

_thread = threading.local()


class _Batch:
    """The random numbers of one batch."""

    def __init__(self, epoch_seed: int, number: int):
        self.name = epoch_seed & MASK, number
        self._key, self._draws = fold(*self.name), 0

    def next(self) -> int:
        self._draws += 1
        return fold(self._key, self._draws)


@contextmanager
def batch_seed(epoch_seed: int, number: int) -> Iterator[None]:
    """In this thread, samples are those of batch `number` of the epoch."""
    before = getattr(_thread, "batch", None)
    _thread.batch = _Batch(epoch_seed, number)
    try:
        yield
    finally:
        _thread.batch = before


def in_batch() -> bool:
    """Whether this thread makes a batch of an epoch."""
    return getattr(_thread, "batch", None) is not None


def batch_name() -> tuple[int, int] | None:
    """(the epoch's seed, the number) of the batch that this thread makes; None where it makes none."""
    batch = getattr(_thread, "batch", None)
    return None if batch is None else batch.name


def draw_rng_seed() -> int:
    """A new 64-bit rng_seed: of the batch being made, else from torch's generator."""
    batch = getattr(_thread, "batch", None)
    if batch is not None:
        return batch.next()
    return int(torch.empty((), dtype=torch.int64).random_()) & MASK
