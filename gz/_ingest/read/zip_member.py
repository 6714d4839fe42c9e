"""One member of a zip file, read front to back without unpacking it: what .npz arrays are streamed from.

A stored member is read straight from the file and can be entered anywhere. A deflated one is inflated in a
thread of its own, a few blocks ahead, so that inflating and writing share the cores; entering it in the
middle means inflating what lies before. Every byte read is checked against the checksum the zip file keeps,
also when two readers take half a member each.
"""

from __future__ import annotations

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
_LOCAL_HEADER = struct.Struct("<4s22xHH")


class Checksum:
    """CRC-32 of a member, from the pieces its readers saw; complete once the pieces cover it."""

    def __init__(self, info: zipfile.ZipInfo):
        self._size, self._expected = info.file_size, info.CRC
        self._pieces: dict[int, tuple[int, int]] = {}  # start: (bytes, crc)
        self._lock = threading.Lock()

    def start(self, at: int) -> None:
        with self._lock:
            self._pieces[at] = (0, 0)

    def add(self, start: int, data: memoryview | bytes) -> None:
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

    Appending n zero bytes is a linear map on the 32 bits of a CRC: its matrix is squared into place.
    """
    if not first:
        return second
    odd = [0xEDB88320, *(1 << i for i in range(31))]  # one zero bit
    even = _square(odd)  # two
    odd = _square(even)  # four
    while length:
        even = _square(odd)
        if length & 1:
            first = _times(even, first)
        length >>= 1
        if not length:
            break
        odd = _square(even)
        if length & 1:
            first = _times(odd, first)
        length >>= 1
    return first ^ second


def _times(matrix: list[int], vector: int) -> int:
    out = i = 0
    while vector:
        if vector & 1:
            out ^= matrix[i]
        vector >>= 1
        i += 1
    return out


def _square(matrix: list[int]) -> list[int]:
    return [_times(matrix, row) for row in matrix]


class Member:
    """A readable file over one member; `seek` goes forward from the start, before anything was read."""

    def __init__(self, file: InputFile, info: zipfile.ZipInfo, checksum: Checksum):
        if info.flag_bits & 1:
            raise zipfile.BadZipFile("is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise zipfile.BadZipFile(f"is compressed by method {info.compress_type}; only deflate is read")
        self._info, self._checksum = info, checksum
        self._at = self._start = 0
        self._file = file.handle()
        head = file.read_at(info.header_offset, _LOCAL_HEADER.size)
        if len(head) != _LOCAL_HEADER.size:
            raise zipfile.BadZipFile("ends too early: truncated")
        magic, name, extra = _LOCAL_HEADER.unpack(head)
        if magic != b"PK\x03\x04":
            raise zipfile.BadZipFile("its header is not where the directory says")
        self._begin = info.header_offset + _LOCAL_HEADER.size + name + extra
        if self._begin + info.compress_size > file.size:
            raise zipfile.BadZipFile("reaches past the end of the file: truncated")
        self._blocks: Iterator[memoryview] | None = None
        self._rest = memoryview(b"")

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tell(self) -> int:
        return self._at

    def seek(self, at: int) -> int:
        self._at = self._start = at
        return at

    def read(self, n: int) -> bytes:
        out = bytearray(n)
        got = self.readinto(memoryview(out))
        return bytes(out[:got])

    def readinto(self, view: memoryview) -> int:
        """Fills what it can at once; 0 at the end."""
        if self._info.compress_type == zipfile.ZIP_STORED:
            view = view[: max(0, min(len(view), self._info.file_size - self._at))]
            n = self._file.read_into(view, self._begin + self._at) if len(view) else 0
        else:
            n = self._inflated(view)
        if n:
            if self._at == self._start:
                self._checksum.start(self._start)
            self._checksum.add(self._start, view[:n])
            self._at += n
        return n

    def close(self) -> None:
        if self._blocks is not None:
            self._blocks.close()  # type: ignore[attr-defined]

    def _inflated(self, view: memoryview) -> int:
        if self._blocks is None:
            self._blocks = ahead(_inflate(self._file, self._begin, self._info, self._at), _AHEAD)
        if not len(self._rest):
            self._rest = next(self._blocks, memoryview(b""))
        n = min(len(view), len(self._rest))
        view[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n


def _inflate(file: Any, at: int, info: zipfile.ZipInfo, skip: int) -> Iterator[memoryview]:
    """The content from byte `skip` on. Knows no Member: one that is dropped takes its thread along."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    end = at + info.compress_size
    data: memoryview | bytes = b""
    while not inflater.eof:
        if not data:
            raw = bytearray(min(1 << 18, end - at))
            data = memoryview(raw)[: file.read_into(memoryview(raw), at)]
            at += len(data)
            if not data:
                raise zipfile.BadZipFile("its compressed data ends too early")
        try:
            block = inflater.decompress(data, _BLOCK)
        except zlib.error as e:
            raise zipfile.BadZipFile(f"its compressed data is damaged: {e}") from None
        data = inflater.unconsumed_tail
        if skip >= len(block):
            skip -= len(block)
        else:
            yield memoryview(block)[skip:]
            skip = 0
