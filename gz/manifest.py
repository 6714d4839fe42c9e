"""store.json: what a store holds and in which files. Read, checked and written here only."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gz import _engine
from gz._base.files import Folder

FORMAT = "gz-store"
VERSION = 1
FILE_NAME = "store.json"
NODE_TYPE = "node"
EDGE_TYPE = ("node", "to", "node")

EdgeType = tuple[str, str, str]

# The files of an id map, by kind.
ID_MAP_FILES = {"int": ("keys", "hash", "dense"), "text": ("offsets", "bytes", "hash", "dense")}
_CHECKSUM = slice(32, 40)  # of the header of a .gl or .gd file


@dataclass
class HotEntry:
    """Rows of a column that are read most, once more: which they are, and the files they lie in."""

    ids: str
    rows: list[str]


@dataclass
class HotListsEntry:
    """Lists of an `in` topology that are sampled most, once more: whose they are, where each begins in the
    topology and in the copy, and the copy."""

    ids: str
    starts: str
    lists: str


@dataclass
class ColumnEntry:
    """Where a column lies: a .gd file of the store, or an adopted .npy (absolute or relative path)."""

    file: str | None = None
    npy: str | None = None
    names: list[str] | None = None  # what its numbers stand for: they are positions in this list
    unit: str | None = None  # of dates and times: what its integers count, by Arrow's name of the type
    hot: HotEntry | None = None

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
    hot: HotListsEntry | None = None


@dataclass
class Manifest:
    homogeneous: bool
    nodes: dict[str, NodeEntry]
    edges: list[EdgeEntry]
    meta: dict[str, Any] = field(default_factory=dict)
    edge_splits: dict[str, dict[str, ColumnEntry]] = field(default_factory=dict)
    generation: str | None = None  # of the ingest that wrote the store; None: by a gz that had none
    files: dict[str, str] = field(default_factory=dict)  # checksum of each file's header, 16 hex digits
    plan: dict[str, Any] = field(default_factory=dict)  # how the ingest read its inputs

    def edge(self, edge_type: EdgeType) -> EdgeEntry:
        for e in self.edges:
            if e.type == tuple(edge_type):
                return e
        known = ", ".join(str(e.type) for e in self.edges) or "none"
        raise KeyError(f"no edge type {edge_type!r}; the store has {known}")

    def named_files(self) -> Iterator[str]:
        """The paths of the store's own files."""
        groups = [g for n in self.nodes.values() for g in (n.columns, n.splits)]
        groups += [*(e.columns for e in self.edges), *self.edge_splits.values()]
        entries = [c for columns in groups for c in columns.values()]
        yield from (c.file for c in entries if c.file)
        yield from (f for c in entries if c.hot for f in (c.hot.ids, *c.hot.rows))
        yield from (f for e in self.edges for f in (e.in_file, e.out_file) if f)
        yield from (f for e in self.edges if e.hot for f in (e.hot.ids, e.hot.starts, e.hot.lists))
        for n in self.nodes.values():
            if n.id_map is not None:
                yield from (n.id_map[part] for part in ID_MAP_FILES[n.id_map["kind"]])

    def column(self, name: str, t: str | EdgeType | None) -> ColumnEntry:
        """Of a node type or an edge type; without one, of the only type that has it."""
        groups: list[dict[str, ColumnEntry]] = [n.columns for k, n in self.nodes.items() if t in (None, k)]
        groups += [e.columns for e in self.edges if t is None or e.type == t]
        found = [g[name] for g in groups if name in g]
        if len(found) != 1:
            many = (
                "several types have one: say which" if found else f"there are {sorted(set().union(*groups))}"
            )
            raise KeyError(f"no column {name!r}{f' for {t!r}' if t else ''}; {many}")
        return found[0]


def only_type(path: str, types: list[str]) -> str:
    if len(types) != 1:
        raise ValueError(f"{path}: name one of the node types {types} or of the edge types")
    return types[0]


def read(folder: Folder | str | os.PathLike[str]) -> Manifest:
    """Reads and checks a folder's store.json. Raises gz.FormatError naming file and rule that failed."""
    if not isinstance(folder, Folder):
        folder = Folder(os.fspath(folder))
    path = Path(folder.path) / FILE_NAME
    try:
        data = json.loads(folder.read(FILE_NAME))
    except (ValueError, RecursionError) as e:
        why = "nested too deep" if isinstance(e, RecursionError) else str(e)
        raise _engine.FormatError(f"{path}: is not valid JSON: {why}") from None
    return _Checker(path).manifest(data)


