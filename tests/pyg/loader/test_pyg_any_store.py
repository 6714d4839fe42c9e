"""gz_pyg.NeighborLoader over anything PyG calls a store, and what gz offers in PyG's own loader."""

from __future__ import annotations

import pytest
import torch
from pyg_batches import check_heterogeneous, check_homogeneous
from torch_geometric.data import HeteroData
from torch_geometric.loader import NeighborLoader as StockLoader
from torch_geometric.nn import GraphConv, to_hetero
from torch_geometric.testing import MyFeatureStore, MyGraphStore
from torch_geometric.utils import index_sort

import gz_pyg


class GNN(torch.nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.conv1, self.conv2 = GraphConv(width, 16), GraphConv(16, out)

    def forward(self, x, edge_index, edge_weight):
        return self.conv2(self.conv1(x, edge_index, edge_weight).relu(), edge_index, edge_weight)


@pytest.mark.parametrize("subgraph_type", ["directional", "induced"])
def test_all_neighbours_give_the_outputs_of_the_whole_graph(homo, homogeneous, subgraph_type):
    model, seeds = GNN(8, 4), torch.tensor([5, 6, 7])
    loader = gz_pyg.NeighborLoader(homo, [-1, -1], seeds, subgraph_type=subgraph_type, batch_size=3)
    batch = next(iter(loader))
    want = model(homogeneous.x, homogeneous.edge_index, homogeneous.weight)[seeds]
    assert torch.allclose(want, model(batch.x, batch.edge_index, batch.weight)[:3], atol=1e-5)


def test_all_neighbours_give_the_outputs_of_the_whole_heterogeneous_graph(homogeneous):
    data = HeteroData()
    data["paper"].x = homogeneous.x
    data["paper", "paper"].edge_index, data["paper", "paper"].weight = (
        homogeneous.edge_index,
        homogeneous.weight,
    )
    model, seeds = GNN(8, 4), torch.tensor([5, 6, 7])
    hetero_model = to_hetero(model, data.metadata())
    batch = next(iter(gz_pyg.NeighborLoader(data, [-1, -1], ("paper", seeds), batch_size=3)))
    want = model(homogeneous.x, homogeneous.edge_index, homogeneous.weight)[seeds]
    got = hetero_model(batch.x_dict, batch.edge_index_dict, batch.weight_dict)["paper"][:3]
    assert torch.allclose(want, got, atol=1e-5)


def my_stores(data: HeteroData, edge_features: bool = False):
    """PyG's own test stores, with every layout."""
    features, graph = MyFeatureStore(), MyGraphStore()
    for t in ("paper", "author"):
        features.put_tensor(data[t].x, group_name=t, attr_name="x", index=None)
    for i, t in enumerate(data.edge_types):
        (row, col), size = data[t].edge_index, (data[t[0]].num_nodes, data[t[2]].num_nodes)
        if i == 0:
            graph.put_edge_index((row, col), edge_type=t, layout="coo", size=size)
        elif i == 1:
            row, order = index_sort(row, size[0])
            pointer = torch._convert_indices_from_coo_to_csr(row, size[0])
            graph.put_edge_index((pointer, col[order]), edge_type=t, layout="csr", size=size)
        elif i == 2:
            col, order = torch.sort(col, stable=True)
            pointer = torch._convert_indices_from_coo_to_csr(col, size[1])
            graph.put_edge_index((row[order], pointer), edge_type=t, layout="csc", size=size)
        else:
            col, order = torch.sort(col, stable=True)
            graph.put_edge_index((row[order], col), edge_type=t, layout="coo", size=size, is_sorted=True)
        if edge_features and i == 0:
            features.put_tensor(data[t].edge_attr, group_name=t, attr_name="edge_attr", index=None)
    return features, graph


@pytest.mark.parametrize("as_list", [False, True])
def test_any_feature_and_graph_store(heterogeneous, as_list):
    pair = my_stores(heterogeneous)
    options = {"num_neighbors": [-1] * 2, "input_nodes": ("paper", range(100)), "batch_size": 20}
    ours = gz_pyg.NeighborLoader(list(pair) if as_list else pair, **options)
    for a, b in zip(gz_pyg.NeighborLoader(heterogeneous, **options), ours, strict=True):
        for t in ("paper", "author", "venue"):
            assert torch.equal(a[t].n_id.sort()[0], b[t].n_id.sort()[0])
            assert b[t].num_nodes == b[t].n_id.numel()
        assert torch.equal(b["paper"].x, heterogeneous["paper"].x[b["paper"].n_id])
        for t in heterogeneous.edge_types:
            assert a[t].num_edges == b[t].num_edges


def test_pygs_objects_as_stores(heterogeneous):
    loader = gz_pyg.NeighborLoader((heterogeneous, heterogeneous), [3], ("paper", None), batch_size=50)
    for batch in loader:
        assert torch.equal(batch["paper"].x, heterogeneous["paper"].x[batch["paper"].n_id])


def test_edge_features_weights_and_times_on_any_store(heterogeneous):
    pair = my_stores(heterogeneous, edge_features=True)
    t = heterogeneous.edge_types[0]
    for batch in gz_pyg.NeighborLoader(pair, [3, 3], "paper", batch_size=20):
        assert torch.equal(batch[t].edge_attr, batch[t].e_id)
        ends = torch.stack(
            [batch[t[0]].n_id[batch[t].edge_index[0]], batch[t[2]].n_id[batch[t].edge_index[1]]]
        )
        assert torch.equal(ends, heterogeneous[t].edge_index[:, batch[t].e_id])
    pair[0].put_tensor(heterogeneous[t].weight, group_name=t, attr_name="weight", index=None)
    assert len(list(gz_pyg.NeighborLoader(pair, [3], "paper", batch_size=20, weight_attr="weight"))) == 5


def test_homogeneous_remote_store_with_edge_features(homogeneous):
    features, graph = MyFeatureStore(), MyGraphStore()
    graph.put_edge_index(tuple(homogeneous.edge_index), edge_type=None, layout="coo", size=(100, 100))
    for name in ("x", "time", "edge_attr", "edge_time", "weight"):
        features.put_tensor(homogeneous[name], group_name=None, attr_name=name, index=None)
    for options in ({}, {"weight_attr": "weight"}, {"time_attr": "time"}):
        for batch in gz_pyg.NeighborLoader((features, graph), [3, 3], batch_size=20, **options):
            assert torch.equal(batch.x, homogeneous.x[batch.n_id])
            assert torch.equal(batch.edge_attr, homogeneous.edge_attr[batch.e_id])


def test_our_sampler_in_pygs_loader(homogeneous, heterogeneous):
    sampler = gz_pyg.NeighborSampler(homogeneous, [3, 3])
    for batch in StockLoader(homogeneous, [], neighbor_sampler=sampler, batch_size=20):
        check_homogeneous(batch, homogeneous)
    sampler = gz_pyg.NeighborSampler(heterogeneous, [3, 3])
    for batch in StockLoader(heterogeneous, [], "paper", neighbor_sampler=sampler, batch_size=20):
        check_heterogeneous(batch, heterogeneous)


def test_our_stores_in_pygs_loader(homogeneous, homogeneous_path, heterogeneous, heterogeneous_path):
    pair = gz_pyg.load(homogeneous_path)
    sampler = gz_pyg.NeighborSampler(pair, [3, 3])
    for batch in StockLoader(pair, [], torch.arange(100), neighbor_sampler=sampler, batch_size=20):
        assert torch.equal(batch.x, homogeneous.x[batch.n_id])
        assert torch.equal(batch.n_id[batch.edge_index], homogeneous.edge_index[:, batch.e_id])
    pair = gz_pyg.load(heterogeneous_path)
    sampler = gz_pyg.NeighborSampler(pair, [3, 3])
    for batch in StockLoader(pair, [], "paper", neighbor_sampler=sampler, batch_size=20):
        assert torch.equal(batch["author"].x, heterogeneous["author"].x[batch["author"].n_id])
