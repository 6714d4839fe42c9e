"""Node classification on a heterogeneous graph, with a model made by `to_hetero`."""

import small_graphs
import torch
import torch.nn.functional as F
from torch_geometric import seed_everything
from torch_geometric.nn import GraphSAGE, to_hetero

from gz_pyg import NeighborLoader, load


def main() -> None:
    args = small_graphs.options(__doc__)
    seed_everything(args.seed)
    data = load(small_graphs.store_of(args, "library"))

    common = {"num_neighbors": [10, 5], "batch_size": 512, "num_workers": args.workers}
    train_loader = NeighborLoader(
        data, input_nodes=("paper", data["paper"].train_mask), shuffle=True, **common
    )
    test_loader = NeighborLoader(data, input_nodes=("paper", data["paper"].test_mask), **common)

    model = GraphSAGE((-1, -1), 64, num_layers=2, out_channels=small_graphs.CLASSES)
    model = to_hetero(model, data.metadata())
    with torch.no_grad():  # gives the lazy layers their sizes
        batch = next(iter(train_loader))
        model(batch.x_dict, batch.edge_index_dict)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    for epoch in range(1, args.epochs + 1):
        model.train()
        total = count = 0
        for batch in train_loader:
            optimizer.zero_grad()
            size = batch["paper"].batch_size
            out = model(batch.x_dict, batch.edge_index_dict)["paper"][:size]
            loss = F.cross_entropy(out, batch["paper"].y[:size])
            loss.backward()
            optimizer.step()
            total += loss.item() * size
            count += size

        model.eval()
        correct = 0
        with torch.no_grad():
            for batch in test_loader:
                size = batch["paper"].batch_size
                out = model(batch.x_dict, batch.edge_index_dict)["paper"][:size]
                correct += int((out.argmax(1) == batch["paper"].y[:size]).sum())
        accuracy = correct / len(test_loader.dataset)
        print(f"epoch {epoch}: loss {total / count:.3f}, test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
