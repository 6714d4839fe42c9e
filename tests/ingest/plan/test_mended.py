"""A bad row in the last file, mended: what was finished from other files is kept, and the store is as if
nothing had happened."""

from __future__ import annotations

import os

import numpy as np
import pytest
from opens import Opens
from stores import contents

import gz

NODES, EDGES = 2000, 30_000
KINDS = ["dense", *(pytest.param(k, marks=pytest.mark.slow) for k in ("int", "text"))]


def name(kind, i):
    """The id of node i; in text tables of other kinds than dense, in an order of its own."""
    return {"dense": i, "int": 7 * (NODES - i), "text": f"n{NODES - i}"}[kind]


def write(folder, kind):
    """A table of nodes and two of edges: larger than what is looked at before the work."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    rows = [f"{name(kind, i)},{i % 7},t{i % 5}" for i in range(NODES)]
    (folder / "nodes.csv").write_text("\n".join(["id,age,town", *rows, ""]))
    for file in ("a", "b"):
        ends = rng.integers(0, NODES, (EDGES, 2))
        lines = [f"{name(kind, s)},{name(kind, d)},{i}" for i, (s, d) in enumerate(ends.tolist())]
        (folder / f"{file}.csv").write_text("\n".join(["src,dst,w", *lines, ""]))
    return {
        "ids": kind,
        "nodes": {"user": {"file": str(folder / "nodes.csv")}},
        "edges": [
            {"type": ["user", "likes", "user"], "file": str(folder / "a.csv"), "directions": "both"},
            {"type": ["user", "knows", "user"], "file": str(folder / "b.csv")},
        ],
    }


def spoil(path):
    """A last row that cannot be; what was there before."""
    text = path.read_text()
    path.write_text(text + "1,nobody,x\n")
    return text


def hide(path):
    """Other rows, of the same size and time: whoever reads the file again makes another graph."""
    at = os.stat(path)
    text = path.read_text()
    head = len(text) // 2
    path.write_text(text[:head] + text[head:].replace("1", "2"))
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert os.stat(path).st_size == at.st_size
    return text


@pytest.mark.parametrize("kind", KINDS)
def test_a_mended_last_file_does_not_cost_the_first(tmp_path, kind):
    spec = write(tmp_path / "in", kind)
    whole = spoil(tmp_path / "in" / "b.csv")
    with pytest.raises(gz.InputError, match=r"b\.csv") as caught:
        gz.ingest(tmp_path / "s", spec=spec)
    assert "finished phases are kept in" in caught.value.__notes__[0]
    (tmp_path / "in" / "b.csv").write_text(whole)
    gz.ingest(tmp_path / "fresh", spec=spec)
    hide(tmp_path / "in" / "a.csv")
    finished = "likes/user, in, edges user/likes/user, out"
    with Opens(tmp_path / "in") as opens:
        with pytest.warns(RuntimeWarning, match=f"goes on.*{finished}"):
            gz.ingest(tmp_path / "s", spec=spec)
        assert max(opens.counts().values()) == 1
    assert contents(tmp_path / "s") == contents(tmp_path / "fresh")


@pytest.mark.parametrize("kind", KINDS)
def test_an_edited_file_is_read_again_wholly(tmp_path, kind):
    spec = write(tmp_path / "in", kind)
    whole = spoil(tmp_path / "in" / "b.csv")
    with pytest.raises(gz.InputError):
        gz.ingest(tmp_path / "s", spec=spec)
    (tmp_path / "in" / "b.csv").write_text(whole)
    first = (tmp_path / "in" / "a.csv").read_text().splitlines()
    (tmp_path / "in" / "a.csv").write_text("\n".join([first[0], *first[:0:-1], ""]))
    with pytest.warns(
        RuntimeWarning, match="Done again, because what they read has changed: edges user/likes"
    ):
        gz.ingest(tmp_path / "s", spec=spec)
    gz.ingest(tmp_path / "fresh", spec=spec)
    assert contents(tmp_path / "s") == contents(tmp_path / "fresh")


def test_edges_are_made_again_when_the_number_of_nodes_is_another(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(9))
    np.save(tmp_path / "e.npy", np.array([[0, 1], [1, 2]]))
    np.save(tmp_path / "w.npy", np.zeros(2))
    spec = {
        "nodes": {"n": {"features": {"x": str(tmp_path / "x.npy")}}},
        "edges": [
            {"type": ["n", "a", "n"], "file": str(tmp_path / "e.npy")},
            {"type": ["n", "b", "n"], "file": str(tmp_path / "e.npy"), "weight": "w",
             "features": {"w": str(tmp_path / "w.npy")}},
        ],
    }  # fmt: skip
    np.save(tmp_path / "w.npy", np.array([1.0, -1.0]))
    with pytest.raises(gz.InputError, match="cannot be a weight"):
        gz.ingest(tmp_path / "s", spec=spec)
    np.save(tmp_path / "w.npy", np.array([1.0, 1.0]))
    np.save(tmp_path / "x.npy", np.zeros(5))
    with pytest.warns(RuntimeWarning, match="goes on after its 1 finished phases: edges n/a/n, in"):
        gz.ingest(tmp_path / "s", spec=spec)
    assert gz.open(tmp_path / "s").graph(("n", "a", "n")).num_nodes == 5


@pytest.mark.parametrize("form", ["npy", "csv", "array"])
def test_a_feature_that_is_too_short_is_named_with_both_lengths(tmp_path, form):
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    x = str(tmp_path / "x.npy")
    edges = {"npy": str(tmp_path / "e.npy"), "csv": str(tmp_path / "e.csv"), "array": ([0, 1], [1, 5])}[form]
    np.save(tmp_path / "e.npy", np.array([[0, 1], [1, 5]]))
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n1,5\n")
    with pytest.raises(gz.InputError) as caught:
        gz.ingest(tmp_path / "s", edges=edges, features={"x": x})
    said = str(caught.value)
    assert said.startswith(f"feature 'x' ({x}) of 'node': has 3 rows, but the edges name more nodes: ")
    assert "5" in said.split("more nodes:")[1]
    with pytest.raises(gz.InputError, match=r"e|edges") as caught:  # where it was said, it holds
        gz.ingest(tmp_path / "s", edges=edges, num_nodes=3)
    assert "feature 'x'" not in str(caught.value)
    w = np.zeros(1)
    with pytest.raises(gz.InputError, match=r"^feature 'w': has 1 rows, but there are (2|more) edges"):
        gz.ingest(tmp_path / "s", edges=edges, edge_features={"w": w})
