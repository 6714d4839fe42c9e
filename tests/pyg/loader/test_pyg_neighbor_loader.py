"""gz_pyg.NeighborLoader does what PyG's does, on data in memory and on stores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pyg_batches import check_heterogeneous, check_homogeneous
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import SAGEConv
from torch_geometric.sampler import NumNeighbors, SamplerOutput
from torch_geometric.utils import k_hop_subgraph, trim_to_layer

import gz_pyg


def test_homogeneous_batches_are_parts_of_the_graph(homo, homogeneous):
    loader = gz_pyg.NeighborLoader(homo, num_neighbors=[5] * 2, batch_size=20)
    assert str(loader) == "NeighborLoader()"
    assert len(loader) == 5
    for i, batch in enumerate(loader):
        assert type(batch) is Data
        check_homogeneous(batch, homogeneous)
        seeds = torch.arange(i * 20, (i + 1) * 20)
        assert torch.equal(batch.n_id[:20], seeds)
        assert torch.equal(batch.input_id, seeds)
        assert batch.batch_size == 20
        assert sum(batch.num_sampled_nodes) == batch.num_nodes
        assert sum(batch.num_sampled_edges) == batch.num_edges
        assert isinstance(batch.num_sampled_nodes, list)
        assert int(torch.bincount(batch.edge_index[1]).max()) <= 5


def test_a_batch_in_memory_has_exactly_the_fields_of_pyg(homogeneous):
    data = Data(x=homogeneous.x, edge_index=homogeneous.edge_index, edge_attr=homogeneous.edge_attr)
    batch = next(iter(gz_pyg.NeighborLoader(data, [5, 5], batch_size=20)))
    assert set(batch.keys()) == {
        "x",
        "edge_index",
        "edge_attr",
        "n_id",
        "e_id",
        "num_sampled_nodes",
        "num_sampled_edges",
        "input_id",
        "batch_size",
    }


def test_a_store_gives_the_batches_that_memory_gives(homogeneous, homogeneous_path):
    batches = []
    for data in (homogeneous, homogeneous_path):
        torch.manual_seed(3)
        batches.append(list(gz_pyg.NeighborLoader(data, [4, 3], batch_size=16, shuffle=True)))
    for a, b in zip(*batches, strict=True):
        for name in ("n_id", "e_id", "edge_index", "x", "edge_attr"):
            assert torch.equal(a[name], b[name])


def test_heterogeneous_batches_are_parts_of_the_graph(hetero, heterogeneous):
    loader = gz_pyg.NeighborLoader(hetero, num_neighbors=[10] * 2, input_nodes="paper", batch_size=20)
    assert len(loader) == 5
    for i, batch in enumerate(loader):
        assert type(batch) is HeteroData
        assert set(batch.node_types) == {"paper", "author", "venue"}
        assert set(batch.edge_types) == set(heterogeneous.edge_types)
        check_heterogeneous(batch, heterogeneous)
        assert torch.equal(batch["paper"].n_id[:20], torch.arange(i * 20, (i + 1) * 20))
        assert batch["paper"].batch_size == 20
        assert batch.input_type == "paper"


def test_fanouts_by_edge_type(hetero, heterogeneous):
    fanouts = {t: [0, 0] for t in heterogeneous.edge_types}
    fanouts["author", "writes", "paper"] = [3, 0]
    batch = next(iter(gz_pyg.NeighborLoader(hetero, fanouts, input_nodes=("paper", [1, 2, 3]), batch_size=3)))
    assert batch["author", "writes", "paper"].num_edges <= 9
    assert (
        sum(batch[t].num_edges for t in heterogeneous.edge_types)
        == batch["author", "writes", "paper"].num_edges
    )
    default = NumNeighbors({("author", "writes", "paper"): [3, 0]}, default=[0, 0])
    again = next(iter(gz_pyg.NeighborLoader(hetero, default, input_nodes=("paper", [1, 2, 3]), batch_size=3)))
    assert again["paper"].num_nodes == 3


def test_per_hop_counts_of_pygs_documentation():
    """The graph and the counts of PyG's own test of `num_sampled_nodes`."""
    edge_index = torch.tensor([[2, 3, 4, 5, 7, 7, 10, 11, 12, 13], [0, 1, 2, 3, 2, 3, 7, 7, 7, 7]])
    batch = next(
        iter(gz_pyg.NeighborLoader(Data(edge_index=edge_index, num_nodes=14), [1, 2, 4], batch_size=2))
    )
    assert batch.num_sampled_nodes == [2, 2, 3, 4]
    assert batch.num_sampled_edges == [2, 4, 4]
    data = HeteroData()
    data["paper"].num_nodes = data["author"].num_nodes = 14
    for t in (("paper", "to", "paper"), ("paper", "to", "author"), ("author", "to", "paper")):
        data[t].edge_index = edge_index
    batch = next(iter(gz_pyg.NeighborLoader(data, [1, 2, 4], input_nodes="paper", batch_size=2)))
    assert batch["paper"].num_sampled_nodes == [2, 2, 3, 4]
    assert batch["author"].num_sampled_nodes == [0, 2, 3, 4]
    assert batch["paper", "to", "paper"].num_sampled_edges == [2, 4, 4]
    assert batch["paper", "to", "author"].num_sampled_edges == [0, 4, 4]
    assert batch["author", "to", "paper"].num_sampled_edges == [2, 4, 4]


