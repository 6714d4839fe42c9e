"""gz_dgl.save and load: what was saved comes back, and reads like a DGLGraph."""

from __future__ import annotations

import copy
import pickle

import dgl
import numpy as np
import pytest
import torch
from dgl_graphs import games, random_graph, random_relations, same_graph

import gz
import gz_dgl


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_a_homogeneous_graph_comes_back_equal(on_disk, idtype):
    g = random_graph(idtype=idtype)
    h = on_disk(g)
    same_graph(g, h)
    assert gz_dgl.load(h.store.path, idtype=torch.int64).idtype == torch.int64


def test_a_store_written_again_is_the_new_one(tmp_path):
    graphs = [random_graph(seed=k) for k in (0, 1)]
    open_still = []
    for g in graphs:
        gz_dgl.save(g, tmp_path / "s", overwrite=True)
        open_still.append(gz_dgl.load(tmp_path / "s"))
    for g, h in zip(graphs, open_still, strict=True):
        same_graph(g, h)
        block = h.sample_neighbors_fused(torch.arange(50), -1)
        assert torch.equal(block.edata["e"], g.edata["e"][block.edata[dgl.EID]])


def test_a_store_opened_already(on_disk):
    g = games(torch.int32)
    store = gz.open(on_disk(g).store.path)
    h = gz_dgl.load(store)
    assert h.store is store
    same_graph(g, h)


@pytest.mark.parametrize("make", [games, random_relations])
def test_a_heterogeneous_graph_comes_back_equal(on_disk, make):
    g = make()
    same_graph(g, on_disk(g))


def test_a_graph_with_one_named_relation_keeps_its_names(on_disk):
    g = dgl.heterograph({("user", "rates", "item"): ([0, 1, 1], [2, 0, 1])})
    h = on_disk(g)
    same_graph(g, h)
    assert h.is_unibipartite
    assert h.srctypes == ["user"]
    assert h.dsttypes == ["item"]


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float16,
        torch.float64,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.uint8,
        torch.bool,
        torch.bfloat16,
    ],
)
def test_every_dtype_comes_back(on_disk, dtype):
    g = dgl.graph(([0, 1], [1, 2]))
    g.ndata["x"] = torch.tensor([[0, 1], [1, 0], [1, 1]]).to(dtype)
    x = on_disk(g).ndata["x"]
    assert x.dtype == dtype
    assert torch.equal(x, g.ndata["x"])


def test_a_graph_without_edges_and_without_columns(on_disk):
    g = dgl.graph(([], []), num_nodes=4)
    h = on_disk(g)
    same_graph(g, h)
    assert h.sample_neighbors_fused(torch.tensor([1, 2]), 3).num_edges() == 0


def test_a_block_is_not_a_graph_to_save(tmp_path):
    block = dgl.to_block(dgl.graph(([0], [1])))
    with pytest.raises(ValueError, match="block"):
        gz_dgl.save(block, tmp_path / "s")


def test_ndata_is_the_mapped_file(on_disk):
    h = on_disk(random_graph())
    assert h.ndata["feat"].data_ptr() == h.store.feature("feat").get_tensor().ctypes.data
    h.ndata["feat"][0] = 7
    assert h.ndata["feat"][0, 0] == 7  # a private page
    assert gz.FeatureStore(h.store.feature("feat").path).gather([0])[0, 0] != 7  # not the file


def test_pop_assign_delete_and_rows(on_disk):
    g = random_graph()
    h = on_disk(g)
    assert torch.equal(h.ndata.pop("feat"), g.ndata["feat"])
    assert "feat" not in h.ndata
    h.ndata["new"] = torch.arange(200)
    assert torch.equal(h.ndata["new"], torch.arange(200))
    del h.ndata["label"]
    assert set(h.ndata) == {"train_mask", "new"}
    h.edata["w2"] = torch.ones(1000)
    h.edata.pop("p")
    assert set(h.edata) == {"e", "m", "w2"}
    assert torch.equal(h.edges[[3, 5]].data["e"], g.edata["e"][[3, 5]])
    assert torch.equal(h.nodes[[3, 5]].data["new"], torch.tensor([3, 5]))
    with pytest.raises(dgl.DGLError, match="number of features"):
        h.ndata["bad"] = torch.ones(3)


def test_local_scope_leaves_the_graph_as_it_was(on_disk):
    h = on_disk(random_graph())
    with h.local_scope():
        h.ndata["tmp"] = torch.ones(200)
    assert "tmp" not in h.ndata
    assert "tmp" not in h.clone().ndata
    assert isinstance(copy.copy(h), gz_dgl.StoreGraph)


