"""Every function and transform of dgl.transforms on a store: what DGL gives in memory, with a word that it is
so; past the memory limit an error that names what to do on disk."""

from __future__ import annotations

import warnings
from typing import Any

import dgl
import pytest
import torch
from dgl_graphs import same_graph
from dgl_transforms import FUNCTIONS, METHODS, NOT_RUN, OF_RELATIONS, TRANSFORMS, base, relations

import gz_dgl

COLUMNS_ONLY = {"to_bfloat16", "to_double", "to_float", "to_half"} | {
    "FeatMask",
    "GCNNorm",
    "NodeShuffle",
    "RandomWalkPE",
    "RowFeatNormalizer",
    "SIGNDiffusion",
}
CALLS = {**FUNCTIONS, **TRANSFORMS, **METHODS}


def test_no_transform_is_forgotten():
    there = {*dgl.transforms.functional.__all__, *dgl.transforms.module.__all__}
    assert there == {*FUNCTIONS, *TRANSFORMS} | (set(NOT_RUN) & there)
    assert not set(NOT_RUN) & {*FUNCTIONS, *TRANSFORMS}


def quietly(call: Any, g: Any) -> tuple[Any, list[Any]]:
    """What a call gives, and the InMemoryWarnings on the way."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        torch.manual_seed(0)
        out = call(g)
    return out, [w for w in heard if w.category is gz_dgl.InMemoryWarning]


def equal(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, dgl.DGLGraph):
        same_graph(theirs, ours, close=True)
    elif isinstance(theirs, (list, tuple)):
        for a, b in zip(ours, theirs, strict=True):
            equal(a, b)
    elif isinstance(theirs, dict):
        equal(list(ours.values()), list(theirs.values()))
    elif torch.is_tensor(theirs):
        torch.testing.assert_close(ours, theirs)
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", CALLS)
def test_it_gives_what_it_gives_in_memory(on_disk, name):
    theirs, _ = quietly(CALLS[name], base())
    ours, heard = quietly(CALLS[name], on_disk(base()))
    equal(ours, theirs)
    if isinstance(ours, dgl.DGLGraph) and not ours.is_block:
        in_memory = type(ours) is dgl.DGLGraph
        assert in_memory == (name not in COLUMNS_ONLY)
        assert bool(heard) == in_memory
        assert all(w.filename.endswith("dgl_transforms.py") for w in heard)  # the script's line, not DGL's


@pytest.mark.parametrize("name", OF_RELATIONS)
def test_it_gives_what_it_gives_in_memory_of_many_types(on_disk, name):
    torch.manual_seed(0)
    g = relations()
    h = on_disk(g)
    ours, _ = quietly(OF_RELATIONS[name], h)
    theirs, _ = quietly(OF_RELATIONS[name], g)
    equal(ours, theirs)
    kept = name in ("edge_type_subgraph", "node_type_subgraph")
    assert isinstance(ours, gz_dgl.StoreGraph) == kept


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("add_reverse_edges", "undirected=True"),
        ("to_bidirected", "undirected=True"),
        ("AddReverse", "undirected=True"),
        ("add_self_loop", "self_loops='add'"),
        ("AddSelfLoop", "self_loops='add'"),
        ("remove_self_loop", "self_loops='remove'"),
        ("RemoveSelfLoop", "self_loops='remove'"),
        ("to_simple", "coalesce=True"),
        ("ToSimple", "coalesce=True"),
        ("g.add_edges", "gz.ingest"),
        ("g.remove_nodes", "gz.ingest"),
        ("DropEdge", "gz.ingest"),
        ("line_graph", "DataLoader"),
    ],
)
def test_past_the_limit_the_error_names_the_option_of_ingest(on_disk, name, option):
    h = on_disk(base(), memory=1000)
    with pytest.raises(dgl.DGLError, match=option) as raised:
        CALLS[name](h)
    assert "the limit is 1.0 kB" in str(raised.value)
    assert isinstance(h, gz_dgl.StoreGraph)
    assert h.sample_neighbors_fused(torch.tensor([1]), 2).num_edges() == 2  # none the worse for it


@pytest.mark.filterwarnings("ignore::gz_dgl.InMemoryWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_changed_graph_trains_from_files_still(on_disk, workers):
    g, h = (k.remove_self_loop().add_self_loop() for k in (base(), on_disk(base())))
    assert type(h) is dgl.DGLGraph
    for graph in (g, h):
        sampler = dgl.dataloading.NeighborSampler([-1, -1], prefetch_node_feats=["feat"])
        ids = torch.arange(0, 40, 2)
        loader = dgl.dataloading.DataLoader(graph, ids, sampler, batch_size=8, num_workers=workers)
        for _, _, blocks in loader:
            inputs = blocks[0].srcdata[dgl.NID]
            assert torch.equal(blocks[0].srcdata["feat"], base().ndata["feat"][inputs])
            assert torch.equal(blocks[1].edata["w"], graph.edata["w"][blocks[1].edata[dgl.EID]])


@pytest.mark.filterwarnings("ignore::gz_dgl.InMemoryWarning")
def test_a_graph_changed_in_place_is_the_one_that_loaders_have(on_disk):
    h = on_disk(base())
    sampler = dgl.dataloading.MultiLayerFullNeighborSampler(1)
    loader = dgl.dataloading.DataLoader(h, torch.tensor([7]), sampler)
    before = next(iter(loader))[2][0].num_edges()
    h.add_edges(torch.tensor([11, 12]), torch.tensor([7, 7]))
    assert next(iter(loader))[2][0].num_edges() == before + 2
    assert h.edata["w"][-1] == 0  # as DGL fills it


@pytest.mark.filterwarnings("ignore::gz_dgl.InMemoryWarning")
def test_save_graphs_and_partition_graph(on_disk, tmp_path):
    g = base()
    h = on_disk(g)
    dgl.save_graphs(str(tmp_path / "g.bin"), [h, g], {"y": torch.ones(2)})
    for back in dgl.load_graphs(str(tmp_path / "g.bin"))[0]:
        same_graph(g, back)
    dgl.distributed.partition_graph(h, "g", 2, str(tmp_path / "parts"), part_method="random")
    part, nodes, *_ = dgl.distributed.load_partition(str(tmp_path / "parts" / "g.json"), 0)
    inner = part.ndata["inner_node"].bool()
    assert nodes["_N/feat"].shape == (int(inner.sum()), 5)
    small = gz_dgl.load(h.store, memory=1000)
    with pytest.raises(dgl.DGLError, match=r"save_graphs\(file, g.to_dgl\(\)\)"):
        dgl.save_graphs(str(tmp_path / "h.bin"), small)
    with pytest.raises(dgl.DGLError, match=r"partition_graph\(g.to_dgl\(\)"):
        dgl.distributed.partition_graph(small, "g", 2, str(tmp_path / "no"))
