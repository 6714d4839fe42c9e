"""A store with the edges out of nodes alone, behind PyG: as the data it was saved from, sampled backward."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

import gz_pyg

N, E = 40, 300


@pytest.fixture(scope="module")
def data():
    rng = torch.Generator().manual_seed(3)
    edges = torch.randint(0, N, (2, E), generator=rng)
    x, attr = torch.randn(N, 4, generator=rng), torch.randn(E, 2, generator=rng)
    return Data(x=x, edge_index=edges, edge_attr=attr)


@pytest.fixture(scope="module")
def stored(data, tmp_path_factory):
    return gz_pyg.load(gz_pyg.save(data, tmp_path_factory.mktemp("out") / "s", directions="out"))


def backward(graph):
    torch.manual_seed(2)
    sampler = gz_pyg.NeighborSampler(graph, [3, 2], sample_direction="backward")
    (batch,) = gz_pyg.NodeLoader(graph, sampler, input_nodes=torch.arange(7), batch_size=7)
    return batch


def test_the_whole_of_it_is_what_was_saved(data, stored):
    assert stored.store.manifest.edges[0].in_file is None
    whole = stored.to_data()
    for name in ("x", "edge_index", "edge_attr"):
        assert torch.equal(whole[name], data[name]), name
        assert torch.equal(stored[name][:], data[name]), name


def test_backward_samples_are_those_in_memory(data, stored):
    found, expected = backward(stored), backward(data)
    for name in ("n_id", "edge_index", "e_id", "edge_attr", "x"):
        assert torch.equal(found[name], expected[name]), name
    assert torch.equal(found.n_id[found.edge_index], data.edge_index[:, found.e_id])


def test_what_pyg_says_of_the_edges(data, stored):
    for name in ("has_self_loops", "has_isolated_nodes", "is_undirected", "is_sorted", "is_coalesced"):
        assert getattr(stored, name)() == getattr(data, name)(), name


def test_a_subgraph_is_that_in_memory(data, stored):
    some = torch.tensor([5, 3, 20, 21, 22, 39])
    found, expected = stored.subgraph(some), data.subgraph(some)
    assert torch.equal(found.edge_index, expected.edge_index)
    assert torch.equal(found.edge_attr, expected.edge_attr)


def test_two_types_have_isolated_destinations(tmp_path):
    for dst, isolated in ((torch.tensor([0, 1, 2]), False), (torch.tensor([0, 0, 2]), True)):
        graph = HeteroData()
        graph["a"].x, graph["b"].x = torch.zeros(5, 1), torch.zeros(3, 1)
        graph["a", "to", "b"].edge_index = torch.stack([torch.tensor([4, 0, 4]), dst])
        folder = tmp_path / str(isolated)
        stored = gz_pyg.load(gz_pyg.save(graph, folder, directions="out"))
        for of in (stored, graph):
            assert of["a", "to", "b"].has_isolated_nodes() == isolated


def test_pygs_own_layouts(data, stored):
    """CSR over the file; CSC is not kept and is grouped for it."""
    (layout,) = [a.layout.value for a in stored.graph_store.get_all_edge_attrs()]
    assert layout == "csr"
    pointer, col, numbers = stored.graph_store.csr()
    row = torch.repeat_interleave(torch.arange(N), pointer.diff())
    assert torch.equal(torch.stack([row, col]), data.edge_index[:, numbers])
    row, pointer, numbers = stored.graph_store.csc()
    col = torch.repeat_interleave(torch.arange(N), pointer.diff())
    assert torch.equal(torch.stack([row, col]), data.edge_index[:, numbers])


def test_saved_once_more_it_is_equal(data, stored, tmp_path):
    again = gz_pyg.load(gz_pyg.save(stored, tmp_path / "again"))
    assert torch.equal(again.to_data().edge_attr, data.edge_attr)
    order = np.argsort(data.edge_index[1].numpy(), kind="stable")
    assert np.array_equal(again.store.graph().edge_ids, order)


def test_loaders_that_follow_edges_backwards_say_what_is_missing(stored):
    for make in (
        lambda: gz_pyg.NeighborLoader(stored, [2], batch_size=4),
        lambda: gz_pyg.BidirectionalNeighborSampler(stored, [2]),
    ):
        with pytest.raises(ValueError, match="not stored in direction 'in'.*--directions both"):
            make()
