"""Several ranks on one store, each with its share of the seeds: what one process learns of the same batches.

Without chance (all neighbours, no dropout, no shuffling) the two are the same but for rounding, also where
the last batches differ in size, or where one rank has a batch less than the other.
"""

from __future__ import annotations

import numpy as np
import pytest
import ready
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE

import gz
from gz_pyg import NeighborLoader, load

N, CLASSES, BATCH, WORLD = 120, 3, 8, 2
SEEDS = [45, 33, 32, 1]  # last batches of 7 and 6; 1 and none; equal; only one rank has any


def train(model, data, seeds, batch, rank, world):
    """Yields after each step; sums over the seeds of all ranks."""
    total = len(seeds)
    loader = NeighborLoader(data, [-1, -1], seeds[rank::world], batch_size=batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, b in enumerate(loader):
        optimizer.zero_grad()
        out = model(b.x, b.edge_index)[: b.batch_size]
        here = min(world * batch, total - step * world * batch)
        (F.cross_entropy(out, b.y[: b.batch_size], reduction="sum") * world / here).backward()
        optimizer.step()


def model_of(data):
    torch.manual_seed(0)
    return GraphSAGE(data.num_features, 8, num_layers=2, out_channels=CLASSES)


def run(rank, meeting, path, out):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=WORLD)
    data = load(path)
    learned = []
    for count in SEEDS:
        model = DistributedDataParallel(model_of(data))
        with model.join():
            train(model, data, torch.arange(count), BATCH, rank, WORLD)
        learned.append(model.module.state_dict())
        del model
    torch.save(learned, f"{out}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_ranks_learn_what_one_process_does_from_the_same_batches(tmp_path):
    rng = np.random.default_rng(0)
    features = {"x": rng.standard_normal((N, 5)).astype(np.float32), "y": rng.integers(0, CLASSES, N)}
    edges = rng.integers(0, N, (2, 600))
    gz.ingest(tmp_path / "s", edges=(edges[0], edges[1]), num_nodes=N, features=features, progress=False)
    args = (str(tmp_path / "meeting"), str(tmp_path / "s"), str(tmp_path))
    mp.start_processes(run, args, nprocs=WORLD, start_method=ready.CLEAN)
    ranks = [torch.load(tmp_path / f"{r}.pt") for r in range(WORLD)]
    data = load(tmp_path / "s")
    for i, count in enumerate(SEEDS):
        alone = model_of(data)
        train(alone, data, torch.arange(count), BATCH * WORLD, 0, 1)
        for learned in ranks:
            for name, value in alone.state_dict().items():
                torch.testing.assert_close(learned[i][name], value, rtol=1e-4, atol=1e-6)