def test_trim_to_layer_changes_nothing_for_the_seeds(homo):
    batch = next(iter(gz_pyg.NeighborLoader(homo, [4, 3, 2], batch_size=10)))
    convs = [SAGEConv(8, 8), SAGEConv(8, 8), SAGEConv(8, 8)]
    full, x, edge_index = batch.x, batch.x, batch.edge_index
    for i, conv in enumerate(convs):
        full = conv(full, batch.edge_index).relu()
        x, edge_index, _ = trim_to_layer(i, batch.num_sampled_nodes, batch.num_sampled_edges, x, edge_index)
        x = conv(x, edge_index).relu()
    assert torch.allclose(full[:10], x[:10], atol=1e-6)


def test_induced_holds_every_edge_among_the_nodes(homo, homogeneous):
    for batch in gz_pyg.NeighborLoader(homo, [2, 2], batch_size=10, subgraph_type="induced"):
        check_homogeneous(batch, homogeneous)
        row, col = homogeneous.edge_index
        among = torch.isin(row, batch.n_id) & torch.isin(col, batch.n_id)
        assert torch.equal(batch.e_id.sort()[0], among.nonzero().view(-1))
        assert "num_sampled_nodes" not in batch


def test_induced_of_all_neighbours_is_the_k_hop_subgraph(homo, homogeneous):
    seeds = torch.tensor([3, 14])
    batch = next(iter(gz_pyg.NeighborLoader(homo, [-1], seeds, batch_size=2, subgraph_type="induced")))
    nodes, _, _, mask = k_hop_subgraph(seeds, 1, homogeneous.edge_index, num_nodes=100)
    assert torch.equal(batch.n_id.sort()[0], nodes)
    assert batch.num_edges == int(mask.sum())


def test_heterogeneous_induced(hetero, heterogeneous):
    loader = gz_pyg.NeighborLoader(hetero, [2, 2], "paper", batch_size=10, subgraph_type="induced")
    for batch in loader:
        check_heterogeneous(batch, heterogeneous)
        for t in heterogeneous.edge_types:
            row, col = heterogeneous[t].edge_index
            among = torch.isin(row, batch[t[0]].n_id) & torch.isin(col, batch[t[2]].n_id)
            assert torch.equal(batch[t].e_id.sort()[0], among.nonzero().view(-1))


def test_induced_disjoint_keeps_the_trees_apart(homo, homogeneous):
    loader = gz_pyg.NeighborLoader(homo, [3, 3], batch_size=10, subgraph_type="induced", disjoint=True)
    for batch in loader:
        row, col = batch.edge_index
        assert torch.equal(batch.batch[row], batch.batch[col])
        for tree in range(10):
            nodes = batch.n_id[batch.batch == tree]
            among = torch.isin(homogeneous.edge_index[0], nodes) & torch.isin(
                homogeneous.edge_index[1], nodes
            )
            assert int((batch.batch[col] == tree).sum()) == int(among.sum())


def test_directed_false_means_induced(homogeneous):
    with pytest.warns(UserWarning, match="deprecated"):
        loader = gz_pyg.NeighborLoader(homogeneous, [2], batch_size=10, directed=False)
    assert loader.node_sampler.subgraph_type.value == "induced"


def test_bidirectional_holds_both_directions_of_every_edge(homo):
    for batch in gz_pyg.NeighborLoader(homo, [3, 3], batch_size=10, subgraph_type="bidirectional"):
        pairs = {(int(a), int(b)) for a, b in batch.edge_index.t()}
        assert pairs == {(b, a) for a, b in pairs}
        assert "num_sampled_edges" not in batch
        order = batch.edge_index[1] * batch.num_nodes + batch.edge_index[0]
        assert bool((order[1:] > order[:-1]).all())
        assert batch.e_id.numel() == batch.num_edges


