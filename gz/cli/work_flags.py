"""The flags of what is predicted and measured: fanouts, batch, seeds."""

from __future__ import annotations

import argparse

from gz._measure.workload import Request, parse_fanouts
from gz.cli.output import UsageError


def work_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--fanouts",
        default="15,10,5",
        metavar="N,N",
        help="neighbours of each hop; -1: all (default: %(default)s)",
    )
    add("--batch-size", type=int, default=1024, metavar="N", help="seeds of a batch (default: %(default)s)")
    add("--split", metavar="NAME", help="take seeds from it (default: train if there is one, else all nodes)")
    add("--node-type", metavar="TYPE", help="of the seeds, in a store with several")


def request_of(args: argparse.Namespace) -> Request:
    if args.batch_size < 1:
        raise UsageError(f"--batch-size is {args.batch_size}; give at least 1")
    try:
        fanouts = parse_fanouts(args.fanouts)
    except ValueError as e:
        raise UsageError(str(e)) from None
    return Request(fanouts, args.batch_size, args.split, args.node_type)
