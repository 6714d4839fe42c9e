"""Sampling by time: lists that ascend are searched, others looked through; both give the same picks."""

from __future__ import annotations

import numpy as np
import pytest

from gz import _engine

NODES, EDGES = 60, 3000


@pytest.fixture(params=["edge", "node"])
def kind(request):
    return request.param


def lists(rng, kind: str, in_order: bool, dtype=np.int64):
    """A topology with a hub, and its times: distinct within a list, in order or not."""
    dst = np.sort(np.concatenate([rng.integers(0, NODES, EDGES - 500), np.full(500, 7)]))
    src = np.concatenate([rng.permutation(4000)[: np.sum(dst == v)] for v in range(NODES)])
    node_time = rng.permutation(4000).astype(dtype)
    time = node_time[src] if kind == "node" else rng.permutation(EDGES).astype(dtype)
    if in_order:
        order = np.lexsort((time, dst))
        src, time = src[order], time[order]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(dst, minlength=NODES))]).astype(np.int64)
    topology = _engine.Topology.from_arrays(indptr, src.astype(np.int64), 4000)
    return topology, {"node_time": node_time} if kind == "node" else {"edge_time": time}


def drawn(topology, times, *, last, replace, fanout, seeds, seed_times, rng_seed):
    edge_type = _engine.SampleEdgeType(topology, 0, 1, [fanout], **times)
    where = _engine.SampleSeeds(0, seeds, seed_times)
    out = _engine.sample(
        [NODES, 4000], [edge_type], [where], disjoint=True, last=last, replace=replace, rng_seed=rng_seed
    )
    neighbours = out.nodes[1].ids[out.edges[0].neighbour]
    return edge_type.ascending, neighbours.tolist(), out.edges[0].frontier.tolist()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanout", [-1, 1, 10, 200])
def test_a_list_in_order_gives_the_picks_of_one_that_is_not(kind, dtype, last, replace, fanout, rng_seed):
    options = {"last": last, "replace": replace, "fanout": fanout, "rng_seed": rng_seed}
    rng = np.random.default_rng(rng_seed)
    options["seeds"] = np.concatenate([rng.integers(0, NODES, 30), np.full(10, 7)])
    options["seed_times"] = rng.integers(-5, 4100, 40)
    state = rng.bit_generator.state
    results = []
    for in_order in (True, False):
        rng.bit_generator.state = state  # the same graph
        results.append(drawn(*lists(rng, kind, in_order, dtype), **options))
    (found, *searched), (other, *scanned) = results
    assert (found, other) == (True, False)
    assert searched == scanned
    assert searched[0]


def test_ties_and_empty_lists_are_in_order():
    topology = _engine.Topology.from_arrays(np.array([0, 0, 3, 3, 4]), np.array([0, 1, 2, 1]), 3)
    times = {"edge_time": np.array([5, 5, 6, 1])}
    edge_type = _engine.SampleEdgeType(topology, 0, 1, [-1], **times)
    assert edge_type.ascending
    out = _engine.sample(
        [4, 3], [edge_type], [_engine.SampleSeeds(0, np.array([1, 1, 0, 3]), np.array([5, 4, 9, 1]))],
        disjoint=True,
    )  # fmt: skip
    assert out.nodes[1].ids[out.edges[0].neighbour].tolist() == [0, 1, 1]
    assert out.edges[0].frontier.tolist() == [0, 0, 3]


def test_times_too_short_are_refused_at_once(kind):
    topology = _engine.Topology.from_arrays(np.array([0, 2]), np.array([0, 1]), 2)
    with pytest.raises(ValueError, match=f"the column of {kind} times has 1 entries, but 2 are needed"):
        _engine.SampleEdgeType(topology, 0, 0, [1], **{f"{kind}_time": np.array([1])})
