"""Tiny datasets in the exact layouts of OGB's downloads, and OGB's own readers over them.

Text folders are written by pandas, as OGB's were; binary folders by OGB's DatasetSaver. Sizes and values are
random, but every folder has an isolated last node, a self loop and a repeated edge.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os

import numpy as np
import pandas as pd
import torch

NODES, EDGES = 40, 160
COUNTS = {"author": 30, "field": 9, "paper": 40}
TRIPLETS = {
    ("author", "writes", "paper"): 90,
    ("paper", "cites", "paper"): 120,
    ("paper", "has_topic", "field"): 70,
}
SPLITS = ("train", "valid", "test")


@contextlib.contextmanager
def trusting():
    """OGB 1.3.6 was written for a torch.load that unpickles anything; and it talks a lot."""
    load, torch.load = torch.load, functools.partial(torch.load, weights_only=False)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        torch.load = load


def rng(seed=5):
    return np.random.default_rng(seed)


def edge_index(num_src, num_dst, n, g):
    """The last source and destination stay alone; one edge is there twice, one is a loop if that can be."""
    e = np.stack([g.integers(0, num_src - 1, n), g.integers(0, num_dst - 1, n)])
    e[:, 1] = e[:, 0]
    e[:, 2] = min(num_src, num_dst) - 2
    return e


def floats(g, *shape):
    """float32 numbers that have a short decimal form, which every parser reads the same."""
    return g.integers(-1000, 1000, shape).astype(np.float32) / 8


def with_nan(labels):
    out = labels.astype(np.float32)
    out[::3] = np.nan
    return out


def node_split(n, g):
    order = g.permutation(n)
    return {
        "train": np.sort(order[: n // 2]),
        "valid": order[n // 2 : n // 4 * 3],
        "test": order[n // 4 * 3 :],
    }


def csv(path, values):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pd.DataFrame(values).to_csv(path, header=False, index=False, compression="gzip")


def release(root, version=1):
    os.makedirs(os.path.join(root, "processed"), exist_ok=True)
    with open(os.path.join(root, f"RELEASE_v{version}.txt"), "w") as f:
        f.write("# Release note\n")


def meta(root, **more):
    """What OGB's dataset classes take instead of their master.csv."""
    out = {
        "dir_path": str(root),
        "version": 1,
        "download_name": "tiny",
        "url": "none",
        "num tasks": 1,
        "num classes": 7,
        "task type": "multiclass classification",
        "eval metric": "acc",
        "add_inverse_edge": "False",
        "has_node_attr": "True",
        "has_edge_attr": "False",
        "split": "time",
        "additional node files": "None",
        "additional edge files": "None",
        "is hetero": "False",
        "binary": "False",
    }
    return {**out, **more}


# ---- text


def text_raw(root, *, labels="int", edge_feat=True, integer_features=False):
    g = rng()
    raw = f"{root}/raw"
    csv(f"{raw}/edge.csv.gz", edge_index(NODES, NODES, EDGES, g).T)
    csv(f"{raw}/num-node-list.csv.gz", [NODES])
    csv(f"{raw}/num-edge-list.csv.gz", [EDGES])
    x = g.integers(-5, 5, (NODES, 6)) if integer_features else floats(g, NODES, 6)
    csv(f"{raw}/node-feat.csv.gz", x)
    csv(f"{raw}/node_year.csv.gz", g.integers(1990, 2020, NODES))
    if edge_feat:
        csv(f"{raw}/edge-feat.csv.gz", floats(g, EDGES, 3))
        csv(f"{raw}/edge_weight.csv.gz", g.integers(1, 9, EDGES))
    if labels:
        y = g.integers(0, 7, (NODES, 1))
        csv(f"{raw}/node-label.csv.gz", with_nan(y) if labels == "nan" else y)
    release(root)


def text_node(root, **options):
    """As ogbn-arxiv, with everything OGB allows beside it."""
    text_raw(root, **options)
    for name, ids in node_split(NODES, rng(6)).items():
        csv(f"{root}/split/time/{name}.csv.gz", ids)
    more = {"additional node files": "node_year"}
    if options.get("edge_feat", True):
        more |= {"additional edge files": "edge_weight", "has_edge_attr": "True"}
    return meta(root, **more)


