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
from dataclasses import dataclass
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
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import ImbalancedSampler
from torch_geometric.loader.base import DataLoaderIterator

from gz._background import Pipeline, Task
from gz._ram import free_ram
from gz_pyg._inputs import ShuffledIndex
from gz_pyg._random import batch_seed
from gz_pyg.data import StoreData
from gz_pyg.sampler import NeighborSampler

DEFAULT_PREFETCH = 2
# A batch is begun ahead while so many like it would still fit into the free memory: itself, what making it
# takes, and what the model makes of the one it trains on.
_ROOM = 4

_DRAW_ONCE = (SequentialSampler, SubsetRandomSampler, WeightedRandomSampler, ImbalancedSampler)


def draws_once(sampler: Any) -> bool:
    """Whether all that a sampler of indices takes from a shared generator it takes at its first index."""
    if type(sampler) is BatchSampler:
        return draws_once(sampler.sampler)
    if type(sampler) in (RandomSampler, ShuffledIndex):
        once = not sampler.replacement and sampler.num_samples <= len(sampler.data_source)
        return sampler.generator is None or once
    return type(sampler) in (*_DRAW_ONCE, DistributedSampler, list, tuple, range, torch.Tensor)


@dataclass
class _Work:
    """A batch being made."""

    number: int
    index: Any
    grad: bool  # torch's modes belong to a thread
    inference: bool
    out: Any = None
    source: Any = None  # the data it was joined from
    state: Any = None  # of that
    batch: Any = None
    error: Exception | None = None


class _Epoch:
    """Makes the batches of one iteration, each from its number and indices alone."""

    def __init__(self, loader: Any, fetcher: Any, seed: int):
        self._loader, self._fetcher, self._seed = loader, fetcher, seed
        self.whole = loader._is_customised()
        self.joins_ahead = (
            not self.whole
            and loader.filter_per_worker
            and loader.transform_sampler_output is None
            and isinstance(loader.data, (StoreData, Data, HeteroData))
            and not getattr(loader.data, "is_cuda", False)
        )

    def stages(self) -> list[Any]:
        return [self.sample, self.join] if self.joins_ahead else [self.sample]

    def sample(self, work: _Work) -> _Work:
        with (
            torch.inference_mode(work.inference),
            torch.set_grad_enabled(work.grad),
            batch_seed(self._seed, work.number),
        ):
            if self.whole:
                work.out = self._fetcher.fetch(work.index)
            else:
                work.out = self._loader._sample(_items(self._fetcher, work.index))
        return work

    def join(self, work: _Work) -> _Work:
        # Joined from a copy of who is who in the data, so that the state told is the state used, however the
        # loop changes the data meanwhile. It is kept: else a new tensor could have the address of an old one.
        loader = self._loader
        try:
            work.source = loader.data if isinstance(loader.data, StoreData) else copy.copy(loader.data)
            work.state = _state(work.source)
            with torch.inference_mode(work.inference), torch.set_grad_enabled(work.grad):
                work.batch = loader._joined(work.out, loader._join.on(work.source))
        except Exception as error:
            work.error = error  # raised when the batch is taken, unless the data has changed until then
        return work

    def finish(self, work: _Work) -> Any:
        loader = self._loader
        if self.whole or not loader.filter_per_worker:
            return work.out
        if not self.joins_ahead:
            return loader.filter_fn(work.out)
        if work.state is None or work.state != _state(loader.data) or not _same_modes(work, loader.data):
            work.batch = loader._joined(work.out)
        elif work.error is not None:
            error, work.error = work.error, None  # its traceback holds `work`
            raise error
        batch = work.batch
        return batch if loader.transform is None else loader.transform(batch)


