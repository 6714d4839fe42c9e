"""Programs of the kind DGL's examples are, for graphs of many types: the calls they make, in their order.

As node_programs.py: whole neighbourhoods, nothing dropped.
"""

from __future__ import annotations

import dgl
import dgl.function as fn
import torch
import torch.nn.functional as F
from dgl import AddReverse, Compose, ToSimple, apply_each
from dgl.dataloading import (
    DataLoader,
    MultiLayerFullNeighborSampler,
    MultiLayerNeighborSampler,
    NeighborSampler,
)
from dgl.nn import GATConv, GraphConv, HeteroEmbedding, HeteroGraphConv, RelGraphConv
from node_programs import CLASSES, WIDTH, learn
from torch import nn


def ids_of(g, mask="train_mask"):
    return {"paper": g.nodes["paper"].data[mask].nonzero().flatten().to(g.idtype)}


class Relational(nn.Module):
    """A convolution for every relation, summed."""

    def __init__(self, etypes, sizes, layer):
        super().__init__()
        self.layers = nn.ModuleList(
            HeteroGraphConv({e: layer(a, b) for e in etypes}, aggregate="sum") for a, b in sizes
        )

    def forward(self, blocks, h):
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(block, h)
            h = apply_each(h, lambda x: x.flatten(1))
            if number + 1 < len(self.layers):
                h = apply_each(h, F.relu)
        return h


def graph_conv(a, b):
    return GraphConv(a, b, norm="right", allow_zero_in_degree=True)


def rgat(g):
    """rgat: labels assigned as a dict, reverse types added, features of other types from papers'."""
    g.ndata["label"] = {"paper": g.nodes["paper"].data.pop("y")}
    g = AddReverse()(g)
    for etype in ("rev_writes", "has_topic"):
        g.update_all(fn.copy_u("feat", "m"), fn.mean("m", "feat"), etype=etype)
    size = g.ndata["feat"]["paper"].shape[1]
    model = Relational(
        g.etypes,
        [(size, WIDTH // 2), (WIDTH, WIDTH // 2)],
        lambda a, b: GATConv(a, b, 2, allow_zero_in_degree=True),
    )
    head = nn.Linear(WIDTH, CLASSES)
    sampler = NeighborSampler(
        [-1, -1],
        prefetch_node_feats={t: ["feat"] for t in g.ntypes},
        prefetch_labels={"paper": ["label"]},
    )
    loader = DataLoader(g, ids_of(g), sampler, batch_size=30, shuffle=True)

    def loss(inputs, outputs, blocks):
        h = model(blocks, blocks[0].srcdata["feat"])
        return F.cross_entropy(head(h["paper"]), blocks[-1].dstdata["label"]["paper"])

    return learn(nn.ModuleList([model, head]), loss, loader)


def mag(g):
    """ogbn-mag: made simple, reverse types added, learned rows for the types without features."""
    g = Compose([ToSimple(), AddReverse()])(g)
    labels = g.nodes["paper"].data["y"]
    rows = HeteroEmbedding({t: g.num_nodes(t) for t in g.ntypes if t != "paper"}, 6)
    model = Relational(g.etypes, [(6, WIDTH), (WIDTH, CLASSES)], graph_conv)
    loader = DataLoader(
        g, ids_of(g), MultiLayerNeighborSampler([-1, -1]), batch_size=30, shuffle=True, num_workers=1
    )

    def forward(inputs, blocks):
        h = rows({t: ids for t, ids in inputs.items() if t != "paper"})
        h["paper"] = g.ndata["feat"]["paper"][inputs["paper"]]
        return model([b.to("cpu") for b in blocks], h)["paper"]

    learned = learn(
        nn.ModuleList([model, rows]),
        lambda inputs, seeds, blocks: F.cross_entropy(forward(inputs, blocks), labels[seeds["paper"]]),
        loader,
    )
    everything = {"paper": torch.arange(g.num_nodes("paper"))}
    loader = DataLoader(g, everything, MultiLayerFullNeighborSampler(2), batch_size=25)
    with torch.no_grad():
        return {**learned, "all": torch.cat([forward(i, blocks) for i, _, blocks in loader])}


def entity_classify(g):
    """rgcn-hetero/entity_classify_mb: masks and labels popped, learned rows for all types, a worker."""
    data = g.nodes["paper"].data
    train = data.pop("train_mask").nonzero().flatten()
    labels = data.pop("y")
    rows = nn.ParameterDict({t: nn.Parameter(torch.empty(g.num_nodes(t), WIDTH)) for t in g.ntypes})
    for row in rows.values():
        nn.init.xavier_uniform_(row)
    model = Relational(g.etypes, [(WIDTH, WIDTH), (WIDTH, CLASSES)], graph_conv)
    sampler = MultiLayerNeighborSampler([-1, -1])
    loader = DataLoader(g, {"paper": train}, sampler, batch_size=30, shuffle=True, num_workers=1)

    def loss(inputs, seeds, blocks):
        h = model(blocks, {t: rows[t][ids] for t, ids in inputs.items()})
        return F.cross_entropy(h["paper"], labels[seeds["paper"]])

    with loader.enable_cpu_affinity():
        return learn(nn.ModuleList([model, rows]), loss, loader)


def entity_sample(g):
    """rgcn/entity_sample: made homogeneous, relations as edge types, normed block by block."""
    labels = g.nodes["paper"].data.pop("y")
    train = g.nodes["paper"].data.pop("train_mask").nonzero().flatten()
    relations, category = len(g.canonical_etypes), g.ntypes.index("paper")
    g = dgl.to_homogeneous(g)
    targets = torch.arange(g.num_nodes())[g.ndata[dgl.NTYPE] == category]
    g.ndata["ntype"] = g.ndata.pop(dgl.NTYPE)
    g.ndata["type_id"] = g.ndata.pop(dgl.NID)
    rows = nn.Embedding(g.num_nodes(), WIDTH)
    layer = RelGraphConv(WIDTH, CLASSES, relations, "basis", relations, self_loop=False)
    loader = DataLoader(g, targets[train], MultiLayerNeighborSampler([-1]), batch_size=30, shuffle=True)

    def loss(inputs, outputs, blocks):
        (block,) = blocks
        block.edata["norm"] = dgl.norm_by_dst(block).unsqueeze(1)
        x = rows(block.srcdata[dgl.NID])
        h = layer(block, x, block.edata[dgl.ETYPE], block.edata["norm"])
        return F.cross_entropy(h, labels[block.dstdata["type_id"]])

    return learn(nn.ModuleList([rows, layer]), loss, loader)


PROGRAMS = [rgat, mag, entity_classify, entity_sample]
