"""store.json: what a store holds and in which files. Read, checked and written here only."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gz import _engine

FORMAT = "gz-store"
VERSION = 1
FILE_NAME = "store.json"
NODE_TYPE = "node"
EDGE_TYPE = ("node", "to", "node")

EdgeType = tuple[str, str, str]


@dataclass
class ColumnEntry:
    """Where a column lies: a .gd file of the store, or an adopted .npy (absolute or relative path)."""

    file: str | None = None
    npy: str | None = None
    names: list[str] | None = None  # of edge splits: the column holds positions in this list

    def path(self, root: str | os.PathLike[str]) -> Path:
        return Path(root) / (self.file or self.npy or "")


@dataclass
class NodeEntry:
    num_nodes: int
    columns: dict[str, ColumnEntry] = field(default_factory=dict)
    splits: dict[str, ColumnEntry] = field(default_factory=dict)
    id_map: dict[str, Any] | None = None


@dataclass
class EdgeEntry:
    type: EdgeType
    num_edges: int
    in_file: str | None = None
    out_file: str | None = None
    edge_ids: str = "position"  # or "original": what a sampled edge's id means
    columns: dict[str, ColumnEntry] = field(default_factory=dict)


@dataclass
class Manifest:
    homogeneous: bool
    nodes: dict[str, NodeEntry]
    edges: list[EdgeEntry]
    meta: dict[str, Any] = field(default_factory=dict)
    edge_splits: dict[str, dict[str, ColumnEntry]] = field(default_factory=dict)

    def edge(self, edge_type: EdgeType) -> EdgeEntry:
        for e in self.edges:
            if e.type == tuple(edge_type):
                return e
        known = ", ".join(str(e.type) for e in self.edges) or "none"
        raise KeyError(f"no edge type {edge_type!r}; the store has {known}")


def read(root: str | os.PathLike[str]) -> Manifest:
    """Reads and checks ROOT/store.json. Raises gz.FormatError naming the file and the rule that failed."""
    path = Path(root) / FILE_NAME
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as e:
        raise _engine.FormatError(f"{path}: is not valid JSON: {e}") from None
    return _Checker(path).manifest(data)


def write(manifest: Manifest, root: str | os.PathLike[str]) -> None:
    """Writes ROOT/store.json, synced, in one step: a reader sees the old one or the new one."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "homogeneous": manifest.homogeneous,
        "nodes": {t: _node_json(n) for t, n in manifest.nodes.items()},
        "edges": [
            {
                "type": list(e.type),
                "num_edges": e.num_edges,
                "in": e.in_file,
                "out": e.out_file,
                "edge_ids": e.edge_ids,
                "columns": _columns_json(e.columns),
            }
            for e in manifest.edges
        ],
        "meta": manifest.meta,
    }
    if manifest.edge_splits:
        data["edge_splits"] = {s: _columns_json(c) for s, c in manifest.edge_splits.items()}
    new = Path(root) / (FILE_NAME + ".new")
    with open(new, "w", encoding="utf-8") as f:
        json.dump(data, f, indent=1)
        f.write("\n")
        f.flush()
        os.fsync(f.fileno())
    os.replace(new, Path(root) / FILE_NAME)


