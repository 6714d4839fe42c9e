"""gz ingest."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import gz
from gz._base.deprecated import deprecated
from gz._ingest.plan.describe import plan_lines
from gz._measure.workload import parse_fanouts
from gz.cli.output import Output, UsageError, common_flags, memory_flags

_EXAMPLES = """\
examples:
  gz ingest cora --edges cites.csv --features x=x.npy --features y=y.npy
  gz ingest web --edges part1.csv.gz --edges part2.csv.gz --undirected
  gz ingest road --edges roads.parquet --ends from,to --weight length
  gz ingest social --edges follows.tsv --ids text      # ids are names
  gz ingest social --nodes users.csv:id --edges follows.parquet
                                   # a table of nodes, whose ids are mapped
  gz ingest social --nodes users.csv:id --edges follows.parquet --dry-run
                                   # how would it be read?
  gz ingest mag --spec mag.toml    # several node and edge types, many files
  gz ingest papers --ogb dataset/ogbn_papers100M
                                   # a dataset folder as downloaded

A bad line stops the ingest with its file, line and value; --on-bad-line skip
counts such lines instead. Table columns beyond the two ends become columns of
the edges. After an error or a kill the same command goes on with what is
finished and whose inputs did not change, or says that it starts anew."""


def register(commands: Any) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser(
        "ingest", help="make a store from files", epilog=_EXAMPLES, formatter_class=raw
    )
    _arguments(parser)
    parser.set_defaults(run=_ingest)


def _arguments(p: argparse.ArgumentParser) -> None:
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
    add(
        "--nodes",
        metavar="FILE[:COLUMN]",
        help="a table of nodes: the column has their ids, the others become columns; or ids alone",
    )
    add("--ends", metavar="SRC,DST", help="names or positions (from 0) of the two ends of an edge")
    add("--columns", metavar="A,B", help="of the tables keep these columns besides ids (default: all)")
    add("--node-columns", metavar="A,B", help=argparse.SUPPRESS)  # for one version: now --columns
    add("--edge-columns", metavar="A,B", help=argparse.SUPPRESS)
    add("--drop", action="append", default=[], metavar="A,B", help="leave these columns of tables out")
    add(
        "--null",
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="what stands for a missing value; without it one is an error",
    )
    add(
        "--dtype",
        action="append",
        default=[],
        metavar="COLUMN=DTYPE",
        help="what to store a column as: float16, bfloat16 or int8 take a half or a quarter of the bytes and "
        "are read as float32 (float16:keep: as float16), int16:int64 as int64; repeatable",
    )
    add("--spec", metavar="TOML", help="describes a graph of several types or many files; docs/ingest.md")
    add("--ogb", metavar="DIR", help="an OGB node- or link-prediction dataset folder as downloaded")
    add("--lsc", metavar="DIR", help="a MAG240M folder (OGB-LSC) as downloaded")
    add("--igb", metavar="DIR", help="an IGB folder as downloaded, such as igb/small")
    add("--split-type", metavar="NAME", help="of --ogb: which folder of split/; by default the one OGB takes")
    add("--num-nodes", type=int, metavar="N", help="found from the input when not given")
    add(
        "--ids",
        choices=["dense", "int", "text", "map"],
        help="dense: 0 to N-1 (default without --nodes); int: any integers; text; map: integers or text, as "
        "the input has them (default with --nodes)",
    )
    add(
        "--undirected",
        action="store_true",
        help="add the reverse of every edge that has none; between two node types, a type rev_...",
    )
    add(
        "--directions",
        choices=["in", "out", "both"],
        default="in",
        help="group edges by destination (in), by source (out), or both ways",
    )
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
    add("--on-bad-line", choices=["error", "skip"], default="error")
    add("--dry-run", action="store_true", help="say in full how the input would be read, and write nothing")
    add("--adopt", action="store_true", help="use .npy features where they lie, without a copy")
    add(
        "--order",
        choices=["plain", "hot"],
        default="plain",
        help="hot: then put the rows that training reads most in front, as `gz reorder OUT` does",
    )
    order_flags(p)
    memory_flags(p)
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
    common_flags(p)


def order_flags(p: argparse.ArgumentParser) -> None:
    """How `gz reorder` finds what training reads most."""
    p.add_argument(
        "--order-split",
        default="train",
        metavar="NAME",
        help="the split that training starts from (default: %(default)s)",
    )
    p.add_argument(
        "--fanouts",
        type=_fanouts,
        default=[15, 10, 5],
        metavar="A,B",
        help="as training samples, from the seeds outward (default: 15,10,5)",
    )
    p.add_argument(
        "--share",
        type=float,
        default=0.125,
        metavar="PART",
        help="of the rows, the most that are put in front; more of a column that is stored smaller than it "
        "shows, for as many bytes (default: %(default)s)",
    )


def _fanouts(text: str) -> list[int]:
    try:
        return list(parse_fanouts(text))
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from None


_PASSED_ON = [
    *("num_nodes", "ids", "undirected", "directions", "keep_edge_ids", "self_loops", "coalesce"),
    *("neighbor_order", "weight", "header", "on_bad_line", "adopt", "memory", "overwrite", "spec"),
    *("ogb", "lsc", "igb", "split_type", "check_disk", "dry_run", "tmp"),
]


def _ingest(args: argparse.Namespace, out: Output) -> int:
    if not any((args.edges, args.spec, args.ogb, args.lsc, args.igb)):
        raise UsageError(
            "give --edges FILE, --spec TOML or a dataset folder (--ogb, --lsc, --igb); `gz ingest --help` "
            "shows examples"
        )
    options: dict[str, Any] = {}
    if args.edges:
        options["edges"] = args.edges[0] if len(args.edges) == 1 else args.edges
    files = {"features": args.features, "edge_features": args.edge_features, "splits": args.split}
    options |= {name: named_files(pairs) for name, pairs in files.items() if pairs}
    options |= _columns(args)
    options["drop"] = [name for names in args.drop for name in names.split(",")]
    options["dtype"] = named_files(args.dtype)
    options["nulls"] = {name: _value(text) for name, text in named_files(args.null).items()}
    if args.delimiter:
        options["delimiter"] = args.delimiter.replace("\\t", "\t")
    for name in _PASSED_ON:
        options[name] = getattr(args, name)
    report = gz.ingest(args.out, progress=out.progress, **options)
    told = report.as_json() | {"dry_run": args.dry_run}
    out.tell(told)
    out.say("\n".join(plan_lines(report.plan, full=True)) if args.dry_run else str(report))
    if args.order == "hot" and not args.dry_run:
        found = gz.reorder(
            args.out,
            share=args.share,
            seeds=args.order_split,
            fanouts=args.fanouts,
            memory=args.memory,
            tmp=args.tmp,
            progress=out.progress,
            check_disk=args.check_disk,
        )
        rows, lists = rows_and_lists(found)
        out.tell(told | {"in_front": rows, "lists_in_front": lists})
        out.say(in_front(args.out, rows, lists))
    return 0


def rows_and_lists(found: dict[Any, int]) -> tuple[dict[str, int], dict[str, int]]:
    """What gz.reorder found, by column and by edge type."""
    rows = {name: n for name, n in found.items() if isinstance(name, str)}
    return rows, {"/".join(t): n for t, n in found.items() if not isinstance(t, str)}


def in_front(path: str, rows: dict[str, int], lists: dict[str, int]) -> str:
    lines = [f"{path}: {name}, {n:,} rows in front" for name, n in rows.items()]
    return "\n".join([*lines, *(f"{path}: {name}, {n:,} lists in front" for name, n in lists.items())])


def _columns(args: argparse.Namespace) -> dict[str, Any]:
    """Which columns of the tables are what."""
    options: dict[str, Any] = {}
    if args.nodes:
        options["nodes"] = args.nodes
    if args.ends:
        options["ends"] = _places(args.ends)
    if args.columns:
        options["columns"] = _places(args.columns)
    if args.edge_columns:
        options["edge_columns"] = args.edge_columns.split(",")
    if args.node_columns:
        if not args.nodes:
            raise UsageError("--node-columns goes with --nodes, a table of nodes")
        deprecated("--node-columns", "--columns")
        options["nodes"] = {"file": args.nodes, "columns": args.node_columns.split(",")}
    return options


def _places(text: str) -> list[Any]:
    return [int(c) if c.isdigit() else c for c in text.split(",")]


def _value(text: str) -> Any:
    """A number where it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def named_files(pairs: Sequence[str]) -> dict[str, str]:
    named = {}
    for pair in pairs:
        name, equals, file = pair.partition("=")
        if not equals or not name or not file:
            raise UsageError(f"{pair!r}: write it as NAME=FILE, for example x=x.npy")
        named[name] = file
    return named
