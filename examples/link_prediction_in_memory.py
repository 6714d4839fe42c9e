"""Link prediction with sampled negatives: every edge of the graph is to be told from a random pair."""

import small_graphs
import torch
import torch.nn.functional as F
from torch_geometric import seed_everything
from torch_geometric.loader import LinkNeighborLoader
from torch_geometric.nn import GraphSAGE


def main() -> None:
    args = small_graphs.options(__doc__)
    seed_everything(args.seed)
    data = small_graphs.in_memory(args, "papers")

    loader = LinkNeighborLoader(
        data,
        num_neighbors=[10, 5],
        batch_size=2048,
        shuffle=True,
        neg_sampling="binary",
        num_workers=args.workers,
    )
    model = GraphSAGE(data.num_features, 64, num_layers=2, out_channels=64)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    for epoch in range(1, args.epochs + 1):
        total = count = correct = 0
        for batch in loader:
            optimizer.zero_grad()
            h = model(batch.x, batch.edge_index)
            src, dst = batch.edge_label_index
            score = (h[src] * h[dst]).sum(dim=-1)
            loss = F.binary_cross_entropy_with_logits(score, batch.edge_label)
            loss.backward()
            optimizer.step()
            total += loss.item() * score.numel()
            correct += int(((score > 0) == (batch.edge_label > 0)).sum())
            count += score.numel()
        print(f"epoch {epoch}: loss {total / count:.3f}, accuracy {correct / count:.3f}")


if __name__ == "__main__":
    main()
