"""What a model loses by rows that are stored as float16, bfloat16 and int8 and read as float32.

    python benchmarks/small_accuracy.py --scale 0.004 [--seeds 10] [--networks FOLDER]

Cora and Citeseer (from FOLDER, ../shared/data or $GZ_TEST_DATA; left out where they are not): GraphSAGE on
the whole graph. The generated graph, of profile `papers100m-directed` at --scale: GraphSAGE on batches of
gz_pyg's loader from a store that has the features once in each dtype, so that all four models of a seed see
the same batches. They begin with the same weights, too: what is left between them is the rows.

Wanted, of the points of accuracy that are lost on average over the seeds: float16 within the spread from seed
to seed, int8 within 0.5. The generated task has to be one that can be failed: float32 between 60 and 95 %.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _common

KINDS = ("float32", "float16", "bfloat16", "int8")
MOST_LOST = {"int8": 0.5, "bfloat16": 0.5}  # points of accuracy; float16: the spread of the seeds
PROFILE, NOISE, CLASSES = "papers100m-directed", 6.0, 64
BATCH, FANOUTS, EPOCHS, HIDDEN = 512, [10, 5], 6, 64
LEAST, MOST = 60.0, 95.0


def judged(report: _common.Report, name: str, found: dict[str, Any], seconds: float) -> None:
    """Points lost by each dtype, in pairs of models that differ in nothing else."""
    import numpy as np

    of = {kind: np.array(values) for kind, values in found.items()}
    seeds, spread = len(of["float32"]), of["float32"].std(ddof=1)
    limits = []
    for kind in KINDS[1:]:
        lost = of["float32"] - of[kind]
        error = lost.std(ddof=1) / seeds**0.5
        what = f"{name}, {kind}: points lost on average (+- {error:.2f})"
        limits.append(_common.Limit(what, lost.mean(), MOST_LOST.get(kind, spread), "points"))
    mean = of["float32"].mean()
    report.limits(f"{name}: float32 {mean:.2f} %, {spread:.2f} from seed to seed", *limits)
    values = {kind: [round(float(v), 4) for v in found[kind]] for kind in KINDS}
    report.tables.append({"title": name, "accuracy": values, "took": seconds})


def table(record: dict[str, Any]) -> str:
    """Of a result file, for docs/howto.md."""
    import numpy as np

    lines = ["| | float32 | from seed to seed | " + " | ".join(f"`{k}` loses" for k in KINDS[1:]) + " |"]
    lines.append("|---" * (len(KINDS) + 2) + "|")
    seeds = 0
    for found in (t for t in record["tables"] if "accuracy" in t):
        of = {kind: np.array(values) for kind, values in found["accuracy"].items()}
        seeds = len(of["float32"])
        cells = [f"{of['float32'].mean():.1f} %", f"{of['float32'].std(ddof=1):.2f}"]
        for kind in KINDS[1:]:
            lost = of["float32"] - of[kind]
            error = lost.std(ddof=1) / seeds**0.5
            cells.append(f"{lost.mean():+.2f} \u00b1 {error:.2f}".replace("-", "\u2212"))
        lines.append(f"| {found['title']} | " + " | ".join(cells) + " |")
    told = f"Points of accuracy, the mean of {seeds} pairs and its standard error, {record['date']}."
    return "\n".join([*lines, "", told])


# ---- real networks, as a whole ----


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


def whole_graphs(report: _common.Report, folder: Path, scratch: Path, seeds: int) -> None:
    import gz
    import gz_pyg

    for name, edges, x, y in networks(folder):
        found, start = {}, time.monotonic()
        with tempfile.TemporaryDirectory(dir=scratch) as store:
            for kind in KINDS:
                path, given = Path(store) / kind, {"x": x, "y": y}
                gz.ingest(path, edges, given, undirected=True, dtype={"x": kind}, progress=False)
                data = gz_pyg.load(path)
                found[kind] = [accuracy_of(data, seed) for seed in range(seeds)]
        judged(report, name, found, time.monotonic() - start)


# ---- the generated one, in batches ----


def make_store(papers: Any, path: Path) -> None:
    import gz

    rows = range(papers.num_row_chunks)
    features: dict[str, Iterator[Any]] = {
        kind: (papers.feature_chunk(i, "float32") for i in rows) for kind in KINDS
    }
    gz.ingest(
        path,
        edges=(papers.edge_chunk(i) for i in range(papers.num_edge_chunks)),
        features={**features, "y": (papers.label_chunk(i) for i in rows)},
        splits=papers.splits,
        num_nodes=papers.graph.num_nodes,
        dtype={kind: kind for kind in KINDS},
        progress=False,
    )


def accuracies_of(path: Path, classes: int, seed: int) -> dict[str, float]:
    """Of one model for each dtype, in percent, on the nodes of the splits valid and test."""
    import torch
    import torch.nn.functional as F
    from torch_geometric.nn import GraphSAGE

    import gz
    import gz_pyg

    store = gz.open(path)
    splits = {name: torch.from_numpy(store.split(name)) for name in ("train", "valid", "test")}
    data = gz_pyg.load(path)
    models = {}
    for kind in KINDS:
        torch.manual_seed(seed)
        models[kind] = GraphSAGE(data[kind].shape[1], HIDDEN, num_layers=2, out_channels=classes)

    def guessed(model: Any, kind: str, batch: Any) -> torch.Tensor:
        # By hop: of nodes that only lend their features no layer is computed.
        by_hop = {
            "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
            "num_sampled_edges_per_hop": batch.num_sampled_edges,
        }
        return model(batch[kind], batch.edge_index, **by_hop)[: batch.batch_size]

    steps = {k: torch.optim.Adam(m.parameters(), lr=0.01, weight_decay=1e-3) for k, m in models.items()}
    torch.manual_seed(seed)
    train = gz_pyg.NeighborLoader(data, FANOUTS, splits["train"], batch_size=BATCH, shuffle=True)
    for _ in range(EPOCHS):
        for batch in train:
            n = batch.batch_size
            for kind, model in models.items():
                steps[kind].zero_grad()
                F.cross_entropy(guessed(model, kind, batch), batch.y[:n]).backward()
                steps[kind].step()
    held_out = torch.cat([splits["valid"], splits["test"]])
    right = dict.fromkeys(KINDS, 0)
    with torch.no_grad():
        for batch in gz_pyg.NeighborLoader(data, [20, 10], held_out, batch_size=BATCH):
            n = batch.batch_size
            for kind, model in models.items():
                right[kind] += int((guessed(model, kind, batch).argmax(1) == batch.y[:n]).sum())
    return {kind: 100 * count / len(held_out) for kind, count in right.items()}


def generated_graph(report: _common.Report, scale: float, scratch: Path, seeds: int) -> None:
    import papers100m

    papers = papers100m.Papers(scale, profile=PROFILE, noise=NOISE, classes=CLASSES)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        make_store(papers, Path(folder) / "store")
        runs = [accuracies_of(Path(folder) / "store", papers.graph.num_classes, s) for s in range(seeds)]
    found = {kind: [run[kind] for run in runs] for kind in KINDS}
    name = f"generated, {papers.graph.num_nodes:,} nodes, {papers.graph.num_classes} classes"
    judged(report, name, found, time.monotonic() - start)
    mean = sum(found["float32"]) / seeds
    report.limits(
        "a task that can be failed",
        _common.Limit("float32 below the most", mean, MOST, "%"),
        _common.Limit("float32 short of the least", LEAST - mean, 0, "points"),
    )


def main() -> None:
    here = Path(__file__).resolve().parents[2] / "shared/data"
    folder = os.environ.get("GZ_TEST_DATA", str(here))
    args = _common.options(
        __doc__, seeds=(10, "models trained for each dtype"), networks=(folder, "cora.npz, citeseer.npz")
    )
    import torch

    import gz

    torch.set_num_threads(args.threads)
    gz.set_num_threads(args.threads)
    setting = {"profile": PROFILE, "noise": NOISE, "batch": BATCH, "fanouts": FANOUTS, "epochs": EPOCHS}
    report = _common.Report("small_accuracy", args, seeds=args.seeds, **setting)
    whole_graphs(report, Path(args.networks), args.data, args.seeds)
    generated_graph(report, args.scale, args.data, args.seeds)
    report.finish()


if __name__ == "__main__":
    main()
