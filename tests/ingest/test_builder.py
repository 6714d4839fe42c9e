"""The topology builder against plain Python, with budgets so small that everything spills and splits."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ingest_reference import read_gd, read_gl, reference

from gz import _engine

TINY = 2000  # bytes: every block spills, every bucket is split


def build(tmp_path, src, dst, n, *, memory=1 << 26, chunk=None, payload=None, dtype="<i4", **options):
    path = tmp_path / f"t{len(list(tmp_path.iterdir()))}.gl"
    width = 0 if payload is None else payload.itemsize
    b = _engine.Builder(str(tmp_path), payload=width, memory=memory, loop_payload=bytes(width), **options)
    src, dst = np.asarray(src, np.int64), np.asarray(dst, np.int64)
    step = chunk or max(1, len(src))
    for at in range(0, len(src), step):
        part = slice(at, at + step)
        b.add(
            src[part],
            dst[part],
            None if payload is None else np.ascontiguousarray(payload[part]).view(np.uint8),
        )
    column = path.with_suffix(".gd")
    b.begin(str(path), n, n, [] if payload is None else [_engine.EdgeColumn(str(column), "int32", [], 0)])
    while b.step():
        pass
    return read_gl(path), None if payload is None else read_gd(column)


graphs = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=120)
    )
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    graph=graphs,
    undirected=st.booleans(),
    coalesce=st.booleans(),
    self_loops=st.sampled_from(["keep", "remove", "add"]),
    by_id=st.booleans(),
    chunk=st.sampled_from([None, 1, 7]),
    memory=st.sampled_from([TINY, 1 << 26]),
)
def test_rules_ids_positions_and_columns_agree_with_plain_python(
    tmp_path_factory, graph, undirected, coalesce, self_loops, by_id, chunk, memory
):
    n, edges = graph
    src, dst = [a for a, _ in edges], [b for _, b in edges]
    values = np.arange(len(src), dtype="<i4") * 3 + 1
    gl, column = build(
        tmp_path_factory.mktemp("b"),
        src,
        dst,
        n,
        memory=memory,
        chunk=chunk,
        payload=values,
        keep_ids=True,
        positions=True,
        undirected=undirected,
        coalesce=coalesce,
        self_loops=self_loops,
        sort_by_id=by_id,
    )
    expected, where = reference(src, dst, n, undirected, coalesce, self_loops, by_id)
    assert gl.pairs() == [(d, s) for d, s, _ in expected]
    assert gl.edge_ids.tolist() == [i for _, _, i in expected]
    assert gl.num_edge_ids == len(where)
    sentinel = np.iinfo(gl.positions.dtype).max
    assert gl.positions.tolist() == [sentinel if p is None else p for p in where]
    assert column.tolist() == [int(values[i]) if i < len(src) else 0 for _, _, i in expected]
    assert bool(gl.flags & 1) == by_id


@pytest.mark.slow
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    graph=graphs,
    by_id=st.booleans(),
    chunk=st.sampled_from([None, 3]),
    memory=st.sampled_from([TINY, 1 << 26]),
)
def test_plain_edges_agree_with_lexsort(tmp_path_factory, graph, by_id, chunk, memory):
    n, edges = graph
    src, dst = np.array([a for a, _ in edges], int), np.array([b for _, b in edges], int)
    gl, _ = build(tmp_path_factory.mktemp("b"), src, dst, n, memory=memory, chunk=chunk, sort_by_id=by_id)
    order = np.lexsort((src, dst)) if by_id else np.argsort(dst, kind="stable")
    assert gl.indices.tolist() == src[order].tolist()
    assert gl.indptr.tolist() == [0, *np.bincount(dst, minlength=n).cumsum().tolist()]
    assert gl.edge_ids is None


@pytest.mark.parametrize("others", [3, 4096, 1 << 20, 1 << 25, (1 << 32) - 1, 1 << 33])
def test_many_edges_of_few_nodes_agree_with_lexsort(tmp_path, others):
    """Buckets large enough to be sorted by digits: one digit to three, and ids of 32 and of 64 bits."""
    n, e = 5000, 60_000
    rng = np.random.default_rng(others)
    src, dst = rng.integers(0, min(others, 1 << 32), e), 8 * rng.integers(0, 3, e) + rng.integers(0, 4, e)
    dst[:100], src[100] = rng.integers(0, n, 100), others - 1 if others < 1 << 32 else 0
    b = _engine.Builder(str(tmp_path))
    b.add(src, dst)
    b.begin(str(tmp_path / "t.gl"), n, others, [])
    while b.step():
        pass
    gl = read_gl(tmp_path / "t.gl")
    np.testing.assert_array_equal(gl.indices, src[np.lexsort((src, dst))])
    np.testing.assert_array_equal(np.diff(gl.indptr), np.bincount(dst, minlength=n))


def random_graph(n, e, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, n, e), (n * rng.random(e) ** 4).astype(np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [20_000, 100_000, 1 << 20, 1 << 28])
def test_the_result_does_not_depend_on_the_budget(tmp_path, memory):
    src, dst = random_graph(5000, 60_000)
    dst[::3] = 17  # one list far larger than the small budgets
    gl, column = build(
        tmp_path,
        src,
        dst,
        5000,
        memory=memory,
        chunk=5000,
        payload=np.arange(60_000, dtype="<i4"),
        keep_ids=True,
        positions=True,
    )
    order = np.lexsort((np.arange(60_000), src, dst))
    np.testing.assert_array_equal(gl.indices, src[order])
    np.testing.assert_array_equal(gl.edge_ids, order)
    np.testing.assert_array_equal(gl.positions[order], np.arange(60_000))
    np.testing.assert_array_equal(column, order)


def build_bytes(directory, src, dst, n, memory):
    """The file, and how much went through the spill file."""
    directory.mkdir()
    b = _engine.Builder(str(directory), memory=memory, undirected=True, keep_ids=True, positions=True)
    b.add(src, dst)
    spilled = b.spilled_bytes
    b.begin(str(directory / "t.gl"), n, n, [])
    while b.step():
        pass
    return (directory / "t.gl").read_bytes(), spilled


@pytest.mark.slow
def test_the_result_does_not_depend_on_threads_or_spilling(tmp_path):
    """More than one block per thread, so that threads really share the work; and one run that spills."""
    src, dst = random_graph(200_000, 3_500_000, 1)
    before = _engine.num_threads()
    results = {}
    try:
        for threads, memory in ((1, 1 << 30), (2, 1 << 30), (4, 30_000_000), (8, 30_000_000)):
            _engine.set_num_threads(threads)
            results[threads] = build_bytes(tmp_path / str(threads), src, dst, 200_000, memory)
    finally:
        _engine.set_num_threads(before)
    assert [spilled > 0 for _, spilled in results.values()] == [False, False, True, True]
    assert len({data for data, _ in results.values()}) == 1


def test_growing_ids_widen_the_buckets(tmp_path):
    """Ids that double from chunk to chunk make every block with another bucket width."""
    src = np.concatenate([np.arange(2**k) for k in range(2, 15)])
    dst = np.concatenate([np.arange(2**k)[::-1] for k in range(2, 15)])
    n = 2**14
    for memory in (100_000, 1 << 26):
        gl, _ = build(tmp_path, src, dst, n, memory=memory, chunk=1000)
        order = np.lexsort((src, dst))
        np.testing.assert_array_equal(gl.indices, src[order])
        np.testing.assert_array_equal(np.diff(gl.indptr.astype(int)), np.bincount(dst, minlength=n))


@pytest.mark.parametrize("memory", [TINY, 1 << 26])
def test_ids_past_32_bits_are_stored_in_64(tmp_path, memory):
    src = np.array([2**33, 5, 2**32, 0, 2**33, 7])
    dst = np.array([1, 1, 0, 1, 1, 1])
    b = _engine.Builder(str(tmp_path), memory=memory, keep_ids=True, positions=True)
    b.add(src[:2], dst[:2])
    b.add(src[2:], dst[2:])
    assert b.others_seen == 2**33 + 1
    b.begin(str(tmp_path / "w.gl"), 2, 2**33 + 1, [])
    while b.step():
        pass
    gl = read_gl(tmp_path / "w.gl")
    assert gl.indices.dtype == np.int64
    order = np.lexsort((np.arange(6), src, dst))
    assert gl.indices.tolist() == src[order].tolist()
    assert gl.edge_ids.tolist() == order.tolist()


@pytest.mark.parametrize("memory", [TINY, 1 << 26])
def test_alias_tables_give_back_the_weights(tmp_path, memory):
    rng = np.random.default_rng(3)
    src, dst = random_graph(60, 4000, 4)
    w = rng.random(4000).astype("<f4") ** 3
    w[rng.random(4000) < 0.2] = 0
    w[dst == 11] = 0
    b = _engine.Builder(str(tmp_path), payload=4, weight_offset=0, memory=memory)
    b.add(src, dst, w.view(np.uint8))
    b.begin(str(tmp_path / "w.gl"), 60, 60, [])
    while b.step():
        pass
    gl = read_gl(tmp_path / "w.gl")
    alias = gl.alias.reshape(-1, 2)
    for v in range(60):
        lo, hi = int(gl.indptr[v]), int(gl.indptr[v + 1])
        weights, (threshold, partner) = gl.weights[lo:hi].astype(float), alias[lo:hi].T
        if hi == lo:
            continue
        if weights.sum() == 0:
            assert (threshold == 0).all()
            assert (partner == np.arange(hi - lo)).all()
            continue
        keep = np.where(threshold == 0xFFFFFFFF, 1.0, threshold / 2**32)
        p = keep.copy()
        np.add.at(p, partner, np.where(threshold == 0xFFFFFFFF, 0, 1 - keep))
        np.testing.assert_allclose(p / (hi - lo), weights / weights.sum(), atol=1e-8)
        assert (p[weights == 0] == 0).all()


def test_no_edges_and_no_nodes(tmp_path):
    gl, _ = build(tmp_path, [], [], 0)
    assert gl.indptr.tolist() == [0]
    gl, _ = build(tmp_path, [], [], 5, keep_ids=True, positions=True)
    assert gl.indptr.tolist() == [0] * 6


def test_an_edge_past_the_number_of_nodes_is_refused(tmp_path):
    with pytest.raises(ValueError, match="node 9"):
        build(tmp_path, [9], [0], 5)
