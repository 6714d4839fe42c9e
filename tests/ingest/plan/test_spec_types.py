"""A spec's value of a wrong type, and an input that holds nothing, are errors that say where."""

from __future__ import annotations

import pytest

import gz
from gz._ingest.plan import spec as specs
from gz._ingest.plan.spec_types import EDGE, NODE, SPEC

EDGES = '[[edges]]\ntype = ["a", "to", "a"]\nfile = "e.csv"\n'
WRONG = {"3.0": "float 3.0", "[[1]]": "list [[1]]", "1979-05-27": "date "}  # of no key's type


def refused(folder, text):
    (folder / "e.csv").write_text("0,1\n1,2\n")
    (folder / "g.toml").write_text(text)
    with pytest.raises(gz.InputError) as caught:
        gz.ingest(folder / "s", spec=folder / "g.toml")
    assert not (folder / "s").exists()
    assert str(folder / "g.toml") in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("value", [*WRONG, "true", '"3"', "-1"])
def test_a_number_of_nodes_that_is_no_count(tmp_path, value):
    text = refused(tmp_path, f"{EDGES}[nodes.a]\nnum_nodes = {value}\n")
    assert "node type 'a': num_nodes is a" in text


def test_every_key_has_a_type():
    assert SPEC.keys() | {"edges"} == specs._TOP_KEYS
    assert EDGE.keys() | {"type", "edges"} == specs._EDGE_KEYS
    assert NODE.keys() == specs._NODE_KEYS


@pytest.mark.parametrize("key", sorted(SPEC))
@pytest.mark.parametrize("value", WRONG)
def test_keys_of_the_spec(tmp_path, key, value):
    text = refused(tmp_path, f"{key} = {value}\n{EDGES}")
    assert f"the spec: {key} is a" in text or f"the spec: {key} is t" in text
    assert WRONG[value] in text


@pytest.mark.parametrize("key", sorted(EDGE))
@pytest.mark.parametrize("value", WRONG)
def test_keys_of_an_edge_type(tmp_path, key, value):
    edges = EDGES.replace('file = "e.csv"\n', "") if key == "file" else EDGES
    text = refused(tmp_path, f"{edges}{key} = {value}\n")
    assert f"edge type ['a', 'to', 'a']: {key} is " in text
    assert WRONG[value] in text


@pytest.mark.parametrize("key", sorted(NODE))
@pytest.mark.parametrize("value", WRONG)
def test_keys_of_a_node_type(tmp_path, key, value):
    text = refused(tmp_path, f"{EDGES}[nodes.a]\n{key} = {value}\n")
    assert f"node type 'a': {key} is " in text
    assert WRONG[value] in text


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("features.x = 3", "features.x is a file, or a table"),
        ("features.x = {file = 3}", "features.x.file is a file or a list of files, not the integer 3"),
        ('features.x = {file = "x.npy", columns = "a"}', "features.x.columns is a list of columns, not"),
        ('features.x = {file = "x.npy", dtype = true}', "features.x.dtype is text, not the truth value True"),
        ("splits.train = 3", "splits.train is a file"),
        ('columns = {a = 3}', "columns is a list of columns, or a table {name = dtype}, not the table"),
        ("file = []", "file is a file or a list of files, not the list []"),
    ],
)  # fmt: skip
def test_a_wrong_value_inside_is_named_by_its_path(tmp_path, text, path):
    assert f"node type 'a': {path}" in refused(tmp_path, f"{EDGES}[nodes.a]\n{text}\n")


@pytest.mark.parametrize("key", ["file", "columns", "features", "ends"])
@pytest.mark.parametrize("value", [3, 2.5, True])
def test_a_spec_in_python_too(tmp_path, key, value):
    spec = {"edges": [{"type": ["a", "to", "a"], "file": ([0], [1])} | {key: value}]}
    with pytest.raises(gz.InputError, match=f"{key} is .*, not the (integer|float|truth value) {value}"):
        gz.ingest(tmp_path / "s", spec=spec)


@pytest.mark.parametrize("text", ["edges = 3", "edges = [3]", "nodes.a = 3", "[nodes.a]\nsplits = 3"])
def test_a_value_where_a_table_belongs(tmp_path, text):
    assert "table" in refused(tmp_path, text)


@pytest.mark.parametrize("text", ["", "\n\n", "src,dst\n"])
def test_an_empty_table_is_an_error_unless_the_nodes_are_counted(tmp_path, text):
    (tmp_path / "e.csv").write_text(text)
    with pytest.raises(gz.InputError, match="num_nodes"):
        gz.ingest(tmp_path / "s", edges=str(tmp_path / "e.csv"))
    assert not (tmp_path / "s").exists()
    gz.ingest(tmp_path / "s", edges=str(tmp_path / "e.csv"), num_nodes=3)
    store = gz.open(tmp_path / "s")
    assert (store.num_nodes(), store.num_edges()) == (3, 0)
