"""The commands that work on a finished store: add, rm, export."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import gz
from gz.exporter import export


def register(commands: Any, named_files: Callable[[Any], dict[str, str]]) -> None:
    """Adds the three commands to the parser. `named_files` reads NAME=FILE pairs."""
    raw = argparse.RawDescriptionHelpFormatter
    add = commands.add_parser(
        "add",
        help="add or replace columns",
        formatter_class=raw,
        epilog="examples:\n  gz add papers --feature emb=emb.npy\n"
        "  gz add mag --edge-type author,writes,paper --feature year=year.npy --replace\n\n"
        "The column appears at once and complete. Programs that have a replaced one open keep the old one.",
    )
    _which(add)
    add.add_argument("--feature", action="append", required=True, metavar="NAME=FILE", help="repeatable")
    add.add_argument("--replace", action="store_true", help="take the place of columns of the same name")
    add.add_argument("--dtype", help="to store them as")
    add.add_argument(
        "--order",
        choices=["original", "stored"],
        default="original",
        help="of the rows of edge columns: as the edges were ingested, or as the topology holds them",
    )
    add.add_argument("--adopt", action="store_true", help="use .npy files where they lie, without a copy")
    add.add_argument("--memory", default="2GB", metavar="SIZE")
    add.set_defaults(run=lambda args: _add(args, named_files(args.feature)))

    rm = commands.add_parser(
        "rm",
        help="remove columns",
        formatter_class=raw,
        epilog="example:\n  gz rm papers --feature emb",
    )
    _which(rm)
    rm.add_argument("--feature", action="append", required=True, metavar="NAME", help="repeatable")
    rm.set_defaults(run=_rm)

    out = commands.add_parser(
        "export",
        help="write a store as Parquet or .npy files",
        formatter_class=raw,
        epilog="example:\n  gz export papers folder\n  gz ingest again --spec folder/graph.toml",
    )
    out.add_argument("store", metavar="STORE")
    out.add_argument("out", metavar="OUT", help="the folder to make")
    out.add_argument("--format", choices=["parquet", "npy"], default="parquet")
    out.add_argument("--memory", default="2GB", metavar="SIZE")
    out.add_argument("--overwrite", action="store_true", help="replace OUT")
    out.set_defaults(run=_export)


def _which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--node-type", metavar="TYPE", help="may be left out when there is one")
    group.add_argument("--edge-type", metavar="SRC,REL,DST", help="for a column of edges")


def _type(args: argparse.Namespace) -> Any:
    if not args.edge_type:
        return args.node_type
    parts = tuple(args.edge_type.split(","))
    if len(parts) != 3:
        raise ValueError(f"--edge-type {args.edge_type!r}: write it as SRC,REL,DST")
    return parts


def _add(args: argparse.Namespace, files: dict[str, str]) -> int:
    options = {k: getattr(args, k) for k in ("replace", "dtype", "order", "adopt", "memory")}
    store = gz.open(args.store)
    for name, file in files.items():
        column = store.add_feature(name, file, _type(args), **options)
        print(f"{store.path}: {name}, {column.dtype} {' x '.join(f'{n:,}' for n in column.shape)}")
    return 0


def _rm(args: argparse.Namespace) -> int:
    store = gz.open(args.store)
    for name in args.feature:
        store.remove_feature(name, _type(args))
        print(f"{store.path}: {name} removed")
    return 0


def _export(args: argparse.Namespace) -> int:
    export(args.store, args.out, args.format, overwrite=args.overwrite, memory=args.memory)
    print(f"{args.out}: `gz ingest NEW --spec {args.out}/graph.toml` makes a store of it again")
    return 0
