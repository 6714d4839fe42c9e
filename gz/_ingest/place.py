"""A store appears complete, by a rename, or not at all."""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import secrets
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def new_store(out: str | os.PathLike[str], overwrite: bool) -> Iterator[Path]:
    """Gives a partial directory beside OUT; on success it becomes OUT, on any exception it is removed."""
    target = Path(os.path.abspath(out))
    if target.suffix == ".gz":
        raise ValueError(
            f"{target}: a store is a directory; a name that ends in .gz would be taken for a gzip file"
        )
    check_free(target, overwrite, "store")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "the folder to put the store in does not exist", str(target.parent)
        )
    mention_leftovers(target)
    partial = target.with_name(f"{target.name}.partial-{secrets.token_hex(4)}")
    partial.mkdir()
    try:
        yield partial
        sync_tree(partial)
        publish(partial, target, overwrite)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


@contextmanager
def new_file(out: str | os.PathLike[str], overwrite: bool) -> Iterator[Path]:
    """The same for a single file: gives the path to write, which is renamed to OUT on success."""
    target = Path(os.path.abspath(out))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a directory; give the name of a file", str(target))
    check_free(target, overwrite, "file")
    mention_leftovers(target)
    partial = target.with_name(f"{target.name}.partial-{secrets.token_hex(4)}")
    partial.mkdir()
    try:
        yield partial / target.name
        os.replace(partial / target.name, target)
        _sync(target.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_free(target: Path, overwrite: bool, what: str) -> None:
    if os.path.lexists(target) and not overwrite:
        raise FileExistsError(
            errno.EEXIST, f"this {what} exists; pass overwrite=True (--overwrite) to replace it", str(target)
        )


def mention_leftovers(target: Path) -> None:
    left = sorted(glob.glob(glob.escape(str(target)) + ".partial-*"))
    if left:
        warnings.warn(
            "an ingest that was killed left "
            + ", ".join(left)
            + "; delete it unless that ingest is still running",
            RuntimeWarning,
            stacklevel=4,
        )


def publish(partial: Path, target: Path, overwrite: bool) -> None:
    if os.path.lexists(target):
        if not overwrite:
            check_free(target, overwrite, "store")
        if _exchange(partial, target):
            _sync(target.parent)
            _remove(partial)  # which now holds the old one
            return
        aside = target.with_name(f"{target.name}.partial-old-{secrets.token_hex(4)}")
        os.rename(target, aside)
        os.rename(partial, target)
        _sync(target.parent)
        _remove(aside)
        return
    os.rename(partial, target)
    _sync(target.parent)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _exchange(a: Path, b: Path) -> bool:
    """Swaps two names in one step, where the kernel and the filesystem can."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    result = renameat2(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), ctypes.c_uint(_RENAME_EXCHANGE))
    return result == 0


def sync_tree(root: Path) -> None:
    """The files sync themselves; the directories that name them have to be synced too."""
    for directory, _, _ in os.walk(root):
        _sync(Path(directory))


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
