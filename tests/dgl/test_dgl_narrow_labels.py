"""Labels stored as int16 and read as int64, through DGL: a script sees those of a graph in memory."""

from __future__ import annotations

import dgl
import numpy as np
import pytest
import torch

import gz
import gz_dgl
from gz._base import memory_plan

N, E = 300, 2000


@pytest.fixture
def labels() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).integers(-1, 172, N))


@pytest.fixture
def path(labels, tmp_path) -> str:
    edges = np.random.default_rng(0).integers(0, N, (2, E))
    gz.ingest(tmp_path / "s", edges=edges, features={"y": labels}, num_nodes=N, dtype={"y": "int16:int64"})
    return str(tmp_path / "s")


def test_labels_are_those_in_memory_whole_or_in_part(path, labels):
    g = gz_dgl.load(path)
    assert g.node_attr_schemes()["y"].dtype == torch.int64
    assert torch.equal(g.ndata["y"], labels)
    ids = torch.tensor([5, 5, 299])
    assert torch.equal(g.get_node_storage("y").fetch(ids, "cpu").wait(), labels[ids])


def test_batches_hold_them_and_need_no_more(path, labels, monkeypatch):
    g = gz_dgl.load(path)
    monkeypatch.setattr(memory_plan, "free_ram", lambda: 100)  # no room for all of a column
    sampler = dgl.dataloading.NeighborSampler([4], prefetch_labels=["y"])
    for _, seeds, blocks in dgl.dataloading.DataLoader(g, torch.arange(90), sampler, batch_size=30):
        assert blocks[-1].dstdata["y"].dtype == torch.int64
        assert torch.equal(blocks[-1].dstdata["y"], labels[seeds])
