"""Dependent sampling (LABOR) against its definition: of seed s, neighbour t is taken if r_t <= p(s, t), with
one uniform r_t for all seeds. Every test has its seeds fixed."""

from __future__ import annotations

import graphs
import numpy as np
import pytest
import scipy.stats
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NodeSamplerInput

import gz
import gz_pyg

ROUNDS = 1500


@pytest.fixture(scope="module")
def graph():
    return graphs.community_graph(num_nodes=300, degree=12, seed=3)


@pytest.fixture(scope="module")
def data(graph):
    weight = np.random.default_rng(5).gamma(0.7, size=len(graph.src)).astype(np.float32)
    weight[::17] = 0
    return Data(
        x=torch.from_numpy(graph.x),
        edge_index=torch.from_numpy(np.stack([graph.src, graph.dst])),
        edge_weight=torch.from_numpy(weight),
        num_nodes=graph.num_nodes,
    )


def draw(data, seeds, fanouts, times=1, **options):
    """Samples of the same seeds: for each (n_id, edge numbers, frontier and neighbour by global id)."""
    torch.manual_seed(0)
    sampler = gz_pyg.NeighborSampler(data, fanouts, **{"labor": True, **options})
    inputs = NodeSamplerInput(None, torch.as_tensor(seeds))
    for _ in range(times):
        out = sampler.sample_from_nodes(inputs)
        permutation = sampler.edge_permutation
        edge = out.edge if permutation is None else permutation[out.edge]
        yield out, edge.numpy()


def share_of(weights: np.ndarray, k: int) -> np.ndarray:
    """p of the edges of one seed: min(1, c A), where the estimate has the variance of k plain draws."""
    p = np.zeros(len(weights))
    a = weights[weights > 0].astype(float)
    picks = min(k, len(a))
    target = a.sum() ** 2 / picks - a.sum() ** 2 / len(a) + (a**2).sum()
    low, high = 0.0, 1e9
    for _ in range(200):
        c = (low + high) / 2
        low, high = (low, c) if (a**2 / np.minimum(1, c * a)).sum() < target else (c, high)
    p[weights > 0] = np.minimum(1, high * a)
    return p


def shares(graph, weights, seeds, k):
    """p by edge number; 0 for edges of other nodes."""
    p = np.zeros(len(graph.src))
    for s in seeds:
        mine = np.flatnonzero(graph.dst == s)
        if len(mine):
            p[mine] = share_of(np.ones(len(mine)) if weights is None else weights[mine], k)
    return p


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("batches", [1, 4])
def test_every_edge_is_taken_as_often_as_the_definition_says(graph, data, weighted, batches):
    seeds = np.arange(60)
    weights = data.edge_weight.numpy() if weighted else None
    p = shares(graph, weights, seeds, 4)
    taken = np.zeros(len(p))
    options = {"batch_dependency": batches, "weight_attr": "edge_weight" if weighted else None}
    for turn, (out, edge) in enumerate(draw(data, seeds, [4], ROUNDS, **options)):
        taken[edge] += 1
        assert len(np.unique(edge)) == len(edge)
        for s in np.unique(out.col.numpy()) if weighted and turn < 20 else ():
            mine = out.col.numpy() == s
            expected = weights[edge[mine]] / p[edge[mine]]
            found = out.edge_importance.numpy()[mine]
            np.testing.assert_allclose(found, expected / expected.mean(), rtol=1e-3)
    assert (taken[p == 0] == 0).all()
    assert (taken[p > 1 - 1e-6] == ROUNDS).all()
    chancy = np.flatnonzero((p > 0.02) & (p < 0.98))
    # Edges to the same neighbour depend on each other: one for each neighbour is judged.
    _, first = np.unique(graph.src[chancy], return_index=True)
    judged = chancy[first]
    # Blended numbers of `batches` batches in a row depend on each other too, on two sets at most.
    z = (taken[judged] - ROUNDS * p[judged]) / np.sqrt(ROUNDS * p[judged] * (1 - p[judged]))
    statistic = (z**2).sum() / (1 if batches == 1 else batches)
    assert scipy.stats.chi2.sf(statistic, len(judged)) > 1e-4
    if batches == 1:
        assert scipy.stats.chi2.cdf(statistic, len(judged)) > 1e-4


