"""Who is writing: an exclusive lock that the kernel gives back when its process dies, however it dies."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import warnings
from pathlib import Path

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)


class Lock:
    """flock on a file. Made by try_lock(); release() or the end of the process gives it up."""

    def __init__(self, fd: int):
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)  # also for a forked child that holds the same descriptor
            os.close(self._fd)
            self._fd = -1


def try_lock(path: Path, create: bool = False) -> Lock | None:
    """None when someone living holds it, or when there is no such file.

    Some network filesystems have no locks: there a new file counts as locked, and one that is there already
    as held by someone, since nobody can tell.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o666)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        here, there = os.fstat(fd), os.stat(path)
    except (BlockingIOError, FileNotFoundError):  # taken, or removed meanwhile
        os.close(fd)
        return None
    except OSError as e:
        if not create or e.errno not in _NO_LOCKS:
            os.close(fd)
            if e.errno in _NO_LOCKS:
                return None
            raise
        here = there = os.fstat(fd)
    if here.st_ino != there.st_ino:
        os.close(fd)
        return None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return Lock(fd)


def wait_for_lock(fd: int, path: str) -> None:
    """Waits for the lock of an open file. Where the filesystem has no locks, it goes on with a warning: then
    nobody else may change what the lock is for."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError as e:
        if e.errno not in _NO_LOCKS:
            raise
        warnings.warn(
            f"{path}: this filesystem has no locks; nobody else may change the store meanwhile",
            RuntimeWarning,
            stacklevel=4,
        )


def holder(path: Path) -> str:
    """The process that wrote its number into the lock last, for messages."""
    try:
        return f"process {int(path.read_text())}"
    except (OSError, ValueError):
        return "another process"