def write(manifest: Manifest, root: str | os.PathLike[str]) -> None:
    """Writes ROOT/store.json, synced, in one step: a reader sees the old one or the new one.

    The files it names must be complete by now. One that was named before is taken to be what it was then.
    """
    manifest.generation = manifest.generation or secrets.token_hex(8)
    manifest.files = {
        f: manifest.files.get(f) or _checksum(Path(root) / f) for f in sorted(manifest.named_files())
    }
    data = {
        "format": FORMAT,
        "version": VERSION,
        "homogeneous": manifest.homogeneous,
        "nodes": {t: _node_json(n) for t, n in manifest.nodes.items()},
        "edges": [_edge_json(e) for e in manifest.edges],
        "meta": manifest.meta,
        "generation": manifest.generation,
        "files": manifest.files,
    }
    if manifest.plan:
        data["plan"] = manifest.plan
    if manifest.edge_splits:
        data["edge_splits"] = {s: _columns_json(c) for s, c in manifest.edge_splits.items()}
    new = Path(root) / (FILE_NAME + ".new")
    new.unlink(missing_ok=True)  # a killed writer's; and were it a link, another file would be written
    with open(new, "x", encoding="utf-8") as f:
        json.dump(data, f, indent=1)
        f.write("\n")
        f.flush()
        os.fsync(f.fileno())
    os.replace(new, Path(root) / FILE_NAME)


def _checksum(path: Path) -> str:
    with open(path, "rb") as f:
        return f"{int.from_bytes(f.read(_CHECKSUM.stop)[_CHECKSUM], 'little'):016x}"


