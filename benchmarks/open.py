"""Opening a store of 60 GB: under 10 ms, RSS growth under 10 MB. The files are sparse.

The store has the shape of ogbn-papers100M. A tiny one is ingested, then its headers and store.json are
given the numbers of the great one and the files are stretched to the lengths that follow.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import _common

# Sizes no other number in store.json will equal.
TINY_NODES, TINY_EDGES = 100_003, 200_003
NODES, EDGES, FEATURES = 111_059_956, 1_615_685_872, 128
MAX_MS, MAX_MB = 10.0, 10.0
PAGE = 4096
# docs/format.md: sections of (offset, bytes, checksum, dtype, reserved), then the shape.
SECTION, SECTIONS_AT, SHAPE_AT = struct.Struct("<QQQII"), 64, 320


def _grown(n: int) -> int:
    return {TINY_NODES: NODES, TINY_EDGES: EDGES}.get(n, n)


def _grow_json(value):
    if isinstance(value, dict):
        return {k: _grow_json(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_grow_json(v) for v in value]
    return _grown(value) if type(value) is int else value


def grow_file(path: Path) -> str:
    """Give a .gl or .gd file the great shape: every count in its header grows, every section with it.

    Returns the header's checksum, by which store.json knows the file.
    """
    import xxhash

    with open(path, "r+b") as f:
        header = bytearray(f.read(PAGE))
        kind = struct.unpack_from("<I", header, 16)[0]
        counts = range(SHAPE_AT, SHAPE_AT + 32, 8) if kind == 1 else range(SHAPE_AT + 8, SHAPE_AT + 72, 8)
        for at in counts:
            struct.pack_into("<Q", header, at, _grown(struct.unpack_from("<Q", header, at)[0]))
        end = PAGE
        for i in range(8):
            at = SECTIONS_AT + i * SECTION.size
            _, size, checksum, dtype, reserved = SECTION.unpack_from(header, at)
            if not size:
                continue
            # indptr has one entry more than there are nodes; all else grows in proportion.
            indptr = kind == 1 and i == 0
            if indptr:
                size = (NODES + 1) * 8
            elif kind == 1:
                size = size // TINY_EDGES * EDGES
            else:
                size = size // TINY_NODES * NODES
            SECTION.pack_into(header, at, end, size, checksum, dtype, reserved)
            if indptr:
                f.seek(end + size - 8)
                f.write(struct.pack("<Q", EDGES))
                f.seek(end + TINY_NODES * 8)
                f.write(bytes(8))
            end = -(-(end + size) // PAGE) * PAGE
        # The file ends where its last section does, not at the page after it, if that is how it was written.
        length = max(
            offset + size
            for offset, size, *_ in (
                SECTION.unpack_from(header, SECTIONS_AT + i * SECTION.size) for i in range(8)
            )
        )
        padded = struct.unpack_from("<Q", header, 24)[0] % PAGE == 0
        length = end if padded else length
        struct.pack_into("<Q", header, 24, length)
        struct.pack_into("<Q", header, 32, 0)
        checksum = xxhash.xxh64_intdigest(bytes(header), 0)
        struct.pack_into("<Q", header, 32, checksum)
        f.truncate(length)
        f.seek(0)
        f.write(header)
    return f"{checksum:016x}"


def make_store(folder: Path) -> Path:
    import numpy as np

    import gz

    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, TINY_NODES, (2, TINY_EDGES))
    store = folder / "papers100M-sparse"
    x = np.zeros((TINY_NODES, FEATURES), np.float32)
    gz.ingest(store, edges=(src, dst), features={"x": x}, num_nodes=TINY_NODES)
    manifest = store / "store.json"
    grown = _grow_json(json.loads(manifest.read_text()))
    for path in store.rglob("*"):
        if path.suffix in (".gl", ".gd"):
            grown["files"][str(path.relative_to(store))] = grow_file(path)
    manifest.write_text(json.dumps(grown, indent=1))
    return store


def main() -> None:
    args = _common.options(__doc__)
    from tempfile import TemporaryDirectory

    from _process import run_python

    report = _common.Report("open", args, nodes=NODES, edges=EDGES, features=FEATURES)
    if args.peers_only:
        report.note("there is no peer to measure")
        report.finish()
    with TemporaryDirectory(dir=args.data) as folder:
        store = make_store(Path(folder))
        size = sum(p.stat().st_size for p in store.rglob("*"))
        report.note(f"{size / 1e9:.1f} GB in {len(list(store.rglob('*')))} files")
        code = f"s = gz.open({str(store)!r}); g = s.graph(); x = s.feature('x').get_tensor()"
        runs = [run_python(code, setup="import gz") for _ in range(args.repeat)]
    growth = min(r.rss_after - r.rss_before for r in runs) / 1e6
    report.limits(
        "open, first in its process, with graph and tensor",
        _common.Limit("time", min(r.seconds for r in runs) * 1e3, MAX_MS, "ms"),
        _common.Limit("RSS growth", growth, MAX_MB, "MB"),
        _common.Limit("60 GB less size", 60 - size / 1e9, 0, "GB"),
    )
    report.finish()


if __name__ == "__main__":
    main()
