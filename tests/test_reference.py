"""The reference sampler against PyG's k_hop_subgraph and scipy, the judge against spoiled samples."""

from __future__ import annotations

import copy

import graphs
import numpy as np
import pytest
import reference
import scipy.sparse as sp


def reached_by_scipy(e: graphs.EdgeList, seeds, hops: int) -> set[int]:
    adjacency = sp.csr_matrix((np.ones(len(e.src)), (e.dst, e.src)), shape=(e.num_nodes, e.num_nodes))
    mask = np.zeros(e.num_nodes)
    mask[list(seeds)] = 1
    for _ in range(hops):
        mask = mask + adjacency.T @ mask
    return set(np.flatnonzero(mask).tolist())


EDGE_LISTS = {
    "kite": graphs.kite(),
    "path": graphs.path(5),
    "star": graphs.star(6),
    "empty": graphs.empty(8),
    "community": graphs.community_graph(300, degree=3),
}


@pytest.mark.parametrize("name", EDGE_LISTS)
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_all_neighbours_reach_what_a_matrix_power_reaches(name, hops):
    e = EDGE_LISTS[name]
    seeds = [0, 3]
    s = reference.sample(e.grouped(), seeds, [-1] * hops)
    assert set(s.nodes.tolist()) == reached_by_scipy(e, seeds, hops)
    assert len(set(s.nodes.tolist())) == len(s.nodes)


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("name", ["kite", "community"])
def test_all_neighbours_agree_with_k_hop_subgraph(name, hops):
    torch = pytest.importorskip("torch")
    utils = pytest.importorskip("torch_geometric.utils")
    e = EDGE_LISTS[name]
    seeds = [0, 5]
    s = reference.sample(e.grouped(), seeds, [-1] * hops)
    edge_index = torch.from_numpy(np.stack(e.edges))
    nodes, _, _, _ = utils.k_hop_subgraph(seeds, hops, edge_index, num_nodes=e.num_nodes)
    assert sorted(s.nodes.tolist()) == nodes.tolist()
    # A node is expanded unless it is first seen in the last hop: those are the nodes within hops - 1.
    inner, _, _, _ = utils.k_hop_subgraph(seeds, hops - 1, edge_index, num_nodes=e.num_nodes)
    expected = np.flatnonzero(np.isin(e.dst, inner.numpy()))
    assert sorted(s.edge_ids.tolist()) == expected.tolist()
    np.testing.assert_array_equal(s.nodes[s.src], e.src[s.edge_ids])
    np.testing.assert_array_equal(s.nodes[s.dst], e.dst[s.edge_ids])


def test_the_kite_sampled_by_hand():
    # In-neighbours of 0 in original edge order: 3 (edge 0), 5 (edge 4), 3 (edge 5), 2 (edge 6), 4 (edge 8).
    s = reference.sample(graphs.kite().grouped(), [0, 7, 0], [-1, -1])
    assert s.nodes.tolist() == [0, 7, 0, 3, 5, 2, 4, 1]
    assert s.src.tolist() == [3, 4, 3, 5, 6] * 2 + [0, 7, 6]
    assert s.dst.tolist() == [0] * 5 + [2] * 5 + [4, 5, 6]
    assert s.edge_ids.tolist() == [0, 4, 5, 6, 8] * 2 + [9, 1, 3]
    assert s.nodes_per_hop == [3, 4, 1]
    assert s.edges_per_hop == [10, 3]


def test_the_library_sampled_by_hand():
    g = graphs.library()
    fanouts = {t: [-1, -1] for t in g.edges}
    s = reference.sample_hetero(g.grouped(), {"paper": [0]}, fanouts)
    assert s.nodes["paper"].tolist() == [0, 1, 2, 3, 4]
    assert s.nodes["author"].tolist() == [0, 1, 2]
    assert s.nodes["venue"].tolist() == [0, 1]
    assert s.nodes_per_hop == {"paper": [1, 2, 2], "author": [0, 3, 0], "venue": [0, 1, 1]}
    assert s.edges_per_hop[("paper", "cites", "paper")] == [2, 2]
    assert s.edges_per_hop[("venue", "publishes", "paper")] == [1, 2]
    assert s.edges_per_hop[("paper", "written_by", "author")] == [0, 6]
    reference.check_hetero_sample(g.grouped(), {"paper": [0]}, fanouts, s)


def test_disjoint_is_each_seed_sampled_alone():
    graph = graphs.community_graph(300, degree=3).grouped()
    seeds = [4, 9, 4]
    together = reference.sample(graph, seeds, [-1, -1], disjoint=True)
    for i, seed in enumerate(seeds):
        alone = reference.sample(graph, [seed], [-1, -1])
        assert together.nodes[together.batch == i].tolist() == alone.nodes.tolist()
    assert (together.batch[together.src] == together.batch[together.dst]).all()


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("name", EDGE_LISTS)
def test_the_judge_accepts_what_the_reference_draws(name, replace, disjoint):
    graph = EDGE_LISTS[name].grouped()
    for rng_seed in range(5):
        seeds, fanouts = [0, 2, 5, 2], [3, -1, 2]
        s = reference.sample(
            graph, seeds, fanouts, pick=reference.random_pick(rng_seed, replace), disjoint=disjoint
        )
        reference.check_sample(graph, seeds, fanouts, s, replace=replace, disjoint=disjoint)


