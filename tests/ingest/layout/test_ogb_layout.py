"""gz ingest --ogb and OGB's own readers over the same folder: every edge, feature, label and split agrees."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="OGB's readers need PyTorch")
pytest.importorskip("ogb", reason="OGB's own readers are what gz is compared with: pip install ogb")
pytest.importorskip("pandas", reason="OGB's readers need pandas")

import ogb_folders as folders
import pandas as pd
from ogb.linkproppred import LinkPropPredDataset
from ogb.nodeproppred import NodePropPredDataset
from stores import edge_column, edges_of, same

import gz
from gz.cli import main
from gz.exporter import _toml

NAMES = {"node_feat": "x", "edge_feat": "edge_attr"}


def ogb_node(info):
    """OGB's reading of a folder: graph, labels, split."""
    with folders.trusting():
        data = NodePropPredDataset("ogbn-tiny", meta_dict=info)
        return *data[0], data.get_idx_split()


def ogb_link(info):
    with folders.trusting():
        data = LinkPropPredDataset("ogbl-tiny", meta_dict=info)
        return data[0], data.get_edge_split()


def check_graph(store, graph):
    """A homogeneous store against the dict that OGB makes."""
    assert store.is_homogeneous
    assert store.num_nodes() == graph["num_nodes"]
    same(edges_of(store), graph["edge_index"])
    found = set()
    for key, value in graph.items():
        if value is None or key in ("num_nodes", "edge_index"):
            continue
        name = NAMES.get(key, key)
        found.add(name)
        if key.startswith("node_"):
            same(store.feature(name).get_tensor(), value)
        else:
            same(edge_column(store, name), value)
    assert found == {*store.node_columns(), *store.edge_columns()} - {"y"}


def check_types(store, graph):
    """A heterogeneous store against the dicts that OGB makes."""
    assert {t: store.num_nodes(t) for t in store.node_types} == {
        t: int(n) for t, n in graph["num_nodes_dict"].items()
    }
    assert store.edge_types == sorted(graph["edge_index_dict"])
    for t, e in graph["edge_index_dict"].items():
        same(edges_of(store, t), e)
    for key, by_type in graph.items():
        if not by_type or key in ("num_nodes_dict", "edge_index_dict"):
            continue
        name = key.removesuffix("_dict")
        name = NAMES.get(name, name)
        for t, value in by_type.items():
            ours = (
                edge_column(store, name, t) if isinstance(t, tuple) else store.feature(name, t).get_tensor()
            )
            same(ours, value)


def check_labels(store, labels, t=None):
    ours = store.feature("y", t).get_tensor()
    assert ours.dtype == (np.int64 if labels.dtype.kind == "i" else np.float32)
    same(ours, labels, dtype=False)


def check_node_split(store, split, t=None):
    assert sorted(store.splits(t)) == sorted(split)
    for name, ids in split.items():
        same(store.split(name, t), ids)


def check_edge_split(store, split):
    assert store.edge_splits() == list(split)
    for name, part in split.items():
        ours = store.edge_split(name)
        assert list(ours) == list(part)
        for key, value in part.items():
            if isinstance(value, list):
                assert ours[key] == value
            else:
                same(ours[key], value)


@pytest.mark.parametrize("labels", ["int", "nan"])
@pytest.mark.parametrize("integer_features", [False, True])
def test_text_node_dataset_agrees_with_ogb(tmp_path, labels, integer_features):
    info = folders.text_node(tmp_path / "tiny", labels=labels, integer_features=integer_features)
    graph, y, split = ogb_node(info)
    store = gz.open(gz.ingest(tmp_path / "s", ogb=tmp_path / "tiny"))
    check_graph(store, graph)
    check_labels(store, y)
    assert np.isnan(store.feature("y").get_tensor()).any() == (labels == "nan")
    check_node_split(store, split)


@pytest.mark.parametrize("stored", [False, True], ids=["deflated", "stored"])
def test_binary_node_dataset_agrees_with_ogb(tmp_path, stored):
    root, info = folders.binary_node(tmp_path / "tiny", stored=stored)
    graph, y, split = ogb_node(info)
    store = gz.open(gz.ingest(tmp_path / "s", ogb=root))
    check_graph(store, graph)
    check_labels(store, y)
    assert np.isnan(store.feature("y").get_tensor()).sum() == len(range(0, folders.NODES, 3))
    check_node_split(store, split)