def _columns_json(columns: dict[str, ColumnEntry]) -> dict[str, dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for name, c in columns.items():
        out[name] = {"npy": c.npy} if c.npy else {"file": c.file or ""}
        if c.names is not None:
            out[name]["names"] = c.names
    return out


def _node_json(n: NodeEntry) -> dict[str, Any]:
    out: dict[str, Any] = {
        "num_nodes": n.num_nodes,
        "columns": _columns_json(n.columns),
        "splits": _columns_json(n.splits),
    }
    if n.id_map is not None:
        out["id_map"] = n.id_map
    return out


class _Checker:
    def __init__(self, path: Path):
        self.path = path

    def fail(self, rule: str) -> Any:
        raise _engine.FormatError(f"{self.path}: {rule}")

    def manifest(self, d: Any) -> Manifest:
        if not isinstance(d, dict) or d.get("format") != FORMAT:
            self.fail(f'is not a gz store: "format" is not "{FORMAT}"')
        if d.get("version") != VERSION:
            self.fail(
                f"store version {d.get('version')!r}; this gz reads {VERSION}: ingest again or update gz"
            )
        nodes = d.get("nodes")
        edges = d.get("edges")
        if not isinstance(nodes, dict) or not isinstance(edges, list):
            self.fail('"nodes" must be an object and "edges" a list')
        node_entries = {str(t): self.node(t, n) for t, n in nodes.items()}
        edge_entries = [self.edge(e, node_entries) for e in edges]
        if len({e.type for e in edge_entries}) != len(edge_entries):
            self.fail("an edge type occurs twice")
        homogeneous = d.get("homogeneous")
        if not isinstance(homogeneous, bool):
            self.fail('"homogeneous" is not true or false')
        if homogeneous and (len(node_entries) != 1 or len(edge_entries) > 1):
            self.fail('"homogeneous" is true but there is more than one type')
        meta = d.get("meta", {})
        if not isinstance(meta, dict):
            self.fail('"meta" is not an object')
        splits = d.get("edge_splits", {})
        if not isinstance(splits, dict):
            self.fail('"edge_splits" is not an object')
        edge_splits = {str(s): self.columns(c, f"edge split {s!r}") for s, c in splits.items()}
        return Manifest(homogeneous, node_entries, edge_entries, meta, edge_splits)

    def node(self, name: str, d: Any) -> NodeEntry:
        where = f"node type {name!r}"
        if not isinstance(d, dict):
            self.fail(f"{where} is not an object")
        id_map = d.get("id_map")
        if id_map is not None and not isinstance(id_map, dict):
            self.fail(f"{where}: id_map is not an object")
        return NodeEntry(
            self.count(d.get("num_nodes"), f"{where}: num_nodes"),
            self.columns(d.get("columns", {}), where),
            self.columns(d.get("splits", {}), where),
            id_map,
        )

    def edge(self, d: Any, nodes: dict[str, NodeEntry]) -> EdgeEntry:
        t: Any = d.get("type") if isinstance(d, dict) else None
        if not (isinstance(t, list) and len(t) == 3 and all(isinstance(s, str) for s in t)):
            self.fail(f"an edge type must be a list of three names, not {t!r}")
        where = f"edge type {tuple(t)!r}"
        for end in (t[0], t[2]):
            if end not in nodes:
                self.fail(f"{where} names node type {end!r}, which is not there")
        if d.get("edge_ids") not in ("position", "original"):
            self.fail(f'{where}: edge_ids is neither "position" nor "original"')
        for way in ("in", "out"):
            if d.get(way) is not None:
                self.inside(d[way], f"{where}: {way}")
        if d.get("in") is None and d.get("out") is None:
            self.fail(f"{where} has no topology")
        return EdgeEntry(
            (t[0], t[1], t[2]),
            self.count(d.get("num_edges"), f"{where}: num_edges"),
            d.get("in"),
            d.get("out"),
            d["edge_ids"],
            self.columns(d.get("columns", {}), where),
        )

    def columns(self, d: Any, where: str) -> dict[str, ColumnEntry]:
        if not isinstance(d, dict):
            self.fail(f"{where}: columns are not an object")
        out = {}
        for name, c in d.items():
            if not isinstance(c, dict) or len({"file", "npy"} & c.keys()) != 1:
                self.fail(f'{where}: column {name!r} must have either "file" or "npy"')
            if "file" in c:
                self.inside(c["file"], f"{where}: column {name!r}")
            elif not isinstance(c["npy"], str) or not c["npy"]:
                self.fail(f"{where}: column {name!r}: npy is not a path")
            names = c.get("names")
            if names is not None and not (isinstance(names, list) and all(isinstance(n, str) for n in names)):
                self.fail(f"{where}: column {name!r}: names is not a list of names")
            out[str(name)] = ColumnEntry(c.get("file"), c.get("npy"), names)
        return out

    def count(self, v: Any, what: str) -> int:
        if not isinstance(v, int) or isinstance(v, bool) or not 0 <= v < 1 << 62:
            self.fail(f"{what} is {v!r}, not a count")
        return int(v)

    def inside(self, v: Any, what: str) -> None:
        """A path of the store itself may not lead out of it."""
        if not isinstance(v, str) or not v or os.path.isabs(v) or ".." in Path(v).parts:
            self.fail(f"{what} is {v!r}, not a path inside the store")
