"""GraphSAGE on Cora over a store learns what it learns in memory, seed by seed."""

from __future__ import annotations

import accuracy
import dgl
import dgl.nn
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dgl.dataloading import DataLoader, MultiLayerFullNeighborSampler, NeighborSampler
from graphs import citation_network

NAMES = {"prefetch_node_feats": ["feat"], "prefetch_labels": ["label"]}


@pytest.fixture(autouse=True)
def one_thread():
    """torch's threads spin while they wait, which on a busy machine takes minutes for nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class SAGE(torch.nn.Module):
    def __init__(self, in_size, out_size):
        super().__init__()
        self.first = dgl.nn.SAGEConv(in_size, accuracy.HIDDEN, "mean")
        self.second = dgl.nn.SAGEConv(accuracy.HIDDEN, out_size, "mean")

    def forward(self, blocks, x):
        return self.second(blocks[1], F.relu(self.first(blocks[0], x)))


def reached(g, train, test, seed):
    """Test accuracy of a model trained on sampled blocks and tested on full neighbourhoods."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    dgl.seed(seed)
    model = SAGE(g.ndata["feat"].shape[1], int(g.ndata["label"].max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), **accuracy.ADAM)
    loader = DataLoader(g, train, NeighborSampler([10, 10], **NAMES), batch_size=1000, shuffle=True)
    for _ in range(accuracy.EPOCHS):
        for _, _, blocks in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(blocks, blocks[0].srcdata["feat"]), blocks[-1].dstdata["label"]).backward()
            optimizer.step()
    _, _, blocks = next(
        iter(DataLoader(g, test, MultiLayerFullNeighborSampler(2, **NAMES), batch_size=len(test)))
    )
    with torch.no_grad():
        right = model(blocks, blocks[0].srcdata["feat"]).argmax(1) == blocks[-1].dstdata["label"]
    return right.float().mean().item()


@pytest.mark.slow
def test_cora_over_a_store_reaches_the_accuracy_of_memory(on_disk):
    cora = citation_network("cora")
    ends = np.concatenate([cora.src, cora.dst]), np.concatenate([cora.dst, cora.src])
    g = dgl.to_simple(dgl.graph(ends, num_nodes=cora.num_nodes))
    g.ndata["feat"] = F.normalize(torch.from_numpy(cora.x))
    g.ndata["label"] = torch.from_numpy(cora.y)
    h = on_disk(g)
    theirs, ours = [], []
    for seed in accuracy.SEEDS:
        mask = torch.from_numpy(accuracy.training_nodes(cora.y, seed))
        train, test = mask.nonzero().view(-1), (~mask).nonzero().view(-1)
        theirs.append(reached(g, train, test, seed))
        ours.append(reached(h, train, test, seed))
    assert np.mean(theirs) > accuracy.LEAST["cora"], theirs
    accuracy.assert_equivalent(ours, theirs)
