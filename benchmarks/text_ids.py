"""An edge list whose ids are text, under a memory limit: seconds, memory, and every edge compared with what
pandas makes of the same file.

--scale 1 is 15 M edges over 8 M ids of 13 bytes, in a cgroup of 2 GB that counts the page cache too (needs
root). Wanted: 20 s. The store is compared outside the limit: ids in the order pandas.factorize finds them,
edges sorted by both ends.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import _common

EDGES, NODES = 15_000_000, 8_000_000
LIMIT = 2_000_000_000
MEMORY = "1GB"  # the rest of the limit is Python, buffers and page cache
SECONDS = 20.0
BLOCK = 1 << 20


def main() -> None:
    args = _common.options(__doc__)
    from _process import run_python

    edges, nodes = int(EDGES * args.scale), int(NODES * args.scale)
    folder = args.data / f"text-ids-{args.scale:g}"
    folder.mkdir(parents=True, exist_ok=True)
    csv, out = folder / "edges.csv", folder / "store"
    if not csv.exists():
        write(csv, edges, nodes)
    report = _common.Report("text_ids", args, edges=edges, ids=nodes, limit=LIMIT, memory=MEMORY)
    if args.peers_only:
        report.finish()
    code = f"gz.ingest({str(out)!r}, edges={str(csv)!r}, ids='text', memory={MEMORY!r})"
    setup = f"import gz, numpy, pyarrow; gz.set_num_threads({args.threads})"
    seconds, cpu, held, rss = [], [], 0, 0
    for _ in range(args.repeat):
        shutil.rmtree(out, ignore_errors=True)
        evict(csv)
        usage = run_python(code, setup=setup, limit=LIMIT)
        seconds.append(usage.seconds)
        cpu.append(usage.cpu)
        held, rss = max(held, usage.capped or 0), max(rss, usage.peak_rss)
    report.rates("text ids to a store", {"gz": seconds}, unit="M edges/s", work=edges / 1e6)
    report.note(f"CPU seconds: {min(cpu):.1f} at best, {max(cpu):.1f} at worst")
    report.note(f"peak RSS {rss / 1e6:,.0f} MB; the cgroup held {held / 1e6:,.0f} MB, page cache included")
    report.limits("time", _common.Limit("gz", min(seconds), SECONDS * args.scale, "s"))
    wrong = compare(csv, out)
    report.limits("compared with pandas.factorize", _common.Limit("edges and ids that differ", wrong, 0, ""))
    shutil.rmtree(out)
    report.finish()


def evict(path: Path) -> None:
    """Out of the page cache, or reading it would not count: pages are charged to whoever brought them in."""
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def write(path: Path, edges: int, nodes: int) -> None:
    """Every node occurs: the first edges name them all, in an order of their own."""
    import numpy as np

    row = np.dtype([("src", "S13"), ("comma", "S1"), ("dst", "S13"), ("end", "S1")])
    hexadecimal = np.array([f"{i:05x}" for i in range(1 << 20)], "S5")
    rng = np.random.default_rng(0)
    partial = path.with_suffix(".partial")
    with open(partial, "wb") as f:
        f.write(b"src,dst\n")
        for at in range(0, edges, BLOCK):
            n = min(BLOCK, edges - at)
            ends = rng.integers(0, nodes, (2, n))
            first = np.arange(2 * at, 2 * (at + n)).reshape(n, 2).T
            ends = np.where(first < nodes, first, ends)
            lines = np.empty(n, row)
            lines["comma"], lines["end"] = b",", b"\n"
            for name, ids in zip(("src", "dst"), ends, strict=True):
                key = ids * 0x9E3779B1 % (1 << 40)  # an odd factor: no two nodes share a key
                text = np.char.add(hexadecimal[key >> 20], hexadecimal[key & 0xFFFFF])
                lines[name] = np.char.add(b"id-", text)
            lines.tofile(f)
    partial.rename(path)


def compare(csv: Path, store_path: Path) -> int:
    """How many ids and edges of the store are not those that pandas reads."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyarrow.csv

    import gz

    table = pa.csv.read_csv(
        csv, convert_options=pa.csv.ConvertOptions(column_types={"src": "str", "dst": "str"})
    )
    rows = table.num_rows
    both = pa.chunked_array([*table["src"].chunks, *table["dst"].chunks])
    del table
    codes, texts = pd.factorize(pd.Series(both, dtype=pd.ArrowDtype(pa.string())))
    del both
    codes = np.ascontiguousarray(codes.reshape(2, rows).T).reshape(-1)  # source, destination, source, ...
    dense, order = pd.factorize(codes)
    texts = pa.chunked_array(texts.__arrow_array__()) if not hasattr(texts, "take") else texts
    del codes
    store = gz.open(store_path)
    wrong = abs(store.num_nodes() - len(order)) + abs(store.num_edges() - rows)
    if wrong:
        return wrong
    ids = store.id_map()
    for at in range(0, len(order), BLOCK):
        mine = ids.to_original(np.arange(at, min(len(order), at + BLOCK)))
        theirs = texts.take(order[at : at + BLOCK]).tolist()
        wrong += sum(a != b for a, b in zip(mine, theirs, strict=True))
    src, dst = dense[0::2], dense[1::2]
    place = np.lexsort((src, dst))
    graph = store.graph()
    indptr = np.zeros(len(order) + 1, np.int64)
    np.cumsum(np.bincount(dst, minlength=len(order)), out=indptr[1:])
    wrong += int((np.asarray(graph.indptr).astype(np.int64) != indptr).sum())
    return wrong + int((np.asarray(graph.indices) != src[place]).sum())


if __name__ == "__main__":
    main()
