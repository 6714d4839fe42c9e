"""python -m gz_pyg._tools.train STORE --data files|memory ...: the script of `gz demo`.

One script, one difference: where the graph lies. With "files" it is `gz_pyg.load(path)`; with "memory" the
same arrays are read into an ordinary PyG Data first, as a script without gz does.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import gz
from gz_pyg.data import load
from gz_pyg.loader import NeighborLoader


def main() -> None:
    args = _arguments()
    seed_everything(0)
    store = gz.open(args.store, args.cache)
    data: Any = load(store) if args.data == "files" else in_memory(args.store)
    _tell(phase="train")
    common = {"num_neighbors": [10, 5], "batch_size": args.batch_size}
    train = NeighborLoader(data, input_nodes=_ids(store, "train"), shuffle=True, **common)
    model = GraphSAGE(128, 64, num_layers=2, out_channels=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    begun = time.monotonic()
    batches, loss = 0, 0.0
    while batches < args.least or time.monotonic() - begun < args.seconds:
        for batch in train:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            error = F.cross_entropy(out, batch.y[: batch.batch_size])
            error.backward()
            optimizer.step()
            batches += 1
            loss = error.item() if batches == 1 else 0.95 * loss + 0.05 * error.item()
            _tell(batches=batches, loss=loss, postfix=train.postfix(), stats=train.stats())
            if batches >= args.least and time.monotonic() - begun >= args.seconds:
                break
    seconds = time.monotonic() - begun
    _tell(phase="test")
    found = accuracy(model, NeighborLoader(data, input_nodes=_ids(store, "test")[: args.test], **common))
    _tell(phase="done", batches=batches, seconds=seconds, accuracy=found, loss=loss, stats=train.stats())


def in_memory(path: str) -> Data:
    """The whole graph as tensors."""
    store = gz.open(path)
    graph, x, y = store.graph(), store.feature("x"), store.feature("y")
    rows = np.fromfile(x.path, np.float32, offset=x.offset).reshape(x.shape)
    sources = torch.from_numpy(graph.indices.astype(np.int64))
    targets = torch.repeat_interleave(torch.arange(graph.num_nodes), torch.from_numpy(np.diff(graph.indptr)))
    labels = torch.from_numpy(np.array(y.get_tensor()))
    return Data(x=torch.from_numpy(rows), edge_index=torch.stack([sources, targets]), y=labels)


def _ids(store: gz.Store, split: str) -> torch.Tensor:
    return torch.from_numpy(np.array(store.split(split)))


@torch.no_grad()
def accuracy(model: Any, loader: Any) -> float:
    model.eval()
    right = seen = 0
    for batch in loader:
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        right += int((out.argmax(1) == batch.y[: batch.batch_size]).sum())
        seen += batch.batch_size
    return right / max(1, seen)


def _tell(**found: Any) -> None:
    print(json.dumps(found), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("--data", choices=("files", "memory"), default="files")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--least", type=int, default=20, help="batches, however long they take")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--test", type=int, default=2048)
    parser.add_argument("--cache", default="auto")
    return parser.parse_args()


if __name__ == "__main__":
    main()
