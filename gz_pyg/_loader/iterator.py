"""Iteration over a loader without workers: the next batches are made in the background.

Two threads, so that one batch is sampled while the rows of the one before it are on their way from the disk:

    this thread   draws the indices of a batch and names it; later takes it, applies `transform`, pins memory
    sampling      indices -> SamplerOutput
    joining       SamplerOutput -> mini-batch with its features

At most `prefetch` batches are begun and not yet taken, and fewer where memory is short. With `prefetch=0`
this thread runs the same steps, so both give the same batches. What may draw from a generator of the user's,
or see the user's own objects, runs in this thread and in order: the samplers of indices, `transform`,
`transform_sampler_output`.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
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

from gz.adapter import BatchAhead, BatchesAhead, BatchSizes, Pipeline, Task, tensor_bytes
from gz_pyg._loader.batch import Joiner
from gz_pyg._loader.inputs import IndexSlice, ShuffledIndex, index_batches
from gz_pyg._random import batch_seed
from gz_pyg._sampler.base import EngineSampler
from gz_pyg._sampler.both_ways import BidirectionalNeighborSampler
from gz_pyg._sampler.hgt import HGTSampler
from gz_pyg._source.protocol import Source, State
from gz_pyg._source.resolve import as_source
from gz_pyg.sampler import NeighborSampler

DEFAULT_PREFETCH = 2

Modes = tuple[bool, bool]  # torch's, gradients and inference: they belong to a thread

_grad, _inference = torch.is_grad_enabled, torch.is_inference_mode_enabled
_profiled: Callable[[], bool] = getattr(torch.autograd, "_profiler_enabled", lambda: True)

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


class _Work:
    """A batch being made."""

    out: Any = None
    state: State | None = None  # of the data it was joined from
    places = True  # whether that data wants something of the batch on another device
    batch: Any = None
    error: Exception | None = None

    def __init__(self, number: int, index: Any, modes: Modes, memory: BatchAhead | None = None):
        self.number, self.index, self.modes = number, index, modes
        self.memory = memory  # what the governor knows of it


class _Epoch:
    """Makes the batches of one iteration, each from its number and indices alone."""

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

    def stages(self) -> list[Any]:
        return [self.sample, self.join] if self.joins_ahead else [self.sample]

    def sample(self, work: _Work) -> _Work:
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

    def join(self, work: _Work) -> _Work:
        # Joined from a copy of who is who in the data, so that the state told is the state used, however the
        # loop changes the data meanwhile.
        loader, (grad, inference) = self._loader, work.modes
        try:
            frozen = self._source.frozen()
            work.state, work.places = frozen.state(), frozen.places
            with torch.inference_mode(inference), torch.set_grad_enabled(grad):
                work.batch = loader._joined(work.out, frozen)
        except Exception as error:
            work.error = error  # raised when the batch is taken, unless the data has changed until then
        return work

    def finish(self, work: _Work, modes: Modes) -> Any:
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


class BatchIterator(_SingleProcessDataLoaderIter):
    """What ``iter(loader)`` gives without workers. Dropping it ends its threads."""

    def __init__(self, loader: Any, ahead: int):
        super().__init__(loader)
        self._epoch = _Epoch(loader, self._dataset_fetcher, int(self._base_seed))
        if not self._epoch.whole:
            self._sampler_iter = index_batches(self._index_sampler)
        self._ahead = ahead
        self._number = 0
        self._waiting: deque[Task] = deque()
        self._done: list[_Work] = []  # how batches that were taken were made
        self._pipeline: Pipeline | None = None
        if ahead:
            self._memory = BatchesAhead(ahead, loader.__dict__.setdefault("_batch_sizes", BatchSizes()))
            *first, last = (_counted(stage, self._memory) for stage in self._epoch.stages())
            self._pipeline = Pipeline(*first, _measured(last, self._memory, self._done))

    def __next__(self) -> Any:
        # torch's own tells the profiler of every batch: 0.15 ms, most of what a batch made ahead would cost.
        if _profiled():
            return super().__next__()
        batch = self._next_data()
        self._num_yielded += 1
        return batch

    def _next_data(self) -> Any:
        modes = _grad(), _inference()
        begun, pipeline = self._number, self._pipeline
        work = self._next_here(modes) if pipeline is None else self._next_ahead(pipeline, modes)
        batch = self._epoch.finish(work, modes)
        if pipeline is not None and work.batch is not None and self._number != begun:
            work.batch = None
            self._done.append(work)  # whoever makes the next one lets it go: it may take as long as all this
        return pin_memory(batch, self._pin_memory_device) if self._pin_memory else batch

    def _next_here(self, modes: Modes) -> _Work:
        work = _Work(self._number + 1, next(self._sampler_iter), modes)
        self._number = work.number
        for stage in self._epoch.stages():
            work = stage(work)
        return work

    def _next_ahead(self, pipeline: Pipeline, modes: Modes) -> _Work:
        waiting, memory = self._waiting, self._memory
        if not waiting and self._begin(pipeline, modes, memory.begin()):
            self._fill(pipeline, modes, self._ahead)
        if not waiting:
            pipeline.close()
            memory.close()
            raise StopIteration
        task = waiting[0]
        if not task.finished:
            task.wait()
        work = task.peek()
        if work is None:  # it failed, and is off the books
            self._fill(pipeline, modes, self._ahead + 1)
        elif len(waiting) > self._ahead:  # an interrupt came before this one was taken
            memory.taken(work.memory)
        elif (place := memory.renew(work.memory)) is not None and self._begin(pipeline, modes, place):
            self._fill(pipeline, modes, self._ahead + 1)
        waiting.popleft()  # only now: until here an interrupt loses nothing
        return task.result()

    def _fill(self, pipeline: Pipeline, modes: Modes, depth: int) -> None:
        while len(self._waiting) < depth and self._memory.may_begin():
            if not self._begin(pipeline, modes, self._memory.begin()):
                return

    def _begin(self, pipeline: Pipeline, modes: Modes, place: BatchAhead) -> bool:
        """Begins the next batch. False at the end of the epoch, or where its indices cannot be had."""
        try:
            index = next(self._sampler_iter)
        except BaseException as error:
            self._memory.cancel(place)
            if not isinstance(error, Exception):
                raise
            if not isinstance(error, StopIteration):
                self._waiting.append(Task.failed(error))  # its turn comes after the batches before it
            return False
        self._number += 1
        self._waiting.append(pipeline.submit(_Work(self._number, index, modes, place)))
        return True


class Prefetching:
    """The part of all loaders that is about iterating, whatever they start from."""

    data: Any
    prefetch: int | None
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
        known = type(self._sampler()) in _KNOWN and not self._is_customised()
        return DEFAULT_PREFETCH if known and draws_once(self._index_sampler) else 0  # type: ignore[attr-defined]


def checked_prefetch(prefetch: Any) -> int | None:
    if prefetch is None or (isinstance(prefetch, int) and not isinstance(prefetch, bool) and prefetch >= 0):
        return prefetch
    raise ValueError(
        f"prefetch is {prefetch!r}; give the number of batches to make ahead, 0 for none, or None to leave "
        f"the choice to the loader"
    )


def _counted(stage: Any, memory: BatchesAhead) -> Any:
    """`stage`; what it fails to make does not count as begun any more."""

    def run(work: _Work) -> _Work:
        try:
            return stage(work)
        except BaseException:
            memory.taken(work.memory)
            raise

    return run


def _measured(stage: Any, memory: BatchesAhead, done: list[_Work]) -> Any:
    """`stage`; the governor is told how large what it made is, and what is in `done` is let go."""

    def run(work: _Work) -> _Work:
        work = stage(work)
        memory.made(work.memory, tensor_bytes(work.out if work.batch is None else work.batch))
        done.clear()
        return work

    return run


def _items(fetcher: Any, index: Any) -> Any:
    """The items of a batch, as DataLoader looks them up."""
    dataset = fetcher.dataset
    if isinstance(index, IndexSlice):
        return index.tensor()  # item i of the loaders' datasets is i
    return [dataset[i] for i in index] if fetcher.auto_collation else dataset[index]