def test_it_survives_to_cpu_formats_and_idtypes(on_disk):
    h = on_disk(random_graph())
    assert h.to("cpu") is h
    assert h.to(torch.device("cpu")) is h
    with pytest.raises(dgl.DGLError, match="device='cuda'"):
        h.to("cuda:0")
    assert isinstance(h.formats(["csc"]), gz_dgl.StoreGraph)
    assert h.formats() == {"created": ["csc", "csr"], "not created": []}
    assert h.int().idtype == torch.int32
    assert h.int().long().idtype == torch.int64
    assert h.create_formats_() is None
    assert gz_dgl.load(h.store.path, idtype=torch.int32).idtype == torch.int32


def test_it_pickles_by_path_with_the_changes_made_in_memory(on_disk):
    g = random_graph(num_edges=20_000)
    h = on_disk(g)
    h.ndata["new"] = torch.arange(200)
    del h.edata["e"]
    data = pickle.dumps(h)
    assert len(data) < 20_000
    k = pickle.loads(data)
    assert torch.equal(k.ndata["feat"], g.ndata["feat"])
    assert torch.equal(k.ndata["new"], torch.arange(200))
    assert set(k.edata) == {"p", "m"}
    assert torch.equal(k.edata["p"], g.edata["p"])
    assert k.sample_neighbors_fused(torch.tensor([1]), -1).num_dst_nodes() == 1


def test_structure_queries_equal_dgls(on_disk):
    g = random_graph(60, 300)
    h = on_disk(g)
    u, v = torch.randint(0, 60, (2, 500))
    assert torch.equal(g.has_edges_between(u, v), h.has_edges_between(u, v))
    ids = torch.randperm(300)[:50]
    for a, b in zip(g.find_edges(ids), h.find_edges(ids), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(g.in_degrees(), h.in_degrees())
    assert torch.equal(g.out_degrees(), h.out_degrees())
    assert torch.equal(g.in_degrees(torch.tensor([3, 9])), h.in_degrees(torch.tensor([3, 9])))
    assert torch.equal(g.out_degrees(torch.tensor([3, 9])), h.out_degrees(torch.tensor([3, 9])))
    assert g.in_degrees(5) == h.in_degrees(5)
    assert sorted(g.predecessors(4).tolist()) == sorted(h.predecessors(4).tolist())
    assert sorted(g.successors(4).tolist()) == sorted(h.successors(4).tolist())
    for way in ("in_edges", "out_edges"):
        a = sorted(zip(*(t.tolist() for t in getattr(g, way)([3, 5], form="all")), strict=True))
        assert a == sorted(zip(*(t.tolist() for t in getattr(h, way)([3, 5], form="all")), strict=True))
    s, d = g.edges()
    assert torch.equal(h.edge_ids(s[:1], d[:1]), g.edge_ids(s[:1], d[:1]))
    assert [t.tolist() for t in h.edge_ids(s[:5], d[:5], return_uv=True)][2] == [
        t.tolist() for t in g.edge_ids(s[:5], d[:5], return_uv=True)
    ][2]
    assert torch.equal(h.edges(form="eid"), g.edges(form="eid"))
    with pytest.raises(dgl.DGLError, match="Invalid edge ID 300"):
        h.find_edges(torch.tensor([300]))


def test_one_relation_of_many(on_disk):
    g = games()
    h = on_disk(g)
    for t in ("follow", "play"):
        same_graph(g[t], h[t])
        assert isinstance(h[t], gz_dgl.StoreGraph)


def test_whole_graph_code_of_dgl_runs_in_memory_when_it_fits(on_disk):
    g = random_graph()
    h = on_disk(g)
    for k in (g, h):
        k.update_all(dgl.function.copy_u("feat", "m"), dgl.function.sum("m", "sum"))
    assert torch.allclose(g.ndata["sum"], h.ndata["sum"])
    assert torch.equal(
        dgl.khop_in_subgraph(g, 3, 2)[0].ndata[dgl.NID], dgl.khop_in_subgraph(h, 3, 2)[0].ndata[dgl.NID]
    )
    assert h.is_multigraph == g.is_multigraph


def test_past_the_memory_limit_it_refuses_and_names_the_alternative(on_disk):
    h = on_disk(random_graph(), memory=1000)
    for refused, hint in (
        (lambda: h.edges(), "find_edges"),
        (lambda: h.in_degrees(), "in_degrees"),
        (lambda: h.out_degrees(), "out_degrees"),
        (lambda: h.edata["e"], "prefetch_edge_feats"),
        (lambda: h.edges(form="eid"), "randint"),
        (lambda: h.update_all(dgl.function.copy_u("feat", "m"), dgl.function.sum("m", "s")), "DataLoader"),
        (lambda: dgl.reverse(h), "DataLoader"),
        (lambda: h.adj_external(), "DataLoader"),
    ):
        with pytest.raises(dgl.DGLError, match=r"limit is.*" + hint):
            refused()
    # What follows the size of the batch still works.
    assert h.sample_neighbors_fused(torch.tensor([1, 2]), 3).edata["e"].shape[1] == 3
    assert len(h.in_degrees(torch.tensor([1]))) == 1
    assert dgl.khop_in_subgraph(h, 3, 2)[0].num_edges() > 0


def test_uva_and_gpus_are_refused_with_the_line_that_replaces_them(on_disk, monkeypatch):
    # DGL asks torch for the GPU's number before it asks the graph.
    monkeypatch.setattr("dgl.dataloading.dataloader._get_device", lambda _: torch.device("cuda:0"))
    h = on_disk(random_graph())
    ids = torch.arange(10)
    line = r"DataLoader\(g, ids, sampler, device='cuda'\)"
    for refused in (
        lambda: h.to("cuda"),
        lambda: h.to(torch.device("cuda:1")),
        lambda: h.pin_memory_(),
        lambda: dgl.dataloading.DataLoader(
            h, ids, dgl.dataloading.NeighborSampler([2]), device="cuda", use_uva=True
        ),
    ):
        with pytest.raises(dgl.DGLError, match=line):
            refused()


def test_a_store_with_in_edges_only(tmp_path):
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 50, (2, 300))
    gz.ingest(tmp_path / "s", edges=(src, dst), num_nodes=50, edge_features={"w": np.arange(300.0)})
    h = gz_dgl.load(tmp_path / "s")
    assert h.formats()["created"] == ["csc"]
    g = dgl.graph((src, dst), num_nodes=50)
    assert torch.equal(h.out_degrees(), g.out_degrees())
    assert torch.equal(h.edata["w"], torch.arange(300.0, dtype=torch.float64))
    assert sorted(h.successors(3).tolist()) == sorted(g.successors(3).tolist())
    small = gz_dgl.load(tmp_path / "s", memory=100)
    with pytest.raises(dgl.DGLError, match="directions='both'"):
        small.sample_neighbors(torch.tensor([3]), 2, edge_dir="out")


