"""Columns that a partitioned folder keeps in the names of its sub-folders: lake/year=2010/part-0.parquet."""

from __future__ import annotations

from urllib.parse import unquote

from gz._engine import InputError

_NULL = "__HIVE_DEFAULT_PARTITION__"


def partitions(files: list[str], root: str) -> tuple[list[dict[str, int]], list[str]]:
    """For each file the integers in its folder names, and the names of those that hold no integers.

    A partition that is not a number in every file cannot be a column; the caller says that it is left out.
    """
    found = [_pairs(f, root) for f in files]
    names = list(dict.fromkeys(n for pairs in found for n in pairs))
    for n in names:
        for file, pairs in zip(files, found, strict=True):
            if n not in pairs:
                raise InputError(
                    f"{file}: lies outside the partitions {n}=..., where other files of {root} lie"
                )
            if pairs[n] == _NULL:
                raise InputError(f"{file}: has no value for its partition {n!r}")
    numbers = [n for n in names if all(_is_integer(pairs[n]) for pairs in found)]
    return [{n: int(pairs[n]) for n in numbers} for pairs in found], [n for n in names if n not in numbers]


def _pairs(file: str, root: str) -> dict[str, str]:
    below = file[len(root) :].strip("/").split("/")[:-1]
    pairs = (part.partition("=") for part in below)
    return {unquote(k): unquote(v) for k, equals, v in pairs if equals and k}


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and -(1 << 63) <= int(text) < 1 << 63
