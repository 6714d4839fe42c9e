"""gz_pyg.NeighborLoader with times: of nodes and edges, uniform and last, in memory and in stores."""

from __future__ import annotations

import pytest
import torch
from pyg_batches import check_heterogeneous, check_homogeneous
from torch_geometric.data import Data, HeteroData
from torch_geometric.testing import MyFeatureStore, MyGraphStore

import gz_pyg


@pytest.mark.parametrize("fanout", [-1, 2])
@pytest.mark.parametrize(
    "options",
    [
        {"time_attr": "time"},
        {"time_attr": "time", "temporal_strategy": "last"},
        {"time_attr": "time", "replace": True},
        {"time_attr": "time", "weight_attr": "weight"},
        {"time_attr": "time", "weight_attr": "weight", "replace": True},
        {"time_attr": "edge_time", "input_time": torch.full((100,), 600)},
    ],
)
def test_a_store_gives_the_batches_that_memory_gives_by_time(homogeneous, homogeneous_path, options, fanout):
    """In memory the lists are sorted by time beforehand, as PyG has them; those of a store never are."""
    batches = []
    for data in (homogeneous, homogeneous_path):
        torch.manual_seed(3)
        batches.append(list(gz_pyg.NeighborLoader(data, [fanout, fanout], batch_size=16, **options)))
    for a, b in zip(*batches, strict=True):
        for name in ("n_id", "e_id", "edge_index", "time"):
            assert torch.equal(a[name], b[name])


@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_no_node_is_later_than_its_seed(homo, homogeneous, strategy):
    loader = gz_pyg.NeighborLoader(homo, [5, 5], batch_size=16, time_attr="time", temporal_strategy=strategy)
    for batch in loader:
        check_homogeneous(batch, homogeneous)
        assert bool((batch.time <= batch.time[: batch.batch_size][batch.batch]).all())


@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_no_edge_is_later_than_the_time_of_its_seed(homo, homogeneous, strategy):
    times = torch.randint(200, 1000, (100,))
    loader = gz_pyg.NeighborLoader(
        homo, [5, 5], batch_size=16, time_attr="edge_time", input_time=times, temporal_strategy=strategy
    )
    edges = 0
    for batch in loader:
        check_homogeneous(batch, homogeneous)
        assert torch.equal(batch.seed_time, times[batch.input_id])
        assert bool((batch.edge_time <= batch.seed_time[batch.batch[batch.edge_index[1]]]).all())
        edges += batch.num_edges
    assert edges > 0


def test_heterogeneous_times(hetero, heterogeneous):
    for batch in gz_pyg.NeighborLoader(hetero, [5, 5], "paper", batch_size=16, time_attr="time"):
        check_heterogeneous(batch, heterogeneous)
        seed_time = batch["paper"].time[: batch["paper"].batch_size]
        for t in ("paper", "author"):
            assert bool((batch[t].time <= seed_time[batch[t].batch]).all())
        # venues have no time: they are sampled all the same
        assert "time" not in batch["venue"]


def test_heterogeneous_edge_times(hetero, heterogeneous):
    times = torch.full((100,), 500)
    loader = gz_pyg.NeighborLoader(hetero, [-1, -1], "paper", times, batch_size=16, time_attr="edge_time")
    for batch in loader:
        check_heterogeneous(batch, heterogeneous)
        for t in heterogeneous.edge_types:
            assert bool((batch[t].edge_time <= 500).all())


def test_last_takes_the_latest_edges_in_time():
    edge_index = torch.tensor([[1, 2, 3, 4, 5], [0, 0, 0, 0, 0]])
    data = Data(num_nodes=6, edge_index=edge_index, when=torch.tensor([50, 10, 40, 20, 30]))
    loader = gz_pyg.NeighborLoader(
        data, [2], [0], torch.tensor([45]), time_attr="when", temporal_strategy="last", batch_size=1
    )
    assert set(next(iter(loader)).n_id[1:].tolist()) == {3, 5}


@pytest.mark.parametrize(
    ("strategy", "fanout", "neighbours"),
    [("uniform", -1, [2, 4, 5, 3]), ("uniform", 9, [2, 4, 5, 3]), ("last", 3, [4, 5, 3]), ("last", 0, [])],
)
def test_neighbours_come_in_the_order_of_time(tmp_path, strategy, fanout, neighbours):
    edge_index = torch.tensor([[1, 2, 3, 4, 5], [0, 0, 0, 0, 0]])
    data = Data(num_nodes=6, edge_index=edge_index, when=torch.tensor([50, 10, 40, 10, 30]))
    for given in (data, gz_pyg.save(data, tmp_path / "s")):
        loader = gz_pyg.NeighborLoader(
            given, [fanout], [0], torch.tensor([45]), time_attr="when", temporal_strategy=strategy
        )
        assert next(iter(loader)).n_id.tolist() == [0, *neighbours]


def test_times_may_be_floats():
    data = Data(
        num_nodes=4, edge_index=torch.tensor([[1, 2, 3], [0, 0, 0]]), when=torch.tensor([0.5, -1.5, 0.25])
    )
    loader = gz_pyg.NeighborLoader(data, [-1], [0], torch.tensor([0.3]), time_attr="when", batch_size=1)
    assert sorted(next(iter(loader)).n_id.tolist()) == [0, 2, 3]


def test_memory_sorted_by_time_gives_what_a_sorted_remote_store_gives(homogeneous):
    """PyG's own comparison: lists lie in the order of time, whether sorted beforehand or not."""
    data = HeteroData()
    time = torch.randperm(100)
    data["paper"].x, data["paper"].time = homogeneous.x, time
    data["paper", "to", "paper"].edge_index = homogeneous.edge_index
    features, graph = MyFeatureStore(), MyGraphStore()
    features.put_tensor(time, group_name="paper", attr_name="time", index=None)
    row, col = homogeneous.edge_index
    order = (col * 101 + time[row]).argsort(stable=True)
    graph.put_edge_index(
        homogeneous.edge_index[:, order],
        edge_type=("paper", "to", "paper"),
        layout="coo",
        is_sorted=True,
        size=(100, 100),
    )
    options = {"num_neighbors": [-1, -1], "input_nodes": "paper", "time_attr": "time", "batch_size": 32}
    pairs = zip(
        gz_pyg.NeighborLoader(data, **options),
        gz_pyg.NeighborLoader((features, graph), **options),
        strict=True,
    )
    for a, b in pairs:
        assert torch.equal(a["paper"].time, b["paper"].time)
