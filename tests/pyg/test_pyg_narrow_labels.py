"""Labels stored as int16 and read as int64, through PyG: a script sees those of a Data in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import gz
import gz_pyg
from gz._base import memory_plan

N, E = 300, 2000


@pytest.fixture
def labels() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).integers(-1, 172, N))


@pytest.fixture
def path(labels, tmp_path) -> str:
    rng = np.random.default_rng(0)
    gz.ingest(
        tmp_path / "s",
        edges=rng.integers(0, N, (2, E)),
        features={"x": rng.standard_normal((N, 4)).astype(np.float32), "y": labels},
        num_nodes=N,
        dtype={"y": "int16:int64"},
    )
    return str(tmp_path / "s")


def test_labels_are_those_in_memory(path, labels):
    data = gz_pyg.load(path)
    assert (data.y.dtype, data.y.shape) == (torch.int64, (N,))
    assert torch.equal(data.y[torch.tensor([5, 5, 299])], labels[[5, 5, 299]])
    assert torch.equal(data.y, labels)
    assert data.num_classes == int(labels.max()) + 1
    data.y = data.y.clamp(min=0)
    assert torch.equal(data.y, labels.clamp(min=0))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_take_a_loss_of_them(path, labels, num_workers):
    loader = gz_pyg.NeighborLoader(
        path, num_neighbors=[5, 5], input_nodes=torch.arange(100), batch_size=32, num_workers=num_workers
    )
    for batch in loader:
        assert batch.y.dtype == torch.int64
        assert torch.equal(batch.y, labels[batch.n_id])
        F.cross_entropy(torch.zeros(batch.num_nodes, 172), batch.y.clamp(min=0))


def test_batches_need_no_more_than_their_rows(path, labels, monkeypatch):
    monkeypatch.setattr(memory_plan, "free_ram", lambda: 100)  # no room for all of a column
    data = gz_pyg.load(path)
    batch = next(iter(gz_pyg.NeighborLoader(data, [5], torch.arange(9), batch_size=9)))
    assert torch.equal(batch.y, labels[batch.n_id])
    with pytest.raises(MemoryError, match="y in memory would take"):
        data.y.sum()


def test_saved_again_they_are_the_same(path, labels, tmp_path):
    gz_pyg.save(gz_pyg.load(path), tmp_path / "again")
    again = gz.open(tmp_path / "again").feature("y")
    assert again.dtype == "int64"
    np.testing.assert_array_equal(again.get_tensor(), labels.numpy())
