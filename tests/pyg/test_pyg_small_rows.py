"""A store whose columns are stored as float16, bfloat16 or int8, through PyG: the same Data as one in memory
that holds what is read from them, in float32."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_rows import SMALL, rounded
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GraphSAGE

import gz
import gz_pyg
from gz._base import memory_plan

N, E, WIDTH = 400, 2500, 20


def made(stored: str, path) -> tuple[Data, str]:
    """The store, and a Data in memory whose x and edge_attr are what numpy makes of the rows in the files."""
    rng = np.random.default_rng(1)
    edges = rng.integers(0, N, (2, E))
    x = rng.standard_normal((N, WIDTH)).astype(np.float32)
    attr = rng.standard_normal((E, 3)).astype(np.float32)
    y = torch.from_numpy(rng.integers(0, 4, N))
    gz.ingest(
        path,
        edges=edges,
        features={"x": x, "y": y},
        edge_features={"edge_attr": attr},
        num_nodes=N,
        dtype={"x": stored, "edge_attr": stored},
    )
    return Data(
        x=rounded(x, stored), y=y, edge_index=torch.from_numpy(edges), edge_attr=rounded(attr, stored)
    ), str(path)


@pytest.fixture(params=SMALL)
def both(request, tmp_path) -> tuple[Data, str]:
    return made(request.param, tmp_path / "s")


def test_attributes_are_float32_and_cost_nothing_until_they_are_used(both, monkeypatch):
    memory, path = both
    data = gz_pyg.load(path)
    monkeypatch.setattr(memory_plan, "free_ram", lambda: 1000)  # no room for all of a column
    assert isinstance(data.x, torch.Tensor)
    assert (data.x.dtype, data.x.shape, data.x.dim()) == (torch.float32, memory.x.shape, 2)
    assert (data.num_features, data.num_node_features, data.num_nodes) == (WIDTH, WIDTH, N)
    assert (data.num_edge_features, data.num_edges) == (3, E)
    assert "x=[400, 20]" in repr(data)
    ids = torch.tensor([5, 5, 399, 0])
    assert torch.equal(data.x[ids], memory.x[ids])
    mask = memory.y == 2
    assert torch.equal(data.x[mask], memory.x[mask])
    assert torch.equal(data.edge_attr[ids], memory.edge_attr[ids])
    with pytest.raises(MemoryError, match="x in memory would take"):
        data.x.sum()


def test_whole_attributes_are_those_in_memory(both):
    memory, path = both
    data = gz_pyg.load(path)
    assert torch.equal(data.x, memory.x)
    assert torch.equal(data.x[3:9], memory.x[3:9])
    assert torch.equal(data.edge_attr, memory.edge_attr)
    assert torch.equal(data.x.mean(0), memory.x.mean(0))
    held = gz_pyg.load(path).to_data()
    assert type(held.x) is torch.Tensor
    assert torch.equal(held.x, memory.x)
    assert torch.equal(held.edge_attr, memory.edge_attr)
    assert torch.equal(copy.deepcopy(data).x, memory.x)
    assert torch.equal(pickle.loads(pickle.dumps(data)).x, memory.x)


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_batches_hold_rows_of_float32(both, workers):
    memory, path = both
    loader = gz_pyg.NeighborLoader(
        gz_pyg.load(path), [4, 4], torch.arange(0, N, 3), batch_size=50, num_workers=workers
    )
    for batch in loader:
        assert batch.x.dtype == torch.float32
        assert torch.equal(batch.x, memory.x[batch.n_id])
        assert torch.equal(batch.edge_attr, memory.edge_attr[batch.e_id])


def test_pygs_interfaces_of_stores_give_float32(both):
    memory, path = both
    features = gz_pyg.FeatureStore(path)
    ids = torch.tensor([7, 2])
    assert torch.equal(features.get_tensor(group_name=None, attr_name="x", index=ids), memory.x[ids])
    assert torch.equal(features.get_tensor(group_name=None, attr_name="x", index=None), memory.x)
    assert features.get_tensor_size(group_name=None, attr_name="x") == (N, WIDTH)


def test_what_is_written_is_seen_by_loaders_and_stays_off_the_disk(both):
    memory, path = both
    data, want = gz_pyg.load(path), memory.x.clone()
    data.x[5] = 1.0
    data.x[torch.tensor([6, 7])] *= 2
    data.x[8:10].zero_()
    want[5] = 1.0
    want[[6, 7]] *= 2
    want[8:10] = 0
    assert torch.equal(data.x, want)
    for batch in gz_pyg.NeighborLoader(data, [3], torch.arange(12), batch_size=6):
        assert torch.equal(batch.x, want[batch.n_id])
    assert torch.equal(pickle.loads(pickle.dumps(data)).x, want)
    assert torch.equal(gz_pyg.load(path).x, memory.x)


def test_saved_again_it_is_the_same_to_the_bit(both, tmp_path):
    memory, path = both
    again = gz_pyg.load(gz_pyg.save(gz_pyg.load(path), tmp_path / "again"))
    assert torch.equal(again.x, memory.x)
    assert torch.equal(again.edge_attr, memory.edge_attr)


def test_inference_reads_float32(both, tmp_path):
    memory, path = both
    torch.manual_seed(0)
    model = GraphSAGE(WIDTH, 8, num_layers=2, out_channels=4)
    with torch.no_grad():
        want = model(memory.x, memory.edge_index)
    got = gz_pyg.inference(model, gz_pyg.load(path))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_types_have_each_their_own(tmp_path):
    rng = np.random.default_rng(0)
    x = {t: rng.standard_normal((50, 6)).astype(np.float32) for t in "ab"}
    spec = {
        "nodes": {t: {"features": {"x": x[t]}} for t in "ab"},
        "edges": {("a", "to", "b"): rng.integers(0, 50, (2, 300))},
    }
    gz.ingest(tmp_path / "s", spec=spec, dtype={"a/x": "int8", "b/x": "float16"})
    data = gz_pyg.load(tmp_path / "s")
    assert isinstance(data, HeteroData)
    want = {"a": rounded(x["a"], "int8"), "b": rounded(x["b"], "float16")}
    for batch in gz_pyg.NeighborLoader(data, [5], ("b", None), batch_size=20):
        for t in "ab":
            assert torch.equal(batch[t].x, want[t][batch[t].n_id])


def test_a_float16_column_of_ones_own_is_still_one(tmp_path):
    x = torch.randn(30, 4).half()
    data = Data(x=x, edge_index=torch.randint(0, 30, (2, 90)))
    stored = gz_pyg.load(gz_pyg.save(data, tmp_path / "s"))
    assert stored.x.dtype == torch.float16
    assert torch.equal(stored.x, x)


# ---- a script that knows nothing of it ----


def train(data, seed: int) -> float:
    """Of a task that only features and neighbours together solve: the share of nodes it gets right."""
    torch.manual_seed(seed)
    model = GraphSAGE(data.num_features, 32, num_layers=2, out_channels=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    known = torch.arange(data.num_nodes) % 2 == 0
    for _ in range(40):
        optimizer.zero_grad()
        F.cross_entropy(model(data.x, data.edge_index)[known], data.y[known]).backward()
        optimizer.step()
    with torch.no_grad():
        right = model(data.x, data.edge_index).argmax(1) == data.y
    return float(right[~known].float().mean())


@pytest.mark.slow
def test_a_script_learns_as_well_from_small_rows(tmp_path):
    """The full runs are in benchmarks/small_rows.py; a decoder that mixes up rows or scales fails here."""
    rng = np.random.default_rng(0)
    n = 800
    y = rng.integers(0, 4, n)
    x = (rng.standard_normal((4, 32))[y] * 0.5 + rng.standard_normal((n, 32))).astype(np.float32)
    mine = [np.flatnonzero(y == c) for c in range(4)]
    ends = [(rng.choice(mine[c], 800), rng.choice(mine[c], 800)) for c in range(4)]
    edges = np.concatenate([np.stack(e) for e in ends] + [rng.integers(0, n, (2, 1600))], axis=1)
    found = {}
    for stored in ("float32", *SMALL):
        gz.ingest(tmp_path / stored, edges=edges, features={"x": x, "y": y}, dtype={"x": stored})
        found[stored] = train(gz_pyg.load(tmp_path / stored), 0)
    assert found["float32"] > 0.7
    for stored in SMALL:
        assert abs(found[stored] - found["float32"]) < 0.03, found
