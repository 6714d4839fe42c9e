"""Rows stored as float16, bfloat16 and int8 and read as float32: how fast, and how few bytes. What a model
loses by it: small_accuracy.py.

    python benchmarks/small_rows.py --scale 0.1

warm      gather of 300,000 random rows of 128 values from the page cache, against the same rows stored as
          float32. Wanted: no slower.
cold      one gather of rows from a file that is not in memory, without a row cache: bytes read and rows a
          second. Blocks of 4096 bytes are read, so rows that lie apart cost the same whatever their size;
          what a smaller file gains is that rows fall into the same block, and that more of them fit.
"""

from __future__ import annotations

import os
from pathlib import Path

import _common

ROWS, COLD_ROWS = 300_000, 20_000
KINDS = ("float32", "float16", "bfloat16", "int8")


def make_store(graph, path: Path) -> None:
    """The features of the graph, once in each dtype."""
    import generate
    import numpy as np

    import gz

    features = {kind: generate.feature_chunks(graph) for kind in KINDS}
    edges = np.zeros((2, 0), np.int64)
    gz.ingest(path, edges=edges, features=features, dtype={k: k for k in KINDS}, progress=False)


def warm_gathers(report, path: Path, batches) -> None:
    import torch

    import gz

    columns = {kind: gz.open(path).feature(kind) for kind in KINDS}
    out = torch.empty((ROWS, columns["float32"].shape[1]))
    contestants = {kind: lambda turn, c=c: c.gather(batches[turn], out=out) for kind, c in columns.items()}
    report.contest(
        "warm gather(out=) into float32",
        contestants,
        unit="GB/s",
        work=out.numel() * 4 / 1e9,
        targets=tuple(_common.Target(kind, ("float32",), 1.0) for kind in KINDS[1:]),
    )


def cold_gathers(report, path: Path, rounds: int) -> None:
    """Files are put out of the page cache one by one, which needs no rights and disturbs nobody. Pages that
    are mapped stay: nothing else may have the files open."""
    import gc
    import time

    import numpy as np

    import gz

    seconds, told = {kind: [] for kind in KINDS}, {}
    gc.collect()
    for turn in range(rounds):
        for kind in KINDS:
            column = gz.FeatureStore(gz.open(path).feature(kind).path, cache=0)
            column._file.configure(0, False)
            with open(column.path, "rb") as f:
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            ids = np.random.default_rng(turn).integers(0, len(column), COLD_ROWS)
            start = time.perf_counter()
            column.gather(ids)
            seconds[kind].append(time.perf_counter() - start)
            told[kind] = column.stats()
    report.rates("cold gather", seconds, unit="rows/s", work=COLD_ROWS)
    for kind, stats in told.items():
        read, reads = stats["bytes_read"] / 1e6, stats["reads"]
        report.note(f"{kind:<9} {read:8.1f} MB in {reads:,} reads for {COLD_ROWS:,} rows")


def main() -> None:
    args = _common.options(__doc__)
    import numpy as np
    from _data import Data
    from _process import warm

    import gz

    data = Data(args.data, args.scale)
    gz.set_num_threads(args.threads)
    size = data.graph.num_nodes * data.graph.num_features * 10.0
    path = data._make("small-rows", size, lambda p: make_store(data.graph, p))
    sizes = {k: gz.open(path).feature(k).nbytes // data.graph.num_nodes for k in KINDS}
    rng = np.random.default_rng(1)
    batches = [rng.integers(0, data.graph.num_nodes, ROWS) for _ in range(args.repeat + 1)]
    report = _common.Report("small_rows", args, rows=ROWS, row_bytes=sizes)
    warm(*(p for p in path.rglob("*") if p.is_file()))
    warm_gathers(report, path, batches)
    cold_gathers(report, path, args.repeat)
    report.finish()


if __name__ == "__main__":
    main()