def _columns_json(columns: dict[str, ColumnEntry]) -> dict[str, dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for name, c in columns.items():
        out[name] = {"npy": c.npy} if c.npy else {"file": c.file or ""}
        if c.names is not None:
            out[name]["names"] = c.names
        if c.unit is not None:
            out[name]["unit"] = c.unit
        if c.hot is not None:
            out[name]["hot"] = {"ids": c.hot.ids, "rows": c.hot.rows}
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


def _edge_json(e: EdgeEntry) -> dict[str, Any]:
    out: dict[str, Any] = {
        "type": list(e.type),
        "num_edges": e.num_edges,
        "in": e.in_file,
        "out": e.out_file,
        "edge_ids": e.edge_ids,
        "columns": _columns_json(e.columns),
    }
    if e.hot is not None:
        out["hot"] = {"ids": e.hot.ids, "starts": e.hot.starts, "lists": e.hot.lists}
    return out


class _Checker:
    def __init__(self, path: Path):
        self.path = path

    def fail(self, rule: str) -> Any:
        raise _engine.FormatError(f"{self.path}: {rule}")

    def manifest(self, d: Any) -> Manifest:
        if not isinstance(d, dict) or d.get("format") != FORMAT:
            self.fail(f'is not a gz store: "format" is not "{FORMAT}"')
        if type(d.get("version")) is not int or d["version"] != VERSION:
            self.fail(
                f"store version {d.get('version')!r}; this gz reads {VERSION}: ingest again or update gz"
            )
        nodes = d.get("nodes")
        edges = d.get("edges")
        if not isinstance(nodes, dict) or not isinstance(edges, list):
            self.fail('"nodes" must be an object and "edges" a list')
        node_entries = {self.text(t, "a node type"): self.node(t, n) for t, n in nodes.items()}
        edge_entries = [self.edge(e, node_entries) for e in edges]
        if len({e.type for e in edge_entries}) != len(edge_entries):
            self.fail("an edge type occurs twice")
        homogeneous = d.get("homogeneous")
        if not isinstance(homogeneous, bool):
            self.fail('"homogeneous" is not true or false')
        if homogeneous and (
            list(node_entries) != [NODE_TYPE] or any(e.type != EDGE_TYPE for e in edge_entries)
        ):
            self.fail(f'"homogeneous" is true, but {NODE_TYPE!r} and {EDGE_TYPE} are not the only types')
        meta = d.get("meta", {})
        if not isinstance(meta, dict):
            self.fail('"meta" is not an object')
        splits = d.get("edge_splits", {})
        if not isinstance(splits, dict):
            self.fail('"edge_splits" is not an object')
        edge_splits = {
            self.text(s, "an edge split"): self.columns(c, f"edge split {s!r}") for s, c in splits.items()
        }
        generation, files = d.get("generation"), d.get("files", {})
        if generation is not None and not isinstance(generation, str):
            self.fail('"generation" is not a text')
        if not isinstance(files, dict) or not all(isinstance(v, str) for v in files.values()):
            self.fail('"files" does not give a checksum for each file')
        plan = d.get("plan", {})
        if not isinstance(plan, dict):
            self.fail('"plan" is not an object')
        return Manifest(homogeneous, node_entries, edge_entries, meta, edge_splits, generation, files, plan)

    def node(self, name: str, d: Any) -> NodeEntry:
        where = f"node type {name!r}"
        if not isinstance(d, dict):
            self.fail(f"{where} is not an object")
        id_map = d.get("id_map")
        if id_map is not None:
            if not isinstance(id_map, dict) or id_map.get("kind") not in [*ID_MAP_FILES]:
                self.fail(f"{where}: id_map is not an object of kind 'int' or 'text'")
            for part in ID_MAP_FILES[id_map["kind"]]:
                self.inside(id_map.get(part), f"{where}: id_map: {part}", ".gd")
        return NodeEntry(
            self.count(d.get("num_nodes"), f"{where}: num_nodes"),
            self.columns(d.get("columns", {}), where),
            self.columns(d.get("splits", {}), where),
            id_map,
        )

    def edge(self, d: Any, nodes: dict[str, NodeEntry]) -> EdgeEntry:
        t: Any = d.get("type") if isinstance(d, dict) else None
        if not (isinstance(t, list) and len(t) == 3 and all(is_text(s) for s in t)):
            self.fail(f"an edge type must be a list of three names, not {t!r}")
        where = f"edge type {tuple(t)!r}"
        for end in (t[0], t[2]):
            if end not in nodes:
                self.fail(f"{where} names node type {end!r}, which is not there")
        if d.get("edge_ids") not in ("position", "original"):
            self.fail(f'{where}: edge_ids is neither "position" nor "original"')
        for way in ("in", "out"):
            if d.get(way) is not None:
                self.inside(d[way], f"{where}: {way}", ".gl")
        if d.get("in") is None and d.get("out") is None:
            self.fail(f"{where} has no topology")
        return EdgeEntry(
            (t[0], t[1], t[2]),
            self.count(d.get("num_edges"), f"{where}: num_edges"),
            d.get("in"),
            d.get("out"),
            d["edge_ids"],
            self.columns(d.get("columns", {}), where),
            self.hot_lists(d, f"{where}: hot"),
        )

    def hot_lists(self, edge: dict[str, Any], where: str) -> HotListsEntry | None:
        d = edge.get("hot")
        if d is None:
            return None
        if not isinstance(d, dict):
            self.fail(f'{where} is not an object with "ids", "starts" and "lists"')
        if edge.get("in") is None:
            self.fail(f"{where}: there is no `in` topology whose lists they could be")
        for part in ("ids", "starts", "lists"):
            self.inside(d.get(part), f"{where}: {part}", ".gd")
        return HotListsEntry(d["ids"], d["starts"], d["lists"])

    def columns(self, d: Any, where: str) -> dict[str, ColumnEntry]:
        if not isinstance(d, dict):
            self.fail(f"{where}: columns are not an object")
        out = {}
        for name, c in d.items():
            if not isinstance(c, dict) or len({"file", "npy"} & c.keys()) != 1:
                self.fail(f'{where}: column {name!r} must have either "file" or "npy"')
            npy = c.get("npy")
            if "file" in c:
                self.inside(c["file"], f"{where}: column {name!r}", ".gd")
            elif not is_text(npy) or "\0" in npy or not npy.endswith(".npy"):
                self.fail(f"{where}: column {name!r}: npy is {npy!r}, not the path of an .npy file")
            names = c.get("names")
            if names is not None and not (isinstance(names, list) and all(is_text(n) for n in names)):
                self.fail(f"{where}: column {name!r}: names is not a list of names")
            unit = c.get("unit")
            if unit is not None and not is_text(unit):
                self.fail(f"{where}: column {name!r}: unit is not a name")
            hot = self.hot(c, f"{where}: column {name!r}: hot")
            out[self.text(name, f"{where}: a column")] = ColumnEntry(c.get("file"), npy, names, unit, hot)
        return out

    def hot(self, column: dict[str, Any], where: str) -> HotEntry | None:
        d = column.get("hot")
        if d is None:
            return None
        if not isinstance(d, dict) or not isinstance(d.get("rows"), list) or not d["rows"]:
            self.fail(f'{where} is not an object with "ids" and a list of "rows"')
        if "file" not in column:
            self.fail(f"{where}: an adopted array, which its owner may change, cannot have a copy of rows")
        self.inside(d.get("ids"), f"{where}: ids", ".gd")
        for file in d["rows"]:
            self.inside(file, f"{where}: rows", ".gd")
        return HotEntry(d["ids"], d["rows"])

    def count(self, v: Any, what: str) -> int:
        if not isinstance(v, int) or isinstance(v, bool) or not 0 <= v < 1 << 62:
            self.fail(f"{what} is {v!r}, not a count")
        return int(v)

    def text(self, v: str, what: str) -> str:
        if not is_text(v):
            self.fail(f"{what} is called {v!r}, which is no text")
        return v

    def inside(self, v: Any, what: str, suffix: str) -> None:
        """A path of the store itself may not lead out of it."""
        if not is_text(v) or not v or "\0" in v or os.path.isabs(v) or ".." in Path(v).parts:
            self.fail(f"{what} is {v!r}, not a path inside the store")
        if not v.endswith(suffix):
            self.fail(f"{what} is {v!r}; such a file is called {suffix}")


def is_text(v: Any) -> bool:
    """JSON's strings may hold halves of characters, which no terminal and no file name takes."""
    return isinstance(v, str) and not any("\ud800" <= c <= "\udfff" for c in v)
