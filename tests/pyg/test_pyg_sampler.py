"""gz_pyg.NeighborSampler: exact where nothing is random, distributed as promised where something is."""

from __future__ import annotations

from types import SimpleNamespace

import graphs
import numpy as np
import pytest
import reference
import torch
from scipy import stats
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NodeSamplerInput

import gz_pyg

LIKELY = 1e-4  # a test of a true claim fails this seldom


def as_sample(out, permutation):
    edge = out.edge if permutation is None else permutation[out.edge]
    return SimpleNamespace(
        nodes=out.node.numpy(),
        src=out.row.numpy(),
        dst=out.col.numpy(),
        edge_ids=edge.numpy(),
        nodes_per_hop=out.num_sampled_nodes,
        edges_per_hop=out.num_sampled_edges,
        batch=None if out.batch is None else out.batch.numpy(),
    )


def data_of(edges: graphs.EdgeList, **attributes) -> Data:
    edge_index = torch.from_numpy(np.stack([edges.src, edges.dst]))
    return Data(edge_index=edge_index, num_nodes=edges.num_nodes, **attributes)


def sample(data, seeds, fanouts, time=None, **options):
    sampler = gz_pyg.NeighborSampler(data, fanouts, **options)
    seeds = torch.as_tensor(seeds)
    return sampler.sample_from_nodes(NodeSamplerInput(None, seeds, time)), sampler.edge_permutation


@pytest.mark.parametrize(
    "edges", [graphs.kite(), graphs.path(5), graphs.star(7), graphs.random_edges(50, 300)]
)
@pytest.mark.parametrize("disjoint", [False, True])
def test_all_neighbours_agree_with_the_reference(edges, disjoint):
    seeds = [0, 3, 0, 1]
    got = as_sample(*sample(data_of(edges), seeds, [-1, -1, -1], disjoint=disjoint))
    want = reference.sample(edges.grouped(), seeds, [-1, -1, -1], disjoint=disjoint)
    reference.assert_same_sample(got, want)


@pytest.mark.parametrize("edges", [graphs.kite(), graphs.random_edges(50, 300)])
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("disjoint", [False, True])
def test_every_sample_could_have_been_drawn(edges, replace, disjoint):
    seeds = [0, 3, 0, 1]
    got = as_sample(*sample(data_of(edges), seeds, [3, 2], replace=replace, disjoint=disjoint))
    reference.check_sample(edges.grouped(), seeds, [3, 2], got, replace=replace, disjoint=disjoint)


def test_heterogeneous_samples_agree_with_the_reference():
    library = graphs.library()
    data = HeteroData()
    for t, n in library.num_nodes.items():
        data[t].num_nodes = n
    for t, (src, dst) in library.edges.items():
        data[t].edge_index = torch.from_numpy(np.stack([src, dst]))
    sampler = gz_pyg.NeighborSampler(data, [-1, -1])
    out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([0, 3]), None, "paper"))
    want = reference.sample_hetero(library.grouped(), {"paper": [0, 3]}, {t: [-1, -1] for t in library.edges})
    for t, nodes in want.nodes.items():
        assert out.node[t].tolist() == nodes.tolist()
        assert out.num_sampled_nodes[t] == want.nodes_per_hop[t]
    for t in library.edges:
        assert out.row[t].tolist() == want.src[t].tolist()
        assert out.col[t].tolist() == want.dst[t].tolist()
        assert sampler.edge_permutation[t][out.edge[t]].tolist() == want.edge_ids[t].tolist()


@pytest.mark.parametrize("level", ["node", "edge"])
def test_times_agree_with_the_reference(level, rng_seed):
    edges = graphs.random_edges(40, 400, rng_seed)
    rng = np.random.default_rng(rng_seed)
    time = np.sort(rng.integers(0, 100, 40 if level == "node" else 400))  # equal times happen
    grouped = edges.grouped()
    of_position = time[grouped.indices] if level == "node" else time[grouped.edge_ids]
    order = np.lexsort((of_position, np.repeat(np.arange(40), grouped.degrees())))
    grouped = graphs.Csc(grouped.indptr, grouped.indices[order], grouped.edge_ids[order])
    of_position = of_position[order]
    seeds, seed_time = [1, 2, 3], [80, 10, 50]
    out = sample(
        data_of(edges, when=torch.from_numpy(time)),
        seeds,
        [-1, -1],
        torch.tensor(seed_time),
        time_attr="when",
    )
    want = reference.sample(
        grouped, seeds, [-1, -1], disjoint=True, allowed=lambda t, p, s: of_position[p] <= seed_time[s]
    )
    reference.assert_same_sample(as_sample(*out), want)


