"""Iteration over a loader without workers: the next batches are made in the background.

Two threads, so that one batch is sampled while the rows of the one before it are on their way from the disk:

    this thread   hands over the number of a batch; later takes it, applies `transform`, pins memory
    sampling      number -> indices -> SamplerOutput
    joining       SamplerOutput -> mini-batch with its features; with `look_ahead`, of several at once

At most `prefetch` batches are begun and not yet taken, and fewer where memory is short: what there is no room
for is put off, in its place in the line, until there is, or until it is waited for. With `prefetch=0`
this thread runs the same steps, so both give the same batches. What may draw from a generator of the user's,
or see the user's own objects, runs in this thread and in order: `transform`, `transform_sampler_output`, and
samplers of indices, but for those of torch's and PyG's that draw no more after the first batch.
"""

from __future__ import annotations

import copy
from collections import deque
from types import MethodType
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter
from torch.utils.data.distributed import DistributedSampler
from torch_geometric.loader import ImbalancedSampler, LinkLoader, NodeLoader
from torch_geometric.loader.base import DataLoaderIterator
from torch_geometric.sampler import BaseSampler

from gz.adapter import BatchAhead, BatchesAhead, BatchSizes, Pipeline, Task
from gz_pyg._loader.batch import Joiner
from gz_pyg._loader.epoch import OVER, UNDRAWN, Epoch, Indices, Modes, Stage, Work
from gz_pyg._loader.inputs import ShuffledIndex, index_batches
from gz_pyg._loader.together import Together
from gz_pyg._sampler.base import EngineSampler
from gz_pyg._sampler.both_ways import BidirectionalNeighborSampler
from gz_pyg._sampler.hgt import HGTSampler
from gz_pyg._source.protocol import Source, State
from gz_pyg._source.resolve import as_source
from gz_pyg.sampler import NeighborSampler

DEFAULT_PREFETCH = 2
_MOST_PREFETCH = 1024  # whatever is asked for: each has its place in the line, made or not

_grad, _inference = torch.is_grad_enabled, torch.is_inference_mode_enabled
_profiler: Any = torch.autograd.profiler

# Samplers that draw from nothing but the batch's own random numbers.
_KNOWN = (NeighborSampler, BidirectionalNeighborSampler, HGTSampler)

_DRAW_ONCE = (SequentialSampler, SubsetRandomSampler, WeightedRandomSampler, ImbalancedSampler)


def draws_once(sampler: Any) -> bool:
    """Whether all that a sampler of indices takes from a shared generator it takes at its first index."""
    if type(sampler) is BatchSampler:
        return draws_once(sampler.sampler)
    if type(sampler) in (RandomSampler, ShuffledIndex):
        once = not sampler.replacement and sampler.num_samples <= len(sampler.data_source)
        return sampler.generator is None or once
    return type(sampler) in (*_DRAW_ONCE, DistributedSampler, list, tuple, range, torch.Tensor)


