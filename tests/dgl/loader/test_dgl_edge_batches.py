"""dgl.dataloading.DataLoader over the edges of a store: pairs, negatives, edges that must not be sampled."""

from __future__ import annotations

import itertools
from functools import partial

import dgl
import numpy as np
import pytest
import torch
from dgl.dataloading import (
    DataLoader,
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    ShaDowKHopSampler,
    as_edge_prediction_sampler,
    negative_sampler,
)
from dgl_batches import check_batch
from dgl_graphs import games, random_graph, random_relations

IDTYPES = [torch.int32, torch.int64]
NEGATIVES = {
    "none": None,
    "per source": negative_sampler.Uniform(2),
    "global": negative_sampler.GlobalUniform(15, False, 3),
    "global, no self loops": negative_sampler.GlobalUniform(15, True, 3),
    "global, distinct": negative_sampler.GlobalUniform(2),
}


@pytest.mark.slow
@pytest.mark.parametrize("idtype", IDTYPES)
@pytest.mark.parametrize("negative", NEGATIVES)
@pytest.mark.parametrize("make", [random_graph, games])
def test_batches_of_edges(on_disk, make, negative, idtype):
    g = make(idtype=idtype)
    h = on_disk(g)
    sampler = as_edge_prediction_sampler(NeighborSampler([3, 3]), negative_sampler=NEGATIVES[negative])
    indices = {t: h.edges(form="eid", etype=t) for t in h.canonical_etypes}
    if len(indices) == 1:
        indices = indices[h.canonical_etypes[0]]
    seen = negatives = 0
    for batch in DataLoader(h, indices, sampler, batch_size=7 if make is games else 40, shuffle=True):
        input_nodes, pairs, blocks = batch[0], batch[1], batch[-1]
        seen += pairs.num_edges()
        check_batch(g, input_nodes, {t: blocks[-1].dstnodes[t].data[dgl.NID] for t in g.ntypes}, blocks)
        for t in g.canonical_etypes:
            u, v = pairs.edges(etype=t)
            wanted = g.find_edges(pairs.edges[t].data[dgl.EID], etype=t)
            assert torch.equal(pairs.nodes[t[0]].data[dgl.NID][u.long()], wanted[0])
            assert torch.equal(pairs.nodes[t[2]].data[dgl.NID][v.long()], wanted[1])
            if negative == "none":
                continue
            u, v = batch[2].edges(etype=t)
            u = batch[2].nodes[t[0]].data[dgl.NID][u.long()]
            v = batch[2].nodes[t[2]].data[dgl.NID][v.long()]
            negatives += len(v)
            if negative == "per source":
                assert torch.equal(u, wanted[0].repeat_interleave(2))
            else:
                assert not g.has_edges_between(u, v, etype=t).any()
    assert seen == g.num_edges()
    assert (negatives > 0) == (negative != "none")


def excluded(g, mode, always, pair_eids):
    """What a mode takes out, and `always` with it: by the rules of DGL's documentation."""
    if mode == "reverse_types":
        out = {g.to_canonical_etype(k): v for k, v in pair_eids.items()}
        for k, r in (("AA", "rev-AA"), ("AB", "rev-AB")):
            k, r = g.to_canonical_etype(k), g.to_canonical_etype(r)
            if k in out:
                out[r] = out[k]
        for k, v in (always or {}).items():
            k = g.to_canonical_etype(k)
            out[k] = torch.cat([out[k], v]) if k in out else v
        return out
    out = {None: [], "self": [pair_eids], "reverse_id": [pair_eids, pair_eids + 1000]}[mode]
    parts = out + ([always] if always is not None else [])
    return torch.cat(parts) if parts else None