def bounds(graph, p, nodes, edge):
    """(highest p refused, lowest p taken) by neighbour, over the edges of `nodes`."""
    refused, lowest = np.zeros(graph.num_nodes), np.ones(graph.num_nodes)
    asked = np.flatnonzero(np.isin(graph.dst, nodes))
    is_taken = np.isin(asked, edge)
    np.maximum.at(refused, graph.src[asked[~is_taken]], p[asked[~is_taken]])
    np.minimum.at(lowest, graph.src[asked[is_taken]], p[asked[is_taken]])
    return refused, lowest


@pytest.mark.parametrize("layer_dependency", [False, True])
def test_seeds_share_one_number_per_neighbour_in_a_hop_or_in_all(graph, data, layer_dependency):
    p = shares(graph, None, np.arange(graph.num_nodes), 3)
    contradictions = 0
    for out, edge in draw(data, np.arange(40), [3, 3], 20, layer_dependency=layer_dependency):
        starts = np.cumsum([0, *out.num_sampled_nodes])
        cuts = np.cumsum([0, *out.num_sampled_edges])
        hops = [
            bounds(graph, p, out.node[starts[h] : starts[h + 1]].numpy(), edge[cuts[h] : cuts[h + 1]])
            for h in range(2)
        ]
        for refused, lowest in hops:
            assert (refused < lowest + 1e-12).all()
        refused, lowest = np.maximum(hops[0][0], hops[1][0]), np.minimum(hops[0][1], hops[1][1])
        contradictions += int((refused >= lowest + 1e-12).sum())
    assert (contradictions == 0) == layer_dependency


def test_a_batch_has_fewer_nodes_and_as_many_edges_of_a_seed(data):
    seeds = np.arange(150)

    def sizes(**options):
        drawn = [out for out, _ in draw(data, seeds, [3, 3], 30, **options)]
        first = np.mean([out.num_sampled_edges[0] for out in drawn])
        return np.mean([len(out.node) for out in drawn]), first

    uniform, edges = sizes(labor=False)
    labor, labor_edges = sizes()
    layers, _ = sizes(layer_dependency=True)
    assert layers < labor < 0.95 * uniform
    assert labor_edges == pytest.approx(edges, rel=0.02)


def test_numbers_change_little_by_little_over_batch_dependency(data):
    """Of the same seeds, two batches in a row share more edges, and batches far apart as many as before."""

    def kept(batches, apart):
        edges = [set(edge) for _, edge in draw(data, np.arange(100), [3], 64, batch_dependency=batches)]
        return np.mean([len(a & b) / len(a) for a, b in zip(edges, edges[apart:], strict=False)])

    independent = kept(1, 1)
    assert kept(16, 1) > kept(4, 1) > independent + 0.1
    assert kept(4, 16) == pytest.approx(independent, abs=0.08)


def test_all_neighbours_and_samples_of_one_neighbourhood_are_as_without_labor(data):
    for fanouts in ([-1, -1], [100, 100]):
        ((ours, _),) = draw(data, [5, 9, 5], fanouts)
        ((plain, _),) = draw(data, [5, 9, 5], fanouts, labor=False)
        for name in ("node", "row", "col", "edge"):
            assert torch.equal(getattr(ours, name), getattr(plain, name)), name
        assert ours.num_sampled_nodes == plain.num_sampled_nodes
        assert ours.num_sampled_edges == plain.num_sampled_edges


