"""dgl.dataloading.DataLoader with DGL's own samplers over a store: the cases DGL tests, and more."""

from __future__ import annotations

import pickle
from functools import partial

import dgl
import pytest
import ready
import torch
import torch.distributed as dist
from dgl.dataloading import (
    ClusterGCNSampler,
    DataLoader,
    LaborSampler,
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    SAINTSampler,
    ShaDowKHopSampler,
)
from dgl_batches import check_batch
from dgl_graphs import games, random_graph

IDTYPES = [torch.int32, torch.int64]


@pytest.fixture
def one_process_group(tmp_path):
    dist.init_process_group("gloo", f"file://{tmp_path}/rendezvous", world_size=1, rank=0)
    yield
    dist.destroy_process_group()


NODE_SAMPLERS = {
    "full": lambda etypes: MultiLayerFullNeighborSampler(2),
    "full, not fused": lambda etypes: MultiLayerFullNeighborSampler(2, fused=False),
    "fanouts by relation": lambda etypes: NeighborSampler([dict.fromkeys(etypes, 3)] * 2),
    "fanouts": lambda etypes: NeighborSampler([3, 3]),
    "not fused": lambda etypes: NeighborSampler([3, 3], fused=False),
    "replace": lambda etypes: NeighborSampler([3, 3], replace=True),
    "labor": lambda etypes: LaborSampler([3, 3]),
}


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("idtype", IDTYPES)
@pytest.mark.parametrize("name", NODE_SAMPLERS)
def test_batches_of_nodes(on_disk, name, idtype, num_workers):
    g = random_graph(idtype=idtype)
    loader = DataLoader(
        on_disk(g),
        torch.arange(200, dtype=idtype),
        NODE_SAMPLERS[name](g.etypes),
        batch_size=64,
        num_workers=num_workers,
    )
    seen = []
    for input_nodes, output_nodes, blocks in loader:
        check_batch(g, input_nodes, output_nodes, blocks)
        seen += output_nodes.tolist()
    assert sorted(seen) == list(range(200))


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("idtype", IDTYPES)
@pytest.mark.parametrize("name", NODE_SAMPLERS)
def test_batches_of_nodes_of_several_types(on_disk, name, idtype, num_workers):
    g = games(idtype)
    indices = {t: g.nodes(t) for t in g.ntypes}
    loader = DataLoader(
        on_disk(g), indices, NODE_SAMPLERS[name](g.etypes), batch_size=4, num_workers=num_workers
    )
    seen = 0
    for input_nodes, output_nodes, blocks in loader:
        check_batch(g, input_nodes, output_nodes, blocks)
        seen += sum(len(v) for v in output_nodes.values())
    assert seen == g.num_nodes()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_prefetched_features_labels_and_edge_features(on_disk, num_workers):
    g = random_graph()
    sampler = NeighborSampler(
        [4, 4], prefetch_node_feats=["feat"], prefetch_labels=["label"], prefetch_edge_feats=["e"]
    )
    for input_nodes, output_nodes, blocks in DataLoader(
        on_disk(g), torch.arange(200), sampler, batch_size=50, shuffle=True, num_workers=num_workers
    ):
        assert torch.equal(blocks[0].srcdata["feat"], g.ndata["feat"][input_nodes])
        assert torch.equal(blocks[-1].dstdata["label"], g.ndata["label"][output_nodes])
        for block in blocks:
            assert torch.equal(block.edata["e"], g.edata["e"][block.edata[dgl.EID]])


def test_prefetched_features_of_several_types_and_of_columns_in_memory(on_disk):
    g = games()
    h = on_disk(g)
    g.nodes["user"].data["new"] = h.nodes["user"].data["new"] = torch.arange(6.0)
    sampler = NeighborSampler(
        [3],
        prefetch_node_feats={"user": ["feat", "new"], "game": ["feat"]},
        prefetch_edge_feats={"play": ["w"]},
    )
    for input_nodes, _, (block,) in DataLoader(h, {"game": g.nodes("game")}, sampler, batch_size=2):
        assert torch.equal(
            block.srcnodes["user"].data["new"], g.nodes["user"].data["new"][input_nodes["user"]]
        )
        assert torch.equal(
            block.srcnodes["user"].data["feat"], g.nodes["user"].data["feat"][input_nodes["user"]]
        )
        assert torch.equal(
            block.edges["play"].data["w"], g.edges["play"].data["w"][block.edges["play"].data[dgl.EID]]
        )


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", ready.CLEAN])
def test_workers_that_persist_over_epochs(on_disk, context):
    g = random_graph()
    loader = DataLoader(
        on_disk(g),
        torch.arange(200),
        NeighborSampler([3, 3], prefetch_node_feats=["feat"]),
        batch_size=50,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context=context,
    )
    for _ in range(2):
        seen = []
        for input_nodes, output_nodes, blocks in loader:
            check_batch(g, input_nodes, output_nodes, blocks)
            seen += output_nodes.tolist()
        assert sorted(seen) == list(range(200))


