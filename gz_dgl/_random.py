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

import functools
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from gz_dgl._dgl import dgl

_MASK = (1 << 64) - 1


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
            return _fold(*self.batch)
        if self.value is None:
            return int(torch.randint(-(1 << 63), (1 << 63) - 1, (), dtype=torch.int64)) & _MASK
        self.draws += 1
        return _fold(self.value, *self.process, self.draws)

    def for_child(self) -> tuple[int | None, tuple[int, ...]]:
        """The state of a new process: pickled with a graph, or inherited by a fork."""
        self.children += 1
        return self.value, (*self.process, self.children)

    def become(self, value: int | None, process: tuple[int, ...]) -> None:
        self.value, self.process, self.children, self.draws = value, process, 0, 0


def _fold(*names: int) -> int:
    """SplitMix64's finalizer over the names, one after the other."""
    key = 0
    for name in names:
        z = ((key ^ (name & _MASK)) + 0x9E3779B97F4A7C15) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        key = z ^ (z >> 31)
    return key


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
    torch.default_generator.manual_seed(_fold(epoch, number, 0) >> 1)
    np.random.seed(_fold(epoch, number, 1 << 32) & 0xFFFFFFFF)
    random.seed(_fold(epoch, number, 2 << 32))
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


def _follow_dgl_seed() -> None:
    """dgl.seed sets DGL's generator and cannot be asked for its seed afterwards: listen to the call."""
    module: Any = dgl.random
    original = module.seed
    if getattr(original, "_gz_follows", False):
        return

    @functools.wraps(original)
    def seed(val: int) -> None:
        original(val)
        _stream.seed(val)

    seed._gz_follows = True  # type: ignore[attr-defined]
    module.seed = seed
    setattr(dgl, "seed", seed)  # noqa: B010  mypy takes dgl for a plain module


_follow_dgl_seed()
