"""gz_pyg.save of edges kept as a matrix, of frames, of what a store knows: nothing is left out silently."""

from __future__ import annotations

import copy
import importlib
import json

import numpy as np
import pandas as pd
import pytest
import torch
import torch_geometric.typing
from pyg_batches import equal
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import ToSparseTensor

import gz
import gz_pyg
from gz.verify import verify

# ---- edges as a matrix ----


def simple_graph():
    """Without two edges of the same ends: PyG's conversion to a matrix would merge them."""
    ends = torch.combinations(torch.arange(12))[torch.randperm(66)[:40]].t().contiguous()
    return Data(
        x=torch.randn(12, 3), edge_index=ends, edge_weight=torch.rand(40), edge_attr=torch.randn(40, 2)
    )


LAYOUTS = {
    "csr": lambda m: m,
    "coo": lambda m: m.to_sparse_coo(),
    "csc": lambda m: m.to_sparse_csc(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_matrix_is_saved_as_its_edges_and_weights(layout, tmp_path):
    memory = simple_graph()
    data = ToSparseTensor(layout=torch.sparse_csr)(copy.copy(memory))
    data.adj_t = LAYOUTS[layout](data.adj_t)
    del data.edge_attr  # a matrix in another order would not go with it
    loaded = gz_pyg.load(gz_pyg.save(data, tmp_path / "s"))
    got, want = (torch.sparse_coo_tensor(d.edge_index, d.edge_weight, (12, 12)) for d in (loaded, memory))
    assert torch.equal(got.to_dense(), want.to_dense())
    assert "adj_t" not in loaded
    assert torch.equal(loaded.x, memory.x)
    (a,), (b,) = (
        gz_pyg.NeighborLoader(data, [-1], batch_size=12),
        gz_pyg.NeighborLoader(loaded, [-1], batch_size=12),
    )
    assert sorted(a.e_id.tolist()) == sorted(b.e_id.tolist()) == [*range(40)]


def test_what_goes_with_the_edges_of_a_matrix_stays_with_them(tmp_path):
    memory = simple_graph()
    data = ToSparseTensor()(copy.copy(memory))
    loaded = gz_pyg.load(gz_pyg.save(data, tmp_path / "s"))
    found = {(*ends, w): row for *ends, w, row in rows_by_edge(loaded)}
    assert found == {(*ends, w): row for *ends, w, row in rows_by_edge(memory)}


def rows_by_edge(data):
    ends = data.edge_index.t().tolist()
    return [
        (s, d, w, tuple(a))
        for (s, d), w, a in zip(ends, data.edge_weight.tolist(), data.edge_attr.tolist(), strict=True)
    ]


def test_an_untransposed_matrix_and_one_of_several_types(tmp_path):
    ends, weight = torch.tensor([[0, 1, 1], [2, 0, 3]]), torch.tensor([1.0, 2.0, 3.0])
    data = Data(adj=torch.sparse_coo_tensor(ends, weight, (4, 4)).to_sparse_csr(), num_nodes=4)
    loaded = gz_pyg.load(gz_pyg.save(data, tmp_path / "a"))
    assert torch.equal(loaded.edge_index, ends)
    assert torch.equal(loaded.edge_weight, weight)
    hetero = HeteroData()
    hetero["a"].num_nodes, hetero["b"].num_nodes = 2, 4
    hetero["a", "to", "b"].adj_t = torch.sparse_coo_tensor(ends.flip(0), weight, (4, 2)).to_sparse_csr()
    loaded = gz_pyg.load(gz_pyg.save(hetero, tmp_path / "h"))
    assert {*map(tuple, loaded["a", "b"].edge_index.t().tolist())} == {(0, 2), (1, 0), (1, 3)}


class FakeSparse:
    """What save asks of torch_sparse's SparseTensor."""

    def __init__(self, row, col, value):
        self._parts = row, col, value

    def coo(self):
        return self._parts


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sparse_tensor_of_torch_sparse(tmp_path, weighted, monkeypatch):
    monkeypatch.setattr("torch_geometric.data.storage.SparseTensor", FakeSparse)
    monkeypatch.setattr(FakeSparse, "nnz", lambda self: 3, raising=False)
    value = torch.tensor([1.0, 2.0, 3.0]) if weighted else None
    adj_t = FakeSparse(torch.tensor([0, 1, 1]), torch.tensor([2, 0, 3]), value)
    loaded = gz_pyg.load(gz_pyg.save(Data(adj_t=adj_t, num_nodes=4), tmp_path / "s"))
    assert loaded.edge_index.tolist() == [[2, 0, 3], [0, 1, 1]]
    assert ("edge_weight" in loaded) == weighted
    assert not weighted or loaded.edge_weight.tolist() == [1, 2, 3]


def test_matrices_that_cannot_be_saved_say_why(homogeneous, tmp_path):
    data = copy.copy(homogeneous)
    data.adj_t = torch.eye(100).to_sparse_csr()
    with pytest.raises(ValueError, match="delete the one"):
        gz_pyg.save(data, tmp_path / "s")
    del data.edge_index
    data.edge_weight = torch.rand(100)
    with pytest.raises(ValueError, match="besides the values of adj_t"):
        gz_pyg.save(data, tmp_path / "s")
    with pytest.raises(TypeError, match="put the edges into edge_index"):
        gz_pyg.save(Data(adj_t=torch.eye(3), num_nodes=3), tmp_path / "s")
    assert not (tmp_path / "s").exists()


# ---- what a store knows besides ----


@pytest.fixture
def people(tmp_path):
    """Original ids, categories, a unit, splits, and edges that walks follow by weight."""
    frame = pd.DataFrame(
        {
            "id": ["ann", "bob", "cid", "dan"],
            "town": ["Ulm", "Bonn", "Ulm", "Kiel"],
            "born": pd.to_datetime(["1990-01-01", "1991-05-02", "1980-03-03", "2000-12-31"]),
        }
    )
    edges = pd.DataFrame(
        {
            "src": ["ann", "bob", "dan"],
            "dst": ["bob", "cid", "ann"],
            "how": ["mail", "talk", "mail"],
            "w": [1.0, 2, 3],
        }
    )
    path = tmp_path / "people"
    gz.ingest(
        path,
        edges=edges,
        nodes={"file": frame, "id": "id"},
        ids="text",
        weight="w",
        splits={"train": ["bob", "dan"]},
        meta={"from": "a test"},
        progress=False,
    )
    return gz_pyg.load(path)


def test_what_a_store_knows_is_saved_with_it(people, tmp_path):
    path = gz_pyg.save(people, tmp_path / "again")
    old, new = people.store, gz.open(path)
    assert new.id_map().to_dense(["dan", "ann"]).tolist() == old.id_map().to_dense(["dan", "ann"]).tolist()
    assert new.id_map().to_original([2]) == ["cid"]
    assert new.categories("town") == old.categories("town") == ["Ulm", "Bonn", "Kiel"]
    assert new.categories("how", ("node", "to", "node")) == ["mail", "talk"]
    assert new.unit("born") == old.unit("born")
    assert new.split("train").tolist() == old.split("train").tolist() == [1, 3]
    assert new.manifest.meta["from"] == "a test"
    assert np.array_equal(new.graph().weights, old.graph().weights)
    equal(gz_pyg.load(path).to_data(), people.to_data())
    assert [error for _, error in verify(path) if error] == []


def test_a_store_may_be_saved_over_itself(people):
    path = people.store.path
    people.score = torch.arange(4.0)
    gz_pyg.save(people, path, overwrite=True)
    again = gz_pyg.load(path)
    assert again.score.tolist() == [0, 1, 2, 3]
    assert again.store.id_map().to_original([0, 3]) == ["ann", "dan"]
    assert again.store.categories("town") == ["Ulm", "Bonn", "Kiel"]


def told(record):
    return " ".join(str(w.message) for w in record)


def test_what_no_longer_holds_is_left_out_with_a_word(people, tmp_path):
    part = people.subgraph(torch.tensor([3, 1, 0]))
    assert part.train_mask.tolist() == [True, True, False]
    with pytest.warns(UserWarning, match="not saved") as record:
        path = gz_pyg.save(part, tmp_path / "part")
    assert "original ids of 'node' are not saved" in told(record)
    assert "categories of 'town' are not saved" in told(record)
    assert "weights of walks are not saved" in told(record)
    assert gz_pyg.load(path).train_mask.tolist() == [True, True, False]
    with pytest.raises(KeyError):
        gz.open(path).id_map()
    turned = people.subgraph(torch.tensor([3, 2, 1, 0]))  # all nodes, in another order
    with pytest.warns(UserWarning, match="original ids"):
        path = gz_pyg.save(copy.deepcopy(turned), tmp_path / "turned")
    assert gz_pyg.load(path).get_idx_split()["train"].tolist() == [0, 2]


def test_edge_splits_are_saved(tmp_path):
    np.save(tmp_path / "edge.npy", np.array([[0, 1], [2, 3]]))
    np.save(tmp_path / "kind.npy", np.array([0, 1], np.int32))
    spec = {
        "nodes": {"a": {"num_nodes": 5}},
        "edges": {("a", "to", "a"): (np.array([0, 1, 4]), np.array([1, 2, 0]))},
        "edge_splits": {
            "valid": {
                "edge": str(tmp_path / "edge.npy"),
                "kind": {"file": str(tmp_path / "kind.npy"), "names": ["x", "y"]},
            }
        },
    }
    gz.ingest(tmp_path / "s", spec=spec, progress=False)
    data = gz_pyg.load(tmp_path / "s")
    again = gz_pyg.load(gz_pyg.save(data, tmp_path / "t"))
    found = again.get_edge_split()
    assert list(found) == ["valid"]
    assert found["valid"]["edge"].tolist() == [[0, 1], [2, 3]]
    assert found["valid"]["kind"] == ["x", "y"]
    assert [error for _, error in verify(tmp_path / "t") if error] == []
    with pytest.warns(UserWarning, match="edge splits are not saved"):
        gz_pyg.save(data.subgraph({"a": torch.arange(3)}), tmp_path / "u")


def test_masks_of_splits_go_with_a_subgraph(tmp_path, homogeneous):
    train = torch.randperm(100)[:30]
    gz.ingest(
        tmp_path / "s",
        edges=homogeneous.edge_index.numpy(),
        features={"x": homogeneous.x},
        splits={"train": train.numpy()},
        progress=False,
        num_nodes=100,
    )
    data = gz_pyg.load(tmp_path / "s")
    memory = data.to_data()
    for subset in (torch.randperm(100)[:40], torch.arange(100) % 2 == 0):
        got, want = data.subgraph(subset), memory.subgraph(subset)
        assert torch.equal(got.train_mask, want.train_mask)
        assert torch.equal(copy.copy(got).train_mask, want.train_mask)
        assert "val_mask" not in got


# ---- frames ----


class Frame(torch_geometric.typing.TensorFrame):
    """What PyG asks of torch_frame's TensorFrame, where that is not installed."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    num_rows = property(__len__)
    num_cols = property(lambda self: self.rows.size(1))
    device = property(lambda self: self.rows.device)

    def __getitem__(self, index):
        return Frame(self.rows[index])


def frame(n):
    if torch_geometric.typing.WITH_TORCH_FRAME:
        from torch_geometric.testing import get_random_tensor_frame

        return get_random_tensor_frame(num_rows=n)
    return Frame(torch.randn(n, 3))


def values(tf):
    return tf.rows if isinstance(tf, Frame) else torch.cat([v.float() for v in tf.feat_dict.values()], 1)


@pytest.mark.parametrize("options", [{}, {"prefetch": 0}, {"num_workers": 1}])
@pytest.mark.parametrize("kind", ["memory", "written to a store"])
def test_batches_have_the_rows_of_a_frame(homogeneous, homogeneous_path, options, kind):
    data = copy.copy(homogeneous) if kind == "memory" else gz_pyg.load(homogeneous_path)
    data.tf, data.edge_tf = frame(100), frame(600)
    for batch in gz_pyg.NeighborLoader(data, [3], batch_size=30, **options):
        assert torch.equal(values(batch.tf), values(data.tf)[batch.n_id])
        assert torch.equal(values(batch.edge_tf), values(data.edge_tf)[batch.e_id])
    (batch,) = gz_pyg.LinkNeighborLoader(data, [3], edge_label_index=torch.tensor([[0], [1]]))
    assert torch.equal(values(batch.tf), values(data.tf)[batch.n_id])
    part = data.subgraph(torch.arange(40))
    assert torch.equal(values(part.tf), values(data.tf)[:40])


def test_batches_of_several_types_have_the_rows_of_a_frame(heterogeneous):
    data = copy.copy(heterogeneous)
    del data["paper"].x
    data["paper"].tf = frame(100)
    for batch in gz_pyg.NeighborLoader(data, [3], "author", batch_size=50):
        assert torch.equal(values(batch["paper"].tf), values(data["paper"].tf)[batch["paper"].n_id])


def test_a_frame_of_a_wrong_length_is_refused(homogeneous_path):
    data = gz_pyg.load(homogeneous_path)
    with pytest.raises(ValueError, match="'tf' of .* has 5 rows, but there are 100 nodes"):
        data.tf = frame(5)


@pytest.mark.skipif(not torch_geometric.typing.WITH_TORCH_FRAME, reason="torch_frame is not installed")
def test_a_frame_is_saved(homogeneous, tmp_path):
    data = copy.copy(homogeneous)
    data.tf = frame(100)
    loaded = gz_pyg.load(gz_pyg.save(data, tmp_path / "s"))
    assert torch.equal(values(loaded.tf), values(data.tf))
    batch = next(iter(gz_pyg.NeighborLoader(loaded, [3], batch_size=30)))
    assert torch.equal(values(batch.tf), values(data.tf)[batch.n_id])


def test_what_is_too_large_for_the_manifest_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("gz_pyg.save"), "_EXTRAS", 10_000)
    data = Data(num_nodes=3, small=[1, 2], large=[*range(10_000)])
    with pytest.raises(ValueError, match="'large' .* a row for each"):
        gz_pyg.save(data, tmp_path / "s")
    del data.large
    gz_pyg.save(data, tmp_path / "s")
    assert "pyg" in json.loads((tmp_path / "s" / "store.json").read_text())["meta"]
