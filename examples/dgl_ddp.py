"""GraphSAGE with DGL on several processes of one machine, or of several with a copy of the store each:

    torchrun --nproc-per-node 2 examples/dgl_ddp.py STORE

The graph has node data "feat", "label", "train_mask" and "test_mask". Every process opens the store: the page
cache is shared, so a second one costs little memory.
"""

import argparse

import dgl
import dgl.nn
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import gz_dgl


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


def batches(g, mask, fanouts, args, shuffle=False):
    """This rank's share of the nodes under a mask, each of them on one rank: DGL's use_ddp=True would repeat
    some so that all ranks have as many."""
    nodes = g.ndata[mask].nonzero().squeeze(1)
    mine = nodes[dist.get_rank() :: dist.get_world_size()]
    sampler = dgl.dataloading.NeighborSampler(
        fanouts, prefetch_node_feats=["feat"], prefetch_labels=["label"]
    )
    loader = dgl.dataloading.DataLoader(g, mine, sampler, batch_size=args.batch_size, shuffle=shuffle)
    return len(nodes), loader


def train(args):
    rank, world = dist.get_rank(), dist.get_world_size()
    g = gz_dgl.load(args.graph)
    torch.manual_seed(args.seed)  # the same start everywhere
    model = DistributedDataParallel(SAGE(g.ndata["feat"].shape[1], 64, int(g.ndata["label"].max()) + 1))
    torch.manual_seed(args.seed + 1 + rank)  # and different samples
    dgl.seed(args.seed + 1 + rank)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    total, loader = batches(g, "train_mask", [10, 10], args, shuffle=True)
    for epoch in range(args.epochs):
        model.train()
        with model.join():  # a rank that has a batch less waits here for the others
            for step, (_, _, blocks) in enumerate(loader):
                logits = model(blocks, blocks[0].srcdata["feat"])
                # DDP takes the mean of the ranks: with this it is the mean over the seeds of all of them.
                seeds = min(world * args.batch_size, total - step * world * args.batch_size)
                loss = F.cross_entropy(logits, blocks[-1].dstdata["label"], reduction="sum") * world / seeds
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        evaluate(model.module, g, args, rank, epoch)


@torch.no_grad()
def evaluate(model, g, args, rank, epoch):
    model.eval()
    right = torch.zeros(2)
    for _, seeds, blocks in batches(g, "test_mask", [-1, -1], args)[1]:
        predicted = model(blocks, blocks[0].srcdata["feat"]).argmax(1)
        right += torch.tensor([float((predicted == blocks[-1].dstdata["label"]).sum()), len(seeds)])
    dist.all_reduce(right)
    if rank == 0:
        print(f"epoch {epoch}: test accuracy {float(right[0] / right[1]):.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=1024, help="of each process")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    train(args)
    # The model is gone by now, as it must be: one that outlives destroy_process_group() ends the group by
    # itself, holding the GIL while it waits for a thread of gloo's that may be waiting for the GIL.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
