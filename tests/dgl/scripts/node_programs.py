"""Programs of the kind DGL's examples are, for graphs of one type: the calls they make, in their order.

Each takes a graph as `dgl.load_graphs` or `gz_dgl.load` gives it and returns what it learned. Neighbourhoods
are whole and nothing is dropped, so that what it learns does not hang on what is drawn.
"""

from __future__ import annotations

import dgl
import dgl.function as fn
import torch
import torch.nn.functional as F
from dgl.dataloading import (
    ClusterGCNSampler,
    DataLoader,
    MultiLayerFullNeighborSampler,
    MultiLayerNeighborSampler,
    NeighborSampler,
    as_edge_prediction_sampler,
    negative_sampler,
)
from dgl.nn import EdgeGATConv, GATConv, SAGEConv
from torch import nn

CLASSES, WIDTH = 4, 8


class Sage(nn.Module):
    def __init__(self, size: int, out: int = CLASSES):
        super().__init__()
        self.layers = nn.ModuleList([SAGEConv(size, WIDTH, "mean"), SAGEConv(WIDTH, out, "mean")])
        self.rows = None  # the features of all nodes

    def forward(self, blocks, h):
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(block, h)
            if number + 1 < len(self.layers):
                h = F.relu(h)
        return h

    def inference(self, g, batch_size, num_workers=0):
        """One layer for all nodes before the next, the rows kept in memory."""
        rows = self.rows
        sampler = MultiLayerFullNeighborSampler(1)
        everything = torch.arange(g.num_nodes(), dtype=g.idtype).to(g.device)
        loader = DataLoader(g, everything, sampler, batch_size=batch_size, num_workers=num_workers)
        for number, layer in enumerate(self.layers):
            last = number + 1 == len(self.layers)
            out = torch.empty(g.num_nodes(), CLASSES if last else WIDTH)
            for inputs, outputs, blocks in loader:
                h = layer(blocks[0], rows[inputs.long()])
                out[outputs[0] : outputs[-1] + 1] = h if last else F.relu(h)
            rows = out
        return rows


