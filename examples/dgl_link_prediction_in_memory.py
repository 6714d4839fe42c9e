"""GraphSAGE link prediction with DGL, after DGL's examples/pytorch/graphsage/link_pred.py.

Every edge has its reverse: edge e and edge (e + E/2) % E. The graph has node data "feat".
"""

import argparse

import dgl
import dgl.nn
import torch
import torch.nn.functional as F


class SAGE(torch.nn.Module):
    def __init__(self, in_size, hidden):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            [dgl.nn.SAGEConv(in_size, hidden, "mean"), dgl.nn.SAGEConv(hidden, hidden, "mean")]
        )

    def forward(self, blocks, x):
        x = F.relu(self.layers[0](blocks[0], x))
        return self.layers[1](blocks[1], x)


def score(pairs, h):
    with pairs.local_scope():
        pairs.ndata["h"] = h
        pairs.apply_edges(dgl.function.u_dot_v("h", "h", "score"))
        return pairs.edata["score"].squeeze(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    dgl.seed(args.seed)

    g = dgl.load_graphs(args.graph)[0][0]
    half = g.num_edges() // 2
    reverse = torch.cat([torch.arange(half, 2 * half), torch.arange(half)])
    sampler = dgl.dataloading.as_edge_prediction_sampler(
        dgl.dataloading.NeighborSampler([10, 10], prefetch_node_feats=["feat"]),
        exclude="reverse_id",
        reverse_eids=reverse,
        negative_sampler=dgl.dataloading.negative_sampler.Uniform(1),
    )
    loader = dgl.dataloading.DataLoader(
        g, torch.arange(half), sampler, batch_size=args.batch_size, shuffle=True, num_workers=args.num_workers
    )
    model = SAGE(g.ndata["feat"].shape[1], 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for epoch in range(args.epochs):
        total, seen, right = 0.0, 0, 0
        for _, positive, negative, blocks in loader:
            h = model(blocks, blocks[0].srcdata["feat"])
            scores = torch.cat([score(positive, h), score(negative, h)])
            labels = torch.cat([torch.ones(positive.num_edges()), torch.zeros(negative.num_edges())])
            loss = F.binary_cross_entropy_with_logits(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
            seen += len(labels)
            right += ((scores > 0) == (labels > 0)).sum().item()
        print(f"epoch {epoch}: loss {total / seen:.4f}, accuracy {right / seen:.4f}")


if __name__ == "__main__":
    main()