def text_types(root):
    """As ogbn-mag."""
    g = rng()
    raw = f"{root}/raw"
    os.makedirs(raw)
    pd.DataFrame({t: [n] for t, n in COUNTS.items()}).to_csv(f"{raw}/num-node-dict.csv.gz", index=False)
    csv(f"{raw}/triplet-type-list.csv.gz", list(TRIPLETS))
    for k, (t, n) in enumerate(TRIPLETS.items()):
        place = f"{raw}/relations/{'___'.join(t)}"
        csv(f"{place}/edge.csv.gz", edge_index(COUNTS[t[0]], COUNTS[t[2]], n, g).T)
        csv(f"{place}/num-edge-list.csv.gz", [n])
        csv(f"{place}/edge_reltype.csv.gz", np.full(n, k))
    csv(f"{raw}/node-feat/paper/node-feat.csv.gz", floats(g, COUNTS["paper"], 4))
    csv(f"{raw}/node-feat/paper/node_year.csv.gz", g.integers(1990, 2020, COUNTS["paper"]))
    has = pd.DataFrame({t: [t == "paper"] for t in COUNTS})
    has.to_csv(f"{raw}/nodetype-has-label.csv.gz", index=False)
    csv(f"{raw}/node-label/paper/node-label.csv.gz", g.integers(0, 7, COUNTS["paper"]))
    os.makedirs(f"{root}/split/time")
    has.to_csv(f"{root}/split/time/nodetype-has-split.csv.gz", index=False)
    for name, ids in node_split(COUNTS["paper"], g).items():
        csv(f"{root}/split/time/paper/{name}.csv.gz", ids)
    release(root)
    more = {"additional node files": "node_year", "additional edge files": "edge_reltype"}
    return meta(root, **more, **{"is hetero": "True"})


# ---- binary, by OGB's own writer


def saved(folder, name, graph, *, hetero, labels, split):
    """Lets DatasetSaver write a dataset and gives its folder and meta information."""
    from ogb.io import DatasetSaver

    os.makedirs(f"{folder}/mapping")
    with open(f"{folder}/mapping/README.md", "w") as f:
        f.write("none\n")
    with trusting():
        saver = DatasetSaver(name, hetero, version=1, root=f"{folder}/submission")
        saver.save_graph_list([graph])
        if labels is not None:
            saver.save_target_labels(labels)
            saver.save_task_info("multiclass classification", "acc", 7)
        else:
            saver._save_target_labels_done = True
            saver.save_task_info("link prediction", "mrr")
        saver.save_split(split, "time")
        saver.copy_mapping_dir(f"{folder}/mapping")
        info = saver.get_meta_dict()
    return saver.dataset_dir, info


def homogeneous_graph(g):
    return {
        "edge_index": edge_index(NODES, NODES, EDGES, g),
        "num_nodes": NODES,
        "node_feat": floats(g, NODES, 5),
        "node_year": g.integers(1990, 2020, (NODES, 1)),
        "edge_feat": floats(g, EDGES, 2),
        "edge_reltype": g.integers(0, 3, (EDGES, 1)),
    }


def binary_node(folder, *, stored=False):
    """As ogbn-papers100M: labels with NaN; `stored` writes the archives again without compression."""
    g = rng()
    graph = homogeneous_graph(g)
    labels = with_nan(g.integers(0, 7, (NODES, 1)))
    root, info = saved(folder, "ogbn-tiny", graph, hetero=False, labels=labels, split=node_split(NODES, g))
    if stored:
        for file in ("data.npz", "node-label.npz"):
            with np.load(f"{root}/raw/{file}") as z:
                arrays = dict(z)
            np.savez(f"{root}/raw/{file}", **arrays)
    return root, info


