"""Every public function of gz with whatever a caller may hand in: what numpy gives, or a typed error.

Those that take names, paths, sizes and arrays are here, those that take ids in test_public_ids.py. TABLE and
EXEMPT name all: a new public name without a line there fails `test_every_public_name_is_in_the_table`.
"""

from __future__ import annotations

import ast
import inspect
import os
import pickle
from pathlib import Path

import api_store
import numpy as np
import pytest
from api_store import DST, REFUSED, SRC, N, few, right_or_refused, says_something
from graphs import group_edges
from hypothesis import given
from hypothesis import strategies as st
from odd_values import odd_arrays, odd_ids, odd_numbers

import gz

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return api_store.make(tmp_path_factory.mktemp("api"))


@pytest.fixture(scope="module")
def store(path) -> gz.Store:
    return gz.open(path)


# ---- names, paths, sizes ----

ANYTHING = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.floats(),
    st.tuples(st.text(max_size=2)),
    st.just(("node", "to", "node")),
    st.just("node"),
    st.just("x"),
)


@given(a=ANYTHING, b=ANYTHING)
def test_names_of_any_kind(store, a, b):
    known = {None, "node"}
    for call in (store.num_nodes, store.node_columns, store.splits):
        right_or_refused(lambda call=call: call(a), True if a in known else None, lambda got: None)
    edges = {None, ("node", "to", "node")}
    for call in (store.num_edges, store.edge_columns, store.graph):
        right_or_refused(lambda call=call: call(a), True if a in edges else None, lambda got: None)
    for call in (
        store.feature,
        store.categories,
        store.unit,
        store.edge_feature,
        store.split,
        store.edge_split_column,
    ):
        try:
            call(a, b)
        except REFUSED as error:
            says_something(error)
    for call in (store.edge_split, store.id_map):
        try:
            call(a)
        except REFUSED as error:
            says_something(error)
    assert store.edge_splits() == []
    with pytest.raises(REFUSED):
        store.graph(direction=a if a not in ("in", "out") else None)


@given(
    path=st.one_of(
        st.text(max_size=10),
        st.binary(max_size=10),
        st.none(),
        st.integers(-5, -1),
        st.just("/dev/null"),
        st.just("/proc/self/mem"),
    )
)
def test_paths_of_any_kind(path):
    for call in (gz.open, gz.Graph, gz.FeatureStore):
        try:
            call(path)
        except REFUSED:
            continue
        pytest.fail(f"{call} opened {path!r}")
    try:
        assert all(error is not None for _, error in gz.verify(path))
    except REFUSED as error:
        says_something(error)


def test_a_name_that_is_no_text_is_refused_with_the_remedy(path, tmp_path):
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")
    os.symlink(path, odd)
    for call in (
        lambda: gz.open(odd),
        lambda: gz.Graph(odd + "/edges/node__to__node/in.gl"),
        lambda: gz.FeatureStore(odd + "/nodes/node/x.gd"),
        lambda: gz.ingest(odd + "-new", edges=(SRC, DST)),
    ):
        with pytest.raises(ValueError, match="not UTF-8; rename it, or give a link"):
            call()


@given(n=odd_numbers(None), cache=st.one_of(odd_numbers(None).map(lambda g: g[0]), st.text(max_size=6)))
def test_sizes_of_any_kind(path, n, cache):
    before = gz.num_threads()
    try:
        gz.set_num_threads(n[0])
        assert 1 <= gz.num_threads() <= 1024
        gz.set_num_threads(before)
    except REFUSED:
        assert gz.num_threads() == before
    try:
        gz.FeatureStore(path / "nodes/node/x.gd", cache).set_cache(0)
    except REFUSED as error:
        says_something(error)


# ---- writing ----


@few
@given(value=odd_arrays(N))
def test_a_column_of_anything(path, value):
    """It is in the store as numpy has it, or was refused and is not."""
    store = gz.open(path)
    try:
        column = store.add_feature("new", value)
    except REFUSED as error:
        says_something(error)
        assert "new" not in gz.open(path).node_columns()
        return
    try:
        array = np.asarray(value)
        got = column.get_tensor()
        assert got.shape == array.shape
        assert np.array_equal(got, array, equal_nan=got.dtype.kind == "f")
    finally:
        store.remove_feature("new")


@few
@given(src=odd_ids(N), dst=odd_ids(N))
def test_edges_of_anything(tmp_path_factory, src, dst):
    out = tmp_path_factory.mktemp("e") / "s"
    (a, a_meant), (b, b_meant) = src, dst
    same = a_meant is not None and b_meant is not None and len(a_meant) == len(b_meant)
    try:
        gz.ingest(out, edges=(a, b), num_nodes=N)
    except REFUSED as error:
        says_something(error)
        assert not out.exists()
        return
    if same:  # what is refused elsewhere (floats that are whole, say) may be read here
        want = group_edges(a_meant, b_meant, N, sort_lists=True)
        got = gz.open(out).graph()
        assert got.indptr.tolist() == want.indptr.tolist()
        assert got.indices.tolist() == want.indices.tolist()


