"""Training on a store whose hot rows lie in front: the losses are those of the plain store, to the bit."""

from __future__ import annotations

import gc
import os
import time

import numpy as np
import pytest
import torch
from waits import PATIENCE

import gz
import gz_pyg
from gz._base import memory_plan

N, WIDTH, CLASSES = 20_000, 64, 5


def evict(path) -> None:
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def losses(path, cold: bool) -> tuple[list[float], dict]:
    """Of two epochs; with the column put out of memory before each batch, if it is to be cold."""
    torch.manual_seed(0)
    data = gz_pyg.load(path, cache=0)
    if cold:
        data.store.feature("x")  # opening reads ahead, all of a small file
        evict(path / "nodes/node/x.gd")
    model = torch.nn.Linear(WIDTH, CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = gz_pyg.NeighborLoader(
        data, [5, 5], torch.arange(0, N, 28), batch_size=128, shuffle=True, prefetch=0
    )
    found = []
    for _ in range(2):
        for batch in loader:
            mean = torch.zeros_like(batch.x).index_add_(0, batch.edge_index[1], batch.x[batch.edge_index[0]])
            out = model(batch.x + mean)[: batch.batch_size]
            loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(float(loss.detach()))
            if cold:
                evict(path / "nodes/node/x.gd")
    return found, data.store.feature("x").stats() | {"lists": data.store.graph().stats()["hot"]}


# As if so much were free: room for the topology and the rows in front, not for the column; and room for
# neither, but for the lists in front.
ROOM = {"rows": N * WIDTH * 4, "lists": 950_000}


@pytest.mark.slow
@pytest.mark.parametrize("in_front", ROOM)
def test_losses_are_those_of_the_plain_store_to_the_bit(in_front, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    src, dst = (rng.random(120_000) ** 3 * N).astype(np.int64), rng.integers(0, N, 120_000)
    features = {
        "x": rng.standard_normal((N, WIDTH)).astype(np.float32),
        "y": rng.integers(0, CLASSES, N),
    }
    path = tmp_path / "s"
    gz.ingest(path, edges=(src, dst), features=features, splits={"train": np.arange(0, N, 28)})
    plain, _ = losses(path, cold=False)
    gz.reorder(path, share=0.3, fanouts=[5, 5])
    monkeypatch.setattr(memory_plan, "free_ram", lambda: ROOM[in_front])
    gc.collect()  # pages that are mapped stay
    end = time.monotonic() + PATIENCE
    while True:
        hot, stats = losses(path, cold=True)
        assert hot == plain
        if stats["misses"] + stats["hot"] == 0:
            pytest.skip(f"{tmp_path} keeps files in memory")
        if in_front == "lists" or stats["hot"] > 0 or time.monotonic() > end:  # rows: in the background
            break
    assert len(plain) == 12
    assert (stats["hot"] > 0, stats["lists"] > 0) == (in_front == "rows", in_front == "lists")
