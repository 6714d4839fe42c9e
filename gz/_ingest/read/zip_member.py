"""One member of a zip file, read front to back without unpacking it: what .npz arrays are streamed from.

What is compressed Python's zipfile reads, in a thread of its own a few blocks ahead, so that inflating and
writing share the cores; entering it in the middle means inflating what lies before. A stored member is read
by position instead: the two halves of an edge_index come each byte once, where zipfile would read the first
half twice. Every byte is checked against the checksum the zip file keeps, in either way.
"""

from __future__ import annotations

import io
import lzma
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from gz._base.background import ahead
from gz._ingest.read.files import InputFile

_BLOCK = 1 << 20  # bytes a reader is ahead by, times _AHEAD
_AHEAD = 4
_LENGTHS = struct.Struct("<26xHH")  # of the name and the rest, at the end of a member's header


class Checksum:
    """CRC-32 of a stored member, from the pieces its readers saw; complete once the pieces cover it."""

    def __init__(self, info: zipfile.ZipInfo):
        self._size, self._expected = info.file_size, info.CRC
        self._pieces: dict[int, tuple[int, int]] = {}  # start: (bytes, crc)
        self._lock = threading.Lock()

    def start(self, at: int) -> None:
        with self._lock:
            self._pieces[at] = (0, 0)

    def add(self, start: int, data: memoryview) -> None:
        """More bytes of the piece that began at `start`. Raises BadZipFile when all is there and wrong."""
        with self._lock:
            length, crc = self._pieces[start]
        piece = (length + len(data), zlib.crc32(data, crc))
        with self._lock:
            self._pieces[start] = piece
            if sum(n for n, _ in self._pieces.values()) != self._size:
                return
            at = crc = 0
            while at in self._pieces and self._pieces[at][0]:
                length, next_crc = self._pieces[at]
                crc = combine(crc, next_crc, length)
                at += length
            if at == self._size and crc != self._expected:
                raise zipfile.BadZipFile("its checksum does not match: the file is damaged")


def combine(first: int, second: int, length: int) -> int:
    """The CRC-32 of two runs of bytes one after the other; `length` is that of the second.

    Appending zeros is a linear map on the 32 bits of a CRC: its matrix is squared from one bit to 2, 4, 8 ...
    """
    zeros = [0xEDB88320, *(1 << i for i in range(31))]
    bits = 8 * length
    while bits:
        if bits & 1:
            first = _times(zeros, first)
        zeros = [_times(zeros, row) for row in zeros]
        bits >>= 1
    return first ^ second


def _times(matrix: list[int], vector: int) -> int:
    out = 0
    for row in matrix:
        if vector & 1:
            out ^= row
        vector >>= 1
    return out


def open_member(file: InputFile, info: zipfile.ZipInfo, checksum: Checksum) -> Member:
    """Raises BadZipFile."""
    try:
        with zipfile.ZipFile(file.reader()) as z:
            opened = z.open(info)
    except (RuntimeError, NotImplementedError) as e:  # encrypted; a method that Python does not know
        raise zipfile.BadZipFile(str(e)) from None
    name, extra = _LENGTHS.unpack(file.read_at(info.header_offset, _LENGTHS.size))
    begin = info.header_offset + _LENGTHS.size + name + extra
    if begin + info.compress_size > file.size:
        raise zipfile.BadZipFile("reaches past the end of the file: truncated")
    if info.compress_type == zipfile.ZIP_STORED:
        return _Stored(file, begin, info.file_size, checksum)
    return _Compressed(opened)


class Member(io.RawIOBase):
    """A readable file; `seek` goes to a place in the member, before anything was read."""

    _at = _start = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, at: int, whence: int = 0) -> int:
        self._at = self._start = at
        return at

    def readinto(self, view: Any) -> int:
        """Fills what it can at once; 0 at the end."""
        n = self._fill(memoryview(view))
        self._at += n
        return n

    def _fill(self, view: memoryview) -> int:
        raise NotImplementedError


class _Stored(Member):
    def __init__(self, file: InputFile, begin: int, size: int, checksum: Checksum):
        self._handle, self._begin, self._size, self._checksum = file.handle(), begin, size, checksum

    def _fill(self, view: memoryview) -> int:
        view = view[: max(0, self._size - self._at)]
        n: int = self._handle.read_into(view, self._begin + self._at) if len(view) else 0
        if n:
            if self._at == self._start:
                self._checksum.start(self._start)
            self._checksum.add(self._start, view[:n])
        return n


class _Compressed(Member):
    def __init__(self, opened: Any):
        self._opened = opened
        self._blocks: Any = None
        self._rest = memoryview(b"")

    def _fill(self, view: memoryview) -> int:
        if self._blocks is None:
            self._blocks = ahead(_blocks(self._opened, self._at), _AHEAD)
        if not len(self._rest):
            self._rest = next(self._blocks, self._rest)
        n = min(len(view), len(self._rest))
        view[:n], self._rest = self._rest[:n], self._rest[n:]
        return n

    def close(self) -> None:
        if self._blocks is not None:
            self._blocks.close()
        super().close()


def _blocks(opened: Any, at: int) -> Iterator[memoryview]:
    """The content from byte `at` on. Knows no Member: one that is dropped takes its thread along."""
    try:
        while block := opened.read(min(at, _BLOCK) or _BLOCK):  # seek() would skip 16 MB at a time
            if at:
                at -= len(block)
            else:
                yield memoryview(block)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError) as e:
        raise zipfile.BadZipFile(f"its compressed data is damaged: {e or 'ends too early'}") from None
