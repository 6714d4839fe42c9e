"""An IGB folder (Illinois Graph Benchmark), of any size, as its scripts download it.

    SIZE/processed/TYPE/node_feat.npy                                  1024 float32 a node
    SIZE/processed/paper/node_label_19.npy, node_label_2K.npy          columns y and y_2K
    SIZE/processed/SOURCE__RELATION__DESTINATION/edge_index.npy        [E, 2]

With citations alone the store is homogeneous. The .npy files of the two largest sizes are bare numbers
without a header; they are told by their first bytes. IGB has no split files: its loader takes the first 60 %
of the papers to train, the next 20 % to validate and the rest to test; in the homogeneous graph of full size,
of those with a label, which come first.
"""

from __future__ import annotations

import os
from typing import Any

from gz import manifest
from gz._engine import InputError
from gz._ingest.layout.common import array, dataset_folder, edge_options, optional, with_weight
from gz._ingest.layout.lsc import relations
from gz._ingest.plan.spec import NodeSpec, Spec
from gz._ingest.plan.splits import IdRange
from gz._ingest.read.files import Files, InputFile

_WIDTH = 1024
_LABELS = {"y": "node_label_19.npy", "y_2K": "node_label_2K.npy"}
_FULL = 269_346_174  # papers in the graph of full size, and how many of them have a label
_LABELLED = {"y": 227_130_858, "y_2K": 157_675_969}


def plan(folder: Any, options: dict[str, Any], files: Files) -> Spec:
    root = dataset_folder(folder, ("paper",), "an IGB folder", ("processed",))
    shared = edge_options(options)
    found = [d.split("__") for d in sorted(os.listdir(root)) if d.count("__") == 2]
    if not found:
        raise InputError(f"{root}: has no folder of edges, such as paper__cites__paper")
    nodes: dict[str, NodeSpec] = {}
    for t in dict.fromkeys(["paper", *(end for parts in found for end in (parts[0], parts[2]))]):
        nodes[t] = _nodes(root, t, files)
    edges = relations(root, "__", nodes, shared, files)
    one = len(edges) == 1 and len(nodes) == 1
    paper = nodes["paper"]
    _labels(root, paper, files)
    if paper.num_nodes is not None:
        paper.splits |= splits(paper.num_nodes, one, [n for n in _LABELS if n in paper.features])
    if one:
        paper.name, edges[0].type = manifest.NODE_TYPE, manifest.EDGE_TYPE
        nodes = {manifest.NODE_TYPE: paper}
    with_weight(edges, options.get("weight"))
    spec = Spec(one, nodes, edges, files=files)
    spec.meta["source"] = {"layout": "igb", "folder": os.path.basename(os.path.dirname(root))}
    return spec


def _nodes(root: str, t: str, files: Files) -> NodeSpec:
    path = optional(root, t, "node_feat.npy")
    if path is None:
        if t == "paper":
            raise FileNotFoundError(
                2, "a file of the dataset is missing", os.path.join(root, t, "node_feat.npy")
            )
        return NodeSpec(t)  # counted by its edges
    if _bare(files.get(path)):
        rows = _bare_rows(files.get(path), _WIDTH * 4)
        return NodeSpec(t, rows, {"x": {"file": path, "raw": ["float32", [rows, _WIDTH]]}})
    a = array(path, files)
    if len(a.shape) != 2:
        raise InputError(f"{path}: has shape {tuple(a.shape)}; features are [nodes, width]")
    return NodeSpec(t, a.rows, {"x": path})


def _labels(root: str, paper: NodeSpec, files: Files) -> None:
    n = paper.num_nodes or 0
    for column, file in _LABELS.items():
        path = optional(root, "paper", file)
        if path is None:
            continue
        if _bare(files.get(path)):
            if (rows := _bare_rows(files.get(path), 4)) != n:
                raise InputError(f"{path}: has {rows} rows, but there are {n} nodes")
            paper.features[column] = {"file": path, "raw": ["float32", [n]]}
        else:
            array(path, files, None, n)
            paper.features[column] = path
    if not set(_LABELS) & set(paper.features):
        raise FileNotFoundError(
            2, "a file of the dataset is missing", os.path.join(root, "paper", _LABELS["y"])
        )


def _bare(file: InputFile) -> bool:
    return file.read_at(0, 6) != b"\x93NUMPY"


def _bare_rows(file: InputFile, row: int) -> int:
    if file.size % row:
        raise InputError(
            f"{file.path}: has no .npy header, and its {file.size} bytes are no whole number of rows of {row}"
        )
    return file.size // row


def splits(papers: int, homogeneous: bool, labels: list[str]) -> dict[str, IdRange]:
    """IGB's rule. Where the two kinds of labels reach differently far, each has splits of its own."""
    out: dict[str, IdRange] = {}
    for column in labels:
        n = _LABELLED[column] if homogeneous and papers == _FULL else papers
        suffix = "_2K" if column == "y_2K" and "y" in labels else ""
        if suffix and not (homogeneous and papers == _FULL):
            continue
        train, valid = int(n * 0.6), int(n * 0.2)
        out["train" + suffix] = IdRange(0, train)
        out["valid" + suffix] = IdRange(train, train + valid)
        out["test" + suffix] = IdRange(train + valid, n)
    return out
