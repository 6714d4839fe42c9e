"""Rows stored as float16, bfloat16 and int8 and read as float32: how fast, how few bytes, and what a model
loses.

    python benchmarks/small_rows.py --scale 0.1 [--seeds 10] [--networks FOLDER]

warm      gather of 300,000 random rows of 128 values from the page cache, against the same rows stored as
          float32. Wanted: no slower.
cold      one gather of rows from a file that is not in memory, without a row cache: bytes read and rows a
          second. Blocks of 4096 bytes are read, so rows that lie apart cost the same whatever their size;
          what a smaller file gains is that rows fall into the same block, and that more of them fit.
accuracy  GraphSAGE on the whole graph, the same initial weights and training nodes for each dtype: Cora and
          Citeseer (from FOLDER, ../shared/data or $GZ_TEST_DATA; left out where they are not) and the graph
          of the benchmarks at 1/500. Wanted: float16 within the spread of the seeds, int8 within 0.5 points.
"""

from __future__ import annotations

import os
from pathlib import Path

import _common

ROWS, COLD_ROWS = 300_000, 20_000
KINDS = ("float32", "float16", "bfloat16", "int8")
MOST_LOST = {"int8": 0.5, "bfloat16": 0.5}  # points of accuracy; float16: the spread of the seeds


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


# ---- accuracy ----


def networks(folder: Path):
    """(name, edges, x, y), as PyG's tutorials have them: undirected, rows normalised."""
    import numpy as np

    for name in ("cora", "citeseer"):
        file = folder / f"{name}.npz"
        if not file.is_file():
            print(f"   {file} is not there: {name} is left out")
            continue
        with np.load(file, allow_pickle=False) as z:
            n, width = (int(v) for v in z["attr_shape"])
            src = np.repeat(np.arange(n), np.diff(z["adj_indptr"]))
            edges = np.stack([src, z["adj_indices"]]).astype(np.int64)
            x = np.zeros((n, width), np.float32)
            x[np.repeat(np.arange(n), np.diff(z["attr_indptr"])), z["attr_indices"]] = z["attr_data"]
            x /= np.maximum(1e-12, np.linalg.norm(x, axis=1, keepdims=True))
            yield name, edges, x, z["labels"].astype(np.int64)


def generated():
    import generate
    import numpy as np

    graph = generate.Graph.scaled(0.002)
    edges = np.concatenate([np.stack(e) for e in generate.edge_chunks(graph)], axis=1)
    x = np.concatenate(list(generate.feature_chunks(graph)))
    return "generated", edges, x, np.asarray(generate.labels(graph))


def accuracy_of(data, seed: int) -> float:
    """Of nodes that were not trained on, in percent: 20 of each class are, as Shchur et al. do."""
    import numpy as np
    import torch
    import torch.nn.functional as F
    from torch_geometric.nn import GraphSAGE

    y, rng = data.y.numpy(), np.random.default_rng(seed)
    known = torch.zeros(len(y), dtype=torch.bool)
    for c in np.unique(y):
        of = np.flatnonzero(y == c)
        known[rng.choice(of, min(20, len(of) // 2), replace=False)] = True
    torch.manual_seed(seed)
    model = GraphSAGE(data.num_features, 64, num_layers=2, out_channels=int(y.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=0.03)
    x, edge_index = data.x + 0, data.edge_index + 0
    for _ in range(30):
        optimizer.zero_grad()
        F.cross_entropy(model(x, edge_index)[known], data.y[known]).backward()
        optimizer.step()
    with torch.no_grad():
        right = model(x, edge_index).argmax(1) == data.y
    return 100 * float(right[~known].float().mean())


def accuracies(report, folder: Path, scratch: Path, seeds: int) -> None:
    import tempfile

    import numpy as np

    import gz
    import gz_pyg

    for name, edges, x, y in [*networks(folder), generated()]:
        found = {}
        with tempfile.TemporaryDirectory(dir=scratch) as store:
            for kind in KINDS:
                path = Path(store) / kind
                given = {"x": x, "y": y}
                gz.ingest(path, edges, given, undirected=True, dtype={"x": kind}, progress=False)
                data = gz_pyg.load(path)
                found[kind] = np.array([accuracy_of(data, seed) for seed in range(seeds)])
        spread = found["float32"].std(ddof=1)
        limits = []
        for kind in KINDS[1:]:
            lost = found["float32"] - found[kind]
            error = lost.std(ddof=1) / seeds**0.5
            what = f"{name}, {kind}: points lost on average (+- {error:.2f})"
            limits.append(_common.Limit(what, lost.mean(), MOST_LOST.get(kind, spread), "points"))
        mean = found["float32"].mean()
        report.limits(f"{name}: float32 {mean:.2f} %, {spread:.2f} from seed to seed", *limits)


def main() -> None:
    here = Path(__file__).resolve().parents[2] / "shared/data"
    folder = os.environ.get("GZ_TEST_DATA", str(here))
    args = _common.options(
        __doc__, seeds=(10, "models trained for each dtype"), networks=(folder, "cora.npz, citeseer.npz")
    )
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
    report = _common.Report("small_rows", args, rows=ROWS, row_bytes=sizes, seeds=args.seeds)
    warm(*(p for p in path.rglob("*") if p.is_file()))
    warm_gathers(report, path, batches)
    cold_gathers(report, path, args.repeat)
    accuracies(report, Path(args.networks), args.data, args.seeds)
    report.finish()


if __name__ == "__main__":
    main()
