"""Where a batch gets its rng_seed from.

Until dgl.seed is called: torch's generator, so that torch.manual_seed and seed_everything make a run
reproducible, and so that DataLoader workers, whom torch seeds one by one, differ. Once dgl.seed(v) has been
called, it rules, as it does in DGL: the n-th draw of a process is a function of (v, process, n). A process is
numbered by how many were forked or pickled for since dgl.seed, so every worker of every epoch has a stream of
its own and the same one in the next run.

gz_dgl.prefetch names its batches instead: inside named_batch(), what this module and torch's, numpy's and
Python's generators give is a function of (epoch, number) alone, and all of them are put back afterwards.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from gz.adapter import MASK, fold
from gz_dgl._dgl import dgl
from gz_dgl._redirect import redirect


class _Stream:
    def __init__(self) -> None:
        self.value: int | None = None  # of dgl.seed
        self.process: tuple[int, ...] = ()
        self.children = 0
        self.draws = 0
        self.batch: list[int] | None = None  # (epoch, number, draws) inside a named batch

    def seed(self, value: int) -> None:
        self.value, self.children, self.draws = int(value), 0, 0

    def next(self) -> int:
        if self.batch is not None:
            self.batch[-1] += 1
            return fold(0, *self.batch)
        if self.value is None:
            return int(torch.randint(-(1 << 63), (1 << 63) - 1, (), dtype=torch.int64)) & MASK
        self.draws += 1
        return fold(0, self.value, *self.process, self.draws)

    def for_child(self) -> tuple[int | None, tuple[int, ...]]:
        """The state of a new process: pickled with a graph, or inherited by a fork."""
        self.children += 1
        return self.value, (*self.process, self.children)

    def become(self, value: int | None, process: tuple[int, ...]) -> None:
        self.value, self.process, self.children, self.draws = value, process, 0, 0


_stream = _Stream()
_pending: tuple[int | None, tuple[int, ...]] | None = None


def next_seed() -> int:
    """A new 64-bit rng_seed."""
    return _stream.next()


@contextmanager
def named_batch(epoch: int, number: int) -> Iterator[None]:
    """Draws are those of batch `number` of an epoch; afterwards it is as if none had been made."""
    states = torch.default_generator.get_state(), np.random.get_state(), random.getstate()
    before, _stream.batch = _stream.batch, [epoch, number, 0]
    torch.default_generator.manual_seed(fold(0, epoch, number, 0) >> 1)
    np.random.seed(fold(0, epoch, number, 1 << 32) & 0xFFFFFFFF)
    random.seed(fold(0, epoch, number, 2 << 32))
    try:
        yield
    finally:
        _stream.batch = before
        torch.default_generator.set_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])


def child_state() -> tuple[int | None, tuple[int, ...]]:
    return _stream.for_child()


def adopt_state(state: tuple[int | None, tuple[int, ...]]) -> None:
    """In a spawned process, when a graph is unpickled: go on as the parent's n-th child."""
    if state[0] is not None and _stream.value is None:
        _stream.become(*state)


def _before_fork() -> None:
    global _pending
    _pending = _stream.for_child()


def _in_child() -> None:
    if _pending is not None:
        _stream.become(*_pending)


os.register_at_fork(before=_before_fork, after_in_child=_in_child)


def _listening(original: Any) -> Any:
    """dgl.seed sets DGL's generator and cannot be asked for its seed afterwards: listen to the call."""

    def seed(val: int) -> None:
        original(val)
        _stream.seed(val)

    return seed


redirect(dgl.random.seed, _listening)