def _worker_init(folder, worker_id):
    (folder / str(worker_id)).touch()


def test_worker_init_fn_runs(on_disk, tmp_path):
    (tmp_path / "began").mkdir()
    loader = DataLoader(
        on_disk(random_graph()), torch.arange(100), NeighborSampler([2]), batch_size=4, num_workers=2,
        worker_init_fn=partial(_worker_init, tmp_path / "began"),
    )  # fmt: skip
    assert len(list(loader)) == 25
    assert sorted(p.name for p in (tmp_path / "began").iterdir()) == ["0", "1"]


@pytest.mark.parametrize("idtype", IDTYPES)
@pytest.mark.parametrize("option", ["prob", "mask"])
@pytest.mark.parametrize("fused", [True, False])
def test_edges_of_probability_zero_are_never_taken(on_disk, idtype, option, fused):
    ends = [1, 2, 3, 4, 5, 6, 7, 8], [0, 0, 0, 0, 1, 1, 1, 1]
    g = dgl.graph(ends).astype(idtype)
    g.edata["prob"] = torch.tensor([1.0, 1, 0, 0, 1, 1, 0, 0])
    g.edata["mask"] = g.edata["prob"] != 0
    for fanout in (2, 3, -1):
        sampler = NeighborSampler([fanout], **{option: option}, fused=fused)
        loader = DataLoader(on_disk(g), torch.tensor([0, 1], dtype=idtype), sampler, batch_size=1)
        found = {o.item(): set(i[1:].tolist()) for i, o, _ in loader}
        assert found == {0: {1, 2}, 1: {5, 6}}

    g = dgl.heterograph({("B", "BA", "A"): ends, ("C", "CA", "A"): ends}).astype(idtype)
    g.edges["BA"].data["prob"] = torch.tensor([1.0, 1, 0, 0, 1, 1, 0, 0])
    g.edges["CA"].data["prob"] = 1 - g.edges["BA"].data["prob"]
    for t in ("BA", "CA"):
        g.edges[t].data["mask"] = g.edges[t].data["prob"] != 0
    sampler = NeighborSampler([2], **{option: option}, fused=fused)
    for i, o, _ in DataLoader(on_disk(g), {"A": torch.tensor([0, 1], dtype=idtype)}, sampler, batch_size=1):
        seed = o["A"].item()
        assert set(i["B"].tolist()) == ({1, 2}, {5, 6})[seed]
        assert set(i["C"].tolist()) == ({3, 4}, {7, 8})[seed]


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [0, 2])
def test_shadow(on_disk, num_workers):
    g = random_graph()
    loader = DataLoader(
        on_disk(g),
        torch.arange(200),
        ShaDowKHopSampler([3, 4]),
        batch_size=5,
        shuffle=True,
        num_workers=num_workers,
    )
    for input_nodes, output_nodes, sub in loader:
        assert torch.equal(input_nodes, sub.ndata[dgl.NID])
        assert torch.equal(input_nodes[: len(output_nodes)], output_nodes)
        assert torch.equal(sub.ndata["feat"], g.ndata["feat"][input_nodes])
        induced = g.subgraph(input_nodes)
        assert sorted(induced.edata[dgl.EID].tolist()) == sorted(sub.edata[dgl.EID].tolist())
        assert torch.equal(sub.edata["e"], g.edata["e"][sub.edata[dgl.EID]])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_cluster_gcn_with_a_given_partition(on_disk, tmp_path, num_workers):
    g = random_graph()
    with open(tmp_path / "parts.pkl", "wb") as f:
        pickle.dump((torch.arange(0, 201, 20), torch.randperm(200)), f)
    h = on_disk(g)
    sampler = ClusterGCNSampler(h, 10, cache_path=str(tmp_path / "parts.pkl"), prefetch_ndata=["feat"])
    loader = DataLoader(h, torch.arange(10), sampler, batch_size=2, num_workers=num_workers)
    assert len(loader) == 5
    for sub in loader:
        assert sub.num_nodes() == 40
        assert torch.equal(sub.ndata["feat"], g.ndata["feat"][sub.ndata[dgl.NID]])
        assert sorted(sub.edata[dgl.EID].tolist()) == sorted(
            g.subgraph(sub.ndata[dgl.NID]).edata[dgl.EID].tolist()
        )


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize(("mode", "budget"), [("node", 30), ("edge", 40), ("walk", (5, 3))])
def test_saint(on_disk, mode, budget, num_workers):
    g = random_graph()
    sampler = SAINTSampler(mode, budget, prefetch_ndata=["feat"], prefetch_edata=["e"])
    loader = DataLoader(on_disk(g), torch.arange(20), sampler, num_workers=num_workers)
    assert len(loader) == 20
    for sub in loader:
        assert torch.equal(sub.ndata["feat"], g.ndata["feat"][sub.ndata[dgl.NID]])
        assert torch.equal(sub.edata["e"], g.edata["e"][sub.edata[dgl.EID]])
        assert sorted(sub.edata[dgl.EID].tolist()) == sorted(
            g.subgraph(sub.ndata[dgl.NID]).edata[dgl.EID].tolist()
        )


