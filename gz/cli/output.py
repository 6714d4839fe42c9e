"""What every command has: the flags --json and --quiet, and where its text, its document and its errors go.

With --json, stdout is one JSON document and nothing else, also when the command failed: `command`, `ok`,
`exit`, `warnings`, `error` (null, or its type, message and notes), and what the command found. Nothing is
written to stderr.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gz._base.progress import wrapped
from gz._base.sizes import parse_memory


class UsageError(ValueError):
    """The command line is wrong, whatever the files hold. `usage`: what it should look like."""

    def __init__(self, message: str, usage: str = ""):
        super().__init__(message)
        self.usage = usage


def common_flags(parser: argparse.ArgumentParser) -> None:
    """Before or after the name of the command; where they are not given, nothing is set."""
    add = parser.add_argument
    add("--json", action="store_true", default=argparse.SUPPRESS, help="one JSON document on stdout")
    add(
        "-q", "--quiet", action="store_true", default=argparse.SUPPRESS, help="print nothing but errors"
    )  # fmt: skip


def memory_flags(parser: argparse.ArgumentParser) -> None:
    """Of commands that may need more room than memory has."""
    parser.add_argument(
        "--memory",
        default="2GB",
        type=_memory,
        metavar="SIZE",
        help="what it may take (default: %(default)s)",
    )
    parser.add_argument(
        "--tmp", metavar="DIR", help="where temporary files go (default: beside what is written)"
    )


def _memory(text: str) -> str:
    try:
        parse_memory(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from None
    return text


class Output:
    def __init__(self, as_json: bool, quiet: bool):
        self.json, self.quiet = as_json, quiet
        self.document: dict[str, Any] = {
            "command": None,
            "ok": False,
            "exit": 1,
            "warnings": [],
            "error": None,
        }

    def begin(self, args: argparse.Namespace) -> None:
        self.json = getattr(args, "json", False)
        self.quiet = getattr(args, "quiet", False)
        self.document["command"] = args.command

    @contextmanager
    def logged(self) -> Iterator[None]:
        """What goes to the logger `gz` meanwhile goes to stderr: progress, where that is no terminal."""
        log, handler = logging.getLogger("gz"), logging.StreamHandler()
        level = log.level
        if not (self.json or self.quiet):
            handler.setFormatter(logging.Formatter("gz: %(message)s"))
            log.addHandler(handler)
            log.setLevel(logging.INFO)
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.setLevel(level)

    @property
    def progress(self) -> bool | None:
        """As gz.ingest takes it: None is for the terminal to say."""
        return False if self.json or self.quiet else None

    def tell(self, found: dict[str, Any]) -> None:
        """What the command found, for --json."""
        self.document |= found

    def say(self, text: str) -> None:
        """The same for a person."""
        if not (self.json or self.quiet):
            print(wrapped(text))

    def print_as_it_is(self, text: str) -> None:
        """What is meant for another program."""
        if not (self.json or self.quiet):
            print(text, end="")

    def progress_line(self, text: str) -> None:
        """What goes on, on a terminal, in a line that the next one takes the place of; "" clears it."""
        if sys.stderr.isatty() and not (self.json or self.quiet):
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        self.document["warnings"].append(text)
        if not (self.json or self.quiet):
            print(wrapped(f"gz: {text}"), file=sys.stderr)

    def complain(self, text: str) -> None:
        if not self.json:
            print(wrapped(text), file=sys.stderr)

    def error(self, e: BaseException, text: str | None = None, usage: str = "") -> None:
        text = message(e) if text is None else text
        notes = [] if isinstance(e, KeyboardInterrupt) else list(getattr(e, "__notes__", []))
        self.document["error"] = {"type": type(e).__name__, "message": text, "notes": notes}
        self.complain("\n".join([*([usage] if usage else []), f"gz: {text}", *notes]))

    def end(self, code: int) -> None:
        self.document |= {"ok": code == 0, "exit": code}
        if self.json:
            print(json.dumps(self.document, indent=1, default=str))
        sys.stdout.flush()


def message(error: BaseException) -> str:
    """An error as text for a person."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, KeyError) and error.args:  # str() of it would add quotes
        return str(error.args[0])
    return str(error) or type(error).__name__
