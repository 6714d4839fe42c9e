"""docs/format.md once more, as slow and plain Python: the rules of .gl and .gd files. Stores: see
format_rules.py."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from forge import tree_hash

SIZES = {1: 1, 2: 1, 3: 1, 4: 2, 5: 4, 6: 8, 7: 2, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}
VIEWS = {1: "u1", 2: "u1", 3: "i1", 4: "<i2", 5: "<i4", 6: "<i8", 7: "<f2", 8: "<u2", 9: "<f4", 10: "<f8"}
VIEWS |= {11: "<u4", 12: "<u8"}
BOOL, INTEGERS = 1, {2, 3, 4, 5, 6}
INT8, FLOAT16, BFLOAT16, FLOAT32 = 3, 7, 8, 9
SMALL = {INT8, FLOAT16, BFLOAT16}  # what float32 is read from
TOPOLOGY, FEATURE = 1, 2
LIMIT = 1 << 62


class Broken(Exception):
    """A rule, in words."""


def need(holds: Any, rule: str) -> None:
    if not holds:
        raise Broken(rule)


class File:
    """A .gl or .gd file whose header keeps the rules."""

    def __init__(self, path: Path, kind: int):
        self.data = path.read_bytes()
        need(len(self.data) >= 4096, "a header of 4096 bytes")
        head = bytearray(self.data[:4096])
        magic, version, order, found, header_bytes, size, checksum, self.flags = struct.unpack_from(
            "<8s4I3Q", head
        )
        need(magic == b"\x89GZF\r\n\x1a\n", "magic")
        need((version, order, header_bytes) == (1, 0x01020304, 4096), "version, byte order, header bytes")
        need(found == kind, "kind")
        head[32:40] = bytes(8)
        need(xxhash.xxh64_intdigest(bytes(head)) == checksum, "header checksum")
        need(size == len(self.data), "file bytes")
        need(not any(head[48:64]) and not any(head[392:]), "reserved bytes")
        self.checksum = f"{checksum:016x}"
        self.sections = [struct.unpack_from("<QQQII", head, 64 + 32 * i) for i in range(8)]
        self.shape_bytes = bytes(head[320:392])
        self._end = 4096

    def section(
        self, i: int, dtypes: set[int], items: int, item_bytes: int | None = None
    ) -> np.ndarray | None:
        """None where it is absent."""
        offset, size, checksum, dtype, reserved = self.sections[i]
        if dtype == 0:
            need(self.sections[i] == (0, 0, 0, 0, 0), "an absent section is all zeros")
            return None
        need(dtype in dtypes, f"dtype of section {i}")
        need(reserved == 0, "reserved")
        each = SIZES[dtype] if item_bytes is None else item_bytes
        need(size == items * each, f"bytes of section {i}")
        need(offset % 4096 == 0 and offset >= self._end, f"offset of section {i}")
        need(offset + size <= len(self.data), f"end of section {i}")
        self._end = offset + size
        raw = self.data[offset : offset + size]
        self.wrong_data = getattr(self, "wrong_data", False) or tree_hash(raw) != checksum
        return np.frombuffer(raw, VIEWS[dtype])

    def absent(self, *sections: int) -> None:
        for i in sections:
            need(self.sections[i] == (0, 0, 0, 0, 0), f"section {i} is absent")


class Feature(File):
    def __init__(self, path: Path):
        super().__init__(path, FEATURE)
        need(self.flags == 0, "flags")
        ndim, self.shown, *shape = struct.unpack("<II8Q", self.shape_bytes)
        need(1 <= ndim <= 8 and not any(shape[ndim:]), "shape")
        self.shape = tuple(shape[:ndim])
        self.stored = self.sections[0][3]
        need(self.stored in range(1, 11), "dtype of the data")
        need(self.shown == 0 or (self.shown == FLOAT32 and self.stored in SMALL), "what rows are read as")
        self.dtype = self.shown or self.stored
        self.scaled = self.shown != 0 and self.stored == INT8
        product = SIZES[self.dtype] + (4 if self.scaled else 0)
        for n in self.shape:
            product *= n or 1
        need(product < 1 << 63, "the product of the shape")
        values = int(np.prod([int(n) for n in self.shape[1:]], dtype=object))
        width = values * SIZES[self.stored] + (4 if self.scaled else 0)
        self.rows = self.section(0, {self.stored}, int(self.shape[0]), width)
        self.absent(*range(1, 8))

    def check_data(self) -> None:
        need(not self.wrong_data, "checksum of the data")
        if self.dtype == BOOL:
            need((self.rows <= 1).all(), "a bool is 0 or 1")
        if self.scaled:
            scales, steps = self._scaled()
            need((np.isfinite(scales) & (scales >= 0)).all(), "scales are finite and not negative")
            need((steps != -128).all(), "no value is -128")

    def _scaled(self) -> tuple[np.ndarray, np.ndarray]:
        rows = self.raw()
        return np.ascontiguousarray(rows[:, :4]).view("<f4"), rows[:, 4:].view(np.int8)

    def raw(self) -> np.ndarray:
        """The bytes of each row as they lie in the file."""
        count = int(self.shape[0])
        return self.rows.view(np.uint8).reshape(count, self.rows.nbytes // count if count else 0)

    def values(self) -> np.ndarray:
        """As they are read."""
        if self.shown == 0:
            return self.rows.reshape(self.shape)
        if self.scaled:
            scales, steps = self._scaled()
            return (scales * steps.astype(np.float32)).reshape(self.shape)
        if self.stored == BFLOAT16:
            return (self.rows.astype(np.uint32) << 16).view(np.float32).reshape(self.shape)
        return self.rows.astype(np.float32).reshape(self.shape)


class Topology(File):
    def __init__(self, path: Path):
        super().__init__(path, TOPOLOGY)
        need(self.flags < 4, "flags")
        n, other, edges, ids, direction, zero = struct.unpack_from("<4QII", self.shape_bytes)
        need(not any(self.shape_bytes[40:]) and zero == 0, "unused bytes of the shape")
        need(max(n, other, edges, ids) < LIMIT, "counts below 2^62")
        need(direction in (0, 1), "direction")
        self.num_nodes, self.num_other, self.num_edges, self.num_ids = n, other, edges, ids
        self.out = bool(direction)
        wide, narrow = 6, 11
        self.indptr = self.section(0, {12}, n + 1)
        need(self.indptr is not None, "indptr is there")
        self.indices = self.section(1, {wide, narrow}, edges)
        need(self.indices is not None, "indices are there")
        need(self.sections[1][3] == wide or other <= 1 << 32, "32-bit ids of many nodes")
        self.edge_ids = self.section(2, {wide, narrow}, edges)
        need(self.sections[2][3] != narrow or ids <= 1 << 32, "32-bit edge ids")
        self.positions = self.section(3, {wide, narrow}, ids)
        need(self.sections[3][3] != narrow or edges <= 1 << 32, "32-bit positions")
        self.weights = self.section(4, {9}, edges)
        self.alias = self.section(5, {narrow}, edges, 8)
        need((self.weights is None) == (self.alias is None), "alias exactly with weights")
        self.absent(6, 7)
        self.in_rows = bool(self.flags & 2)
        has_ids = self.edge_ids is not None
        need(not self.in_rows or (self.out and has_ids), "flag bit 1 only in an `out` file with edge_ids")
        need((self.positions is not None) == (has_ids and not self.in_rows), "edge_positions")
        need((has_ids and not self.in_rows) or ids == edges, "num_edge_ids equals num_edges")
        need(self.indptr[0] == 0 and self.indptr[-1] == edges, "ends of indptr")

    def check_data(self) -> None:
        need(not self.wrong_data, "checksum of a section")
        need(
            (self.indptr[1:] >= self.indptr[:-1]).all() and self.indptr.max() <= self.num_edges,
            "indptr descends",
        )
        need((self._unsigned(self.indices) < self.num_other).all(), "a neighbour below num_other")
        if self.flags & 1:
            for v in range(self.num_nodes):
                part = self._unsigned(self.indices[int(self.indptr[v]) : int(self.indptr[v + 1])])
                need((part[1:] >= part[:-1]).all(), "a list ascends")
        if self.edge_ids is not None:
            self._check_ids()
        if self.weights is not None:
            self._check_weights()

    @staticmethod
    def _unsigned(a: np.ndarray) -> np.ndarray:
        return a.view(f"<u{a.itemsize}").astype(np.uint64)

    def _check_ids(self) -> None:
        ids = self._unsigned(self.edge_ids)
        need((ids < self.num_ids).all(), "an edge id below num_edge_ids")
        count = Counter(ids.tolist())
        if self.in_rows:
            need(max(count.values(), default=0) <= 1, "every row occurs once")
            return
        none = np.uint64(2 ** (8 * self.positions.itemsize) - 1)
        at = self._unsigned(self.positions)
        need(((at < self.num_edges) | (at == none)).all(), "a position below num_edges, or all ones")
        need(max(count.values(), default=0) <= 2, "an id occurs at most twice")
        for i in count:
            need(at[i] != none and ids[int(at[i])] == i, "the position of an id leads back to it")

    def _check_weights(self) -> None:
        need((np.isfinite(self.weights) & (self.weights >= 0)).all(), "weights finite and not negative")
        self.unsure = False
        for v in range(self.num_nodes):
            a, b = int(self.indptr[v]), int(self.indptr[v + 1])
            self._check_alias(
                self.weights[a:b].astype(np.float64), self.alias.reshape(-1, 2)[a:b].astype(np.int64)
            )

    def _check_alias(self, w: np.ndarray, alias: np.ndarray) -> None:
        n = len(w)
        need((alias[:, 1] < n).all(), "a partner is a slot of the same list")
        if w.sum() == 0:
            need((alias[:, 0] == 0).all() and (alias[:, 1] == np.arange(n)).all(), "a list of no weight")
            return
        kept = np.where(alias[:, 0] == 2**32 - 1, 1.0, alias[:, 0] / 2**32)
        drawn = kept + np.bincount(alias[:, 1], 1 - kept, n)
        off = np.abs(drawn - w / w.sum() * n)
        need(
            off.max() < 1e-4 and (drawn[w == 0] == 0).all(), "neighbours come in proportion to their weights"
        )
        self.unsure |= bool(off.max() > 1e-8)  # "up to rounding": who is right there, the page does not say
