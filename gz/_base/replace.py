"""What may be replaced: a store by a store, an export by an export, a file of ours by one; nothing else.

Whatever the flags, nothing is deleted that gz did not make. What it made is told by name: store.json lists
the files of a store, the head of graph.toml those of an export, gz-partition.json those of a partitioning.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MAGIC = b"\x89GZF\r\n\x1a\n"  # every .gl and .gd file begins with it (docs/format.md)
_EDITED = re.compile(r"(.*/)?[^/]*~[0-9a-f]{8}(\.gd|\.new/.*)")  # columns added later, and drafts of them
_SHOWN = 5

EXPORT_HEAD = "# gz ingest NEW --spec "
EXPORT_FILES = "# files: "


class Kind:
    """A kind of folder that gz makes."""

    def __init__(self, name: str, marker: str, work: str):
        self.name, self.marker, self.work = name, marker, work

    def made(self, folder: Path) -> set[str] | None:
        """The files gz has made in such a folder, as far as they are named; None: it is none of ours."""
        raise NotImplementedError


class _Store(Kind):
    def made(self, folder: Path) -> set[str] | None:
        try:
            told = json.loads((folder / self.marker).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if not isinstance(told, dict) or told.get("format") != "gz-store":
            return None
        parts = [told.get(k) for k in ("nodes", "edges", "edge_splits")]  # elsewhere are the names of inputs
        return {self.marker, self.marker + ".new", ".lock", *_strings(parts)}


class _Export(Kind):
    def made(self, folder: Path) -> set[str] | None:
        try:
            with open(folder / self.marker, encoding="utf-8") as f:
                head, files = f.readline(), f.readline()
            if not (head.startswith(EXPORT_HEAD) and files.startswith(EXPORT_FILES)):
                return None
            return {self.marker, *json.loads(files.removeprefix(EXPORT_FILES))}
        except (OSError, ValueError, TypeError):
            return None


class _Partition(Kind):
    format = "gz-partition"

    def made(self, folder: Path) -> set[str] | None:
        try:
            told = json.loads((folder / self.marker).read_text(encoding="utf-8"))
            return {str(f) for f in told["files"]} if told.get("format") == self.format else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None


STORE = _Store("store", "store.json", "an ingest")
EXPORT = _Export("export", "graph.toml", "an export")
PARTITION = _Partition("partitioned graph", "gz-partition.json", "a partitioning")


def _strings(value: Any) -> Iterator[str]:
    """Every text in store.json that may name a file; adopted .npy files are the user's."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for v in value:
            yield from _strings(v)
    elif isinstance(value, dict):
        for k, v in value.items():
            if k != "npy":
                yield from _strings(v)


def folder_to_replace(out: str | os.PathLike[str], overwrite: bool, kind: Kind) -> Path:
    """Where the folder is to lie: OUT, or what the link OUT leads to. FileExistsError: not there."""
    given = Path(os.path.abspath(out))
    if not os.path.lexists(given):
        return given
    target = Path(os.path.realpath(given)) if given.is_symlink() else given
    if (why := _not_replaceable(given, target, kind)) is not None:
        raise FileExistsError(errno.EEXIST, why, str(given))
    if not overwrite:
        raise FileExistsError(
            errno.EEXIST,
            f"this {kind.name} exists; pass overwrite=True (--overwrite) to replace it",
            str(given),
        )
    return target


def file_to_replace(out: str | os.PathLike[str], overwrite: bool) -> Path:
    """The same for a single file: what is replaced is a .gl or .gd file, or an empty one."""
    given = Path(os.path.abspath(out))
    if not os.path.lexists(given):
        return given
    target = Path(os.path.realpath(given)) if given.is_symlink() else given
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a directory; give the name of a file", str(given))
    if not target.is_file() or not _is_file_of_ours(target):
        what = f"leads to {target}, which is" if given.is_symlink() else "is there and is"
        raise FileExistsError(
            errno.EEXIST,
            f"{what} no file that gz made, and is never replaced; choose another name",
            str(given),
        )
    if not overwrite:
        raise FileExistsError(
            errno.EEXIST, "this file exists; pass overwrite=True (--overwrite) to replace it", str(given)
        )
    return target


def _is_file_of_ours(path: Path) -> bool:
    with open(path, "rb") as f:
        return f.read(len(_MAGIC)) in (b"", _MAGIC)


def _not_replaceable(given: Path, target: Path, kind: Kind) -> str | None:
    link = f"leads to {target}, which " if given.is_symlink() else ""
    never = "and is never replaced; choose another name"
    if not target.is_dir():
        return f"{link or 'is there and '}is no {kind.name} of gz, {never}"
    real = Path(os.path.realpath(target))
    for place, what in ((_cwd(), "the current directory"), (_home(), "your home directory")):
        if place is not None and (real == place or real in place.parents):
            return f"{link}is {what if real == place else f'a parent of {what}'}, {never}"
    if os.path.ismount(target):
        return f"{link}is a mount point, {never}"
    made = kind.made(target)
    if made is None:
        return f"{link or 'is there and '}is no {kind.name} of gz (it has no {kind.marker} of ours), {never}"
    others = _others(target, made)
    if others:
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        return (
            f"{link}holds files that gz did not make: {', '.join(others[:_SHOWN])}{more}. Nothing is deleted "
            "that gz did not make: move them elsewhere, or choose another name"
        )
    return None


def _cwd() -> Path | None:
    try:
        return Path(os.path.realpath(os.getcwd()))
    except OSError:  # it was deleted
        return None


def _home() -> Path | None:
    try:
        return Path(os.path.realpath(Path.home()))
    except RuntimeError:
        return None


def _files(folder: Path) -> Iterator[str]:
    """Relative paths of all that is no folder; a link to a folder is no folder."""
    for where, folders, files in os.walk(folder):
        links = [f for f in folders if os.path.islink(os.path.join(where, f))]
        for name in (*files, *links):
            yield os.path.relpath(os.path.join(where, name), folder)


def _others(folder: Path, made: set[str]) -> list[str]:
    return sorted(f for f in _files(folder) if f not in made and not _EDITED.fullmatch(f))


def remove_replaced(folder: Path, kind: Kind) -> None:
    """Removes of a replaced folder what gz made; what someone put there at the last moment stays."""
    made = kind.made(folder) or set()
    others = set(_others(folder, made))
    if not others:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for file in _files(folder):
        if file not in others:
            with contextlib.suppress(OSError):
                os.unlink(folder / file)
