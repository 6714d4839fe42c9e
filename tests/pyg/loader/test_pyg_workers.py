"""Worker processes, seeds and threads: the same batches, whoever makes them."""

from __future__ import annotations

import pytest
import ready
import torch
from torch.utils.data import RandomSampler
from torch_geometric import seed_everything
from torch_geometric.data import Data

import gz
import gz_pyg


def same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert torch.equal(x.n_id, y.n_id)
        assert torch.equal(x.e_id, y.e_id)
        assert torch.equal(x.x, y.x)


def batches(data, seed=5, **options):
    seed_everything(seed)
    return list(gz_pyg.NeighborLoader(data, [4, 3], batch_size=16, shuffle=True, **options))


def check(made, data):
    made = list(made)
    assert made
    for batch in made:
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])


def test_seed_everything_decides_every_batch(homo):
    same(batches(homo), batches(homo))
    a, b = batches(homo), batches(homo, seed=6)
    assert not torch.equal(a[0].n_id, b[0].n_id)


def test_two_epochs_differ(homogeneous):
    loader = gz_pyg.NeighborLoader(homogeneous, [3], batch_size=100)
    assert not torch.equal(next(iter(loader)).e_id, next(iter(loader)).e_id)


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_the_number_of_threads_changes_nothing(homo, threads):
    before = gz.num_threads()
    want = batches(homo, disjoint=True, weight_attr="weight")
    try:
        gz.set_num_threads(threads)
        same(want, batches(homo, disjoint=True, weight_attr="weight"))
    finally:
        gz.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize("filter_per_worker", [True, False])
def test_forked_workers(homo, homogeneous, filter_per_worker):
    options = {"num_workers": 2, "filter_per_worker": filter_per_worker}
    made = batches(homo, **options)
    check(made, homogeneous)
    same(made, batches(homo, **options))
    seen = torch.cat([b.input_id for b in made])
    assert torch.equal(seen.sort()[0], torch.arange(100))


def test_forked_workers_after_threads_have_run(homogeneous_path, homogeneous):
    """A thread pool that died in the fork would hang here."""
    check(batches(homogeneous_path), homogeneous)
    check(batches(homogeneous_path, num_workers=2), homogeneous)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "workers", "start"), [("memory", 1, "spawn"), ("store", 2, ready.CLEAN)]
)  # seconds for each to start
def test_spawned_workers(homogeneous, homogeneous_path, form, workers, start):
    data = homogeneous if form == "memory" else homogeneous_path
    made = batches(data, num_workers=workers, multiprocessing_context=start, time_attr="time")
    check(made, homogeneous)
    same(made, batches(data, num_workers=workers, time_attr="time"))


def test_persistent_workers(homo, homogeneous):
    loader = gz_pyg.NeighborLoader(homo, [3], batch_size=25, num_workers=2, persistent_workers=True)
    for _ in range(2):
        check(loader, homogeneous)
    loader._iterator = None  # left to the collector, torch waits 5 s for each of them


def test_batches_of_a_worker_lie_in_shared_memory(homo):
    batch = next(iter(gz_pyg.NeighborLoader(homo, [3], batch_size=25, num_workers=1)))
    assert batch.x.is_shared()
    assert batch.edge_index.is_shared()


def test_link_loader_in_workers(homo, homogeneous):
    loader = gz_pyg.LinkNeighborLoader(
        homo, [3], batch_size=100, num_workers=2, neg_sampling="binary", shuffle=True
    )
    seen = []
    for batch in loader:
        ends = batch.n_id[batch.edge_label_index][:, :100]
        assert torch.equal(ends, homogeneous.edge_index[:, batch.input_id])
        seen.append(batch.input_id)
    assert torch.equal(torch.cat(seen).sort()[0], torch.arange(600))


def _threads_of_worker(batch):
    batch.threads = gz.num_threads()
    return batch


