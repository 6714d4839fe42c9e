"""A program of the kind of papers100m_gcn and distributed_sampling: the graph handed to several processes,
each of which takes its part of the split and trains with the others."""

from __future__ import annotations

import copy

import ready
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from pyg_datasets import CLASSES, Dataset
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GCN

from gz_pyg import NeighborLoader

RANKS = 2


def train(rank, data, model, split):
    ids = split["train"].split(split["train"].size(0) // RANKS, dim=0)[rank].clone()
    options = {"num_neighbors": [4, 4], "batch_size": 20}
    loader = NeighborLoader(data, input_nodes=ids, shuffle=True, drop_last=True, **options)
    test_loader = NeighborLoader(data, input_nodes=split["test"], **options)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    losses = []
    for batch in loader:
        size = batch.num_sampled_nodes[0]
        batch.y = batch.y.to(torch.long)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch.x, batch.edge_index)[:size], batch.y[:size])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    dist.barrier()
    with torch.no_grad():
        out = [model(b.x, b.edge_index)[: b.num_sampled_nodes[0]] for b in test_loader]
    return {"losses": torch.stack(losses), "test": torch.cat(out)}


def run(rank, meeting, graphs, model, split, out):
    """All graphs one after the other, each from the same weights and seeds."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    found = []
    for data in graphs:
        torch.manual_seed(rank)
        own = copy.deepcopy(model)  # as .to(rank) makes one: what was handed over lies in shared memory
        found.append(train(rank, data, own, split))
    torch.save(found, f"{out}/{rank}.pt")
    dist.destroy_process_group()


def learned_by_each_rank(graphs, folder):
    """[rank][graph]: the losses, and what the model says of the test nodes."""
    split = Dataset(graphs[:1]).get_idx_split()
    model = GCN(graphs[0].num_features, 8, 2, CLASSES)
    for data in graphs:
        data.y = data.y.reshape(-1)
    args = (str(folder / "meeting"), graphs, model, split, str(folder))
    mp.start_processes(run, args, nprocs=RANKS, start_method=ready.CLEAN)  # mp.spawn, but for its imports
    return [torch.load(folder / f"{rank}.pt") for rank in range(RANKS)]