def test_a_store_with_out_edges_only_says_what_is_missing(tmp_path):
    gz.ingest(tmp_path / "s", edges=([0, 1], [1, 2]), directions="out")
    for call in (gz_dgl.load, lambda s: gz_dgl.partition(s, tmp_path / "parts", 2)):
        with pytest.raises(ValueError, match="not stored in direction 'in'.*--directions both"):
            call(tmp_path / "s")
    assert not list(tmp_path.glob("parts*"))


def test_a_store_without_edge_ids_numbers_edges_by_position(tmp_path):
    src, dst = np.random.default_rng(0).integers(0, 50, (2, 300))
    gz.ingest(tmp_path / "s", edges=(src, dst), num_nodes=50, directions="both")
    h = gz_dgl.load(tmp_path / "s")
    u, v, e = h.edges(form="all")
    assert torch.equal(e, torch.arange(300))
    assert sorted(zip(u.tolist(), v.tolist(), strict=True)) == sorted(
        zip(src.tolist(), dst.tolist(), strict=True)
    )
    found = h.find_edges(e)
    assert torch.equal(found[0], u)
    assert torch.equal(found[1], v)
    block = h.sample_neighbors_fused(torch.tensor([4, 9]), -1)
    assert torch.equal(h.find_edges(block.edata[dgl.EID])[0], block.srcdata[dgl.NID][block.edges()[0]])


def test_edges_that_share_an_id_with_their_reverse_get_ids_of_their_own(tmp_path):
    gz.ingest(
        tmp_path / "s", edges=([0, 1], [1, 2]), undirected=True, edge_features={"w": np.array([5.0, 6.0])}
    )
    h = gz_dgl.load(tmp_path / "s")
    assert h.num_edges() == 4
    u, v = h.edges()
    weights = {(0, 1): 5.0, (1, 0): 5.0, (1, 2): 6.0, (2, 1): 6.0}
    assert h.edata["w"].tolist() == [weights[e] for e in zip(u.tolist(), v.tolist(), strict=True)]


def test_splits_of_the_store(tmp_path):
    gz.ingest(tmp_path / "s", edges=([0, 1], [1, 2]), num_nodes=3, splits={"train": np.array([0, 2])})
    h = gz_dgl.load(tmp_path / "s")
    assert h.split("train").tolist() == [0, 2]
    assert h.int().split("train").dtype == torch.int32


@pytest.mark.parametrize("make", [random_graph, games, random_relations])
def test_a_store_becomes_an_ordinary_graph_in_memory(on_disk, make):
    g = make()
    back = on_disk(g).to_dgl()
    assert type(back) is dgl.DGLGraph
    same_graph(g, back)
    back.add_nodes(1, ntype=back.ntypes[0])  # which a store refuses


def test_a_graph_that_would_not_fit_is_refused(on_disk, monkeypatch):
    h = on_disk(random_graph())
    monkeypatch.setattr("gz._base.memory_plan.free_ram", lambda: 1000)
    with pytest.raises(MemoryError, match="would take .* of memory, and .* are free"):
        h.to_dgl()
