"""What to ingest, in one shape: from the arguments of gz.ingest, a dict, or a TOML file."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gz import manifest
from gz._engine import InputError

from .columns import split_table
from .split_files import SplitFiles

_NODE_KEYS = {"num_nodes", "features", "splits", "ids"}
_EDGE_KEYS = {
    "type",
    "file",
    "edges",
    "columns",
    "edge_columns",
    "features",
    "weight",
    "undirected",
    "self_loops",
    "coalesce",
    "neighbor_order",
    "keep_edge_ids",
    "directions",
    "delimiter",
    "header",
    "on_bad_line",
}
_TOP_KEYS = {"nodes", "edges", "edge_splits", "ids", "meta", "homogeneous"} | (
    _EDGE_KEYS - {"type", "file", "edges", "features"}
)


@dataclass
class NodeSpec:
    name: str
    num_nodes: int | None = None
    features: dict[str, Any] = field(default_factory=dict)
    splits: dict[str, Any] = field(default_factory=dict)
    ids: Any = None  # the original ids, in row order


@dataclass
class EdgeSpec:
    type: manifest.EdgeType
    edges: Any
    columns: Any = None
    edge_columns: Any = None
    features: dict[str, Any] = field(default_factory=dict)
    weight: str | None = None
    undirected: bool = False
    self_loops: str = "keep"
    coalesce: bool = False
    neighbor_order: str = "id"
    keep_edge_ids: bool | None = None
    directions: str = "in"
    delimiter: str | None = None
    header: bool | None = None
    on_bad_line: str = "error"
    num_edges: int | None = None  # what the dataset says there are; another number is an error

    def check(self) -> None:
        for name, allowed in (
            ("self_loops", ("keep", "remove", "add")),
            ("neighbor_order", ("id", "input")),
            ("directions", ("in", "out", "both")),
            ("on_bad_line", ("error", "skip")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name}={getattr(self, name)!r}: choose one of {', '.join(map(repr, allowed))}"
                )
        if self.type[0] != self.type[2] and (self.undirected or self.self_loops == "add"):
            raise ValueError(
                f"edge type {self.type}: undirected and self_loops='add' need the same node type at both ends"
            )
        if self.columns is not None and (isinstance(self.columns, str) or len(self.columns) != 2):
            raise ValueError(
                f"columns={self.columns!r}: give the two columns that hold source and destination"
            )


@dataclass
class Spec:
    homogeneous: bool
    nodes: dict[str, NodeSpec]
    edges: list[EdgeSpec]
    ids: str = "dense"
    base: str = ""
    meta: dict[str, Any] = field(default_factory=dict)
    # Of link prediction: {split: a function that gives {name: array or list of names}}, called when written.
    edge_splits: dict[str, Callable[[], dict[str, Any]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # for the report

    def check(self) -> None:
        if self.ids not in ("dense", "map"):
            raise ValueError(
                f"ids={self.ids!r}: choose 'dense' (ids are 0 to N-1) or 'map' (any integers or text)"
            )
        for e in self.edges:
            e.check()
        types = [e.type for e in self.edges]
        for t in types:
            if types.count(t) > 1:
                raise ValueError(f"edge type {t} is given twice; give its files as a list instead")


def simple(
    edges: Any,
    features: Any,
    num_nodes: int | None,
    splits: Any,
    nodes: Any,
    ids: str,
    options: dict[str, Any],
) -> Spec:
    """The homogeneous spec of gz.ingest's plain arguments."""
    if num_nodes is not None and (isinstance(num_nodes, bool) or int(num_nodes) < 0):
        raise ValueError(f"num_nodes={num_nodes!r} is not a count")
    node = NodeSpec(
        manifest.NODE_TYPE,
        None if num_nodes is None else int(num_nodes),
        split_table(features, ""),
        dict(splits or {}),
        nodes,
    )
    if node.num_nodes is None and not node.features and ids == "dense":
        node.num_nodes = _graphzero_nodes(edges)
    features_of_edges = options.pop("edge_features") or {}
    if not isinstance(features_of_edges, dict):
        features_of_edges = {"edge_attr": features_of_edges}
    if edges is None:
        import numpy as np

        edges = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    return Spec(
        True,
        {node.name: node},
        [EdgeSpec(manifest.EDGE_TYPE, edges, features=features_of_edges, **options)],
        ids,
    )


