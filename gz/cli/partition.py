"""The command that hands a store to a distributed engine: partition."""

from __future__ import annotations

import argparse
from typing import Any

from gz.cli.output import Output, UsageError, common_flags, memory_flags

_METHODS = ["auto", "metis", "fennel", "random", "range"]


def register(commands: Any) -> None:
    parser = commands.add_parser(
        "partition",
        help="divide a store into parts for dgl.distributed",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  gz partition papers parts --parts 4\n"
        "  gz partition papers parts --parts 4 --assignment part_of_node.npy\n"
        "  gz add papers --features emb=emb.npy --by parts\n\n"
        "OUT/NAME.json is what dgl.distributed takes. A run that was stopped goes on\n"
        "when it is started again. Needs DGL.",
    )
    add = parser.add_argument
    add("store", metavar="STORE")
    add("out", metavar="OUT", help="the folder to make")
    add("--parts", type=int, required=True, metavar="N", help="how many")
    add(
        "--method",
        choices=_METHODS,
        default="auto",
        help="metis: DGL's, in memory; fennel: streamed; auto: metis where it fits into --memory",
    )
    add(
        "--assignment",
        action="append",
        metavar="[TYPE=]FILE",
        help="an .npy with the part of each node instead; repeatable, one for each node type",
    )
    add("--graph-name", metavar="NAME", help="for DistGraph; by default that of the store's folder")
    add("--balance", default="train", metavar="SPLIT", help="spread evenly (default: train; none)")
    add("--no-balance-edges", action="store_true", help="let parts differ in edges")
    add("--passes", type=int, default=8, metavar="N", help="sweeps of fennel (default: %(default)s)")
    add("--rng-seed", type=int, default=0, metavar="N", help="of random")
    add("--overwrite", action="store_true", help="replace OUT")
    add("--no-disk-check", action="store_true", help="begin though the disk seems too small")
    memory_flags(parser)
    common_flags(parser)
    parser.set_defaults(run=_partition)


def _partition(args: argparse.Namespace, out: Output) -> int:
    if args.assignment and args.method != "auto":
        raise UsageError("--assignment says where nodes go, and so does --method: give one of them")
    try:
        import gz_dgl
    except ImportError as e:
        raise ValueError(f"gz partition writes DGL's files and needs DGL: {e}") from e
    made = gz_dgl.partition(
        args.store,
        args.out,
        args.parts,
        method=args.method,
        assignment=_assignment(args.assignment),
        graph_name=args.graph_name,
        balance=None if args.balance == "none" else args.balance,
        balance_edges=not args.no_balance_edges,
        passes=args.passes,
        rng_seed=args.rng_seed,
        memory=args.memory,
        tmp=args.tmp,
        overwrite=args.overwrite,
        check_disk=not args.no_disk_check,
        progress=out.progress,
    )
    report = made.report
    found = report.to_json() | {"path": report.path, "config": made.config, "balance": report.balance}
    out.tell(found | {"seconds": report.seconds})
    for line in report.lines():
        out.say(line)
    out.say(f"{made.config}: {args.parts} parts by {report.method} in {report.seconds:.1f} s")
    return 0


def _assignment(given: list[str] | None) -> Any:
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    pairs = [text.partition("=") for text in given]
    if wrong := [
        text for (_, equals, file), text in zip(pairs, given, strict=True) if not equals or not file
    ]:
        raise UsageError(f"--assignment {wrong[0]!r}: write TYPE=FILE, one for each node type")
    return {t: file for t, _, file in pairs}
