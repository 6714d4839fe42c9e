"""OGB's gzipped text files: columns of numbers, and the small ones with names and counts."""

from __future__ import annotations

import csv
import io
from typing import Any

from gz._engine import InputError
from gz._ingest.read.csv_layout import open_text
from gz._ingest.read.files import Files, InputFile

# What an integer column has none of: points, exponents, nan and inf, empty fields.
_FLOAT_MARKS = (b".", b"e", b"E", b"n", b"N", b",,", b",\n", b",\r", b"\n,", b'""')


def column(path: str, files: Files) -> dict[str, Any]:
    kind = _dtype(files.get(path))
    text: dict[str, Any] = {"delimiter": ",", "header": False, "matrix": True, "empty_is_nan": True}
    return {"file": path, "dtype": kind, **text}


def _dtype(file: InputFile) -> str:
    """int64 if every field is an integer, else float32, as OGB reads it; a float shows by its first sign."""
    last = b"\n"
    try:
        with open_text(file) as f:
            while block := f.read(1 << 20):
                text = last + block
                if any(mark in text for mark in _FLOAT_MARKS):
                    return "float32"
                last = text[-1:]
    except (EOFError, OSError) as e:
        raise InputError(f"{file.path}: cannot be decompressed: {e}") from None
    return "int64"


def table(path: str, files: Files) -> list[list[str]]:
    """A small file of names or counts, whole."""
    try:
        with open_text(files.get(path)) as f:
            return [row for row in csv.reader(io.TextIOWrapper(f, encoding="utf-8", newline="")) if row]
    except (EOFError, OSError, UnicodeDecodeError, csv.Error) as e:
        raise InputError(f"{path}: cannot be read: {e}") from None


def count(path: str, files: Files) -> int:
    rows = table(path, files)
    if len(rows) != 1:
        raise several_graphs(path, len(rows))
    return integer(rows[0][0], path)


def integer(text: str, path: str) -> int:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        raise InputError(f"{path}: {text!r} is not a count") from None


def several_graphs(name: str, n: int) -> InputError:
    return InputError(
        f"{name}: there are {n} graphs; gz takes node- and link-prediction datasets, which are one graph"
    )


def types_marked(path: str, nodes: Any, files: Files) -> list[str]:
    """The node types marked True in nodetype-has-label.csv.gz and nodetype-has-split.csv.gz."""
    rows: list[list[str]] = [*table(path, files), [], []]
    header, marks = rows[:2]
    found = [t for t, mark in zip(header, marks, strict=False) if mark.strip().lower() in ("true", "1")]
    for t in found:
        if t not in nodes:
            raise InputError(f"{path}: names node type {t!r}; there are {sorted(nodes)}")
    return found
