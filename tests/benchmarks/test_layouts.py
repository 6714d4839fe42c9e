"""benchmarks/_layouts.py: orders of rows that are what they say."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import gz

nx = pytest.importorskip("networkx")


@pytest.fixture(scope="module")
def layouts(request):
    folder = str(request.config.rootpath / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import _layouts

        yield _layouts
    finally:
        sys.path.remove(folder)


@pytest.fixture(scope="module")
def cliques(tmp_path_factory):
    """Five of eight nodes, in a ring; ids shuffled."""
    ids = np.random.default_rng(0).permutation(40)
    edges = np.array(nx.ring_of_cliques(5, 8).edges).T
    path = tmp_path_factory.mktemp("cliques") / "store"
    gz.ingest(path, edges=(ids[edges[0]], ids[edges[1]]), num_nodes=40, undirected=True)
    return gz.open(path).graph(), ids


def test_label_propagation_finds_cliques(layouts, cliques):
    graph, ids = cliques
    label = layouts.labels(graph)[ids].reshape(5, 8)
    assert (label == label[:, :1]).all()
    assert len(np.unique(label)) == 5


def test_a_search_meets_nodes_by_their_distance(layouts, cliques):
    graph, ids = cliques
    indptr, indices = np.asarray(graph.indptr), np.asarray(graph.indices)
    plain = nx.Graph([(v, int(w)) for v in range(40) for w in indices[indptr[v] : indptr[v + 1]]])
    far = nx.single_source_shortest_path_length(plain, int(ids[3]))
    when = layouts.breadth(graph, ids[3:4])
    assert np.array_equal(np.sort(when), np.arange(40))
    distance = [far[int(node)] for node in np.argsort(when)]
    assert distance == sorted(distance)
    assert distance[-1] > 2


def test_rows_follow_the_first_seed_that_has_them(layouts, cliques):
    graph, ids = cliques
    first = layouts.by_seed(graph, ids[[0, 1, 16]], [-1])
    assert set(np.flatnonzero(first == 0)) >= set(ids[:8])
    assert set(np.flatnonzero(first == 1)) <= set(graph.neighbors(int(ids[1])))
    assert set(np.flatnonzero(first == 2)) >= set(ids[17:24])
    assert (first == 3).sum() > 10


def test_touched_rows_come_first_and_tiers_keep_their_ranks(layouts):
    rng = np.random.default_rng(1)
    count, key, rank = rng.integers(0, 3, 80), rng.integers(0, 4, 80), rng.permutation(80)
    order = layouts.touched_first(count, key, rank)
    touched = (count > 0).sum()
    assert np.array_equal(np.sort(order), np.arange(80))
    assert (count[order[:touched]] > 0).all()
    wanted = sorted(zip(key[count > 0], rank[count > 0], strict=True))
    assert [(key[row], rank[row]) for row in order[:touched]] == wanted
    assert order[touched:].tolist() == np.flatnonzero(count == 0).tolist()
    front = layouts.tiers(rank, key, share=0.5, count=4)
    assert np.array_equal(np.sort(front), np.arange(80))
    for tier in range(4):
        rows = front[tier * 10 : tier * 10 + 10]
        assert sorted(rank[rows]) == list(range(tier * 10, tier * 10 + 10))
        assert key[rows].tolist() == sorted(key[rows])
    assert rank[layouts.tiers(rank, share=0.5)[:40]].tolist() == list(range(40))
    assert front[40:].tolist() == sorted(front[40:])