def test_disjoint_trees_share_nothing(homo, homogeneous):
    for batch in gz_pyg.NeighborLoader(homo, [3, 3], batch_size=20, disjoint=True):
        check_homogeneous(batch, homogeneous)
        assert torch.equal(batch.batch[:20], torch.arange(20))
        row, col = batch.edge_index
        assert torch.equal(batch.batch[row], batch.batch[col])


def test_heterogeneous_disjoint(hetero):
    for batch in gz_pyg.NeighborLoader(hetero, [3, 3], "paper", batch_size=20, disjoint=True):
        for t in batch.edge_types:
            row, col = batch[t].edge_index
            assert torch.equal(batch[t[0]].batch[row], batch[t[2]].batch[col])


def test_weights_of_zero_are_never_drawn():
    edge_index = torch.tensor([[1, 3, 0, 4], [2, 2, 1, 3]])
    data = Data(num_nodes=5, edge_index=edge_index, edge_weight=torch.tensor([0.0, 1.0, 0.0, 1.0]))
    for replace in (False, True):
        loader = gz_pyg.NeighborLoader(
            data, [1, 1], [2], batch_size=1, weight_attr="edge_weight", replace=replace
        )
        batch = next(iter(loader))
        assert batch.n_id.tolist() == [2, 3, 4]
        assert batch.n_id[batch.edge_index].tolist() == [[3, 4], [2, 3]]


@pytest.mark.parametrize("replace", [False, True])
def test_weighted_batches(homo, hetero, homogeneous, heterogeneous, replace):
    for batch in gz_pyg.NeighborLoader(homo, [3, 3], batch_size=20, weight_attr="weight", replace=replace):
        check_homogeneous(batch, homogeneous)
    loader = gz_pyg.NeighborLoader(
        hetero, [3, 3], "paper", batch_size=20, weight_attr="weight", replace=replace
    )
    for batch in loader:
        check_heterogeneous(batch, heterogeneous)


def test_replacement_draws_exactly_the_fanout(homo, homogeneous):
    for batch in gz_pyg.NeighborLoader(homo, [7], batch_size=20, replace=True):
        degree = torch.bincount(homogeneous.edge_index[1], minlength=100)[batch.n_id[:20]]
        want = torch.where(degree > 0, 7, 0)
        assert torch.equal(torch.bincount(batch.edge_index[1], minlength=20)[:20], want)


@pytest.mark.parametrize(
    "nodes",
    [
        torch.tensor([4, 9, 9, 2]),
        torch.tensor([4, 9, 9, 2], dtype=torch.int32),
        [4, 9, 9, 2],
        np.array([4, 9, 9, 2]),
        (None, torch.tensor([4, 9, 9, 2])),
    ],
)
def test_forms_of_input_nodes(homo, homogeneous, nodes):
    batch = next(iter(gz_pyg.NeighborLoader(homo, [3], nodes, batch_size=8)))
    assert batch.n_id[:4].tolist() == [4, 9, 9, 2]
    assert batch.input_id.tolist() == [0, 1, 2, 3]
    check_homogeneous(batch, homogeneous)


@pytest.mark.parametrize("as_array", [False, True])
def test_a_mask_as_input_nodes(homo, as_array):
    mask = torch.zeros(100, dtype=torch.bool)
    mask[[7, 42]] = True
    batch = next(iter(gz_pyg.NeighborLoader(homo, [3], mask.numpy() if as_array else mask, batch_size=8)))
    assert batch.n_id[:2].tolist() == [7, 42]
    assert batch.input_id.tolist() == [7, 42]


@pytest.mark.parametrize(
    "nodes",
    ["author", ("author", None), ("author", range(200)), ["author", torch.ones(200, dtype=torch.bool)]],
)
def test_forms_of_heterogeneous_input_nodes(hetero, nodes):
    loader = gz_pyg.NeighborLoader(hetero, [3], nodes, batch_size=50)
    assert len(loader) == 4
    assert [b["author"].n_id[:50].tolist() for b in loader] == [
        list(range(i, i + 50)) for i in range(0, 200, 50)
    ]


def test_all_nodes_when_none_are_named(homo):
    assert sum(b.batch_size for b in gz_pyg.NeighborLoader(homo, [2], batch_size=32)) == 100


def test_input_id_is_handed_through(homo):
    ids = torch.arange(1000, 1004)
    batch = next(iter(gz_pyg.NeighborLoader(homo, [2], [4, 3, 2, 1], batch_size=2, input_id=ids)))
    assert batch.input_id.tolist() == [1000, 1001]


