"""Rows of a file written in another order, in bounded memory and with sequential reads and writes only.

Output row p is input row ids[p]; several p may want the same row. Fetching rows one by one would read a page
for each of them as soon as the file is larger than memory. Instead, three sweeps:

  1  (ids[p], p) for all p, into a file for each range of input rows
  2  range by range: its rows are read whole, and (p, row) goes into a file for each range of output rows
  3  range by range: the rows are put in their places and handed on in order
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_PAIR = np.dtype([("id", "<i8"), ("place", "<i8")])
_CHUNK = 1 << 20  # pairs looked at a time
_MOST_FILES = 256


def permuted(
    read: Callable[[int, int], NDArray[Any]],
    rows: int,
    ids: Callable[[int, int], NDArray[np.int64]],
    count: int,
    row: np.dtype[Any],
    folder: Path,
    memory: int,
) -> Iterator[NDArray[Any]]:
    """Yields the output in order, piece by piece.

    `read(a, b)` gives input rows a to b as an array of dtype `row`; `ids(a, b)` the input rows of outputs a
    to b, -1 for a row of zeros; `folder` is for temporary files.
    """
    size = max(1, row.itemsize)
    record = np.dtype([("place", "<i8"), ("row", row)])
    # A range is in memory with its pairs or records and a sorted copy of them.
    in_step = _step(rows, memory // 4 // (size + 4 * _PAIR.itemsize))
    out_step = _step(count, memory // 4 // (2 * size + record.itemsize))
    chunk = max(1024, min(_CHUNK, memory // 16 // (_PAIR.itemsize * 4)))
    with ExitStack() as stack:
        pairs = _Ranges(stack, folder, _PAIR, "id", in_step, rows)
        for a in range(0, count, chunk):
            b = min(count, a + chunk)
            part = np.empty(b - a, _PAIR)
            part["id"], part["place"] = ids(a, b), np.arange(a, b)
            pairs.add(part[part["id"] >= 0])
        records = _Ranges(stack, folder, record, "place", out_step, count)
        for first, blocks in pairs.ranges():
            block = read(first, min(rows, first + in_step))
            for part in blocks(chunk):
                moved = np.empty(len(part), record)
                moved["place"], moved["row"] = part["place"], block[part["id"] - first]
                records.add(moved)
            del block
        for first, blocks in records.ranges():
            out = np.zeros((min(count, first + out_step) - first, *row.shape), row.base)
            for part in blocks(max(1024, memory // 16 // record.itemsize)):
                out[part["place"] - first] = part["row"]
            yield out


def _step(total: int, fits: int) -> int:
    """Rows of a range: what fits, unless that would make too many files."""
    return max(1, fits, -(-total // _MOST_FILES))


class _Ranges:
    """Records in a temporary file for each range of one of their fields."""

    def __init__(self, stack: ExitStack, folder: Path, dtype: np.dtype[Any], key: str, step: int, total: int):
        self._dtype, self._key, self._step = dtype, key, step
        self._files: list[IO[bytes]] = [
            stack.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115 - the stack closes it
            for _ in range(-(-total // step))
        ]

    def add(self, part: NDArray[Any]) -> None:
        which = part[self._key] // self._step
        order = np.argsort(which, kind="stable")
        part = part[order]
        ends = np.searchsorted(which[order], np.arange(len(self._files) + 1))
        for f, a, b in zip(self._files, ends[:-1], ends[1:], strict=True):
            if b > a:
                f.write(part[a:b].tobytes())

    def ranges(self) -> Iterator[tuple[int, Callable[[int], Iterator[NDArray[Any]]]]]:
        """(first row of the range, a function that reads its records in blocks); each file is read once."""
        for i, f in enumerate(self._files):
            f.seek(0)

            def blocks(records: int, f: IO[bytes] = f) -> Iterator[NDArray[Any]]:
                while raw := f.read(records * self._dtype.itemsize):
                    yield np.frombuffer(raw, self._dtype)

            yield i * self._step, blocks
            f.close()
