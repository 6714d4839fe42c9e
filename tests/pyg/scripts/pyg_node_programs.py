"""Programs of the kind PyG's examples are, for graphs of one type: the calls they make, in their order.

Each takes a dataset, in memory or of stores, and returns what it learned.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from pyg_datasets import CLASSES, Dataset
from torch import nn
from torch.nn.parameter import is_lazy
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GAT, DeepGraphInfomax, GraphSAGE, SAGEConv, SGFormer, global_mean_pool
from torch_geometric.utils import add_self_loops, remove_self_loops, to_undirected

from gz_pyg import LinkNeighborLoader, NeighborLoader, ShaDowKHopSampler

WIDTH = 8
DEVICE = torch.device("cpu")


def learn(model, loader, loss_of, epochs=2):
    """The losses of all batches, and the weights at the end."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.train()
    losses = []
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            loss = loss_of(batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    model.eval()
    weights = {k: v.clone() for k, v in model.state_dict().items() if not is_lazy(v)}
    return {"losses": torch.stack(losses), **weights}


def link_loss(model, batch):
    """Whether two nodes are joined, by the inner product of what the model makes of them."""
    h = model(batch.x, batch.edge_index)
    source, destination = batch.edge_label_index
    return F.binary_cross_entropy_with_logits((h[source] * h[destination]).sum(-1), batch.edge_label)


def graph_sage_unsup(graphs):
    """graph_sage_unsup: rows normalized, all edges as seeds with negatives, then the whole graph at once."""
    data = Dataset(graphs, transform=T.NormalizeFeatures())[0]
    loader = LinkNeighborLoader(
        data, batch_size=200, shuffle=True, neg_sampling_ratio=1.0, num_neighbors=[4, 4]
    )
    data = data.to(DEVICE, "x", "edge_index")
    model = GraphSAGE(data.num_node_features, hidden_channels=WIDTH, num_layers=2).to(DEVICE)
    learned = learn(model, loader, lambda batch: link_loss(model, batch.to(DEVICE)))
    with torch.no_grad():
        out = model(data.x, data.edge_index).cpu()
    parts = {m: out[data[m]] for m in ("train_mask", "val_mask", "test_mask")}
    return {**learned, **parts, "y": data.y[data.train_mask]}


class Encoder(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(size, WIDTH), SAGEConv(WIDTH, WIDTH)])
        self.activations = nn.ModuleList([nn.PReLU(WIDTH), nn.PReLU(WIDTH)])

    def forward(self, x, edge_index, batch_size):
        for conv, activation in zip(self.convs, self.activations, strict=True):
            x = activation(conv(x, edge_index))
        return x[:batch_size]


def infomax_inductive(graphs):
    """infomax_inductive: features and edges sent ahead, two loaders with workers, masks joined."""
    dataset = Dataset(graphs)
    data = dataset[0].to(DEVICE, "x", "edge_index")
    options = {"num_neighbors": [4, 3], "batch_size": 60, "num_workers": 1}
    train_loader = NeighborLoader(data, shuffle=True, **options)
    test_loader = NeighborLoader(data, **options)
    model = DeepGraphInfomax(
        hidden_channels=WIDTH,
        encoder=Encoder(dataset.num_features),
        summary=lambda z, *_, **__: z.mean(dim=0).sigmoid(),
        corruption=lambda x, edges, size: (x[torch.randperm(x.size(0))], edges, size),
    ).to(DEVICE)
    learned = learn(model, train_loader, lambda b: model.loss(*model(b.x, b.edge_index, b.batch_size)), 1)
    with torch.no_grad():
        z = torch.cat([model(b.x, b.edge_index, b.batch_size)[0].cpu() for b in test_loader])
    mask = data.train_mask | data.val_mask
    return {**learned, "z": z[mask], "y": data.y[mask], "test": z[data.test_mask]}


class Sage(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(size, WIDTH), SAGEConv(WIDTH, CLASSES)])

    def forward(self, x, edge_index):
        x = F.dropout(self.convs[0](x, edge_index).relu(), p=0.5, training=self.training)
        return self.convs[1](x, edge_index)

    @torch.no_grad()
    def inference(self, rows, loader):
        """One layer for all nodes before the next; rows are taken by the numbers that the loader brings."""
        for conv in self.convs:
            parts = []
            for batch in loader:
                h = conv(rows[batch.n_id.to(rows.device)].to(DEVICE), batch.edge_index.to(DEVICE))
                parts.append((h.relu() if conv is not self.convs[-1] else h)[: batch.batch_size].cpu())
            rows = torch.cat(parts)
        return rows


def class_loss(model, batch):
    out = model(batch.x, batch.edge_index.to(DEVICE))[: batch.batch_size]
    return F.cross_entropy(out, batch.y[: batch.batch_size])


def reddit(graphs):
    """reddit: a mask as input nodes; a second loader over a copy without columns, numbered by hand."""
    dataset = Dataset(graphs)
    data = dataset[0].to(DEVICE, "x", "y")
    options = {"batch_size": 60, "num_workers": 1, "persistent_workers": True}
    train_loader = NeighborLoader(
        data, input_nodes=data.train_mask, num_neighbors=[5, 3], shuffle=True, **options
    )
    every_node = NeighborLoader(
        copy.copy(data), input_nodes=None, num_neighbors=[-1], shuffle=False, **options
    )
    del every_node.data.x, every_node.data.y
    every_node.data.num_nodes = data.num_nodes
    every_node.data.n_id = torch.arange(data.num_nodes)
    model = Sage(dataset.num_features).to(DEVICE)
    learned = learn(model, train_loader, lambda batch: class_loss(model, batch))
    out = model.inference(data.x, every_node)
    y = data.y.to(out.device)
    right = [(out.argmax(-1)[m] == y[m]).sum() for m in (data.train_mask, data.val_mask, data.test_mask)]
    return {**learned, "all": out, "right": torch.stack(right)}


