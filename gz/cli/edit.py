"""The commands that work on a finished store: add, rm, reorder, export."""

from __future__ import annotations

import argparse
from typing import Any

import gz
from gz._base.deprecated import deprecated
from gz.cli.ingest import in_front, named_files, order_flags, rows_and_lists
from gz.cli.output import Output, UsageError, common_flags, memory_flags
from gz.exporter import export

_REORDER = """\
example:
  gz reorder papers                           # by what training samples
  gz reorder papers --fanouts 10,10 --share 0.05
  gz reorder papers --undo

The rows that training reads most are put in front, in files of their own that
memory can hold and that are read in order, and fast, at the start; and so are
the lists of neighbours that it samples most. Columns and topology stay as they
are: the same ids, tensors and samples; the store grows by at most --share of
the columns and twice that of the topology. Seeds are those of the split;
without one, the nodes that stand in most lists are taken. A killed run leaves
the store sound; what was done by then stays."""


def register(commands: Any) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    add = commands.add_parser(
        "add",
        help="add or replace columns",
        formatter_class=raw,
        epilog="examples:\n  gz add papers --features emb=emb.npy\n"
        "  gz add mag --edge-type author,writes,paper --features year=year.npy \\\n      --overwrite\n\n"
        "The column appears at once and complete. Programs that have a replaced one\n"
        "open keep the old one.",
    )
    _which(add)
    _features(add, "NAME=FILE")
    add.add_argument("--overwrite", action="store_true", help="take the place of columns of the same name")
    add.add_argument("--replace", action="store_true", help=argparse.SUPPRESS)  # the old name of --overwrite
    add.add_argument(
        "--dtype",
        help="to store them as: float16, bfloat16 or int8 are read as float32 (float16:keep: as float16), "
        "int16:int64 as int64",
    )
    add.add_argument(
        "--order",
        choices=["original", "stored"],
        default="original",
        help="of the rows of edge columns: as the edges were ingested, or as the topology holds them",
    )
    add.add_argument("--adopt", action="store_true", help="use .npy files where they lie, without a copy")
    add.add_argument(
        "--by",
        metavar="FILE",
        help="an .npy with the id that each row belongs to, or a folder that `gz partition` made: "
        "rows in the order of DGL's new ids",
    )
    memory_flags(add)
    common_flags(add)
    add.set_defaults(run=_add)

    rm = commands.add_parser(
        "rm",
        help="remove columns",
        formatter_class=raw,
        epilog="example:\n  gz rm papers --features emb",
    )
    _which(rm)
    _features(rm, "NAME")
    common_flags(rm)
    rm.set_defaults(run=_rm)

    order = commands.add_parser(
        "reorder",
        help="put the rows and lists that training reads most in front",
        formatter_class=raw,
        epilog=_REORDER,
    )
    order.add_argument("store", metavar="STORE")
    order.add_argument("--node-type", metavar="TYPE", help="may be left out when there is one")
    order.add_argument("--features", metavar="NAME", help="default: all whose rows have 128 bytes or more")
    order_flags(order)
    order.add_argument("--undo", action="store_true", help="remove what was put in front")
    order.add_argument(
        "--no-disk-check",
        dest="check_disk",
        action="store_false",
        help="try even where the disk seems to have too little room",
    )
    memory_flags(order)
    common_flags(order)
    order.set_defaults(run=_reorder)

    out = commands.add_parser(
        "export",
        help="write a store as Parquet or .npy files",
        formatter_class=raw,
        epilog="example:\n  gz export papers folder\n  gz ingest again --spec folder/graph.toml",
    )
    out.add_argument("store", metavar="STORE")
    out.add_argument("out", metavar="OUT", help="the folder to make")
    out.add_argument("--format", choices=["parquet", "npy"], default="parquet")
    out.add_argument("--overwrite", action="store_true", help="replace OUT")
    memory_flags(out)
    common_flags(out)
    out.set_defaults(run=_export)


def _which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--node-type", metavar="TYPE", help="may be left out when there is one")
    group.add_argument("--edge-type", metavar="SRC,REL,DST", help="for a column of edges")


def _features(parser: argparse.ArgumentParser, metavar: str) -> None:
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("--features", action="append", metavar=metavar, help="repeatable")
    either.add_argument("--feature", action="append", help=argparse.SUPPRESS)  # its old name


def _named(args: argparse.Namespace) -> list[str]:
    if args.feature:
        deprecated("--feature", "--features")
    return args.features or args.feature


def _type(args: argparse.Namespace) -> Any:
    if not args.edge_type:
        return args.node_type
    parts = tuple(args.edge_type.split(","))
    if len(parts) != 3:
        raise UsageError(f"--edge-type {args.edge_type!r}: write it as SRC,REL,DST")
    return parts


def _add(args: argparse.Namespace, out: Output) -> int:
    if args.replace:
        deprecated("--replace", "--overwrite")
        args.overwrite = True
    options = {k: getattr(args, k) for k in ("overwrite", "dtype", "order", "adopt", "by", "memory", "tmp")}
    files, t = named_files(_named(args)), _type(args)
    store = gz.open(args.store)
    added: dict[str, Any] = {}
    out.tell({"store": store.path, "added": added})
    for name, file in files.items():
        column = store.add_feature(name, file, t, **options)
        added[name] = {"dtype": column.dtype, "stored": column.stored, "shape": list(column.shape)}
        stored = "" if column.stored == column.dtype else f", stored as {column.stored}"
        out.say(f"{store.path}: {name}, {column.dtype} {' x '.join(f'{n:,}' for n in column.shape)}{stored}")
    return 0


def _rm(args: argparse.Namespace, out: Output) -> int:
    t = _type(args)
    store = gz.open(args.store)
    removed: list[str] = []
    out.tell({"store": store.path, "removed": removed})
    for name in _named(args):
        store.remove_feature(name, t)
        removed.append(name)
        out.say(f"{store.path}: {name} removed")
    return 0


def _reorder(args: argparse.Namespace, out: Output) -> int:
    options = {k: getattr(args, k) for k in ("share", "fanouts", "undo", "memory", "tmp", "check_disk")}
    store = gz.open(args.store)
    found = gz.reorder(
        store, args.features, args.node_type, seeds=args.order_split, progress=out.progress, **options
    )
    rows, lists = rows_and_lists(found)
    out.tell({"store": store.path, "rows": rows, "lists": lists})
    if not args.undo:
        out.say(in_front(store.path, rows, lists))
    for name in [*rows, *lists] if args.undo else ():
        out.say(f"{store.path}: {name}, as it was")
    return 0


def _export(args: argparse.Namespace, out: Output) -> int:
    export(args.store, args.out, args.format, overwrite=args.overwrite, memory=args.memory, tmp=args.tmp)
    out.tell({"path": args.out, "spec": f"{args.out}/graph.toml", "format": args.format})
    out.say(f"{args.out}: `gz ingest NEW --spec {args.out}/graph.toml` makes a store of it again")
    return 0
