"""IGB folders, homogeneous and heterogeneous; the reference follows IGB's own loader (igb/dataloader.py)."""

from __future__ import annotations

import os

import numpy as np
import pytest
from stores import edges_of, nothing_but_phases, same

import gz
from gz._ingest.layout.igb import splits
from gz._ingest.plan.splits import IdRange
from gz.cli import main

COUNTS = {"paper": 57, "author": 30, "institute": 6, "fos": 11}
RELATIONS = {
    ("author", "affiliated_to", "institute"): 40,
    ("paper", "cites", "paper"): 120,
    ("paper", "topic", "fos"): 70,
    ("paper", "written_by", "author"): 90,
}


def write(folder, relations, *, bare=False, width=1024):
    """SIZE/processed/...; `bare`: papers and authors in files without header, as in large and full."""
    g = np.random.default_rng(3)

    def save(path, a, plain=False):
        os.makedirs(path.parent, exist_ok=True)
        if plain:
            a.tofile(path)
        else:
            np.save(path, a)

    processed = folder / "tiny" / "processed"
    for (src, rel, dst), n in relations.items():
        e = np.c_[g.integers(0, COUNTS[src], n), g.integers(0, COUNTS[dst], n)]
        save(processed / f"{src}__{rel}__{dst}" / "edge_index.npy", e)
    for t in {end for s, _, d in relations for end in (s, d)}:
        x = g.standard_normal((COUNTS[t], width)).astype(np.float32)
        save(processed / t / "node_feat.npy", x, bare and t in ("paper", "author"))
        save(processed / t / f"{t}_id_index_mapping.npy", np.array({"a": 1}, object))  # a pickle; not read
    for classes, k in (("19", 19), ("2K", 2983)):
        y = g.integers(0, k, COUNTS["paper"]).astype(np.float32)
        save(processed / "paper" / f"node_label_{classes}.npy", y, bare)
    return processed


def check_masks(store, t=None):
    n = COUNTS["paper"]
    train, valid = int(n * 0.6), int(n * 0.2)
    same(store.split("train", t), np.arange(train))
    same(store.split("valid", t), np.arange(train, train + valid))
    same(store.split("test", t), np.arange(train + valid, n))


def features(path, bare, t):
    return np.fromfile(path, np.float32).reshape(COUNTS[t], -1) if bare else np.load(path)


@pytest.mark.parametrize("bare", [False, True])
def test_homogeneous(tmp_path, bare):
    cites = ("paper", "cites", "paper")
    processed = write(tmp_path, {cites: 120}, bare=bare)
    store = gz.open(gz.ingest(tmp_path / "s", igb=tmp_path / "tiny", keep_edge_ids=True))
    assert store.is_homogeneous
    assert store.node_columns() == ["x", "y", "y_2K"]
    same(edges_of(store), np.load(processed / "paper__cites__paper/edge_index.npy").T)
    same(store.feature("x").get_tensor(), features(processed / "paper/node_feat.npy", bare, "paper"))
    for name, file in (("y", "node_label_19.npy"), ("y_2K", "node_label_2K.npy")):
        path = processed / "paper" / file
        same(store.feature(name).get_tensor(), np.fromfile(path, np.float32) if bare else np.load(path))
    check_masks(store)


@pytest.mark.parametrize("place", ["tiny", "tiny/processed"])
@pytest.mark.parametrize("bare", [False, True])
def test_heterogeneous(tmp_path, bare, place):
    processed = write(tmp_path, RELATIONS, bare=bare)
    store = gz.open(gz.ingest(tmp_path / "s", igb=tmp_path / place, keep_edge_ids=True, undirected=True))
    for src, rel, dst in RELATIONS:
        e = np.load(processed / f"{src}__{rel}__{dst}/edge_index.npy").T
        if src != dst:
            same(edges_of(store, (src, rel, dst)), e)
            same(edges_of(store, (dst, f"rev_{rel}", src)), e[::-1])
        else:  # each pair both ways, however often it was given in one
            g = store.graph((src, rel, dst))
            ends = np.repeat(np.arange(g.num_dst), np.diff(g.indptr))
            assert set(zip(g.indices.tolist(), ends.tolist(), strict=True)) == set(
                map(tuple, np.c_[e, e[::-1]].T)
            )
    for t in COUNTS:
        plain = bare and t in ("paper", "author")
        same(store.feature("x", t).get_tensor(), features(processed / t / "node_feat.npy", plain, t))
    check_masks(store, "paper")


