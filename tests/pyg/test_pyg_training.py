"""Training through gz_pyg reaches what training on the whole graph in memory reaches."""

from __future__ import annotations

import graphs
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE
from torch_geometric.utils import to_undirected

import gz_pyg

SEEDS = (0, 1, 2)
EPOCHS = 25


def citation(name: str) -> Data:
    network = graphs.citation_network(name)
    edge_index = to_undirected(
        torch.from_numpy(np.stack([network.src, network.dst])), num_nodes=network.num_nodes
    )
    data = Data(x=torch.from_numpy(network.x), y=torch.from_numpy(network.y), edge_index=edge_index)
    generator = torch.Generator().manual_seed(0)
    # 3,703 words are slow and beside the point: a random projection keeps what can be learned from them.
    narrow = torch.randn(data.num_features, 256, generator=generator) / 16
    data.x = data.x / data.x.sum(1, keepdim=True).clamp(min=1) ** 0.5 @ narrow
    data.train_mask = torch.zeros(data.num_nodes, dtype=torch.bool)
    for label in range(int(data.y.max()) + 1):  # 20 of each class, as usual
        members = (data.y == label).nonzero().view(-1)
        data.train_mask[members[torch.randperm(len(members), generator=generator)[:20]]] = True
    return data


@pytest.fixture(autouse=True)
def one_thread():
    """torch's threads spin while they wait, which on a busy machine takes minutes for nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=["cora", "citeseer"])
def network(request, tmp_path_factory):
    data = citation(request.param)
    return data, gz_pyg.save(data, tmp_path_factory.mktemp("training") / request.param)


def new_model(data: Data, seed: int) -> tuple[GraphSAGE, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = GraphSAGE(data.num_features, 32, num_layers=2, out_channels=int(data.y.max()) + 1, dropout=0.0)
    return model, torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)


@torch.no_grad()
def accuracy(model: GraphSAGE, data: Data) -> float:
    predicted = model(data.x, data.edge_index).argmax(1)
    test = ~data.train_mask
    return float((predicted[test] == data.y[test]).float().mean())


def train_whole(data: Data, seed: int, epochs: int = EPOCHS) -> float:
    model, optimizer = new_model(data, seed)
    for _ in range(epochs):
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        F.cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
    return accuracy(model, data)


def train_batches(data: Data, loader, seed: int, epochs: int = EPOCHS) -> float:
    model, optimizer = new_model(data, seed)
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            F.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
    return accuracy(model, data)


def test_all_neighbours_in_one_batch_train_the_same_model(network):
    """A batch with every neighbour has the gradient of the whole graph: only rounding differs."""
    data, path = network
    loader = gz_pyg.NeighborLoader(path, [-1, -1], data.train_mask, batch_size=1000)
    assert train_batches(data, loader, 0) == pytest.approx(train_whole(data, 0), abs=0.005)


def test_sampled_training_reaches_the_same_accuracy(network):
    data, path = network
    whole = [train_whole(data, seed) for seed in SEEDS]
    sampled = []
    for seed in SEEDS:
        # One step an epoch, as on the whole graph: what differs is the sampling alone.
        loader = gz_pyg.NeighborLoader(path, [10, 10], data.train_mask, batch_size=1000, shuffle=True)
        sampled.append(train_batches(data, loader, seed))
    assert np.mean(whole) > 0.5
    assert np.mean(sampled) == pytest.approx(np.mean(whole), abs=0.02)


def test_a_batch_with_all_neighbours_is_the_true_neighbourhood(network):
    data, path = network
    row, col = data.edge_index
    for batch in gz_pyg.NeighborLoader(path, [-1, -1], data.train_mask, batch_size=20):
        first = batch.n_id[: batch.batch_size]
        second = torch.cat([first, row[torch.isin(col, first)]]).unique()
        third = torch.cat([second, row[torch.isin(col, second)]]).unique()
        assert torch.equal(batch.n_id.sort()[0], third)
        assert torch.equal(batch.e_id.sort()[0], torch.isin(col, second).nonzero().view(-1))
        assert torch.equal(batch.x, data.x[batch.n_id])
