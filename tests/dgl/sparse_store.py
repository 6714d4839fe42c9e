"""A store of the size of ogbn-papers100M in sparse files: 70 GB that take a few MB of disk.

A small store is ingested; its headers and store.json get the great numbers, and the files are stretched. Only
the last nodes have edges: BUSY of degree DEGREE with neighbours all over the graph, and one that owns the
rest.
"""

from __future__ import annotations

import json
import os
import struct

import numpy as np
import xxhash

import gz

NODES, EDGES, WIDTH = 111_059_956, 1_615_685_872, 128
BUSY, DEGREE = 4000, 10
_SMALL_NODES, _SMALL_EDGES = 1009, 2003
_PAGE, _SECTIONS, _SHAPE = 4096, 64, 320
_SECTION = struct.Struct("<QQQII")


def _pages(n):
    return -(-n // _PAGE) * _PAGE


def _stretch(path, counts, sections, pieces):
    """counts: {offset in the header: value}; sections: {index: bytes}; pieces: [(section, offset, array)]."""
    with open(path, "r+b") as f:
        header = bytearray(f.read(_PAGE))
        for at, value in counts.items():
            struct.pack_into("<Q", header, at, value)
        begin = {}
        end = _PAGE
        for i, size in sections.items():
            at = _SECTIONS + i * _SECTION.size
            _, _, checksum, dtype, reserved = _SECTION.unpack_from(header, at)
            _SECTION.pack_into(header, at, end, size, checksum, dtype, reserved)
            begin[i] = end
            end = _pages(end + size)
        struct.pack_into("<Q", header, 24, end)
        struct.pack_into("<Q", header, 32, 0)
        struct.pack_into("<Q", header, 32, xxhash.xxh64_intdigest(bytes(header), 0))
        f.truncate(_PAGE)
        f.truncate(end)
        for i, offset, array in pieces:
            f.seek(begin[i] + offset)
            f.write(array.tobytes())
        f.seek(0)
        f.write(header)


def make(folder):
    """Returns (path, ids of the busy nodes, their neighbours [BUSY, DEGREE])."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, _SMALL_NODES, (2, _SMALL_EDGES))
    path = os.path.join(folder, "papers100M")
    features = {
        "feat": np.zeros((_SMALL_NODES, WIDTH), np.float32),
        "label": np.zeros(_SMALL_NODES, np.int64),
    }
    gz.ingest(path, edges=tuple(ends), features=features, num_nodes=_SMALL_NODES, progress=False)
    store = gz.open(path)

    busy = np.arange(NODES - 1 - BUSY, NODES - 1)
    neighbours = rng.integers(0, NODES, (BUSY, DEGREE))
    tail = np.append(np.arange(BUSY + 1, dtype=np.uint64) * DEGREE, np.uint64(EDGES))
    counts = {_SHAPE: NODES, _SHAPE + 8: NODES, _SHAPE + 16: EDGES, _SHAPE + 24: EDGES}
    sections = {0: 8 * (NODES + 1), 1: 4 * EDGES}
    pieces = [(0, 8 * (NODES + 1 - len(tail)), tail), (1, 0, neighbours.astype(np.uint32))]
    _stretch(store.graph().path, counts, sections, pieces)

    marks = (busy % 1000).astype(np.float32).repeat(WIDTH).reshape(BUSY, WIDTH)
    for name, row, array in (("feat", 4 * WIDTH, marks), ("label", 8, busy % 7)):
        _stretch(
            store.feature(name).path, {_SHAPE + 8: NODES}, {0: row * NODES}, [(0, row * int(busy[0]), array)]
        )

    manifest = os.path.join(path, "store.json")
    text = json.dumps(_grown(json.load(open(manifest))) | {"files": {}})  # whose headers were changed
    with open(manifest, "w") as f:
        f.write(text)
    return path, busy, neighbours


def _grown(value):
    if isinstance(value, dict):
        return {k: _grown(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_grown(v) for v in value]
    return {_SMALL_NODES: NODES, _SMALL_EDGES: EDGES}.get(value, value) if isinstance(value, int) else value
