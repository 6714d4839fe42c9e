"""gz info and gz verify."""

from __future__ import annotations

import argparse
import os
from typing import Any

import gz
from gz import _engine
from gz._base.memory_plan import free_ram
from gz._base.sizes import amount
from gz.cli.draw import degree_histogram, degree_lines, size_lines
from gz.cli.output import Output, common_flags, message
from gz.store import Store
from gz.verify import verify

_READ_BY = {
    "ring": "io_uring, deep queues",
    "threads": "blocking reads in many threads",
    "map": "page faults",
}


def register(commands: Any) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    info = commands.add_parser(
        "info", help="what a store holds", epilog="example:\n  gz info papers", formatter_class=raw
    )
    info.add_argument("store", metavar="STORE", help="a store, or a single .gl or .gd file")
    common_flags(info)
    info.set_defaults(run=_info)

    check = commands.add_parser(
        "verify",
        help="check every checksum and every rule of the format",
        epilog="example:\n  gz verify papers && echo sound\n\n"
        "Reads every byte. Exits with 1 and names the rule that failed.",
        formatter_class=raw,
    )
    check.add_argument("store", metavar="STORE", help="a store, or a single .gl or .gd file")
    common_flags(check)
    check.set_defaults(run=_verify)


def _info(args: argparse.Namespace, out: Output) -> int:
    if os.path.isfile(args.store):
        told = _file(args.store)
        out.tell(told)
        is_graph = "degree" in told
        drawn = ["edges of a node, and how many nodes", *_drawn(told)] if is_graph else []
        text = _graph_text(told) if is_graph else _column_text(told)
        out.say("\n".join([told["path"], f"  {text}", *drawn]))
        return 0
    found = _store(gz.open(args.store))
    out.tell(found)
    out.say("\n".join(_store_lines(found)))
    return 0


# ---- what there is ----


def _file(path: str) -> dict[str, Any]:
    return _graph(gz.Graph(path)) if path.endswith(".gl") else _column(gz.FeatureStore(path))


def _graph(graph: gz.Graph) -> dict[str, Any]:
    average = graph.num_edges / graph.num_nodes if graph.num_nodes else 0
    return {
        "path": os.path.abspath(graph.path),
        "bytes": os.path.getsize(graph.path),
        "degree": {
            "average": average,
            "largest": graph._topology.max_degree(),
            "histogram": degree_histogram(graph),
        },
        "id_bits": graph.indices.dtype.itemsize * 8,
        "sorted": graph.sorted,
        "weighted": graph.has_weights,
    }


def _adopted(path: str) -> str:
    """What lies elsewhere is said to: the store's own files are called .gd."""
    return f", adopted: {path}" if path.endswith(".npy") else ""


def _column(column: gz.FeatureStore) -> dict[str, Any]:
    return {
        "path": os.path.abspath(column.path),
        "dtype": column.dtype,
        "stored": column.stored,
        "shape": list(column.shape),
        "bytes": column.nbytes,
    }


def _typed_column(store: Store, column: gz.FeatureStore, name: str, t: Any) -> dict[str, Any]:
    names, unit = store.categories(name, t), store.unit(name, t)
    return _column(column) | {"categories": None if names is None else len(names), "unit": unit}


def _store(store: Store) -> dict[str, Any]:
    io, files = _engine.read_path(), _files_below(store.path)
    return {
        "path": store.path,
        "homogeneous": store.is_homogeneous,
        "bytes": sum(files.values()),
        "files": files,
        "nodes": {t: _nodes(store, t) for t in store.node_types},
        "edges": [_edges(store, t) for t in store.edge_types],
        "edge_splits": {
            name: {key: str(c.path(store.path)) for key, c in columns.items()}
            for name, columns in store.manifest.edge_splits.items()
        },
        "memory": {
            "free": free_ram(),
            "read_by": io.path,
            "why": io.why,
            "files": {f: str(share) for f, share in store.memory_plan().items()},
        },
    }


def _nodes(store: Store, t: str) -> dict[str, Any]:
    entry = store.manifest.nodes[t]
    paths = {n: str(c.path(store.path)) for n, c in entry.splits.items()}
    return {
        "num_nodes": store.num_nodes(t),
        "columns": {n: _typed_column(store, store.feature(n, t), n, t) for n in store.node_columns(t)},
        "splits": {n: {"num_nodes": len(store.split(n, t)), "path": paths[n]} for n in store.splits(t)},
        "id_map": entry.id_map and entry.id_map["kind"],
    }


