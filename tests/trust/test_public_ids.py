"""Public functions that take ids and numbers, with ids and numbers of every kind: numpy's answer, or a typed
error. test_public_api.py has the others, and the table of all."""

from __future__ import annotations

from pathlib import Path

import api_store
import numpy as np
import pytest
from api_store import KEYS, LISTS, REFUSED, E, N, X, few, right_or_refused
from hypothesis import example, given
from hypothesis import strategies as st
from odd_values import odd_arrays, odd_ids, odd_numbers
from reference import check_sample, walk_is_legal

import gz

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return api_store.make(tmp_path_factory.mktemp("api"))


@pytest.fixture(scope="module")
def store(path) -> gz.Store:
    return gz.open(path)


@given(ids=odd_ids(N))
@example(ids=(np.empty(0, np.float64), None))
def test_gather(store, ids):
    given_, meant = ids
    column = store.feature("x")
    right_or_refused(
        lambda: column.gather(given_), meant, lambda got: np.testing.assert_array_equal(got, X[meant])
    )
    mask = isinstance(given_, np.ndarray) and given_.dtype == bool and given_.shape == (N,)
    if mask or isinstance(given_, int):  # an index takes these, as numpy does
        meant = given_
    right_or_refused(lambda: column[given_], meant, lambda got: np.testing.assert_array_equal(got, X[meant]))


@given(out=odd_arrays())
def test_gather_into_whatever_is_given(store, out):
    ids = np.arange(4)
    if out is None:
        return  # new memory
    fits = isinstance(out, np.ndarray) and out.shape == (4, 3) and out.dtype == np.float32
    fits = fits and out.flags.c_contiguous and out.flags.writeable and out.dtype.isnative
    try:
        got = store.feature("x").gather(ids, out=out)
    except REFUSED:
        assert not fits
    else:
        assert fits
        assert got is out
        np.testing.assert_array_equal(out, X[ids])


def test_gather_over_its_own_ids(store):
    memory = np.arange(24, dtype=np.int64) % N
    ids = memory.copy()
    out = memory.view(np.float32)[: 16 * 3].reshape(16, 3)
    store.feature("x").gather(memory[:16], out=out)
    np.testing.assert_array_equal(out, X[ids[:16]])


@given(ids=odd_ids(N))
def test_degree(store, ids):
    given_, meant = ids
    if isinstance(given_, int | np.integer) or (isinstance(given_, np.ndarray) and given_.ndim == 0):
        meant = np.atleast_1d(np.asarray(given_))  # one node: an int
    degrees = np.diff(LISTS.indptr)
    graph = store.graph()
    right_or_refused(
        lambda: graph.degree(given_),
        meant,
        lambda got: np.testing.assert_array_equal(np.atleast_1d(got), degrees[meant]),
    )


@given(node=odd_numbers(N))
def test_neighbors(store, node):
    given_, meant = node

    def check(got):
        assert got.tolist() == LISTS.indices[LISTS.indptr[meant] : LISTS.indptr[meant + 1]].tolist()

    right_or_refused(lambda: store.graph().neighbors(given_), meant, check)


@given(ids=odd_ids(N), options=st.fixed_dictionaries({"replace": st.booleans(), "disjoint": st.booleans()}))
def test_sample(store, ids, options):
    given_, meant = ids
    fanouts = [3, -1] if not options["replace"] else [2, 2]

    def check(got):
        check_sample(LISTS, meant.tolist(), fanouts, got, **options)

    right_or_refused(lambda: store.graph().sample(given_, fanouts, **options), meant, check)


@given(ids=odd_ids(N))
def test_store_sample(store, ids):
    given_, meant = ids

    def check(got):
        assert got.nodes["node"][: len(meant)].tolist() == meant.tolist()

    right_or_refused(lambda: store.sample({"node": given_}, [2]), meant, check)


@few
@given(fanouts=st.lists(odd_numbers(2**62), max_size=3))
def test_fanouts_of_any_kind(store, fanouts):
    given_ = [g for g, _ in fanouts]
    try:
        got = store.graph().sample([0, 1], given_)
    except REFUSED:
        return
    assert len(got.edges_per_hop) == len(given_)


@few
@given(weights=odd_arrays(E))
def test_weights_of_any_kind(store, weights):
    try:
        got = store.graph().sample([0, 1, 2], [2], weights=weights)
    except REFUSED:
        return
    if weights is None:
        return
    values = np.asarray(weights, dtype=float)
    assert values.shape == (E,)
    assert (values[got.edge_rows] > 0).all()


@given(
    ids=odd_ids(N),
    length=st.integers(-2, 5),
    q=st.sampled_from([1.0, 0.5, 0.0, -1.0, np.nan, np.inf, 1e-320]),
)
def test_walks_and_fanouts(store, ids, length, q):
    given_, meant = ids
    graph = store.graph()
    legal = meant if length >= 0 and q in (1.0, 0.5) else None
    right_or_refused(
        lambda: graph.batch_random_walk(given_, length, q=q),
        legal,
        lambda got: walk_is_legal(LISTS, meant.tolist(), got, length),
    )

    def check(got):
        assert got.shape == (len(meant), length)
        for v, row in zip(meant, got, strict=True):
            near = LISTS.indices[LISTS.indptr[v] : LISTS.indptr[v + 1]]
            assert np.isin(row[row >= 0], near).all()
            assert (row >= 0).sum() == min(length, len(near))

    right_or_refused(lambda: graph.batch_random_fanout(given_, length), meant if length >= 0 else None, check)


@given(seed=odd_numbers(None))
def test_seeds_of_any_kind(store, seed):
    given_, meant = seed

    def check(got):
        assert got.nodes[:1].tolist() == [3]

    right_or_refused(lambda: store.graph().sample([3], [2], rng_seed=given_), meant, check)


@given(ids=odd_ids(N))
def test_ids_to_original_and_back(store, ids):
    given_, meant = ids
    flat = np.asarray(given_) if isinstance(given_, np.ndarray | int) else None
    if (
        meant is None
        and flat is not None
        and flat.dtype.kind in "iu"
        and flat.size
        and flat.min() >= 0
        and flat.max() < N
    ):
        meant = flat.ravel().astype(np.int64)  # of any shape
    id_map = store.id_map()
    right_or_refused(
        lambda: id_map.to_original(given_), meant, lambda got: np.testing.assert_array_equal(got, KEYS[meant])
    )
    if meant is not None:
        assert id_map.to_dense(KEYS[meant]).tolist() == meant.tolist()
        assert id_map.contains(KEYS[meant]).all()


@given(
    keys=st.lists(
        st.one_of(
            st.integers(-(2**70), 2**70),
            st.text(),
            st.none(),
            st.floats(),
            st.binary(),
            st.sampled_from(KEYS.tolist()),
        ),
        max_size=5,
    )
)
def test_keys_of_any_kind(store, keys):
    """Known exactly where it is one of the integers."""
    known = [type(k) is int and k in set(KEYS.tolist()) for k in keys]
    try:
        assert store.id_map().contains(keys).tolist() == known
    except REFUSED:
        assert not all(type(k) is int and -(2**63) <= k < 2**64 for k in keys)
