"""A relational GCN on a heterogeneous graph with DGL, after DGL's examples/core/rgcn/hetero_rgcn.py.

Every node type has node data "feat"; one of them, --target, has "label", "train_mask" and "test_mask".
"""

import argparse

import dgl
import dgl.nn
import torch
import torch.nn.functional as F


class RGCN(torch.nn.Module):
    def __init__(self, g, in_size, hidden, out_size):
        super().__init__()
        sizes = [(in_size, hidden), (hidden, out_size)]
        self.layers = torch.nn.ModuleList(
            dgl.nn.HeteroGraphConv({e: dgl.nn.SAGEConv(i, o, "mean") for e in g.etypes}, aggregate="mean")
            for i, o in sizes
        )

    def forward(self, blocks, h):
        h = {t: F.relu(x) for t, x in self.layers[0](blocks[0], h).items()}
        return self.layers[1](blocks[1], h)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph")
    parser.add_argument("--target", default="paper")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    dgl.seed(args.seed)

    g = dgl.load_graphs(args.graph)[0][0]
    target = g.nodes[args.target].data
    splits = {name: target[f"{name}_mask"].nonzero().squeeze(1) for name in ("train", "test")}
    model = RGCN(g, target["feat"].shape[1], 64, int(target["label"].max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    sampler = dgl.dataloading.NeighborSampler([dict.fromkeys(g.etypes, 5)] * 2)

    def run(name, train):
        model.train(train)
        loader = dgl.dataloading.DataLoader(
            g,
            {args.target: splits[name]},
            sampler,
            batch_size=args.batch_size,
            shuffle=train,
            num_workers=args.num_workers,
        )
        total, right = 0.0, 0
        for _, output_nodes, blocks in loader:
            logits = model(blocks, blocks[0].srcdata["feat"])[args.target]
            labels = blocks[-1].dstnodes[args.target].data["label"]
            loss = F.cross_entropy(logits, labels)
            if train:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item() * len(output_nodes[args.target])
            right += (logits.argmax(1) == labels).sum().item()
        return total / len(splits[name]), right / len(splits[name])

    for epoch in range(args.epochs):
        print(f"epoch {epoch}: loss {run('train', True)[0]:.4f}")
    with torch.no_grad():
        print(f"test accuracy {run('test', False)[1]:.4f}")


if __name__ == "__main__":
    main()
