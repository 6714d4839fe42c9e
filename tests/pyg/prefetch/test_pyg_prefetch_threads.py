"""prefetch: when it is on, what its threads do meanwhile, and how they end."""

from __future__ import annotations

import gc
import pickle
import threading
import traceback

import pytest
import torch
from prefetch_batches import DEPTHS, same
from torch.utils.data import RandomSampler, Sampler
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.sampler import BaseSampler
from waits import PATIENCE, background, ended, until

import gz_pyg
from gz_pyg._loader import iterator as _iterator
from gz_pyg._loader.iterator import DEFAULT_PREFETCH


def depth_of(*args, **options):
    return gz_pyg.NeighborLoader(*args, **options)._depth()


def test_on_by_default_where_it_cannot_change_results(homo):
    for options in ({}, {"shuffle": True}, {"sampler": [3, 1]}, {"batch_sampler": [[3, 1], [2]]}):
        assert depth_of(homo, [3], **options) == DEFAULT_PREFETCH
    assert depth_of(homo, [3], prefetch=0) == 0
    assert depth_of(homo, [3], prefetch=5) == 5


def test_a_sampler_of_indices_that_may_draw_as_it_goes_turns_it_off(homogeneous):
    class Mine(Sampler):
        def __iter__(self):
            while True:
                yield int(torch.randint(100, ()))

    generator = torch.Generator()
    assert depth_of(homogeneous, [3], sampler=Mine()) == 0
    assert depth_of(homogeneous, [3], sampler=RandomSampler(range(100), True, generator=generator)) == 0
    assert depth_of(homogeneous, [3], sampler=RandomSampler(range(100), generator=generator)) > 0
    assert depth_of(homogeneous, [3], sampler=RandomSampler(range(100), True)) > 0
    assert depth_of(homogeneous, [3], sampler=Mine(), prefetch=2) == 2


class OtherSampler(BaseSampler):
    """Not one of ours; draws from torch's generator as it likes."""

    def __init__(self, data):
        self._ours = gz_pyg.NeighborSampler(data, [3])
        self.threads = []

    @property
    def edge_permutation(self):
        return self._ours.edge_permutation

    def sample_from_nodes(self, inputs, **_):
        self.threads.append(threading.current_thread())
        torch.rand(1)
        return self._ours.sample_from_nodes(inputs)

    def sample_from_edges(self, *_, **__):
        raise NotImplementedError


def test_a_sampler_of_the_users_own_turns_it_off_unless_asked_for(homogeneous):
    sampler = OtherSampler(homogeneous)
    options = {"neighbor_sampler": sampler, "batch_size": 50}
    list(gz_pyg.NeighborLoader(homogeneous, None, **options))
    assert set(sampler.threads) == {threading.main_thread()}
    list(gz_pyg.NeighborLoader(homogeneous, None, prefetch=1, **options))
    assert threading.main_thread() not in sampler.threads[2:]


def test_a_subclass_that_makes_its_own_batches(homogeneous):
    class Mine(gz_pyg.NeighborLoader):
        def filter_fn(self, out):
            data = super().filter_fn(out)
            data.mine = True
            return data

    for depth in (None, 0, 2):
        assert all(b.mine for b in Mine(homogeneous, [3], batch_size=25, prefetch=depth))
    assert Mine(homogeneous, [3])._depth() == 0


@pytest.mark.parametrize("bad", [-1, 1.5, True, "2"])
def test_a_prefetch_that_makes_no_sense(homogeneous, bad):
    with pytest.raises(ValueError, match="prefetch"):
        gz_pyg.NeighborLoader(homogeneous, [3], prefetch=bad)


def watch(loader):
    """Counts the samples that were begun."""
    counted = []
    original = loader._sample

    def sample(index):
        counted.append(threading.current_thread())
        return original(index)

    loader._sample = sample
    return counted


def idle(iterator):
    """Waits until the background has nothing left to do."""
    for task in iterator._waiting:
        task.wait()


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_never_more_batches_ahead_than_asked_for(homogeneous, depth):
    loader = gz_pyg.NeighborLoader(homogeneous, [3], batch_size=5, prefetch=depth)
    counted = watch(loader)
    iterator = iter(loader)
    assert not counted
    for taken in range(1, 21):
        next(iterator)
        idle(iterator)
        assert len(counted) == min(20, taken + depth)
    assert threading.main_thread() not in counted


