"""What a loaded graph answers and does as a PyG Data or HeteroData: sizes, devices, methods, loaders."""

from __future__ import annotations

import copy

import pytest
import torch
from pyg_batches import equal
from torch_geometric.data import Data, HeteroData

import gz_pyg

# ---- devices, without a GPU: the "meta" device has sizes and no values ----


def test_to_a_device_loads_nothing_and_batches_bring_it_there(homogeneous_path):
    data = gz_pyg.load(homogeneous_path)
    loader = gz_pyg.NeighborLoader(data, [3], batch_size=50)
    assert data.to("meta", "x", "edge_index", "edge_attr") is data
    assert data.x.device.type == "meta"
    assert data.x.shape == (100, 8)
    assert data.y.device.type == "cpu"
    for made in (loader, gz_pyg.NeighborLoader(data, [3], batch_size=50, num_workers=1)):
        for batch in made:
            assert {k: v.device.type for k, v in batch if isinstance(v, torch.Tensor)} == {
                **dict.fromkeys(("x", "edge_index", "edge_attr"), "meta"),
                **dict.fromkeys(("y", "time", "edge_time", "weight", "n_id", "e_id", "input_id"), "cpu"),
            }
            assert batch.x.shape == (batch.num_nodes, 8)
    data.cpu()
    for batch in loader:
        assert torch.equal(batch.x, gz_pyg.load(homogeneous_path).x[batch.n_id])


def test_what_is_written_moves_as_in_pyg(heterogeneous_path):
    data = gz_pyg.load(heterogeneous_path)
    data["paper"].y = torch.arange(100)
    data.to("meta", "x", "y")
    assert data["paper"].y.is_meta
    assert {t: data[t].x.device.type for t in ("paper", "author")} == {"paper": "meta", "author": "meta"}
    data.to("cpu", "x")
    batch = next(iter(gz_pyg.NeighborLoader(data, [2], "author", filter_per_worker=True)))
    assert batch["paper"].y.is_meta
    assert not batch["paper"].x.is_meta


def test_rows_of_a_moved_column_are_read_without_the_rest(homogeneous, homogeneous_path, monkeypatch):
    data = gz_pyg.load(homogeneous_path)
    data.to("meta", "x")
    x, rows = data.x, []
    monkeypatch.setattr(
        "gz_pyg._store.stored.StoredColumn._make", lambda self: pytest.fail("all of it was read")
    )
    taken = gz_pyg.load(homogeneous_path)._store._mapping.raw("x")
    rows = x[torch.tensor([5, 7, 5])]
    assert (rows.device.type, rows.shape) == ("meta", (3, 8))
    assert torch.equal(taken.take(torch.tensor([5, 7])), homogeneous.x[[5, 7]])


# ---- nothing is read ----


def test_what_asks_for_sizes_reads_no_edges(
    homogeneous, heterogeneous, homogeneous_path, heterogeneous_path, monkeypatch
):
    monkeypatch.setattr("gz_pyg._store.stored.edge_ends", lambda *_: pytest.fail("edges were read"))
    data, hetero = gz_pyg.load(homogeneous_path), gz_pyg.load(heterogeneous_path)
    for got, want in ((data, homogeneous), (hetero, heterogeneous)):
        assert got.num_edges == want.num_edges
        assert got.num_nodes == want.num_nodes
        assert got.size() == want.size()
        assert got.num_features == want.num_features
        assert got.num_edge_features == want.num_edge_features
        assert sorted(got.keys()) == sorted(want.keys())
        assert len(got) == len(want)
        assert got.is_cuda == want.is_cuda
        assert set(got.node_attrs()) == set(want.node_attrs())
        assert set(got.edge_attrs()) == set(want.edge_attrs())
        assert "edge_index" in repr(got)
        assert [sorted(s.keys()) for s in got.stores] == [sorted(s.keys()) for s in want.stores]
        copy.copy(got).contiguous().to("cpu").share_memory_()
    assert data.edge_index.size(1) == 600
    assert data.is_edge_attr("edge_attr")
    assert data.edge_stores[0].num_edges == 600
    assert [t for t, _ in hetero.node_items()] == hetero.node_types
    assert [t for t, _ in hetero.edge_items()] == hetero.edge_types
    list(gz_pyg.LinkNeighborLoader(data, [2], edge_label_index=torch.tensor([[0], [1]])))
    assert data.get("nothing") is None
    assert data.pos is None
    with pytest.raises(pytest.fail.Exception):
        data.edge_index.max()


