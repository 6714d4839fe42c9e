"""Graphs for the examples, made on the spot where no dataset was downloaded. Yours come from `gz ingest`.

Each has communities that can be learned: edges stay mostly inside one, features are its centroid plus noise.
"""

from __future__ import annotations

import argparse
import fcntl
from pathlib import Path

import torch
from torch_geometric.data import Data, HeteroData

import gz_pyg

CLASSES = 8


def options(description: str | None) -> argparse.Namespace:
    """What every example takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--data", type=Path, default=Path("example-stores"), help="folder of the stores; kept"
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="a graph of a second, for a first try")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def in_memory(args: argparse.Namespace, kind: str) -> Data | HeteroData:
    """The example's graph as an ordinary PyG object."""
    return {"papers": papers, "library": library, "messages": messages}[kind](_size(args))


def store_of(args: argparse.Namespace, kind: str) -> str:
    """The path of the example's store, which is made the first time, by one process."""
    path = args.data / f"{kind}-{_size(args)}"
    args.data.mkdir(parents=True, exist_ok=True)
    with open(args.data / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            gz_pyg.save(in_memory(args, kind), path)
    return str(path)


def _size(args: argparse.Namespace) -> int:
    return 2_000 if args.small else 100_000


def _ends(src_class: torch.Tensor, dst_class: torch.Tensor, num_edges: int) -> torch.Tensor:
    """Random edges, of which four in five join equal classes."""
    dst = torch.randint(len(dst_class), (num_edges,))
    by_class = torch.argsort(src_class)
    counts = torch.bincount(src_class, minlength=CLASSES)
    starts = counts.cumsum(0) - counts
    inside = by_class[starts[dst_class[dst]] + (torch.rand(num_edges) * counts[dst_class[dst]]).long()]
    anywhere = torch.randint(len(src_class), (num_edges,))
    return torch.stack([torch.where(torch.rand(num_edges) < 0.8, inside, anywhere), dst])


def _features(y: torch.Tensor, width: int = 32) -> torch.Tensor:
    return torch.randn(CLASSES, width)[y] + 1.5 * torch.randn(len(y), width)


def papers(n: int) -> Data:
    torch.manual_seed(0)
    y = torch.randint(CLASSES, (n,))
    draw = torch.rand(n)
    return Data(
        x=_features(y),
        y=y,
        edge_index=_ends(y, y, 10 * n),
        train_mask=draw < 0.5,
        val_mask=(draw >= 0.5) & (draw < 0.6),
        test_mask=draw >= 0.6,
    )


def library(n: int) -> HeteroData:
    torch.manual_seed(0)
    data = HeteroData()
    y, author = torch.randint(CLASSES, (n,)), torch.randint(CLASSES, (n // 2,))
    data["paper"].x, data["paper"].y = _features(y), y
    data["author"].x = _features(author)
    draw = torch.rand(n)
    data["paper"].train_mask, data["paper"].test_mask = draw < 0.6, draw >= 0.6
    data["paper", "cites", "paper"].edge_index = _ends(y, y, 5 * n)
    data["author", "writes", "paper"].edge_index = _ends(author, y, 3 * n)
    data["paper", "rev_writes", "author"].edge_index = data["author", "writes", "paper"].edge_index.flip(0)
    return data


def messages(n: int) -> Data:
    """Who wrote to whom, and when: the later half of the edges is to be predicted from the earlier."""
    torch.manual_seed(0)
    y = torch.randint(CLASSES, (n,))
    edge_index = _ends(y, y, 10 * n)
    return Data(x=_features(y), edge_index=edge_index, edge_time=torch.arange(edge_index.size(1)))
