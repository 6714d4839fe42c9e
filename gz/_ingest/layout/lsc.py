"""The MAG240M folder of OGB-LSC, as `ogb.lsc.MAG240MDataset` downloads and unpacks it.

    meta.pt, split_dict.pt
    processed/paper/node_feat.npy (float16), node_label.npy (float32, NaN without a label), node_year.npy
    processed/SOURCE___RELATION___DESTINATION/edge_index.npy [2, E]

Only papers have features. With adopt=True the .npy files serve as columns where they lie.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from gz._engine import InputError
from gz._ingest.layout.common import (
    array,
    dataset_folder,
    edge_index,
    edge_options,
    optional,
    required,
    with_weight,
)
from gz._ingest.plan.spec import EdgeSpec, NodeSpec, Spec
from gz._ingest.plan.splits import check_split
from gz._ingest.read import pt
from gz._ingest.read.files import Files

_NAMES = {"node_feat": "x", "node_label": "y", "node_year": "year"}


def plan(folder: Any, options: dict[str, Any], memory: int, files: Files) -> Spec:
    root = dataset_folder(folder, ("processed",), "a MAG240M folder", ("mag240m_kddcup2021",))
    shared = edge_options(options)
    file = required(root, "meta.pt")
    meta = pt.load(files.get(file), memory)
    if not isinstance(meta, dict) or not all(isinstance(n, (int, np.integer)) for n in meta.values()):
        raise InputError(f"{file}: is not a dict of counts")
    processed = os.path.join(root, "processed")
    nodes: dict[str, NodeSpec] = {}
    for t, n in meta.items():
        if t == "num_classes":
            continue
        nodes[t] = NodeSpec(t, int(n))
        for name, column in _NAMES.items():
            path = optional(processed, t, f"{name}.npy")
            if path is not None:
                array(path, files, None, int(n))
                nodes[t].features[column] = path
    if "paper" not in nodes:
        raise InputError(f"{file}: has no count of papers; it has {sorted(map(str, meta))}")
    for name in ("node_feat", "node_label", "node_year"):
        required(processed, "paper", f"{name}.npy")
    edges = relations(processed, "___", nodes, shared, files)
    with_weight(edges, options.get("weight"))
    spec = Spec(False, nodes, edges, files=files)
    _splits(spec, required(root, "split_dict.pt"), memory)
    spec.meta["source"] = {"layout": "lsc", "folder": os.path.basename(root)}
    spec.meta["num_classes"] = int(meta.get("num_classes", 0))
    return spec


def relations(
    processed: str, joint: str, nodes: dict[str, NodeSpec], shared: dict[str, Any], files: Files
) -> list[EdgeSpec]:
    """An edge type for every folder SOURCE<joint>RELATION<joint>DESTINATION."""
    edges = []
    for name in sorted(os.listdir(processed)):
        parts = name.split(joint)
        if len(parts) != 3 or not os.path.isdir(os.path.join(processed, name)):
            continue
        for end in (parts[0], parts[2]):
            if end not in nodes:
                where = os.path.join(processed, name)
                raise InputError(f"{where}: there is no node type {end!r}; there are {sorted(nodes)}")
        path = required(processed, name, "edge_index.npy")
        n = edge_index(path, files)
        edges.append(EdgeSpec((parts[0], parts[1], parts[2]), path, num_edges=n, **shared))
    if not edges:
        raise InputError(
            f"{processed}: has no folder of edges, called SOURCE{joint}RELATION{joint}DESTINATION"
        )
    return edges


def _splits(spec: Spec, path: str, memory: int) -> None:
    file = spec.files.get(path)
    splits = pt.load(file, memory)
    if not isinstance(splits, dict) or not {"train", "valid"} <= set(splits):
        raise InputError(f"{path}: is not a dict of splits with 'train' and 'valid'")
    paper = spec.nodes["paper"]
    for name in splits:
        paper.splits[str(name)] = pt.FromPt(file, (name,), memory)
    if "test" in splits:
        # Released before the challenge: three of five for development, as ogb.lsc divides it.
        whole = paper.splits["test-whole"] = paper.splits.pop("test")
        paper.splits["test-dev"] = replace(whole, fifths=(0, 1, 2))
        paper.splits["test-challenge"] = replace(whole, fifths=(3, 4))
    for name, value in paper.splits.items():
        check_split(name, value, paper.num_nodes, spec.files)