def binary_types(folder):
    g = rng()
    graph = {
        "num_nodes_dict": dict(COUNTS),
        "edge_index_dict": {t: edge_index(COUNTS[t[0]], COUNTS[t[2]], n, g) for t, n in TRIPLETS.items()},
        "node_feat_dict": {"paper": floats(g, COUNTS["paper"], 4), "field": floats(g, COUNTS["field"], 2)},
        "node_year_dict": {"paper": g.integers(1990, 2020, (COUNTS["paper"], 1))},
        "edge_feat_dict": {t: floats(g, n, 2) for t, n in list(TRIPLETS.items())[:2]},
    }
    labels = {"paper": g.integers(0, 7, (COUNTS["paper"], 1))}
    split = {k: {"paper": v} for k, v in node_split(COUNTS["paper"], g).items()}
    return saved(folder, "ogbn-tiny", graph, hetero=True, labels=labels, split=split)


# ---- link prediction


def pairs(g, n):
    return g.integers(0, NODES, (n, 2))


def collab_split(g):
    out = {}
    for name, n in zip(SPLITS, (EDGES, 20, 25), strict=True):
        out[name] = {"edge": pairs(g, n), "weight": g.integers(1, 5, n), "year": g.integers(1990, 2020, n)}
        if name != "train":
            out[name]["edge_neg"] = pairs(g, 30)
    return out


def citation_split(g):
    out = {}
    for name, n in zip(SPLITS, (EDGES, 20, 25), strict=True):
        out[name] = {"source_node": g.integers(0, NODES, n), "target_node": g.integers(0, NODES, n)}
        if name != "train":
            out[name]["target_node_neg"] = g.integers(0, NODES, (n, 7))
    return out


def wikikg_split(g):
    out = {}
    for name, n in zip(SPLITS, (EDGES, 20, 25), strict=True):
        out[name] = {k: g.integers(0, NODES, n) for k in ("head", "tail")} | {"relation": g.integers(0, 4, n)}
        if name != "train":
            out[name] |= {k: g.integers(0, NODES, (n, 5)) for k in ("head_neg", "tail_neg")}
    return out


def biokg_split(g):
    """Ids count within their type, and the types are lists of names."""
    out = {}
    types = list(TRIPLETS)
    for name, n in zip(SPLITS, (80, 20, 25), strict=True):
        chosen = [types[i] for i in g.integers(0, len(types), n)]
        head, tail = [t[0] for t in chosen], [t[2] for t in chosen]
        out[name] = {
            "head_type": head,
            "head": np.array([g.integers(0, COUNTS[t]) for t in head]),
            "relation": np.array([types.index(t) for t in chosen]),
            "tail_type": tail,
            "tail": np.array([g.integers(0, COUNTS[t]) for t in tail]),
        }
        if name != "train":
            out[name]["head_neg"] = np.stack([g.integers(0, COUNTS[t], 4) for t in head])
            out[name]["tail_neg"] = np.stack([g.integers(0, COUNTS[t], 4) for t in tail])
    return out


LINK_SPLITS = {"collab": collab_split, "citation": citation_split, "wikikg": wikikg_split}


def text_link(root, kind, *, form="numpy"):
    """As ogbl-collab, -citation2, -wikikg2: text, and a .pt file per split, in a form that torch writes."""
    text_raw(root, labels=None)
    os.makedirs(f"{root}/split/time")
    for name, part in LINK_SPLITS[kind](rng(9)).items():
        if form == "tensors":
            part = {k: torch.from_numpy(v) for k, v in part.items()}
        torch.save(
            part, f"{root}/split/time/{name}.pt", _use_new_zipfile_serialization=form != "before torch 1.6"
        )
    more = {"additional node files": "node_year", "additional edge files": "edge_weight"}
    return meta(root, **more, has_edge_attr="True")


def text_types_link(root):
    """As ogbl-biokg."""
    info = text_types(root)
    for file in ("nodetype-has-split.csv.gz", *(f"paper/{n}.csv.gz" for n in SPLITS)):
        os.remove(f"{root}/split/time/{file}")
    os.remove(f"{root}/raw/nodetype-has-label.csv.gz")
    for name, part in biokg_split(rng(9)).items():
        torch.save(part, f"{root}/split/time/{name}.pt")
    return info


def binary_link(folder):
    """As ogbl-vessel, with the split in one file."""
    g = rng()
    return saved(folder, "ogbl-tiny", homogeneous_graph(g), hetero=False, labels=None, split=collab_split(g))
