"""What `gz reorder` is worth: reads and bytes a batch of features before and after, under a memory limit.

    python benchmarks/hot_rows.py --scale 0.1 --profile papers100m-directed --data /data

A store of the profile (papers100m.py), a limit of as large a share of it as 8 GiB are of papers100M (and 64
MiB for the interpreter), batches of as large a share as 1,024 seeds are, fanouts [15, 10, 5]. Sampling and
gathering alone, no model: what is measured is what comes from the disk. Page caches are dropped before each
run; root. Counts do not depend on who else uses the machine, but times do.

`--together 4,16`: also with the rows of so many batches read at once, each of them once, as look_ahead.py
counts it. They lie in memory as long as their batches are used.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

import papers100m
from _process import drop_caches
from out_of_core import run

READ = """
import json, sys, time, zlib
import numpy as np, gz
path, batch, warm_up, batches, together = sys.argv[1], *map(int, sys.argv[2:6])
gz.set_num_threads(2)
store = gz.open(path)
graph, x = store.graph(), store.feature("x")
seeds = np.random.default_rng(1).permutation(store.split("train"))
check, rows, start, opened = 0, 0, {}, time.perf_counter()
for i in range(0, warm_up + batches, together):
    if i == warm_up:
        start, lists, rows, began = x.stats(), graph.stats(), 0, time.perf_counter()
    nodes = []
    for j in range(i, i + together):
        at = j * batch % (len(seeds) - batch)
        nodes.append(graph.sample(seeds[at : at + batch], [15, 10, 5], rng_seed=j).nodes)
    union = np.unique(np.concatenate(nodes)) if together > 1 else nodes[0]
    found = x.gather(union)
    for each in nodes:
        some = found[np.searchsorted(union, each[:100])] if together > 1 else found[:100]
        check = zlib.crc32(some.tobytes(), check)
        rows += len(each)
    del found
seconds, end = time.perf_counter() - began, x.stats()
of = {k: (end[k] - start[k]) / batches for k in ("mapped", "hot", "hits", "misses", "reads", "bytes_read")}
print(json.dumps(dict(
    rows_per_batch=rows / batches, **{k + "_per_batch": v for k, v in of.items()},
    warm_up_reads=start["reads"], warm_up_bytes=start["bytes_read"],
    topology_reads_per_batch=(graph.stats()["reads"] - lists["reads"]) / batches,
    cache_bytes=end["cache_bytes"], cache_why=end["cache_why"], ms_per_batch=seconds / batches * 1e3,
    check=check)))
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--profile", default="papers100m-directed")
    parser.add_argument("--data", type=Path, default=Path("/tmp/gz-bench"))
    parser.add_argument("--share", type=float, default=0.125, help="of the rows, of `gz reorder`")
    parser.add_argument("--limit", type=float, default=8.0, help="GiB at scale 1")
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--warm-up", type=int, default=100)
    parser.add_argument("--together", default="", help="numbers of batches; each divides the others above")
    parser.add_argument("--keep", action="store_true", help="keep the store")
    args = parser.parse_args()

    import gz

    papers = papers100m.Papers(args.scale, profile=args.profile)
    store = args.data / f"hot-{args.profile}-{args.scale:g}"
    result = {"profile": args.profile, "scale": args.scale, "load": os.getloadavg()[0]}
    if not store.exists():
        args.data.mkdir(parents=True, exist_ok=True)
        made = papers100m.generate_store(store, papers, "float32", "1GB", 2, quiet=True)
        result["ingest_seconds"] = made["seconds"]
    gz.reorder(store, undo=True)
    share = papers.graph.num_nodes / 111_059_956  # of papers100M's rows
    limit = int(args.limit * 2**30 * share) + (64 << 20)
    batch = max(1, round(1024 * share))
    result |= {"limit": limit, "batch": batch}
    for name in ("plain", "hot first"):
        if name == "hot first":
            start = time.monotonic()
            result["hot_rows"] = gz.reorder(store, share=args.share, memory="1GB")["node/x"]
            result["reorder_seconds"] = round(time.monotonic() - start, 1)
        for together in (1, *map(int, filter(None, args.together.split(",")))):
            drop_caches()
            numbers = (batch, args.warm_up, args.batches, together)
            title = name if together == 1 else f"{name}, {together} together"
            result[title] = run(["-c", READ, str(store), *map(str, numbers)], limit)
            print(json.dumps({title: result[title]}), file=sys.stderr)
    runs = [result[title] for title in result if title.startswith(("plain", "hot first"))]
    same = all(found.get("check") == runs[0].get("check", 0) for found in runs)
    result["same_rows"] = same
    print(json.dumps(result, indent=1))
    if not args.keep:
        shutil.rmtree(store)
    if not same:
        raise SystemExit("the rows differ")


if __name__ == "__main__":
    main()