def test_backward_follows_edges_out_of_a_node(homogeneous, homogeneous_path):
    for data in (homogeneous, homogeneous_path):
        out, permutation = sample(data, [3, 5], [-1, -1], sample_direction="backward")
        e_id = permutation[out.edge]
        ends = torch.stack([out.node[out.row], out.node[out.col]])
        assert torch.equal(ends, homogeneous.edge_index[:, e_id])
        first = e_id[: out.num_sampled_edges[0]]
        want = torch.isin(homogeneous.edge_index[0], torch.tensor([3, 5])).nonzero().view(-1)
        assert torch.equal(first.sort()[0], want)


def test_backward_through_several_types(heterogeneous, heterogeneous_path):
    for data in (heterogeneous, heterogeneous_path):
        sampler = gz_pyg.NeighborSampler(data, [-1], sample_direction="backward")
        out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([7]), None, "paper"))
        for t in heterogeneous.edge_types:
            e_id = sampler.edge_permutation[t][out.edge[t]]
            ends = torch.stack([out.node[t[0]][out.row[t]], out.node[t[2]][out.col[t]]])
            assert torch.equal(ends, heterogeneous[t].edge_index[:, e_id])
            want = (heterogeneous[t].edge_index[0] == 7).sum() if t[0] == "paper" else 0
            assert e_id.numel() == int(want)


def test_backward_needs_the_other_direction_stored(tmp_path, homogeneous):
    path = gz_pyg.save(homogeneous, tmp_path / "in-only")
    with pytest.raises(ValueError, match="directions='both'"):
        gz_pyg.NeighborSampler(path, [2], sample_direction="backward")


# ---- distributions ----


def counts(data, fanout, rounds, num_neighbours, time=None, **options):
    """How often each of the neighbours 1..n of node 0 is taken."""
    sampler = gz_pyg.NeighborSampler(data, [fanout], **options)
    inputs = NodeSamplerInput(None, torch.zeros(1, dtype=torch.int64), time)
    out = np.zeros(num_neighbours + 1, np.int64)
    for _ in range(rounds):
        sampled = sampler.sample_from_nodes(inputs)
        np.add.at(out, sampled.node[sampled.row].numpy(), 1)
    return out[1:]


def assert_distributed(observed, probability):
    probability = np.asarray(probability, float)
    expected = probability / probability.sum() * observed.sum()
    assert observed[expected == 0].sum() == 0
    kept = expected > 0
    assert stats.chisquare(observed[kept], expected[kept]).pvalue > LIKELY


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("disjoint", [False, True])
def test_uniform_is_uniform(replace, disjoint):
    observed = counts(data_of(graphs.star(20)), 5, 3000, 20, replace=replace, disjoint=disjoint)
    assert observed.sum() == 15000
    assert_distributed(observed, np.ones(20))


def test_uniform_among_the_neighbours_in_time():
    data = data_of(graphs.star(20), when=torch.arange(20).flip(0))
    observed = counts(data, 3, 3000, 20, torch.tensor([9]), time_attr="when")
    assert_distributed(observed, np.arange(20)[::-1] <= 9)


def test_weighted_with_replacement_follows_the_weights():
    weight = torch.tensor([0.0, 1.0, 2.0, 3.0, 0.5])
    observed = counts(data_of(graphs.star(5), w=weight), 4, 4000, 5, weight_attr="w", replace=True)
    assert_distributed(observed, weight.numpy())


def test_one_weighted_draw_without_replacement_follows_the_weights():
    weight = torch.tensor([0.0, 1.0, 2.0, 3.0, 0.5])
    observed = counts(data_of(graphs.star(5), w=weight), 1, 8000, 5, weight_attr="w")
    assert_distributed(observed, weight.numpy())