def hierarchical_sampling(graphs):
    """hierarchical_sampling: the same model on whole batches, then trimmed layer by layer."""
    dataset = Dataset(graphs)
    data = dataset[0].to(DEVICE, "x", "y")
    loader = NeighborLoader(
        data,
        input_nodes=data.train_mask,
        num_neighbors=[4, 3, 2],
        shuffle=True,
        batch_size=60,
        num_workers=1,
        persistent_workers=True,
    )
    model = GraphSAGE(dataset.num_features, WIDTH, out_channels=CLASSES, num_layers=3).to(DEVICE)

    def trimmed(batch):
        batch = batch.to(DEVICE)
        hops = {
            "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
            "num_sampled_edges_per_hop": batch.num_sampled_edges,
        }
        out = model(batch.x, batch.edge_index, **hops)[: batch.batch_size]
        return F.cross_entropy(out, batch.y[: batch.batch_size])

    whole = learn(model, loader, lambda batch: class_loss(model, batch), 1)["losses"]
    return {"whole": whole, **learn(model, loader, trimmed, 1)}


class Pooled(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(size, WIDTH), SAGEConv(WIDTH, WIDTH)])
        self.head = nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, x, edge_index, batch, roots):
        for conv in self.convs:
            x = F.dropout(conv(x, edge_index).relu(), p=0.3, training=self.training)
        return self.head(torch.cat([x[roots], global_mean_pool(x, batch)], dim=-1))


def shadow(graphs):
    """shadow: a subgraph for each node of a mask, pooled beside its root."""
    dataset = Dataset(graphs)
    data = dataset[0]
    options = {"depth": 2, "num_neighbors": 3, "batch_size": 40, "num_workers": 1, "persistent_workers": True}
    train_loader = ShaDowKHopSampler(data, node_idx=data.train_mask, **options)
    test_loader = ShaDowKHopSampler(data, node_idx=data.test_mask, **options)
    model = Pooled(dataset.num_features).to(DEVICE)

    def out(part):
        part = part.to(DEVICE)
        return model(part.x, part.edge_index, part.batch, part.root_n_id)

    learned = learn(model, train_loader, lambda part: F.cross_entropy(out(part), part.y))
    with torch.no_grad():
        return {**learned, "test": torch.cat([out(part) for part in test_loader])}


def _ogbn_train(graphs, model, disjoint):
    dataset = Dataset(graphs)
    split = dataset.get_idx_split()
    data = dataset[0]
    data.edge_index = to_undirected(data.edge_index, reduce="mean")
    data.edge_index, _ = remove_self_loops(data.edge_index)
    data.edge_index, _ = add_self_loops(data.edge_index, num_nodes=data.num_nodes)
    data.to(DEVICE, "x", "y")
    train_loader, val_loader = (
        NeighborLoader(
            data,
            input_nodes=split[part],
            num_neighbors=[3, 3],
            batch_size=60,
            shuffle=True,
            num_workers=1,
            persistent_workers=True,
            disjoint=disjoint,
        )
        for part in ("train", "valid")
    )
    model = model(dataset.num_features).to(DEVICE)
    model.reset_parameters()

    def out(batch):
        trees = (batch.batch.to(DEVICE),) if disjoint else ()
        return model(batch.x, batch.edge_index.to(DEVICE), *trees)[: batch.num_sampled_nodes[0]]

    def loss(batch):
        return F.cross_entropy(out(batch), batch.y[: batch.batch_size].squeeze().to(torch.long))

    learned = learn(model, train_loader, loss, 1)
    with torch.no_grad():
        return {**learned, "valid": torch.cat([out(batch.to(DEVICE)) for batch in val_loader])}


def ogbn_train(graphs):
    """ogbn_train: edges made undirected, loops taken out and put in, all assigned to the loaded graph."""
    return _ogbn_train(graphs, lambda size: GAT(size, WIDTH, 2, CLASSES, heads=2), disjoint=False)


def ogbn_train_sgformer(graphs):
    """ogbn_train --model sgformer: a tree for each seed."""
    make = lambda size: SGFormer(size, WIDTH, CLASSES, trans_num_heads=1, gnn_num_layers=2)  # noqa: E731
    return _ogbn_train(graphs, make, disjoint=True)


def graph_sage_unsup_ppi(graphs):
    """graph_sage_unsup_ppi: several graphs as one for sampling, and in pairs to encode them."""
    dataset = Dataset(graphs)
    data = Batch.from_data_list([dataset[i] for i in range(len(dataset))])
    loader = LinkNeighborLoader(
        data,
        batch_size=300,
        shuffle=True,
        neg_sampling_ratio=1.0,
        num_neighbors=[3, 3],
        num_workers=1,
        persistent_workers=True,
    )
    pairs = DataLoader(dataset, batch_size=2)
    model = GraphSAGE(dataset.num_features, WIDTH, num_layers=2, out_channels=WIDTH).to(DEVICE)
    learned = learn(model, loader, lambda batch: link_loss(model, batch.to(DEVICE)))
    with torch.no_grad():
        found = [(model(pair.x, pair.edge_index), pair.y) for pair in pairs]
    return {**learned, "x": torch.cat([x for x, _ in found]), "y": torch.cat([y for _, y in found])}