def test_empty_fields_are_nan_as_in_ogb(tmp_path):
    """Between commas, at both ends of a line, and in an otherwise integer column."""
    info = folders.text_node(tmp_path / "tiny")
    x = np.arange(folders.NODES * 3, dtype=float).reshape(-1, 3)
    x[1, 0] = x[2, 1] = x[3, 2] = x[4, :2] = np.nan
    folders.csv(f"{tmp_path}/tiny/raw/node-feat.csv.gz", pd.DataFrame(x).astype("Int64"))
    year = pd.Series(range(folders.NODES), dtype="Int64")
    year[folders.NODES - 1] = pd.NA
    folders.csv(f"{tmp_path}/tiny/raw/node_year.csv.gz", year)
    graph, _, _ = ogb_node(info)
    assert np.isnan(graph["node_feat"]).sum() == 5
    assert np.isnan(graph["node_year"]).sum() == 1
    check_graph(gz.open(gz.ingest(tmp_path / "s", ogb=tmp_path / "tiny")), graph)


@pytest.mark.parametrize("form", ["text", "deflated", "stored"])
def test_any_cut_into_chunks_agrees_with_ogb(tmp_path, form, monkeypatch):
    """Chunks of a few rows: edges, their columns and the two halves of an edge_index stay in step."""
    for module in ("plan.column_input", "write.columns"):
        monkeypatch.setattr(f"gz._ingest.{module}.CHUNK_BYTES", 100)
    monkeypatch.setattr("gz._ingest.plan.splits._ROWS", 3)
    monkeypatch.setattr("gz._ingest.write.edges.EdgeJob.chunk_rows", lambda self: 7)
    monkeypatch.setattr("gz._ingest.read.zip_member._BLOCK", 50)
    root, info = tmp_path / "tiny", None
    if form == "text":
        info = folders.text_node(root)
    else:
        root, info = folders.binary_node(root, stored=form == "stored")
    graph, y, split = ogb_node(info)
    store = gz.open(gz.ingest(tmp_path / "s", ogb=root))
    check_graph(store, graph)
    check_labels(store, y)
    check_node_split(store, split)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_edge_index_in_fortran_order_agrees_with_ogb(tmp_path, save):
    """What `pairs.T` is saved as."""
    root, info = folders.binary_node(tmp_path / "tiny")
    with np.load(f"{root}/raw/data.npz") as z:
        arrays = dict(z)
    arrays["edge_index"] = np.asfortranarray(arrays["edge_index"])
    save(f"{root}/raw/data.npz", **arrays)
    graph, _, _ = ogb_node(info)
    check_graph(gz.open(gz.ingest(tmp_path / "s", ogb=root)), graph)


def test_text_dataset_of_several_types_agrees_with_ogb(tmp_path):
    info = folders.text_types(tmp_path / "tiny")
    graph, y, split = ogb_node(info)
    store = gz.open(gz.ingest(tmp_path / "s", ogb=tmp_path / "tiny"))
    check_types(store, graph)
    assert list(y) == ["paper"]
    check_labels(store, y["paper"], "paper")
    check_node_split(store, {k: v["paper"] for k, v in split.items()}, "paper")


def test_binary_dataset_of_several_types_agrees_with_ogb(tmp_path):
    root, info = folders.binary_types(tmp_path / "tiny")
    graph, y, split = ogb_node(info)
    store = gz.open(gz.ingest(tmp_path / "s", ogb=root, keep_edge_ids=True))
    check_types(store, graph)
    check_labels(store, y["paper"], "paper")
    check_node_split(store, {k: v["paper"] for k, v in split.items()}, "paper")


@pytest.mark.parametrize("form", ["numpy", "tensors", "before torch 1.6"])
@pytest.mark.parametrize("kind", list(folders.LINK_SPLITS))
def test_link_dataset_agrees_with_ogb(tmp_path, kind, form):
    info = folders.text_link(tmp_path / "tiny", kind, form=form)
    graph, split = ogb_link(info)
    store = gz.open(gz.ingest(tmp_path / "s", ogb=tmp_path / "tiny"))
    check_graph(store, graph)
    check_edge_split(store, split)
    assert store.splits() == []


def test_link_dataset_of_several_types_agrees_with_ogb(tmp_path):
    info = folders.text_types_link(tmp_path / "tiny")
    graph, split = ogb_link(info)
    store = gz.open(gz.ingest(tmp_path / "s", ogb=tmp_path / "tiny"))
    check_types(store, graph)
    check_edge_split(store, split)


def test_binary_link_dataset_agrees_with_ogb(tmp_path):
    root, info = folders.binary_link(tmp_path / "tiny")
    graph, split = ogb_link(info)
    store = gz.open(gz.ingest(tmp_path / "s", ogb=root))
    check_graph(store, graph)
    check_edge_split(store, split)


