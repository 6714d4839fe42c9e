"""prefetch: batches made ahead in background threads are the batches the loader makes without them."""

from __future__ import annotations

import pickle
import threading
import traceback

import pytest
import torch
from torch.utils.data import RandomSampler, Sampler
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv
from torch_geometric.sampler import BaseSampler

import gz_pyg
from gz_pyg import _iterator
from gz_pyg._iterator import DEFAULT_PREFETCH

DEPTHS = [0, 1, 2, 4]


def flat(batch):
    """Every tensor and number of a mini-batch, by name."""
    found = {}
    for store in batch.stores:
        for key, value in store.items():
            found[store._key if hasattr(store, "_key") else None, key] = value
    return found


def same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        x, y = flat(x), flat(y)
        assert x.keys() == y.keys()
        for key in x:
            if isinstance(x[key], torch.Tensor):
                assert torch.equal(x[key], y[key]), key
            else:
                assert x[key] == y[key], key


def background():
    return [t for t in threading.enumerate() if t.name.startswith("gz-ahead")]


def wait_for_the_end_of(threads):
    for thread in threads:
        thread.join(timeout=60)
    assert not [t for t in threads if t.is_alive()]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(background())
    yield
    wait_for_the_end_of(set(background()) - before)


# ---- the same results ----


class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.first, self.second = SAGEConv(features, 16), SAGEConv(16, 5)

    def forward(self, x, edge_index):
        x = torch.nn.functional.dropout(self.first(x, edge_index).relu(), 0.5, self.training)
        return self.second(x, edge_index)


def losses(data, **options):
    """Dropout draws from torch's generator between the batches."""
    seed_everything(11)
    loader = gz_pyg.NeighborLoader(data, [4, 3], batch_size=16, shuffle=True, **options)
    model = Model(8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    curve = []
    for _ in range(3):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
            curve.append(loss.item())
    return curve


def test_the_loss_curve_with_dropout_is_bit_identical(homo):
    want = losses(homo, prefetch=0)
    assert len(want) == 3 * 7
    assert want[0] > want[-1]
    for depth in [None, *DEPTHS[1:]]:
        assert losses(homo, prefetch=depth) == want


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"disjoint": True, "replace": True},
        {"subgraph_type": "induced"},
        {"subgraph_type": "bidirectional"},
        {"time_attr": "time", "input_time": torch.arange(100)},
        {"weight_attr": "weight"},
        {"filter_per_worker": False},
        {"drop_last": True},
    ],
    ids=lambda o: "+".join(o) or "plain",
)
def test_nodes(homo, options):
    def batches(depth):
        seed_everything(3)
        return list(
            gz_pyg.NeighborLoader(homo, [4, 3], batch_size=16, shuffle=True, prefetch=depth, **options)
        )

    want = batches(0)
    for depth in DEPTHS[1:]:
        same(want, batches(depth))


def test_several_types(hetero):
    def batches(depth):
        seed_everything(3)
        return list(
            gz_pyg.NeighborLoader(
                hetero, [4, 3], input_nodes="paper", batch_size=16, shuffle=True, prefetch=depth
            )
        )

    want = batches(0)
    for depth in DEPTHS[1:]:
        same(want, batches(depth))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"neg_sampling": "binary"},
        {"neg_sampling": "triplet"},
        {"neg_sampling": {"mode": "binary", "amount": 2, "src_weight": torch.arange(100.0)}},
        {"neg_sampling": "binary", "time_attr": "time", "edge_label_time": torch.arange(600)},
    ],
    ids=["plain", "binary", "triplet", "weighted", "temporal"],
)
def test_links(homo, options):
    def batches(depth, draws=0):
        seed_everything(3)
        loader = gz_pyg.LinkNeighborLoader(
            homo, [4, 3], batch_size=100, shuffle=True, prefetch=depth, **options
        )
        made = []
        for batch in loader:
            torch.rand(draws)
            made.append(batch)
        return made

    want = batches(0)
    for depth in DEPTHS:
        same(want, batches(depth, draws=depth + 1))


