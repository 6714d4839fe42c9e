"""What is written to a loaded graph is seen everywhere, as what is written to a Data in memory is."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import ready
import torch
from pyg_batches import equal, same_batches
from torch_geometric.data import Data

import gz
import gz_pyg

CITES = ("paper", "cites", "paper")
WRITES = ("author", "writes", "paper")


def batches(data, nodes=None, **options):
    return list(gz_pyg.NeighborLoader(data, [-1, -1], nodes, batch_size=25, **options))


# ---- what a script may write, to a graph with one type ----


def replaces_x(data):
    data.x = torch.arange(100.0).view(-1, 1)


def flattens_y(data):
    data.y = data.y.view(-1, 1).squeeze(1) + 1


def adds_a_column(data):
    data.seen = torch.arange(100)


def adds_an_edge_column(data):
    data["edge_label"] = torch.arange(600)


def replaces_an_edge_column(data):
    data.edge_attr = -data.edge_attr


def deletes_columns(data):
    del data.x
    del data["edge_attr"]
    data.num_nodes = 100  # nothing else says it now


def pops_and_updates(data):
    data.pop("y")
    data.update({"z": torch.ones(100), "scale": 2.5})


def writes_in_place(data):
    data.x[3:60] = 7.0
    data.edge_attr[::2] = 5.0


def sets_to_none(data):
    data.y = None


def reverses_the_edges(data):
    data.edge_index = data.edge_index.flip(0)


def keeps_some_edges(data):
    keep = data.edge_time < 500
    data.edge_index = data.edge_index[:, keep]
    for name in ("edge_attr", "edge_time", "weight"):
        data[name] = data[name][keep]


def writes_edges_in_place(data):
    data.edge_index[1, :300] = 5


def takes_adj_t(data):
    row, col = data.edge_index
    pointer = torch._convert_indices_from_coo_to_csr(col.sort()[0], 100)
    order = (col * 100 + row).argsort(stable=True)
    data.adj_t = torch.sparse_csr_tensor(pointer, row[order], torch.arange(600.0)[order], (100, 100))
    for name in ("edge_index", "edge_attr", "edge_time", "weight"):
        del data[name]


WRITES_TO_DATA = [
    replaces_x,
    flattens_y,
    adds_a_column,
    adds_an_edge_column,
    replaces_an_edge_column,
    deletes_columns,
    pops_and_updates,
    writes_in_place,
    sets_to_none,
    reverses_the_edges,
    keeps_some_edges,
    writes_edges_in_place,
]


@pytest.mark.parametrize("write", WRITES_TO_DATA, ids=lambda w: w.__name__)
def test_a_write_is_seen_everywhere(write, homogeneous, homogeneous_path, tmp_path):
    memory, data = homogeneous.clone(), gz_pyg.load(homogeneous_path)
    before = gz_pyg.NeighborLoader(data, [-1, -1], batch_size=25)
    list(before)
    write(memory)
    write(data)
    want = batches(memory)
    same_batches(want, list(before))
    same_batches(want, batches(data))
    same_batches(want, batches(data, num_workers=1))
    same_batches(want, batches(pickle.loads(pickle.dumps(data))))
    same_batches(want, batches(copy.copy(data)))
    same_batches(want, batches(data.clone()))
    same_batches(want, batches(copy.deepcopy(data)))
    same_batches(want, batches((data.feature_store, data.graph_store)))
    equal(memory, data.to_data())
    equal(memory, gz_pyg.load(gz_pyg.save(data, tmp_path / "again")).to_data())
    equal(homogeneous, gz_pyg.load(homogeneous_path).to_data())  # the files are as they were


def test_an_adjacency_matrix_is_sampled(homogeneous, homogeneous_path):
    memory, data = homogeneous.clone(), gz_pyg.load(homogeneous_path)
    takes_adj_t(memory)
    takes_adj_t(data)
    for a, b in zip(batches(memory), batches(data), strict=True):
        assert torch.equal(a.n_id, b.n_id)
        assert torch.equal(a.adj_t.to_dense(), b.adj_t.to_dense())
        assert b.adj_t.to_dense().count_nonzero() > 0


# ---- several types ----


def changes_types(data):
    data["paper"].x = data["paper"].x * 2
    data["author"].train_mask = torch.arange(200) < 50
    data["venue"].x = torch.eye(5)
    del data["venue"].num_nodes
    data[WRITES].edge_attr = torch.rand(1000, 2, generator=torch.Generator().manual_seed(1))
    del data[CITES].weight
    data.name = "changed"


def changes_edges(data):
    data[WRITES].edge_index = data[WRITES].edge_index[:, :400]
    for name in ("edge_attr", "weight", "edge_time"):
        data[WRITES][name] = data[WRITES][name][:400]
    data["author", "knows", "author"].edge_index = torch.randint(
        200, (2, 300), generator=torch.Generator().manual_seed(2)
    )


def deletes_types(data):
    del data["venue"]
    del data["venue", "publishes", "paper"]
    data.rename("author", "person")


@pytest.mark.parametrize("write", [changes_types, changes_edges, deletes_types], ids=lambda w: w.__name__)
def test_a_write_to_one_of_several_types_is_seen_everywhere(
    write, heterogeneous, heterogeneous_path, tmp_path
):
    memory, data = heterogeneous.clone(), gz_pyg.load(heterogeneous_path)
    before = gz_pyg.NeighborLoader(data, [-1, -1], "paper", batch_size=25)
    list(before)
    write(memory)
    write(data)
    want = batches(memory, "paper")
    assert data.metadata() == memory.metadata()
    same_batches(want, list(before))
    same_batches(want, batches(data, "paper"))
    same_batches(want, batches(data, "paper", num_workers=1))
    same_batches(want, batches(pickle.loads(pickle.dumps(data)), "paper"))
    same_batches(want, batches(copy.deepcopy(data), "paper"))
    equal(memory, data.to_data())
    equal(memory, gz_pyg.load(gz_pyg.save(data, tmp_path / "again")).to_data())


def test_splits_that_were_written_to_are_saved_as_they_are_now(tmp_path):
    splits = {"train": np.array([1, 2]), "valid": np.array([3]), "test": np.array([4])}
    gz.ingest(tmp_path / "s", edges=([0, 1], [1, 2]), num_nodes=5, splits=splits)
    data = gz_pyg.load(tmp_path / "s")
    data.train_mask[0] = True
    del data.test_mask
    for now in (data, pickle.loads(pickle.dumps(data)), gz_pyg.load(gz_pyg.save(data, tmp_path / "t"))):
        assert {k: v.tolist() for k, v in now.get_idx_split().items()} == {"train": [0, 1, 2], "valid": [3]}
        assert "test_mask" not in now
        assert now.to_data().val_mask.tolist() == [False, False, False, True, False]


def test_nodes_without_edges_are_counted_when_no_column_is_left(tmp_path):
    graph = Data(x=torch.zeros(5, 1), edge_index=torch.tensor([[0], [1]]))
    data = gz_pyg.load(gz_pyg.save(graph, tmp_path / "s"))
    del data.x
    assert data.num_nodes == 5
    assert data.to_data().num_nodes == 5
    assert len(gz_pyg.NeighborLoader(data, [1])) == 5


# ---- when ----


@pytest.mark.parametrize("prefetch", [0, 2])
def test_rows_from_the_next_batch_on_and_edges_from_the_next_epoch_on(homogeneous_path, prefetch):
    data = gz_pyg.load(homogeneous_path)
    loader = gz_pyg.NeighborLoader(data, [-1], batch_size=25, prefetch=prefetch)
    iterator = iter(loader)
    next(iterator)
    data.y = torch.full((100,), 77)
    data.edge_index = torch.empty(2, 0, dtype=torch.int64)
    for name in ("edge_attr", "edge_time", "weight"):
        del data[name]
    rest = list(iterator)
    assert all(bool((b.y == 77).all()) for b in rest)
    assert all(b.num_edges > 0 for b in rest)
    assert sum(b.num_edges for b in loader) == 0


def test_persistent_workers_see_what_was_written_between_epochs(homogeneous_path):
    data = gz_pyg.load(homogeneous_path)
    loader = gz_pyg.NeighborLoader(data, [-1], batch_size=50, num_workers=1, persistent_workers=True)
    list(loader)
    workers = [w.pid for w in loader._iterator.iterator._workers]
    list(loader)
    assert [w.pid for w in loader._iterator.iterator._workers] == workers
    data.y = torch.full((100,), 77)
    assert all(bool((b.y == 77).all()) for b in loader)
    loader._iterator = None  # left to the collector, torch waits 5 s for it


@pytest.mark.slow
def test_spawned_workers_see_what_was_written(homogeneous_path):
    data = gz_pyg.load(homogeneous_path)
    data.y = torch.full((100,), 77)
    data.x[:] = 3.0
    data.edge_index = torch.tensor([[1, 2, 3], [0, 0, 0]])
    for name in ("edge_attr", "edge_time", "weight"):
        del data[name]
    options = {"num_workers": 1, "multiprocessing_context": ready.CLEAN, "batch_size": 100}
    (batch,) = gz_pyg.NeighborLoader(data, [-1], **options)
    assert bool((batch.y == 77).all())
    assert bool((batch.x == 3.0).all())
    assert batch.n_id[batch.edge_index].tolist() == [[1, 2, 3], [0, 0, 0]]


def test_weights_and_times_that_were_written_count(homogeneous, homogeneous_path):
    data = gz_pyg.load(homogeneous_path)
    before = gz_pyg.NeighborLoader(data, [3], batch_size=100, weight_attr="weight", time_attr="time")
    allowed = homogeneous.edge_index[0] % 2 == 0
    data.weight = allowed.float()
    data.time = torch.zeros(100, dtype=torch.int64)
    for loader in (before, gz_pyg.NeighborLoader(data, [3], weight_attr="weight", time_attr="time")):
        for batch in loader:
            assert bool(allowed[batch.e_id].all())
            assert bool((batch.time == 0).all())


def test_a_column_added_to_the_store_is_seen(homogeneous, tmp_path):
    store = gz.open(gz_pyg.save(homogeneous, tmp_path / "s"))
    data = gz_pyg.load(store)
    loader = gz_pyg.NeighborLoader(data, [-1], batch_size=50)
    list(loader)
    del data.y
    store.add_feature("x", np.full((100, 2), 9.0, np.float32), overwrite=True)
    store.add_feature("emb", np.arange(100))
    assert data.x.shape == (100, 2)
    for batch in loader:
        assert batch.x.tolist() == [[9.0, 9.0]] * batch.num_nodes
        assert torch.equal(batch.emb, batch.n_id)
        assert "y" not in batch
    store.remove_feature("emb")
    assert "emb" not in data
    data.x = torch.zeros(100, 1)
    store.add_feature("other", np.arange(100))
    assert data.x.shape == (100, 1)
    assert "other" in data


# ---- what does not fit ----


def test_a_wrong_length_is_refused_with_both_numbers(homogeneous_path, heterogeneous_path):
    data = gz_pyg.load(homogeneous_path)
    for name, rows in (("x", 7), ("y", 99), ("train_mask", 3), ("n_id", 101)):
        with pytest.raises(ValueError, match=rf"'{name}'.* {rows} .*100 nodes"):
            data[name] = torch.zeros(rows, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"'edge_attr'.* 5 rows.*600 edges"):
        data.edge_attr = torch.zeros(5)
    with pytest.raises(ValueError, match=r"'num_nodes'.* 50.*100 nodes"):
        data.num_nodes = 50
    assert data.x.shape == (100, 8)
    hetero = gz_pyg.load(heterogeneous_path)
    with pytest.raises(ValueError, match=r"'x' of paper has 7 rows.*100 nodes"):
        hetero["paper"].x = torch.zeros(7, 2)
    with pytest.raises(ValueError, match=r"3 rows.*500 edges"):
        hetero[CITES].weight = torch.zeros(3)


def test_in_a_copy_a_wrong_length_is_refused_when_it_is_used(homogeneous_path):
    """PyG's own methods and transforms change the sizes in a copy, one attribute after the other."""
    data = copy.copy(gz_pyg.load(homogeneous_path))
    data.x = torch.zeros(7, 2)
    with pytest.raises(ValueError, match=r"7 rows.*100 nodes"):
        gz_pyg.NeighborLoader(data, [2])