@few
@given(text=st.one_of(st.binary(max_size=60), st.text('0123456789,\n\t .-"ab', max_size=60).map(str.encode)))
def test_tables_of_anything(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("t")
    (folder / "e.csv").write_bytes(text)
    for call in (gz.convert_csv_to_gl, gz.convert_csv_to_gd):
        try:
            call(folder / "e.csv", folder / "out")
        except REFUSED as error:
            says_something(error)
            assert not (folder / "out").exists()
            continue
        opened = gz.Graph if call is gz.convert_csv_to_gl else gz.FeatureStore
        opened(folder / "out").stats()
        (folder / "out").unlink()


@few
@given(
    shape=st.one_of(odd_numbers(64).map(lambda g: g[0]), st.lists(st.integers(-1, 3), max_size=3)),
    dtype=st.sampled_from(["float32", "bool", "O", "U3", "c16", "nonsense", None, np.int8, "M8[s]"]),
)
def test_an_output_column_of_anything(path, shape, dtype):
    store = gz.open(path)
    try:
        column = store.new_column("out", shape, dtype)
    except REFUSED as error:
        says_something(error)
    else:
        column.array[...] = 1
        copy = pickle.loads(pickle.dumps(column))
        assert copy.shape == column.shape
        with pytest.raises(ValueError, match="only the process that made"):
            copy.publish()
        column.abort()
    assert "out" not in gz.open(path).node_columns()
    assert not list(path.rglob("*.new"))  # nor is a draft of it left


def test_export_to_and_of_anything(path, tmp_path):
    for bad in (None, 3, b"\xff", "no such store"):
        with pytest.raises(REFUSED):
            gz.export(bad, tmp_path / "out")
    for bad in ("csv", None, 3):
        with pytest.raises(REFUSED):
            gz.export(path, tmp_path / "out", bad)
    for bad in ("-1", -1, None, 1.5, "many"):
        with pytest.raises(REFUSED):
            gz.export(path, tmp_path / "out", memory=bad)
    assert os.listdir(tmp_path) == []
    gz.export(path, tmp_path / "out")


def test_add_of_anything(path):
    for features in (None, 3, [("a", 1)], {"a": None}, {3: np.zeros(N)}):
        with pytest.raises((*REFUSED, AttributeError)):
            gz.add(path, features)
    assert gz.open(path).node_columns() == ["x"]


# ---- all of them ----

# By the test that feeds it, here or in test_public_ids.py.
TABLE = {
    "Graph": "test_paths_of_any_kind",
    "Graph.batch_random_fanout": "test_walks_and_fanouts",
    "Graph.batch_random_walk": "test_walks_and_fanouts",
    "Graph.degree": "test_degree",
    "Graph.neighbors": "test_neighbors",
    "Graph.sample": "test_sample",
    "FeatureStore": "test_paths_of_any_kind",
    "FeatureStore.gather": "test_gather",
    "FeatureStore.set_cache": "test_sizes_of_any_kind",
    "IdMap.contains": "test_keys_of_any_kind",
    "IdMap.to_dense": "test_ids_to_original_and_back",
    "IdMap.to_original": "test_ids_to_original_and_back",
    "Store": "test_paths_of_any_kind",
    "Store.add_feature": "test_a_column_of_anything",
    "Store.categories": "test_names_of_any_kind",
    "Store.edge_columns": "test_names_of_any_kind",
    "Store.edge_feature": "test_names_of_any_kind",
    "Store.edge_split": "test_names_of_any_kind",
    "Store.edge_split_column": "test_names_of_any_kind",
    "Store.feature": "test_names_of_any_kind",
    "Store.graph": "test_names_of_any_kind",
    "Store.id_map": "test_names_of_any_kind",
    "Store.new_column": "test_an_output_column_of_anything",
    "Store.node_columns": "test_names_of_any_kind",
    "Store.num_edges": "test_names_of_any_kind",
    "Store.num_nodes": "test_names_of_any_kind",
    "Store.remove_feature": "test_a_column_of_anything",
    "Store.sample": "test_store_sample",
    "Store.split": "test_names_of_any_kind",
    "Store.splits": "test_names_of_any_kind",
    "Store.unit": "test_names_of_any_kind",
    "OutputColumn.abort": "test_an_output_column_of_anything",
    "OutputColumn.publish": "test_an_output_column_of_anything",
    "add": "test_add_of_anything",
    "convert_csv_to_gd": "test_tables_of_anything",
    "convert_csv_to_gl": "test_tables_of_anything",
    "export": "test_export_to_and_of_anything",
    "ingest": "test_edges_of_anything",
    "num_threads": "test_sizes_of_any_kind",
    "open": "test_paths_of_any_kind",
    "set_num_threads": "test_sizes_of_any_kind",
    "verify": "test_paths_of_any_kind",
}
SHOWN = "shows what was checked at open"
EXEMPT = {
    "reorder": "tests/store/test_hot_rows.py; ids and fanouts are those of Store.sample",
    "Graph.stats": SHOWN,
    "FeatureStore.get_tensor": SHOWN,
    "FeatureStore.stats": SHOWN,
    "IdMap": "made by Store.id_map from what the fuzzer breaks",
    "IdMap.check": "takes nothing; the fuzzer runs it by gz verify",
    "Store.check_current": SHOWN,
    "Store.memory_plan": SHOWN,
    "Store.stats": SHOWN,
    "OutputColumn": "made by Store.new_column",
    "HeteroSample": "a plain record",
    "IngestReport": "a plain record",
    "IngestReport.as_dict": "takes nothing",
    "IngestReport.as_json": "takes nothing",
    "Sample": "a plain record",
    "FormatError": "an exception",
    "InputError": "an exception",
}


def public_names() -> set[str]:
    names = set()
    for name in gz.__all__:
        thing = getattr(gz, name)
        if callable(thing):
            names.add(name)
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            names |= {f"{name}.{m}" for m, f in vars(thing).items() if callable(f) and not m.startswith("_")}
    return names


def test_every_public_name_is_in_the_table():
    assert public_names() == TABLE.keys() | EXEMPT.keys()
    assert not TABLE.keys() & EXEMPT.keys()
    here = Path(__file__).parent
    trees = [ast.parse((here / f).read_text()) for f in ("test_public_api.py", "test_public_ids.py")]
    tests = {n.name for tree in trees for n in tree.body if isinstance(n, ast.FunctionDef)}
    assert set(TABLE.values()) <= tests
