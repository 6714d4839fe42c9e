"""HGTLoader: the paper's algorithm where nothing is random, its distribution where something is."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter

import pytest
import torch
import torch_geometric.loader
from pyg_batches import check_heterogeneous, equal
from scipy import stats
from torch_geometric import seed_everything
from torch_geometric.data import HeteroData
from torch_geometric.nn import SAGEConv, to_hetero
from torch_geometric.sampler import NodeSamplerInput

import gz
import gz_pyg

LIKELY = 1e-4  # a test of a true claim fails this seldom


def small() -> HeteroData:
    data = HeteroData()
    data["a"].num_nodes, data["b"].num_nodes = 5, 4
    data["a", "to", "a"].edge_index = torch.tensor([[1, 2, 2, 3, 0], [0, 0, 1, 1, 4]])
    data["b", "to", "a"].edge_index = torch.tensor([[0, 1, 2, 3, 3, 2], [0, 0, 0, 0, 1, 1]])
    data["a", "to", "b"].edge_index = torch.tensor([[3, 4, 4, 1], [0, 1, 2, 2]])
    return data


# ---- the reference: HGSampling as the paper has it, one node after another ----


def budgets(data, sampled):
    """Algorithm 1: of every node that leads to a sampled one, the sum of 1 / degree of those it leads to."""
    sums = {t: Counter() for t in data.node_types}
    for (src, _, dst), storage in data.edge_items():
        row, col = storage.edge_index.tolist()
        for target in sampled[dst]:
            neighbours = [v for v, w in zip(row, col, strict=True) if w == target]
            for v in neighbours:
                if v not in sampled[src]:
                    sums[src][v] += 1 / len(neighbours)
    return sums


def draws(sums, count):
    """Every way to draw `count` nodes, one after another, by their sums squared: {nodes: probability}."""
    if count >= len(sums):
        return {tuple(sums): 1.0}  # all of them, in the order met
    ways = {}
    for nodes in itertools.permutations(sums, count):
        left, p = sum(s * s for s in sums.values()), 1.0
        for v in nodes:
            p *= sums[v] ** 2 / left
            left -= sums[v] ** 2
        ways[nodes] = p
    return ways


def outcomes(data, sampled, num_samples):
    """Algorithm 2: {nodes of each type in order: probability}."""
    if not num_samples[data.node_types[0]]:
        return {tuple(tuple(sampled[t]) for t in data.node_types): 1.0}
    sums = budgets(data, sampled)
    ways = [draws(sums[t], num_samples[t][0]).items() for t in data.node_types]
    rest = {t: n[1:] for t, n in num_samples.items()}
    found = Counter()
    for choice in itertools.product(*ways):
        after = {t: [*sampled[t], *nodes] for t, (nodes, _) in zip(data.node_types, choice, strict=True)}
        p = 1.0
        for _, each in choice:
            p *= each
        for outcome, q in outcomes(data, after, rest).items():
            found[outcome] += p * q
    return found


def sampled_nodes(sampler, t, seeds):
    out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor(seeds), None, t))
    return tuple(tuple(out.node[t].tolist()) for t in sampler.node_types)


# ---- exact ----


def induced(data, nodes):
    """By edge type: the numbers of all edges among nodes."""
    found = {}
    for e, storage in data.edge_items():
        row, col = storage.edge_index
        inside = torch.isin(row, nodes[e[0]]) & torch.isin(col, nodes[e[2]])
        found[e] = inside.nonzero().view(-1)
    return found


@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_whole_budgets_are_the_nodes_that_lead_there(hetero, heterogeneous, hops):
    seeds = [5, 17, 80]
    loader = gz_pyg.HGTLoader(hetero, [1000] * hops, ("paper", seeds), batch_size=3)
    assert isinstance(loader, torch_geometric.loader.HGTLoader)
    batch = next(iter(loader))
    want = {
        t: torch.tensor(seeds if t == "paper" else [], dtype=torch.int64) for t in heterogeneous.node_types
    }
    for _ in range(hops):
        before = dict(want)
        for (src, _, dst), storage in heterogeneous.edge_items():
            row, col = storage.edge_index
            want[src] = torch.cat([want[src], row[torch.isin(col, before[dst])]]).unique()
    for t, nodes in want.items():
        assert torch.equal(batch[t].n_id.sort()[0], nodes.sort()[0])
    assert batch["paper"].n_id[:3].tolist() == seeds
    check_heterogeneous(batch, heterogeneous)
    for e, edges in induced(heterogeneous, want).items():
        assert torch.equal(batch[e].e_id.sort()[0], edges)


def test_nodes_come_as_they_are_met_where_all_are_taken():
    data = small()
    sampler = gz_pyg.HGTSampler(data, [9, 9])
    (want,) = outcomes(data, {"a": [0, 1], "b": []}, {"a": [9, 9], "b": [9, 9]})
    assert sampled_nodes(sampler, "a", [0, 1]) == want


def test_a_batch_has_the_rows_of_its_nodes_and_edges(hetero, heterogeneous):
    loader = gz_pyg.HGTLoader(
        hetero, {"paper": [5, 4], "author": [7, 0], "venue": [1, 1]}, "paper", batch_size=30
    )
    assert len(loader) == 4
    seen = []
    for batch in loader:
        check_heterogeneous(batch, heterogeneous)
        size = batch["paper"].batch_size
        assert torch.equal(batch["paper"].n_id[:size], batch["paper"].input_id)
        assert batch["paper"].num_nodes == size + 9
        assert batch["author"].num_nodes == 7
        for e, edges in induced(heterogeneous, {t: batch[t].n_id for t in heterogeneous.node_types}).items():
            assert torch.equal(batch[e].e_id.sort()[0], edges)
            assert bool((batch[e].edge_index[1].diff() >= 0).all())  # grouped by destination
        seen += batch["paper"].input_id.tolist()
    assert seen == list(range(100))


def test_a_seed_given_twice_has_its_edges_at_both_places():
    data = small()
    loader = gz_pyg.HGTLoader(data, [9], ("a", [0, 4, 0]), batch_size=3)
    batch = next(iter(loader))
    assert batch["a"].n_id[:3].tolist() == [0, 4, 0]
    row, col = batch["b", "to", "a"].edge_index
    assert row[col == 0].tolist() == row[col == 2].tolist() != []
    row, col = batch["a", "to", "a"].edge_index
    assert row[col == 1].tolist() == [0]  # from 0 to 4, from the first of its places


# ---- distributions ----


@pytest.mark.parametrize(
    "num_samples",
    [{"a": [1], "b": [1]}, {"a": [0], "b": [3]}, {"a": [1, 1], "b": [1, 1]}, {"a": [2, 0], "b": [0, 2]}],
    ids=["one", "three", "two hops", "in turn"],
)
def test_draws_are_distributed_as_in_the_paper(num_samples, rng_seed):
    torch.manual_seed(rng_seed)
    data = small()
    want = outcomes(data, {"a": [0, 1], "b": []}, num_samples)
    assert abs(sum(want.values()) - 1) < 1e-9
    sampler = gz_pyg.HGTSampler(data, num_samples)
    n = 6000
    got = Counter(sampled_nodes(sampler, "a", [0, 1]) for _ in range(n))
    assert set(got) <= set(want)
    common = [o for o, p in want.items() if p * n >= 5]
    counts, expected = [got[o] for o in common], [want[o] * n for o in common]
    if len(common) < len(want):
        counts.append(n - sum(counts))
        expected.append(n - sum(expected))
    assert len(counts) > 1
    assert stats.chisquare(counts, expected).pvalue > LIKELY


def test_of_a_hub_fifty_neighbours_count(rng_seed):
    """As in torch-sparse: each as likely as any other, and no more of them in the budget."""
    torch.manual_seed(rng_seed)
    data = HeteroData()
    data["a"].num_nodes, data["b"].num_nodes = 1, 120
    data["b", "to", "a"].edge_index = torch.stack([torch.arange(120), torch.zeros(120, dtype=torch.int64)])
    assert len(sampled_nodes(gz_pyg.HGTSampler(data, [200]), "a", [0])[1]) == 50
    sampler = gz_pyg.HGTSampler(data, [10])
    counts = torch.zeros(120)
    for _ in range(1200):
        counts[list(sampled_nodes(sampler, "a", [0])[1])] += 1
    # 10 of 120 without replacement: the variance of a count is that of a share of 11 / 12 draws.
    spread = ((counts - 100) ** 2).sum() / 100 / (1 - 10 / 120) * 119 / 120
    assert stats.chi2.sf(float(spread), 119) > LIKELY
    batch = next(iter(gz_pyg.HGTLoader(data, [40], "a")))
    assert batch["b", "to", "a"].num_edges == 40  # all edges among the nodes, of hubs too


# ---- the same batches, whoever makes them ----


def batches(data, seed=5, **options):
    seed_everything(seed)
    nodes = ("paper", torch.arange(100) % 2 == 0)
    options = {"batch_size": 16, "shuffle": True, **options}
    return list(gz_pyg.HGTLoader(data, [6, 4], nodes, **options))


def same(a, b):
    for x, y in zip(a, b, strict=True):
        for t in x.node_types:
            assert torch.equal(x[t].n_id, y[t].n_id)
        for e in x.edge_types:
            assert torch.equal(x[e].edge_index, y[e].edge_index)
            assert torch.equal(x[e].e_id, y[e].e_id)
            assert torch.equal(x[e].edge_attr, y[e].edge_attr)


def test_memory_store_and_pair_agree(heterogeneous, heterogeneous_path):
    loaded = gz_pyg.load(heterogeneous_path)
    want = batches(heterogeneous)
    assert not torch.equal(want[0]["author"].n_id, batches(heterogeneous, seed=6)[0]["author"].n_id)
    same(want, batches(heterogeneous_path))
    same(want, batches(loaded))
    same(want, batches((loaded.feature_store, loaded.graph_store)))


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_the_number_of_threads_changes_nothing(hetero, threads):
    before = gz.num_threads()
    want = batches(hetero)
    try:
        gz.set_num_threads(threads)
        same(want, batches(hetero))
    finally:
        gz.set_num_threads(before)


def test_prefetch_changes_nothing(hetero):
    want = batches(hetero, prefetch=0)
    for depth in (None, 1, 3):
        for x, y in zip(want, batches(hetero, prefetch=depth), strict=True):
            equal(x, y)


def test_forked_workers_make_the_same_batches_from_memory_and_files(heterogeneous, heterogeneous_path):
    made = batches(heterogeneous_path, num_workers=2)
    for batch in made:
        check_heterogeneous(batch, heterogeneous)
    same(made, batches(heterogeneous, num_workers=2))


def test_what_a_spawned_worker_is_sent_makes_the_same_batch(hetero):
    loader = gz_pyg.HGTLoader(hetero, [6, 4], "paper")
    sent = pickle.loads(pickle.dumps(loader.collate_fn))
    made = []
    for collate in (loader.collate_fn, sent):
        torch.manual_seed(1)
        made.append(collate([1, 2, 3]))
    equal(*made)


def test_edges_written_over_a_store_count_from_the_next_epoch_on(heterogeneous_path):
    data = gz_pyg.load(heterogeneous_path)
    loader = gz_pyg.HGTLoader(data, [5], ("paper", [1, 2]), batch_size=2)
    next(iter(loader))
    data["author", "writes", "paper"].edge_index = torch.tensor([[7], [1]])
    del data["author", "writes", "paper"].edge_attr
    for name in ("weight", "edge_time"):
        del data["author", "writes", "paper"][name]
    batch = next(iter(loader))
    assert batch["author"].n_id.tolist() == [7]


def test_a_model_learns_what_the_neighbours_tell():
    torch.manual_seed(3)
    data = HeteroData()
    y = torch.randint(3, (300,))
    data["a"].x, data["a"].y = torch.randn(300, 4), y
    data["b"].x = torch.nn.functional.one_hot(y, 3).float()  # node i of b tells the class of node i of a
    own = torch.arange(300)
    data["b", "tells", "a"].edge_index = torch.stack([own, own])
    data["a", "rev_tells", "b"].edge_index = torch.stack([own, own])
    loader = gz_pyg.HGTLoader(data, [64, 64], ("a", own), batch_size=60, shuffle=True)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = SAGEConv((-1, -1), 3)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index)

    model = to_hetero(Model(), data.metadata())
    with torch.no_grad():
        model(data.x_dict, data.edge_index_dict)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(8):
        for batch in loader:
            optimizer.zero_grad()
            size = batch["a"].batch_size
            out = model(batch.x_dict, batch.edge_index_dict)["a"][:size]
            loss = torch.nn.functional.cross_entropy(out, batch["a"].y[:size])
            loss.backward()
            optimizer.step()
    assert float(loss.detach()) < 0.3


# ---- bad input ----


@pytest.mark.parametrize(
    ("num_samples", "what"),
    [
        ({"paper": [1], "author": [1]}, "venue"),
        ({"paper": [1], "author": [1], "venue": [1], "x": [1]}, "'x'"),
        ({"paper": [1, 1], "author": [1], "venue": [1]}, "as many hops"),
        ([3, -1], "numbers of nodes"),
        ([3.5], "numbers of nodes"),
        (3, "numbers of nodes"),
    ],
)
def test_bad_numbers_of_samples(heterogeneous, num_samples, what):
    with pytest.raises(ValueError, match=what):
        gz_pyg.HGTLoader(heterogeneous, num_samples, "paper")


def test_what_cannot_be_sampled_is_said(homogeneous, heterogeneous):
    with pytest.raises(NotImplementedError, match="NeighborLoader"):
        gz_pyg.HGTLoader(homogeneous, [3], None)
    with pytest.raises(ValueError, match="there are"):
        gz_pyg.HGTLoader(heterogeneous, [3], "journal")
    with pytest.raises(IndexError, match="100"):
        gz_pyg.HGTLoader(heterogeneous, [3], ("paper", [100]))
    sampler = gz_pyg.HGTSampler(heterogeneous, [3])
    with pytest.raises(IndexError, match="100"):
        sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([100]), None, "paper"))
    with pytest.raises(NotImplementedError, match="LinkNeighborLoader"):
        sampler.sample_from_edges(None)
