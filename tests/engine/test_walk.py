"""Random walks and one-hop fanouts: legality, rates, determinism."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from graphs import EdgeList, community_graph, path, random_edges, star
from scipy import stats
from test_sample import REJECT, chi_square_p, store_of

import gz


def out_graph(edges: EdgeList, tmp_path, **options) -> gz.Graph:
    return store_of(edges, tmp_path, directions="both", **options).graph(direction="out")


@pytest.mark.parametrize(("p", "q"), [(1, 1), (1, 0.5), (4, 1), (0.25, 4)])
def test_every_step_follows_an_edge(p, q, tmp_path, rng_seed):
    edges = random_edges(300, 900)
    graph = out_graph(edges, tmp_path)
    starts = np.arange(300)
    walks = graph.batch_random_walk(starts, 12, p=p, q=q, rng_seed=rng_seed)
    reference.walk_is_legal(edges.grouped("out"), starts.tolist(), walks, 12)


def test_a_dead_end_fills_the_row_with_minus_one(tmp_path):
    graph = out_graph(path(3), tmp_path)
    assert graph.batch_random_walk([1, 3], 3).tolist() == [[1, 2, 3, -1], [3, -1, -1, -1]]
    assert graph.batch_random_walk([1, 3], 3, q=0.5).tolist() == [[1, 2, 3, -1], [3, -1, -1, -1]]
    assert graph.batch_random_walk([2], 0).tolist() == [[2]]
    assert graph.batch_random_walk([2], 0, p=2).tolist() == [[2]]


def test_the_in_direction_walks_backwards(tmp_path):
    graph = store_of(path(3), tmp_path).graph()
    assert graph.batch_random_walk([3], 4).tolist() == [[3, 2, 1, 0, -1]]


@pytest.mark.parametrize("q", [1, 0.5])
@pytest.mark.parametrize("threads", [2, 4, 8])
def test_walks_do_not_depend_on_the_number_of_threads(threads, q, tmp_path):
    graph = out_graph(community_graph(5000), tmp_path)
    starts = np.arange(5000)
    before = gz.num_threads()
    try:
        gz.set_num_threads(1)
        one = graph.batch_random_walk(starts, 20, q=q, rng_seed=5)
        gz.set_num_threads(threads)
        np.testing.assert_array_equal(graph.batch_random_walk(starts, 20, q=q, rng_seed=5), one)
    finally:
        gz.set_num_threads(before)


@pytest.mark.parametrize("degree", [3, 100, 50_000])
def test_a_uniform_step_takes_every_neighbour_equally_often(degree, tmp_path, rng_seed):
    graph = store_of(star(degree), tmp_path).graph()
    walks = graph.batch_random_walk(np.zeros(20 * degree, np.int64), 1, rng_seed=rng_seed)
    counts = np.bincount(walks[:, 1] - 1, minlength=degree)
    assert REJECT < chi_square_p(counts) < 1 - REJECT


def test_a_weighted_step_takes_every_neighbour_at_its_rate(tmp_path, rng_seed):
    weights = np.random.default_rng(0).random(50).astype(np.float32)
    weights[7] = 0
    edges = EdgeList(np.zeros(50, np.int64), np.arange(1, 51), 51)
    gz.ingest(
        tmp_path / "w",
        edges=edges.edges,
        num_nodes=51,
        edge_features={"weight": weights},
        weight="weight",
        directions="both",
    )
    graph = gz.open(tmp_path / "w").graph(direction="out")
    assert graph.has_weights
    for q in (1.0, 0.5):
        walks = graph.batch_random_walk(np.zeros(100_000, np.int64), 1, q=q, rng_seed=rng_seed)
        counts = np.bincount(walks[:, 1] - 1, minlength=50)
        assert counts[7] == 0
        keep = weights > 0
        assert chi_square_p(counts[keep], 100_000 * weights[keep] / weights.sum(dtype=float)) > REJECT


@pytest.mark.parametrize("q", [1.0, 0.5])
def test_a_list_without_weight_is_a_dead_end(q, tmp_path):
    edges = (np.array([0, 1, 1]), np.array([1, 0, 2]))
    weights = np.array([1, 0, 0], np.float32)
    gz.ingest(tmp_path / "w", edges=edges, edge_features={"w": weights}, weight="w", directions="both")
    graph = gz.open(tmp_path / "w").graph(direction="out")
    assert graph.batch_random_walk([0], 3, q=q).tolist() == [[0, 1, -1, -1]]


def node2vec_rates(csc, previous: int, node: int, p: float, q: float, weights=None) -> dict[int, float]:
    """Straight from the paper: bias 1/p back, 1 to a neighbour of the previous node, 1/q elsewhere."""
    rates: dict[int, float] = {}
    for e in range(csc.indptr[node], csc.indptr[node + 1]):
        v = int(csc.indices[e])
        bias = 1 / p if v == previous else 1.0 if v in csc.neighbors(previous) else 1 / q
        rates[v] = rates.get(v, 0) + bias * (1 if weights is None else weights[csc.edge_ids[e]])
    total = sum(rates.values())
    return {v: r / total for v, r in rates.items()}


def check_second_steps(csc, walks, p: float, q: float, weights=None) -> None:
    """The third node of each walk against the exact rates, given the first two: one test for all of them."""
    statistic, freedom = 0.0, 0
    for first, middle in np.unique(walks[:, :2], axis=0):
        ends = walks[(walks[:, 0] == first) & (walks[:, 1] == middle), 2]
        rates = node2vec_rates(csc, int(first), int(middle), p, q, weights)
        assert set(ends.tolist()) <= set(rates)
        counts = np.array([(ends == v).sum() for v in rates])
        expected = len(ends) * np.array(list(rates.values()))
        rare = expected < 5  # chi-square wants them together
        if rare.any():
            counts = np.append(counts[~rare], counts[rare].sum())
            expected = np.append(expected[~rare], expected[rare].sum())
        if expected[-1] == 0 or len(expected) < 2:
            continue
        statistic += ((counts - expected) ** 2 / expected).sum()
        freedom += len(expected) - 1
    assert freedom
    assert stats.chi2.sf(statistic, freedom) > REJECT


# The last four reject nearly every proposal: what is drawn from the exact rates after a while.
BIASES = [(1, 0.5), (0.25, 1), (4, 0.25), (0.5, 2), (100, 0.01), (0.01, 50), (1, 200), (300, 300)]


@pytest.mark.parametrize(("p", "q"), BIASES)
@pytest.mark.parametrize("order", ["id", "input"])
@pytest.mark.parametrize("weighted", [False, True])
def test_node2vec_steps_at_the_rates_of_the_paper(p, q, order, weighted, tmp_path, rng_seed):
    edges = random_edges(12, 60, seed=3)
    src, dst = np.concatenate([edges.src, edges.dst]), np.concatenate([edges.dst, edges.src])
    edges = EdgeList(src, dst, 12)
    options, weights = {}, None
    if weighted:
        weights = np.random.default_rng(1).integers(0, 5, len(src)).astype(np.float32)
        options = {"edge_features": {"w": weights}, "weight": "w"}
    graph = out_graph(edges, tmp_path, neighbor_order=order, **options)
    walks = graph.batch_random_walk(np.zeros(60_000, np.int64), 2, p=p, q=q, rng_seed=rng_seed)
    check_second_steps(edges.grouped("out"), walks, p, q, weights)


@pytest.mark.parametrize(("p", "q"), [(1, 1e4), (1e4, 1e4), (1e4, 1e-4)])
def test_node2vec_on_hubs_is_exact_where_nearly_all_is_rejected(p, q, tmp_path, rng_seed):
    """Two hubs with 300 leaves each and 20 in common: lists much longer than what they share."""
    leaves = np.arange(2, 602)
    hub_of = (leaves >= 302).astype(np.int64)
    shared = np.arange(292, 312)
    src = np.concatenate([leaves, shared, [0]])
    dst = np.concatenate([hub_of, 1 - hub_of[shared - 2], [1]])
    edges = EdgeList(np.concatenate([src, dst]), np.concatenate([dst, src]), 602)
    graph = out_graph(edges, tmp_path)
    walks = graph.batch_random_walk(np.repeat([0, 1, 300, 5], 20_000), 2, p=p, q=q, rng_seed=rng_seed)
    check_second_steps(edges.grouped("out"), walks, p, q)


def test_fanout_gives_distinct_neighbours_then_minus_one(tmp_path):
    edges = random_edges(40, 200)
    graph = store_of(edges, tmp_path).graph()
    csc = edges.grouped(sort_lists=True)
    table = graph.batch_random_fanout(np.arange(40), 6, rng_seed=2)
    assert table.shape == (40, 6)
    for v, row in enumerate(table.tolist()):
        here = csc.neighbors(v).tolist()
        picked = [x for x in row if x >= 0]
        assert len(picked) == min(6, len(here))
        assert row[len(picked) :] == [-1] * (6 - len(picked))
        for x in set(picked):
            assert picked.count(x) <= here.count(x)


def test_fanout_with_replacement_repeats(tmp_path):
    graph = store_of(path(1), tmp_path).graph()
    assert graph.batch_random_fanout([1, 0], 3, replace=True).tolist() == [[0, 0, 0], [-1, -1, -1]]


@pytest.mark.parametrize(("p", "q"), [(0, 1), (1, -1), (float("nan"), 1), (1, float("inf"))])
def test_impossible_biases_are_refused(p, q, tmp_path):
    with pytest.raises(ValueError, match="must be finite and greater than 0"):
        store_of(path(3), tmp_path).graph().batch_random_walk([0], 2, p=p, q=q)


def test_a_start_outside_the_graph_is_named(tmp_path):
    graph = store_of(path(2), tmp_path).graph()
    for call in (graph.batch_random_walk, graph.batch_random_fanout):
        with pytest.raises(IndexError, match="start node 3"):
            call([0, 3], 2)
    with pytest.raises(IndexError, match="node -1"):
        graph.degree([-1])
    with pytest.raises(IndexError, match="node 9"):
        graph.neighbors(9)


def test_a_result_no_memory_could_hold_is_refused(tmp_path):
    graph = store_of(path(3), tmp_path).graph()
    for call in (graph.batch_random_walk, graph.batch_random_fanout):
        for size in (2**61, 2**62, 2**63 - 1):
            with pytest.raises((MemoryError, ValueError)):
                call([0] * 8, size)


def test_degrees_and_neighbours_agree_with_numpy(tmp_path):
    edges = random_edges(70, 500)
    graph = store_of(edges, tmp_path).graph()
    csc = edges.grouped(sort_lists=True)
    np.testing.assert_array_equal(graph.degree(np.arange(70)), csc.degrees())
    assert graph.degree(5) == csc.degrees()[5]
    for v in range(70):
        np.testing.assert_array_equal(graph.neighbors(v), csc.neighbors(v))