def test_a_column_that_edges_leave_behind_goes_with_no_edge_as_in_pyg(homogeneous, homogeneous_path):
    memory, data = homogeneous.clone(), gz_pyg.load(homogeneous_path)
    memory.edge_index = data.edge_index = homogeneous.edge_index[:, :10].clone()
    with pytest.warns(UserWarning, match=r"'edge_attr'.*600 rows.*10 edges.*as in PyG"):
        loader = gz_pyg.NeighborLoader(data, [-1, -1], batch_size=25)
    same_batches(batches(memory), list(loader))


# ---- copies ----


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda d: d.clone()])
def test_a_copy_has_attributes_of_its_own(homogeneous, homogeneous_path, how):
    data = gz_pyg.load(homogeneous_path)
    other = how(data)
    assert type(other) is type(data)
    other.y = other.y + 1
    del other.x
    assert torch.equal(data.y, homogeneous.y)
    assert torch.equal(data.x, homogeneous.x)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda d: d.clone()])
def test_a_deep_copy_shares_no_memory(homogeneous, homogeneous_path, how):
    data = gz_pyg.load(homogeneous_path)
    other = how(data)
    other.x[0] = 9.0
    other.edge_index[0, 0] = 1 - int(homogeneous.edge_index[0, 0] == 1)
    assert torch.equal(data.x, homogeneous.x)
    assert torch.equal(data.edge_index, homogeneous.edge_index)
    assert bool((other.x[0] == 9.0).all())


