"""How the batches of one iteration are made: each from its number, its indices and the modes of torch alone.

With batches made ahead a batch goes through these steps, in two threads of the background:

    begin    draws its indices, where that asks no generator of the user's; puts it off where there is no room
    sample   indices -> SamplerOutput
    join     SamplerOutput -> mini-batch with its features, or several at once (`together.py`)

The thread that trains only hands over a `Work` and takes it back: what it does for a batch is time that the
model does not have.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from gz.adapter import BatchAhead, BatchesAhead, tensor_bytes
from gz_pyg._loader.inputs import IndexSlice
from gz_pyg._random import batch_seed
from gz_pyg._source.protocol import NodeKey, Part, Source, State

Modes = tuple[bool, bool]  # torch's, gradients and inference: they belong to a thread

# In place of the indices of a batch.
UNDRAWN: Any = object()  # whoever samples it draws them
OVER: Any = object()  # there are none: the epoch has ended


class Work:
    """A batch being made."""

    __slots__ = (
        "batch", "error", "index", "made", "memory", "modes", "needed", "number", "out", "places", "put_off",
        "state", "taken",
    )  # fmt: skip

    def __init__(
        self, number: int, index: Any, modes: Modes, needed: bool = True, taken: BatchAhead | None = None
    ):
        self.number, self.index, self.modes = number, index, modes
        self.needed = needed  # whether it is to be made whatever room there is
        self.taken = taken  # one before it, which the script has now
        self.made = False  # whether it was, as far as it can be ahead
        self.put_off = False  # whether there was no room for it
        self.memory: BatchAhead | None = None  # what the governor knows of it
        self.out: Any = None
        self.state: State | None = None  # of the data it was joined from
        self.places = True  # whether that data wants something of the batch on another device
        self.batch: Any = None
        self.error: Exception | None = None


class Indices:
    """The indices of the batches, by number: drawn in order, whichever thread asks for which first.

    After a fork the child makes itself what it inherited unfinished, and may begin a later one before.

    Args:
        batches: of indices, in order.
        last: how many batches may be asked for again, or late.
    """

    def __init__(self, batches: Iterator[Any], last: int):
        self._batches, self._last = batches, last
        self._lock = threading.Lock()
        self._drawn = 0
        self._kept: dict[int, Any] = {}

    def of(self, number: int) -> Any:
        """Those of a batch; OVER after the last. Raises what drawing them raised."""
        with self._lock:
            while self._drawn < number:
                try:
                    index = next(self._batches, OVER)
                except Exception as error:
                    index = error
                self._kept[self._drawn + 1] = index
                self._drawn += 1
                self._kept.pop(self._drawn - self._last, None)
            index = self._kept[number]
        if isinstance(index, Exception):
            raise index
        return index


class Epoch:
    """Makes the batches of one iteration."""

    def __init__(self, loader: Any, fetcher: Any, seed: int):
        self._loader, self._fetcher, self._seed = loader, fetcher, seed
        self._source: Source = loader._source
        self.whole = loader._is_customised()
        self.joins_ahead = (
            not self.whole
            and loader.filter_per_worker
            and loader.transform_sampler_output is None
            and self._source.state() is not None
            and self._source.joins_anywhere
        )
        # How many batches are read together.
        self.together = loader.look_ahead or 1
        if self.together > 1 and not (self.joins_ahead and self._source.reads_by_row):
            self.together = 1

    def stages(self) -> list[Any]:
        return [self.sample, self.join] if self.joins_ahead else [self.sample]

    def sample(self, work: Work) -> Work:
        grad, inference = work.modes
        with (
            torch.inference_mode(inference),
            torch.set_grad_enabled(grad),
            batch_seed(self._seed, work.number),
        ):
            if self.whole:
                work.out = self._fetcher.fetch(work.index)
            else:
                work.out = self._loader._sample(_items(self._fetcher, work.index))
        return work

    def join(self, work: Work, frozen: Source | None = None, state: State | None = None) -> Work:
        # Joined from a copy of who is who in the data, so that the state told is the state used, however the
        # loop changes the data meanwhile.
        loader, (grad, inference) = self._loader, work.modes
        try:
            if frozen is None:
                frozen = self._source.frozen()
                state = frozen.state()
            work.state, work.places = state, frozen.places
            with torch.inference_mode(inference), torch.set_grad_enabled(grad):
                work.batch = loader._joined(work.out, frozen)
        except Exception as error:
            work.error = error  # raised when the batch is taken, unless the data has changed until then
        return work

    def join_together(self, group: list[Work]) -> list[Part] | None:
        """Joins several; None where that was done one by one."""
        try:
            frozen = self._source.frozen()
            state = frozen.state()  # before anything is read
            parts = frozen.together([*map(_nodes, group)]) if len(group) > 1 else None
        except Exception:
            parts = None  # what fails is to fail for the batch that it belongs to, and no other
        if parts is None:
            for work in group:
                self.join(work)
            return None
        for work, part in zip(group, parts, strict=True):
            self.join(work, part.source, state)
        return parts

    def finish(self, work: Work, modes: Modes) -> Any:
        loader = self._loader
        loader._tally.batches += 1
        if self.whole or not loader.filter_per_worker:
            return work.out
        if not self.joins_ahead:
            return loader.filter_fn(work.out)
        if work.modes != modes or work.state is None or not self._source.is_still(work.state):
            work.batch, work.places = loader._joined(work.out), True
        elif work.error is not None:
            error, work.error = work.error, None  # its traceback holds `work`
            raise error
        batch = self._source.place(work.batch) if work.places else work.batch
        return batch if loader.transform is None else loader.transform(batch)


class Stage:
    """A step of an epoch, for batches made ahead under the governor.

    Attributes:
        indices: the first step has them: it begins a batch.
        put_off: there it says what it had no room for.
        done: of the last step: how batches that were taken were made. They are let go here, for that may take
            as long as all that the thread that trains has to do.
    """

    def __init__(self, step: Callable[[Work], Work], memory: BatchesAhead):
        self._step, self._memory = step, memory
        self.indices: Indices | None = None
        self.put_off: list[Work] = []
        self.done: list[Work] | None = None

    def __call__(self, work: Work) -> Work:
        try:
            if self.indices is not None:
                self._begin(work, self.indices)
            if work.index is not OVER and not work.put_off:
                if self.done is not None:
                    self._memory.reading((work.memory,))
                work = self._step(work)
                if self.done is not None:
                    self._note(work)
        except BaseException:
            self._memory.taken(work.memory)  # what came to nothing does not count as begun
            raise
        self._let_go()
        return work

    def _note(self, work: Work) -> None:
        self._memory.made(work.memory, tensor_bytes(work.out if work.batch is None else work.batch))
        work.made = True

    def _let_go(self) -> None:
        if self.done is not None:
            self.done.clear()

    def _begin(self, work: Work, indices: Indices) -> None:
        taken, work.taken = work.taken, None
        if taken is not None:
            self._memory.taken(taken)
        if work.index is UNDRAWN:
            work.index = indices.of(work.number)
        if work.index is OVER or work.memory is not None:  # begun: before a fork, by the parent
            return
        work.put_off = not (work.needed or self._memory.may_begin())
        if work.put_off:
            self.put_off.append(work)
        else:
            work.memory = self._memory.begin()


def _nodes(work: Work) -> dict[NodeKey, Tensor]:
    """Those that were sampled, by type."""
    node = work.out.node
    return node if isinstance(node, dict) else {None: node}


def _items(fetcher: Any, index: Any) -> Any:
    """The items of a batch, as DataLoader looks them up."""
    dataset = fetcher.dataset
    if isinstance(index, IndexSlice):
        return index.tensor()  # item i of the loaders' datasets is i
    return [dataset[i] for i in index] if fetcher.auto_collation else dataset[index]
