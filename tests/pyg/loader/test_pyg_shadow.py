"""ShaDowKHopSampler: a subgraph for each node, as PyG's loader of that name gives it."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph

import gz_pyg

NODES = torch.tensor([7, 3, 3, 50])


@pytest.mark.parametrize("depth", [1, 2])
def test_each_node_has_the_subgraph_of_all_it_reaches(homo, homogeneous, depth):
    loader = gz_pyg.ShaDowKHopSampler(homo, depth, -1, NODES, batch_size=4)
    assert len(loader) == 1
    batch = next(iter(loader))
    assert batch.num_graphs == 4
    for i, root in enumerate(NODES.tolist()):
        begin, end = batch.ptr[i : i + 2].tolist()
        nodes, edge_index, _, edges = k_hop_subgraph(
            root, depth, homogeneous.edge_index, relabel_nodes=True, num_nodes=100
        )
        edges = edges.nonzero().view(-1)
        order = (edge_index[0] * 1000 + edge_index[1]).argsort(stable=True)
        mine = (batch.batch[batch.edge_index[0]] == i).nonzero().view(-1)
        assert torch.equal(batch.n_id[begin:end], nodes)
        assert torch.equal(batch.edge_index[:, mine] - begin, edge_index[:, order])
        assert torch.equal(batch.e_id[mine].sort()[0], edges)
        assert torch.equal(batch.edge_attr[mine], homogeneous.edge_attr[batch.e_id[mine]])
        assert torch.equal(batch.x[begin:end], homogeneous.x[nodes])
        assert int(batch.n_id[batch.root_n_id[i]]) == root
    assert torch.equal(batch.y, homogeneous.y[NODES])


@pytest.mark.parametrize("replace", [False, True])
def test_no_more_neighbours_than_asked_for_and_every_edge_among_those_met(homogeneous, replace):
    loader = gz_pyg.ShaDowKHopSampler(homogeneous, 2, 3, replace=replace, batch_size=25, shuffle=True)
    row, col = homogeneous.edge_index
    for batch in loader:
        assert batch.batch.bincount().max() <= 1 + 3 + 9
        for i in range(25):
            nodes = batch.n_id[batch.ptr[i] : batch.ptr[i + 1]]
            inside = (torch.isin(row, nodes) & torch.isin(col, nodes)).nonzero().view(-1)
            assert torch.equal(batch.e_id[batch.batch[batch.edge_index[0]] == i].sort()[0], inside)


def test_masks_workers_and_shuffling(homogeneous, homogeneous_path):
    mask = torch.arange(100) % 3 == 0
    options = {"batch_size": 8, "shuffle": True, "num_workers": 2}
    seen = []
    for batch in gz_pyg.ShaDowKHopSampler(homogeneous_path, 1, 4, mask, **options):
        roots = batch.n_id[batch.root_n_id]
        assert torch.equal(batch.y, homogeneous.y[roots])
        seen += roots.tolist()
    assert sorted(seen) == mask.nonzero().view(-1).tolist()


def test_the_same_seed_gives_the_same_subgraphs(homo):
    def nodes(seed):
        torch.manual_seed(seed)
        return torch.cat([b.n_id for b in gz_pyg.ShaDowKHopSampler(homo, 2, 2, batch_size=10, shuffle=True)])

    assert torch.equal(nodes(3), nodes(3))
    assert not torch.equal(nodes(3), nodes(4))


def test_adj_t_in_and_adj_t_out(homogeneous):
    sparse = pytest.importorskip("torch_sparse").SparseTensor
    weight = torch.arange(600)
    row, col = homogeneous.edge_index
    data = Data(x=homogeneous.x, adj_t=sparse(row=col, col=row, value=weight, sparse_sizes=(100, 100)))
    batch = next(iter(gz_pyg.ShaDowKHopSampler(data, 2, -1, batch_size=5)))
    col, row, value = batch.adj_t.coo()
    assert torch.equal(batch.n_id[torch.stack([row, col])], homogeneous.edge_index[:, value])


def test_what_it_does_not_take(hetero):
    with pytest.raises(ValueError, match="one node type"):
        gz_pyg.ShaDowKHopSampler(hetero, 1, 2)
    with pytest.raises(IndexError, match="100"):
        gz_pyg.ShaDowKHopSampler(
            Data(edge_index=torch.zeros(2, 1, dtype=torch.int64), num_nodes=3), 1, 2, [100]
        )