def test_the_next_batch_is_made_while_the_consumer_is_busy(homogeneous_path):
    second = threading.Event()
    loader = gz_pyg.NeighborLoader(homogeneous_path, [3], batch_size=10, prefetch=1)
    original, joined = loader._joined, []

    def watching(*sampled):
        data = original(*sampled)
        joined.append(data)
        if len(joined) == 2:
            second.set()
        return data

    loader._joined = watching
    iterator = iter(loader)
    next(iterator)
    assert second.wait(PATIENCE)  # without next() being called again


def test_a_batch_is_sampled_while_another_is_joined(homogeneous_path):
    loader = gz_pyg.NeighborLoader(homogeneous_path, [3], batch_size=10, prefetch=2)
    sample, join, sampled = loader._sample, loader._joined, [threading.Event() for _ in range(10)]
    numbers = iter(range(10))
    joins = iter(range(10))

    def sampling(index):
        out = sample(index)
        sampled[next(numbers)].set()
        return out

    def joining(*given):
        if (number := next(joins)) + 1 < 10:
            assert sampled[number + 1].wait(PATIENCE), "joining keeps the next sample from being made"
        return join(*given)

    loader._sample, loader._joined = sampling, joining
    assert len(list(loader)) == 10


def test_pinning_is_asked_for_as_ever(homo):
    context = pytest.warns(UserWarning, match="accelerator")
    with context if not torch.cuda.is_available() else torch.no_grad():
        assert len(list(gz_pyg.NeighborLoader(homo, [3], batch_size=50, pin_memory=True, prefetch=2))) == 2


def test_batches_are_pinned_in_order_in_the_consumers_thread(homogeneous, monkeypatch):

    pinned = []

    def pin(batch, device):
        assert threading.current_thread() is threading.main_thread()
        pinned.append(batch.input_id[0].item())
        return batch

    monkeypatch.setattr(_iterator, "pin_memory", pin)
    iterator = iter(gz_pyg.NeighborLoader(homogeneous, [3], batch_size=10, prefetch=2))
    iterator._pin_memory = True
    assert [b.input_id[0].item() for b in iterator] == pinned == list(range(0, 100, 10))


def test_several_iterators_at_once(homo):
    seed_everything(3)
    loader = gz_pyg.NeighborLoader(homo, [3], batch_size=16, shuffle=True, prefetch=0)
    a, b = iter(loader), iter(loader)
    want = [x for pair in zip(a, b, strict=True) for x in pair]
    seed_everything(3)
    loader.prefetch = 3
    a, b = iter(loader), iter(loader)
    same(want, [x for pair in zip(a, b, strict=True) for x in pair])


def test_two_threads_with_a_loader_each(homo):
    def run(depth, made):
        generator = torch.Generator().manual_seed(4)
        loader = gz_pyg.NeighborLoader(
            homo, [4, 3], batch_size=8, shuffle=True, generator=generator, prefetch=depth
        )
        made.extend(b for _ in range(3) for b in loader)

    want = []
    run(0, want)
    results = [[] for _ in range(4)]
    threads = [threading.Thread(target=run, args=(2, made)) for made in results]
    for thread in threads:
        thread.start()
    ended(threads)
    for made in results:
        same(want, made)


def test_a_loader_pickles_in_mid_epoch(homo):
    loader = gz_pyg.NeighborLoader(homo, [3], batch_size=16, prefetch=3)
    iterator = iter(loader)
    next(iterator)
    twin = pickle.loads(pickle.dumps(loader))
    assert twin.prefetch == 3
    seed_everything(1)
    want = list(loader)
    seed_everything(1)
    same(want, list(twin))
    with pytest.raises(NotImplementedError):
        pickle.dumps(iterator)


def test_the_end_is_the_end(homogeneous):
    iterator = iter(gz_pyg.NeighborLoader(homogeneous, [3], batch_size=50, prefetch=4))
    assert len(iterator) == 2
    assert len(list(iterator)) == 2
    assert not background()  # waited for, at the end
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)


def test_an_empty_loader_and_an_iterator_never_used_start_nothing(homogeneous):
    empty = gz_pyg.NeighborLoader(homogeneous, [3], input_nodes=torch.empty(0, dtype=torch.int64))
    assert list(empty) == []
    iterator = iter(gz_pyg.NeighborLoader(homogeneous, [3]))
    assert not background()
    del iterator


def test_breaking_off_ends_the_threads(homo):
    loader = gz_pyg.NeighborLoader(homo, [3], batch_size=5)
    for _ in range(20):
        for _ in loader:
            threads = background()
            assert threads
            break
        ended(threads)  # nobody holds the iterator any more
    assert not background()