def test_pygs_methods_give_what_they_give_in_memory(
    homogeneous, heterogeneous, homogeneous_path, heterogeneous_path
):
    data, hetero = gz_pyg.load(homogeneous_path), gz_pyg.load(heterogeneous_path)
    for got, want in ((data, homogeneous), (hetero, heterogeneous)):
        assert got.validate()
        assert got.is_undirected() == want.is_undirected()
        assert got.has_isolated_nodes() == want.has_isolated_nodes()
        assert got.has_self_loops() == want.has_self_loops()
        assert got.is_coalesced() == want.is_coalesced()
    subset = torch.arange(0, 100, 3)
    equal(data.subgraph(subset), homogeneous.subgraph(subset))
    equal(data.sort(), homogeneous.sort())
    by_type = {"paper": subset, "author": torch.arange(50)}
    equal(hetero.subgraph(by_type), heterogeneous.subgraph(by_type))
    equal(hetero.node_type_subgraph(["paper"]), heterogeneous.node_type_subgraph(["paper"]))
    equal(hetero.to_homogeneous(), heterogeneous.to_homogeneous())
    got, want = data.to_dict(), homogeneous.to_dict()
    assert type(got) is dict
    assert got.keys() == want.keys()
    assert all(torch.equal(got[k], want[k]) for k in want if isinstance(want[k], torch.Tensor))
    assert type(data) is gz_pyg.StoreData
    assert isinstance(hetero, gz_pyg.StoreHeteroData)


def test_a_subgraph_reads_no_other_edges(
    homogeneous, heterogeneous, homogeneous_path, heterogeneous_path, monkeypatch
):
    monkeypatch.setattr(
        "gz_pyg._store.stored.StoredEdgeIndex._make", lambda _: pytest.fail("all edges were read")
    )
    data, hetero = gz_pyg.load(homogeneous_path), gz_pyg.load(heterogeneous_path)
    assert data.validate()
    assert hetero.validate()
    subsets = torch.randperm(100)[:40], torch.arange(100) % 3 == 0
    for subset in subsets:
        equal(data.subgraph(subset), homogeneous.subgraph(subset))
        for by_type in ({"paper": subset}, {"paper": subset, "author": torch.randperm(200)[:30]}):
            equal(hetero.subgraph(by_type), heterogeneous.subgraph(by_type))
    part = data.subgraph(subsets[0])
    part.y = part.y + 1
    (batch,) = gz_pyg.NeighborLoader(part, [-1], batch_size=40)
    assert torch.equal(batch.y, homogeneous.y[subsets[0]][batch.n_id] + 1)


def test_a_subgraph_of_edges_that_were_written(homogeneous, homogeneous_path):
    memory, data = homogeneous.clone(), gz_pyg.load(homogeneous_path)
    memory.edge_index = data.edge_index = homogeneous.edge_index.flip(0)
    subset = torch.randperm(100)[:40]
    equal(data.subgraph(subset), memory.subgraph(subset))


def test_a_file_that_is_gone_is_not_valid(homogeneous, tmp_path):
    path = gz_pyg.save(homogeneous, tmp_path / "s")
    next((tmp_path / "s").rglob("x*.gd")).unlink()
    assert not gz_pyg.load(path).validate(raise_on_error=False)
    with pytest.raises(FileNotFoundError):
        gz_pyg.load(path).validate()