def test_two_weighted_draws_without_replacement():
    """P(i among two) = w_i + sum over j of w_j * w_i / (1 - w_j), for weights that add up to 1."""
    w = np.array([0.1, 0.2, 0.3, 0.4])
    p = np.array([w[i] + sum(w[j] * w[i] / (1 - w[j]) for j in range(4) if j != i) for i in range(4)])
    observed = counts(data_of(graphs.star(4), w=torch.from_numpy(w)), 2, 8000, 4, weight_attr="w")
    assert_distributed(observed, p)


def test_weights_and_times_together():
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0])
    data = data_of(graphs.star(4), w=weight, when=torch.tensor([5, 1, 2, 9]))
    observed = counts(data, 1, 6000, 4, torch.tensor([5]), weight_attr="w", time_attr="when")
    assert_distributed(observed, [1, 2, 3, 0])


def test_a_hub_of_50000_is_sampled_uniformly():
    """pyg-lib's 16-bit modulo takes the first 15,536 twice as often."""
    observed = counts(data_of(graphs.star(50_000)), 1000, 300, 50_000)
    assert_distributed(observed.reshape(100, 500).sum(1), np.ones(100))
    assert observed[:15_536].mean() / observed[15_536:].mean() == pytest.approx(1, abs=0.05)


def test_heterogeneous_draws_are_uniform_for_every_edge_type():
    data = HeteroData()
    data["hub"].num_nodes = 1
    for i, n in enumerate((6, 9)):
        data[f"leaf{i}"].num_nodes = n
        data[f"leaf{i}", "to", "hub"].edge_index = torch.stack(
            [torch.arange(n), torch.zeros(n, dtype=torch.int64)]
        )
    sampler = gz_pyg.NeighborSampler(data, [2])
    observed = {"leaf0": np.zeros(6, np.int64), "leaf1": np.zeros(9, np.int64)}
    for _ in range(3000):
        out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([0]), None, "hub"))
        for t, seen in observed.items():
            np.add.at(seen, out.node[t].numpy(), 1)
    for seen in observed.values():
        assert_distributed(seen, np.ones(len(seen)))


def test_negatives_are_uniform(homogeneous):
    observed = np.zeros(100, np.int64)
    for batch in gz_pyg.LinkNeighborLoader(
        homogeneous, [0], batch_size=600, neg_sampling={"mode": "triplet", "amount": 20}
    ):
        np.add.at(observed, batch.n_id[batch.dst_neg_index].view(-1).numpy(), 1)
    assert_distributed(observed, np.ones(100))


# ---- what pyg-lib gets wrong ----


def test_duplicate_seeds_have_the_right_edges(homo, homogeneous):
    out, permutation = sample(homo, [5, 5, 9, 5], [4, 4])
    ends = torch.stack([out.node[out.row], out.node[out.col]])
    assert torch.equal(ends, homogeneous.edge_index[:, permutation[out.edge]])
    assert out.node[:4].tolist() == [5, 5, 9, 5]
    picks = [
        out.edge[: out.num_sampled_edges[0]][out.col[: out.num_sampled_edges[0]] == i].tolist()
        for i in (0, 1, 3)
    ]
    assert picks[0] == picks[1] == picks[2]


@pytest.mark.parametrize("bad", [-1, 100, 2**40])
def test_an_out_of_range_seed_is_named(homo, bad):
    with pytest.raises(IndexError, match=str(bad)):
        sample(homo, [3, bad], [2])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_bad_weights_are_refused(bad):
    data = data_of(graphs.star(5), w=torch.tensor([1.0, 1.0, bad, 1.0, 1.0]))
    with pytest.raises(ValueError, match="weight"):
        sample(data, [0], [2], weight_attr="w")


def test_weights_that_are_all_zero_give_nothing():
    out, _ = sample(data_of(graphs.star(5), w=torch.zeros(5)), [0], [2], weight_attr="w")
    assert out.row.numel() == 0


def test_what_the_sampler_shows(homogeneous, heterogeneous):
    sampler = gz_pyg.NeighborSampler(homogeneous, [2, 2], time_attr="time", weight_attr="weight")
    assert (sampler.is_hetero, sampler.is_temporal, sampler.disjoint) == (False, True, True)
    assert torch.equal(sampler.node_time, homogeneous.time)
    assert sampler.num_nodes == 100
    sampler = gz_pyg.NeighborSampler(heterogeneous, [2])
    assert sampler.num_nodes == {"paper": 100, "author": 200, "venue": 5}
    assert sampler.edge_types == heterogeneous.edge_types