def test_a_generator_over_the_loader_may_be_closed(homogeneous):
    def generate():
        yield from gz_pyg.NeighborLoader(homogeneous, [3], batch_size=5)

    generator = generate()
    next(generator)
    threads = background()
    generator.close()
    ended(threads)


def test_a_loader_that_keeps_its_iterator_takes_it_along(homogeneous):
    class Keeping(gz_pyg.NeighborLoader):
        def __iter__(self):
            self.last = super().__iter__()
            return self.last

    def ended_by_collection():
        gc.collect()
        return not background()

    loader = Keeping(homogeneous, [3], batch_size=5, prefetch=2)
    next(iter(loader))
    assert background()
    del loader
    until(ended_by_collection, "the threads of a loader that is gone to end")


def test_an_error_in_the_loop_ends_the_threads(homogeneous):
    def loop():
        for _ in gz_pyg.NeighborLoader(homogeneous, [3], batch_size=5):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop()
    ended(background())


class Failing:
    """Fails for the batches whose first index is in `at`."""

    def __init__(self, function, at):
        self.function, self.at, self.calls = function, at, 0

    def __call__(self, *arguments):
        self.calls += 1
        if self.calls in self.at:
            raise LookupError(f"call {self.calls}")
        return self.function(*arguments)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("where", ["_sample", "_joined", "transform"])
def test_an_error_comes_with_the_batch_it_belongs_to(homogeneous, depth, where):
    loader = gz_pyg.NeighborLoader(homogeneous, [3], batch_size=10, prefetch=depth)
    function = getattr(loader, where) or (lambda batch: batch)
    setattr(loader, where, Failing(function, at={4, 6}))
    iterator, seen = iter(loader), []
    for number in range(1, 11):
        if number in (4, 6):
            with pytest.raises(LookupError, match=f"call {number}") as caught:
                next(iterator)
            frames = traceback.extract_tb(caught.value.__traceback__)
            assert frames[-1].line == 'raise LookupError(f"call {self.calls}")'
        else:
            seen.append(next(iterator).input_id[0].item())
    assert seen == [0, 10, 20, 40, 60, 70, 80, 90]
    with pytest.raises(StopIteration):
        next(iterator)


@pytest.mark.parametrize("depth", DEPTHS)
def test_an_error_of_the_sampler_of_indices_comes_in_its_turn(homogeneous, depth):
    def indices():
        yield [1]
        yield [2]
        raise LookupError("no third")

    class Indices:
        def __iter__(self):
            return indices()

    loader = gz_pyg.NeighborLoader(homogeneous, [3], batch_sampler=Indices(), prefetch=depth)
    iterator = iter(loader)
    assert [next(iterator).input_id.item() for _ in range(2)] == [1, 2]
    with pytest.raises(LookupError, match="no third"):
        next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


@pytest.mark.parametrize("depth", DEPTHS)
def test_an_index_out_of_range_is_an_error_in_its_turn(homogeneous, depth):
    loader = gz_pyg.NeighborLoader(homogeneous, [3], batch_sampler=[[1], [100], [2]], prefetch=depth)
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(IndexError, match="out of range"):
        next(iterator)
    assert next(iterator).input_id.tolist() == [2]


def test_a_changed_graph_in_memory_is_not_mistaken_for_an_error(homogeneous):
    """Attributes come and go while batches are joined; none of it may surface as an error or a wrong row."""
    data = Data(x=homogeneous.x, edge_index=homogeneous.edge_index)
    loader = gz_pyg.NeighborLoader(data, [3], batch_size=2, prefetch=4)
    for _ in range(5):
        for i, batch in enumerate(loader):
            assert torch.equal(batch.x, data.x[batch.n_id])
            assert ("z" in batch) == (i > 0 and i % 2 == 1)
            if i % 2 == 0:
                data.z = torch.full((100,), i)
            else:
                assert torch.equal(batch.z, data.z[batch.n_id])
                del data.z
        assert "z" not in data


def test_more_batches_ahead_than_anyone_could_hold(homogeneous):
    want = list(gz_pyg.NeighborLoader(homogeneous, [3], batch_size=5, prefetch=0))
    iterator = iter(gz_pyg.NeighborLoader(homogeneous, [3], batch_size=5, prefetch=2**60))
    first = next(iterator)
    assert len(iterator._waiting) <= 1024
    assert len([first, *iterator]) == len(want)