def test_filtered_edges_are_never_drawn_and_the_judge_knows():
    graph = graphs.community_graph(300, degree=6).grouped()

    def even(edge_type, position, seed_index):
        return position % 2 == 0

    s = reference.sample(graph, [1, 2], [2, 2], allowed=even)
    reference.check_sample(graph, [1, 2], [2, 2], s, allowed=even)
    unfiltered = reference.sample(graph, [1, 2], [-1, -1])
    with pytest.raises(AssertionError):
        reference.check_sample(graph, [1, 2], [-1, -1], unfiltered, allowed=even)


def _swap_nodes(s):
    s.nodes[[-1, -2]] = s.nodes[[-2, -1]]


def _wrong_edge_id(s):
    s.edge_ids[0] = s.edge_ids[-1]


def _repeat_a_pick(s):
    s.src[1], s.edge_ids[1] = s.src[0], s.edge_ids[0]


def _drop_an_edge(s):
    s.src, s.dst, s.edge_ids = s.src[:-1], s.dst[:-1], s.edge_ids[:-1]
    s.edges_per_hop[-1] -= 1


def _shift_dst(s):
    s.dst[0] = 1


def _src_out_of_range(s):
    s.src[0] = len(s.nodes)


def _miscount_nodes(s):
    s.nodes_per_hop[1] += 1
    s.nodes_per_hop[2] -= 1


def _move_an_edge_to_the_next_hop(s):
    s.edges_per_hop[0] -= 1
    s.edges_per_hop[1] += 1


def _extra_node(s):
    s.nodes = np.append(s.nodes, 0)


SPOILED = [
    _swap_nodes,
    _wrong_edge_id,
    _repeat_a_pick,
    _drop_an_edge,
    _shift_dst,
    _src_out_of_range,
    _miscount_nodes,
    _move_an_edge_to_the_next_hop,
    _extra_node,
]


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda f: f.__name__.strip("_"))
def test_the_judge_rejects_a_spoiled_sample(spoil):
    graph = graphs.community_graph(300, degree=12).grouped()
    seeds, fanouts = [1, 2, 3], [3, 3]
    s = reference.sample(graph, seeds, fanouts)
    reference.check_sample(graph, seeds, fanouts, s)
    spoiled = copy.deepcopy(s)
    spoil(spoiled)
    with pytest.raises(AssertionError):
        reference.check_sample(graph, seeds, fanouts, spoiled)


def test_the_judge_rejects_duplicated_seeds_with_different_picks():
    graph = graphs.star(50).grouped()
    picks = iter([[1, 2], [3, 4]])
    s = reference.sample(graph, [0, 0], [2], pick=lambda *_: next(picks))
    with pytest.raises(AssertionError, match="different picks"):
        reference.check_sample(graph, [0, 0], [2], s)


def test_the_judge_rejects_a_wrong_batch_vector():
    graph = graphs.community_graph(300, degree=12).grouped()
    s = reference.sample(graph, [1, 2], [3], disjoint=True)
    reference.check_sample(graph, [1, 2], [3], s, disjoint=True)
    s.batch[-1] = 0
    with pytest.raises(AssertionError):
        reference.check_sample(graph, [1, 2], [3], s, disjoint=True)


def test_the_community_graph_is_what_it_says():
    e = graphs.community_graph()
    same = (e.y[e.src] == e.y[e.dst]).mean()
    assert 0.75 < same < 0.9
    degrees = e.grouped().degrees()
    assert degrees.max() > 5 * degrees.mean()
    again = graphs.community_graph()
    assert (again.src == e.src).all()
    assert (again.x == e.x).all()


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "classes"), [("cora", 2708, 5429, 7), ("citeseer", 3312, 4715, 6)]
)
def test_citation_networks_load(name, nodes, edges, classes):
    e = graphs.citation_network(name)
    assert (e.num_nodes, len(e.src), e.y.max() + 1) == (nodes, edges, classes)
    assert len(e.x) == nodes
    s = reference.sample(e.grouped(), range(20), [5, 5])
    reference.check_sample(e.grouped(), range(20), [5, 5], s)


def test_walks_are_judged():
    graph = graphs.path(3).grouped("out")
    reference.walk_is_legal(graph, [1], np.array([[1, 2, 3, -1]]), 3)
    for wrong in ([[1, 2, 3, 0]], [[1, 3, -1, -1]], [[1, 2, -1, -1]], [[0, 1, 2, 3]]):
        with pytest.raises(AssertionError):
            reference.walk_is_legal(graph, [1], np.array(wrong), 3)
