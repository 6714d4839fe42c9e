"""What to ingest, in one shape: from the arguments of gz.ingest, a dict, or a TOML file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from gz import manifest
from gz._base.deprecated import deprecated, out_was_both
from gz._base.files import FileNames
from gz._engine import InputError
from gz._ingest.plan.spec_types import EDGE, NODE, SPEC, check_types
from gz._ingest.plan.splits import SplitFiles
from gz._ingest.read.arrow import is_table
from gz._ingest.read.ends import named_ends
from gz._ingest.read.files import Files
from gz._ingest.read.paths import is_path, located

IDS = ("dense", "map", "int", "text")
_TABLE_KEYS = {"file", "id", "columns", "drop", "nulls", "categories", "units", "delimiter", "header"}
_NODE_KEYS = {"num_nodes", "features", "splits", "ids", "original_ids", *_TABLE_KEYS}


@dataclass
class NodeSpec:
    name: str
    num_nodes: int | None = None
    features: Any = field(default_factory=dict)  # by name; or one table, each of whose columns is one
    splits: dict[str, Any] = field(default_factory=dict)
    ids: Any = None  # the original ids, in row order
    original_ids: Any = None  # the same where edges go by dense ids: they are only kept
    # Or a table that has them in a column, and whose other columns are columns of the nodes.
    file: Any = None
    id: Any = None
    columns: Any = None  # those to keep: names, or {name: dtype}
    drop: Any = ()
    nulls: dict[str, Any] = field(default_factory=dict)
    categories: dict[str, list[str]] = field(default_factory=dict)  # what the codes of a column stand for
    units: dict[str, str] = field(default_factory=dict)  # what the integers of a column count
    delimiter: str | None = None
    header: bool | None = None
    shared: bool = False  # `columns` are those of several tables: not every one lies in this


@dataclass
class EdgeSpec:
    type: manifest.EdgeType
    edges: Any
    ends: Any = None  # the two columns that are the ends, where their names do not tell
    columns: Any = None  # those to keep besides the ends: names, or {name: dtype}
    features: dict[str, Any] = field(default_factory=dict)
    weight: str | None = None
    undirected: bool = False
    reverse: bool | str = False  # a type of the same edges turned round, and its name if not rev_...
    self_loops: str = "keep"
    coalesce: bool = False
    neighbor_order: str = "id"
    keep_edge_ids: bool | None = None
    directions: str = "in"  # topologies to store: by destination; by source ("out"); "both"
    delimiter: str | None = None
    header: bool | None = None
    on_bad_line: str = "error"
    drop: Any = ()
    nulls: dict[str, Any] = field(default_factory=dict)
    categories: dict[str, list[str]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    shared: bool = False
    num_edges: int | None = None  # what the dataset says there are; another number is an error
    turned: bool = False  # the reverse of another type: what the input has as sources are destinations

    def __post_init__(self) -> None:
        given = self.columns
        if self.ends is not None or isinstance(given, dict) or not given or isinstance(given, str):
            return
        places = all(isinstance(c, int) for c in given)
        if len(given) == 2 and (places or named_ends([str(c) for c in given]) is not None):
            self.columns_are_ends()

    def columns_are_ends(self) -> bool:
        """`columns` named the two ends before there was `ends`. It still does where it can mean nothing else:
        it names columns called src and dst, or positions, or the ends are not known otherwise."""
        given = self.columns
        if self.ends is not None or isinstance(given, (dict, str)) or given is None or len(given) != 2:
            return False
        deprecated(f"columns={list(given)!r}, for the two ends of an edge,", f"ends={list(given)!r} (--ends)")
        self.ends, self.columns = list(given), None
        return True

    def check(self) -> None:
        if isinstance(self.columns, str):
            raise ValueError(f"columns={self.columns!r}: give a list of names, or {{name: dtype}}")
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
        if self.directions == "out":
            out_was_both()
        if self.type[0] != self.type[2] and self.self_loops == "add":
            raise ValueError(f"edge type {self.type}: self_loops='add' needs the same node type at both ends")
        if self.ends is not None and (isinstance(self.ends, str) or len(self.ends) != 2):
            raise ValueError(f"ends={self.ends!r}: give the two columns that hold source and destination")
        if self.ends is not None and self.ends[0] == self.ends[1]:
            raise ValueError(f"ends={self.ends!r}: source and destination are the same column")


_NOT_KEYS = {"num_edges", "shared", "turned"}
_EDGE_KEYS = {"file", "edge_columns", *(f.name for f in fields(EdgeSpec))} - _NOT_KEYS
_TOP_KEYS = {"nodes", "edge_splits", "ids", "meta", "homogeneous"} | _EDGE_KEYS - {"type", "file", "features"}


@dataclass
class Spec:
    homogeneous: bool
    nodes: dict[str, NodeSpec]
    edges: list[EdgeSpec]
    ids: str = "dense"
    files: Files = field(default_factory=Files)  # what it is read from
    meta: dict[str, Any] = field(default_factory=dict)
    # Of link prediction: {split: a function that gives {name: array or list of names}}, called when written.
    edge_splits: dict[str, Callable[[], dict[str, Any]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # for the report
    dtypes: dict[str, str] = field(default_factory=dict)  # what to store columns as: NAME, or TYPE/NAME
    # Called last, with the store's folder, those of node types in it, names for files, and what store.json
    # will say: adds to both.
    finish: Callable[[Path, dict[str, str], FileNames, manifest.Manifest], None] | None = None

    def dtype_of(self, column: str, node_type: str) -> str | None:
        return self.dtypes.get(f"{node_type}/{column}", self.dtypes.get(column))

    @property
    def mapped(self) -> bool:
        return self.ids != "dense"

    @property
    def closed(self) -> bool:
        """Whether tables or lists of nodes name all ids: then each edge type is on its own."""
        return self.mapped and all(n.ids is not None or n.file is not None for n in self.nodes.values())

    def settle(self) -> None:
        """What options mean between two node types: no edge is a self loop, and `undirected` asks for a
        `reverse`, a type of the same edges turned round. Those come last, as from PyG's ToUndirected."""
        given = {e.type for e in self.edges}
        for e in list(self.edges):
            source, relation, destination = e.type
            if source != destination and e.self_loops == "remove":
                e.self_loops = "keep"
            if not e.reverse and not (e.undirected and source != destination):
                continue
            if self.homogeneous:
                raise ValueError("homogeneous: there is one edge type; undirected adds the reverses to it")
            name = e.reverse if isinstance(e.reverse, str) else f"rev_{relation}"
            e.undirected, e.reverse = e.undirected and source == destination, False
            reverse = replace(e, type=(destination, name, source), turned=not e.turned)
            if reverse.type in given:
                raise ValueError(
                    f"edge type {reverse.type}: is both given and the reverse of {e.type}; leave it out, or "
                    f'call the reverse something else: reverse = "..."'
                )
            for what in (e.edges, *(e.features.values() if isinstance(e.features, dict) else ())):
                if isinstance(what, Iterator):
                    raise ValueError(
                        f"edge type {e.type}: for its reverse, {name!r}, the edges are read twice, and an "
                        "iterator can be read once; give arrays or files"
                    )
            self.edges.append(reverse)

    def check(self) -> None:
        if self.ids not in IDS:
            raise ValueError(
                f"ids={self.ids!r}: choose 'dense' (ids are 0 to N-1), 'int' (any integers), 'text', or "
                "'map' (integers or text, as the input has them)"
            )
        for n in self.nodes.values():
            if self.mapped and n.original_ids is not None:
                raise ValueError(
                    f"node type {n.name!r}: original_ids are kept where edges hold dense ids; with "
                    f"ids={self.ids!r} give them as ids"
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
    ids: str | None,
    options: dict[str, Any],
    files: Files,
) -> Spec:
    """The homogeneous spec of gz.ingest's plain arguments."""
    integer = isinstance(num_nodes, (int, np.integer)) and not isinstance(num_nodes, bool)
    if num_nodes is not None and not (integer and num_nodes >= 0):
        raise ValueError(f"num_nodes={num_nodes!r} is not a count: give an integer, 0 or more")
    count = None if num_nodes is None else int(num_nodes)
    node = NodeSpec(manifest.NODE_TYPE, count, {} if features is None else features, dict(splits or {}))
    if _is_node_table(nodes):
        given = dict(nodes) if isinstance(nodes, dict) else {"file": nodes}
        _known(given, _TABLE_KEYS, "nodes")
        both = {k: options[k] for k in ("drop", "nulls", "columns")}
        if options["columns"] is not None and "columns" not in given:
            node.shared = options["shared"] = True
        for k, v in (both | given).items():
            setattr(node, k, v)
    else:
        node.ids = nodes
    if is_path(node.file) and node.id is None:
        node.file, node.id = split_column(node.file, files)
    if edges is None:
        edges = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    of_edges = _edge_features(options.pop("edge_features"))
    edge = EdgeSpec(manifest.EDGE_TYPE, edges, features=of_edges, **options)
    if edge.ends is not None and node.shared and edge.columns is None:
        node.columns, node.shared = None, False  # they were the ends
    return Spec(True, {node.name: node}, [edge], _ids(ids, [node]), files)


