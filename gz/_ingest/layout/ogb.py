"""An OGB node- or link-prediction dataset folder, as `ogb` downloads and unpacks it.

    raw/     edge.csv.gz, node-feat.csv.gz, num-node-list.csv.gz, ...      text, one graph
             triplet-type-list.csv.gz, relations/, node-feat/, ...         text, several types (ogbn-mag)
             data.npz, node-label.npz                                      binary (ogbn-papers100M)
             edge_index_dict.npz, num_nodes_dict.npz, node_feat_dict.npz   binary, several types
    split/   one folder per way to split; see ogb_split.py

Columns get the names OGB's PyG datasets give them: x, edge_attr, y, and node_year, edge_reltype, ... as they
are. Text is int64 if all of it is, else float32; an empty field is NaN. Arrays keep their dtype and shape.
"""

from __future__ import annotations

import glob
import os
from typing import Any

from gz import manifest
from gz._engine import InputError
from gz._ingest.layout.common import (
    array,
    dataset_folder,
    edge_index,
    edge_options,
    homogeneous,
    optional,
    required,
    with_weight,
)
from gz._ingest.layout.ogb_split import add_splits, known_dataset
from gz._ingest.layout.ogb_text import column, count, integer, several_graphs, table, types_marked
from gz._ingest.plan.spec import EdgeSpec, NodeSpec, Spec
from gz._ingest.read.files import Files
from gz._ingest.read.npy import NpyStream, members, open_array

_NAMES = {"node_feat": "x", "node-feat": "x", "edge_feat": "edge_attr", "edge-feat": "edge_attr"}
_COUNTS = {"edge_index", "num_nodes_list", "num_edges_list"}


def plan(folder: Any, options: dict[str, Any], split_type: str | None, memory: int, files: Files) -> Spec:
    root = dataset_folder(folder, ("raw",), "an OGB dataset folder")
    raw = os.path.join(root, "raw")
    shared = edge_options(options)
    if optional(raw, "data.npz"):
        spec = _binary(raw, shared, files)
    elif optional(raw, "edge_index_dict.npz"):
        spec = _binary_types(raw, shared, files)
    elif optional(raw, "edge.csv.gz"):
        spec = _text(raw, shared, files)
    elif optional(raw, "triplet-type-list.csv.gz"):
        spec = _text_types(raw, shared, files)
    else:
        raise InputError(
            f"{raw}: holds none of data.npz, edge_index_dict.npz, edge.csv.gz and triplet-type-list.csv.gz: "
            "is the download complete?"
        )
    with_weight(spec.edges, options.get("weight"))
    add_splits(spec, root, split_type, memory)
    known = known_dataset(root)
    if known is not None and known.adds_inverse and not shared.get("undirected"):
        spec.notes.append(
            f"note: OGB's own loader adds the reverse of every edge of {known.name}; --undirected "
            "(undirected=True) does that here"
        )
    spec.meta["source"] = {"layout": "ogb", "folder": os.path.basename(root)}
    return spec


# ---- binary


def _binary(raw: str, shared: dict[str, Any], files: Files) -> Spec:
    path = os.path.join(raw, "data.npz")
    names = members(path, files)
    for n in sorted(_COUNTS - set(names)):
        raise InputError(f"{path}: has no array {n!r}; it has {', '.join(names)}")
    nodes = _one_graph(path, files, "num_nodes_list")
    edges = _one_graph(path, files, "num_edges_list")
    edge_index(path, files, "edge_index", edges)
    node = NodeSpec(manifest.NODE_TYPE, nodes)
    edge = EdgeSpec(manifest.EDGE_TYPE, f"{path}:edge_index", num_edges=edges, **shared)
    for n in names:
        if n in _COUNTS:
            continue
        if not n.startswith(("node_", "edge_")):
            raise InputError(f"{path}: has an array {n!r}; OGB's start with node_ or edge_")
        of_nodes = n.startswith("node_")
        array(path, files, n, nodes if of_nodes else edges, "nodes" if of_nodes else "edges")
        (node if of_nodes else edge).features[_NAMES.get(n, n)] = {"file": path, "member": n}
    label = optional(raw, "node-label.npz")
    if label is not None:
        array(label, files, "node_label", nodes)
        node.features["y"] = {"file": label, "member": "node_label"}
    return homogeneous(node, edge, files)