def _edges(store: Store, t: Any) -> dict[str, Any]:
    entry = store.manifest.edge(t)
    ways = (("in", entry.in_file), ("out", entry.out_file))
    return {
        "type": list(t),
        "num_edges": entry.num_edges,
        "edge_ids": entry.edge_ids,
        "columns": {n: _typed_column(store, store.edge_feature(n, t), n, t) for n in store.edge_columns(t)},
        **{way: None if file is None else _graph(store.graph(t, way)) for way, file in ways},
    }


def _files_below(folder: str) -> dict[str, int]:
    paths = (os.path.join(d, f) for d, _, files in os.walk(folder) for f in files)
    return {os.path.relpath(p, folder): os.path.getsize(p) for p in paths}


# ---- the same as text ----


def _store_lines(found: dict[str, Any]) -> list[str]:
    kind = "homogeneous" if found["homogeneous"] else "heterogeneous"
    lines = [found["path"], f"  {kind}, {amount(found['bytes'])} on disk", ""]
    for t, nodes in found["nodes"].items():
        lines.append(f"nodes {t}: {nodes['num_nodes']:,}")
        lines += [f"  {name:<16} {_column_text(c)}" for name, c in nodes["columns"].items()]
        for name, split in nodes["splits"].items():
            lines.append(f"  split {name:<10} {split['num_nodes']:,} nodes{_adopted(split['path'])}")
        if nodes["id_map"]:
            lines.append("  ids              mapped; store.id_map() looks them up both ways")
    for e in found["edges"]:
        lines.append(f"edges {' '.join(e['type'])}: {e['num_edges']:,}")
        lines += [f"  {way:<16} {_graph_text(e[way])}" for way in ("in", "out") if e[way]]
        ids = "original" if e["edge_ids"] == "original" else "positions in the topology"
        lines.append(f"  edge ids         {ids}")
        lines += [f"  {name:<16} {_column_text(c)}" for name, c in e["columns"].items()]
    for e in found["edges"]:
        for way in ("in", "out"):
            if e[way]:
                lines.append(f"{way}-edges of a node, {' '.join(e['type'])}, and how many nodes")
                lines += _drawn(e[way])
    lines += ["on disk", *size_lines(found["files"])]
    for name, columns in found["edge_splits"].items():
        shown = (f"{key}{_adopted(path)}" for key, path in columns.items())
        lines.append(f"edge split {name}: {', '.join(shown)}")
    memory = found["memory"]
    lines.append(
        f"with {amount(memory['free'])} of memory free; what is not in it is read by "
        f"{_READ_BY[memory['read_by']]} ({memory['why']})"
    )
    return lines + [f"  {file:<32} {share}" for file, share in memory["files"].items()]


def _drawn(graph: dict[str, Any]) -> list[str]:
    return degree_lines(graph["degree"]["histogram"])


def _graph_text(graph: dict[str, Any]) -> str:
    degree = graph["degree"]
    parts = [
        f"degree {degree['average']:.1f} on average, {degree['largest']:,} at most",
        f"{graph['id_bits']}-bit ids",
        "lists sorted" if graph["sorted"] else "lists in input order",
        *(["weighted"] if graph["weighted"] else []),
        amount(graph["bytes"]),
    ]
    return ", ".join(parts)


def _column_text(column: dict[str, Any]) -> str:
    parts = [f"{column['dtype']} {' x '.join(f'{n:,}' for n in column['shape'])}", amount(column["bytes"])]
    if column["stored"] != column["dtype"]:
        parts.insert(1, f"stored as {column['stored']}")
    if column.get("categories") is not None:
        parts.append(f"codes of {column['categories']:,} texts")
    if column.get("unit"):
        parts.append(column["unit"])
    return ", ".join(parts) + _adopted(column["path"])


def _verify(args: argparse.Namespace, out: Output) -> int:
    checked, failed = [], []
    for path, error in verify(args.store):
        checked.append(str(path))
        if error is None:
            out.say(f"ok      {path}")
        else:
            failed.append({"file": str(path), "error": message(error)})
            out.complain(f"FAILED  {message(error)}")
    out.tell({"files": checked, "failed": failed})
    if failed:
        out.complain(f"gz: {len(failed)} of {len(checked)} files failed")
        return 1
    out.say(f"{len(checked)} files, all sound")
    return 0
