"""What the example programs load, tiny: as PyG's dataset classes hand it out, in memory or from stores."""

from __future__ import annotations

import torch
from torch_geometric.data import Data, HeteroData

CLASSES = 4


class Dataset:
    """`dataset[i]`, with what scripts ask of a dataset besides."""

    def __init__(self, graphs, transform=None):
        self.graphs, self.transform = list(graphs), transform

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, i):
        graph = self.graphs[i]
        return graph if self.transform is None else self.transform(graph)

    @property
    def num_features(self):
        return self.graphs[0].num_features

    def get_idx_split(self):
        masks = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
        return {name: self.graphs[0][mask].nonzero().view(-1) for name, mask in masks.items()}


def _ends(rng, source, destination, number):
    return torch.stack([torch.randint(n, (number,), generator=rng) for n in (source, destination)])


def _masks(part, count, rng):
    draw = torch.rand(count, generator=rng)
    part.train_mask, part.val_mask, part.test_mask = draw < 0.6, (draw >= 0.6) & (draw < 0.8), draw >= 0.8


def papers(n=180, seed=0):
    """As Cora, Reddit, Flickr: features that tell the classes, masks, edges one way."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (n,), generator=rng)
    data = Data(x=torch.rand(n, 6, generator=rng) + y[:, None], y=y, edge_index=_ends(rng, n, n, 5 * n))
    _masks(data, n, rng)
    return data


def ogbn():
    """As OGB's: labels in a column of their own."""
    data = papers(seed=1)
    data.y = data.y[:, None]
    return data


def ogbn_nan():
    """As papers100M: float labels, NaN where there is none."""
    data = papers(seed=2)
    data.y = data.y.float()[:, None]
    data.y[~(data.train_mask | data.val_mask | data.test_mask)] = torch.nan
    return data


def proteins(seed):
    """As a graph of PPI: many labels a node."""
    data = papers(50, seed)
    data.y = (torch.rand(50, 3, generator=torch.Generator().manual_seed(seed)) < 0.5).float()
    for name in ("train_mask", "val_mask", "test_mask"):
        del data[name]
    return data


_RELATIONS = [
    ("author", "affiliated_with", "institution", 80),
    ("author", "writes", "paper", 250),
    ("paper", "cites", "paper", 400),
]


def academic():
    """As ogbn-mag with features for all types."""
    rng = torch.Generator().manual_seed(3)
    data, sizes = HeteroData(), {"paper": 120, "author": 60, "institution": 10}
    for t, n in sizes.items():
        data[t].x = torch.rand(n, 6, generator=rng)
    paper = data["paper"]
    paper.y = torch.randint(CLASSES, (120,), generator=rng)
    paper.x = paper.x + paper.y[:, None]
    paper.year = 2010 + torch.randint(10, (120,), generator=rng)
    _masks(paper, 120, rng)
    for source, relation, destination, number in _RELATIONS:
        ends = _ends(rng, sizes[source], sizes[destination], number)
        data[source, relation, destination].edge_index = ends
    return data


def academic_large():
    """As MAG240M: only papers have features, half precision; float labels; reverse types are there."""
    data = academic()
    for t in ("author", "institution"):
        count = data[t].num_nodes
        del data[t].x
        data[t].num_nodes = count
    data["paper"].x, data["paper"].y = data["paper"].x.half(), data["paper"].y.float()
    for source, relation, destination, _ in _RELATIONS[:2]:
        ends = data[source, relation, destination].edge_index
        data[destination, f"rev_{relation}", source].edge_index = ends.flip(0)
    data.num_classes = CLASSES
    return data


def ratings():
    """As MovieLens: users without features, rated edges with times."""
    rng = torch.Generator().manual_seed(4)
    data = HeteroData()
    data["movie"].x = torch.rand(40, 6, generator=rng)
    data["user"].num_nodes = 30
    rates = data["user", "rates", "movie"]
    rates.edge_index = _ends(rng, 30, 40, 500)
    rates.edge_label = torch.randint(1, 6, (500,), generator=rng)
    rates.time = torch.randint(1000, (500,), generator=rng)
    return data


def shop():
    """As Taobao: no features at all, a type and attributes that the script throws away."""
    rng = torch.Generator().manual_seed(5)
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes, data["category"].num_nodes = 40, 30, 5
    to = data["user", "to", "item"]
    to.edge_index = _ends(rng, 40, 30, 600)
    to.time, to.behavior = torch.arange(600), torch.randint(4, (600,), generator=rng)
    data["item", "to", "category"].edge_index = _ends(rng, 30, 5, 30)
    return data