@pytest.mark.parametrize("format", ["parquet", "npy"])
@pytest.mark.parametrize("kind", [*folders.LINK_SPLITS, "types"])
def test_edge_splits_survive_an_export(tmp_path, kind, format):
    info = (
        folders.text_types_link(tmp_path / "tiny")
        if kind == "types"
        else folders.text_link(tmp_path / "tiny", kind)
    )
    _, split = ogb_link(info)
    gz.export(gz.ingest(tmp_path / "s", ogb=tmp_path / "tiny"), tmp_path / "out", format)
    again = gz.open(gz.ingest(tmp_path / "again", spec=tmp_path / "out" / "graph.toml"))
    check_edge_split(again, split)


def test_the_disk_check_counts_edge_splits(tmp_path):
    from gz._ingest.plan import preflight, spec
    from gz._ingest.plan.inputs import open_inputs
    from gz._ingest.read.files import Files

    np.save(tmp_path / "edge.npy", np.zeros((50_000, 2), np.int64))
    given = {
        "edges": [{"type": ["node", "to", "node"], "edges": ([0], [1])}],
        "edge_splits": {"train": {"edge": str(tmp_path / "edge.npy")}},
    }
    plans = [spec.load(g, {}, "dense", Files()) for g in (given, {"edges": given["edges"]})]
    need = [preflight.estimate(open_inputs(p), 1 << 30).columns for p in plans]
    assert need[0] - need[1] >= 800_000


@pytest.mark.parametrize(
    ("split", "error", "message"),
    [
        ({"edge": 3}, ValueError, "'edge' is 3; give a .npy file"),
        ({"edge": "short.npy"}, gz.InputError, r"short\.npy: is 140 bytes long, .*: truncated"),
        ({"kind": {"file": "kind.npy", "names": ["a"]}}, gz.InputError, r"kind\.npy.*places in its 1 names"),
        ({"edge": "far.npy"}, gz.InputError, "row 0: node 9 is out of range: there are 2 nodes"),
        ({"edge": "none.npy"}, FileNotFoundError, r"none\.npy"),
    ],
)
def test_wrong_edge_splits_of_a_spec(tmp_path, split, error, message):
    np.save(tmp_path / "far.npy", np.array([[9, 0]]))
    np.save(tmp_path / "kind.npy", np.array([0, 1]))
    (tmp_path / "short.npy").write_bytes((tmp_path / "far.npy").read_bytes()[:-4])
    (tmp_path / "g.toml").write_text(
        '[[edges]]\ntype = ["node", "to", "node"]\nfile = "e.csv"\n[edge_splits.train]\n'
        + "".join(f"{k} = {_toml(v)}\n" for k, v in split.items())
    )
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n")
    with pytest.raises(error, match=message):
        gz.ingest(tmp_path / "s", spec=tmp_path / "g.toml")
    assert not (tmp_path / "s").exists()


def test_gz_pyg_shows_what_ogb_shows(tmp_path):
    """The PyG dataset objects: names, dtypes and shapes as scripts use them."""
    pytest.importorskip("torch_geometric")
    import torch
    from ogb.linkproppred import PygLinkPropPredDataset
    from ogb.nodeproppred import PygNodePropPredDataset

    import gz_pyg

    info = folders.text_node(tmp_path / "node")
    with folders.trusting():
        dataset = PygNodePropPredDataset("ogbn-tiny", meta_dict=info)
        theirs, split = dataset[0], dataset.get_idx_split()
    ours = gz_pyg.load(gz.ingest(tmp_path / "s", ogb=tmp_path / "node"))
    assert set(theirs.keys()) - {"num_nodes"} == set(ours.keys())
    for name in ("x", "y", "node_year"):
        assert torch.equal(ours[name], theirs[name])
    assert set(ours.get_idx_split()) == set(split)
    for name, ids in ours.get_idx_split().items():
        assert torch.equal(ids, split[name])

    info = folders.text_link(tmp_path / "link", "collab")
    with folders.trusting():
        dataset = PygLinkPropPredDataset("ogbl-tiny", meta_dict=info)
        split = dataset.get_edge_split()
    ours = gz_pyg.load(gz.ingest(tmp_path / "t", ogb=tmp_path / "link")).get_edge_split()
    assert {k: set(v) for k, v in ours.items()} == {k: set(v) for k, v in split.items()}
    for name, part in ours.items():
        for key, value in part.items():
            assert torch.equal(value, split[name][key])


