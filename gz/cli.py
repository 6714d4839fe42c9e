"""The `gz` command: ingest, info, verify; add, rm and export are in _cli_edit.py.

Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import gz
from gz import _cli_edit, _engine
from gz._ram import free_ram
from gz.store import Store
from gz.verify import verify

_DESCRIPTION = """\
Graphs and features far larger than RAM, in files, for PyTorch Geometric and DGL.

  gz ingest papers --edges edges.csv --features x=x.npy    make a store
  gz info papers                                           what it holds
  gz verify papers                                         is every byte as it was written?
  gz add papers --feature emb=emb.npy                      add or replace a column; gz rm removes one
  gz export papers folder                                  back to Parquet or .npy

Then, in Python:  gz.open("papers"), gz_pyg.load("papers"), gz_dgl.load("papers")."""

_INGEST_EXAMPLES = """\
examples:
  gz ingest cora --edges cites.csv --features x=words.npy --features y=labels.npy
  gz ingest web --edges part1.csv.gz --edges part2.csv.gz --delimiter ';' --undirected --coalesce
  gz ingest road --edges roads.parquet --columns from,to --weight length --directions both
  gz ingest social --edges follows.tsv --ids map          # ids are names or sparse numbers
  gz ingest mag --spec mag.toml                           # several node and edge types, many files
  gz ingest papers --ogb dataset/ogbn_papers100M          # a dataset folder as downloaded; also --lsc, --igb

A bad line stops the ingest with its file, line and value, and leaves nothing behind; --on-bad-line skip
counts such lines instead. CSV columns beyond the two ids become edge columns. After a kill the same command
goes on from the last finished phase, or says that it starts anew."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code: 0 done, 1 failed, 2 wrong usage."""
    args = _parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", RuntimeWarning)
            warnings.showwarning = lambda message, *_, **__: print(f"gz: {message}", file=sys.stderr)
            return args.run(args)
    except KeyboardInterrupt as e:
        notes = getattr(e, "__notes__", None) or ["nothing was written"]
        print(f"gz: interrupted; {'; '.join(notes)}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, ValueError, KeyError, IndexError, MemoryError) as e:
        print("\n".join([f"gz: {_message(e)}", *getattr(e, "__notes__", [])]), file=sys.stderr)
        return 1


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, KeyError) and error.args:  # str() of it would add quotes
        return str(error.args[0])
    return str(error) or type(error).__name__


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="gz", description=_DESCRIPTION, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"gz {gz.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    ingest = commands.add_parser(
        "ingest", help="make a store from files", epilog=_INGEST_EXAMPLES, formatter_class=raw
    )
    _ingest_arguments(ingest)
    ingest.set_defaults(run=_ingest)

    info = commands.add_parser(
        "info", help="what a store holds", epilog="example:\n  gz info papers", formatter_class=raw
    )
    info.add_argument("store", metavar="STORE", help="a store, or a single .gl or .gd file")
    info.set_defaults(run=_info)

    check = commands.add_parser(
        "verify",
        help="check every checksum and every rule of the format",
        epilog="example:\n  gz verify papers && echo sound\n\n"
        "Reads every byte. Exits with 1 and names the rule that failed.",
        formatter_class=raw,
    )
    check.add_argument("store", metavar="STORE", help="a store, or a single .gl or .gd file")
    check.set_defaults(run=_verify)
    _cli_edit.register(commands, _named_files)
    return parser


# ---- ingest ----


def _ingest_arguments(p: argparse.ArgumentParser) -> None:
    add = p.add_argument
    add("out", metavar="OUT", help="the store to make: a directory that does not exist yet")
    add(
        "--edges",
        action="append",
        metavar="FILE",
        help="CSV/TSV (also .gz, .zst), Parquet, .npy, .npz, GraphZero's .gl; repeatable",
    )
    add("--features", action="append", default=[], metavar="NAME=FILE", help="a node column; repeatable")
    add(
        "--edge-features",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="an edge column in the order of the edges",
    )
    add(
        "--split",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="node ids of a split, as train=train.npy",
    )
    add("--nodes", metavar="FILE", help="original node ids in row order, for --ids map")
    add("--spec", metavar="TOML", help="describes a graph of several types or many files; docs/ingest.md")
    add("--ogb", metavar="DIR", help="an OGB node- or link-prediction dataset folder as downloaded")
    add("--lsc", metavar="DIR", help="a MAG240M folder (OGB-LSC) as downloaded")
    add("--igb", metavar="DIR", help="an IGB folder as downloaded, such as igb/small")
    add("--split-type", metavar="NAME", help="of --ogb: which folder of split/; by default the one OGB takes")
    add("--num-nodes", type=int, metavar="N", help="found from the input when not given")
    add("--ids", choices=["dense", "map"], default="dense", help="map: ids are any integers or text")
    add("--undirected", action="store_true", help="add the reverse of every edge that has none")
    add("--directions", choices=["in", "out", "both"], default="in", help="both: also group edges by source")
    add("--keep-edge-ids", action="store_true", default=None, help="keep original edge ids")
    add("--self-loops", choices=["keep", "remove", "add"], default="keep")
    add("--coalesce", action="store_true", help="of edges with the same ends keep the first")
    add("--neighbor-order", choices=["id", "input"], default="id", help="order inside a neighbour list")
    add("--weight", metavar="COLUMN", help="the edge column that weights walks and samples")
    add("--delimiter", metavar="CHAR", help="of text tables; found out when not given ('\\t' for a tab)")
    add(
        "--header",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="of text tables; found out when not given",
    )
    add("--columns", metavar="SRC,DST", help="names or positions (from 0) of the two id columns")
    add("--on-bad-line", choices=["error", "skip"], default="error")
    add("--adopt", action="store_true", help="use .npy features where they lie, without a copy")
    add("--memory", default="2GB", metavar="SIZE", help="what the ingest may take (default: %(default)s)")
    add(
        "--overwrite",
        action="store_true",
        help="replace OUT; the old store stays until the new one is complete",
    )
    add(
        "--no-disk-check",
        dest="check_disk",
        action="store_false",
        help="try even where the disk seems to have too little room",
    )


