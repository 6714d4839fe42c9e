"""Damaged and incomplete OGB folders: one message with the file and what is wrong, and nothing written."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="splits of these folders are .pt files")
pytest.importorskip("pandas", reason="pandas writes the folders, as it wrote OGB's")
pytest.importorskip("ogb", reason="OGB's DatasetSaver writes the binary folders")

import ogb_folders as folders
import torch
from stores import nothing_but_phases

import gz
from gz.cli import main


def refuse(tmp_path, root, capsys, *parts, **options):
    """The command fails, says all of `parts`, and leaves nothing behind but finished phases."""
    out = tmp_path / "out" / "s"
    out.parent.mkdir(exist_ok=True)
    flags = [f"--{k.replace('_', '-')}={v}" for k, v in options.items()]
    assert main(["ingest", str(out), "--ogb", str(root), *flags]) == 1
    err = capsys.readouterr().err
    for part in parts:
        assert part in " ".join(err.split())
    assert nothing_but_phases(out, err)
    for left in out.parent.glob("s.partial-*"):
        shutil.rmtree(left)


def rewrite(path, **arrays):
    """An archive with some arrays replaced; None removes one."""
    with np.load(path) as z:
        old = dict(z)
    np.savez(path, **{k: v for k, v in {**old, **arrays}.items() if v is not None})


@pytest.fixture
def text(tmp_path):
    folders.text_node(tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.fixture
def binary(tmp_path):
    return Path(folders.binary_node(tmp_path / "tiny", stored=True)[0])


@pytest.mark.parametrize(
    "file",
    [
        "raw/num-node-list.csv.gz",
        "raw/num-edge-list.csv.gz",
        "split/time/valid.csv.gz",
    ],
)
def test_a_missing_text_file(tmp_path, text, capsys, file):
    os.remove(text / file)
    refuse(tmp_path, text, capsys, str(text / file), "missing")


def test_missing_labels(tmp_path, text, binary, capsys):
    os.remove(text / "raw/node-label.csv.gz")
    refuse(tmp_path, text, capsys, "there are splits of nodes but no labels")
    os.remove(binary / "raw/node-label.npz")
    refuse(tmp_path, binary, capsys, "there are splits of nodes but no labels")


def test_a_missing_relation(tmp_path, capsys):
    folders.text_types(tmp_path / "tiny")
    file = tmp_path / "tiny/raw/relations/author___writes___paper/edge.csv.gz"
    os.remove(file)
    refuse(tmp_path, tmp_path / "tiny", capsys, str(file), "missing")


def test_no_graph_at_all(tmp_path, text, capsys):
    os.remove(text / "raw/edge.csv.gz")
    refuse(tmp_path, text, capsys, "holds none of data.npz", "is the download complete?")


def test_not_a_dataset_folder(tmp_path, text, capsys):
    refuse(
        tmp_path, tmp_path, capsys, "is not an OGB dataset folder: it has no raw/", f"did you mean {text}?"
    )
    refuse(tmp_path, tmp_path / "nowhere", capsys, "there is no such folder")
    refuse(tmp_path, text / "raw/edge.csv.gz", capsys, "is a file; unpack it")


def test_a_missing_array(tmp_path, binary, capsys):
    rewrite(binary / "raw/data.npz", num_nodes_list=None)
    refuse(tmp_path, binary, capsys, "data.npz: has no array 'num_nodes_list'")


@pytest.mark.parametrize(
    ("array", "value", "message"),
    [
        ("edge_index", np.zeros((3, 9), int), "has shape (3, 9); an edge_index is [2, E]"),
        ("edge_index", np.zeros((2, 9), int), "has 9 edges (shape (2, 9)), but the dataset says 160"),
        ("edge_index", np.zeros((2, 160)), "has dtype float64; node ids are integers"),
        ("node_feat", np.zeros((39, 5), np.float32), "has 39 rows (shape (39, 5)), but there are 40 nodes"),
        ("edge_feat", np.zeros((161, 2)), "has 161 rows (shape (161, 2)), but there are 160 edges"),
        ("node_feat", np.float32(1), "is a single number"),
        ("num_nodes_list", np.array([20, 20]), "there are 2 graphs"),
        ("something", np.zeros(3), "has an array 'something'; OGB's start with node_ or edge_"),
    ],
)
def test_a_wrong_array(tmp_path, binary, capsys, array, value, message):
    rewrite(binary / "raw/data.npz", **{array: value})
    refuse(tmp_path, binary, capsys, "data.npz", message)


def test_wrong_labels(tmp_path, text, binary, capsys):
    rewrite(binary / "raw/node-label.npz", node_label=np.zeros((41, 1)))
    refuse(tmp_path, binary, capsys, "node-label.npz:node_label.npy: has 41 rows")
    folders.csv(f"{text}/raw/node-label.csv.gz", np.zeros((41, 1), int))
    refuse(tmp_path, text, capsys, "node-label.csv.gz): has 41", "there are 40 nodes")
    folders.csv(f"{text}/raw/node-label.csv.gz", ["cat"] * 40)
    refuse(tmp_path, text, capsys, "node-label.csv.gz", "'cat' is not")


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "deflated"])
@pytest.mark.parametrize("keep", [0.3, 0.9, 0.99])
def test_a_truncated_archive(tmp_path, capsys, stored, keep):
    root = Path(folders.binary_node(tmp_path / "tiny", stored=stored)[0])
    path = root / "raw/data.npz"
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])
    refuse(tmp_path, root, capsys, "data.npz", "is not a readable .npz archive")


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "deflated"])
def test_a_damaged_archive(tmp_path, capsys, stored):
    """A flipped bit in the features, which only the checksum of the archive can tell."""
    root = Path(folders.binary_node(tmp_path / "tiny", stored=stored)[0])
    path = root / "raw/data.npz"
    raw = bytearray(path.read_bytes())
    at = raw.index(b"node_feat.npy") + 300  # beyond the name, the extra field and the header of 128
    raw[at] ^= 4
    path.write_bytes(raw)
    refuse(tmp_path, root, capsys, "data.npz:node_feat.npy", "damaged")


def test_truncated_text(tmp_path, text, capsys):
    for file in ("edge.csv.gz", "node-feat.csv.gz"):
        path = text / "raw" / file
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        refuse(tmp_path, text, capsys, file, "cannot be decompressed")
        path.write_bytes(whole)


def test_text_with_too_few_rows(tmp_path, text, capsys):
    for file, message in (
        ("edge.csv.gz", "has 159 edges, but the dataset says 160"),
        ("node-feat.csv.gz", "has 39 rows, but there are 40 nodes"),
        ("edge-feat.csv.gz", "has 159 rows, but there are more edges"),
    ):
        path = text / "raw" / file
        whole = path.read_bytes()
        path.write_bytes(gzip.compress(b"".join(gzip.decompress(whole).splitlines(True)[:-1])))
        if file == "edge.csv.gz":
            for beside in ("edge-feat.csv.gz", "edge_weight.csv.gz"):
                (text / "raw" / beside).rename(text / beside)
        refuse(tmp_path, text, capsys, file, message)
        path.write_bytes(whole)
        for beside in text.glob("edge*.csv.gz"):
            beside.rename(text / "raw" / beside.name)


def test_ids_out_of_range(tmp_path, text, binary, capsys):
    edges = np.zeros((160, 2), int)
    edges[7, 1] = 40
    folders.csv(f"{text}/raw/edge.csv.gz", edges)
    refuse(tmp_path, text, capsys, "edge.csv.gz", "40", "there are 40 nodes")
    edges = edges.T.copy()
    rewrite(binary / "raw/data.npz", edge_index=edges)
    refuse(tmp_path, binary, capsys, "data.npz:edge_index.npy, row 7: destination id 40 is out of range")
    edges[1, 7] = -1
    rewrite(binary / "raw/data.npz", edge_index=edges)
    refuse(tmp_path, binary, capsys, "data.npz:edge_index.npy, row 7: destination id -1 is negative")


def test_split_ids_out_of_range(tmp_path, text, binary, capsys):
    folders.csv(f"{text}/split/time/test.csv.gz", [3, 40])
    refuse(tmp_path, text, capsys, "split 'test', row 1: node 40 is out of range: there are 40 nodes")
    file = binary / "split/time/split_dict.pt"
    torch.save({"train": np.array([1, 2]), "valid": np.array([-3]), "test": np.array([0])}, file)
    refuse(tmp_path, binary, capsys, "split 'valid', row 0: node -3 is out of range")


@pytest.mark.parametrize("key", ["edge", "edge_neg"])
def test_edge_split_ids_out_of_range(tmp_path, capsys, key):
    folders.text_link(tmp_path / "tiny", "collab")
    split = folders.collab_split(folders.rng(9))["valid"]
    split[key][4, 1] = 99
    torch.save(split, tmp_path / "tiny/split/time/valid.pt")
    refuse(
        tmp_path, tmp_path / "tiny", capsys, f"edge split 'valid': '{key}', row 4: node 99 is out of range"
    )


def test_edge_split_ids_out_of_range_of_their_type(tmp_path, capsys):
    folders.text_types_link(tmp_path / "tiny")
    split = folders.biokg_split(folders.rng(9))["test"]
    row = split["tail_type"].index("field")
    split["tail_neg"][row, 2] = folders.COUNTS["field"]
    torch.save(split, tmp_path / "tiny/split/time/test.pt")
    refuse(
        tmp_path, tmp_path / "tiny", capsys, f"'tail_neg', row {row}: node 9 is out of range", "are 9 nodes"
    )
    split["tail_type"][row] = "planet"
    torch.save(split, tmp_path / "tiny/split/time/test.pt")
    refuse(tmp_path, tmp_path / "tiny", capsys, "there is no node type 'planet'")


def test_split_files_that_are_no_splits(tmp_path, capsys):
    folders.text_link(tmp_path / "tiny", "collab")
    file = tmp_path / "tiny/split/time/valid.pt"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    refuse(tmp_path, tmp_path / "tiny", capsys, str(file), "is not a .pt file of plain data")
    file.write_bytes(b"not a pickle")
    refuse(tmp_path, tmp_path / "tiny", capsys, str(file), "is not a .pt file of plain data")
    torch.save({"edge": "text"}, file)
    refuse(tmp_path, tmp_path / "tiny", capsys, "edge split 'valid': 'edge' is a str")
    torch.save(7, file)
    refuse(tmp_path, tmp_path / "tiny", capsys, str(file), "split 'valid' is a int")
    os.remove(file)
    refuse(tmp_path, tmp_path / "tiny", capsys, str(file), "missing")


class _Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ.get("GZ_TEST_BOMB", "/nowhere/bomb"),)


def test_a_pickle_is_not_executed(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GZ_TEST_BOMB", str(tmp_path / "bomb"))
    folders.text_link(tmp_path / "tiny", "collab")
    torch.save({"edge": _Bomb()}, tmp_path / "tiny/split/time/test.pt")
    refuse(tmp_path, tmp_path / "tiny", capsys, "test.pt", "it holds Python objects besides")
    assert not (tmp_path / "bomb").exists()


def test_a_pickle_beyond_the_budget_that_cannot_be_streamed(tmp_path, capsys):
    folders.text_link(tmp_path / "tiny", "collab")
    big = {"edge": np.asfortranarray(np.zeros((60_000, 2), int)), "edge_neg": np.zeros((2, 2), int)}
    torch.save(big, tmp_path / "tiny/split/time/test.pt")
    refuse(tmp_path, tmp_path / "tiny", capsys, "test.pt", "Fortran order; read whole", memory="1MB")
    monkey = {"edge": _Bomb(), "edge_neg": np.zeros((60_000, 2), int)}
    torch.save(monkey, tmp_path / "tiny/split/time/test.pt")
    refuse(tmp_path, tmp_path / "tiny", capsys, "test.pt", "mkdir, which is neither", memory="1MB")
    whole = (tmp_path / "tiny/split/time/valid.pt").read_bytes()
    torch.save({"edge": torch.zeros((60_000, 2), dtype=torch.int64)}, tmp_path / "tiny/split/time/test.pt")
    (tmp_path / "tiny/split/time/valid.pt").write_bytes(whole)
    gz.ingest(tmp_path / "s", ogb=tmp_path / "tiny", memory="1MB")  # tensors stay in the file


def test_options_that_do_not_go_together(tmp_path, text):
    for options, message in (
        ({"edges": [[0], [1]]}, "either ogb= or edges="),
        ({"lsc": text}, "either ogb= or lsc="),
        ({"ids": "map"}, "ids of dataset folders are dense"),
        ({"delimiter": ";"}, "delimiter= does not go with a dataset folder"),
        ({"weight": "nothing"}, "there is no such edge column; there are ['edge_attr', 'edge_weight']"),
    ):
        with pytest.raises(ValueError, match=message.replace("[", r"\[")):
            gz.ingest(tmp_path / "s", ogb=text, **options)
    with pytest.raises(ValueError, match="split_type= goes with ogb="):
        gz.ingest(tmp_path / "s", edges=[[0], [1]], split_type="time")
    with pytest.raises(gz.InputError, match="no way to split called 'random'; there are time"):
        gz.ingest(tmp_path / "s", ogb=text, split_type="random")
