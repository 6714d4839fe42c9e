"""What ingest must produce, by numpy and plain loops; and a reader of .gl/.gd bytes independent of gz."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

DTYPES = {
    1: "?",
    2: "u1",
    3: "i1",
    4: "<i2",
    5: "<i4",
    6: "<i8",
    7: "<f2",
    9: "<f4",
    10: "<f8",
    11: "<u4",
    12: "<u8",
}
NAMES = ("indptr", "indices", "edge_ids", "positions", "weights", "alias")


@dataclass
class Gl:
    num_nodes: int
    num_other: int
    num_edges: int
    num_edge_ids: int
    out: bool
    flags: int
    indptr: np.ndarray
    indices: np.ndarray
    edge_ids: np.ndarray | None
    positions: np.ndarray | None
    weights: np.ndarray | None
    alias: np.ndarray | None

    def pairs(self) -> list[tuple[int, int]]:
        owner = np.repeat(np.arange(self.num_nodes), np.diff(self.indptr.astype(np.int64)))
        return list(zip(owner.tolist(), self.indices.tolist(), strict=True))


def tree_hash(data: bytes) -> int:
    chunk = 4 << 20
    hashes = [xxhash.xxh64_intdigest(data[i : i + chunk]) for i in range(0, len(data), chunk)]
    return xxhash.xxh64_intdigest(np.array(hashes, "<u8").tobytes())


def _sections(path):
    raw = Path(path).read_bytes()
    head = bytearray(raw[:4096])
    assert head[:8] == b"\x89GZF\r\n\x1a\n"
    assert int.from_bytes(head[24:32], "little") == len(raw)
    checksum = int.from_bytes(head[32:40], "little")
    head[32:40] = bytes(8)
    assert xxhash.xxh64_intdigest(bytes(head)) == checksum
    out = []
    for i in range(8):
        s = head[64 + 32 * i : 96 + 32 * i]
        offset, size, digest = np.frombuffer(bytes(s[:24]), "<u8").tolist()
        dtype = int.from_bytes(s[24:28], "little")
        if not dtype:
            assert bytes(s) == bytes(32)
            out.append(None)
            continue
        assert offset % 4096 == 0
        data = raw[offset : offset + size]
        assert len(data) == size
        assert tree_hash(data) == digest
        out.append(np.frombuffer(data, DTYPES[dtype]))
    return head, out


def read_gl(path) -> Gl:
    head, s = _sections(path)
    n, o, e, ids = np.frombuffer(bytes(head[320:352]), "<u8").tolist()
    direction = int.from_bytes(head[352:356], "little")
    return Gl(n, o, e, ids, bool(direction), int.from_bytes(head[40:48], "little"), *s[:6])


def read_gd(path) -> np.ndarray:
    head, s = _sections(path)
    ndim = int.from_bytes(head[320:324], "little")
    shape = np.frombuffer(bytes(head[328 : 328 + 8 * ndim]), "<u8").astype(int)
    return s[0].reshape(shape)


def reference(src, dst, n, undirected=False, coalesce=False, self_loops="keep", by_id=True):
    """Edges as (dst, src, edge id) in topology order, and for every input edge where it is (or None)."""
    num = len(src)
    inputs = [(int(d), int(s), i, 0) for i, (s, d) in enumerate(zip(src, dst, strict=True))]
    present = {(d, s) for d, s, _, _ in inputs}
    edges = list(inputs)
    if undirected:
        edges += [(s, d, i, 1) for d, s, i, _ in inputs if (s, d) not in present]
    if self_loops == "remove":
        edges = [e for e in edges if e[0] != e[1]]
    survivor = {}
    if coalesce:
        kept = []
        for e in sorted(edges, key=lambda e: (e[3], e[2])):
            if (e[0], e[1]) not in survivor:
                survivor[e[0], e[1]] = e
                kept.append(e)
        edges = kept
    if self_loops == "add":
        has = {d for d, s in present if d == s}
        edges += [(v, v, None, 2) for v in range(n) if v not in has]
    if by_id:
        edges.sort(key=lambda e: (e[0], e[1], e[3], -1 if e[2] is None else e[2]))
    else:
        edges.sort(key=lambda e: (e[0], e[3], -1 if e[2] is None else e[2]))
    out, added = [], 0
    for d, s, i, _ in edges:
        if i is None:
            i, added = num + added, added + 1
        out.append((d, s, i))
    place = {(d, s, i): p for p, (d, s, i) in enumerate(out)}
    where = []
    for d, s, i, _ in inputs:
        p = place.get((d, s, i))
        if p is None and coalesce and (d, s) in survivor:
            e = survivor[d, s]
            p = place.get((e[0], e[1], e[2]))
        where.append(p)
    where += [p for p, (_, _, i) in enumerate(out) if i >= num]
    return out, where