def test_undirected_is_what_ogb_adds_to_a_graph_without_reverse_edges(tmp_path):
    """OGB's add_inverse_edge, which is in its package and not in the folder."""
    info = folders.text_node(tmp_path / "tiny")
    g = np.random.default_rng(0)
    low = np.unique(np.sort(g.integers(0, folders.NODES, (folders.EDGES, 2)), axis=1), axis=0)
    low = low[low[:, 0] != low[:, 1]]
    folders.csv(f"{tmp_path}/tiny/raw/edge.csv.gz", low)
    folders.csv(f"{tmp_path}/tiny/raw/num-edge-list.csv.gz", [len(low)])
    folders.csv(f"{tmp_path}/tiny/raw/edge-feat.csv.gz", folders.floats(g, len(low), 3))
    folders.csv(f"{tmp_path}/tiny/raw/edge_weight.csv.gz", g.integers(1, 9, len(low)))
    graph, _, _ = ogb_node({**info, "add_inverse_edge": "True"})
    store = gz.open(gz.ingest(tmp_path / "s", ogb=tmp_path / "tiny", undirected=True))
    dst = np.repeat(np.arange(folders.NODES), np.diff(np.asarray(store.graph().indptr).astype(int)))
    ours = np.c_[np.asarray(store.graph().indices), dst, store.edge_feature("edge_attr").get_tensor()]
    theirs = np.c_[graph["edge_index"].T, graph["edge_feat"]]
    same(ours[np.lexsort(ours.T)], theirs[np.lexsort(theirs.T)], dtype=False)


def test_undirected_among_several_types_adds_reversed_types(tmp_path):
    folders.text_types(tmp_path / "tiny")
    once = gz.open(gz.ingest(tmp_path / "a", ogb=tmp_path / "tiny"))
    both = gz.open(gz.ingest(tmp_path / "b", ogb=tmp_path / "tiny", undirected=True))
    assert set(both.edge_types) - set(once.edge_types) == {
        ("paper", "rev_writes", "author"),
        ("field", "rev_has_topic", "paper"),
    }
    for src, rel, dst in once.edge_types:
        if src != dst:
            same(edges_of(both, (dst, f"rev_{rel}", src)), edges_of(once, (src, rel, dst))[::-1])
            same(
                edge_column(both, "edge_reltype", (dst, f"rev_{rel}", src)),
                edge_column(once, "edge_reltype", (src, rel, dst)),
            )
    assert both.num_edges(("paper", "cites", "paper")) > once.num_edges(("paper", "cites", "paper"))


def test_a_weight_column_of_ogb_weights_the_edges(tmp_path):
    folders.text_node(tmp_path / "tiny")
    store = gz.open(gz.ingest(tmp_path / "s", ogb=tmp_path / "tiny", weight="edge_weight"))
    assert store.graph().has_weights
    same(np.asarray(store.graph().weights), store.edge_feature("edge_weight").get_tensor()[:, 0], dtype=False)


def test_the_split_is_the_one_ogb_takes(tmp_path):
    """Several folders under split/: the one OGB names for a dataset it knows, else the caller's choice."""
    folders.text_node(tmp_path / "ogbn_products")
    split = tmp_path / "ogbn_products" / "split"
    (split / "time").rename(split / "sales_ranking")
    folders.text_node(tmp_path / "other")
    (tmp_path / "other" / "split" / "time").rename(split / "random")
    report = gz.ingest(tmp_path / "s", ogb=tmp_path / "ogbn_products")
    assert gz.open(report).manifest.meta["split_type"] == "sales_ranking"
    assert "OGB's own loader adds the reverse of every edge of ogbn-products" in str(report)
    chosen = gz.ingest(tmp_path / "t", ogb=tmp_path / "ogbn_products", split_type="random", undirected=True)
    assert gz.open(chosen).manifest.meta["split_type"] == "random"
    assert "adds the reverse" not in str(chosen)
    (tmp_path / "ogbn_products").rename(tmp_path / "unknown")
    with pytest.raises(gz.InputError, match=r"2 ways to split \(random, sales_ranking\).*--split-type"):
        gz.ingest(tmp_path / "u", ogb=tmp_path / "unknown")


def test_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders.text_link(tmp_path / "tiny", "collab")
    assert main(["ingest", "s", "--ogb", "tiny", "--split-type", "time", "--undirected"]) == 0
    assert main(["info", "s"]) == 0
    assert "edge split valid: edge, weight, year, edge_neg" in capsys.readouterr().out
    assert main(["verify", "s"]) == 0


def test_torch_is_imported_only_for_pt_files(tmp_path):
    folders.text_node(tmp_path / "tiny")
    program = (
        "import sys, gz; gz.ingest(sys.argv[1] + '/s', ogb=sys.argv[1] + '/tiny');"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, cwd=tmp_path)