def test_one_feature_is_a_feature(tmp_path):
    data = Data(x=torch.arange(3.0), edge_index=torch.tensor([[0], [1]]))
    loaded = gz_pyg.load(gz_pyg.save(data, tmp_path / "s"))
    assert loaded.num_features == 1
    assert loaded.edge_attr is None
    assert loaded.num_edge_features == 0


# ---- loaders ----


def test_loaders_are_pygs(homogeneous_path):
    import torch_geometric.loader as pyg

    data = gz_pyg.load(homogeneous_path)
    assert isinstance(gz_pyg.NeighborLoader(data, [2]), pyg.NeighborLoader)
    assert isinstance(gz_pyg.LinkNeighborLoader(data, [2]), pyg.LinkNeighborLoader)
    assert isinstance(gz_pyg.ShaDowKHopSampler(data, 1, 2), pyg.ShaDowKHopSampler)


def test_a_copied_loader_has_neighbours_of_its_own(homogeneous_path):
    data = gz_pyg.load(homogeneous_path)
    loader = gz_pyg.NeighborLoader(data, [2], batch_size=100)
    other = copy.copy(loader)
    other.num_neighbors = [-1]
    (few,), (all_of_them,) = loader, other
    assert all_of_them.num_edges == 600
    assert few.num_edges < 300
    other.node_sampler.num_neighbors = [1]
    assert next(iter(other)).num_edges <= 100


def test_layerwise_inference_leaves_columns_out(homogeneous, homogeneous_path):
    """As PyG's reddit example: what is deleted is not gathered, what is added is."""
    data = gz_pyg.load(homogeneous_path)
    loader = gz_pyg.NeighborLoader(copy.copy(data), [-1], batch_size=30)
    del loader.data.x, loader.data.y
    loader.data.num_nodes = data.num_nodes
    loader.data.n_id = torch.arange(data.num_nodes)
    for batch in loader:
        assert "x" not in batch
        assert "y" not in batch
        assert batch.num_nodes == batch.n_id.numel()
    assert torch.equal(data.x, homogeneous.x)


@pytest.mark.parametrize("kind", ["memory", "store"])
def test_basic_gnn_inference_takes_the_loader(homogeneous, homogeneous_path, kind):
    from torch_geometric.nn import GraphSAGE

    torch.manual_seed(0)
    model = GraphSAGE(8, 16, num_layers=2, out_channels=3).eval()
    data = homogeneous if kind == "memory" else gz_pyg.load(homogeneous_path)
    loader = gz_pyg.NeighborLoader(copy.copy(data), [-1], batch_size=30)
    with torch.no_grad():
        want = model(homogeneous.x, homogeneous.edge_index)
        assert torch.allclose(model.inference(loader), want, atol=1e-5)


def test_link_loaders_of_all_edges_list_none(homogeneous, homogeneous_path, monkeypatch):
    data = gz_pyg.load(homogeneous_path)
    monkeypatch.setattr(
        "gz_pyg._store.stored.StoredEdgeIndex._make", lambda _: pytest.fail("edges were listed")
    )
    loader = gz_pyg.LinkNeighborLoader(data, [2], edge_label_index=data.edge_index, batch_size=100)
    for batch in loader:
        assert torch.equal(batch.n_id[batch.edge_label_index], homogeneous.edge_index[:, batch.input_id])


def test_hetero_attributes_by_name(heterogeneous, heterogeneous_path):
    data = gz_pyg.load(heterogeneous_path)
    data.set_value_dict("y", {"paper": torch.arange(100), "author": torch.arange(200)})
    assert {t: v.tolist() for t, v in data.y_dict.items()} == {
        "paper": [*range(100)],
        "author": [*range(200)],
    }
    assert data.collect("x").keys() == heterogeneous.collect("x").keys()
    other = HeteroData()
    other["paper"].z = torch.ones(100)
    data.update(other)
    assert "z" in data["paper"]
    assert data["paper", "author"].num_edges == 1000
