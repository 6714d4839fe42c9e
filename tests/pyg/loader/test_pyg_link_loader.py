"""gz_pyg.LinkNeighborLoader does what PyG's does, on data in memory and on stores."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NegativeSampling
from torch_geometric.testing import MyFeatureStore, MyGraphStore

import gz_pyg

WRITTEN = ("paper", "written_by", "author")
CITES = ("paper", "cites", "paper")


def pairs_of(edge_index):
    return {(int(a), int(b)) for a, b in edge_index.t()}


@pytest.mark.slow
@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional", "induced"])
@pytest.mark.parametrize("ratio", [None, 1.0])
def test_links_and_their_neighbourhoods(homo, homogeneous, subgraph_type, ratio):
    loader = gz_pyg.LinkNeighborLoader(
        homo,
        [-1] * 2,
        homogeneous.edge_index,
        batch_size=20,
        subgraph_type=subgraph_type,
        neg_sampling_ratio=ratio,
        shuffle=True,
    )
    assert str(loader) == "LinkNeighborLoader()"
    assert len(loader) == 30
    for batch in loader:
        assert type(batch) is Data
        assert torch.equal(batch.x, homogeneous.x[batch.n_id])
        assert batch.input_id.numel() == 20
        ends = batch.n_id[batch.edge_label_index]
        assert torch.equal(ends[:, :20], homogeneous.edge_index[:, batch.input_id])
        if subgraph_type != "bidirectional":
            assert torch.equal(batch.n_id[batch.edge_index], homogeneous.edge_index[:, batch.e_id])
        assert pairs_of(batch.edge_label_index[:, :20]) <= pairs_of(batch.edge_index)
        if ratio is None:
            assert batch.edge_label_index.size(1) == 20
        else:
            assert batch.edge_label.tolist() == [1.0] * 20 + [0.0] * 20


@pytest.mark.parametrize("form", ["type", "type and None", "pair", "short"])
def test_forms_of_heterogeneous_edge_label_index(hetero, heterogeneous, form):
    ends = heterogeneous[WRITTEN].edge_index
    given = {
        "type": WRITTEN,
        "type and None": (WRITTEN, None),
        "pair": (WRITTEN, ends),
        "short": ("paper", "author"),
    }
    loader = gz_pyg.LinkNeighborLoader(hetero, [3, 3], given[form], batch_size=50)
    assert len(loader) == 20
    for batch in loader:
        assert type(batch) is HeteroData
        assert batch.input_type == WRITTEN
        row, col = batch[WRITTEN].edge_label_index
        got = torch.stack([batch["paper"].n_id[row], batch["author"].n_id[col]])
        assert torch.equal(got, ends[:, batch[WRITTEN].input_id])


@pytest.mark.parametrize("form", [None, "tensor", "pair", "list"])
def test_forms_of_homogeneous_edge_label_index(homo, homogeneous, form):
    ends = homogeneous.edge_index[:, :40]
    given = {None: None, "tensor": ends, "pair": (None, ends), "list": [ends[0], ends[1]]}[form]
    loader = gz_pyg.LinkNeighborLoader(homo, [2], given, batch_size=20)
    assert len(loader) == (30 if form is None else 2)
    for batch in loader:
        got = batch.n_id[batch.edge_label_index]
        assert torch.equal(got, homogeneous.edge_index[:, batch.input_id])


def test_all_edges_of_a_store_are_not_listed(heterogeneous_path):
    loader = gz_pyg.LinkNeighborLoader(heterogeneous_path, [2], WRITTEN, batch_size=50)
    assert loader.input_data.row.numel() == 0
    assert len(loader.dataset) == 1000


def test_links_between_nodes_of_one_type(hetero, heterogeneous):
    for batch in gz_pyg.LinkNeighborLoader(hetero, [-1] * 2, CITES, batch_size=20):
        assert pairs_of(batch[CITES].edge_label_index) <= pairs_of(batch[CITES].edge_index)


def test_labels_with_negatives(homogeneous):
    data = Data(edge_index=homogeneous.edge_index, x=homogeneous.x)
    options = {"num_neighbors": [-1], "batch_size": 10, "neg_sampling_ratio": 1.0}
    for batch in gz_pyg.LinkNeighborLoader(data, **options):
        assert batch.edge_label.dtype == torch.float
    ones = torch.ones(600, dtype=torch.int64)
    for batch in gz_pyg.LinkNeighborLoader(data, edge_label=ones, **options):
        assert batch.edge_label.tolist() == [1] * 10 + [0] * 10
    for batch in gz_pyg.LinkNeighborLoader(data, edge_label=ones - 1, **options):  # from 0: moved up by one
        assert batch.edge_label.tolist() == [1] * 10 + [0] * 10


@pytest.mark.parametrize("amount", [0.3, 0.5, 1, 2, 2.5])
def test_how_many_negatives(homo, amount):
    batch = next(
        iter(
            gz_pyg.LinkNeighborLoader(
                homo, [2], batch_size=10, neg_sampling=NegativeSampling("binary", amount)
            )
        )
    )
    assert batch.edge_label_index.size(1) == 10 + -(-10 * amount // 1)


@pytest.mark.parametrize(("disjoint", "temporal"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("amount", [1, 2])
def test_triplets(homo, homogeneous, disjoint, temporal, amount):
    ends = torch.randint(100, (2, 200))
    times = torch.max(homogeneous.time[ends[0]], homogeneous.time[ends[1]]) + 50 if temporal else None
    loader = gz_pyg.LinkNeighborLoader(
        homo,
        [-1] * 2,
        ends,
        batch_size=20,
        edge_label_time=times,
        time_attr="time" if temporal else None,
        disjoint=disjoint,
        neg_sampling={"mode": "triplet", "amount": amount},
        shuffle=True,
    )
    for batch in loader:
        assert torch.equal(batch.n_id[batch.src_index], ends[0, batch.input_id])
        assert torch.equal(batch.n_id[batch.dst_pos_index], ends[1, batch.input_id])
        assert batch.dst_neg_index.shape == ((20,) if amount == 1 else (20, amount))
        assert "edge_label_index" not in batch
        if disjoint:
            assert torch.equal(batch.batch[batch.src_index], torch.arange(20))
            assert torch.equal(batch.batch[batch.dst_pos_index], torch.arange(20))
            negatives = batch.batch[batch.dst_neg_index].view(20, -1)
            assert torch.equal(negatives, torch.arange(20).view(-1, 1).expand(-1, amount))
        if temporal:
            assert torch.equal(batch.seed_time, times[batch.input_id])
            assert bool((batch.time <= batch.seed_time[batch.batch]).all())


@pytest.mark.parametrize("input_type", [CITES, WRITTEN])
@pytest.mark.parametrize("weighted", [False, True])
def test_heterogeneous_triplets(hetero, heterogeneous, input_type, weighted):
    weight = torch.zeros(heterogeneous[input_type[2]].num_nodes)
    weight[3] = 1.0
    config = NegativeSampling("triplet", 2, dst_weight=weight if weighted else None)
    for batch in gz_pyg.LinkNeighborLoader(hetero, [3], input_type, batch_size=25, neg_sampling=config):
        src, dst = batch[input_type[0]], batch[input_type[2]]
        ends = heterogeneous[input_type].edge_index[:, batch[input_type].input_id]
        assert torch.equal(src.n_id[src.src_index], ends[0])
        assert torch.equal(dst.n_id[dst.dst_pos_index], ends[1])
        if weighted:
            assert set(dst.n_id[dst.dst_neg_index].view(-1).tolist()) == {3}


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_trees_of_both_ends_and_of_negatives_belong_to_one_edge(homo, homogeneous, ratio):
    """PyG takes the tree modulo the number of edges: the wrong one when the ratio is a fraction."""
    loader = gz_pyg.LinkNeighborLoader(homo, [2], batch_size=30, disjoint=True, neg_sampling_ratio=ratio)
    for batch in loader:
        row, col = batch.edge_label_index
        assert torch.equal(batch.batch[row], torch.arange(row.numel()) % 30)
        assert torch.equal(batch.batch[col], torch.arange(col.numel()) % 30)


@pytest.mark.parametrize("ratio", [None, 0.5, 1.0])
def test_no_node_is_later_than_its_edge(homo, homogeneous, ratio):
    row, col = homogeneous.edge_index
    times = torch.max(homogeneous.time[row], homogeneous.time[col])
    loader = gz_pyg.LinkNeighborLoader(
        homo, [-1, -1], batch_size=30, edge_label_time=times, time_attr="time", neg_sampling_ratio=ratio
    )
    for batch in loader:
        assert torch.equal(batch.edge_label_time[:30], times[batch.input_id])
        assert bool((batch.time <= batch.edge_label_time[batch.batch]).all())


def test_heterogeneous_times_of_links(hetero, heterogeneous):
    times = torch.full((500,), 900)
    loader = gz_pyg.LinkNeighborLoader(
        hetero,
        [-1] * 2,
        CITES,
        edge_label_time=times,
        time_attr="time",
        neg_sampling_ratio=0.5,
        batch_size=32,
        drop_last=True,
    )
    for batch in loader:
        assert int(batch["paper"].batch.max()) + 1 == 32
        seeds = 2 * 48
        assert bool((batch["paper"].time[seeds:] <= 900).all())
        assert bool((batch["author"].time <= 900).all())


def test_edge_times_of_links(homo, homogeneous):
    loader = gz_pyg.LinkNeighborLoader(
        homo, [-1], batch_size=30, edge_label_time=homogeneous.edge_time, time_attr="edge_time"
    )
    for batch in loader:
        assert bool((batch.edge_time <= batch.edge_label_time[batch.batch[batch.edge_index[1]]]).all())


def test_graphs_without_edges():
    ends = torch.randint(100, (2, 100))
    for batch in gz_pyg.LinkNeighborLoader(Data(num_nodes=100), [], ends, batch_size=20):
        assert batch.edge_label_index.size(1) == 20
        assert batch.num_nodes == batch.edge_label_index.unique().numel()
    data = HeteroData(paper={"num_nodes": 100})
    for batch in gz_pyg.LinkNeighborLoader(data, [], (("paper", "paper"), ends), batch_size=20):
        assert batch["paper", "paper"].input_id.numel() == 20
        assert batch["paper"].num_nodes == batch["paper", "paper"].edge_label_index.unique().numel()


def test_any_feature_and_graph_store(heterogeneous):
    features, graph = MyFeatureStore(), MyGraphStore()
    for t in ("paper", "author"):
        features.put_tensor(heterogeneous[t].x, group_name=t, attr_name="x", index=None)
    for t in heterogeneous.edge_types:
        size = (heterogeneous[t[0]].num_nodes, heterogeneous[t[2]].num_nodes)
        graph.put_edge_index(tuple(heterogeneous[t].edge_index), edge_type=t, layout="coo", size=size)
    a = gz_pyg.LinkNeighborLoader(heterogeneous, [-1] * 2, WRITTEN, batch_size=20)
    b = gz_pyg.LinkNeighborLoader((features, graph), [-1] * 2, WRITTEN, batch_size=20)
    for x, y in zip(a, b, strict=True):
        assert torch.equal(x["paper"].n_id.sort()[0], y["paper"].n_id.sort()[0])
        assert torch.equal(y["author"].x, heterogeneous["author"].x[y["author"].n_id])


def test_calling_a_loader_with_chosen_edges(homogeneous):
    batch = gz_pyg.LinkNeighborLoader(homogeneous, [2], batch_size=5)([0, 10])
    assert torch.equal(batch.n_id[batch.edge_label_index], homogeneous.edge_index[:, [0, 10]])
    batch = gz_pyg.LinkNeighborLoader(homogeneous, [2], batch_size=5)(
        [[0, 10], [1, 2]]
    )  # PyG accepts this too
    assert set(homogeneous.edge_index[:, [0, 10, 1, 2]].view(-1).tolist()) <= set(batch.n_id.tolist())


def test_temporal_negatives_exist_at_the_time_of_their_edge(homo, homogeneous):
    times = torch.full((600,), int(homogeneous.time.sort()[0][30]))
    for mode in ("binary", "triplet"):
        loader = gz_pyg.LinkNeighborLoader(
            homo,
            [0],
            batch_size=30,
            edge_label_time=times,
            time_attr="time",
            neg_sampling={"mode": mode, "amount": 2},
        )
        for batch in loader:
            negatives = batch.edge_label_index[:, 30:] if mode == "binary" else batch.dst_neg_index
            assert bool((batch.time[negatives] <= times[0]).all())
