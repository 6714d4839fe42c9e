"""gz demo: trains on a graph larger than the memory it is allowed, beside the same script in memory."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from gz._base.sizes import amount, parse_memory
from gz._measure.demo import Options, demonstrate, prepare
from gz._watch import software
from gz.cli.output import Output, UsageError, common_flags

_QUIET_EVERY = 5.0  # seconds between lines where there is no terminal


def register(commands: Any) -> None:
    parser = commands.add_parser(
        "demo",
        help="train on a generated graph larger than memory",
        epilog="example:\n  gz demo --limit 1GB --size 3GB\n\n"
        "Generates a graph, then runs one training script twice under one memory\n"
        "limit: with the graph in files, and in memory, where it is killed. Writes a\n"
        "picture of both; the graph is removed. Needs PyTorch Geometric. Two minutes.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--dir", default="gz-demo", help="where the graph goes; removed at the end (default: %(default)s)")
    add("--picture", default="gz-demo.svg", metavar="FILE", help="(default: %(default)s)")
    add("--size", default="3GB", help="of the files (default: %(default)s)")
    add("--limit", default="1GB", metavar="SIZE", help="of memory, for each run (default: %(default)s)")
    add("--seconds", type=float, default=40.0, metavar="S", help="of training (default: %(default)s)")
    add("--dry-run", action="store_true", help="see whether there is room, and end")
    add("--keep", action="store_true", help="do not remove the graph")
    common_flags(parser)
    parser.set_defaults(run=_demo)


def _demo(args: argparse.Namespace, out: Output) -> int:
    versions = software.versions()
    missing = [p for p in ("torch", "torch_geometric") if versions[p] is None]
    if missing:
        raise UsageError(f"the demo trains with PyTorch Geometric: pip install {' '.join(missing)}")
    options = Options(
        args.dir, args.picture, parse_memory(args.size), parse_memory(args.limit), args.seconds, args.keep
    )
    if args.dry_run:
        folder = prepare(options)
        out.tell({"dir": folder, "size": options.size, "limit": options.limit})
        out.say(f"{amount(options.size)} of files would go to {folder}; {amount(options.limit)} of memory")
        return 0
    begun = time.monotonic()
    found = demonstrate(options, out.say, _Live(out))
    files, memory = found.files, found.memory
    out.tell(
        {
            "store_bytes": found.store_bytes,
            "limit": found.limit.bytes,
            "limit_by": found.limit.how,
            "num_nodes": found.graph.num_nodes,
            "num_edges": found.graph.num_edges,
            "seconds": {"generate": found.generated, "all": time.monotonic() - begun},
            "files": {"exit": files.code, "killed": files.killed, "peak": files.peak, **found.result},
            "memory": {"exit": memory.code, "killed": memory.killed, "peak": memory.peak},
            "picture": args.picture,
        }
    )
    ratio = found.store_bytes / found.limit.bytes
    out.say(
        f"\n{amount(found.store_bytes)} of files are {ratio:.1f} times {amount(found.limit.bytes)} of memory."
        f" Picture: {args.picture}. {time.monotonic() - begun:.0f} s in all."
    )
    if files.code != 0:
        out.complain("\n".join(["gz: the run with the graph in files failed:", *files.lines]))
        return 1
    return 0


class _Live:
    """A line that changes, on a terminal; elsewhere one every few seconds."""

    def __init__(self, out: Output):
        self._out, self._last = out, 0.0

    def __call__(self, text: str) -> None:
        if self._out.json or self._out.quiet:
            return
        if sys.stdout.isatty():
            print(f"\r\x1b[K{text[:110]}", end="", flush=True)
        elif text and time.monotonic() - self._last >= _QUIET_EVERY:
            self._last = time.monotonic()
            print(f"   {text}", flush=True)
