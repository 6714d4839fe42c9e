"""Files of GraphZero 0.2, read once and checked, so that its users can move.

`.gl`: 64 bytes of header (magic "graphlit", sizes and offsets of the two arrays, numbers of nodes and edges,
flags), uint64 indptr, uint64 neighbours on a 64-byte boundary, grouped by source; flag bit 0: float32 weights
on the next 64-byte boundary. `.gd`: 32 bytes of header (magic "GZDATA26", flags, dtype, rows, columns), then
the rows. gz's own files have the same suffixes and another magic.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from gz._base.arrays import first_outside
from gz._base.dtypes import Column
from gz._engine import InputError
from gz._ingest.read.files import InputFile
from gz._ingest.read.npy import NpyArray, RawArray
from gz._ingest.read.tables import Chunk, Table

_GL = struct.Struct("<8s7Q")
_GD = struct.Struct("<8sIiQQ")
_GD_TYPES = {0: "int32", 1: "int64", 2: "float32", 3: "float64"}
_OWN_MAGIC = b"\x89GZF\r\n\x1a\n"


def _header(file: InputFile, form: struct.Struct, magic: bytes, what: str) -> tuple[int, ...]:
    path, head = file.path, file.read_at(0, form.size)
    if head.startswith(_OWN_MAGIC):
        raise InputError(
            f"{path}: is a file of gz itself: open it with gz.{what}, there is nothing to convert"
        )
    if not head.startswith(magic):
        raise InputError(f"{path}: is not a GraphZero file: it does not start with {magic.decode()!r}")
    if len(head) < form.size:
        raise InputError(f"{path}: is {len(head)} bytes long, less than its header: truncated")
    return form.unpack(head)[1:]


class GraphZeroEdges(Table):
    """The edges of a `.gl`, with a column `weight` where it has weights."""

    reads_files = True

    def __init__(self, file: InputFile):
        path = self.name = file.path
        in_bytes, col_bytes, in_at, col_at, nodes, edges, flags = _header(file, _GL, b"graphlit", "Graph")
        if in_bytes != 8 * (nodes + 1) or col_bytes != 8 * edges:
            raise InputError(
                f"{path}: its header says {nodes} nodes and {edges} edges, but arrays of {in_bytes} and "
                f"{col_bytes} bytes"
            )
        if flags > 1:
            raise InputError(f"{path}: has flags {flags:#x}; GraphZero 0.2 knows only weights (0x1)")
        weights_at = -(-(col_at + col_bytes) // 64) * 64
        end = weights_at + 4 * edges if flags & 1 else col_at + col_bytes
        if min(in_at, col_at) < _GL.size or in_at + in_bytes > col_at or end > file.size:
            raise InputError(f"{path}: is {file.size} bytes long, but its header promises {end}: truncated")
        self.num_nodes, self.rows = nodes, edges
        self._indptr = RawArray(file, "<u8", (nodes + 1,), in_at)
        self._arrays: dict[str, NpyArray] = {"dst": RawArray(file, "<u8", (edges,), col_at)}
        self.columns = [Column("src", "int64"), Column("dst", "uint64")]
        if flags & 1:
            self._arrays["weight"] = RawArray(file, "<f4", (edges,), weights_at)
            self.columns.append(Column("weight", "float32"))

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """Walks nodes in blocks, and the edges of a block in chunks."""
        indptr = self._indptr.stream()
        streams = {k: a.stream() for k, a in self._arrays.items()}
        try:
            ends = indptr.take(1)
            if ends[0]:
                raise InputError(f"{self.name}: its index does not start with 0")
            done, step = 0, 1 << 20
            for first in range(0, self.num_nodes, step):
                ends = np.concatenate([ends[-1:], indptr.take(min(step, self.num_nodes - first))])
                if (ends[1:] < ends[:-1]).any() or ends[-1] > (self.rows or 0):
                    node = first + int((ends[1:] < ends[:-1]).argmax())
                    raise InputError(f"{self.name}: its index descends or passes the edges near node {node}")
                while done < ends[-1]:
                    n = int(min(rows, int(ends[-1]) - done))
                    part = {k: s.take(n) for k, s in streams.items()}
                    self._check(part["dst"], done)
                    yield Chunk({"src": _owners(ends, first, done, n), **part}, n, self.name, done)
                    done += n
            if done != self.rows:
                raise InputError(f"{self.name}: its index ends at {done}, but there are {self.rows} edges")
        finally:
            indptr.close()
            for s in streams.values():
                s.close()

    def _check(self, dst: np.ndarray, first: int) -> None:
        if (i := first_outside(dst, self.num_nodes)) is not None:
            raise InputError(
                f"{self.name}, edge {first + i}: neighbour {dst[i]} is out of range: there are "
                f"{self.num_nodes} nodes"
            )


def _owners(ends: np.ndarray, first: int, at: int, n: int) -> np.ndarray:
    """The sources of edges at to at + n; `ends` is the index from node `first` on."""
    low = int(np.searchsorted(ends, at, side="right")) - 1
    high = int(np.searchsorted(ends, at + n, side="left"))
    bounds = np.clip(ends[low : high + 1].astype(np.int64), at, at + n)
    return np.repeat(np.arange(first + low, first + high, dtype=np.int64), np.diff(bounds))


def open_features(file: InputFile) -> NpyArray:
    """The rows of a `.gd`."""
    flags, kind, rows, width = _header(file, _GD, b"GZDATA26", "FeatureStore")
    if flags or kind not in _GD_TYPES:
        raise InputError(f"{file.path}: has flags {flags:#x} and dtype {kind}; GraphZero 0.2 knows 0 to 3")
    return RawArray(file, _GD_TYPES[kind], (rows, width), _GD.size)
