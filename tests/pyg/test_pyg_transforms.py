"""PyG's transforms and functions that work on edges, on a loaded graph: what they give in memory where there
is room, and a word on what to do instead where there is not."""

from __future__ import annotations

import pytest
import torch
import torch_geometric.transforms as T
from pyg_batches import equal
from torch_geometric import seed_everything, utils

import gz_pyg

E = 600  # edges of the graph in conftest.py
UNDIRECTED = r"gz ingest.*undirected=True \(--undirected\)"
CALLS = {
    "ToUndirected": (lambda d: T.ToUndirected()(d), UNDIRECTED),
    "to_undirected": (lambda d: utils.to_undirected(d.edge_index, d.edge_attr), UNDIRECTED),
    "AddSelfLoops": (lambda d: T.AddSelfLoops("weight")(d), "self_loops='add'"),
    "add_self_loops": (lambda d: utils.add_self_loops(d.edge_index, num_nodes=100), "self_loops='add'"),
    "AddRemainingSelfLoops": (lambda d: T.AddRemainingSelfLoops("weight")(d), "self_loops='add'"),
    "add_remaining_self_loops": (lambda d: utils.add_remaining_self_loops(d.edge_index), "self_loops='add'"),
    "RemoveSelfLoops": (lambda d: T.RemoveSelfLoops()(d), "self_loops='remove'"),
    "remove_self_loops": (lambda d: utils.remove_self_loops(d.edge_index), "self_loops='remove'"),
    "RemoveDuplicatedEdges": (lambda d: T.RemoveDuplicatedEdges()(d), "coalesce=True"),
    "coalesce": (lambda d: utils.coalesce(d.edge_index, d.edge_attr), "coalesce=True"),
    "Compose": (lambda d: T.Compose([T.NormalizeFeatures(), T.ToUndirected()])(d), UNDIRECTED),
    "RandomLinkSplit": (lambda d: list(T.RandomLinkSplit()(d)), "LinkNeighborLoader"),
    "ToSparseTensor": (lambda d: T.ToSparseTensor(attr="weight")(d), "transform= of a loader"),
    "GCNNorm": (lambda d: T.GCNNorm()(d), "undirected, coalesce, self_loops"),
    "LargestConnectedComponents": (
        lambda d: T.LargestConnectedComponents()(d),
        "undirected, coalesce, self_loops",
    ),
}


def same(ours, theirs):
    if isinstance(theirs, (list, tuple)):
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    elif isinstance(theirs, torch.Tensor):
        assert torch.equal(ours.to_dense(), theirs.to_dense())
    elif theirs is None:
        assert ours is None
    elif "adj_t" in theirs:
        same(ours.pop("adj_t"), theirs.pop("adj_t"))
        equal(ours, theirs)
    else:
        equal(ours, theirs)


def seeded(call, data):
    seed_everything(0)
    return call(data)


@pytest.mark.parametrize("name", CALLS)
def test_it_gives_what_it_gives_in_memory(homogeneous, homogeneous_path, name):
    call, _ = CALLS[name]
    data = gz_pyg.load(homogeneous_path)
    same(seeded(call, data), seeded(call, homogeneous.clone()))
    equal(data.to_data(), homogeneous)  # a transform gives a copy; what was loaded is as it was


@pytest.mark.parametrize("name", CALLS)
def test_past_what_is_free_the_error_names_what_to_do_instead(homogeneous_path, monkeypatch, name):
    call, instead = CALLS[name]
    data = gz_pyg.load(homogeneous_path)
    monkeypatch.setattr("gz._base.memory_plan.free_ram", lambda: 255 * E)
    with pytest.raises(MemoryError, match=instead) as raised:
        call(data)
    assert homogeneous_path in str(raised.value)
    assert data.edge_index.sum() > 0  # listing them alone takes less, and is let in
    assert data._store._mapping.raw("edge_index").version == 0


def test_the_room_that_is_asked_for(homogeneous_path, monkeypatch):
    room = {}
    monkeypatch.setattr("gz._base.memory_plan.free_ram", lambda: room["free"])

    def fits(call, free):
        room["free"] = free
        try:
            call(gz_pyg.load(homogeneous_path))
        except MemoryError:
            return False
        return True

    assert [fits(lambda d: d.edge_index + 0, 48 * E + more) for more in (-1, 0)] == [False, True]
    change = lambda d: T.AddSelfLoops(attr=None)(d)  # noqa: E731
    assert [fits(change, 256 * E + more) for more in (-1, 0)] == [False, True]


def test_between_two_node_types_the_error_speaks_of_reverse_types(heterogeneous_path, monkeypatch):
    monkeypatch.setattr("gz._base.memory_plan.free_ram", lambda: 1000)
    with pytest.raises(MemoryError, match="rev_ types between two node types"):
        T.ToUndirected()(gz_pyg.load(heterogeneous_path))


def test_transforms_of_columns_leave_the_edges_in_their_files(homogeneous, homogeneous_path, monkeypatch):
    monkeypatch.setattr(
        "gz_pyg._store.stored.StoredEdgeIndex._make", lambda _: pytest.fail("edges were read")
    )
    loaded = gz_pyg.load(homogeneous_path)
    for transform in (T.NormalizeFeatures(), T.Constant(), T.RandomNodeSplit(num_val=10, num_test=10)):
        ours, theirs = seeded(transform, loaded), seeded(transform, homogeneous.clone())
        for name in ("x", "train_mask"):
            assert name not in theirs or torch.equal(ours[name], theirs[name])
        assert isinstance(ours, gz_pyg.StoreData)
