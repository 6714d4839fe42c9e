"""From OGB's binary papers100M layout to a store under a memory cap: how fast, and in how much memory?

Writes a dataset with the files, arrays, dtypes and proportions of ogbn-papers100M (raw/data.npz,
raw/node-label.npz, split/time/*.csv.gz) at one or more scales, 1 being papers100M itself: 111,059,956 nodes,
1,615,685,872 edges, 128 float32 a node. It is written and read in pieces and never in memory as a whole.

The ingest runs in a process of its own inside a cgroup of --cap bytes, page cache included, from an emptied
cache. It is measured against copying the same bytes on the same disk plus reading them once, under the same
cap. Wanted: at most twice that, and a peak of memory that does not grow with the scale. Needs root.

    python benchmarks/ogb_layout.py --scale 0.01 0.03 0.1 --data /mnt/disk/gz-bench
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
from _common import Limit, Report
from _process import drop_caches, run_python
from numpy.lib import format as npy_format

NODES, EDGES, WIDTH = 111_059_956, 1_615_685_872, 128
LABELLED = {"train": 1_207_179, "valid": 125_265, "test": 214_338}
BLOCK = 1 << 20  # items generated at once


def sizes(scale: float) -> tuple[int, int]:
    return max(1000, round(NODES * scale)), max(1000, round(EDGES * scale))


def sources(block: int, n: int, nodes: int) -> np.ndarray:
    """Skewed: half of the edges come from a quarter of the nodes."""
    u = np.random.default_rng((1, block)).random(n, dtype=np.float32)
    return np.minimum((u * u * nodes).astype(np.int64), nodes - 1)


def destinations(block: int, n: int, nodes: int) -> np.ndarray:
    return np.random.default_rng((2, block)).integers(0, nodes, n)


def features(block: int, rows: int, width: int) -> np.ndarray:
    return np.random.default_rng((3, block)).random((rows, width), dtype=np.float32)


def blocks(total: int, size: int = BLOCK):
    return ((k, min(size, total - k * size)) for k in range(-(-total // size)))


def member(archive: zipfile.ZipFile, name: str, dtype, shape, pieces) -> None:
    """One array, written piece by piece: only the piece is in memory."""
    with archive.open(f"{name}.npy", "w", force_zip64=True) as f:
        head = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": tuple(shape)}
        npy_format.write_array_header_1_0(f, head)
        for piece in pieces:
            f.write(memoryview(np.ascontiguousarray(piece, dtype)).cast("B"))


def generate(root: Path, scale: float, width: int, deflate: bool) -> None:
    if (root / "done").exists():
        return
    shutil.rmtree(root, ignore_errors=True)
    (root / "raw").mkdir(parents=True)
    nodes, edges = sizes(scale)
    kind = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
    with zipfile.ZipFile(root / "raw" / "data.npz", "w", kind, compresslevel=1) as z:

        def ends():
            for make in (sources, destinations):
                for k, n in blocks(edges):
                    yield make(k, n, nodes)

        member(z, "num_nodes_list", np.int64, (1,), [[nodes]])
        member(z, "edge_index", np.int64, (2, edges), ends())
        member(z, "num_edges_list", np.int64, (1,), [[edges]])
        rows = (features(k, n, width) for k, n in blocks(nodes, BLOCK // 8))
        member(z, "node_feat", np.float32, (nodes, width), rows)
        years = (np.random.default_rng((4, k)).integers(1980, 2020, n) for k, n in blocks(nodes))
        member(z, "node_year", np.int64, (nodes, 1), years)
    share = sum(LABELLED.values()) / NODES

    def labels():
        for k, n in blocks(nodes):
            g = np.random.default_rng((5, k))
            y = g.integers(0, 172, n).astype(np.float32)
            y[g.random(n) >= share] = np.nan
            yield y

    with zipfile.ZipFile(root / "raw" / "node-label.npz", "w", kind, compresslevel=1) as z:
        member(z, "node_label", np.float32, (nodes, 1), labels())
    at = 0
    (root / "split" / "time").mkdir(parents=True)
    for name, count in LABELLED.items():
        n = max(1, int(count * nodes / NODES))
        ids = (np.arange(at, at + n) * 61) % nodes
        with gzip.open(root / "split" / "time" / f"{name}.csv.gz", "wt", compresslevel=1) as f:
            f.write("\n".join(map(str, ids.tolist())) + "\n")
        at += n
    (root / "done").touch()


def copy_and_read(source: Path, target: Path) -> str:
    """Code that copies every file and then reads the copies, through the disk both times."""
    return f"""
import os
buffer = bytearray(1 << 24)
pairs = []
for folder, _, files in os.walk({str(source)!r}):
    for f in files:
        a = os.path.join(folder, f)
        b = os.path.join({str(target)!r}, os.path.relpath(a, {str(source)!r}))
        os.makedirs(os.path.dirname(b), exist_ok=True)
        pairs.append((a, b))