def test_features_are_adopted_where_they_lie(tmp_path):
    processed = write(tmp_path, RELATIONS)
    assert main(["ingest", str(tmp_path / "s"), "--igb", str(tmp_path / "tiny"), "--adopt"]) == 0
    store = gz.open(tmp_path / "s")
    assert store.feature("x", "fos").path == str(processed / "fos/node_feat.npy")


def test_types_without_features_are_counted_by_their_edges(tmp_path):
    processed = write(tmp_path, RELATIONS)
    os.remove(processed / "institute/node_feat.npy")
    store = gz.open(gz.ingest(tmp_path / "s", igb=processed))
    e = np.load(processed / "author__affiliated_to__institute/edge_index.npy")
    assert store.num_nodes("institute") == e[:, 1].max() + 1


def test_the_rule_of_the_full_size():
    """In the homogeneous graph of full size only the labelled papers, which come first, are split."""
    full = 269_346_174
    found = splits(full, True, ["y", "y_2K"])
    for suffix, n in (("", 227_130_858), ("_2K", 157_675_969)):
        train, valid = int(n * 0.6), int(n * 0.2)
        assert found["train" + suffix] == IdRange(0, train)
        assert found["valid" + suffix] == IdRange(train, train + valid)
        assert found["test" + suffix] == IdRange(train + valid, n)
    assert splits(full, False, ["y", "y_2K"])["test"].stop == full
    assert list(splits(100, True, ["y", "y_2K"])) == ["train", "valid", "test"]


def spoil(processed, how):
    paper, edges = processed / "paper", processed / "paper__cites__paper/edge_index.npy"
    match how:
        case "no features":
            os.remove(paper / "node_feat.npy")
        case "no labels":
            os.remove(paper / "node_label_19.npy")
            os.remove(paper / "node_label_2K.npy")
        case "no edges":
            os.remove(edges)
        case "short labels":
            np.save(paper / "node_label_19.npy", np.zeros(56, np.float32))
        case "bare, cut":
            np.zeros(57 * 1024, np.float32).tofile(paper / "node_feat.npy")
            os.truncate(paper / "node_feat.npy", 57 * 4096 - 4)
        case "three columns":
            np.save(edges, np.zeros((8, 3), int))
        case "large id":
            e = np.load(edges)
            e[5, 1] = 57
            np.save(edges, e)
        case "truncated edges":
            os.truncate(edges, 1000)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("no features", "paper/node_feat.npy: a file of the dataset is missing"),
        ("no labels", "node_label_19.npy: a file of the dataset is missing"),
        ("no edges", "edge_index.npy: a file of the dataset is missing"),
        ("short labels", "node_label_19.npy: has 56 rows (shape (56,)), but there are 57 nodes"),
        ("bare, cut", "has no .npy header, and its 233468 bytes are no whole number of rows of 4096"),
        ("three columns", "edge_index.npy: has shape (8, 3); an edge_index is [2, E]"),
        ("large id", "edge_index.npy, row 5: destination id 57 is out of range: there are 57 nodes"),
        ("truncated edges", "edge_index.npy: is 1000 bytes long, but its header promises 2048: truncated"),
    ],
)
def test_wrong_input(tmp_path, capsys, how, message):
    spoil(write(tmp_path, RELATIONS), how)
    out = tmp_path / "s"
    assert main(["ingest", str(out), "--igb", str(tmp_path / "tiny")]) == 1
    err = capsys.readouterr().err
    assert message in " ".join(err.split())
    assert nothing_but_phases(out, err)


def test_not_an_igb_folder(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(gz.InputError, match="is not an IGB folder: it has no paper/"):
        gz.ingest(tmp_path / "s", igb=tmp_path / "x")
    os.makedirs(tmp_path / "x/processed/paper")
    with pytest.raises(gz.InputError, match="has no folder of edges"):
        gz.ingest(tmp_path / "s", igb=tmp_path / "x")
