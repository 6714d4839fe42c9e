"""Negatives, the bookkeeping of link samples, bidirectional samples: gz_pyg's against PyG's own code."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
from torch_geometric.sampler import (
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.neighbor_sampler import edge_sample

import gz_pyg
from gz import _engine
from gz_pyg._sampler.bidirectional import to_bidirectional


def equal(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    return a == b


# ---- link samples ----


def only(node, n):
    """Weights under which every negative is the same node, whoever draws."""
    weights = torch.zeros(n)
    weights[node] = 1
    return weights


@pytest.mark.slow
@pytest.mark.parametrize("mode", [None, ("binary", 1), ("binary", 2), ("triplet", 1), ("triplet", 3)])
@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("t", [None, ("paper", "cites", "paper"), ("author", "writes", "paper")])
def test_a_link_sample_is_what_pyg_makes_of_the_same_seeds(
    homogeneous, heterogeneous, mode, disjoint, timed, t
):
    data = homogeneous if t is None else heterogeneous
    sampler = gz_pyg.NeighborSampler(data, [-1], disjoint=disjoint, time_attr="time" if timed else None)
    edges = data.edge_index if t is None else data[t].edge_index
    sizes = (100, 100) if t is None else (data[t[0]].num_nodes, data[t[2]].num_nodes)
    config = None
    if mode is not None:
        config = NegativeSampling(*mode, src_weight=only(5, sizes[0]), dst_weight=only(9, sizes[1]))
    time = torch.arange(12) + 2000 if timed else None
    inputs = EdgeSamplerInput(torch.arange(12), edges[0, :12], edges[1, :12], None, time, t)
    out = sampler.sample_from_edges(inputs, config)
    theirs = edge_sample(
        inputs, sampler._sample, sampler.num_nodes, sampler.disjoint, sampler.node_time, config
    )
    for name in ("node", "row", "col", "edge", "batch", "num_sampled_nodes", "num_sampled_edges", "metadata"):
        assert equal(getattr(out, name), getattr(theirs, name)), name


# ---- negatives ----


def draw(count, n, **options):
    return _engine.draw_negatives(count, n, **options)


def test_negatives_are_uniform(rng_seed):
    counts = np.bincount(draw(100_000, 50, rng_seed=rng_seed), minlength=50)
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


def test_negatives_follow_their_weights(rng_seed):
    weights = np.array([0, 1, 2, 0, 5, 0.25, 0], np.float32)
    counts = np.bincount(
        draw(100_000, 7, weights=_engine.NodeWeights(weights), rng_seed=rng_seed), minlength=7
    )
    assert (counts[weights == 0] == 0).all()
    expected = weights.astype(np.float64) / weights.sum() * 100_000
    assert scipy.stats.chisquare(counts[weights > 0], expected[weights > 0]).pvalue > 1e-4


def test_weights_of_more_nodes_than_torch_can_draw_from():
    n = 2**24 + 10  # torch.multinomial ends at 2^24
    weights = torch.zeros(n)
    weights[-3:] = 1
    config = NegativeSampling("triplet", 1, dst_weight=weights)
    data = gz_pyg.NeighborSampler(_pair(n), [0])
    inputs = EdgeSamplerInput(None, torch.zeros(50, dtype=torch.int64), torch.ones(50, dtype=torch.int64))
    out = data.sample_from_edges(inputs, config)
    assert set(out.node[out.metadata[3]].tolist()) <= {n - 3, n - 2, n - 1}


def _pair(n):
    from torch_geometric.data import Data

    return Data(edge_index=torch.tensor([[0], [1]]), num_nodes=n)


def test_negatives_do_not_depend_on_threads():
    before = _engine.num_threads()
    try:
        drawn = []
        for threads in (1, 3):
            _engine.set_num_threads(threads)
            drawn.append(draw(20_000, 1000, rng_seed=5))
    finally:
        _engine.set_num_threads(before)
    assert np.array_equal(*drawn)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_no_negative_is_later_than_its_edge(dtype):
    times = np.arange(100, dtype=dtype)
    limits = np.array([10, 50, 98, -1])
    drawn = draw(40_000, 100, times=times, not_after=limits, rng_seed=1).reshape(-1, 4)
    assert (drawn[:, 3] == -1).all()  # there is none
    for i, limit in enumerate(limits[:3]):
        found = drawn[:, i][drawn[:, i] >= 0]
        assert found.max() <= limit
        assert scipy.stats.chisquare(np.bincount(found, minlength=limit + 1)).pvalue > 1e-4
        missing = (1 - (limit + 1) / 100) ** 6  # PyG's five further tries
        assert abs((drawn[:, i] < 0).mean() - missing) < 0.02


def test_where_nothing_is_early_enough_the_earliest_node_is_taken(homogeneous):
    sampler = gz_pyg.NeighborSampler(homogeneous, [2], time_attr="time")
    inputs = EdgeSamplerInput(
        None, torch.arange(5), torch.arange(5), None, torch.full((5,), -1, dtype=torch.int64)
    )
    out = sampler.sample_from_edges(inputs, NegativeSampling("triplet", 2))
    assert set(out.node[out.metadata[3]].view(-1).tolist()) == {int(homogeneous.time.argmin())}


def test_weights_that_change_are_read_again(homogeneous):
    sampler = gz_pyg.NeighborSampler(homogeneous, [0])
    inputs = EdgeSamplerInput(None, torch.arange(5), torch.arange(5))
    config = NegativeSampling("triplet", 1, dst_weight=only(5, 100))
    for node in (5, 8):
        config.dst_weight.zero_()[node] = 1
        out = sampler.sample_from_edges(inputs, config)
        assert set(out.node[out.metadata[3]].tolist()) == {node}


@pytest.mark.parametrize(
    ("weights", "message"),
    [([0, 0, 0], "all nodes are 0"), ([1, -1, 0], "node 1"), ([1, 0, float("nan")], "node 2")],
)
def test_weights_that_cannot_be(weights, message):
    with pytest.raises(ValueError, match=message):
        _engine.NodeWeights(np.array(weights, np.float32))


def test_weights_of_another_length(homogeneous):
    sampler = gz_pyg.NeighborSampler(homogeneous, [0])
    inputs = EdgeSamplerInput(None, torch.arange(5), torch.arange(5))
    with pytest.raises(ValueError, match=r"dst_weight.*7 values.*100 nodes"):
        sampler.sample_from_edges(inputs, NegativeSampling("triplet", 1, dst_weight=torch.ones(7)))


# ---- both directions ----


@pytest.mark.parametrize("keep", [False, True])
def test_both_directions_as_pyg_has_them(homogeneous, keep):
    sampler = gz_pyg.NeighborSampler(homogeneous, [4, 4])
    out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.arange(20)))
    ours, theirs = to_bidirectional(out, keep), out.to_bidirectional(keep)
    for name in ("node", "row", "col", "num_sampled_nodes", "num_sampled_edges", "orig_row", "orig_col"):
        assert equal(getattr(ours, name), getattr(theirs, name)), name
    ends = torch.stack([ours.node[ours.row], ours.node[ours.col]])
    known = homogeneous.edge_index[:, sampler.edge_permutation[ours.edge]]
    assert bool(((ends == known).all(0) | (ends.flip(0) == known).all(0)).all())
    assert isinstance(ours, SamplerOutput)


@pytest.mark.parametrize(
    "types",
    [
        [("a", "to", "b"), ("b", "rev_to", "a"), ("a", "to", "a")],
        [("a", "to", "b"), ("b", "back", "a")],
        [("a", "to", "a"), ("a", "rev_to", "a")],
        [("a", "to", "b"), ("b", "one", "a"), ("b", "two", "a")],
        [("a", "to", "b")],
    ],
    ids=str,
)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.filterwarnings("ignore:Cannot convert")
def test_both_directions_of_several_types_as_pyg_has_them(types, keep):
    sizes = {"a": 10, "b": 6}
    g = torch.Generator().manual_seed(1)
    rows = {t: torch.randint(sizes[t[0]], (30,), generator=g) for t in types}
    cols = {t: torch.randint(sizes[t[2]], (30,), generator=g) for t in types}
    out = HeteroSamplerOutput(
        {t: torch.arange(n) for t, n in sizes.items()}, rows, cols, {t: torch.arange(30) for t in types}
    )
    ours, theirs = to_bidirectional(out, keep), out.to_bidirectional(keep)
    for name in ("node", "row", "col", "edge", "orig_row", "orig_col"):
        assert equal(getattr(ours, name), getattr(theirs, name)), name
    assert set(out.edge) == set(types)
    assert all(e is not None for e in out.edge.values())


def test_ids_beyond_the_sample_are_refused():
    one, far = np.zeros(1, np.int64), np.array([7])
    with pytest.raises(IndexError, match="7"):
        _engine.two_way_edges(far, one, None, one, one, None, 3, 3)
