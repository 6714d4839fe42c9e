"""look_ahead: batches whose rows are read together are those the loader makes without, by fewer reads."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from prefetch_batches import flat, same
from torch_geometric import seed_everything
from torch_geometric.data import HeteroData
from waits import background, ended, in_child

import gz
import gz_pyg
from gz._base import batches_ahead, memory_plan
from gz._base.batches_ahead import BatchesAhead, BatchSizes, ReadTogether
from gz.feature import FeatureStore

N, SEEDS = 20_000, 320
COUNTS = [1, 2, 3, 16]


@pytest.fixture(scope="module")
def one_type(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("look_ahead") / "one"
    features = {
        "x": rng.standard_normal((N, 65)).astype(np.float32),  # 260 bytes: batches begin between two rows
        "half": rng.standard_normal((N, 64)).astype(np.float16),
        "y": rng.integers(0, 5, N),
    }
    gz.ingest(
        path,
        edges=(rng.integers(0, N, 120_000), rng.integers(0, N, 120_000)),
        features=features,
        dtype={"half": "float16"},
        splits={"train": rng.permutation(N)[:SEEDS]},
    )
    shutil.copytree(path, f"{path}-warm")
    return path


@pytest.fixture(scope="module")
def several_types(tmp_path_factory):
    g = torch.Generator().manual_seed(1)
    data = HeteroData()
    data["paper"].x = torch.randn(3000, 64, generator=g)
    data["paper"].y = torch.randint(5, (3000,), generator=g)
    data["author"].x = torch.randn(2000, 40, generator=g)
    data["venue"].num_nodes = 5
    for t, n in (
        (("paper", "cites", "paper"), 9000),
        (("author", "writes", "paper"), 6000),
        (("venue", "publishes", "paper"), 300),
    ):
        ends = [torch.randint(data[end].num_nodes, (n,), generator=g) for end in (t[0], t[2])]
        data[t].edge_index = torch.stack(ends)
    path = gz_pyg.save(data, tmp_path_factory.mktemp("look_ahead") / "several")
    shutil.copytree(path, f"{path}-warm")
    return path


@pytest.fixture(autouse=True)
def _too_large_for_memory(monkeypatch):
    """By the plan: files are not to be held as a whole."""
    monkeypatch.setattr(memory_plan, "free_ram", lambda: 1 << 16)


def columns(data):
    store = data.store
    types = data.node_types if isinstance(data, HeteroData) else [None]
    names = [(t, n) for t in types for n in ("x", "half") if n in (data if t is None else data[t])]
    return [store.feature(name, t) if t else store.feature(name) for t, name in names]


def evict(data):
    for column in columns(data):
        with open(column.path, "rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm(path):
    """The same in other files: pages that are mapped cannot be put out of memory."""
    return gz_pyg.load(f"{path}-warm")


def cold(path, cache=0):
    data = gz_pyg.load(path, cache=cache)
    evict(data)  # opening reads ahead, all of a small file
    return data


def reads(data):
    return sum(column.stats()["reads"] for column in columns(data))


def nodes(data, **options):
    seed_everything(3)
    options = {"batch_size": 16, "shuffle": True, **options}
    seeds = torch.as_tensor(np.asarray(data.store.split("train")))
    return gz_pyg.NeighborLoader(data, [3, 3], input_nodes=seeds, **options)


def papers(data, **options):
    seed_everything(3)
    seeds = ("paper", torch.arange(0, 3000, 10))
    return gz_pyg.NeighborLoader(data, [3, 3], input_nodes=seeds, batch_size=16, shuffle=True, **options)


def links(data, **options):
    seed_everything(3)
    index = torch.stack([torch.arange(0, 3000, 10), torch.arange(5, 3005, 10)])
    return gz_pyg.LinkNeighborLoader(
        data, [3, 3], index, neg_sampling="binary", batch_size=16, shuffle=True, **options
    )


def typed_links(data, **options):
    seed_everything(3)
    return gz_pyg.LinkNeighborLoader(
        data, [3], ("author", "writes", "paper"), batch_size=300, neg_sampling="triplet", **options
    )


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("make", [nodes, papers, links, typed_links])
def test_the_batches_are_the_same_to_the_bit(one_type, several_types, make, count):
    path = several_types if make in (papers, typed_links) else one_type
    want = list(make(warm(path), prefetch=0))
    data = cold(path)
    same(want, list(make(data, look_ahead=count)))
    assert reads(data) > 0
    loader = make(cold(path, cache="8MB"), look_ahead=count)
    same(want, list(loader))
    seed_everything(3)
    same(want, list(loader))


def test_rows_of_several_batches_are_read_at_once_in_the_background(one_type, tmp_path, monkeypatch):
    path = tmp_path / "apart"  # what others have mapped stays in memory
    shutil.copytree(one_type, path)
    original, threads = FeatureStore._gather_together, set()

    def watched(*arguments):
        threads.add(threading.current_thread())
        return original(*arguments)

    monkeypatch.setattr(FeatureStore, "_gather_together", watched)
    found = {}
    for count in (None, 2, 8):
        data = cold(path)
        loader = nodes(data, look_ahead=count)
        made = []
        for batch in loader:
            made.append(batch)
            evict(data)
        found[count] = reads(data)
        if found[count] == 0:
            pytest.skip(f"{tmp_path} stays in memory")
        assert len(made) == 20
        if count is None:
            assert "batches_together" not in loader.stats()
    # The first alone: by it the loader learns how large they are. Then 2 to 9, 10 to 17, 18 to 20.
    assert loader.stats()["batches_together"] == (8 + 8 + 3) / 3
    assert threading.main_thread() not in threads
    assert found[2] < 0.95 * found[None]
    assert found[8] < 0.7 * found[None]


def test_batches_of_a_row_cache_are_the_same_and_read_no_more(one_type):
    found = {}
    for count in (None, 8):
        data = cold(one_type, cache="1MB")
        made = list(nodes(data, look_ahead=count))
        found[count] = made, reads(data)
    same(found[None][0], found[8][0])
    assert found[8][1] <= found[None][1]


def test_what_a_script_does_to_a_batch_is_done_to_no_other(one_type):
    """Tensors of their own: memory, size when stored, versions, autograd, alignment."""
    batches = list(nodes(cold(one_type), look_ahead=8))
    want = list(nodes(warm(one_type), prefetch=0))
    for batch, expected in zip(batches, want, strict=True):
        assert batch.x._version == 0
        assert batch.x.untyped_storage().nbytes() == batch.x.nbytes
        assert batch.x.data_ptr() % 64 == 0
        assert torch.equal(batch.x, expected.x)
        loss = (batch.x * torch.ones(1, requires_grad=True)).sum()
        batch.half.zero_()
        batch.half.requires_grad_()
        loss.backward()
    assert len(pickle.dumps(batches[3])) < 1.5 * sum(
        v.nbytes for v in flat(batches[3]).values() if isinstance(v, torch.Tensor)
    )


def test_torchs_modes_hold_for_rows_that_were_read_together(one_type):
    iterator = iter(nodes(cold(one_type), look_ahead=4))
    assert not next(iterator).x.is_inference()
    with torch.inference_mode():
        assert all(next(iterator).x.is_inference() for _ in range(10))
    assert not any(batch.x.is_inference() for batch in iterator)


def test_random_transforms_and_placing_are_as_ever(one_type):
    def run(data, **options):
        def transform(batch):
            assert threading.current_thread() is threading.main_thread()
            batch.drawn = torch.rand(1)
            return batch

        data.x = data.x if options.get("prefetch") == 0 else data.to("cpu").x
        return list(nodes(data, transform=transform, **options))

    same(run(warm(one_type), prefetch=0), run(cold(one_type), look_ahead=5))
    data = cold(one_type).to("meta", "x")
    assert all(batch.x.device.type == "meta" for batch in nodes(data, look_ahead=5))


@pytest.mark.parametrize("count", COUNTS)
def test_data_changed_in_the_middle_of_a_group_is_seen(one_type, count):
    def run(data, **options):
        made = []
        for batch in nodes(data, **options):
            made.append(batch)
            if len(made) == 4:
                data.y = data.y + 1
            if len(made) == 7:
                data.x[batch.n_id[:3]] = 7.0
            if len(made) == 12:
                del data.half
            if len(made) == 15:
                data.z = torch.arange(N)
        return made

    want = run(warm(one_type), prefetch=0)
    assert "half" not in want[-1]
    assert "z" in want[-1]
    same(want, run(cold(one_type), look_ahead=count))


class Governor:
    """Has room for so many batches like the largest: by what is begun and there."""

    def __init__(self, count):
        self.count, self.books = count, [0, 0, 0]
        self.most = 0.0

    def change_ahead(self, *change):
        self.books = [a + b for a, b in zip(self.books, change, strict=True)]

    def room_ahead(self, size, known):
        held = sum(self.books[1:])
        self.most = max(self.most, held / max(1, size))
        return self.count > 0 and held + size <= self.count * size


class Failing:
    def __init__(self, function, at):
        self.function, self.at, self.calls = function, at, 0

    def __call__(self, *arguments):
        self.calls += 1
        if self.calls in self.at:
            raise LookupError(f"call {self.calls}")
        return self.function(*arguments)


@pytest.mark.parametrize("count", [2, 3, 16])
@pytest.mark.parametrize("where", ["_sample", "_joined"])
def test_an_error_comes_with_the_batch_it_belongs_to(one_type, count, where):
    want = list(nodes(warm(one_type), prefetch=0))
    loader = nodes(cold(one_type), look_ahead=count)
    failing = {4, 5, 9, 17, 20}
    setattr(loader, where, Failing(getattr(loader, where), failing))
    iterator, made = iter(loader), []
    for number in range(1, 21):
        if number in failing:
            with pytest.raises(LookupError, match=f"call {number}$"):
                next(iterator)
        else:
            made.append(next(iterator))
    with pytest.raises(StopIteration):
        next(iterator)
    same([b for i, b in enumerate(want, 1) if i not in failing], made)


def test_a_read_that_fails_fails_the_batch_it_belongs_to(one_type, monkeypatch):
    """What cannot be read together is read batch by batch, and says so there."""

    def fail(*_):
        raise OSError("a bad sector")

    want = list(nodes(warm(one_type), prefetch=0))
    monkeypatch.setattr(FeatureStore, "_gather_together", fail)
    loader = nodes(cold(one_type), look_ahead=4)
    same(want, list(loader))
    assert loader.stats()["batches_together"] == 0


def test_breaking_off_ends_the_threads(one_type):
    for taken in (1, 2, 5):
        loader = nodes(cold(one_type), look_ahead=4)
        for number, _ in enumerate(loader, 1):
            if number == taken:
                threads = background()
                break
        ended(threads)


def test_an_epoch_may_be_shorter_than_a_group(one_type):
    want = list(nodes(warm(one_type), prefetch=0, batch_size=160))
    assert len(want) == 2
    loader = nodes(cold(one_type), look_ahead=16, batch_size=160)
    same(want, list(loader))
    assert not background()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("count", [3, 16])
@pytest.mark.parametrize("taken", [1, 4, 9])
def test_a_forked_child_goes_on_where_the_parent_was(one_type, taken, count):
    want = list(nodes(warm(one_type), prefetch=0))
    iterator = iter(nodes(cold(one_type), look_ahead=count))
    for _ in range(taken):
        next(iterator)
    assert in_child(lambda: same(want[taken:], list(iterator)))
    same(want[taken:], list(iterator))  # the parent is not disturbed


def test_an_interrupt_loses_no_batch(one_type, monkeypatch):
    """Where the thread that trains reads itself: no more have room."""
    want = list(nodes(warm(one_type), prefetch=0))
    monkeypatch.setattr(batches_ahead, "_engine", Governor(5))
    iterator = iter(nodes(cold(one_type), look_ahead=6))
    made, interrupts = [next(iterator)], 0
    original, main = FeatureStore._gather_together, threading.main_thread()

    def interrupted(column, ids):
        nonlocal interrupts
        if threading.current_thread() is main and interrupts < 3:
            interrupts += 1
            raise KeyboardInterrupt
        return original(column, ids)

    monkeypatch.setattr(FeatureStore, "_gather_together", interrupted)
    while len(made) < 20:
        with suppress(KeyboardInterrupt):
            made.append(next(iterator))
    assert interrupts
    same(want, made)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 9])
def test_where_memory_is_short_groups_are_smaller(one_type, monkeypatch, count):
    want = list(nodes(warm(one_type), prefetch=0))
    governor = Governor(count)
    monkeypatch.setattr(batches_ahead, "_engine", governor)
    loader = nodes(cold(one_type), look_ahead=8)
    sizes = []
    loader._tally.read_together = sizes.append
    same(want, list(loader))
    assert governor.most <= count + 1  # one that is waited for is made whatever room there is
    assert max(sizes, default=1) <= max(1, count)
    assert (len(sizes) > 0) == (count > 1)
    assert max(sizes[1:], default=1) <= count // 2 + 1  # two groups fit: one is used, one is read
    assert governor.books == [0, 0, 0]


def test_a_block_is_on_the_books_until_the_last_of_its_batches_was_let_go(monkeypatch):
    changes = []
    governor = SimpleNamespace(room_ahead=lambda *_: True, change_ahead=lambda *c: changes.append(c))
    monkeypatch.setattr(batches_ahead, "_engine", governor)

    def books():
        return [sum(parts) for parts in zip(*changes, strict=True)][1:]

    memory = BatchesAhead(4, BatchSizes(), together=True)
    assert memory.may_begin()
    first, second, third = memory.begin(), memory.begin(), memory.begin()
    assert not memory.may_begin()  # nobody knows how large they are
    memory.made_together([(b, ReadTogether(100, 80, 10)) for b in (first, second)])
    memory.made(third, 50)
    assert books() == [0, 250]
    assert memory.may_begin()
    memory.taken(first)  # as long as the script has it, its block is there
    assert books() == [0, 250]
    memory.taken(second)
    assert books() == [0, 230]  # but for its edges
    memory.taken(third)
    assert books() == [0, 0]
    fourth = memory.begin()
    assert books() == [110, 0]  # the largest, and what reading takes
    memory.reading([fourth, None])
    assert books() == [0, 110]  # before it is there: it is not the script that takes it
    memory.made_together([(fourth, ReadTogether(90, 80, 10))])
    assert books() == [0, 90]
    memory.close()
    assert books() == [0, 0]


def test_what_lies_in_memory_is_not_waited_for(one_type, monkeypatch):
    monkeypatch.setattr(memory_plan, "free_ram", lambda: 1 << 33)
    loader = nodes(warm(one_type), look_ahead=8)
    iterator = iter(loader)
    assert iterator._together is None
    assert iterator._ahead == 2
    assert len(list(iterator)) == 20


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "2"])
def test_a_look_ahead_that_makes_no_sense(one_type, bad):
    with pytest.raises(ValueError, match="look_ahead"):
        nodes(warm(one_type), look_ahead=bad)


@pytest.mark.parametrize("options", [{"num_workers": 2}, {"prefetch": 0}])
def test_look_ahead_says_what_it_cannot_be_combined_with(one_type, options):
    with pytest.raises(ValueError, match=f"look_ahead=4 with {next(iter(options))}"):
        nodes(warm(one_type), look_ahead=4, **options)


def test_a_sampler_of_the_users_own_and_a_subclass(one_type):
    class Mine(gz_pyg.NeighborLoader):
        def filter_fn(self, out):
            data = super().filter_fn(out)
            data.mine = True
            return data

    loader = Mine(cold(one_type), [3], input_nodes=torch.arange(100), batch_size=10, look_ahead=4)
    assert all(batch.mine for batch in loader)  # one by one, by its own function