def _binary_types(raw: str, shared: dict[str, Any], files: Files) -> Spec:
    counts = required(raw, "num_nodes_dict.npz")
    edge_counts = required(raw, "num_edges_dict.npz")
    index = required(raw, "edge_index_dict.npz")
    nodes = {t: NodeSpec(t, _one_graph(counts, files, t)) for t in sorted(members(counts, files))}
    edges = {}
    for key in sorted(members(edge_counts, files)):
        t = _triplet(key.split("___"), nodes, edge_counts)
        n = _one_graph(edge_counts, files, key)
        edge_index(index, files, key, n)
        edges[key] = EdgeSpec(t, f"{index}:{key}", num_edges=n, **shared)
    for path in sorted(glob.glob(os.path.join(glob.escape(raw), "*.npz"))):
        name = os.path.basename(path)[:-4].removesuffix("_dict")
        if path in (counts, edge_counts, index):
            continue
        if name == "node-label":
            name = "y"
        elif not name.startswith(("node_", "edge_")):
            raise InputError(f"{path}: OGB's files here start with node_ or edge_")
        of_edges = name.startswith("edge_")
        of: dict[str, Any] = edges if of_edges else nodes
        for key in members(path, files):
            if key not in of:
                raise InputError(f"{path}: has an array for {key!r}, which the graph has not")
            rows = of[key].num_edges if of_edges else of[key].num_nodes
            array(path, files, key, rows, "edges" if of_edges else "nodes")
            of[key].features[_NAMES.get(name, name)] = {"file": path, "member": key}
    return Spec(False, nodes, list(edges.values()), files=files)


def _one_graph(path: str, files: Files, member: str) -> int:
    """A count from num_nodes_list and its like, which have an entry per graph."""
    a = open_array(path, files, member)
    if len(a.shape) != 1 or a.dtype.kind not in "iu":
        raise InputError(f"{a.name}: has dtype {a.dtype} and shape {tuple(a.shape)}; expected one count")
    if a.rows != 1:
        raise several_graphs(a.name, a.rows)
    stream: NpyStream = a.stream()
    try:
        return int(stream.take(1)[0])
    finally:
        stream.close()


# ---- text


def _text(raw: str, shared: dict[str, Any], files: Files) -> Spec:
    nodes = count(required(raw, "num-node-list.csv.gz"), files)
    edges = count(required(raw, "num-edge-list.csv.gz"), files)
    node = NodeSpec(manifest.NODE_TYPE, nodes)
    edge = _text_edges(manifest.EDGE_TYPE, raw, edges, shared, files)
    _text_columns(node.features, raw, "node", files)
    species = optional(raw, "species.csv.gz")  # what ogbn-proteins calls node_species
    if species is not None:
        node.features.setdefault("node_species", column(species, files))
    label = optional(raw, "node-label.csv.gz")
    if label is not None:
        node.features["y"] = column(label, files)
    return homogeneous(node, edge, files)


def _text_types(raw: str, shared: dict[str, Any], files: Files) -> Spec:
    path = required(raw, "num-node-dict.csv.gz")
    header, *rows = table(path, files) or [[]]
    if len(rows) != 1:
        raise several_graphs(path, len(rows))
    counts = dict(zip(header, rows[0], strict=False))
    nodes = {t: NodeSpec(t, integer(counts[t], path)) for t in sorted(counts)}
    for t, node in nodes.items():
        _text_columns(node.features, os.path.join(raw, "node-feat", t), "node", files)
    edges = []
    path = required(raw, "triplet-type-list.csv.gz")
    for triplet in sorted(table(path, files)):
        t3 = _triplet(triplet, nodes, path)
        place = os.path.join(raw, "relations", "___".join(t3))
        required(place, "edge.csv.gz")
        n = count(required(place, "num-edge-list.csv.gz"), files)
        edges.append(_text_edges(t3, place, n, shared, files))
    has_label = optional(raw, "nodetype-has-label.csv.gz")
    if has_label is not None:
        for t in types_marked(has_label, nodes, files):
            nodes[t].features["y"] = column(required(raw, "node-label", t, "node-label.csv.gz"), files)
    return Spec(False, nodes, edges, files=files)


def _text_edges(t: manifest.EdgeType, place: str, n: int, shared: dict[str, Any], files: Files) -> EdgeSpec:
    edge = EdgeSpec(t, os.path.join(place, "edge.csv.gz"), num_edges=n, **shared)
    edge.delimiter, edge.header, edge.ends = ",", False, (0, 1)
    _text_columns(edge.features, place, "edge", files)
    return edge


def _text_columns(features: dict[str, Any], place: str, kind: str, files: Files) -> None:
    """node-feat or edge-feat, and every node_... or edge_... beside it."""
    for path in [
        *filter(None, [optional(place, f"{kind}-feat.csv.gz")]),
        *sorted(glob.glob(os.path.join(glob.escape(place), f"{kind}_*.csv.gz"))),
    ]:
        name = os.path.basename(path)[: -len(".csv.gz")]
        features[_NAMES.get(name, name)] = column(path, files)


def _triplet(parts: list[str], nodes: dict[str, NodeSpec], path: str) -> manifest.EdgeType:
    if len(parts) != 3:
        raise InputError(f"{path}: {parts} is not source type, relation, destination type")
    for end in (parts[0], parts[2]):
        if end not in nodes:
            raise InputError(
                f"{path}: names node type {end!r}, which has no count; there are {sorted(nodes)}"
            )
    return parts[0], parts[1], parts[2]