@pytest.mark.usefixtures("one_process_group")
@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("name", ["fanouts", "labor"])
def test_ddp_with_one_process(on_disk, name, num_workers):
    g = games()
    loader = DataLoader(
        on_disk(g), {t: g.nodes(t) for t in g.ntypes}, NODE_SAMPLERS[name](g.etypes), batch_size=3,
        num_workers=num_workers, use_ddp=True,
    )  # fmt: skip
    seen = 0
    for batch in loader:
        check_batch(g, *batch)
        seen += sum(len(v) for v in batch[1].values())
    assert seen == g.num_nodes()


def _ddp_rank(rank, size, folder, g, drop_last):
    dist.init_process_group("gloo", f"file://{folder}/rendezvous", world_size=size, rank=rank)
    loader = DataLoader(
        g,
        torch.arange(200),
        NeighborSampler([3, 3]),
        batch_size=40,
        num_workers=1,
        use_ddp=True,
        drop_last=drop_last,
    )
    seen = torch.zeros(200)
    for _, output_nodes, blocks in loader:
        seen[output_nodes] += 1
        assert torch.equal(blocks[-1].dstdata["feat"], g.ndata["feat"][output_nodes])
    dist.reduce(seen, 0)
    if rank == 0:
        assert (seen >= 1).all()
    dist.destroy_process_group()


@pytest.mark.slow
def test_ddp_over_spawned_processes_covers_every_seed(on_disk, tmp_path):
    args = (2, str(tmp_path), on_disk(random_graph()), False)
    torch.multiprocessing.start_processes(_ddp_rank, args, nprocs=2, start_method=ready.CLEAN)


def test_dgls_functions_take_the_graph_as_well_as_its_methods(on_disk):
    h = on_disk(random_graph())
    seeds = torch.tensor([3, 5])
    assert dgl.sampling.sample_neighbors(h, seeds, -1).num_edges() == h.in_degrees(seeds).sum()
    assert dgl.sampling.sample_neighbors_fused(h, seeds, -1).num_dst_nodes() == 2
    assert dgl.in_subgraph(h, seeds).num_edges() == h.in_degrees(seeds).sum()
    assert h.out_subgraph(seeds).num_edges() == h.out_degrees(seeds).sum()
    assert dgl.node_subgraph(h, seeds).num_nodes() == 2
    assert dgl.sampling.sample_labors(h, seeds, -1)[0].num_edges() == h.in_degrees(seeds).sum()
    assert len(dgl.sampling.global_uniform_negative_sampling(h, 10)[0]) == 10
    in_memory = dgl.graph(([0, 1], [1, 2]))
    assert dgl.sampling.sample_neighbors(in_memory, [1], 1).num_edges() == 1
