"""Training through gz_pyg reaches what training on the whole graph in memory reaches."""

from __future__ import annotations

import accuracy
import graphs
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE
from torch_geometric.utils import k_hop_subgraph, to_undirected

import gz_pyg


@pytest.fixture(autouse=True)
def one_thread():
    """torch's threads spin while they wait, which on a busy machine takes minutes for nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=["cora", "citeseer"])
def network(request, tmp_path_factory):
    """The citation network with all its words, in memory and as a store."""
    given = graphs.citation_network(request.param)
    edge_index = to_undirected(torch.from_numpy(np.stack([given.src, given.dst])), num_nodes=given.num_nodes)
    data = Data(x=F.normalize(torch.from_numpy(given.x)), y=torch.from_numpy(given.y), edge_index=edge_index)
    return request.param, data, gz_pyg.save(data, tmp_path_factory.mktemp("training") / request.param)


def training_mask(data: Data, seed: int) -> torch.Tensor:
    return torch.from_numpy(accuracy.training_nodes(data.y.numpy(), seed))


def new_model(data: Data, seed: int) -> tuple[GraphSAGE, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = GraphSAGE(data.num_features, accuracy.HIDDEN, num_layers=2, out_channels=int(data.y.max()) + 1)
    return model, torch.optim.Adam(model.parameters(), **accuracy.ADAM)


def all_neighbours(data: Data, train: torch.Tensor) -> Data:
    """What a step on the whole graph depends on, found by PyG: the seeds first, as a loader has them."""
    seeds = train.nonzero().view(-1)
    nodes, edge_index, places, _ = k_hop_subgraph(seeds, 2, data.edge_index, relabel_nodes=True)
    order = torch.cat([places, torch.arange(len(nodes))[~torch.isin(torch.arange(len(nodes)), places)]])
    edge_index = torch.argsort(order)[edge_index]
    nodes = nodes[order]
    return Data(x=data.x[nodes], y=data.y[nodes], edge_index=edge_index, batch_size=len(seeds), n_id=nodes)


def train_batches(data: Data, loader, seed: int) -> GraphSAGE:
    model, optimizer = new_model(data, seed)
    for _ in range(accuracy.EPOCHS):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            F.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
    return model


@torch.no_grad()
def accuracy_on_whole(model: GraphSAGE, data: Data, test: torch.Tensor) -> float:
    return float((model(data.x, data.edge_index).argmax(1) == data.y)[test].float().mean())


@torch.no_grad()
def accuracy_in_batches(model: GraphSAGE, loader) -> float:
    hits = count = 0
    for batch in loader:
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        hits += int((out.argmax(1) == batch.y[: batch.batch_size]).sum())
        count += batch.batch_size
    return hits / count


@pytest.fixture(scope="module")
def stored(network) -> list[float]:
    """Accuracies of models on batches from the store: sampled to train, complete to test."""
    _, data, path = network
    found = []
    for seed in accuracy.SEEDS:
        train = training_mask(data, seed)
        # One step an epoch, as on the whole graph: what differs is the sampling alone.
        loader = gz_pyg.NeighborLoader(path, [10, 10], train, batch_size=1000, shuffle=True)
        test_loader = gz_pyg.NeighborLoader(path, [-1, -1], ~train, batch_size=4000)
        found.append(accuracy_in_batches(train_batches(data, loader, seed), test_loader))
    return found


@pytest.mark.slow
def test_training_over_a_store_reaches_the_accuracy_of_memory(network, stored):
    """All neighbours in memory against batches from the store."""
    name, data, _ = network
    memory = []
    for seed in accuracy.SEEDS:
        train = training_mask(data, seed)
        model = train_batches(data, [all_neighbours(data, train)], seed)
        memory.append(accuracy_on_whole(model, data, ~train))
    assert np.mean(memory) > accuracy.LEAST[name], memory
    accuracy.assert_equivalent(stored, memory)


@pytest.mark.slow
def test_dependent_samples_train_as_well_as_uniform_ones(network, stored):
    _, data, path = network
    dependent = []
    for seed in accuracy.SEEDS:
        train = training_mask(data, seed)
        loader = gz_pyg.NeighborLoader(
            path, [10, 10], train, batch_size=1000, shuffle=True, layer_dependency=True
        )
        dependent.append(accuracy_on_whole(train_batches(data, loader, seed), data, ~train))
    accuracy.assert_equivalent(dependent, stored)


@pytest.mark.slow
def test_all_neighbours_in_one_batch_train_the_same_model(network):
    """A batch with every neighbour has the gradient of the whole graph: only rounding differs."""
    _, data, path = network
    train = training_mask(data, 0)
    (batch,) = gz_pyg.NeighborLoader(path, [-1, -1], train, batch_size=1000)
    models = []
    for x, edge_index, rows, y in (
        (data.x, data.edge_index, train, data.y[train]),
        (batch.x, batch.edge_index, slice(batch.batch_size), batch.y[: batch.batch_size]),
    ):
        model, optimizer = new_model(data, 0)
        for _ in range(5):
            optimizer.zero_grad()
            F.cross_entropy(model(x, edge_index)[rows], y).backward()
            optimizer.step()
        models.append(model)
    for a, b in zip(*(m.parameters() for m in models), strict=True):
        assert torch.allclose(a, b, atol=1e-4)


def test_a_batch_with_all_neighbours_is_the_true_neighbourhood(network):
    _, data, path = network
    row, col = data.edge_index
    for batch in gz_pyg.NeighborLoader(path, [-1, -1], training_mask(data, 0), batch_size=20):
        first = batch.n_id[: batch.batch_size]
        second = torch.cat([first, row[torch.isin(col, first)]]).unique()
        third = torch.cat([second, row[torch.isin(col, second)]]).unique()
        assert torch.equal(batch.n_id.sort()[0], third)
        assert torch.equal(batch.e_id.sort()[0], torch.isin(col, second).nonzero().view(-1))
        assert torch.equal(batch.x, data.x[batch.n_id])