def hetero():
    rng = np.random.default_rng(2)
    data = HeteroData()
    data["a"].x, data["b"].x = torch.arange(120.0).view(-1, 1), torch.arange(90.0).view(-1, 1)
    for t, rows, cols in (
        (("a", "to", "b"), 120, 90),
        (("b", "to", "a"), 90, 120),
        (("b", "by", "b"), 90, 90),
    ):
        edge_index = np.stack([rng.integers(0, rows, 1500), rng.integers(0, cols, 1500)])
        data[t].edge_index = torch.from_numpy(edge_index)
    return data


def test_of_several_types_edges_are_those_of_the_graph_and_seeds_share_neighbours():
    data = hetero()
    torch.manual_seed(1)
    sizes = {}
    for labor in (False, True):
        loader = gz_pyg.NeighborLoader(data, [3, 3], ("b", None), batch_size=45, labor=labor, shuffle=True)
        sizes[labor] = 0
        for _ in range(5):
            for batch in loader:
                sizes[labor] += batch.num_nodes
                for t in data.edge_types:
                    row, col = batch[t].edge_index
                    ends = torch.stack([batch[t[0]].n_id[row], batch[t[2]].n_id[col]])
                    assert torch.equal(ends, data[t].edge_index[:, batch[t].e_id])
                    assert torch.equal(batch[t[0]].x.view(-1).long(), batch[t[0]].n_id)
    assert sizes[True] < 0.9 * sizes[False]


@pytest.mark.parametrize("options", [{}, {"layer_dependency": True, "batch_dependency": 3}])
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_depend_on_the_seed_alone(data, tmp_path, options, weighted):
    path = gz_pyg.save(data, tmp_path / "store")
    weight = "edge_weight" if weighted else None

    def batches(**more):
        torch.manual_seed(7)
        loader = gz_pyg.NeighborLoader(
            path, [4, 3], batch_size=50, shuffle=True, labor=True, weight_attr=weight, **options, **more
        )
        return [(b.n_id.tolist(), b.edge_index.tolist(), b.e_id.tolist()) for _ in range(2) for b in loader]

    before = gz.num_threads()
    try:
        expected = batches(prefetch=0)
        for threads in (1, 2, 4):
            gz.set_num_threads(threads)
            assert batches(prefetch=2) == expected
    finally:
        gz.set_num_threads(before)
    assert len({str(b) for b in expected}) == len(expected)


@pytest.mark.slow
def test_workers_are_reproducible_too(data):
    def batches():
        torch.manual_seed(7)
        loader = gz_pyg.NeighborLoader(data, [4, 3], batch_size=50, num_workers=2, batch_dependency=2)
        return [b.n_id.tolist() for b in loader]

    assert batches() == batches()


def test_a_link_loader_and_backward_sampling_take_it(data):
    torch.manual_seed(0)
    loader = gz_pyg.LinkNeighborLoader(data, [3, 3], batch_size=500, neg_sampling_ratio=1.0, labor=True)
    for batch in loader:
        ends = batch.n_id[batch.edge_index]
        assert torch.equal(ends, data.edge_index[:, batch.e_id])
    ((out, edge),) = draw(data, range(20), [2], sample_direction="backward")
    assert torch.equal(out.node[torch.stack([out.row, out.col])], data.edge_index[:, torch.from_numpy(edge)])


def test_what_labor_cannot_do_is_refused(data):
    data = data.clone()
    data.time = torch.arange(data.num_nodes)
    for options in ({"replace": True}, {"disjoint": True}, {"time_attr": "time"}):
        with pytest.raises(ValueError, match=f"{next(iter(options))} and LABOR .* cannot be had together"):
            gz_pyg.NeighborLoader(data, [2], batch_size=4, layer_dependency=True, **options)
    with pytest.raises(ValueError, match="options of LABOR"):
        gz_pyg.NeighborLoader(data, [2], batch_size=4, labor=False, batch_dependency=4)
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="batch_dependency is"):
            gz_pyg.NeighborLoader(data, [2], batch_size=4, batch_dependency=wrong)
    sampler = gz_pyg.NeighborSampler(data, [2], labor=True)
    with pytest.raises(ValueError, match="disjoint"):
        sampler.disjoint = True