class BatchIterator(_SingleProcessDataLoaderIter):
    """What ``iter(loader)`` gives without workers. Dropping it ends its threads."""

    def __init__(self, loader: Any, ahead: int):
        super().__init__(loader)
        self._epoch = _Epoch(loader, self._dataset_fetcher, int(self._base_seed))
        self._ahead = ahead
        self._number = 0
        self._waiting: deque[Task] = deque()
        self._largest = 0  # bytes of a batch so far
        self._pipeline = Pipeline(*self._epoch.stages()) if ahead else None

    def _next_data(self) -> Any:
        work = self._next_here() if self._pipeline is None else self._next_ahead(self._pipeline)
        batch = self._epoch.finish(work)
        return pin_memory(batch, self._pin_memory_device) if self._pin_memory else batch

    def _next_here(self) -> Any:
        work = self._new_work()
        for stage in self._epoch.stages():
            work = stage(work)
        return work

    def _next_ahead(self, pipeline: Pipeline) -> Any:
        if not self._waiting and self._begin(pipeline):
            self._fill(pipeline, self._ahead)
        if not self._waiting:
            pipeline.close()
            raise StopIteration
        task = self._waiting[0]
        task.wait()
        self._largest = max(self._largest, _size(getattr(task.peek(), "batch", None)))
        self._fill(pipeline, self._ahead + 1)
        return self._waiting.popleft().result()  # only now: until here an interrupt loses nothing

    def _fill(self, pipeline: Pipeline, depth: int) -> None:
        while len(self._waiting) < depth and free_ram() > _ROOM * self._largest:
            if not self._begin(pipeline):
                return

    def _begin(self, pipeline: Pipeline) -> bool:
        """Begins the next batch. False at the end of the epoch, or where its indices cannot be had."""
        try:
            work = self._new_work()
        except StopIteration:
            return False
        except Exception as error:
            self._waiting.append(Task.failed(error))  # its turn comes after the batches before it
            return False
        self._waiting.append(pipeline.submit(work))
        return True

    def _new_work(self) -> _Work:
        index = self._next_index()
        self._number += 1
        return _Work(self._number, index, torch.is_grad_enabled(), torch.is_inference_mode_enabled())


class Prefetching:
    """The part of both loaders that is about iterating."""

    prefetch: int | None
    num_workers: int
    filter_per_worker: bool

    def _get_iterator(self) -> Any:
        if self.num_workers > 0:
            return super()._get_iterator()  # type: ignore[misc]
        iterator = BatchIterator(self, self._depth())
        return iterator if self.filter_per_worker else DataLoaderIterator(iterator, self.filter_fn)  # type: ignore[attr-defined]

    def _depth(self) -> int:
        if self.prefetch is not None:
            return self.prefetch
        sampler = self._neighbor_sampler()  # type: ignore[attr-defined]
        known = type(sampler) is NeighborSampler and not self._is_customised()  # type: ignore[attr-defined]
        return DEFAULT_PREFETCH if known and draws_once(self._index_sampler) else 0  # type: ignore[attr-defined]


def checked_prefetch(prefetch: Any) -> int | None:
    if prefetch is None or (isinstance(prefetch, int) and not isinstance(prefetch, bool) and prefetch >= 0):
        return prefetch
    raise ValueError(
        f"prefetch is {prefetch!r}; give the number of batches to make ahead, 0 for none, or None to leave "
        f"the choice to the loader"
    )


def _size(batch: Any) -> int:
    """Bytes of a mini-batch; 0 for what is none."""
    stores = batch.stores if isinstance(batch, (Data, HeteroData)) else ()
    return sum(v.nbytes for s in stores for v in s.values() if isinstance(v, torch.Tensor))


def _items(fetcher: Any, index: Any) -> Any:
    """The items of a batch, as DataLoader looks them up."""
    dataset = fetcher.dataset
    return [dataset[i] for i in index] if fetcher.auto_collation else dataset[index]


def _state(data: Any) -> Any:
    """Changes whenever a tensor of the data is replaced or written to; None when it cannot be told."""
    try:
        if isinstance(data, StoreData):
            return data.feature_store._state()
        return [(i, k, id(v), _version(v)) for i, s in enumerate(data.stores) for k, v in list(s.items())]
    except RuntimeError:  # being changed right now
        return None


def _version(value: Any) -> Any:
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else 0


def _same_modes(work: _Work, data: Any) -> bool:
    """Rows of a tensor that needs gradients, or is to be used in inference mode, depend on torch's modes."""
    if isinstance(data, StoreData):
        return True
    return (work.grad, work.inference) == (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