_PASSED_ON = [
    *("num_nodes", "nodes", "ids", "undirected", "directions", "keep_edge_ids", "self_loops", "coalesce"),
    *("neighbor_order", "weight", "header", "on_bad_line", "adopt", "memory", "overwrite", "spec"),
    *("ogb", "lsc", "igb", "split_type", "check_disk"),
]


def _ingest(args: argparse.Namespace) -> int:
    if not any((args.edges, args.spec, args.ogb, args.lsc, args.igb)):
        raise ValueError(
            "give --edges FILE, --spec TOML or a dataset folder (--ogb, --lsc, --igb); `gz ingest --help` "
            "shows examples"
        )
    options: dict[str, Any] = {}
    if args.edges:
        options["edges"] = args.edges[0] if len(args.edges) == 1 else args.edges
    files = {"features": args.features, "edge_features": args.edge_features, "splits": args.split}
    options |= {name: _named_files(pairs) for name, pairs in files.items() if pairs}
    if args.columns:
        parts = args.columns.split(",")
        options["columns"] = [int(c) if c.isdigit() else c for c in parts]
    if args.delimiter:
        options["delimiter"] = args.delimiter.replace("\\t", "\t")
    for name in _PASSED_ON:
        options[name] = getattr(args, name)
    print(gz.ingest(args.out, **options))
    return 0


def _named_files(pairs: Sequence[str]) -> dict[str, str]:
    named = {}
    for pair in pairs:
        name, equals, file = pair.partition("=")
        if not equals or not name or not file:
            raise ValueError(f"{pair!r}: write it as NAME=FILE, for example x=x.npy")
        named[name] = file
    return named


# ---- info ----


def _info(args: argparse.Namespace) -> int:
    if os.path.isfile(args.store):
        print(_file_line(args.store))
        return 0
    store = gz.open(args.store)
    kind = "homogeneous" if store.is_homogeneous else "heterogeneous"
    print(f"{store.path}\n  {kind}, {_size(_bytes_below(store.path))} on disk\n")
    for t in store.node_types:
        print(f"nodes {t}: {store.num_nodes(t):,}")
        for name in store.node_columns(t):
            print(f"  {name:<16} {_column_text(store.feature(name, t))}")
        for name in store.splits(t):
            print(f"  split {name:<10} {len(store.split(name, t)):,} nodes")
        if store.manifest.nodes[t].id_map is not None:
            print("  ids              mapped; store.id_map() looks them up both ways")
    for edge_type in store.edge_types:
        _print_edges(store, edge_type)
    for name, columns in store.manifest.edge_splits.items():
        print(f"edge split {name}: {', '.join(columns)}")
    _print_memory_plan(store)
    return 0


def _print_memory_plan(store: Store) -> None:
    path, why = _engine.read_path()
    how = {
        "ring": "io_uring, deep queues",
        "threads": "blocking reads in many threads",
        "map": "page faults",
    }
    print(f"with {_size(free_ram())} of memory free; what is not in it is read by {how[path]} ({why})")
    for file, share in store.memory_plan().items():
        print(f"  {file:<32} {share}")


def _print_edges(store: Store, edge_type: Any) -> None:
    entry = store.manifest.edge(edge_type)
    print(f"edges {' '.join(edge_type)}: {entry.num_edges:,}")
    for direction, file in (("in", entry.in_file), ("out", entry.out_file)):
        if file is not None:
            graph = store.graph(edge_type, direction)
            print(f"  {direction:<16} {_graph_text(graph)}")
    ids = "original" if entry.edge_ids == "original" else "positions in the topology"
    print(f"  edge ids         {ids}")
    for name in store.edge_columns(edge_type):
        print(f"  {name:<16} {_column_text(store.edge_feature(name, edge_type))}")


def _graph_text(graph: gz.Graph) -> str:
    average = graph.num_edges / graph.num_nodes if graph.num_nodes else 0
    parts = [
        f"degree {average:.1f} on average, {graph._topology.max_degree():,} at most",
        f"{graph.indices.dtype.itemsize * 8}-bit ids",
        "lists sorted" if graph.sorted else "lists in input order",
    ]
    if graph.has_weights:
        parts.append("weighted")
    return f"{', '.join(parts)}, {_size(os.path.getsize(graph.path))}"


def _column_text(column: gz.FeatureStore) -> str:
    shape = " x ".join(f"{n:,}" for n in column.shape)
    where = f", adopted: {column.path}" if column.path.endswith(".npy") else ""
    return f"{column.dtype} {shape}, {_size(column.nbytes)}{where}"


def _file_line(path: str) -> str:
    if path.endswith(".gl"):
        return f"{os.path.abspath(path)}\n  {_graph_text(gz.Graph(path))}"
    return f"{os.path.abspath(path)}\n  {_column_text(gz.FeatureStore(path))}"


def _bytes_below(folder: str) -> int:
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(folder) for f in files)


def _size(n: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"


# ---- verify ----


def _verify(args: argparse.Namespace) -> int:
    failed = files = 0
    for path, error in verify(args.store):
        files += 1
        if error is None:
            print(f"ok      {path}")
        else:
            failed += 1
            print(f"FAILED  {_message(error)}", file=sys.stderr)
    if failed:
        print(f"gz: {failed} of {files} files failed", file=sys.stderr)
        return 1
    print(f"{files} files, all sound")
    return 0
