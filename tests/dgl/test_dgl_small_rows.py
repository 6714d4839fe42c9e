"""A store whose columns are stored as float16, bfloat16 or int8, through DGL: the same graph as one in memory
that holds what is read from them, in float32."""

from __future__ import annotations

import pickle

import dgl
import numpy as np
import pytest
import torch
from small_rows import SMALL, rounded

import gz
import gz_dgl
from gz._base import memory_plan

N, E, WIDTH = 300, 1500, 20


@pytest.fixture(params=SMALL)
def both(request, tmp_path) -> tuple[dgl.DGLGraph, str]:
    rng = np.random.default_rng(1)
    edges = rng.integers(0, N, (2, E))
    x, e = (rng.standard_normal((n, WIDTH)).astype(np.float32) for n in (N, E))
    gz.ingest(
        tmp_path / "s",
        edges=edges,
        features={"x": x},
        edge_features={"e": e, "p": rng.random(E)},
        num_nodes=N,
        dtype={"x": request.param, "e": request.param, "p": "float16"},
    )
    g = dgl.graph((torch.from_numpy(edges[0]), torch.from_numpy(edges[1])), num_nodes=N)
    g.ndata["x"], g.edata["e"] = rounded(x, request.param), rounded(e, request.param)
    return g, str(tmp_path / "s")


def test_features_are_float32_whole_or_in_part(both):
    memory, path = both
    g = gz_dgl.load(path)
    assert g.node_attr_schemes()["x"].dtype == torch.float32
    assert tuple(g.node_attr_schemes()["x"].shape) == (WIDTH,)
    ids = torch.tensor([5, 5, 299, 0])
    assert torch.equal(g.get_node_storage("x").fetch(ids, "cpu").wait(), memory.ndata["x"][ids])
    assert torch.equal(g.get_edge_storage("e").fetch(ids, "cpu").wait(), memory.edata["e"][ids])
    assert torch.equal(g.ndata["x"], memory.ndata["x"])
    assert torch.equal(g.ndata["x"][ids], memory.ndata["x"][ids])
    assert torch.equal(g.edata["e"], memory.edata["e"])
    assert torch.equal(pickle.loads(pickle.dumps(g)).ndata["x"], memory.ndata["x"])


def test_batches_hold_rows_of_float32_and_need_no_more(both, monkeypatch):
    memory, path = both
    g = gz_dgl.load(path)
    monkeypatch.setattr(memory_plan, "free_ram", lambda: 1000)  # no room for all of a column
    sampler = dgl.dataloading.NeighborSampler([4, 4], prefetch_node_feats=["x"], prefetch_edge_feats=["e"])
    for nodes, _, blocks in dgl.dataloading.DataLoader(g, torch.arange(90), sampler, batch_size=30):
        assert blocks[0].srcdata["x"].dtype == torch.float32
        assert torch.equal(blocks[0].srcdata["x"], memory.ndata["x"][nodes])
        assert torch.equal(blocks[0].edata["e"], memory.edata["e"][blocks[0].edata[dgl.EID]])
    sub = g.subgraph(torch.arange(20))
    assert torch.equal(sub.ndata["x"], memory.ndata["x"][:20])
    with pytest.raises(MemoryError, match="all of a column that is stored as"):
        _ = g.ndata["x"]


def test_what_is_written_is_seen_and_stays_off_the_disk(both):
    memory, path = both
    g, want = gz_dgl.load(path), memory.ndata["x"].clone()
    g.ndata["x"][5] = 1.0
    want[5] = 1.0
    assert torch.equal(g.ndata["x"], want)
    assert torch.equal(g.get_node_storage("x").fetch(torch.tensor([5, 6]), "cpu"), want[[5, 6]])
    assert torch.equal(g.subgraph(torch.arange(20)).ndata["x"], want[:20])
    assert torch.equal(pickle.loads(pickle.dumps(g)).ndata["x"], want)
    g.ndata["x"] = want * 2
    assert torch.equal(g.ndata["x"], want * 2)
    assert torch.equal(gz_dgl.load(path).ndata["x"], memory.ndata["x"])


def test_columns_change_their_dtype_as_they_are_read(both):
    memory, path = both
    half = dgl.to_half(gz_dgl.load(path))
    assert torch.equal(half.ndata["x"], memory.ndata["x"].half())


def test_edges_are_drawn_by_a_column_of_halves(both):
    """Zero is zero in float16: what it forbids is never drawn."""
    _, path = both
    g = gz_dgl.load(path)
    p = g.edata["p"]
    assert p.dtype == torch.float32
    drawn = g.sample_neighbors(torch.arange(N), 2, prob="p")
    assert len(drawn.edges()[0]) == int(torch.minimum(g.in_degrees(torch.arange(N)), torch.tensor(2)).sum())


def test_saved_again_it_is_the_same_to_the_bit(both, tmp_path):
    memory, path = both
    gz_dgl.save(gz_dgl.load(path), tmp_path / "again")
    again = gz_dgl.load(tmp_path / "again")
    assert torch.equal(again.ndata["x"], memory.ndata["x"])
    assert torch.equal(again.edata["e"], memory.edata["e"])


def test_parts_for_dgls_engine_hold_float32(both, tmp_path):
    memory, path = both
    made = gz_dgl.partition(path, tmp_path / "parts", 2, method="range")
    feats = [dgl.distributed.load_partition(made.config, p)[1] for p in range(2)]
    rows = torch.cat([f["_N/x"] for f in feats])[torch.argsort(made.orig_nids)]
    assert torch.equal(rows, memory.ndata["x"])
