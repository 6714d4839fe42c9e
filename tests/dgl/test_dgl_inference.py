"""Layer-wise inference into mapped columns gives what the layers give on the whole graph in memory."""

from __future__ import annotations

import dgl
import dgl.nn
import numpy as np
import pytest
import torch
from dgl_graphs import games, random_graph

import gz
import gz_dgl


def test_layers_over_all_nodes_equal_the_full_graph(on_disk, tmp_path):
    torch.manual_seed(0)
    g = random_graph()
    layers = [dgl.nn.SAGEConv(8, 16, "mean", activation=torch.relu), dgl.nn.SAGEConv(16, 4, "mean")]
    out = gz_dgl.inference(on_disk(g), layers, tmp_path / "out.npy", batch_size=33)
    h = g.ndata["feat"]
    for layer in layers:
        h = layer(g, h)
    assert torch.allclose(out, h, atol=1e-5)
    assert np.array_equal(gz.FeatureStore(tmp_path / "out.npy").get_tensor(), out.numpy())
    assert [p.name for p in tmp_path.glob("*.npy")] == ["out.npy"]  # no inner layers left


def test_layers_over_several_types(on_disk, tmp_path):
    torch.manual_seed(0)
    g = games()
    layers = [
        dgl.nn.HeteroGraphConv({e: dgl.nn.SAGEConv(8, 8, "mean") for e in g.etypes}, aggregate="sum")
        for _ in range(2)
    ]
    out = gz_dgl.inference(on_disk(g), layers, tmp_path / "out", batch_size=2)
    h = {t: g.nodes[t].data["feat"] for t in g.ntypes}
    for layer in layers:
        h = layer(g, h)
    assert set(out) == set(h)
    for t in h:
        assert torch.allclose(out[t], h[t], atol=1e-5)
        assert (tmp_path / "out" / f"{t}.npy").exists()


def test_a_failing_layer_leaves_nothing_behind(on_disk, tmp_path):
    def fails(block, h):
        if block.dstdata[dgl.NID][0] > 0:
            raise RuntimeError("no")
        return h[: block.num_dst_nodes()]

    with pytest.raises(RuntimeError, match="no"):
        gz_dgl.inference(on_disk(random_graph()), [fails], tmp_path / "out.npy", batch_size=100)
    assert list(tmp_path.glob("*.npy")) == []


def test_an_empty_column_replaces_a_tensor_in_a_scripts_own_loop(tmp_path):
    y = gz_dgl.empty_column(tmp_path / "y.npy", (10, 3))
    y[torch.tensor([2, 7])] = torch.ones(2, 3)
    assert gz.FeatureStore(tmp_path / "y.npy").gather([7]).tolist() == [[1, 1, 1]]
    with pytest.raises(ValueError, match=r"\.npy"):
        gz_dgl.empty_column(tmp_path / "y.bin", (1,))


def test_the_output_can_become_a_column_of_the_store(on_disk, tmp_path):
    torch.manual_seed(0)
    g = random_graph()
    layers = [dgl.nn.SAGEConv(8, 16, "mean"), dgl.nn.SAGEConv(16, 4, "mean")]
    h = on_disk(g)
    out = gz_dgl.inference(h, layers, tmp_path / "out.npy", column="emb", batch_size=33)
    x = g.ndata["feat"]
    for layer in layers:
        x = layer(g, x)
    assert torch.allclose(out, x, atol=1e-5)
    assert torch.equal(gz_dgl.load(h.store.path).ndata["emb"], out)
    assert list(tmp_path.glob("*.npy")) == []


def test_a_failing_layer_leaves_the_store_as_it_was(on_disk, tmp_path):
    def fails(block, h):
        if block.dstdata[dgl.NID][0] > 0:
            raise RuntimeError("no")
        return h[: block.num_dst_nodes()]

    g = on_disk(random_graph())
    before = sorted(p for p in (tmp_path / g.store.path).rglob("*"))
    with pytest.raises(RuntimeError, match="no"):
        gz_dgl.inference(g, [fails], tmp_path / "out.npy", column="emb", batch_size=100)
    assert sorted(p for p in (tmp_path / g.store.path).rglob("*")) == before
