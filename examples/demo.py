"""`make demo`: a graph is generated, ingested and trained on, in about a minute.

What to look at: the loader reads the features from the file; peak memory stays below the size of the dataset
when the dataset is large (--scale 1 is 6.6 GB), and training needs no other change than the loader's name.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric import seed_everything
from torch_geometric.nn import GraphSAGE

import gz
import gz_pyg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
import generate


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, default=Path("demo-store"), help="made if it is not there")
    parser.add_argument(
        "--scale", type=float, default=0.03, help="1 = 11.1 M nodes, 155 M edges, 128 features"
    )
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batches", type=int, default=40, help="batches of an epoch; 0 for all")
    parser.add_argument("--fresh", action="store_true", help="make the store again")
    args = parser.parse_args()
    seed_everything(0)

    make_store(args)
    data = gz_pyg.load(args.store)
    print(data)

    split = data.get_idx_split()
    common = {"num_neighbors": [10, 10, 5], "batch_size": 512}
    train_loader = gz_pyg.NeighborLoader(data, input_nodes=split["train"], shuffle=True, **common)
    test_loader = gz_pyg.NeighborLoader(data, input_nodes=split["test"][:5_120], **common)

    model = GraphSAGE(data.num_features, 64, num_layers=3, out_channels=data.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    load_seconds = batches = 0
    for epoch in range(1, args.epochs + 1):
        seconds, count = train(model, optimizer, train_loader, args.batches or len(train_loader), epoch)
        load_seconds += seconds
        batches += count
    print(f"test accuracy      {accuracy(model, test_loader):.3f} of {data.num_classes} classes")
    print(
        f"loading            {batches / load_seconds:,.1f} batches/s (sampled and gathered, without the model)"
    )
    print(f"dataset on disk    {size_of(args.store) / 1e9:.2f} GB")
    print(f"peak memory        {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9:.2f} GB")


def make_store(args: argparse.Namespace) -> None:
    graph = generate.Graph.scaled(args.scale)
    if args.store.exists() and not args.fresh:
        if gz.open(args.store).num_nodes() == graph.num_nodes:
            print(f"using {args.store}; --fresh makes it again")
            return
        shutil.rmtree(args.store)
    print(f"ingesting {graph.num_nodes:,} nodes and {graph.num_edges:,} edges into {args.store}")
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    cut = graph.num_nodes * 8 // 10
    report = gz.ingest(
        args.store,
        edges=generate.edge_chunks(graph),
        features={"x": generate.feature_chunks(graph), "y": generate.labels(graph)},
        num_nodes=graph.num_nodes,
        splits={"train": order[:cut], "test": order[cut:]},
        overwrite=True,
    )
    print(report)


def train(model, optimizer, loader, limit: int, epoch: int) -> tuple[float, int]:
    model.train()
    iterator = iter(loader)
    limit = min(limit, len(loader))
    loading = 0.0
    mean = None
    for i in range(limit):
        start = time.perf_counter()
        batch = next(iterator)
        loading += time.perf_counter() - start
        optimizer.zero_grad()
        out = predict(model, batch)
        loss = F.cross_entropy(out, batch.y[: batch.batch_size])
        loss.backward()
        optimizer.step()
        mean = loss.item() if mean is None else 0.9 * mean + 0.1 * loss.item()
        bar(f"epoch {epoch}", i + 1, limit, f"loss {mean:.3f}")
    print()
    return loading, limit


def predict(model, batch) -> torch.Tensor:
    """Of the seeds only: the per-hop counts let PyG leave out what a layer no longer needs."""
    out = model(
        batch.x,
        batch.edge_index,
        num_sampled_nodes_per_hop=batch.num_sampled_nodes,
        num_sampled_edges_per_hop=batch.num_sampled_edges,
    )
    return out[: batch.batch_size]


@torch.no_grad()
def accuracy(model, loader) -> float:
    model.eval()
    correct = 0
    for batch in loader:
        out = predict(model, batch)
        correct += int((out.argmax(1) == batch.y[: batch.batch_size]).sum())
    return correct / len(loader.dataset)


def bar(name: str, done: int, total: int, text: str, width: int = 30) -> None:
    filled = width * done // total
    end = "\r" if sys.stdout.isatty() else ("" if done == total else None)
    if end is not None:
        print(f"{name} [{'#' * filled}{'.' * (width - filled)}] {done}/{total} {text} ", end=end, flush=True)


def size_of(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


if __name__ == "__main__":
    main()