class BatchIterator(_SingleProcessDataLoaderIter):
    """What ``iter(loader)`` gives without workers. Dropping it ends its threads."""

    def __init__(self, loader: Any, ahead: int):
        super().__init__(loader)
        self._epoch = Epoch(loader, self._dataset_fetcher, int(self._base_seed))
        if not self._epoch.whole:
            self._sampler_iter = index_batches(self._index_sampler)
        together = min(self._epoch.together, _MOST_PREFETCH // 2) if ahead else 1
        # Of two groups all but the batch that the script has: one is read while the other is used.
        self._ahead = min(max(ahead, 2 * together - 1 if together > 1 else 0), _MOST_PREFETCH)
        self._number = 0
        self._waiting: deque[Task] = deque()
        self._done: list[Work] = []  # how batches that were taken were made
        self._pipeline: Pipeline | None = None
        self._together: Together | None = None
        if ahead:
            sizes = loader.__dict__.setdefault("_batch_sizes", BatchSizes())
            self._memory = BatchesAhead(self._ahead, sizes, together > 1)
            self._indices = Indices(self._sampler_iter, self._ahead + 1)
            self._put_off: list[Work] = []  # for want of room, since this was last looked at
            self._draws_here = not draws_once(self._index_sampler)
            stages = [Stage(step, self._memory) for step in self._epoch.stages()]
            if together > 1:
                self._together = Together(self._epoch, self._memory, together, loader._tally.read_together)
                stages[-1] = self._together
            stages[0].indices, stages[0].put_off = self._indices, self._put_off
            stages[-1].done = self._done
            self._pipeline = Pipeline(*stages)

    def __next__(self) -> Any:
        # torch's own tells the profiler of every batch: 0.15 ms, more than all else here.
        if getattr(_profiler, "_is_profiler_enabled", True):
            return super().__next__()
        batch = self._next_data()
        self._num_yielded += 1
        return batch

    def _next_data(self) -> Any:
        modes = _grad(), _inference()
        pipeline = self._pipeline
        if pipeline is None:
            batch = self._epoch.finish(self._next_here(modes), modes)
        else:
            work = self._next_ahead(pipeline, modes)
            batch = self._epoch.finish(work, modes)
            work.batch = None
            self._done.append(work)
        return pin_memory(batch, self._pin_memory_device) if self._pin_memory else batch

    def _next_here(self, modes: Modes) -> Work:
        work = Work(self._number + 1, next(self._sampler_iter), modes)
        self._number = work.number
        for stage in self._epoch.stages():
            work = stage(work)
        return work

    def _next_ahead(self, pipeline: Pipeline, modes: Modes) -> Work:
        waiting = self._waiting
        if not waiting:
            self._begin(pipeline, modes, needed=True)
            while len(waiting) < self._ahead:
                self._begin(pipeline, modes)
        task = waiting[0]
        if not task.finished:
            task.wait()
        work: Work | None = task.value
        if (
            work is None
            or (not work.made and not self._read_by_now(work))
            or self._put_off
            or len(waiting) != self._ahead  # an interrupt came before this one was taken
        ):
            return self._next_otherwise(pipeline, modes)
        self._begin(pipeline, modes, work.memory)
        waiting.popleft()  # only now: until here an interrupt loses nothing
        return work

    def _read_by_now(self, work: Work) -> bool:
        """Whether the batch is made after those were sampled that it may be read together with."""
        if self._together is None or work.put_off or work.index is OVER:
            return False
        for task in self._waiting:
            task.wait()
            if work.made:
                return True
        self._together.read()
        return work.made

    def _next_otherwise(self, pipeline: Pipeline, modes: Modes) -> Work:
        """The next batch, after a failure, at the end, or where there was no room for all."""
        waiting = self._waiting
        work: Work | None = waiting[0].value
        if work is not None and work.put_off:
            work.needed = True
            waiting[0] = pipeline.submit(work)
            waiting[0].wait()
            work = waiting[0].value
        if work is not None and work.index is OVER:
            pipeline.close()
            self._memory.close()
            self._done.clear()
            raise StopIteration
        if work is not None:  # what failed is off the books
            self._memory.taken(work.memory)
        self._put_off.clear()
        for i, task in enumerate(waiting):
            other: Work | None = task.value if task.finished else None
            if other is not None and other.put_off:
                waiting[i] = pipeline.submit(other)  # there may be room by now
        if len(waiting) <= self._ahead:
            self._begin(pipeline, modes)
        return waiting.popleft().result()

    def _begin(
        self, pipeline: Pipeline, modes: Modes, taken: BatchAhead | None = None, needed: bool = False
    ) -> None:
        """Hands over the next batch to be made; `taken` is one that the script has now."""
        number, index = self._number + 1, UNDRAWN
        if (
            self._draws_here or number == 1
        ):  # with the first, all that is drawn from a generator of the user's
            try:
                index = self._indices.of(number)
            except Exception as error:
                self._number = number
                self._waiting.append(Task.failed(error))  # its turn comes after the batches before it
                return
        self._waiting.append(pipeline.submit(Work(number, index, modes, needed, taken)))
        self._number = number


class Prefetching:
    """The part of all loaders that is about iterating, whatever they start from."""

    data: Any
    prefetch: int | None
    look_ahead: int | None
    num_workers: int
    collate_fn: Any
    transform: Any
    transform_sampler_output: Any
    custom_cls: Any
    persistent_workers: bool
    filter_per_worker: bool
    _source: Source
    _iterator: Any
    _join: Joiner
    _sampler_name: str  # the attribute that holds it
    _workers_know: State | None = None  # the state of the data when persistent workers were started

    def __copy__(self) -> Any:
        """A loader of the same data, with a sampler of its own: its ``num_neighbors`` may be changed."""
        other = self.__class__.__new__(self.__class__)
        other.__dict__.update(self.__dict__, _iterator=None)
        collate = self.__dict__.get("collate_fn")
        if getattr(collate, "__self__", None) is self:
            other.__dict__["collate_fn"] = MethodType(collate.__func__, other)  # type: ignore[union-attr]
        sampler = copy.copy(self._sampler())
        setattr(other, self._sampler_name, sampler)
        other._join = Joiner(sampler, self.custom_cls)
        return other

    def filter_fn(self, out: Any) -> Any:
        """As PyG's: joins the sample ``out`` with its features."""
        if self.transform_sampler_output:
            out = self.transform_sampler_output(out)
        data = self._joined(out)  # type: ignore[attr-defined]
        if torch.utils.data.get_worker_info() is None:
            data = self._source.place(data)
        return data if self.transform is None else self.transform(data)

    def _sampler(self) -> BaseSampler:
        return getattr(self, self._sampler_name)

    def _is_customised(self) -> bool:
        """Whether a subclass, or a function set afterwards, makes the batches in its own way."""
        collate = getattr(self.collate_fn, "__func__", None)
        ours = collate in (NodeLoader.collate_fn, LinkLoader.collate_fn)
        return not ours or type(self).filter_fn is not Prefetching.filter_fn

    def __iter__(self) -> Any:
        if self.data is not self._source.data:
            self._source = as_source(self.data)
        if self.persistent_workers and self.num_workers > 0:
            now = self._source.state()
            if self._iterator is not None and now != self._workers_know:
                self._iterator = None  # their data is out of date: new ones are started
            self._workers_know = now
        return super().__iter__()  # type: ignore[misc]

    def _get_iterator(self) -> Any:
        self._source.check()
        sampler = self._sampler()
        if isinstance(sampler, EngineSampler):
            sampler.refresh()
        if self.num_workers > 0:
            iterator = super()._get_iterator()  # type: ignore[misc]
            if self.filter_per_worker and not self._is_customised():
                iterator = DataLoaderIterator(iterator, self._source.place)
            return iterator
        iterator = BatchIterator(self, self._depth())
        return iterator if self.filter_per_worker else DataLoaderIterator(iterator, self.filter_fn)

    @property
    def num_neighbors(self) -> Any:
        """Of its sampler. A change takes effect when the next epoch begins, or ``prefetch`` batches later."""
        return self._sampler().num_neighbors  # type: ignore[attr-defined]

    @num_neighbors.setter
    def num_neighbors(self, num_neighbors: Any) -> None:
        self._sampler().num_neighbors = num_neighbors  # type: ignore[attr-defined]

    def _depth(self) -> int:
        if self.prefetch is not None:
            return self.prefetch
        if self.look_ahead is not None:
            return DEFAULT_PREFETCH
        known = type(self._sampler()) in _KNOWN and not self._is_customised()
        return DEFAULT_PREFETCH if known and draws_once(self._index_sampler) else 0  # type: ignore[attr-defined]


def checked_prefetch(prefetch: Any) -> int | None:
    if prefetch is None or (isinstance(prefetch, int) and not isinstance(prefetch, bool) and prefetch >= 0):
        return prefetch
    raise ValueError(
        f"prefetch is {prefetch!r}; give the number of batches to make ahead, 0 for none, or None to leave "
        f"the choice to the loader"
    )


def checked_look_ahead(look_ahead: Any, prefetch: int | None, num_workers: int) -> int | None:
    if look_ahead is None:
        return None
    if not isinstance(look_ahead, int) or isinstance(look_ahead, bool) or look_ahead < 1:
        raise ValueError(
            f"look_ahead is {look_ahead!r}; give the number of batches whose rows are to be read together, "
            f"or None to read them batch by batch"
        )
    if num_workers:
        raise ValueError(
            f"look_ahead={look_ahead} with num_workers={num_workers}: it is the loader's own threads that "
            f"read batches together; leave num_workers at 0, or look_ahead out"
        )
    if prefetch == 0:
        raise ValueError(
            f"look_ahead={look_ahead} with prefetch=0: batches that are read together are made ahead; leave "
            f"one of the two out"
        )
    return look_ahead
