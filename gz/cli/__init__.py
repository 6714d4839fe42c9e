"""The `gz` command. Results go to stdout, everything else to stderr; with --json there is one JSON document
on stdout, whatever happens."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

import gz
from gz.cli import bench, completion, demo, doctor, edit, ingest, partition, show
from gz.cli.output import Output, UsageError, common_flags

_DESCRIPTION = """\
Graphs and features far larger than RAM, in files, for PyG and DGL.

  gz ingest papers --edges edges.csv --features x=x.npy    make a store
  gz info papers                                           what it holds
  gz verify papers                                         is every byte right?
  gz add papers --features emb=emb.npy                     add a column
  gz rm papers --features emb                              remove one
  gz reorder papers                                        hot rows in front
  gz export papers folder                                  to Parquet or .npy
  gz partition papers parts --parts 4                      for dgl.distributed
  gz doctor papers                                         how fast will it be?
  gz bench papers --html bench.html                        how fast is it?

Then, in Python:
  gz.open("papers"), gz_pyg.load("papers"), gz_dgl.load("papers")"""

_EPILOG = """\
exit codes:
  0    done
  1    failed: the input, a file or the disk is not as it should be
  2    wrong usage
  130  interrupted (Ctrl-C)"""

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_usage().rstrip())


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    given = list(sys.argv[1:] if argv is None else argv)
    out = Output("--json" in given, "-q" in given or "--quiet" in given)
    try:
        code = _run(given, out)
        out.end(code)
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _run(given: list[str], out: Output) -> int:
    try:
        args, unknown = parser().parse_known_args(given)
        if unknown:
            raise _unrecognized(unknown, args.parser)
        out.begin(args)
        with warnings.catch_warnings(), out.logged():
            for kind in (RuntimeWarning, DeprecationWarning, FutureWarning):
                warnings.simplefilter("always", kind)
            warnings.showwarning = lambda message, *_, **__: out.warn(str(message))
            code: int = args.run(args, out)
            return code
    except KeyboardInterrupt as e:
        notes = getattr(e, "__notes__", None) or ["nothing was written"]
        out.error(e, f"interrupted; {'; '.join(notes)}")
        return INTERRUPTED
    except UsageError as e:
        out.error(e, str(e), e.usage)
        return USAGE
    except BrokenPipeError:
        raise
    except (OSError, ValueError, KeyError, IndexError, TypeError, MemoryError) as e:
        out.error(e)
        return FAILED


def _unrecognized(words: list[str], command: argparse.ArgumentParser) -> UsageError:
    """argparse would show the usage of `gz`, which has none of a command's flags."""
    flags = [s for action in command._actions for s in action.option_strings]
    meant = [m for w in words for m in difflib.get_close_matches(w.partition("=")[0], flags, 1)]
    hint = f"; did you mean {' '.join(meant)}?" if meant else ""
    return UsageError(f"unrecognized arguments: {' '.join(words)}{hint}", command.format_usage().rstrip())


def parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    whole = _Parser(prog="gz", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=raw)
    whole.add_argument("--version", action="version", version=f"gz {gz.__version__}")
    common_flags(whole)
    commands = whole.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for module in (ingest, show, edit, partition, doctor, bench, demo):
        module.register(commands)
    completion.register(commands, parser)
    for command in commands.choices.values():
        command.set_defaults(parser=command)
    return whole
