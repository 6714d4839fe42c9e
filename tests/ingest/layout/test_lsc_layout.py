"""MAG240M folders: gz ingest --lsc and ogb.lsc.MAG240MDataset read the same."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="MAG240M keeps counts and splits in .pt files")

from ogb_folders import edge_index, node_split, rng, trusting  # noqa: E402
from stores import edges_of, nothing_but_phases, same  # noqa: E402

import gz  # noqa: E402
from gz.cli import main  # noqa: E402

COUNTS = {"paper": 50, "author": 30, "institution": 8, "num_classes": 153}
RELATIONS = {
    ("author", "writes", "paper"): 90,
    ("author", "affiliated_with", "institution"): 40,
    ("paper", "cites", "paper"): 120,
}
SPLITS = ("train", "valid", "test-whole", "test-dev", "test-challenge")


def write(root, *, released=True):
    """The folder as the zip of the challenge unpacks; `released`: with the three test splits of today."""
    g = rng()
    place = root / "mag240m_kddcup2021"
    for t, n in RELATIONS.items():
        os.makedirs(place / "processed" / "___".join(t))
        np.save(
            place / "processed" / "___".join(t) / "edge_index.npy",
            edge_index(COUNTS[t[0]], COUNTS[t[2]], n, g),
        )
    paper = place / "processed/paper"
    os.makedirs(paper)
    np.save(paper / "node_feat.npy", g.standard_normal((COUNTS["paper"], 768)).astype(np.float16))
    label = g.integers(0, 153, COUNTS["paper"]).astype(np.float32)
    label[::4] = np.nan
    np.save(paper / "node_label.npy", label)
    np.save(paper / "node_year.npy", g.integers(1980, 2021, COUNTS["paper"]).astype(np.int16))
    torch.save(COUNTS, place / "meta.pt")
    split = node_split(COUNTS["paper"], g)
    if released:
        test = split.pop("test")
        split |= {"test-whole": test, "test-dev": test[:7], "test-challenge": test[7:]}
    torch.save(split, place / "split_dict.pt")
    (place / "RELEASE_v1.txt").write_text("1\n")
    return place


@pytest.mark.parametrize("released", [True, False])
@pytest.mark.parametrize("adopt", [False, True])
def test_agrees_with_ogb(tmp_path, adopt, released):
    pytest.importorskip("ogb", reason="ogb.lsc is what gz is compared with: pip install ogb")
    from ogb.lsc import MAG240MDataset

    place = write(tmp_path / "data", released=released)
    with trusting():
        theirs = MAG240MDataset(str(tmp_path / "data"))
    store = gz.open(gz.ingest(tmp_path / "s", lsc=tmp_path / "data", adopt=adopt, keep_edge_ids=True))
    assert store.node_types == ["paper", "author", "institution"]
    assert store.num_nodes("paper") == theirs.num_papers
    assert store.num_nodes("author") == theirs.num_authors
    assert store.num_nodes("institution") == theirs.num_institutions
    assert store.manifest.meta["num_classes"] == theirs.num_classes
    same(store.feature("x", "paper").get_tensor(), theirs.paper_feat)
    same(store.feature("y", "paper").get_tensor(), theirs.paper_label)
    same(store.feature("year", "paper").get_tensor(), theirs.paper_year)
    assert store.node_columns("author") == []
    assert set(store.edge_types) == set(RELATIONS)
    for t in RELATIONS:
        same(edges_of(store, t), theirs.edge_index(*t))
    split = theirs.get_idx_split()
    assert sorted(store.splits("paper")) == sorted(split) == sorted(SPLITS)
    for name, ids in split.items():
        same(store.split(name, "paper"), ids)
    where = store.feature("x", "paper").path
    assert where == str(place / "processed/paper/node_feat.npy") if adopt else where.startswith(store.path)


def test_the_folder_itself_and_reversed_relations(tmp_path):
    place = write(tmp_path)
    store = gz.open(gz.ingest(tmp_path / "s", lsc=place, undirected=True, keep_edge_ids=True))
    assert set(store.edge_types) == {
        *RELATIONS,
        ("paper", "rev_writes", "author"),
        ("institution", "rev_affiliated_with", "author"),
    }
    forward = np.load(place / "processed/author___writes___paper/edge_index.npy")
    same(edges_of(store, ("paper", "rev_writes", "author")), forward[::-1])


def spoil(place, how):
    paper = place / "processed/paper"
    cites = place / "processed/paper___cites___paper/edge_index.npy"
    match how:
        case "no meta":
            os.remove(place / "meta.pt")
        case "no split":
            os.remove(place / "split_dict.pt")
        case "no features":
            os.remove(paper / "node_feat.npy")
        case "no edges":
            os.remove(cites)
        case "short features":
            np.save(paper / "node_feat.npy", np.zeros((49, 768), np.float16))
        case "truncated features":
            raw = (paper / "node_feat.npy").read_bytes()
            (paper / "node_feat.npy").write_bytes(raw[:-2])
        case "flat edges":
            np.save(cites, np.zeros(8, int))
        case "large id":
            e = np.load(cites)
            e[0, 3] = 50
            np.save(cites, e)
        case "unknown type":
            os.rename(place / "processed/paper___cites___paper", place / "processed/paper___cites___planet")
        case "large split":
            torch.save(
                {"train": np.array([50]), "valid": np.array([0]), "test-dev": []}, place / "split_dict.pt"
            )
        case "split of lists":
            torch.save([1, 2], place / "split_dict.pt")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("no meta", "meta.pt: a file of the dataset is missing"),
        ("no split", "split_dict.pt: a file of the dataset is missing"),
        ("no features", "node_feat.npy: a file of the dataset is missing"),
        ("no edges", "paper___cites___paper/edge_index.npy: a file of the dataset is missing"),
        ("short features", "node_feat.npy: has 49 rows (shape (49, 768)), but there are 50 nodes"),
        (
            "truncated features",
            "node_feat.npy: is 76926 bytes long, but its header promises 76928: truncated",
        ),
        ("flat edges", "edge_index.npy: has shape (8,); an edge_index is [2, E]"),
        ("large id", "edge_index.npy, row 3: source id 50 is out of range: there are 50 nodes"),
        ("unknown type", "there is no node type 'planet'"),
        ("large split", "split 'train', row 0: node 50 is out of range"),
        ("split of lists", "split_dict.pt: is not a dict of splits with 'train' and 'valid'"),
    ],
)
def test_wrong_input(tmp_path, capsys, how, message):
    spoil(write(tmp_path), how)
    out = tmp_path / "s"
    assert main(["ingest", str(out), "--lsc", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert message in " ".join(err.split())
    assert nothing_but_phases(out, err)
