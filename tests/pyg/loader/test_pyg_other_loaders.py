"""PyG's other samplers and loaders over gz's data and loaders: on a store what they do in memory."""

from __future__ import annotations

import pytest
import torch
from pyg_batches import check_homogeneous, equal, same_batches
from torch_geometric import seed_everything
from torch_geometric.loader import (
    CachedLoader,
    DataLoader,
    DynamicBatchSampler,
    ImbalancedSampler,
    PrefetchLoader,
    RandomNodeLoader,
    ZipLoader,
)

import gz_pyg


def on_both(make, memory, path):
    """The batches of make(data), which must be the same in memory and on the store."""
    made = []
    for data in (memory, gz_pyg.load(path)):
        seed_everything(6)
        made.append(list(make(data)))
    same_batches(*made)
    assert made[1]
    return made[1]


@pytest.mark.parametrize("prefetch", [0, None])
def test_imbalanced_sampler(homogeneous, homogeneous_path, prefetch):
    nodes = torch.arange(10, 90)

    def make(data):
        sampler = ImbalancedSampler(data, input_nodes=nodes, num_samples=60)
        return gz_pyg.NeighborLoader(data, [3], nodes, batch_size=20, sampler=sampler, prefetch=prefetch)

    batches = on_both(make, homogeneous, homogeneous_path)
    assert [b.batch_size for b in batches] == [20, 20, 20]
    for batch in batches:
        check_homogeneous(batch, homogeneous)
        assert bool(torch.isin(batch.n_id[:20], nodes).all())


def test_random_node_loader(homogeneous, homogeneous_path):
    batches = on_both(lambda d: RandomNodeLoader(d, num_parts=4, shuffle=True), homogeneous, homogeneous_path)
    assert [b.num_nodes for b in batches] == [25] * 4
    inside = sum(b.num_edges for b in batches)
    assert 0 < inside < homogeneous.num_edges


def test_random_node_loader_of_several_types(heterogeneous, heterogeneous_path):
    batches = on_both(
        lambda d: RandomNodeLoader(d, num_parts=3, shuffle=True), heterogeneous, heterogeneous_path
    )
    assert sum(b["author"].num_nodes for b in batches) == 200


def test_cached_loader(homogeneous, homogeneous_path):
    def make(data):
        cached = CachedLoader(gz_pyg.NeighborLoader(data, [3], batch_size=25, shuffle=True))
        first, second = list(cached), list(cached)
        assert all(a is b for a, b in zip(first, second, strict=True))
        cached.clear()
        assert not torch.equal(next(iter(cached)).n_id, first[0].n_id)
        return second

    for batch in on_both(make, homogeneous, homogeneous_path):
        check_homogeneous(batch, homogeneous)


def test_prefetch_loader(homogeneous, homogeneous_path):
    def make(data):
        return PrefetchLoader(gz_pyg.NeighborLoader(data, [3], batch_size=25, shuffle=True), device="cpu")

    assert len(on_both(make, homogeneous, homogeneous_path)) == 4


@pytest.mark.parametrize("filter_per_worker", [None, True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_zip_loader(homogeneous, homogeneous_path, workers, filter_per_worker):
    """Two samples of the same seeds."""

    def make(data):
        loaders = [gz_pyg.NeighborLoader(data, [k], torch.arange(60)) for k in (2, 5)]
        zipped = ZipLoader(loaders, filter_per_worker=filter_per_worker, batch_size=20, num_workers=workers)
        pairs = list(zipped)
        assert len(pairs) == 3
        for few, many in pairs:
            assert torch.equal(few.n_id[:20], many.n_id[:20])
            assert few.num_edges < many.num_edges
        return [batch for pair in pairs for batch in pair]

    for batch in on_both(make, homogeneous, homogeneous_path):
        check_homogeneous(batch, homogeneous)


def test_dynamic_batches_of_sampled_graphs(homogeneous, homogeneous_path):
    """It packs whole graphs by their size; a dataset of subgraphs is one, the seeds of a loader are not."""

    def make(data):
        graphs = list(gz_pyg.NeighborLoader(data, [3], batch_size=5, shuffle=True))
        for graph in graphs:
            del graph.input_id, graph.batch_size, graph.num_sampled_nodes, graph.num_sampled_edges
        sampler = DynamicBatchSampler(graphs, max_num=60, mode="node")
        return (batch for batch in DataLoader(graphs, batch_sampler=sampler))  # which has no length

    batches = on_both(make, homogeneous, homogeneous_path)
    assert sum(b.num_graphs for b in batches) == 20
    assert all(b.num_nodes <= 60 for b in batches)
    loader = gz_pyg.NeighborLoader(homogeneous_path, [3])
    with pytest.raises(AttributeError, match="num_nodes"):  # as in PyG
        next(iter(DynamicBatchSampler(loader.dataset, max_num=60)))


def test_a_loader_over_a_node_sampler_of_pygs_kind(homogeneous, homogeneous_path):
    """NodeLoader and LinkLoader take any BaseSampler, as PyG's do."""
    seeds = torch.arange(40)

    def make(data):
        sampler = gz_pyg.NeighborSampler(data, [3, 2])
        return gz_pyg.NodeLoader(data, sampler, seeds, batch_size=20, shuffle=True)

    batches = on_both(make, homogeneous, homogeneous_path)
    seed_everything(6)
    loader = gz_pyg.NeighborLoader(homogeneous, [3, 2], seeds, batch_size=20, shuffle=True)
    for a, b in zip(batches, loader, strict=True):
        equal(a, b)
