"""Node classification with GraphSAGE. --small makes a graph of a second."""

import small_graphs
import torch
import torch.nn.functional as F
from torch_geometric import seed_everything
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE


def main() -> None:
    args = small_graphs.options(__doc__)
    seed_everything(args.seed)
    data = small_graphs.in_memory(args, "papers")

    common = {"num_neighbors": [15, 10], "batch_size": 1024, "num_workers": args.workers}
    train_loader = NeighborLoader(data, input_nodes=data.train_mask, shuffle=True, **common)
    test_loader = NeighborLoader(data, input_nodes=data.test_mask, **common)

    model = GraphSAGE(data.num_features, 64, num_layers=2, out_channels=int(data.y.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    for epoch in range(1, args.epochs + 1):
        model.train()
        total = count = 0
        for batch in train_loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = F.cross_entropy(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
            total += loss.item() * batch.batch_size
            count += batch.batch_size

        model.eval()
        correct = 0
        with torch.no_grad():
            for batch in test_loader:
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                correct += int((out.argmax(1) == batch.y[: batch.batch_size]).sum())
        accuracy = correct / len(test_loader.dataset)
        print(f"epoch {epoch}: loss {total / count:.3f}, test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
