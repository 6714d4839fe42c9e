"""docs/format.md once more, as slow and plain Python: what of a store breaks a rule of the format.

Shares no code with gz: this and file_rules.py read the bytes by struct and numpy, from the page alone. The
fuzzer holds `gz verify` and every reader to it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from file_rules import INTEGERS, LIMIT, Broken, Feature, File, Topology, need

ID_MAPS = {"int": ("keys", "hash", "dense"), "text": ("offsets", "bytes", "hash", "dense")}

# ---- store.json ----


def _is_text(v: Any) -> bool:
    """What JSON calls a string may hold halves of characters, which no file name and no terminal takes."""
    return isinstance(v, str) and not any(0xD800 <= ord(c) <= 0xDFFF for c in v)


def _inside(v: Any, suffix: str) -> None:
    need(_is_text(v) and v and "\0" not in v and not v.startswith("/"), "a path is relative")
    need(".." not in v.split("/") and v.endswith(suffix), "a path stays inside and has its suffix")


def _count(v: Any) -> None:
    need(type(v) is int and 0 <= v < LIMIT, "a count")


def _columns(d: Any) -> None:
    need(isinstance(d, dict), "columns are an object")
    for name, c in d.items():
        need(_is_text(name) and isinstance(c, dict) and len({"file", "npy"} & c.keys()) == 1, "file or npy")
        if "file" in c:
            _inside(c["file"], ".gd")
        else:
            need(_is_text(c["npy"]) and c["npy"].endswith(".npy") and "\0" not in c["npy"], "npy is a path")
        names, unit = c.get("names"), c.get("unit")
        need(names is None or (isinstance(names, list) and all(map(_is_text, names))), "names")
        need(unit is None or _is_text(unit), "unit")
        hot = c.get("hot")
        if hot is not None:
            need(isinstance(hot, dict) and isinstance(hot.get("rows"), list) and hot["rows"], "hot")
            need("file" in c, "hot rows of a file of the store")
            for file in (hot.get("ids"), *hot["rows"]):
                _inside(file, ".gd")


def check_manifest(d: Any) -> None:
    """Everything that can be said of store.json without looking at another file."""
    need(isinstance(d, dict) and d.get("format") == "gz-store", "format")
    need(type(d.get("version")) is int and d["version"] == 1, "version")
    nodes, edges = d.get("nodes"), d.get("edges")
    need(isinstance(nodes, dict) and isinstance(edges, list), "nodes and edges")
    need(isinstance(d.get("homogeneous"), bool), "homogeneous")
    for t, n in nodes.items():
        need(_is_text(t) and isinstance(n, dict), "a node type")
        _count(n.get("num_nodes"))
        _columns(n.get("columns", {}))
        _columns(n.get("splits", {}))
        ids = n.get("id_map")
        if ids is not None:
            need(
                isinstance(ids, dict) and isinstance(ids.get("kind"), str) and ids["kind"] in ID_MAPS,
                "id_map",
            )
            for part in ID_MAPS[ids["kind"]]:
                _inside(ids.get(part), ".gd")
    for e in edges:
        need(isinstance(e, dict), "an edge type is an object")
        t = e.get("type")
        need(isinstance(t, list) and len(t) == 3 and all(map(_is_text, t)), "three names")
        need(t[0] in nodes and t[2] in nodes, "node types of an edge type")
        _count(e.get("num_edges"))
        need(isinstance(e.get("edge_ids"), str) and e["edge_ids"] in ("position", "original"), "edge_ids")
        need(e.get("in") is not None or e.get("out") is not None, "a topology")
        for way in ("in", "out"):
            if e.get(way) is not None:
                _inside(e[way], ".gl")
        _columns(e.get("columns", {}))
        hot = e.get("hot")
        if hot is not None:
            need(isinstance(hot, dict) and e.get("in") is not None, "hot lists of an `in` topology")
            for part in HOT_LISTS:
                _inside(hot.get(part), ".gd")
    need(len({tuple(e["type"]) for e in edges}) == len(edges), "an edge type once")
    if d["homogeneous"]:
        need(
            list(nodes) == ["node"] and all(e["type"] == ["node", "to", "node"] for e in edges), "homogeneous"
        )
    need(isinstance(d.get("meta", {}), dict) and isinstance(d.get("plan", {}), dict), "meta and plan")
    splits = d.get("edge_splits", {})
    need(isinstance(splits, dict) and all(map(_is_text, splits)), "edge_splits")
    for columns in splits.values():
        _columns(columns)
    need(d.get("generation") is None or isinstance(d["generation"], str), "generation")
    files = d.get("files", {})
    need(isinstance(files, dict) and all(isinstance(v, str) for v in files.values()), "files")


def _npy(path: Path) -> np.ndarray:
    try:
        with open(path, "rb") as f:
            array = np.load(f, allow_pickle=False)
    except Exception as e:
        raise Broken(f"not an array: {e}") from None
    need(array.flags.c_contiguous and array.dtype.byteorder != ">" and array.dtype.name in NPY, "mappable")
    need(array.ndim >= 1, "rows")
    return array


HOT_LISTS = ("ids", "starts", "lists")
NPY = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"}


def mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Store:
    """`broken`: what is wrong, by file, or by ("ids", node type). `unsure`: files the page leaves open."""

    def __init__(self, root: Path):
        self.root, self.broken, self.unsure = root, {}, set()
        self.columns: dict[str, Feature] = {}
        self.topologies: dict[str, Topology] = {}
        try:
            path = root / "store.json"
            need(path.is_file() and not path.is_symlink(), "a file")
            self.json = json.loads((root / "store.json").read_bytes())
            check_manifest(self.json)
        except (Broken, ValueError, RecursionError, OSError) as e:
            self.broken["store.json"] = str(e)
            return
        self._check_files()

    def _file(self, name: str, kind: type[File]) -> Any:
        path = self.root / name
        need(
            path.is_file()
            and not any(p.is_symlink() for p in (path, *path.parents) if p.is_relative_to(self.root)),
            "a file",
        )
        return kind(path)

    def _meant(self, name: str, file: File) -> None:
        stated = self.json.get("files", {}).get(name)
        need(stated is None or stated == file.checksum, "the file that store.json means")

    def _column(self, c: dict[str, Any], check: Any) -> None:
        name = c.get("file") or c["npy"]
        try:
            if "file" in c:
                column = self._file(name, Feature)
                self._meant(name, column)
                column.check_data()
                values, integers = column.values(), column.dtype in INTEGERS
                self.columns[name] = column
            else:
                values = _npy(self.root / name)
                integers = values.dtype.kind in "iu"
            check(values, integers)
            if c.get("names") is not None:
                need(integers and values.ndim == 1, "codes are integers")
                need(((values >= 0) & (values < len(c["names"]))).all(), "a code has a name")
        except (Broken, OSError) as e:
            self.broken[os.path.relpath(self.root / name, self.root)] = str(e)

    def _hot(self, c: dict[str, Any]) -> None:
        """Rows of a column that lie in the store once more."""
        parts: list[Feature] = []
        for name in (c["file"], c["hot"]["ids"], *c["hot"]["rows"]):
            try:
                part = self._file(name, Feature)
                self._meant(name, part)
                part.check_data()
                parts.append(part)
            except (Broken, OSError) as e:
                self.broken[os.path.relpath(self.root / name, self.root)] = str(e)
        if len(parts) < 2 + len(c["hot"]["rows"]):
            return  # said above
        whole, ids, *tiers = parts
        try:
            need(ids.dtype in (5, 6) and len(ids.shape) == 1, "hot ids are a list of int32 or int64")
            rows = ids.values()
            need(((rows >= 0) & (rows < whole.shape[0])).all(), "hot rows are rows of the column")
            need(len(set(rows.tolist())) == len(rows), "a row once")
            need(sum(t.shape[0] for t in tiers) == len(rows), "as many hot rows as ids")
        except Broken as e:
            self.broken[c["hot"]["ids"]] = str(e)
            return
        at = 0
        for name, tier in zip(c["hot"]["rows"], tiers, strict=True):
            try:
                like = (tier.stored, tier.shown, tier.shape[1:]) == (
                    whole.stored,
                    whole.shown,
                    whole.shape[1:],
                )
                need(like, "rows like the column's")
                named = rows[at : at + tier.shape[0]]
                need(tier.raw().tobytes() == whole.raw()[named].tobytes(), "the rows of the column")
            except Broken as e:
                self.broken[name] = str(e)
            at += tier.shape[0]

    def _hot_lists(self, e: dict[str, Any]) -> None:
        """Lists of a topology that lie in the store once more."""
        parts: list[Feature] = []
        for part in HOT_LISTS:
            name = e["hot"][part]
            try:
                file = self._file(name, Feature)
                self._meant(name, file)
                file.check_data()
                parts.append(file)
            except (Broken, OSError) as error:
                self.broken[os.path.relpath(self.root / name, self.root)] = str(error)
        if len(parts) < len(HOT_LISTS) or e["in"] not in self.topologies:
            return  # said above
        ids, starts, lists = parts
        t, at = self.topologies[e["in"]], "ids"
        try:
            need(ids.dtype in (5, 6) and len(ids.shape) == 1, "nodes are a list of int32 or int64")
            nodes = ids.values()
            need(((nodes >= 0) & (nodes < t.num_nodes)).all(), "lists of nodes of the topology")
            need(len(set(nodes.tolist())) == len(nodes), "a list once")
            at = "starts"
            need(starts.dtype == 6 and tuple(starts.shape) == (len(nodes), 2), "two int64 a list")
            at = "lists"
            need(len(lists.shape) == 1 and lists.dtype == (6 if t.indices.itemsize == 8 else 5), "as wide")
            found, end = lists.values().view(f"<u{t.indices.itemsize}"), 0
            for node, (begin, copy) in zip(nodes.tolist(), starts.values().tolist(), strict=True):
                a, b = int(t.indptr[node]), int(t.indptr[node + 1])
                need(begin == a and copy == end, "a list begins where it is said to")
                need(found[end : end + b - a].tolist() == t.indices[a:b].tolist(), "the list of the topology")
                end += b - a
            need(end == len(found), "nothing but lists")
        except Broken as error:
            self.broken[e["hot"][at]] = str(error)

    def _check_files(self) -> None:
        holders = [*self.json["nodes"].values(), *self.json["edges"]]
        for c in (c for h in holders for c in h.get("columns", {}).values() if c.get("hot") is not None):
            self._hot(c)
        for t, n in self.json["nodes"].items():
            rows = n["num_nodes"]
            for c in n.get("columns", {}).values():
                self._column(c, lambda v, _, rows=rows: need(len(v) == rows, "a row for each node"))
            for c in n.get("splits", {}).values():
                self._column(c, lambda v, i, rows=rows: need(_ids(v, i, rows), "a split holds node ids"))
            if n.get("id_map"):
                self._id_map(t, n)
        for e in self.json["edges"]:
            self._edge(e)
            if e.get("hot") is not None:
                self._hot_lists(e)
            for c in e.get("columns", {}).values():
                rows = e["num_edges"]
                self._column(c, lambda v, _, rows=rows: need(len(v) == rows, "a row for each edge"))
        for columns in self.json.get("edge_splits", {}).values():
            for c in columns.values():
                self._column(c, lambda *_: None)

    def _edge(self, e: dict[str, Any]) -> None:
        nodes, found = self.json["nodes"], {}
        for way in ("in", "out"):
            name = e.get(way)
            if name is None:
                continue
            try:
                t = self._file(name, Topology)
                self._meant(name, t)
                need(t.out == (way == "out"), "direction")
                ends = (t.num_nodes, t.num_other) if t.out else (t.num_other, t.num_nodes)
                stated = tuple(nodes[e["type"][i]]["num_nodes"] for i in (0, 2))
                need((*ends, t.num_edges) == (*stated, e["num_edges"]), "numbers of nodes and edges")
                t.check_data()
                if way == "in" or e.get("in") is None:
                    need((t.positions is not None) == (e["edge_ids"] == "original"), "edge_ids")
                found[way] = self.topologies[name] = t
                if getattr(t, "unsure", False):
                    self.unsure.add(name)
            except (Broken, OSError) as error:
                self.broken[name] = str(error)
        if len(found) == 2:
            weighted = all(t.weights is not None for t in found.values())
            if _edges(found["in"], weighted) != _edges(found["out"], weighted):
                self.broken[e["out"]] = "both topologies hold the same edges"

    def _id_map(self, t: str, n: dict[str, Any]) -> None:
        entry, parts = n["id_map"], {}
        for part in ID_MAPS[entry["kind"]]:
            try:
                parts[part] = self._file(entry[part], Feature)
                parts[part].check_data()
            except (Broken, OSError) as e:
                self.broken[entry[part]] = str(e)
                parts.pop(part, None)
        try:
            if len(parts) < len(ID_MAPS[entry["kind"]]):
                return  # said above
            for part, file in parts.items():
                self._meant(entry[part], file)
            _check_id_map(entry["kind"], parts, n["num_nodes"])
        except Broken as e:
            self.broken["ids", t] = str(e)


def _ids(values: np.ndarray, integers: bool, limit: int) -> bool:
    return integers and values.ndim == 1 and bool(((values >= 0) & (values < limit)).all())


def _edges(t: Topology, weighted: bool) -> Counter | None:
    """(src, dst, row of the `in` topology, weight) of each edge; none of an `out` file without the rows."""
    if t.out and not t.in_rows:
        return None
    owner = np.repeat(np.arange(t.num_nodes), np.diff(t.indptr.astype(np.int64)))
    ends = (owner, t.indices) if t.out else (t.indices, owner)
    rows = t.edge_ids if t.out else np.arange(t.num_edges)
    weights = t.weights if weighted else np.zeros(t.num_edges)
    return Counter(zip(*(a.tolist() for a in (*ends, rows, weights)), strict=True))


def _check_id_map(kind: str, parts: dict[str, Feature], n: int) -> None:
    sizes = {"keys": n, "hash": n, "dense": n, "offsets": n + 1}
    for part, column in parts.items():
        need(column.dtype == (2 if part == "bytes" else 6) and len(column.shape) == 1, "dtype and rank")
        need(part == "bytes" or column.shape[0] == sizes[part], "rows")
    hashes, dense = parts["hash"].values().view("<u8"), parts["dense"].values()
    need((hashes[1:] >= hashes[:-1]).all(), "sorted by hash")
    need(sorted(dense.tolist()) == list(range(n)), "every node once")
    if kind == "int":
        keys = parts["keys"].values()
        need(len(set(keys.tolist())) == n, "a key once")
        expected = mix(keys.view("<u8"))
    else:
        offsets, text = parts["offsets"].values(), parts["bytes"].values().tobytes()
        need(offsets[0] == 0 and offsets[-1] == len(text), "offsets run over all texts")
        need((offsets[1:] >= offsets[:-1]).all(), "offsets ascend")
        texts = [text[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
        need(len(set(texts)) == n, "a key once")
        try:
            text.decode() and [x.decode() for x in texts]
        except UnicodeDecodeError:
            raise Broken("texts are UTF-8") from None
        expected = np.array([xxhash.xxh64_intdigest(x) for x in texts], np.uint64)
    need((expected[dense] == hashes).all(), "the hash of each node's key")