def _ids(given: Any, nodes: Iterable[NodeSpec]) -> str:
    """Where nobody says it: ids are mapped when there are tables that name the nodes."""
    if given is not None:
        return str(given)
    return "map" if any(n.ids is not None or n.file is not None for n in nodes) else "dense"


def _is_node_table(nodes: Any) -> bool:
    if isinstance(nodes, dict):
        return "file" in nodes
    array = is_path(nodes) and (str(nodes).endswith((".npy", ".npz")) or ".npz:" in str(nodes))
    return is_table(nodes) or (is_path(nodes) and not array)


def split_column(path: Any, files: Files) -> tuple[Any, str | None]:
    """users.csv:id as the file and the column; a path that exists as it stands has no column."""
    text = os.fspath(path)
    plain, colon, column = text.rpartition(":")
    if not colon or not plain or os.sep in column or os.path.exists(located(text, files.base)):
        return path, None
    return plain, column


def _edge_features(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {} if given is None else {"edge_attr": given}


def load(spec: Any, defaults: dict[str, Any], ids: str | None, files: Files) -> Spec:
    """A spec from a TOML file or from the same structure as a dict."""
    where = "spec"
    if not isinstance(spec, dict):
        path = where = os.fspath(spec)
        files.base = os.path.dirname(os.path.abspath(path))
        with open(path, "rb") as f:
            try:
                spec = tomllib.load(f)
            except tomllib.TOMLDecodeError as e:
                raise InputError(f"{path}: is not valid TOML: {e}") from None
    toml = where != "spec"
    _known(spec, _TOP_KEYS, "the spec")
    check_types(spec, SPEC, "the spec", where, toml)
    spec = _renamed(spec)
    ids = spec.get("ids", ids)
    own = ("edge_features", "ends", "columns", "drop", "nulls")  # each table's own
    for k in own:
        if defaults.get(k):
            raise ValueError(f"{k}= does not go with spec=: say it in the spec, for the table it concerns")
    shared = {k: v for k, v in defaults.items() if k not in own}
    shared |= {k: spec[k] for k in _EDGE_KEYS if k in spec and k not in ("edges",)}
    nodes: dict[str, NodeSpec] = {}
    for name, n in dict(spec.get("nodes", {})).items():
        check_types(n or {}, NODE, f"node type {name!r}", where, toml)
        n = dict(n or {})
        _known(n, _NODE_KEYS, f"node type {name!r}")
        nodes[name] = NodeSpec(
            name,
            n.get("num_nodes"),
            {} if n.get("features") is None else n["features"],
            dict(n.get("splits") or {}),
            n.get("ids"),
            n.get("original_ids"),
            **{k: n[k] for k in _TABLE_KEYS if k in n},
        )
    edges = []
    given = spec.get("edges", [])
    if isinstance(given, dict) and "type" in given:
        raise InputError(f"{where}: edges is a list of tables: write [[edges]], with two brackets")
    if isinstance(given, dict):  # {(src, rel, dst): {...}} as people write it in Python
        given = [{"type": t, **(e if isinstance(e, dict) else {"edges": e})} for t, e in given.items()]
    if not isinstance(given, (list, tuple)):
        raise InputError(f"{where}: edges is a list of tables ([[edges]]), not {given!r}")
    for item in given:
        what = f"edge type {item.get('type')!r}" if isinstance(item, dict) else "an edge type"
        check_types(item, EDGE, what, where, toml)
        item = _renamed(item)
        _known(item, _EDGE_KEYS, f"edge type {item.get('type')!r}")
        t = item.pop("type", None)
        if not (isinstance(t, (list, tuple)) and len(t) == 3 and all(isinstance(s, str) and s for s in t)):
            raise ValueError(f"an edge type is [source type, relation, destination type], not {t!r}")
        source = item.pop("file", None)
        source = item.pop("edges", source) if source is None else source
        if source is None:
            raise ValueError(f'edge type {tuple(t)}: needs "file" or "edges"')
        features = _edge_features(item.pop("features", None))
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
    given_splits = dict(spec.get("edge_splits", {})).items()
    splits = {name: SplitFiles(name, dict(s), files) for name, s in given_splits}
    ids = _ids(ids, nodes.values())
    if splits and ids != "dense":
        raise ValueError(f"edge_splits hold dense ids (0 to N-1), so they do not go with ids={ids!r}")
    return Spec(homogeneous, nodes, edges, ids, files, dict(spec.get("meta", {})), dict(splits))


def _renamed(d: dict[str, Any]) -> dict[str, Any]:
    """Edge types as they were described before: `columns` the ends, `edge_columns` the columns to keep."""
    out = dict(d)
    if "edge_columns" in out:
        deprecated("edge_columns", "columns, and what columns was, ends,")
        if "columns" in out:
            out.setdefault("ends", out["columns"])
        out["columns"] = out.pop("edge_columns")
    return out


def _known(d: dict[str, Any], known: set[str], what: str) -> None:
    unknown = sorted(set(d) - known)
    if unknown:
        raise ValueError(
            f"{what}: unknown {', '.join(map(repr, unknown))}; known are {', '.join(sorted(known))}"
        )