for a, b in pairs:
    with open(a, "rb", buffering=0) as r, open(b, "wb", buffering=0) as w:
        while n := r.readinto(buffer):
            w.write(memoryview(buffer)[:n])
        os.fsync(w.fileno())
        os.posix_fadvise(w.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
for _, b in pairs:
    with open(b, "rb", buffering=0) as r:
        while r.readinto(buffer):
            pass
"""


def check(store: Path, scale: float, width: int) -> None:
    """The store holds what was generated: counts, edges, rows, labels, splits."""
    import gz

    nodes, edges = sizes(scale)
    s = gz.open(store)
    assert (s.num_nodes(), s.num_edges()) == (nodes, edges)
    x, size = s.feature("x").get_tensor(), BLOCK // 8
    for k in {0, (nodes - 1) // size}:
        n = min(size, nodes - k * size)
        assert np.array_equal(x[k * size : k * size + n], features(k, n, width))
    src, dst = sources(0, min(BLOCK, edges), nodes)[:200], destinations(0, min(BLOCK, edges), nodes)[:200]
    for u, v in zip(src.tolist(), dst.tolist(), strict=True):
        assert u in s.graph().neighbors(v)
    assert np.isnan(s.feature("y").get_tensor()).mean() > 0.9
    assert sorted(s.splits()) == ["test", "train", "valid"]


def measure(report: Report, args, scale: float) -> float:
    form = f"{scale:g}-{args.width}{'-deflated' if args.deflate else ''}"
    root = args.data / f"papers-layout-{form}"
    print(f"\nscale {scale:g}: generating {root}", flush=True)
    generate(root, scale, args.width, args.deflate)
    nodes, edges = sizes(scale)
    files = [p for p in root.rglob("*") if p.is_file()]
    total = sum(p.stat().st_size for p in files)
    free = shutil.disk_usage(args.data).free
    need = max(total, nodes * (args.width * 4 + 24) + edges * 16)  # the copy goes before the store comes
    if free < need:
        sys.exit(f"{args.data}: {free / 1e9:.1f} GB free, {need / 1e9:.1f} GB needed: use --data")
    copy, store = args.data / "papers-copy", args.data / "papers-store"
    for old in (copy, store):
        shutil.rmtree(old, ignore_errors=True)
    cold = drop_caches()
    base = run_python(copy_and_read(root, copy), limit=args.cap)
    shutil.rmtree(copy)
    drop_caches()
    code = f"gz.ingest({str(store)!r}, ogb={str(root)!r}, memory={args.memory!r})"
    usage = run_python(code, setup="import gz, gz._ingest", limit=args.cap)
    check(store, scale, args.width)
    shutil.rmtree(store)
    ratio = usage.seconds / base.seconds
    report.note(
        f"scale {scale:g}: {nodes:,} nodes, {edges:,} edges, {total / 1e9:.2f} GB in files"
        f"{' (deflated)' if args.deflate else ''}, {'from disk' if cold else 'page cache not emptied'}"
    )
    report.note(
        f"   copy + read {base.seconds:.1f} s ({total / base.seconds / 1e6:.0f} MB/s); ingest "
        f"{usage.seconds:.1f} s ({total / usage.seconds / 1e6:.0f} MB/s), peak memory "
        f"{usage.peak_rss / 1e6:.0f} MB, before it {usage.rss_before / 1e6:.0f} MB"
    )
    report.limits(
        f"scale {scale:g}",
        Limit("ingest against copy + read", ratio, 2.0, "x"),
        Limit("peak memory of the ingest", usage.peak_rss / 1e6, args.cap / 1e6, "MB"),
    )
    if not args.keep:
        shutil.rmtree(root)
    return usage.peak_rss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, nargs="+", default=[0.001, 0.003, 0.01], help="1 = papers100M")
    parser.add_argument("--width", type=int, default=WIDTH, help="features a node; 1: edges alone")
    parser.add_argument("--data", type=Path, default=Path("/tmp/gz-bench"), help="folder for generated data")
    parser.add_argument("--cap", type=int, default=2_000_000_000, help="bytes of the cgroup around it")
    parser.add_argument("--memory", default="1GB", help="the budget given to gz.ingest")
    parser.add_argument("--deflate", action="store_true", help="compress the archives, as OGB's DatasetSaver")
    parser.add_argument("--keep", action="store_true", help="keep the generated dataset")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    from gz._base.sizes import parse_memory

    args.data.mkdir(parents=True, exist_ok=True)
    scales, args.scale = sorted(args.scale), max(args.scale)
    args.repeat, args.peers_only = 1, False
    name = "ogb_layout" + ("-deflated" if args.deflate else "") + ("-edges" if args.width == 1 else "")
    report = Report(name, args, cap=args.cap, memory=args.memory, width=args.width, deflate=args.deflate)
    peaks = {scale: measure(report, args, scale) for scale in scales}
    # Below this an ingest needs less than its budget, and more with more edges.
    full = [scale for scale in scales if sizes(scale)[1] * 8 > parse_memory(args.memory)]
    if len(full) > 1:
        growth = Limit(
            f"peak at {full[-1]:g} over peak at {full[0]:g}", peaks[full[-1]] / peaks[full[0]], 1.1, "x"
        )
        report.limits("memory does not depend on the size, once the edges are more than the budget", growth)
    else:
        report.note(
            "growth of memory not judged: fewer than two scales have more edges than the budget holds"
        )
    report.finish()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    main()
