"""GraphSAGE node classification with DGL, after DGL's examples/pytorch/graphsage/node_classification.py.

The graph has node data "feat", "label", "train_mask" and "test_mask".
"""

import argparse

import dgl
import dgl.nn
import torch
import torch.nn.functional as F


class SAGE(torch.nn.Module):
    def __init__(self, in_size, hidden, out_size):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            [dgl.nn.SAGEConv(in_size, hidden, "mean"), dgl.nn.SAGEConv(hidden, out_size, "mean")]
        )

    def forward(self, blocks, x):
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            x = layer(block, x)
            if i + 1 < len(self.layers):
                x = F.dropout(F.relu(x), 0.5, self.training)
        return x


def accuracy(model, g, nodes, batch_size):
    model.eval()
    sampler = dgl.dataloading.MultiLayerFullNeighborSampler(
        2, prefetch_node_feats=["feat"], prefetch_labels=["label"]
    )
    right = 0
    with torch.no_grad():
        for _, _, blocks in dgl.dataloading.DataLoader(g, nodes, sampler, batch_size=batch_size):
            predicted = model(blocks, blocks[0].srcdata["feat"]).argmax(1)
            right += (predicted == blocks[-1].dstdata["label"]).sum().item()
    return right / len(nodes)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    dgl.seed(args.seed)

    g = dgl.load_graphs(args.graph)[0][0]
    train = g.ndata["train_mask"].nonzero().squeeze(1)
    test = g.ndata["test_mask"].nonzero().squeeze(1)
    model = SAGE(g.ndata["feat"].shape[1], 64, int(g.ndata["label"].max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    sampler = dgl.dataloading.NeighborSampler(
        [10, 10], prefetch_node_feats=["feat"], prefetch_labels=["label"]
    )
    loader = dgl.dataloading.DataLoader(
        g, train, sampler, batch_size=args.batch_size, shuffle=True, num_workers=args.num_workers
    )
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for _, output_nodes, blocks in loader:
            logits = model(blocks, blocks[0].srcdata["feat"])
            loss = F.cross_entropy(logits, blocks[-1].dstdata["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(output_nodes)
        print(f"epoch {epoch}: loss {total / len(train):.4f}")
    print(f"test accuracy {accuracy(model, g, test, args.batch_size):.4f}")


if __name__ == "__main__":
    main()