def _graphzero_nodes(edges: Any) -> int | None:
    """The number of nodes that a GraphZero file states; other edges do not know it."""
    if not isinstance(edges, (str, os.PathLike)) or not os.fspath(edges).endswith(".gl"):
        return None
    from .graphzero import GraphZeroEdges

    return GraphZeroEdges(os.path.expanduser(os.fspath(edges))).num_nodes


def load(spec: Any, defaults: dict[str, Any], ids: str) -> Spec:
    """A spec from a TOML file or from the same structure as a dict."""
    base = ""
    if not isinstance(spec, dict):
        path = os.fspath(spec)
        base = os.path.dirname(os.path.abspath(path))
        with open(path, "rb") as f:
            try:
                spec = tomllib.load(f)
            except tomllib.TOMLDecodeError as e:
                raise InputError(f"{path}: is not valid TOML: {e}") from None
    _known(spec, _TOP_KEYS, "the spec")
    ids = spec.get("ids", ids)
    shared = {k: v for k, v in defaults.items() if k not in ("edge_features", "columns", "edge_columns")}
    shared |= {k: spec[k] for k in _EDGE_KEYS if k in spec and k not in ("edges",)}
    nodes: dict[str, NodeSpec] = {}
    for name, n in dict(spec.get("nodes", {})).items():
        n = dict(n or {})
        _known(n, _NODE_KEYS, f"node type {name!r}")
        nodes[name] = NodeSpec(
            name,
            n.get("num_nodes"),
            split_table(n.get("features"), base),
            dict(n.get("splits") or {}),
            n.get("ids"),
        )
    edges = []
    given = spec.get("edges", [])
    if isinstance(given, dict):  # {(src, rel, dst): {...}} as people write it in Python
        given = [{"type": t, **(e if isinstance(e, dict) else {"edges": e})} for t, e in given.items()]
    for item in given:
        item = dict(item)
        _known(item, _EDGE_KEYS, f"edge type {item.get('type')!r}")
        t = item.pop("type", None)
        if not (isinstance(t, (list, tuple)) and len(t) == 3 and all(isinstance(s, str) and s for s in t)):
            raise ValueError(f"an edge type is [source type, relation, destination type], not {t!r}")
        source = item.pop("file", None)
        source = item.pop("edges", source) if source is None else source
        if source is None:
            raise ValueError(f'edge type {tuple(t)}: needs "file" or "edges"')
        features = item.pop("features", None) or {}
        if not isinstance(features, dict):
            features = {"edge_attr": features}
        for end in (t[0], t[2]):
            nodes.setdefault(end, NodeSpec(end))
        edges.append(EdgeSpec((t[0], t[1], t[2]), source, features=features, **(shared | item)))
    homogeneous = bool(spec.get("homogeneous", False))
    if homogeneous and (
        list(nodes) != [manifest.NODE_TYPE] or [e.type for e in edges] != [manifest.EDGE_TYPE]
    ):
        raise ValueError(
            f"homogeneous: there must be one node type, {manifest.NODE_TYPE!r}, and one edge type, "
            f"{list(manifest.EDGE_TYPE)}"
        )
    splits = {name: SplitFiles(name, dict(s), base) for name, s in dict(spec.get("edge_splits", {})).items()}
    if splits and ids == "map":
        raise ValueError("edge_splits hold dense ids (0 to N-1), so they do not go with ids='map'")
    return Spec(homogeneous, nodes, edges, ids, base, dict(spec.get("meta", {})), dict(splits))


def _known(d: dict[str, Any], known: set[str], what: str) -> None:
    unknown = sorted(set(d) - known)
    if unknown:
        raise ValueError(
            f"{what}: unknown {', '.join(map(repr, unknown))}; known are {', '.join(sorted(known))}"
        )


class FileNames:
    """Safe, unique file names for the names users give."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def get(self, directory: str, name: str, suffix: str = "") -> str:
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:80] or "_"
        path = f"{directory}/{safe}{suffix}" if directory else safe + suffix
        n = 2
        while path.lower() in self._taken:
            path = f"{directory}/{safe}~{n}{suffix}"
            n += 1
        self._taken.add(path.lower())
        return path
