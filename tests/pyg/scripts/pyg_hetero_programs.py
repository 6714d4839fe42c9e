"""Programs of the kind PyG's examples are, for graphs of several types: the calls they make, in their order.

As pyg_node_programs.py.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from pyg_datasets import CLASSES, Dataset
from pyg_node_programs import DEVICE, WIDTH, learn
from torch import nn
from torch_geometric.nn import BatchNorm, HeteroConv, Linear, SAGEConv, Sequential, to_hetero
from torch_geometric.utils import to_scipy_sparse_matrix, trim_to_layer

from gz_pyg import LinkNeighborLoader, NeighborLoader

RATES = ("user", "rates", "movie")


def paper_loss(out, batch):
    size = batch["paper"].batch_size
    return F.cross_entropy(out[:size], batch["paper"].y[:size].to(torch.long))


def to_hetero_mag(graphs):
    """to_hetero_mag: reverse types by transform, then features and labels sent ahead; lazy weights."""
    data = Dataset(graphs, transform=T.ToUndirected(merge=True))[0].to(DEVICE, "x", "y")
    options = {"num_neighbors": [4, 4], "batch_size": 40, "num_workers": 1, "persistent_workers": True}
    train_loader = NeighborLoader(
        data, shuffle=True, input_nodes=("paper", data["paper"].train_mask), **options
    )
    val_loader = NeighborLoader(data, input_nodes=("paper", data["paper"].val_mask), **options)
    model = Sequential(
        "x, edge_index",
        [
            (SAGEConv((-1, -1), WIDTH), "x, edge_index -> x"),
            nn.ReLU(inplace=True),
            (SAGEConv((-1, -1), WIDTH), "x, edge_index -> x"),
            nn.ReLU(inplace=True),
            (Linear(-1, CLASSES), "x -> x"),
        ],
    )
    model = to_hetero(model, data.metadata(), aggr="sum").to(DEVICE)

    def out(batch):
        batch = batch.to(DEVICE, "edge_index")
        return model(batch.x_dict, batch.edge_index_dict)["paper"]

    with torch.no_grad():
        out(next(iter(train_loader)))
    learned = learn(model, train_loader, lambda batch: paper_loss(out(batch), batch))
    with torch.no_grad():
        return {**learned, "valid": torch.cat([out(b)[: b["paper"].batch_size] for b in val_loader])}


class Hierarchical(nn.Module):
    def __init__(self, edge_types):
        super().__init__()
        self.convs = nn.ModuleList(
            HeteroConv({t: SAGEConv((-1, -1), WIDTH) for t in edge_types}, aggr="sum") for _ in range(2)
        )
        self.head = Linear(WIDTH, CLASSES)

    def forward(self, x, edges, sampled_edges, sampled_nodes):
        for number, conv in enumerate(self.convs):
            x, edges, _ = trim_to_layer(number, sampled_nodes, sampled_edges, x, edges)
            x = {t: rows.relu() for t, rows in conv(x, edges).items()}
        return self.head(x["paper"])


def hierarchical_sage(graphs):
    """hierarchical_sage: what each hop sampled, by type, trims the batch layer by layer."""
    data = Dataset(graphs, transform=T.Compose([T.ToUndirected(merge=True)]))[0].to(DEVICE, "x", "y")
    model = Hierarchical(data.edge_types).to(DEVICE)
    options = {"num_neighbors": [4, 4], "batch_size": 40, "num_workers": 0}
    train_loader = NeighborLoader(
        data, shuffle=True, input_nodes=("paper", data["paper"].train_mask), **options
    )

    def loss(batch):
        batch = batch.to(DEVICE)
        hops = batch.num_sampled_edges_dict, batch.num_sampled_nodes_dict
        return paper_loss(model(batch.x_dict, batch.edge_index_dict, *hops), batch)

    with torch.no_grad():
        loss(next(iter(train_loader)))
    return learn(model, train_loader, loss)


class Layers(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.convs = nn.ModuleList(SAGEConv((-1, -1), WIDTH) for _ in range(number))

    def forward(self, x, edge_index):
        for conv in self.convs[:-1]:
            x = conv(x, edge_index).relu()
        return self.convs[-1](x, edge_index)


def _with_users(graphs):
    """The data of both MovieLens examples: users get rows, their count goes."""
    data = Dataset(graphs)[0]
    data["user"].x = torch.eye(data["user"].num_nodes)
    del data["user"].num_nodes
    return data


def recommender_system(graphs):
    """recommender_system: edges thinned by a mask, times with them, the last neighbours before a time."""
    data = _with_users(graphs)
    good = data["user", "rates", "movie"].edge_label >= 4
    data["user", "movie"].edge_index = data["user", "movie"].edge_index[:, good]
    data["user", "movie"].time = data["user", "movie"].time[good]
    del data["user", "movie"].edge_label
    data = T.ToUndirected()(data)
    ends, time = data["user", "movie"].edge_index, data["user", "movie"].time
    order = time.argsort(stable=True)
    train, test = order[: int(0.8 * order.numel())], order[int(0.8 * order.numel()) :]
    options = {
        "data": data,
        "num_neighbors": [3, 3],
        "batch_size": 30,
        "time_attr": "time",
        "num_workers": 1,
        "persistent_workers": True,
        "temporal_strategy": "last",
    }
    train_loader = LinkNeighborLoader(
        edge_label_index=(("user", "movie"), ends[:, train]),
        edge_label_time=time[train] - 1,
        neg_sampling={"mode": "binary", "amount": 2},
        shuffle=True,
        **options,
    )
    before = time[test].min() - 1
    loaders = {
        t: NeighborLoader(input_nodes=t, input_time=before.repeat(data[t].num_nodes), **options)
        for t in ("user", "movie")
    }
    encoder = to_hetero(Layers(2), data.metadata(), aggr="sum").to(DEVICE)

    def loss(batch):
        batch = batch.to(DEVICE)
        h = encoder(batch.x_dict, batch.edge_index_dict)
        u, v = batch["user", "movie"].edge_label_index
        scores = (h["user"][u] * h["movie"][v]).sum(-1)
        return F.binary_cross_entropy_with_logits(scores, batch["user", "movie"].edge_label)

    with torch.no_grad():
        loss(next(iter(train_loader)))
    learned = learn(encoder, train_loader, loss, 1)
    rows = {}
    with torch.no_grad():
        for t, loader in loaders.items():
            parts = [encoder(b.x_dict, b.edge_index_dict)[t][: b[t].batch_size] for b in loader]
            rows[t] = torch.cat(parts)
    return {**learned, **rows, "best": (rows["user"] @ rows["movie"].t()).topk(5).indices}


def temporal_link_pred(graphs):
    """temporal_link_pred: reverse types, the reverse label dropped, seeds split by time with their labels."""
    data = _with_users(graphs)
    data = T.ToUndirected()(data)
    del data["movie", "rev_rates", "user"].edge_label
    order = torch.argsort(data["user", "movie"].time, stable=True)
    parts = order[:400], order[400:]
    ends = data["user", "movie"].edge_index
    train_loader, test_loader = (
        LinkNeighborLoader(
            data=data,
            num_neighbors=[4, 3],
            batch_size=100,
            time_attr="time",
            temporal_strategy="last",
            num_workers=1,
            persistent_workers=True,
            edge_label_index=(("user", "movie"), ends[:, part]),
            edge_label=data["user", "movie"].edge_label[part],
            edge_label_time=data["user", "movie"].time[part] - 1,
            shuffle=part is parts[0],
        )
        for part in parts
    )
    encoder = to_hetero(Layers(2), data.metadata(), aggr="sum")
    head = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    model = nn.ModuleList([encoder, head]).to(DEVICE)

    def out(batch):
        batch = batch.to(DEVICE)
        h = encoder(batch.x_dict, batch.edge_index_dict)
        u, v = batch["user", "movie"].edge_label_index
        return head(torch.cat([h["user"][u], h["movie"][v]], dim=-1)).view(-1)

    with torch.no_grad():
        out(next(iter(train_loader)))
    learned = learn(
        model,
        train_loader,
        lambda b: F.mse_loss(out(b), b["user", "movie"].edge_label.to(torch.get_default_dtype())),
        1,
    )
    with torch.no_grad():
        return {**learned, "test": torch.cat([out(b).clamp(0, 5) for b in test_loader])}


class Shop(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.rows = nn.ModuleDict({t: nn.Embedding(n, WIDTH) for t, n in sizes.items()})
        self.items, self.users = SAGEConv((WIDTH, WIDTH), WIDTH), SAGEConv((WIDTH, WIDTH), WIDTH)
        self.head = nn.Linear(2 * WIDTH, 1)

    def forward(self, x, edges, pairs):
        h = {t: self.rows[t](ids) for t, ids in x.items()}
        items = self.items((h["item"], h["item"]), edges["item", "to", "item"]).relu()
        users = self.users((h["item"], h["user"]), edges["item", "rev_to", "user"]).relu()
        return self.head(torch.cat([users[pairs[0]], items[pairs[1]]], dim=-1)).view(-1)


def bipartite_sage_unsup(graphs):
    """bipartite_sage_unsup: ids as features, types and attributes deleted, links split, a type added."""
    data = Dataset(graphs)[0]
    data["user"].x = torch.arange(0, data["user"].num_nodes)
    data["item"].x = torch.arange(0, data["item"].num_nodes)
    del data["category"]
    del data["item", "category"]
    del data["user", "item"].time
    del data["user", "item"].behavior
    data = T.ToUndirected()(data)
    parts = T.RandomLinkSplit(
        num_val=0.1,
        num_test=0.1,
        neg_sampling_ratio=1.0,
        add_negative_train_samples=False,
        edge_types=[("user", "to", "item")],
        rev_edge_types=[("item", "rev_to", "user")],
    )(data)
    bought = to_scipy_sparse_matrix(data["user", "item"].edge_index).tocsr()
    bought = bought[: data["user"].num_nodes, : data["item"].num_nodes]
    together = (bought.T @ bought).tocoo()
    often = (together.data >= 8) & (together.row != together.col)
    alike = torch.stack([torch.from_numpy(end[often]).to(torch.long) for end in (together.row, together.col)])
    for part in parts:
        part["item", "item"].edge_index = alike
    train_data, _, test_data = parts
    options = {"num_neighbors": [4, 3], "batch_size": 120, "num_workers": 1}
    train_loader = LinkNeighborLoader(
        data=train_data,
        edge_label_index=("user", "to", "item"),
        neg_sampling="binary",
        shuffle=True,
        drop_last=True,
        **options,
    )
    test_loader = LinkNeighborLoader(
        data=test_data,
        edge_label_index=(("user", "to", "item"), test_data["user", "to", "item"].edge_label_index),
        edge_label=test_data["user", "to", "item"].edge_label,
        shuffle=False,
        **options,
    )
    model = Shop({"user": data["user"].num_nodes, "item": data["item"].num_nodes}).to(DEVICE)

    def out(batch):
        batch = batch.to(DEVICE)
        return model(batch.x_dict, batch.edge_index_dict, batch["user", "item"].edge_label_index)

    def loss(batch):
        return F.binary_cross_entropy_with_logits(out(batch), batch["user", "item"].edge_label)

    learned = learn(model, train_loader, loss, 1)
    with torch.no_grad():
        found = [(out(b), b["user", "item"].edge_label) for b in test_loader]
    return {**learned, "test": torch.cat([o for o, _ in found]), "truth": torch.cat([y for _, y in found])}


class Papers(nn.Module):
    """Types without features learn theirs from papers: the first layer starts from papers alone."""

    def __init__(self, node_types, edge_types, classes):
        super().__init__()
        first = [t for t in edge_types if t[0] == "paper"]
        self.first = HeteroConv({t: SAGEConv(-1, WIDTH) for t in first})
        self.norms = nn.ModuleDict({t: BatchNorm(WIDTH) for t in node_types})
        last = [t for t in edge_types if t[0] != "institution"]
        self.last = HeteroConv({t: SAGEConv(-1, classes) for t in last})

    def forward(self, x, edges):
        x = {t: self.norms[t](rows.relu()) for t, rows in self.first(x, edges).items()}
        return self.last(x, edges)["paper"]


def mag240m_graphsage(graphs):
    """mag240m_graphsage: ids out of masks, then masks and columns deleted; half precision, float labels."""
    data = Dataset(graphs)[0]
    model = Papers(data.node_types, data.edge_types, data.num_classes)
    train = data["paper"].train_mask.nonzero(as_tuple=False).view(-1)
    valid = data["paper"].val_mask.nonzero(as_tuple=False).view(-1)
    del data["paper"].train_mask
    del data["paper"].val_mask
    del data["paper"].test_mask
    del data["paper"].year
    options = {
        "batch_size": 20,
        "num_workers": 1,
        "persistent_workers": True,
        "num_neighbors": [5, 4],
        "drop_last": True,
    }
    train_loader = NeighborLoader(data, input_nodes=("paper", train), shuffle=True, **options)
    val_loader = NeighborLoader(data, input_nodes=("paper", valid), **options)

    def out(batch):
        assert set(batch["paper"].keys()) >= {"x", "y"}
        assert not {"train_mask", "year"} & set(batch["paper"].keys())
        batch = batch.to(DEVICE, "x", "y", "edge_index")
        batch["paper"].x = batch["paper"].x.to(torch.float32)
        return model(batch.x_dict, batch.edge_index_dict)

    with torch.no_grad():
        out(next(iter(train_loader)))
    learned = learn(model, train_loader, lambda batch: paper_loss(out(batch), batch), 1)
    with torch.no_grad():
        return {**learned, "valid": torch.cat([out(b)[: b["paper"].batch_size] for b in val_loader])}
