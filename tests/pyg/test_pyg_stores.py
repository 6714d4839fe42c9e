"""gz_pyg.save, load, FeatureStore and GraphStore: PyG's interfaces over files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, EdgeAttr, HeteroData, TensorAttr
from torch_geometric.data.feature_store import AttrView

import gz
import gz_pyg

CITES = ("paper", "cites", "paper")


# ---- save and load ----


def test_a_saved_graph_reads_back_equal(homogeneous, homogeneous_path):
    back = gz_pyg.load(homogeneous_path).to_data()
    assert set(back.keys()) == set(homogeneous.keys())
    for name in homogeneous.keys():  # noqa: SIM118
        a, b = homogeneous[name], back[name]
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def test_a_saved_heterogeneous_graph_reads_back_equal(heterogeneous, heterogeneous_path):
    back = gz_pyg.load(heterogeneous_path).to_data()
    assert back.metadata() == heterogeneous.metadata()
    for t in heterogeneous.node_types:
        assert back[t].num_nodes == heterogeneous[t].num_nodes
    for t in (*heterogeneous.node_types, *heterogeneous.edge_types):
        assert set(back[t].keys()) == set(heterogeneous[t].keys())
        for name, value in heterogeneous[t].items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(back[t][name], value)
            else:
                assert back[t][name] == value


def test_everything_else_is_saved_too(tmp_path):
    data = Data(
        edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3, edge_label_index=torch.tensor([[0], [2]])
    )
    data.name, data.scale, data.classes = "three", 0.5, ["a", "b"]
    back = gz_pyg.load(gz_pyg.save(data, tmp_path / "s"))
    assert torch.equal(back.edge_label_index, data.edge_label_index)
    assert (back.name, back.scale, back.classes) == ("three", 0.5, ["a", "b"])
    hetero = HeteroData(name="h")
    hetero["a"].x = torch.randn(3, 2)
    hetero["a", "to", "a"].edge_index = torch.tensor([[0], [1]])
    hetero["a", "to", "a"].edge_label_index = torch.tensor([[0, 1], [2, 2]])
    back = gz_pyg.load(gz_pyg.save(hetero, tmp_path / "h"))
    assert back.name == "h"
    assert back["a", "to", "a"].edge_label_index.tolist() == [[0, 1], [2, 2]]
    assert gz.open(tmp_path / "h").num_nodes() == 3


def test_save_refuses_what_it_cannot_keep(tmp_path):
    with pytest.raises(TypeError, match="give a Data or a HeteroData"):
        gz_pyg.save([1, 2], tmp_path / "s")
    gz_pyg.save(Data(num_nodes=2), tmp_path / "s")
    with pytest.raises(FileExistsError):
        gz_pyg.save(Data(num_nodes=2), tmp_path / "s")
    gz_pyg.save(Data(num_nodes=3), tmp_path / "s", overwrite=True)
    assert gz_pyg.load(tmp_path / "s").num_nodes == 3


def test_a_loaded_graph_reads_like_data(homogeneous, homogeneous_path):
    data = gz_pyg.load(homogeneous_path)
    assert isinstance(data, Data)
    assert isinstance(data.feature_store, gz_pyg.FeatureStore)
    assert isinstance(data.graph_store, gz_pyg.GraphStore)
    assert (data.num_nodes, data.num_edges, data.num_features, data.num_node_features) == (100, 600, 8, 8)
    assert data.num_edge_features == 3
    assert data.num_classes == int(homogeneous.y.max()) + 1
    assert torch.equal(data.x, homogeneous.x)
    assert torch.equal(data["x"], homogeneous.x)
    assert torch.equal(data.edge_index, homogeneous.edge_index)
    assert torch.equal(data.edge_attr, homogeneous.edge_attr)
    assert "x" in data
    assert "z" not in data
    assert data.validate()
    assert "num_nodes=100" in repr(data)
    assert "x=[100, 8]" in repr(data)


def test_x_is_the_mapped_file(homogeneous_path):
    data = gz_pyg.load(homogeneous_path)
    mapped = gz.open(homogeneous_path).feature("x").get_tensor()
    assert data.x.data_ptr() == data.store.feature("x").get_tensor().ctypes.data
    data.x[0, 0] = 99.0  # a private page: the file is not touched
    assert mapped[0, 0] != 99.0
    assert gz_pyg.load(homogeneous_path).x[0, 0] != 99.0


def test_a_loaded_graph_reads_like_hetero_data(heterogeneous, heterogeneous_path):
    data = gz_pyg.load(heterogeneous_path)
    assert isinstance(data, HeteroData)
    assert data.metadata() == heterogeneous.metadata()
    assert data.node_types == ["paper", "author", "venue"]
    assert data["paper"].num_nodes == 100
    assert data["paper"].num_features == 4
    assert torch.equal(data["author"].x, heterogeneous["author"].x)
    assert torch.equal(data[CITES].edge_index, heterogeneous[CITES].edge_index)
    assert torch.equal(data["paper", "author"].edge_attr, torch.arange(1000))
    assert set(data.x_dict) == {"paper", "author"}
    assert set(data.edge_index_dict) == set(heterogeneous.edge_types)
    assert data.num_nodes_dict == {"paper": 100, "author": 200, "venue": 5}
    assert set(data.collect("time")) == {"paper", "author"}
    assert "author={ num_nodes=200" in repr(data)


def test_splits_and_masks(tmp_path, homogeneous):
    row, col = homogeneous.edge_index.numpy()
    splits = {"train": np.array([1, 5]), "valid": np.array([2]), "test": np.array([3, 4])}
    gz.ingest(
        tmp_path / "s", edges=(row, col), features={"y": homogeneous.y.numpy()}, num_nodes=100, splits=splits
    )
    data = gz_pyg.load(tmp_path / "s")
    assert {k: v.tolist() for k, v in data.get_idx_split().items()} == {
        "train": [1, 5],
        "valid": [2],
        "test": [3, 4],
    }
    assert data.train_mask.nonzero().view(-1).tolist() == [1, 5]
    assert data.val_mask.nonzero().view(-1).tolist() == [2]
    assert "test_mask" in data
    batch = next(iter(gz_pyg.NeighborLoader(data, [2], data.train_mask, batch_size=2)))
    assert batch.input_id.tolist() == [1, 5]


def test_labels_with_holes(tmp_path):
    y = np.array([[0.0], [np.nan], [7.0]], np.float32)  # as papers100M has them
    gz.ingest(tmp_path / "s", edges=([0], [1]), features={"y": y}, num_nodes=3)
    assert gz_pyg.load(tmp_path / "s").num_classes == 8


def test_what_is_missing_is_named(homogeneous_path, heterogeneous_path):
    data = gz_pyg.load(homogeneous_path)
    with pytest.raises(AttributeError, match=r"edge_attr|'x'"):
        _ = data.nothing
    with pytest.raises(KeyError):
        data["nothing"]
    data = gz_pyg.load(heterogeneous_path)
    with pytest.raises(AttributeError, match="there are"):
        _ = data["paper"].nothing
    with pytest.raises(AttributeError, match="edge_index"):
        _ = data["paper", "venue"].edge_index


def test_everything_pickles_by_path(homogeneous_path):
    data = gz_pyg.load(homogeneous_path)
    _ = data.x
    text = pickle.dumps((data, gz_pyg.NeighborSampler(data, [2], time_attr="time", weight_attr="weight")))
    assert len(text) < 4000
    again, sampler = pickle.loads(text)
    assert torch.equal(again.x, data.x)
    assert sampler.is_temporal


# ---- FeatureStore ----


def test_tensors_and_their_parts(homogeneous, homogeneous_path):
    features = gz_pyg.FeatureStore(homogeneous_path)
    x = homogeneous.x
    assert torch.equal(features.get_tensor(None, "x", None), x)
    index = torch.tensor([3, 3, 1])
    assert torch.equal(features.get_tensor(group_name=None, attr_name="x", index=index), x[index])
    assert torch.equal(features.get_tensor(None, "x", slice(2, 5)), x[2:5])
    assert torch.equal(features.get_tensor(None, "x", 4), x[4])
    assert torch.equal(features[None, "x", None], x)
    got = features.multi_get_tensor([TensorAttr(None, "x", index), TensorAttr(None, "y", index)])
    assert torch.equal(got[1], homogeneous.y[index])
    assert tuple(features.get_tensor_size(None, "x")) == (100, 8)
    assert features.get_tensor_size(None, "nothing") is None
    with pytest.raises(KeyError, match="edge_attr"):
        features.get_tensor(None, "nothing", None)
    with pytest.raises(IndexError, match="100"):
        features.get_tensor(None, "x", torch.tensor([100]))


def test_edge_tensors_are_indexed_by_edge_id(homogeneous, homogeneous_path):
    features = gz_pyg.FeatureStore(homogeneous_path)
    index = torch.tensor([599, 0, 17])
    assert torch.equal(features.get_tensor(None, "edge_attr", index), homogeneous.edge_attr[index])
    assert tuple(features.get_tensor_size(None, "edge_attr")) == (600, 3)
    with pytest.raises(IndexError, match="600"):
        features.get_tensor(None, "edge_attr", torch.tensor([600]))


def test_views(heterogeneous, heterogeneous_path):
    features = gz_pyg.FeatureStore(heterogeneous_path)
    view = features["paper"]
    assert isinstance(view, AttrView)
    assert torch.equal(view.x[torch.tensor([1, 2])], heterogeneous["paper"].x[[1, 2]])
    assert torch.equal(features["paper", "x"](), heterogeneous["paper"].x)


def test_all_attrs_are_fresh_and_name_every_type(heterogeneous_path, homogeneous_path):
    features = gz_pyg.FeatureStore(heterogeneous_path)
    attrs = features.get_all_tensor_attrs()
    attrs[0].index = torch.tensor([1])
    assert not features.get_all_tensor_attrs()[0].is_set("index")
    assert {a.group_name for a in attrs if isinstance(a.group_name, str)} == {"paper", "author", "venue"}
    assert torch.equal(features.get_tensor("venue", "n_id", torch.tensor([4, 2])), torch.tensor([4, 2]))
    names = {a.attr_name for a in gz_pyg.FeatureStore(homogeneous_path).get_all_tensor_attrs()}
    assert names == {"x", "y", "time"}


def test_tensors_put_and_removed_are_put_and_removed_in_the_graph(heterogeneous_path):
    data = gz_pyg.load(heterogeneous_path)
    features = data.feature_store
    extra = torch.arange(100)
    assert features.put_tensor(extra, group_name="paper", attr_name="extra", index=None)
    assert features.put_tensor(torch.arange(500), CITES, "extra", None)
    assert data["paper"].extra is extra
    for batch in gz_pyg.NeighborLoader(data, [2], "paper", batch_size=50):
        assert torch.equal(batch["paper"].extra, batch["paper"].n_id)
        assert torch.equal(batch[CITES].extra, batch[CITES].e_id)
    assert features.remove_tensor("paper", "extra", None)
    with pytest.raises(KeyError):
        features.get_tensor("paper", "extra", None)
    with pytest.raises(ValueError, match="100 nodes"):
        features.put_tensor(torch.arange(3), "paper", "extra", None)
    assert features.remove_tensor("paper", "x", None)
    assert "x" not in data["paper"]
    assert "x" in gz_pyg.load(heterogeneous_path)["paper"]
    features.put_tensor(torch.full((2, 6), 3.0), "author", "x", torch.tensor([4, 7]))
    assert data["author"].x[[4, 7]].tolist() == [[3.0] * 6] * 2


# ---- GraphStore ----


def test_layouts(homogeneous, homogeneous_path):
    graph = gz_pyg.GraphStore(homogeneous_path)
    row, colptr, perm = graph.csc()
    col = torch.repeat_interleave(torch.arange(100), colptr.diff())
    assert torch.equal(torch.stack([row, col]), homogeneous.edge_index[:, perm])
    rowptr, col, perm = graph.csr()
    row = torch.repeat_interleave(torch.arange(100), rowptr.diff())
    assert torch.equal(torch.stack([row, col]), homogeneous.edge_index[:, perm])
    row, col, perm = graph.coo()
    assert perm is None
    assert torch.equal(torch.stack([row, col]), homogeneous.edge_index)
    attr = next(a for a in graph.get_all_edge_attrs() if a.layout.value == "csc")
    assert attr.size == (100, 100)
    assert attr.edge_type is None
    assert torch.equal(graph[attr][1], colptr)


def test_csr_where_only_one_direction_is_stored(tmp_path, homogeneous):
    graph = gz_pyg.GraphStore(gz_pyg.save(homogeneous, tmp_path / "s"))
    rowptr, col, perm = graph.csr()
    row = torch.repeat_interleave(torch.arange(100), rowptr.diff())
    assert torch.equal(torch.stack([row, col]), homogeneous.edge_index[:, perm])


def test_heterogeneous_layouts(heterogeneous, heterogeneous_path):
    graph = gz_pyg.GraphStore(heterogeneous_path)
    rows, colptrs, perms = graph.csc()
    for t in heterogeneous.edge_types:
        col = torch.repeat_interleave(torch.arange(len(colptrs[t]) - 1), colptrs[t].diff())
        assert torch.equal(torch.stack([rows[t], col]), heterogeneous[t].edge_index[:, perms[t]])
    assert set(graph.csc([CITES])[0]) == {CITES}
    with pytest.raises(KeyError, match="cites"):
        graph.csc([("a", "b", "c")])
    with pytest.raises(KeyError):
        graph.get_edge_index(EdgeAttr(("a", "b", "c"), "csc"))


@pytest.mark.parametrize("layout", ["coo", "csc", "csr"])
def test_edges_that_are_put_are_sampled(homogeneous_path, layout):
    data = gz_pyg.load(homogeneous_path)
    ring = torch.stack([torch.arange(100), (torch.arange(100) + 1) % 100])
    ring = ring[:, ring[1].argsort()] if layout == "csc" else ring
    pair = {"coo": tuple(ring), "csc": (ring[0], torch.arange(101)), "csr": (torch.arange(101), ring[1])}[
        layout
    ]
    data.graph_store.put_edge_index(pair, edge_type=None, layout=layout, size=(100, 100))
    for name in ("edge_attr", "edge_time", "weight"):
        del data[name]
    for batch in gz_pyg.NeighborLoader(data, [-1], batch_size=10):
        row, col = batch.n_id[batch.edge_index]
        assert torch.equal((row + 1) % 100, col)
        assert torch.equal(torch.stack([row, col]), ring[:, batch.e_id])
    row, colptr, perm = data.graph_store.csc()
    assert torch.equal(row, ring[0][perm])
    assert torch.equal(colptr, torch.arange(101))
    data.graph_store.remove_edge_index(None, "coo")
    assert data.edge_index is None
    assert data.graph_store.get_all_edge_attrs() == []


def test_edge_ids_are_positions_where_none_were_kept(tmp_path, homogeneous):
    row, col = homogeneous.edge_index.numpy()
    gz.ingest(tmp_path / "s", edges=(row, col), num_nodes=100, keep_edge_ids=False)
    data = gz_pyg.load(tmp_path / "s")
    for batch in gz_pyg.NeighborLoader(data, [3, 3], batch_size=20):
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    for batch in gz_pyg.LinkNeighborLoader(data, [2], batch_size=50):
        assert torch.equal(batch.n_id[batch.edge_label_index], data.edge_index[:, batch.input_id])


def test_an_undirected_store(tmp_path, homogeneous):
    row, col = homogeneous.edge_index.numpy()
    weight = np.arange(600, dtype=np.float32)
    gz.ingest(tmp_path / "s", edges=(row, col), num_nodes=100, undirected=True, edge_features={"w": weight})
    data = gz_pyg.load(tmp_path / "s")
    known = {tuple(sorted(e)) for e in homogeneous.edge_index.t().tolist()}
    for batch in gz_pyg.NeighborLoader(data, [3, 3], batch_size=20, weight_attr="w"):
        assert torch.equal(batch.w, data.w[batch.e_id])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert batch.w.long().tolist() == data.store.graph().edge_ids[batch.e_id.numpy()].tolist()
        assert {tuple(sorted(e)) for e in batch.n_id[batch.edge_index].t().tolist()} <= known
    total = 0
    for batch in gz_pyg.LinkNeighborLoader(data, [2], batch_size=100):
        total += batch.edge_label_index.size(1)
        assert {tuple(sorted(e)) for e in batch.n_id[batch.edge_label_index].t().tolist()} <= known
    assert total == data.num_edges


def test_splits_become_masks_in_memory(tmp_path):
    gz.ingest(tmp_path / "s", edges=([0, 1], [1, 2]), splits={"train": [0, 2], "valid": [1]})
    data = gz_pyg.load(tmp_path / "s").to_memory()
    assert type(data) is Data
    assert data.train_mask.tolist() == [True, False, True]
    assert data.val_mask.tolist() == [False, True, False]
    assert data.edge_index.tolist() == [[0, 1], [1, 2]]


def test_a_graph_that_would_not_fit_is_refused(homogeneous_path, monkeypatch):
    monkeypatch.setattr("gz._base.memory_plan.free_ram", lambda: 1000)
    with pytest.raises(MemoryError, match="use it where it lies"):
        gz_pyg.load(homogeneous_path).to_memory()


def test_arrays_and_mapped_arrays_are_saved_as_columns(tmp_path, homogeneous):
    x = np.memmap(tmp_path / "x.bin", np.float32, "w+", shape=(100, 8))
    x[:] = homogeneous.x.numpy()
    data = Data(edge_index=homogeneous.edge_index, y=homogeneous.y.numpy())
    data.x, data.edge_attr = x, homogeneous.edge_attr.numpy()
    loaded = gz_pyg.load(gz_pyg.save(data, tmp_path / "store"))
    for name in ("x", "y", "edge_attr"):
        assert torch.equal(getattr(loaded, name), homogeneous[name])


def test_a_batch_has_the_fields_it_has_in_memory(
    homogeneous, homogeneous_path, heterogeneous, heterogeneous_path
):
    batches = [
        next(iter(gz_pyg.NeighborLoader(d, [2], batch_size=5))) for d in (homogeneous, homogeneous_path)
    ]
    assert set(batches[0].keys()) == set(batches[1].keys())
    assert batches[1].name == "random"
    batches = [
        next(iter(gz_pyg.NeighborLoader(d, [2], "paper", batch_size=5)))
        for d in (heterogeneous, heterogeneous_path)
    ]
    for t in [*heterogeneous.node_types, *heterogeneous.edge_types]:
        assert set(batches[0][t].keys()) == set(batches[1][t].keys())


def test_a_batch_has_what_goes_with_no_node_and_no_edge(tmp_path):
    data = Data(x=torch.randn(3, 2), edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3, scale=0.5)
    hetero = HeteroData(scale=0.5)
    hetero["a"].x, hetero["a"].num_nodes = torch.randn(3, 2), 3
    hetero["b"].num_nodes, hetero["b"].colour = 2, "red"
    hetero["b", "to", "a"].edge_index = torch.tensor([[0, 1], [1, 1]])
    hetero["b", "to", "a"].units = "km"
    for graph, nodes in ((data, None), (hetero, "a")):
        path = gz_pyg.save(graph, tmp_path / type(graph).__name__)
        want, got = (next(iter(gz_pyg.NeighborLoader(d, [-1], nodes))) for d in (graph, path))
        assert got.scale == 0.5
        assert len(got) == len(want)
        for a, b in zip(want.stores, got.stores, strict=True):
            assert set(a.keys()) == set(b.keys())
    assert (got["b"].colour, got["b", "to", "a"].units) == ("red", "km")
    assert got.node_types == hetero.node_types
