"""What a path given as input stands for: a file, a folder's files, a pattern; and the columns in their names.

A partitioned folder keeps columns in the names of its sub-folders: lake/year=2010/part-0.parquet.
"""

from __future__ import annotations

import glob
import os
from typing import Any
from urllib.parse import unquote

from gz._engine import InputError
from gz._ingest.read import remote

_NULL = "__HIVE_DEFAULT_PARTITION__"


def is_path(obj: Any) -> bool:
    return isinstance(obj, (str, os.PathLike))


def as_paths(value: Any) -> list[Any] | None:
    """[path] or a list of paths, as a list; None for anything else."""
    if is_path(value):
        return [value]
    listed = isinstance(value, (list, tuple)) and value and all(is_path(v) for v in value)
    return list(value) if listed else None


def located(path: Any, base: str) -> str:
    """As an address elsewhere, or as a local path that starts at `base`."""
    p = remote.local(os.fspath(path))
    return p if remote.is_remote(p) else os.path.join(base, os.path.expanduser(p))


def expand(path: Any, base: str = "") -> list[str]:
    """The files a path stands for: itself, a folder's files, or what a pattern matches; sorted."""
    p = located(path, base)
    if remote.is_remote(p):
        return remote.expand(p)
    if os.path.isdir(p):
        found = []
        for directory, folders, files in os.walk(p):
            folders[:] = sorted(f for f in folders if not f.startswith((".", "_")) or "=" in f)
            found += [os.path.join(directory, f) for f in sorted(files) if not f.startswith((".", "_"))]
        if not found:
            raise InputError(f"{p}: the folder holds no files")
        return found
    if not os.path.exists(p) and glob.has_magic(p):
        found = sorted(glob.glob(p, recursive=True))
        if not found:
            raise FileNotFoundError(f"no file matches {p}")
        return found
    return [p]


def partition_root(path: Any, base: str) -> str:
    """What partitions are looked for below: the folder as it is given, or nothing above a file or pattern."""
    p = located(path, base)
    while not remote.is_remote(p) and glob.has_magic(p) and not os.path.exists(p):
        p = os.path.dirname(p)
    return p


def partitions(files: list[str], root: str) -> list[dict[str, Any]]:
    """For each file the columns in its folder names, as Arrow's scalars: int64 where every file has an
    integer there or nothing, else text.

    Not by pyarrow.dataset: what it does not find it makes null without a word (a file beside the partitions),
    integers past 32 bits it makes text, and it holds more than twice the memory (benchmarks/parsers.py).
    """
    found = [_pairs(f, root) for f in files]
    names = list(dict.fromkeys(n for pairs in found for n in pairs))
    columns: list[dict[str, Any]] = [{} for _ in files]
    if not names:
        return columns
    import pyarrow as pa  # only now: it takes 40 MB, which .npy files can do without

    for n in names:
        for file, pairs in zip(files, found, strict=True):
            if n not in pairs:
                raise InputError(
                    f"{file}: lies outside the partitions {n}=..., where other files of {root} lie; move it "
                    "into one, or give the folders or files that belong together"
                )
        values = [None if pairs[n] == _NULL else pairs[n] for pairs in found]
        integers = all(v is None or _is_integer(v) for v in values)
        for column, v in zip(columns, values, strict=True):
            column[n] = pa.scalar(int(v) if integers and v else v, pa.int64() if integers else pa.string())
    return columns


def _pairs(file: str, root: str) -> dict[str, str]:
    below = file[len(root) :].strip("/").split("/")[:-1]
    pairs = (part.partition("=") for part in below)
    return {unquote(k): unquote(v) for k, equals, v in pairs if equals and k}


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and -(1 << 63) <= int(text) < 1 << 63
