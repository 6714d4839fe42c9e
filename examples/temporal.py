"""Predict later messages from earlier ones: no neighbour is later than the edge that is asked about."""

import small_graphs
import torch
import torch.nn.functional as F
from torch_geometric import seed_everything
from torch_geometric.nn import GraphSAGE

from gz_pyg import LinkNeighborLoader, load


def main() -> None:
    args = small_graphs.options(__doc__)
    seed_everything(args.seed)
    data = load(small_graphs.store_of(args, "messages"))

    later = torch.arange(data.num_edges // 2, data.num_edges)
    later = later[torch.randperm(len(later))[:20_000]]
    loader = LinkNeighborLoader(
        data,
        num_neighbors=[10, 5],
        edge_label_index=data.edge_index[:, later],
        edge_label_time=data.edge_time[later] - 1,  # strictly before
        time_attr="edge_time",
        temporal_strategy="last",
        neg_sampling="binary",
        batch_size=512,
        shuffle=True,
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