def test_negatives_are_drawn_anew_for_every_batch_and_from_all_nodes(homogeneous):
    loader = gz_pyg.LinkNeighborLoader(homogeneous, [1], batch_size=60, neg_sampling="binary")
    drawn = [b.n_id[b.edge_label_index[:, 60:]] for b in (*loader, *loader)]
    assert len({tuple(d.view(-1).tolist()) for d in drawn}) == 20
    counts = torch.stack(drawn).view(-1).bincount(minlength=100).double()
    assert counts.sum() == 2400
    # 99 degrees of freedom: 1 in 100,000 exceeds 165.
    assert ((counts - 24) ** 2 / 24).sum() < 165


def test_what_the_loop_draws_changes_no_batch(homogeneous):
    def batches(draws, depth):
        seed_everything(3)
        made = []
        for batch in gz_pyg.NeighborLoader(homogeneous, [4, 3], batch_size=16, shuffle=True, prefetch=depth):
            torch.rand(draws)
            made.append(batch)
        return made

    want = batches(0, 0)
    for depth in DEPTHS:
        same(want, batches(7, depth))


def test_batches_and_epochs_differ_from_each_other(homogeneous):
    loader = gz_pyg.NeighborLoader(homogeneous, [3], batch_sampler=[list(range(100))] * 5)
    drawn = {tuple(b.e_id.tolist()) for _ in range(3) for b in loader}
    assert len(drawn) == 15


@pytest.mark.parametrize("taken", [1, 3, 7])
def test_torchs_generator_moves_alike(homogeneous, taken):
    def after(depth):
        seed_everything(5)
        loader = gz_pyg.LinkNeighborLoader(
            homogeneous, [4], batch_size=80, shuffle=True, neg_sampling="binary", prefetch=depth
        )
        iterator = iter(loader)
        first = torch.rand(1)  # the order is drawn at the first batch, not at iter()
        for _ in range(taken):
            next(iterator)
        return first, torch.get_rng_state()

    want = after(0)
    for depth in DEPTHS[1:]:
        got = after(depth)
        assert torch.equal(want[0], got[0])
        assert torch.equal(want[1], got[1])


def test_a_generator_of_its_own_decides_order_and_samples(homogeneous):
    def batches(depth):
        generator = torch.Generator().manual_seed(4)
        loader = gz_pyg.NeighborLoader(
            homogeneous, [3], batch_size=16, shuffle=True, generator=generator, prefetch=depth
        )
        return [b for _ in range(2) for b in loader]

    want = batches(0)
    for depth in DEPTHS[1:]:
        torch.rand(3)
        same(want, batches(depth))


@pytest.mark.parametrize("where", ["transform", "transform_sampler_output"])
def test_random_transforms_run_in_the_consumers_thread_and_in_order(homo, where):
    def batches(depth):
        seed_everything(3)
        seen = []

        def transform(batch):
            assert threading.current_thread() is threading.main_thread()
            seen.append(float(torch.rand(1)))
            return batch

        loader = gz_pyg.NeighborLoader(homo, [3], batch_size=16, prefetch=depth, **{where: transform})
        made = []
        for batch in loader:
            made.append(batch)
            seen.append(float(torch.rand(1)))
        return seen, made

    seen, made = batches(0)
    assert len(seen) == 14
    for depth in DEPTHS[1:]:
        got = batches(depth)
        assert got[0] == seen
        same(made, got[1])


def test_data_written_to_in_the_loop_is_seen_as_without_prefetch(homogeneous, homogeneous_path):
    def run(data, depth):
        seed_everything(3)
        made = []
        for batch in gz_pyg.NeighborLoader(data, [3], batch_size=16, shuffle=True, prefetch=depth):
            made.append(batch.clone())
            data.x[batch.n_id] += 1.0  # a table of embeddings, say
            if len(made) == 4:
                data.y = data.y + 1
        return made

    for make in (lambda: homogeneous.clone(), lambda: gz_pyg.load(homogeneous_path).to_data()):
        want = run(make(), 0)
        for depth in DEPTHS[1:]:
            same(want, run(make(), depth))


