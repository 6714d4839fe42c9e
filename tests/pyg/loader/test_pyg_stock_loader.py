"""PyG's own loaders take a store as their (FeatureStore, GraphStore) pair, as they would with pyg-lib.

pyg-lib has no wheel here; stand_in/pyg_lib.py says what its place-holder proves and what not.
"""

from __future__ import annotations

import sys

import pytest
import torch
import torch_geometric.typing
from torch_geometric.loader import LinkNeighborLoader, NeighborLoader

import gz_pyg


@pytest.fixture(autouse=True)
def pyg_lib(monkeypatch, repository):
    if torch_geometric.typing.WITH_PYG_LIB:
        return  # the real one
    monkeypatch.syspath_prepend(str(repository / "tests/pyg/stand_in"))
    for flag in ("PYG_LIB", "EDGE_TIME_NEIGHBOR_SAMPLE", "WEIGHTED_NEIGHBOR_SAMPLE"):
        monkeypatch.setattr(torch_geometric.typing, f"WITH_{flag}", True)
    import pyg_lib  # noqa: F401

    yield
    del sys.modules["pyg_lib"]
    for name in ("neighbor_sample", "hetero_neighbor_sample"):
        delattr(torch.ops.pyg, name)


def pair(path):
    data = gz_pyg.load(path)
    return data.feature_store, data.graph_store


def test_homogeneous(homogeneous, homogeneous_path):
    stock = NeighborLoader(pair(homogeneous_path), [-1, -1], torch.arange(100), batch_size=20)
    ours = gz_pyg.NeighborLoader(homogeneous, [-1, -1], torch.arange(100), batch_size=20)
    for a, b in zip(stock, ours, strict=True):
        assert torch.equal(a.n_id, b.n_id)
        assert torch.equal(a.edge_index, b.edge_index)
        assert torch.equal(a.e_id, b.e_id)
        assert torch.equal(a.x, b.x)
        assert a.num_sampled_nodes == b.num_sampled_nodes
        assert a.num_sampled_edges == b.num_sampled_edges


def test_the_graph_itself_as_one_in_memory(homogeneous, homogeneous_path):
    """Where it fits: PyG sorts the edges. Rows still come from the files, edge attributes too."""
    data = gz_pyg.load(homogeneous_path)
    stock = NeighborLoader(data, [-1, -1], torch.arange(100), batch_size=20)
    ours = gz_pyg.NeighborLoader(homogeneous, [-1, -1], torch.arange(100), batch_size=20)
    for a, b in zip(stock, ours, strict=True):
        assert torch.equal(a.n_id.sort()[0], b.n_id.sort()[0])
        assert torch.equal(a.e_id.sort()[0], b.e_id.sort()[0])
        assert torch.equal(a.x, homogeneous.x[a.n_id])
        assert torch.equal(a.edge_attr, homogeneous.edge_attr[a.e_id])
        assert torch.equal(a.n_id[a.edge_index], homogeneous.edge_index[:, a.e_id])


@pytest.mark.parametrize("disjoint", [False, True])
def test_heterogeneous(heterogeneous, heterogeneous_path, disjoint):
    options = {"num_neighbors": [-1, -1], "batch_size": 20, "disjoint": disjoint}
    stock = NeighborLoader(pair(heterogeneous_path), input_nodes=("paper", torch.arange(100)), **options)
    ours = gz_pyg.NeighborLoader(heterogeneous, input_nodes=("paper", torch.arange(100)), **options)
    for a, b in zip(stock, ours, strict=True):
        for t in heterogeneous.node_types:  # the stock sampler's order of types is that of a Python set
            trees = (a[t].batch, b[t].batch) if disjoint else (torch.zeros(1), torch.zeros(1))
            keys = [1000 * tree + part.n_id for tree, part in zip(trees, (a[t], b[t]), strict=True)]
            assert torch.equal(keys[0].sort()[0], keys[1].sort()[0])
        assert torch.equal(a["paper"].x, heterogeneous["paper"].x[a["paper"].n_id])
        for t in heterogeneous.edge_types:
            assert torch.equal(a[t].e_id.sort()[0], b[t].e_id.sort()[0])
            row, col = a[t].edge_index
            ends = torch.stack([a[t[0]].n_id[row], a[t[2]].n_id[col]])
            assert torch.equal(ends, heterogeneous[t].edge_index[:, a[t].e_id])


def test_links(homogeneous, homogeneous_path):
    edges = homogeneous.edge_index[:, :60]
    options = {"num_neighbors": [-1], "batch_size": 20, "neg_sampling_ratio": 1.0}
    for batch in LinkNeighborLoader(pair(homogeneous_path), edge_label_index=(None, edges), **options):
        assert torch.equal(batch.n_id[batch.edge_label_index[:, :20]], edges[:, batch.input_id])
        assert torch.equal(batch.x, homogeneous.x[batch.n_id])


def test_times_of_a_graph_saved_in_their_order(homogeneous, tmp_path):
    data = homogeneous.clone()
    row, col = data.edge_index
    order = (col * 10_000 + data.time[row]).argsort()  # what the stock sampler demands of remote backends
    data.edge_index = data.edge_index[:, order]
    for name in ("edge_attr", "edge_time", "weight"):
        del data[name]
    loaded = pair(gz_pyg.save(data, tmp_path / "sorted"))
    options = {"num_neighbors": [-1, -1], "time_attr": "time", "batch_size": 10}
    stock = NeighborLoader(loaded, input_nodes=torch.arange(100), **options)
    ours = gz_pyg.NeighborLoader(homogeneous, input_nodes=torch.arange(100), **options)
    for a, b in zip(stock, ours, strict=True):
        assert bool((a.time <= a.time[: a.batch_size][a.batch]).all())
        assert torch.equal((1000 * a.batch + a.n_id).sort()[0], (1000 * b.batch + b.n_id).sort()[0])