def test_workers_share_the_threads(homogeneous):
    before = gz.num_threads()
    try:
        gz.set_num_threads(6)
        loader = gz_pyg.NeighborLoader(
            homogeneous, [3], batch_size=25, num_workers=3, transform=_threads_of_worker
        )
        assert {b.threads for b in loader} == {2}
        assert gz.num_threads() == 6
    finally:
        gz.set_num_threads(before)


def test_pin_memory_is_accepted(homo):
    with pytest.warns(UserWarning, match="accelerator") if not torch.cuda.is_available() else torch.no_grad():
        assert len(list(gz_pyg.NeighborLoader(homo, [3], batch_size=50, pin_memory=True))) == 2


def test_shuffling_is_torchs_without_its_lists(homogeneous):
    loader = gz_pyg.NeighborLoader(homogeneous, [1], batch_size=10, shuffle=True)
    torch.manual_seed(3)
    ours = list(loader.sampler)
    torch.manual_seed(3)
    assert ours == list(RandomSampler(range(100)))
    assert isinstance(loader.sampler, RandomSampler)
    assert loader.batch_size == 10


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("own_generator", [False, True])
def test_batches_are_those_of_torchs_samplers(homo, shuffle, drop_last, own_generator):
    """Without workers, which have lists, the loader takes slices of one order."""

    def epochs(make):
        torch.manual_seed(3)
        generator = torch.Generator().manual_seed(5) if own_generator else None
        options = {"shuffle": shuffle, "drop_last": drop_last, "batch_size": 30, "generator": generator}
        loader = make(options)
        # After an epoch torch's sampler draws another permutation from a generator of its own, for nothing.
        return [[ids(batch).tolist() for batch in loader] for _ in range(1 if own_generator else 2)]

    def ids(batch):
        return batch if isinstance(batch, torch.Tensor) else batch.input_id

    want = epochs(lambda o: torch.utils.data.DataLoader(range(100), **o))
    assert epochs(lambda o: gz_pyg.NeighborLoader(homo, [1], **o)) == want
    assert len(want[0]) == (3 if drop_last else 4)


def test_a_batch_keeps_its_own_indices_alone(homogeneous):
    loader = gz_pyg.NeighborLoader(homogeneous, [1], batch_size=10, shuffle=True)
    for batch in loader:
        assert batch.input_id.untyped_storage().nbytes() == 80


def test_the_profiler_sees_the_batches(homogeneous):
    loader = gz_pyg.NeighborLoader(homogeneous, [1], batch_size=25)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        list(loader)
    seen = {e.key: e.count for e in profile.key_averages()}
    assert sum(n for key, n in seen.items() if key.startswith("enumerate(DataLoader)")) == 5  # and the end


def test_a_generator_of_its_own_decides_the_order(homogeneous):
    orders = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(11)
        loader = gz_pyg.NeighborLoader(homogeneous, [1], batch_size=10, shuffle=True, generator=generator)
        orders.append(list(loader.sampler))
    assert orders[0] == orders[1] != list(range(100))


def test_a_sampler_of_the_users_own(homogeneous):
    loader = gz_pyg.NeighborLoader(homogeneous, [1], batch_size=2, sampler=[5, 3, 1, 0])
    assert [b.input_id.tolist() for b in loader] == [[5, 3], [1, 0]]
    loader = gz_pyg.NeighborLoader(homogeneous, [1], batch_sampler=[[5, 3, 1], [0]])
    assert [b.input_id.tolist() for b in loader] == [[5, 3, 1], [0]]


def test_results_outlive_their_loader(homogeneous_path, homogeneous):
    made = batches(homogeneous_path)
    again = batches(homogeneous_path, seed=9)  # would overwrite memory given back too early
    check(made, homogeneous)
    check(again, homogeneous)


def test_a_graph_may_be_changed_between_loaders(homogeneous):
    data = Data(x=torch.arange(100.0), edge_index=homogeneous.edge_index.clone())
    first = gz_pyg.NeighborLoader(data, [-1], batch_size=100)
    data.edge_index = data.edge_index[:, :10]
    second = gz_pyg.NeighborLoader(data, [-1], batch_size=100)
    assert next(iter(first)).num_edges == 600
    assert next(iter(second)).num_edges == 10
