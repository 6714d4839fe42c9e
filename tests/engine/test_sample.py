"""Graph.sample and Store.sample: the serial reference, distributions, determinism, bad input."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from graphs import EdgeList, community_graph, empty, kite, library, path, random_edges, star
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import gz


def store_of(edges: EdgeList, folder, **options) -> gz.Store:
    gz.ingest(folder / "g", edges=edges.edges, num_nodes=edges.num_nodes, **options)
    return gz.open(folder / "g")


@pytest.fixture(autouse=True)
def _threads():
    before = gz.num_threads()
    yield
    gz.set_num_threads(before)


def chi_square_p(counts: np.ndarray, expected: np.ndarray | None = None) -> float:
    return stats.chisquare(counts, expected).pvalue


# A wrong sampler has p far below this; a right one falls below it once in 100,000 runs.
REJECT = 1e-5


@pytest.mark.parametrize("order", ["id", "input"])
@pytest.mark.parametrize(
    "edges",
    [kite(), path(6), star(9), empty(4), random_edges(60, 400)],
    ids=["kite", "path", "star", "empty", "random"],
)
def test_all_neighbours_agree_with_the_serial_reference(edges, order, tmp_path):
    graph = store_of(edges, tmp_path, keep_edge_ids=True, neighbor_order=order).graph()
    csc = edges.grouped(sort_lists=order == "id")
    for seeds in ([0], [3, 1], [2, 2, 0], list(range(edges.num_nodes))):
        got = graph.sample(seeds, [-1, -1, -1])
        reference.assert_same_sample(got, reference.sample(csc, seeds, [-1, -1, -1]))


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("disjoint", [False, True])
def test_every_sample_is_one_that_could_have_been_drawn(replace, disjoint, tmp_path, rng_seed):
    edges = community_graph(500, degree=12)
    graph = store_of(edges, tmp_path, keep_edge_ids=True).graph()
    csc = edges.grouped(sort_lists=True)
    rng = np.random.default_rng(rng_seed)
    for i in range(20):
        seeds = rng.integers(0, 500, 30)
        fanouts = rng.integers(-1, 12, rng.integers(1, 4)).tolist()
        got = graph.sample(seeds, fanouts, replace=replace, disjoint=disjoint, rng_seed=rng_seed + i)
        reference.check_sample(csc, seeds.tolist(), fanouts, got, replace=replace, disjoint=disjoint)


@pytest.mark.slow
@given(st.data())
def test_any_small_graph_and_request_gives_a_legal_sample(tmp_path_factory, data):
    n = data.draw(st.integers(1, 12))
    pairs = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40))
    src, dst = (np.array([p[i] for p in pairs], np.int64) for i in (0, 1))
    edges = EdgeList(src, dst, n)
    graph = store_of(edges, tmp_path_factory.mktemp("h"), keep_edge_ids=True).graph()
    seeds = data.draw(st.lists(st.integers(0, n - 1), max_size=8))
    fanouts = data.draw(st.lists(st.integers(-1, 5), max_size=3))
    replace = data.draw(st.booleans())
    got = graph.sample(seeds, fanouts, replace=replace, rng_seed=data.draw(st.integers(0, 2**64 - 1)))
    reference.check_sample(edges.grouped(sort_lists=True), seeds, fanouts, got, replace=replace)


@pytest.mark.parametrize("threads", [2, 4, 8])
def test_the_result_does_not_depend_on_the_number_of_threads(threads, tmp_path):
    edges = community_graph(20_000, degree=15)
    graph = store_of(edges, tmp_path).graph()
    seeds = np.random.default_rng(1).integers(0, 20_000, 1024)
    for options in ({}, {"replace": True}, {"disjoint": True}):
        gz.set_num_threads(1)
        one = graph.sample(seeds, [15, 10, 5], rng_seed=3, **options)
        gz.set_num_threads(threads)
        many = graph.sample(seeds, [15, 10, 5], rng_seed=3, **options)
        reference.assert_same_sample(many, one)
        assert len(one.nodes) > 10_000


def test_another_rng_seed_gives_another_sample(tmp_path):
    graph = store_of(star(200), tmp_path).graph()
    picks = {tuple(graph.sample([0], [5], rng_seed=s).edge_ids) for s in range(20)}
    assert len(picks) == 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("degree", "fanout"), [(3, 1), (3, 2), (100, 10), (100, 70), (50_000, 10), (50_000, 500)]
)
@pytest.mark.parametrize("replace", [False, True])
def test_every_neighbour_is_equally_likely(degree, fanout, replace, tmp_path, rng_seed):
    graph = store_of(star(degree), tmp_path).graph()
    counts = np.zeros(degree)
    draws = 0
    for i in range(max(400, 20 * degree // fanout)):
        picked = graph.sample([0], [fanout], replace=replace, rng_seed=1000 * rng_seed + i).edge_ids
        np.add.at(counts, picked, 1)
        draws += len(picked)
    # Without replacement counts vary less than chi-square expects, by the factor 1 - fanout / degree.
    spread = 1 if replace else 1 - fanout / degree
    statistic = ((counts - draws / degree) ** 2).sum() / (draws / degree) / spread
    p = stats.chi2.sf(statistic, degree - 1)
    assert REJECT < p < 1 - REJECT


def test_every_subset_is_equally_likely(tmp_path):
    graph = store_of(star(6), tmp_path).graph()
    seen: dict[tuple, int] = {}
    for i in range(6000):
        subset = tuple(sorted(graph.sample([0], [3], rng_seed=i).edge_ids))
        seen[subset] = seen.get(subset, 0) + 1
    assert len(seen) == 20
    assert chi_square_p(np.array(list(seen.values()))) > REJECT


def test_nodes_draw_independently_of_each_other(tmp_path):
    # Two hubs with the same neighbours: the pair of picks must be uniform over all pairs.
    src = np.tile(np.arange(2, 8), 2)
    dst = np.repeat([0, 1], 6)
    graph = store_of(EdgeList(src, dst, 8), tmp_path).graph()
    counts = np.zeros((6, 6))
    for i in range(7200):
        s = graph.sample([0, 1], [1], rng_seed=i)
        a, b = s.nodes[s.src]
        counts[a - 2, b - 2] += 1
    assert chi_square_p(counts.ravel()) > REJECT


def test_weights_set_the_rate_without_replacement(tmp_path):
    graph = store_of(star(4), tmp_path).graph()
    weights = np.array([1.0, 2.0, 3.0, 0.0])
    counts = np.zeros(4)
    for i in range(6000):
        counts[graph.sample([0], [1], weights=weights, rng_seed=i).edge_ids] += 1
    assert counts[3] == 0
    assert chi_square_p(counts[:3], 6000 * weights[:3] / 6) > REJECT
    assert graph.sample([0], [4], weights=weights).edge_ids.tolist() == [0, 1, 2]
    assert graph.sample([0], [2], weights=np.zeros(4)).edge_ids.size == 0


def test_weights_set_the_rate_with_replacement(tmp_path):
    graph = store_of(star(4), tmp_path).graph()
    weights = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    picked = graph.sample([0], [20_000], weights=weights, replace=True).edge_ids
    assert chi_square_p(np.bincount(picked, minlength=4), 20_000 * weights / 10) > REJECT


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_a_weight_that_is_none_is_refused(bad, tmp_path):
    graph = store_of(star(4), tmp_path).graph()
    with pytest.raises(ValueError, match="weight of edge 2 is"):
        graph.sample([0], [2], weights=np.array([1, 1, bad, 1]))


@pytest.mark.parametrize("bad", [-1, 4, 2**62])
def test_a_seed_outside_the_graph_is_named(bad, tmp_path):
    graph = store_of(path(3), tmp_path).graph()
    with pytest.raises(IndexError, match=rf"seed {bad} \(at index 1\) is out of range"):
        graph.sample([0, bad], [2])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
def test_seeds_of_any_integer_width(dtype, tmp_path):
    graph = store_of(kite(), tmp_path).graph()
    got = graph.sample(np.array([2, 1], dtype), [-1])
    reference.assert_same_sample(got, graph.sample([2, 1], [-1]))


def test_seeds_that_are_no_ids_are_refused(tmp_path):
    graph = store_of(kite(), tmp_path).graph()
    with pytest.raises(TypeError, match="float64"):
        graph.sample([0.5], [1])
    with pytest.raises(ValueError, match="one-dimensional"):
        graph.sample([[0]], [1])


def test_no_seeds_and_no_hops_give_empty_samples(tmp_path):
    graph = store_of(kite(), tmp_path).graph()
    assert graph.sample([], [5, 5]).nodes.size == 0
    only = graph.sample([3, 1], [])
    assert only.nodes.tolist() == [3, 1]
    assert only.edges_per_hop == []


def test_an_out_graph_samples_forwards_and_keeps_edge_ids(tmp_path):
    edges = random_edges(50, 300)
    store = store_of(edges, tmp_path, directions="both", keep_edge_ids=True)
    got = store.graph(direction="out").sample([7, 3], [-1])
    want = edges.grouped("out", sort_lists=True)
    np.testing.assert_array_equal(edges.src[got.edge_ids], got.nodes[got.src])
    np.testing.assert_array_equal(edges.dst[got.edge_ids], got.nodes[got.dst])
    assert sorted(got.edge_ids) == sorted(
        np.concatenate([want.edge_ids[want.indptr[v] : want.indptr[v + 1]] for v in (7, 3)])
    )


def hetero_store(tmp_path) -> gz.Store:
    graph = library()
    spec = {
        "nodes": {t: {"num_nodes": n} for t, n in graph.num_nodes.items()},
        "edges": [{"type": list(t), "edges": e, "keep_edge_ids": True} for t, e in graph.edges.items()],
    }
    gz.ingest(tmp_path / "h", spec=spec, neighbor_order="input", keep_edge_ids=True)
    return gz.open(tmp_path / "h")


def test_several_types_agree_with_the_serial_reference(tmp_path):
    store = hetero_store(tmp_path)
    graphs = library().grouped()
    seeds = {"paper": [0, 3, 0], "author": [1]}
    fanouts = {t: [-1, -1] for t in graphs}
    got = store.sample(seeds, fanouts)
    want = reference.sample_hetero(graphs, seeds, fanouts)
    for t in store.node_types:
        np.testing.assert_array_equal(got.nodes[t], want.nodes[t])
        assert got.nodes_per_hop[t] == want.nodes_per_hop[t]
    for t in store.edge_types:
        for field in ("src", "dst", "edge_ids"):
            np.testing.assert_array_equal(
                getattr(got, field)[t], getattr(want, field)[t], err_msg=f"{t} {field}"
            )


def test_unknown_types_are_named_with_those_that_exist(tmp_path):
    store = hetero_store(tmp_path)
    with pytest.raises(KeyError, match="no node type 'book'.*author"):
        store.sample({"book": [0]}, [1])
    with pytest.raises(KeyError, match="cites"):
        store.sample({"paper": [0]}, {("paper", "reads", "paper"): [1]})
    with pytest.raises(ValueError, match="same number of hops"):
        store.sample({"paper": [0]}, {t: [1] * (i + 1) for i, t in enumerate(store.edge_types)})
