"""Input files, each opened once, whoever asks and however often, and read by position.

A table keeps its file for as long as the ingest lasts, from the look at its header to its last row. But a
folder may have more files than a process may have open: of those that nobody is reading only the last few
stay open, and one that was closed is opened again when its turn comes.
"""

from __future__ import annotations

import io
import os
import resource
import threading
from collections import OrderedDict
from typing import Any

from gz._base.files import check_regular
from gz._ingest.read import remote
from gz._ingest.read.paths import expand

_MOST_OPEN = 64


class _Descriptor:
    """Closed when its last reader lets go of it."""

    def __init__(self, path: str):
        self.fd = -1
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read_into(self, view: memoryview, at: int) -> int:
        return os.preadv(self.fd, [view], at)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class _Arrow:
    """A file of pyarrow's: what Parquet is read from, and what lies elsewhere."""

    def __init__(self, path: str):
        import pyarrow as pa

        self.file: Any = remote.open_file(path) if remote.is_remote(path) else pa.OSFile(path, "rb")

    def read_into(self, view: memoryview, at: int) -> int:
        data = self.file.read_at(len(view), at)
        view[: len(data)] = data
        return len(data)


class InputFile:
    """One file. Made by Files.get(), so that there is one for each path."""

    def __init__(self, path: str, files: Files):
        self.path, self._files = path, files
        self.is_remote = remote.is_remote(path)
        self.known: dict[str, Any] = {}  # what a reader found out about it and wants to keep
        self._handle: Any = None
        self._size: int | None = None

    def __repr__(self) -> str:
        return repr(self.path)

    @property
    def size(self) -> int:
        if self._size is None:
            self._size = remote.size(self.path) if self.is_remote else os.path.getsize(self.path)
        return self._size

    def handle(self) -> Any:
        """Open for as long as somebody holds it."""
        return self._files.opened(self, _Arrow if self.is_remote else _Descriptor)

    def arrow(self) -> Any:
        """As a file of pyarrow's, which may be read on many threads if it is here."""
        return self._files.opened(self, _Arrow).file

    def read_at(self, at: int, n: int) -> bytes:
        with self.reader(at) as f:
            return f.read(n)

    def reader(self, at: int = 0) -> io.BufferedReader:
        """A file object with a position of its own; close() leaves the file to the others."""
        return io.BufferedReader(Reader(self, at), 1 << 17)


class Reader(io.RawIOBase):
    def __init__(self, file: InputFile, at: int = 0):
        self._file, self._handle, self._at = file, file.handle(), at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size}[whence]
        self._at = start + offset
        return self._at

    def readinto(self, view: Any) -> int:
        n = self._handle.read_into(memoryview(view), self._at)
        self._at += n
        return n


class Files:
    """The input files of one ingest. `base`: where relative paths start."""

    def __init__(self, base: str = ""):
        self.base = base
        self._all: dict[str, InputFile] = {}
        self._open: OrderedDict[InputFile, None] = OrderedDict()
        self._most = min(_MOST_OPEN, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
        self._lock = threading.Lock()

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open:
            file._handle = None
        self._open.clear()

    def expand(self, path: Any) -> list[str]:
        return expand(path, self.base)

    def get(self, path: str) -> InputFile:
        key = path if remote.is_remote(path) else os.path.abspath(path)
        return self._all.setdefault(key, InputFile(path, self))

    def opened(self, file: InputFile, kind: Any) -> Any:
        with self._lock:
            if not isinstance(file._handle, kind):
                if not file.is_remote:
                    check_regular(file.path)
                file._handle = kind(file.path)
            self._open[file] = None
            self._open.move_to_end(file)
            if len(self._open) > self._most:
                self._open.popitem(last=False)[0]._handle = None
            return file._handle
