"""GraphSAGE on several processes of one machine, started by torchrun --nproc-per-node 2."""

import argparse

import small_graphs
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_geometric import seed_everything
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE

SEEDS = 512  # of a batch, on each rank


def train(args: argparse.Namespace) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    data = small_graphs.in_memory(args, "papers")
    seed_everything(args.seed + rank)

    nodes = data.train_mask.nonzero().view(-1)
    total, nodes = (
        len(nodes),
        nodes[rank::world],
    )  # each seed on one rank: none is dropped, none is there twice
    train_loader = NeighborLoader(data, [15, 10], nodes, batch_size=SEEDS, shuffle=True)
    test_nodes = data.test_mask.nonzero().view(-1)[rank::world]
    test_loader = NeighborLoader(data, [15, 10], test_nodes, batch_size=1024)

    torch.manual_seed(args.seed)  # the same start everywhere
    model = DistributedDataParallel(
        GraphSAGE(data.num_features, 64, num_layers=2, out_channels=int(data.y.max()) + 1)
    )
    torch.manual_seed(args.seed + 1 + rank)  # and different samples
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    for epoch in range(1, args.epochs + 1):
        model.train()
        with model.join():  # a rank that has a batch less waits here for the others
            for step, batch in enumerate(train_loader):
                optimizer.zero_grad()
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                # DDP takes the mean of the ranks: with this it is the mean over the seeds of all of them.
                seeds = min(world * SEEDS, total - step * world * SEEDS)
                loss = F.cross_entropy(out, batch.y[: batch.batch_size], reduction="sum") * world / seeds
                loss.backward()
                optimizer.step()

        model.eval()
        correct = torch.zeros(2)
        with torch.no_grad():
            for batch in test_loader:
                out = model.module(batch.x, batch.edge_index)[: batch.batch_size]
                hits = (out.argmax(1) == batch.y[: batch.batch_size]).sum()
                correct += torch.tensor([hits, batch.batch_size])
        dist.all_reduce(correct)
        if rank == 0:
            print(f"epoch {epoch}: test accuracy {float(correct[0] / correct[1]):.3f}", flush=True)


def main() -> None:
    args = small_graphs.options(__doc__)
    dist.init_process_group("gloo")
    train(args)
    # The model is gone by now, as it must be: one that outlives destroy_process_group() ends the group by
    # itself, holding the GIL while it waits for a thread of gloo's that may be waiting for the GIL.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
