"""benchmarks/papers100m.py: a graph of the right shape, made in chunks, the same every time."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest

import gz


@pytest.fixture(scope="module")
def papers(request):
    folder = str(request.config.rootpath / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import papers100m

        yield papers100m
    finally:
        sys.path.remove(folder)


@pytest.fixture(scope="module")
def made(papers, tmp_path_factory):
    path = tmp_path_factory.mktemp("papers") / "store"
    p = papers.Papers(0.002)
    report = papers.generate_store(path, p, "float16", "200MB", 2, quiet=True)
    return p, gz.open(path), report


def test_the_full_size_is_that_of_papers100m(papers):
    full = papers.Papers(1.0)
    assert full.graph.num_nodes == 111_059_956
    assert full.graph.num_edges == 1_615_685_872
    assert full.graph.num_classes == 172
    assert {name: len(ids) for name, ids in full.splits.items()} == {
        "train": 1_207_179,
        "valid": 125_265,
        "test": 214_338,
    }
    src, dst = full.edge_chunk(papers.Papers(1.0).num_edge_chunks - 1)
    assert min(src.min(), dst.min()) >= 0
    assert max(src.max(), dst.max()) < 111_059_956
    assert full.feature_chunk(full.num_row_chunks - 1, "float16").shape == (111_059_956 % (1 << 16), 128)


def test_the_store_holds_it(made):
    p, store, report = made
    assert store.num_nodes() == p.graph.num_nodes == report["nodes"]
    assert store.num_edges() == p.graph.num_edges == report["edges"]
    assert store.feature("x").shape == (p.graph.num_nodes, 128)
    assert (store.feature("x").dtype, store.feature("x").stored) == ("float32", "float16")
    assert np.array_equal(store.feature("x")[65536:131072], p.feature_chunk(1, "float16"))


def test_labels_are_those_of_the_splits(made):
    p, store, _ = made
    y = store.feature("y").get_tensor()
    parts = [store.split(name) for name in ("train", "valid", "test")]
    labelled = np.concatenate(parts)
    assert len(np.unique(labelled)) == len(labelled)
    assert len(labelled) / store.num_nodes() == pytest.approx(0.0139, rel=0.02)
    assert np.array_equal(np.flatnonzero(y >= 0), np.sort(labelled))
    assert y.max() < p.graph.num_classes
    assert len(np.unique(y[labelled])) == p.graph.num_classes


def test_in_degrees_have_a_heavy_tail(made):
    """The share of nodes with in-degree above d falls as d^-1.5: a power law with exponent 2.5."""
    _, store, _ = made
    degree = store.graph().degree(np.arange(store.num_nodes()))
    above = [(degree > d).mean() for d in (30, 120, 480)]
    for a, b in pairwise(above):
        assert np.log(a / b) / np.log(4) == pytest.approx(1.5, abs=0.2)
    assert degree.max() > 30 * degree.mean()


@pytest.mark.slow
def test_chunks_do_not_depend_on_each_other(papers):
    a, b = papers.Papers(0.01), papers.Papers(0.01)
    for chunk in (3, 1, 1):
        for x, y in zip(a.edge_chunk(chunk), b.edge_chunk(chunk), strict=True):
            assert np.array_equal(x, y)
    assert not np.array_equal(a.edge_chunk(0)[0], a.edge_chunk(1)[0])
    assert not np.array_equal(a.edge_chunk(0)[0], papers.Papers(0.01, seed=1).edge_chunk(0)[0])


def test_edges_stay_in_their_community_as_often_as_they_should(papers):
    import generate

    p = papers.Papers(0.01)
    src, dst = p.edge_chunk(0)
    same = (generate.labels(p.graph, src) == generate.labels(p.graph, dst)).mean()
    expected = 0.7 + 0.3 / p.graph.num_classes
    assert same == pytest.approx(expected, abs=0.003)


def test_features_tell_something_and_neighbours_tell_more(made, papers):
    """The best guess from a node's own features, and from its own and its neighbours' mean."""
    p, store, _ = made
    import generate

    ids = store.split("test")
    labels = generate.labels(p.graph, ids)
    x, graph = store.feature("x"), store.graph()
    own = x.gather(ids).astype(np.float32)
    sample = graph.sample(ids, [20], rng_seed=0)
    rows = x.gather(sample.nodes).astype(np.float32)
    total, count = np.zeros_like(own), np.zeros(len(ids))
    np.add.at(total, sample.dst, rows[sample.src])
    np.add.at(count, sample.dst, 1)

    def right(values):
        scores = values @ p._centroids.T - 0.5 * (p._centroids**2).sum(1)
        return (scores.argmax(1) == labels).mean()

    alone = right(own)
    together = right((own + total) / (count + 1)[:, None])
    assert 0.2 < alone < 0.7
    assert together > alone + 0.1


# ---- the profiles of skew.py: what a sampler reads of them is what is published of the real graphs ----


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "scale", "points"),
    [
        # The figures hardly move with the scale (docs/papers100m.md): one at 1 %, the others cheaper.
        ("papers100m-directed", 0.01, 0.05),
        ("papers100m-symmetric", 0.0025, 0.02),
        ("friendster", 0.0025, 0.05),
        ("igb", 0.0025, 0.05),
    ],
)
def test_a_sampler_meets_the_published_skew(papers, tmp_path, profile, scale, points):
    found, like = papers.curves(papers.Papers(scale, profile=profile), tmp_path / "store")
    compared = 0
    for kind in ("by_frequency", "by_degree", "sieve_first", "sieve_later"):
        for share, value in getattr(like, kind).items():
            assert found[kind][share] == pytest.approx(value, abs=points), (kind, share)
            compared += 1
    assert compared >= 2
    if like.touched_below is not None:
        assert 0.04 < found["touched"] < like.touched_below


@pytest.mark.parametrize("profile", ["papers100m-directed", "papers100m-symmetric", "friendster", "igb"])
def test_the_last_chunk_of_a_full_profile_is_made_alone(papers, profile):
    full = papers.Papers(1.0, profile=profile)
    src, dst = full.edge_chunk(full.num_edge_chunks - 1)
    n, m = full.graph.num_nodes, full.graph.num_edges
    assert len(src) == len(dst) == m - (full.num_edge_chunks - 1) * papers.EDGE_CHUNK
    assert min(src.min(), dst.min()) >= 0
    assert n * 0.9 < max(src.max(), dst.max()) < n


def test_ids_of_a_profile_are_a_shuffle(papers):
    """Every id once, there and back, and neighbouring places land far apart and without a pattern."""
    import skew

    for n in (1, 2, 3, 1000, 65_536, 65_537):
        shuffle = skew.Shuffle(n, 5)
        ids = shuffle(np.arange(n))
        assert np.array_equal(np.sort(ids), np.arange(n))
        assert np.array_equal(shuffle.inverse(ids), np.arange(n))
    gaps = np.abs(np.diff(ids))
    assert len(np.unique(gaps)) > n / 4
    assert np.median(gaps) > n / 5


def test_seeds_of_a_profile_lie_in_the_communities_that_have_labels(papers):
    p = papers.Papers(0.002, profile="papers100m-directed")
    ids = p.labelled
    assert len(np.unique(ids)) == len(ids)
    assert (p.skewed.ids.inverse(ids) < p.skewed.num_core).all()
    counts = np.bincount(p.labels(ids), minlength=p.graph.num_classes)
    assert counts.min() > 0
    assert counts.max() < 3 * counts.mean()
    src, dst = p.edge_chunk(0)
    core = p.skewed.ids.inverse(dst) < p.skewed.num_core
    same = p.labels(src[core]) == p.labels(dst[core])
    assert same.mean() == pytest.approx(0.7, abs=0.02)


def test_a_store_of_a_profile_is_the_same_every_time(papers, tmp_path):
    p = papers.Papers(0.0005, profile="papers100m-symmetric")
    for name in ("a", "b"):
        papers.generate_store(tmp_path / name, p, "float16", "200MB", 2, quiet=True)
    a, b = gz.open(tmp_path / "a"), gz.open(tmp_path / "b")
    assert a.graph().version == b.graph().version
    assert a.feature("x").version == b.feature("x").version
    assert a.num_edges() > 1.9 * p.graph.num_edges
    assert a.manifest.meta["profile"] == "papers100m-symmetric"


def test_the_simulated_cache_is_sieve(papers):
    """Against a plain queue, a row at a time, where a batch is a single row."""
    import _curves

    rng = np.random.default_rng(0)
    rows = np.minimum(rng.zipf(1.3, 4000) - 1, 199)
    sieve = _curves.Sieve(20, 200)
    queue, marked, hand, misses = [], set(), 0, 0  # from old to new
    for row in rows.tolist():
        if row in queue:
            marked.add(row)
        else:
            misses += 1
            if len(queue) == 20:
                while queue[hand] in marked:
                    marked.discard(queue[hand])
                    hand = (hand + 1) % 20
                queue.pop(hand)
                hand = hand if hand < 19 else 0
            queue.append(row)
    assert sum(sieve.misses(np.array([row])) for row in rows) == misses
    assert 500 < misses < 3500