def test_a_tensor_added_to_a_store_in_the_loop(homogeneous_path):
    def run(depth):
        data = gz_pyg.load(homogeneous_path)
        seed_everything(3)
        made = []
        for batch in gz_pyg.NeighborLoader(data, [3], batch_size=16, prefetch=depth):
            made.append(batch)
            if len(made) == 2:
                data.feature_store.put_tensor(torch.arange(100), group_name=None, attr_name="z", index=None)
        return made

    want = run(0)
    assert ["z" in b for b in want] == [False] * 2 + [True] * 5
    for depth in DEPTHS[1:]:
        same(want, run(depth))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_torchs_modes_hold_for_the_rows_too(homogeneous, mode):
    data = homogeneous.clone()
    data.x.requires_grad_()
    for depth in DEPTHS:
        loader = gz_pyg.NeighborLoader(data, [3], batch_size=16, prefetch=depth)
        iterator = iter(loader)
        assert next(iterator).x.requires_grad
        with mode():
            for batch in iterator:
                assert batch.x.requires_grad == (mode is torch.enable_grad)
                assert batch.x.is_inference() == (mode is torch.inference_mode)


def test_workers_are_reproducible_whatever_prefetch_says(homo):
    def batches(depth):
        seed_everything(3)
        return list(
            gz_pyg.NeighborLoader(homo, [3], batch_size=16, shuffle=True, num_workers=2, prefetch=depth)
        )

    want = batches(None)
    same(want, batches(0))
    same(want, batches(3))


# ---- when it is on ----


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


# ---- how it runs ----


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
    second.wait()  # without next() being called again


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
            sampled[number + 1].wait()  # would hang if joining kept the next sample from being made
        return join(*given)

    loader._sample, loader._joined = sampling, joining
    assert len(list(loader)) == 10


def test_pinning_is_asked_for_as_ever(homo):
    context = pytest.warns(UserWarning, match="accelerator")
    with context if not torch.cuda.is_available() else torch.no_grad():
        assert len(list(gz_pyg.NeighborLoader(homo, [3], batch_size=50, pin_memory=True, prefetch=2))) == 2


def test_batches_are_pinned_in_order_in_the_consumers_thread(homogeneous, monkeypatch):
    from gz_pyg import _iterator

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
    for thread in threads:
        thread.join(timeout=60)
    assert not [t for t in threads if t.is_alive()]
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


# ---- how it ends ----


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
        wait_for_the_end_of(threads)  # nobody holds the iterator any more
    assert not background()


def test_a_generator_over_the_loader_may_be_closed(homogeneous):
    def generate():
        yield from gz_pyg.NeighborLoader(homogeneous, [3], batch_size=5)

    generator = generate()
    next(generator)
    threads = background()
    generator.close()
    wait_for_the_end_of(threads)


def test_an_error_in_the_loop_ends_the_threads(homogeneous):
    def loop():
        for _ in gz_pyg.NeighborLoader(homogeneous, [3], batch_size=5):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop()
    wait_for_the_end_of(background())


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
def test_an_index_out_of_range_is_named(homogeneous, depth):
    loader = gz_pyg.NeighborLoader(homogeneous, [3], batch_sampler=[[1], [100], [2]], prefetch=depth)
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(IndexError):
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


def test_where_memory_is_short_fewer_batches_are_made_ahead(homo, monkeypatch):
    def run(free, depth=3):
        monkeypatch.setattr(_iterator, "free_ram", lambda: free)
        seed_everything(3)
        iterator = iter(gz_pyg.NeighborLoader(homo, [4, 3], batch_size=16, shuffle=True, prefetch=depth))
        batches, begun = [], []
        for batch in iterator:
            batches.append(batch)
            begun.append(len(iterator._waiting))
        return batches, begun

    want, begun = run(1 << 40)
    assert begun[0] == 3
    batches, begun = run(0)
    assert set(begun) == {0}
    same(batches, want)
    largest = max(sum(v.nbytes for v in flat(b).values() if isinstance(v, torch.Tensor)) for b in want)
    assert run(4 * largest + 1)[1][0] == 3
    assert run(2 * largest)[1][-2] == 0
