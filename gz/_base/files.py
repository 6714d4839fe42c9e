"""Files: names for those to write; of those to read, only what can be read at any place without waiting."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath


def as_path(path: str | bytes | os.PathLike[str]) -> str:
    """Absolute. The engine takes names in UTF-8; others are a ValueError."""
    text = os.path.abspath(os.fsdecode(path))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!r}: a name that is not UTF-8; rename it, or give a link to it") from None
    return text


def check_regular(file: int | str | os.PathLike[str], name: str | None = None) -> None:
    """OSError for what is not there, a directory, or something one waits for: a FIFO, a socket, a device."""
    name = name or str(file)
    mode = os.stat(file).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory, not a file", name)
    if not stat.S_ISREG(mode):
        what = "is not a regular file: a FIFO, a socket or a device cannot be read at any place"
        raise OSError(errno.EINVAL, what, name)


class FileNames:
    """Safe, unique file names for the names users give."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def get(self, directory: str, name: str, suffix: str = "") -> str:
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:80] or "_"
        path = f"{directory}/{safe}{suffix}" if directory else safe + suffix
        n = 2
        while path.lower() in self._taken:
            path = f"{directory}/{safe}~{n}{suffix}"
            n += 1
        self._taken.add(path.lower())
        return path


class Folder:
    """A store's folder, held open: what is opened through it belongs to one version of the store.

    An ingest that replaces a store gives its name to another folder. This one stays what it was, under
    another name and soon under none; its files can be opened as long as they are there, and are missing
    afterwards. Never does a file of the new store take the place of one of the old.
    """

    def __init__(self, path: str):
        self.path = path
        self._fd = -1
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    @contextmanager
    def opened(self, file: str) -> Iterator[int]:
        """A descriptor of a file by its path inside the folder. No symbolic link is followed on the way: what
        belongs to a store lies in it."""
        fd = os.dup(self._fd)
        try:
            *folders, name = PurePath(file).parts
            for folder in folders:
                fd = _step(fd, folder, os.O_DIRECTORY, os.path.join(self.path, file))
            # Without O_NONBLOCK, to open a pipe is to wait for whoever writes to it.
            fd = _step(fd, name, os.O_NONBLOCK, os.path.join(self.path, file))
            check_regular(fd, os.path.join(self.path, file))
            yield fd
        finally:
            os.close(fd)

    def read(self, file: str) -> bytes:
        with self.opened(file) as fd, open(fd, "rb", closefd=False) as f:
            return f.read()

    def size(self, file: str) -> int:
        """In bytes; 0 where there is no such file."""
        try:
            return os.stat(file, dir_fd=self._fd).st_size
        except OSError:
            return 0

    def is_current(self) -> bool:
        """Whether the path still leads here."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._fd))
        except OSError:
            return False


def _step(fd: int, name: str, flags: int, path: str) -> int:
    """From a folder to what it has under a name. Closes the folder, unless the step fails."""
    try:
        inner = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | flags, dir_fd=fd)
    except OSError as e:
        # To a link, open() says ELOOP, and ENOTDIR where a folder was asked for.
        if e.errno in (errno.ELOOP, errno.ENOTDIR) and stat.S_ISLNK(os.lstat(name, dir_fd=fd).st_mode):
            why = f"{name!r} is a symbolic link, and what belongs to a store lies in it"
            raise OSError(errno.ELOOP, f"{why}: put the file itself there, or adopt an .npy", path) from None
        raise OSError(e.errno, e.strerror, path) from None
    os.close(fd)
    return inner


def is_inside(root: str | os.PathLike[str], path: str | os.PathLike[str]) -> bool:
    """Whether no link leads a path of the store out of it: who writes there would write elsewhere."""
    home = os.path.realpath(root)
    return os.path.commonpath([home, os.path.realpath(path)]) == home


def check_inside(root: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    if not is_inside(root, path):
        raise OSError(errno.ELOOP, "a symbolic link leads out of the store", os.fspath(path))


def replaced(path: str, since: str = "while it was open") -> OSError:
    return OSError(errno.ESTALE, f"was replaced {since}; open it again", path)
