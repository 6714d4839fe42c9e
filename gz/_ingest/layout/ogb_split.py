"""The splits of an OGB dataset folder: of nodes, of nodes by type, or of edges.

split/WAY/split_dict.pt                     all of it; looked for first, as OGB does
split/WAY/{train,valid,test}.csv.gz         node ids
split/WAY/nodetype-has-split.csv.gz, split/WAY/TYPE/{train,valid,test}.csv.gz
split/WAY/{train,valid,test}.pt             edges: dicts of edge, edge_neg, source_node, head, ...
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gz._engine import InputError
from gz._ingest.layout.common import optional, required
from gz._ingest.layout.ogb_text import types_marked
from gz._ingest.plan.spec import Spec
from gz._ingest.plan.splits import check_split
from gz._ingest.read import pt
from gz._ingest.read.pickled import PickledArray

_PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Known:
    """What OGB keeps in its package, not in the folder."""

    name: str
    download: str
    split: str
    adds_inverse: bool


_DATASETS = [
    Known("ogbn-proteins", "proteins", "species", True),
    Known("ogbn-products", "products", "sales_ranking", True),
    Known("ogbn-arxiv", "arxiv", "time", False),
    Known("ogbn-mag", "mag", "time", False),
    Known("ogbn-papers100M", "papers100M-bin", "time", False),
    Known("ogbl-ppa", "ppassoc", "throughput", True),
    Known("ogbl-collab", "collab", "time", True),
    Known("ogbl-citation2", "citation-v2", "time", False),
    Known("ogbl-wikikg2", "wikikg-v2", "time", False),
    Known("ogbl-ddi", "ddi", "target", True),
    Known("ogbl-biokg", "biokg", "random", False),
    Known("ogbl-vessel", "vessel", "spatial", False),
]


def known_dataset(root: str) -> Known | None:
    """The dataset a folder is, by the name OGB gives the folder or its download."""
    name = os.path.basename(root).removesuffix("_pyg").removesuffix("_dgl")
    return next((k for k in _DATASETS if name in (k.download, k.name, k.name.replace("-", "_"))), None)


def add_splits(spec: Spec, root: str, split_type: str | None, memory: int) -> None:
    """Puts the splits of the folder into `spec`."""
    files, place = spec.files, _choose(root, split_type)
    if place is None:
        spec.notes.append(f"note: {root} has no folder split/, so the store has no splits")
        return
    spec.meta["split_type"] = os.path.basename(place)
    whole = optional(place, "split_dict.pt")
    if whole is not None:
        data = pt.load(files.get(whole), memory)
        if not isinstance(data, dict) or not data:
            raise InputError(f"{whole}: is not a dict of splits")
        for name, part in data.items():
            _add(spec, str(name), part, pt.FromPt(files.get(whole), (name,), memory))
    elif optional(place, "nodetype-has-split.csv.gz"):
        for t in types_marked(os.path.join(place, "nodetype-has-split.csv.gz"), spec.nodes, files):
            for name in _PARTS:
                file = required(place, t, f"{name}.csv.gz")
                spec.nodes[t].splits[name] = _ids(file)
    elif any(optional(place, f"{name}.pt") for name in _PARTS):
        for name in _PARTS:
            file = required(place, f"{name}.pt")
            lazy = pt.FromPt(files.get(file), (), memory)
            _add(spec, name, lazy(), lazy)
    else:
        node = _only_type(spec, place)
        for name in _PARTS:
            node.splits[name] = _ids(required(place, f"{name}.csv.gz"))
    _labelled(spec, root)
    for node in spec.nodes.values():
        for name, value in node.splits.items():
            check_split(name, value, node.num_nodes, files)


def _choose(root: str, split_type: str | None) -> str | None:
    folder = os.path.join(root, "split")
    if not os.path.isdir(folder):
        if split_type is not None:
            raise InputError(f"{root}: has no folder split/, so there is no split_type={split_type!r}")
        return None
    ways = sorted(d for d in os.listdir(folder) if os.path.isdir(os.path.join(folder, d)))
    if split_type is None:
        known = known_dataset(root)
        if known is not None and known.split in ways:
            split_type = known.split
        elif len(ways) == 1:
            split_type = ways[0]
        else:
            listed = ", ".join(ways) or "none"
            raise InputError(
                f"{folder}: holds {len(ways)} ways to split ({listed}); choose one: split_type=... "
                "(--split-type)"
            )
    if split_type not in ways:
        raise InputError(f"{folder}: has no way to split called {split_type!r}; there are {', '.join(ways)}")
    return os.path.join(folder, split_type)


def _ids(file: str) -> dict[str, Any]:
    return {"file": file, "dtype": "int64", "delimiter": ",", "header": False}


def _add(spec: Spec, name: str, part: Any, lazy: pt.FromPt) -> None:
    """`part` says what kind of split it is; what is kept is only where to read it."""
    file = lazy.file.path
    if isinstance(part, (np.ndarray, list, PickledArray)):
        _only_type(spec, file).splits[name] = lazy
    elif not isinstance(part, dict) or not part:
        raise InputError(
            f"{file}: split {name!r} is a {type(part).__name__}, neither ids nor a dict of arrays"
        )
    elif set(part) <= set(spec.nodes):
        for t in part:
            spec.nodes[t].splits[name] = replace(lazy, keys=(*lazy.keys, t))
    else:
        spec.edge_splits[name] = lazy


def _only_type(spec: Spec, where: str) -> Any:
    if len(spec.nodes) != 1:
        raise InputError(
            f"{where}: splits nodes, but does not say of which of the types {sorted(spec.nodes)}"
        )
    return next(iter(spec.nodes.values()))


def _labelled(spec: Spec, root: str) -> None:
    """Nodes that are split are split to be classified: their labels must be there."""
    for t, node in spec.nodes.items():
        if node.splits and "y" not in node.features:
            of = "" if spec.homogeneous else f" of {t!r}"
            raise InputError(
                f"{os.path.join(root, 'raw')}: there are splits of nodes but no labels{of}: node-label.npz "
                "or node-label.csv.gz is missing"
            )
