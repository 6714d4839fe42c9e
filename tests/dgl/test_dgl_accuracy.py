"""GraphSAGE on Cora over a store learns what it learns in memory: over several seeds, within noise."""

from __future__ import annotations

import dgl
import dgl.nn
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dgl.dataloading import DataLoader, MultiLayerFullNeighborSampler, NeighborSampler
from graphs import citation_network

SEEDS, EPOCHS, HIDDEN = 3, 6, 32


class SAGE(torch.nn.Module):
    def __init__(self, in_size, out_size):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            [dgl.nn.SAGEConv(in_size, HIDDEN, "mean"), dgl.nn.SAGEConv(HIDDEN, out_size, "mean")]
        )

    def forward(self, blocks, x):
        x = F.dropout(F.relu(self.layers[0](blocks[0], x)), 0.5, self.training)
        return self.layers[1](blocks[1], x)


def accuracy(g, train, test, classes, seed):
    torch.manual_seed(seed)
    np.random.seed(seed)
    dgl.seed(seed)
    model = SAGE(g.ndata["feat"].shape[1], classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    names = {"prefetch_node_feats": ["feat"], "prefetch_labels": ["label"]}
    for _ in range(EPOCHS):
        for _, _, blocks in DataLoader(
            g, train, NeighborSampler([5, 5], **names), batch_size=250, shuffle=True
        ):
            optimizer.zero_grad()
            F.cross_entropy(model(blocks, blocks[0].srcdata["feat"]), blocks[-1].dstdata["label"]).backward()
            optimizer.step()
    model.eval()
    _, _, blocks = next(
        iter(DataLoader(g, test, MultiLayerFullNeighborSampler(2, **names), batch_size=len(test)))
    )
    with torch.no_grad():
        right = model(blocks, blocks[0].srcdata["feat"]).argmax(1) == blocks[-1].dstdata["label"]
    return right.float().mean().item()


@pytest.mark.slow
def test_cora_over_a_store_reaches_the_accuracy_of_memory(on_disk):
    cora = citation_network("cora")
    g = dgl.graph(
        (np.concatenate([cora.src, cora.dst]), np.concatenate([cora.dst, cora.src])), num_nodes=cora.num_nodes
    )
    g.ndata["feat"], g.ndata["label"] = torch.from_numpy(cora.x), torch.from_numpy(cora.y)
    order = torch.randperm(cora.num_nodes, generator=torch.Generator().manual_seed(0))
    train, test = order[:1000], order[1000:2000]
    classes = int(cora.y.max()) + 1
    h = on_disk(g)
    theirs = [accuracy(g, train, test, classes, s) for s in range(SEEDS)]
    ours = [accuracy(h, train, test, classes, s) for s in range(SEEDS)]
    assert np.mean(ours) > 0.75
    spread = (np.var(theirs, ddof=1) + np.var(ours, ddof=1)) ** 0.5 / SEEDS**0.5
    assert abs(np.mean(ours) - np.mean(theirs)) < 4 * spread + 0.01