def test_the_view_of_a_column_stays_in_its_file(tmp_path):
    path = tmp_path / "s"
    gz.ingest(path, edges=([0, 1], [1, 2]), num_nodes=3, features={"y": np.array([[1.0], [2.0], [3.0]])})
    data = gz_pyg.load(path)
    data.y = data.y.reshape(-1)
    assert data.y.tolist() == [1.0, 2.0, 3.0]
    assert data.y.data_ptr() == data.store.feature("y").get_tensor().ctypes.data
    (batch,) = gz_pyg.NeighborLoader(data, [-1], torch.tensor([2, 0]), batch_size=2)
    assert batch.y.tolist() == (batch.n_id + 1).tolist()
    assert len(pickle.dumps(data)) < 2500
    assert pickle.loads(pickle.dumps(data)).y.shape == (3,)
    data.y[1] = 9.0
    assert pickle.loads(pickle.dumps(data)).y.tolist() == [1.0, 9.0, 3.0]


def test_a_write_to_a_tensor_read_before_is_seen(homogeneous_path):
    data = gz_pyg.load(homogeneous_path)
    y = data.y
    data.y = data.y.view(-1, 1)
    y[:] = 77
    assert bool((pickle.loads(pickle.dumps(data)).y == 77).all())
    assert all(bool((b.y == 77).all()) for b in batches(data))