@pytest.mark.slow
@pytest.mark.parametrize("always_too", [False, True])
@pytest.mark.parametrize("mode", [None, "self", "reverse_id", "reverse_types"])
@pytest.mark.parametrize("make", [lambda: MultiLayerFullNeighborSampler(1), lambda: ShaDowKHopSampler([5])])
@pytest.mark.parametrize("batch_size", [1, 50])
def test_excluded_edges_are_not_sampled(on_disk, mode, always_too, batch_size, make):
    if mode == "reverse_types":
        g = random_relations()
        always = {"AA": torch.arange(50), "AB": torch.arange(20, 60)}
        seeds = {"AA": torch.arange(1000), "AB": torch.arange(1000)}
    else:
        ends = torch.randint(0, 200, (2, 1000))
        g = dgl.graph((torch.cat([ends[0], ends[1]]), torch.cat([ends[1], ends[0]])), num_nodes=200)
        always, seeds = torch.arange(30, 80), torch.arange(1000)
    always = always if always_too else None
    options = {"exclude": partial(excluded, g, mode, always) if always_too else mode}
    if mode == "reverse_id":
        options["reverse_eids"] = torch.cat([torch.arange(1000, 2000), torch.arange(1000)])
    if mode == "reverse_types":
        options["reverse_etypes"] = {"AA": "rev-AA", "AB": "rev-AB", "rev-AA": "AA", "rev-AB": "AB"}
    sampler = as_edge_prediction_sampler(make(), **options)
    taken = itertools.islice(DataLoader(on_disk(g), seeds, sampler, batch_size=batch_size), 11)
    for _, pairs, blocks in taken:
        sampled = blocks[0] if isinstance(blocks, list) else blocks
        gone = excluded(g, mode, always, pairs.edata[dgl.EID])
        ids = sampled.edata[dgl.EID]
        if gone is None:  # nothing is: the edges asked for are among those sampled
            assert np.isin(pairs.edata[dgl.EID], ids).all()
            continue
        for t in gone if isinstance(gone, dict) else [None]:
            assert not np.isin(gone if t is None else gone[t], ids if t is None else ids[t]).any()


def test_reverse_types_where_some_relations_have_no_reverse(on_disk):
    g = dgl.heterograph(
        {
            ("A", "AB", "B"): ([0, 1], [0, 1]),
            ("B", "BA", "A"): ([0, 1], [0, 1]),
            ("B", "BC", "C"): ([0], [0]),
            ("C", "CA", "A"): ([0, 1], [0, 1]),
        }
    )
    sampler = as_edge_prediction_sampler(
        NeighborSampler([1], replace=True), exclude="reverse_types", reverse_etypes={"AB": "BA"}
    )
    indices = {"AB": torch.tensor([0]), "BC": torch.tensor([0])}
    _, pairs, (block,) = next(iter(DataLoader(on_disk(g), indices, sampler, batch_size=2, shuffle=True)))
    assert pairs.num_edges() == 2
    assert 0 not in block.edges["AB"].data[dgl.EID]
    assert 0 not in block.edges["BA"].data[dgl.EID]


@pytest.mark.slow
def test_no_batch_sees_its_own_edges_in_either_direction(on_disk):
    u, v = torch.unique(torch.randint(0, 20, (500, 2)), dim=0).T
    g = dgl.heterograph({("A", "AB", "B"): (u, v), ("B", "BA", "A"): (v, u)})
    sampler = as_edge_prediction_sampler(
        NeighborSampler([2, 2, 2]), exclude="reverse_types", reverse_etypes={"AB": "BA", "BA": "AB"}
    )
    indices = {t: torch.arange(g.num_edges(t)) for t in ("AB", "BA")}
    for _, pairs, blocks in DataLoader(on_disk(g), indices, sampler, batch_size=2, shuffle=True):
        for t in ("AB", "BA"):
            own = set(zip(*(e.tolist() for e in pairs[t].edges()), strict=True))
            assert not own & set(zip(*(e.tolist() for e in blocks[-1][t].edges()), strict=True))


def test_spot_target_excludes_by_degree(on_disk):
    spot = pytest.importorskip("dgl.dataloading.spot_target")
    g = random_graph()
    h = on_disk(g)
    rule = spot.SpotTarget(h, exclude="self", degree_threshold=5)
    sampler = as_edge_prediction_sampler(MultiLayerFullNeighborSampler(1), exclude=rule)
    for _, pairs, (block,) in DataLoader(h, torch.arange(100), sampler, batch_size=25):
        ids = pairs.edata[dgl.EID]
        u, v = g.find_edges(ids)
        gone = ids[torch.minimum(g.in_degrees(u), g.in_degrees(v)) < 5]
        assert not torch.isin(gone, block.edata[dgl.EID]).any()