def learn(model, loss_of, batches, epochs=2):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(epochs):
        for batch in batches:
            loss = loss_of(*batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return {**model.state_dict(), "losses": torch.stack(losses)}


def node_classification(g):
    """graphsage/node_classification: features and labels prefetched, then all nodes layer by layer."""
    g = g.to("cpu")
    train = g.ndata["train_mask"].nonzero().flatten().to(g.idtype)
    sampler = NeighborSampler([-1, -1], prefetch_node_feats=["feat"], prefetch_labels=["label"])
    loader = DataLoader(g, train, sampler, device="cpu", batch_size=40, shuffle=True, drop_last=False)
    model = Sage(g.ndata["feat"].shape[1])

    def loss(inputs, outputs, blocks):
        logits = model(blocks, blocks[0].srcdata["feat"])
        return F.cross_entropy(logits, blocks[-1].dstdata["label"])

    learned = learn(model, loss, loader)
    model.rows = g.ndata["feat"]
    with torch.no_grad():
        return {**learned, "all": model.inference(g, 50)}


def link_prediction(g):
    """graphsage/link_pred: reverse edges with their mapping, the reverse of a seed edge left out."""
    both, mapping = dgl.to_simple(dgl.add_reverse_edges(g), return_counts="n", writeback_mapping=True)
    forth = torch.arange(g.num_edges())
    reverse = torch.zeros(both.num_edges(), dtype=torch.int64)
    reverse[mapping] = mapping[torch.cat([forth + g.num_edges(), forth])]
    sampler = as_edge_prediction_sampler(
        NeighborSampler([-1, -1], prefetch_node_feats=["feat"]),
        exclude="reverse_id",
        reverse_eids=reverse,
        negative_sampler=negative_sampler.Uniform(1),
    )
    loader = DataLoader(both, torch.arange(both.num_edges()), sampler, batch_size=300, shuffle=True)
    model = Sage(both.ndata["feat"].shape[1], WIDTH)

    def loss(inputs, pairs, strangers, blocks):
        h = model(blocks, blocks[0].srcdata["feat"])
        scores = [(h[u] * h[v]).sum(1) for u, v in (pairs.edges(), strangers.edges())]
        truth = torch.cat([torch.ones_like(scores[0]), torch.zeros_like(scores[1])])
        return F.binary_cross_entropy_with_logits(torch.cat(scores), truth)

    return learn(model, loss, loader, epochs=1)


def products_sage(g):
    """ogbn-products/graphsage: the features popped, rows taken by hand, blocks made int, a worker."""
    features, labels = g.ndata.pop("feat"), g.ndata.pop("label")
    train = g.ndata.pop("train_mask").nonzero().flatten().to(g.idtype)
    g.create_formats_()
    loader = DataLoader(
        g, train, MultiLayerNeighborSampler([-1, -1]), batch_size=40, shuffle=True, num_workers=1
    )
    model = Sage(features.shape[1])
    model.rows = features

    def loss(inputs, seeds, blocks):
        blocks = [block.int().to("cpu") for block in blocks]
        return F.cross_entropy(model(blocks, features[inputs.long()]), labels[seeds.long()])

    learned = learn(model, loss, loader)
    with torch.no_grad():
        return {**learned, "all": model.inference(g, 70, num_workers=1)}


class Gat(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layers = nn.ModuleList([GATConv((size, size), WIDTH, 2), GATConv((16, 16), CLASSES, 2)])

    def forward(self, blocks, h):
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(block, (h, h[: block.num_dst_nodes()]))
            h = F.elu(h.flatten(1)) if number == 0 else h.mean(1)
        return h


def products_gat(g):
    """ogbn-products/gat: self loops taken out and put in, attention over pairs of features."""
    features, labels = g.ndata.pop("feat"), g.ndata["label"]
    g = g.remove_self_loop().add_self_loop()
    g.create_formats_()
    train = g.ndata["train_mask"].nonzero().flatten().to(g.idtype)
    loader = DataLoader(g, train, MultiLayerNeighborSampler([-1, -1]), batch_size=60, shuffle=True)
    model = Gat(features.shape[1])

    def loss(inputs, seeds, blocks):
        logits = model(blocks, features[inputs.long()])
        return F.nll_loss(logits.log_softmax(-1), labels[seeds.long()])

    return learn(model, loss, loader)


def proteins_gat(g):
    """ogbn-proteins/gat: node features summed from edges over the whole graph, edge features in blocks,
    labels and columns made on the way."""
    g.ndata["labels"] = F.one_hot(g.ndata.pop("label"), CLASSES).to(torch.get_default_dtype())
    g.update_all(fn.copy_e("e", "m"), fn.sum("m", "feat"))
    g.ndata["seen"] = torch.zeros(g.num_nodes(), CLASSES)
    train = g.ndata["train_mask"].nonzero().flatten()
    g.ndata["seen"][train, g.ndata["labels"][train].argmax(1)] = 1
    g.ndata["degree"] = g.out_degrees().to(torch.get_default_dtype()).clamp(min=1)
    g.create_formats_()
    loader = DataLoader(
        g.cpu(), train.to(g.idtype), MultiLayerNeighborSampler([-1]), batch_size=60, num_workers=1
    )
    size = g.ndata["feat"].shape[-1] + CLASSES
    model = EdgeGATConv(size, 3, CLASSES, 2, allow_zero_in_degree=True)

    def loss(inputs, outputs, blocks):
        (block,) = (b.to("cpu") for b in blocks)
        seen = torch.zeros(block.num_src_nodes(), CLASSES)
        others = torch.arange(len(outputs), len(inputs))
        seen[others] = block.srcdata["seen"][others]
        block.srcdata["feat"] = torch.cat([block.srcdata["feat"], seen], -1)
        h = block.srcdata["feat"] / block.srcdata["degree"][:, None]
        logits = model(block, h, block.edata["e"]).mean(1)
        return F.binary_cross_entropy_with_logits(logits, block.dstdata["labels"])

    return learn(model, loss, loader)


def cluster_gcn(g, cache="clusters.pkl"):
    """cluster_gcn: parts by METIS, kept in a file, and the graph of a few of them at a time."""
    names = ["feat", "label", "train_mask"]
    sampler = ClusterGCNSampler(g, 12, cache_path=cache, prefetch_ndata=names)
    loader = DataLoader(g, torch.arange(12), sampler, batch_size=3, shuffle=True)
    model = Sage(g.ndata["feat"].shape[1])

    def loss(part):
        mask = part.ndata["train_mask"].bool()
        logits = model([part, part], part.ndata["feat"])
        return F.cross_entropy(logits[mask], part.ndata["label"][mask])

    return learn(model, lambda *part: loss(*part), ([part] for part in loader), epochs=1)


def full_graph(g):
    """train_full and the arxiv examples: every layer over the whole graph, its structure changed in place."""
    g.add_edges(*reversed(g.edges()))
    g = g.remove_self_loop()
    g = dgl.add_self_loop(g)
    degrees = g.in_degrees().to(torch.get_default_dtype()).clamp(min=1)
    model = Sage(g.ndata["feat"].shape[1])
    mask = g.ndata["train_mask"]

    def loss():
        logits = model([g, g], g.ndata["feat"] / degrees[:, None])
        return F.cross_entropy(logits[mask], g.ndata["label"][mask])

    return learn(model, loss, [(), ()])


PROGRAMS = [
    node_classification,
    link_prediction,
    products_sage,
    products_gat,
    proteins_gat,
    cluster_gcn,
    full_graph,
]