def test_transforms(homo):
    calls = []

    def sampler_output(out):
        assert isinstance(out, SamplerOutput)
        calls.append("sampled")
        return out

    def transform(batch):
        calls.append("joined")
        batch.extra = batch.num_nodes
        return batch

    loader = gz_pyg.NeighborLoader(
        homo, [2], batch_size=10, transform=transform, transform_sampler_output=sampler_output
    )
    assert [b.extra == b.num_nodes for b in loader] == [True] * 10
    assert calls == ["sampled", "joined"] * 10


@pytest.mark.parametrize("filter_per_worker", [None, True, False])
def test_filter_per_worker(homo, homogeneous, filter_per_worker):
    for batch in gz_pyg.NeighborLoader(homo, [2], batch_size=10, filter_per_worker=filter_per_worker):
        check_homogeneous(batch, homogeneous)


def test_calling_a_loader_samples_a_batch(homo, homogeneous):
    batch = gz_pyg.NeighborLoader(homo, [2], batch_size=10)([3, 1])
    assert batch.n_id[:2].tolist() == [3, 1]
    check_homogeneous(batch, homogeneous)


def test_custom_cls(homogeneous_path, heterogeneous_path):
    class MyData(Data):
        pass

    class MyHetero(HeteroData):
        pass

    assert type(next(iter(gz_pyg.NeighborLoader(homogeneous_path, [2], custom_cls=MyData)))) is MyData
    loader = gz_pyg.NeighborLoader(heterogeneous_path, [2], "paper", custom_cls=MyHetero)
    assert type(next(iter(loader))) is MyHetero


def test_drop_last(homo):
    assert len(list(gz_pyg.NeighborLoader(homo, [2], batch_size=30, drop_last=True))) == 3


def test_isolated_nodes_stay():
    data = Data(x=torch.arange(4), edge_index=torch.tensor([[0], [1]]))
    for batch in gz_pyg.NeighborLoader(data, [-1, -1], batch_size=4):
        assert batch.n_id.tolist() == [0, 1, 2, 3]
    for batch in gz_pyg.NeighborLoader(Data(x=torch.arange(4)), [-1], batch_size=2):
        assert batch.num_nodes == 2
    hetero = HeteroData()
    hetero["a"].x, hetero["b"].x = torch.arange(3), torch.arange(5)
    hetero["a", "to", "a"].edge_index = torch.tensor([[0], [1]])
    batch = next(iter(gz_pyg.NeighborLoader(hetero, [-1], "a", batch_size=3)))
    assert batch["a"].num_nodes == 3
    assert batch["b"].num_nodes == 0


def test_sorted_edges_are_used_as_they_are(homogeneous):
    order = homogeneous.edge_index[1].argsort(stable=True)
    data = Data(x=homogeneous.x, edge_index=homogeneous.edge_index[:, order], edge_attr=torch.arange(600))
    loader = gz_pyg.NeighborLoader(data, [3, 3], batch_size=20, is_sorted=True)
    assert loader.node_sampler.edge_permutation is None
    for batch in loader:
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert torch.equal(batch.edge_attr, batch.e_id)
    with pytest.raises(ValueError, match="not sorted by column"):
        gz_pyg.NeighborLoader(homogeneous, [3], is_sorted=True)


def test_32_bit_edge_index(homogeneous):
    data = Data(
        x=homogeneous.x, edge_index=homogeneous.edge_index.to(torch.int32), edge_attr=torch.arange(600)
    )
    for batch in gz_pyg.NeighborLoader(data, [5, 5], batch_size=20):
        assert torch.equal(batch.n_id[batch.edge_index], homogeneous.edge_index[:, batch.e_id])


def test_numpy_memmap_features(tmp_path, homogeneous):
    x = np.memmap(tmp_path / "x", dtype=np.float32, mode="w+", shape=(100, 8))
    x[:] = homogeneous.x.numpy()
    data = Data(x=x, edge_index=homogeneous.edge_index)
    for batch in gz_pyg.NeighborLoader(data, [5], batch_size=20, num_workers=1):
        assert torch.equal(batch.x, homogeneous.x[batch.n_id])


def test_features_of_every_dtype(tmp_path, homogeneous):
    dtypes = [
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.bool,
    ]
    data = Data(edge_index=homogeneous.edge_index, num_nodes=100)
    for dtype in dtypes:
        data[str(dtype).split(".")[1]] = torch.randint(0, 2, (100, 3)).to(dtype)
    path = gz_pyg.save(data, tmp_path / "store")
    for given in (data, path):
        for batch in gz_pyg.NeighborLoader(given, [3], batch_size=50):
            for dtype in dtypes:
                name = str(dtype).split(".")[1]
                assert batch[name].dtype == dtype
                assert torch.equal(batch[name], data[name][batch.n_id])
