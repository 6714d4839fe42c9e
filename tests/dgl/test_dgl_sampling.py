"""What is sampled for DGL: equal to DGL's own where nothing is random, alike in distribution where it is."""

from __future__ import annotations

import dgl
import numpy as np
import pytest
import ready
import torch
from dgl.dataloading import DataLoader, NeighborSampler
from dgl_graphs import counts_of, edges_by_id, games, random_graph, random_relations
from scipy.stats import chi2_contingency, chisquare

LEVEL = 1e-5  # of a false alarm, per test


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("make", [random_graph, games])
def test_full_neighbourhoods_equal_dgls(on_disk, make, idtype):
    """The same nodes and, edge by edge, the same ends. (DGL shuffles a node's edges; ours stay as stored.)"""
    g = make(idtype=idtype)
    h = on_disk(g)
    for t in g.ntypes:
        seeds = {t: torch.randperm(g.num_nodes(t))[:5].to(idtype)}
        theirs, ours = g.sample_neighbors_fused(seeds, -1), h.sample_neighbors_fused(seeds, -1)
        assert ours.ntypes == theirs.ntypes
        assert ours.canonical_etypes == theirs.canonical_etypes
        for n in g.ntypes:
            assert torch.equal(ours.dstnodes[n].data[dgl.NID], theirs.dstnodes[n].data[dgl.NID])
            a, b = ours.srcnodes[n].data[dgl.NID], theirs.srcnodes[n].data[dgl.NID]
            assert a.dtype == b.dtype
            assert sorted(a.tolist()) == sorted(b.tolist())
        for e in g.canonical_etypes:
            assert edges_by_id(ours, e) == edges_by_id(theirs, e)
        frontier = h.sample_neighbors(seeds, -1)
        block = dgl.to_block(frontier, {n: seeds.get(n, seeds[t][:0]) for n in g.ntypes})
        for n in g.ntypes:  # the fused block is to_block's, in to_block's order
            assert torch.equal(ours.srcnodes[n].data[dgl.NID], block.srcnodes[n].data[dgl.NID])


def test_edges_out_of_the_seeds_equal_dgls(on_disk):
    g = random_graph()
    h = on_disk(g)
    seeds = torch.tensor([3, 50, 7])
    theirs, ours = (k.sample_neighbors(seeds, -1, edge_dir="out") for k in (g, h))
    assert edges_by_id(ours) == edges_by_id(theirs)
    some = h.sample_neighbors(seeds, 2, edge_dir="out")
    assert set(some.edges()[0].tolist()) <= {3, 50, 7}
    assert torch.equal(g.find_edges(some.edata[dgl.EID])[1], some.edges()[1])
    # A block takes messages to its seeds: neighbours are its sources, whichever way the edges ran.
    block = h.sample_neighbors_fused(seeds, -1, edge_dir="out")
    u, v = block.edges()
    assert torch.equal(block.dstdata[dgl.NID], seeds)
    assert torch.equal(g.find_edges(block.edata[dgl.EID])[0], block.dstdata[dgl.NID][v])
    assert torch.equal(g.find_edges(block.edata[dgl.EID])[1], block.srcdata[dgl.NID][u])


def test_edges_out_of_the_seeds_of_several_types(on_disk):
    g = games()
    h = on_disk(g)
    ours = h.sample_neighbors({"user": torch.tensor([0, 1])}, -1, edge_dir="out")
    theirs = g.sample_neighbors({"user": torch.tensor([0, 1])}, -1, edge_dir="out")
    for e in g.canonical_etypes:
        assert edges_by_id(ours, e) == edges_by_id(theirs, e)


def test_a_seed_given_twice_has_its_edges_twice(on_disk):
    g = random_graph()
    block = on_disk(g).sample_neighbors_fused(torch.tensor([4, 9, 4]), -1)
    assert block.dstdata[dgl.NID].tolist() == [4, 9, 4]
    degrees = block.in_degrees().tolist()
    assert degrees == g.in_degrees(torch.tensor([4, 9, 4])).tolist()
    u, _ = block.edges()
    src = block.srcdata[dgl.NID][u].tolist()
    assert src[: degrees[0]] == src[-degrees[0] :]


def test_subgraphs_equal_dgls(on_disk):
    for g, nodes in ((random_graph(), torch.randperm(200)[:80]), (random_relations(50, 500), None)):
        h = on_disk(g)
        nodes = {"A": torch.randperm(50)[:20], "B": torch.arange(10, 40)} if nodes is None else nodes
        for options in ({}, {"relabel_nodes": False}):
            theirs, ours = g.subgraph(nodes, **options), h.subgraph(nodes, **options)
            for e in g.canonical_etypes:
                assert edges_by_id(ours, e) == edges_by_id(theirs, e)
            for n in g.ntypes:
                assert ours.num_nodes(n) == theirs.num_nodes(n)
        ids = {t: torch.randperm(g.num_edges(t))[:30] for t in g.canonical_etypes}
        for options in ({}, {"relabel_nodes": False}):
            theirs, ours = g.edge_subgraph(ids, **options), h.edge_subgraph(ids, **options)
            for e in g.canonical_etypes:
                assert edges_by_id(ours, e) == edges_by_id(theirs, e)
                assert torch.equal(ours.edges[e].data[dgl.EID], theirs.edges[e].data[dgl.EID])
    mask = torch.rand(200) < 0.5
    g = random_graph()
    assert edges_by_id(on_disk(g).subgraph(mask)) == edges_by_id(g.subgraph(mask))


HUBS = 500


@pytest.fixture
def stars(on_disk):
    """HUBS hubs with 12 in-neighbours each, weighed alike around every hub. Edge id % 12 is the place."""
    edges = torch.arange(HUBS * 12)
    g = dgl.graph((HUBS + edges, edges // 12))
    g.edata["p"] = torch.tensor([0, 0.5, 1, 1, 1, 1, 2, 2, 2, 2, 4, 8.0]).repeat(HUBS)
    g.edata["m"] = g.edata["p"] > 1
    return g, on_disk(g)


SEEDS = torch.arange(HUBS)


@pytest.mark.parametrize("fused", [True, False])
def test_a_fanout_takes_every_neighbour_equally_often(stars, fused):
    _, h = stars
    draw = h.sample_neighbors_fused if fused else h.sample_neighbors
    counts = counts_of(lambda: draw(SEEDS, 5).edata[dgl.EID] % 12, 10, 12)
    assert counts.sum() == 5 * 10 * HUBS
    # Five of twelve without replacement vary less than the test assumes: p is only larger for it.
    assert chisquare(counts).pvalue > LEVEL


def test_pairs_of_neighbours_come_up_equally_often(stars):
    _, h = stars
    counts = np.zeros((12, 12), np.int64)
    for _ in range(12):
        pairs = np.sort(h.sample_neighbors_fused(SEEDS, 2).edata[dgl.EID].numpy().reshape(HUBS, 2) % 12, 1)
        np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    assert chisquare(counts[np.triu_indices(12, 1)]).pvalue > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("prob", [None, "p", "m"])
@pytest.mark.parametrize("fused", [True, False])
def test_draws_are_distributed_like_dgls(stars, replace, prob, fused):
    table = []
    for g in stars:
        draw = g.sample_neighbors_fused if fused else g.sample_neighbors
        table.append(
            counts_of(lambda d=draw: d(SEEDS, 3, prob=prob, replace=replace).edata[dgl.EID] % 12, 10, 12)
        )
    table = np.stack(table)
    assert (table.sum(1) == 3 * 10 * HUBS).all()
    taken = table.sum(0) > 0
    assert taken.tolist() == ([True] * 12 if prob is None else (stars[0].edata[prob][:12] > 0).tolist())
    assert chi2_contingency(table[:, taken]).pvalue > LEVEL


def test_weights_of_other_dtypes_and_weights_assigned_in_memory(stars):
    _, h = stars
    hub, edges = torch.tensor([0]), HUBS * 12
    for dtype in (torch.float64, torch.float16, torch.int64):
        h.edata["q"] = (torch.arange(edges) == 3).to(dtype)
        assert h.sample_neighbors(hub, 5, prob="q").edata[dgl.EID].tolist() == [3]
    h.edata["q"] = torch.arange(edges) == 4  # the copy made for the old values is not used for new ones
    assert h.sample_neighbors(hub, 5, prob="q").edata[dgl.EID].tolist() == [4]
    h.edata["q"][4], h.edata["q"][5] = False, True
    assert h.sample_neighbors(hub, 5, prob="q").edata[dgl.EID].tolist() == [5]
    h.edata["bad"] = torch.ones(edges, 2)
    with pytest.raises(dgl.DGLError, match="one number for each"):
        h.sample_neighbors(hub, 5, prob="bad")
    h.edata["negative"] = -torch.ones(edges)
    with pytest.raises(ValueError, match="not negative"):
        h.sample_neighbors(hub, 5, prob="negative")


def test_excluded_edges_leave_after_the_pick_as_in_dgl(stars):
    """DGL picks first and excludes then, so a fanout may come up short by what was excluded."""
    half = torch.arange(HUBS * 12)[torch.arange(HUBS * 12) % 12 < 6]
    table = []
    for g in stars:
        sizes = [
            g.sample_neighbors(SEEDS, 4, exclude_edges=half).edges()[1].bincount(minlength=HUBS)
            for _ in range(6)
        ]
        table.append(torch.cat(sizes).bincount(minlength=5).numpy())
    table = np.stack(table)
    assert chi2_contingency(table[:, table.sum(0) > 0]).pvalue > LEVEL


@pytest.mark.slow
def test_labor_takes_as_many_as_dgls_and_shares_them_between_seeds(on_disk):
    """40 seeds over the same 60 neighbours: numbers of edges and of distinct neighbours as in DGL."""
    u, v = torch.meshgrid(torch.arange(40, 100), torch.arange(40), indexing="ij")
    g = dgl.graph((u.reshape(-1), v.reshape(-1)), num_nodes=100)
    g.edata["p"] = torch.rand(g.num_edges(), generator=torch.Generator().manual_seed(0)) + 0.1
    h = on_disk(g)
    seeds = torch.arange(40)
    for options in ({}, {"prob": "p"}, {"importance_sampling": 2}, {"importance_sampling": -1, "prob": "p"}):
        found = []
        for k in (g, h):
            edges, distinct = [], []
            for _ in range(60):
                frontier, weights = k.sample_labors(seeds, 6, **options)
                edges.append(frontier.num_edges())
                distinct.append(len(torch.unique(frontier.edges()[0])))
                assert len(weights[0]) == (frontier.num_edges() if options else 0)
                if options and frontier.num_edges():
                    mean = weights[0].sum() / frontier.num_edges()
                    assert mean == pytest.approx(1, abs=1e-3)
            found.append((np.mean(edges), np.std(edges), np.mean(distinct), np.std(distinct)))
        theirs, ours = found
        for mean, spread in ((0, 1), (2, 3)):
            error = (theirs[spread] ** 2 + ours[spread] ** 2) ** 0.5 / 60**0.5
            assert abs(theirs[mean] - ours[mean]) < 5 * error + 1e-9


def test_labor_with_the_same_seed_picks_the_same_neighbours(on_disk):
    h = on_disk(random_graph())
    same = [
        h.sample_labors(torch.arange(50), 3, random_seed=torch.tensor([7]))[0].edata[dgl.EID]
        for _ in range(2)
    ]
    assert torch.equal(*same)
    other = h.sample_labors(torch.arange(50), 3, random_seed=torch.tensor([8]))[0].edata[dgl.EID]
    assert not torch.equal(same[0], other)


def test_random_walks_follow_edges(on_disk):
    g = random_graph(50, 100)
    h = on_disk(g)
    traces, types = dgl.sampling.random_walk(h, torch.arange(50), length=4)
    assert traces.shape == (50, 5)
    assert types.tolist() == [0] * 5
    traces, ids, _ = dgl.sampling.random_walk(h, torch.arange(50), length=4, return_eids=True)
    dead_ends = 0
    for a, b, e in zip(traces[:, :-1].reshape(-1), traces[:, 1:].reshape(-1), ids.reshape(-1), strict=True):
        if b >= 0:
            assert [int(x) for x in g.find_edges(e)] == [int(a), int(b)]
        else:
            assert e == -1
            assert a == -1 or g.out_degrees(int(a)) == 0
            dead_ends += 1
    assert 0 < dead_ends < 100
    start = int(g.out_degrees().argmax())
    stopped, _ = dgl.sampling.random_walk(h, torch.full((2000,), start), length=1, restart_prob=0.25)
    assert abs((stopped[:, 1] < 0).float().mean() - 0.25) < 0.06
    walks = dgl.sampling.node2vec_random_walk(h, torch.arange(50), 1.0, 0.5, 3)
    assert walks.shape == (50, 4)
    assert torch.equal(walks[:, 0], torch.arange(50))
    a, b = walks[:, :-1].reshape(-1), walks[:, 1:].reshape(-1)
    assert g.has_edges_between(a[b >= 0], b[b >= 0]).all()
    assert (g.out_degrees(a[(a >= 0) & (b < 0)]) == 0).all()
    assert (b >= 0).sum() > 50


def test_random_walks_from_one_start_differ_and_follow_probabilities(on_disk):
    g = dgl.graph((torch.zeros(4, dtype=torch.int64), torch.arange(1, 5)))
    g.edata["p"] = torch.tensor([0, 1, 1, 2.0])
    h = on_disk(g)
    start = torch.zeros(8000, dtype=torch.int64)
    counts = np.bincount(dgl.sampling.random_walk(h, start, length=1)[0][:, 1], minlength=5)[1:]
    assert chisquare(counts).pvalue > LEVEL
    counts = np.bincount(dgl.sampling.random_walk(h, start, length=1, prob="p")[0][:, 1], minlength=5)[1:]
    assert counts[0] == 0
    assert chisquare(counts[1:], 8000 * np.array([0.25, 0.25, 0.5])).pvalue > LEVEL


def test_random_walks_along_a_metapath(on_disk):
    h = on_disk(games())
    traces, types = dgl.sampling.random_walk(h, [0, 1, 4], metapath=["play", "played-by"])
    assert types.tolist() == [h.get_ntype_id(t) for t in ("user", "game", "user")]
    assert traces[2].tolist() == [4, -1, -1]
    assert (traces[:2] >= 0).all()


def test_global_negatives_are_uniform_over_pairs_without_an_edge(on_disk):
    g = dgl.graph(([0, 1, 2, 3, 3], [1, 2, 3, 0, 3]), num_nodes=4)
    h = on_disk(g)
    counts = np.zeros((4, 4), np.int64)
    for _ in range(300):
        u, v = h.global_uniform_negative_sampling(20, exclude_self_loops=True, replace=True)
        np.add.at(counts, (u.numpy(), v.numpy()), 1)
    free = np.ones((4, 4), bool) & ~np.eye(4, dtype=bool)
    free[g.edges()] = False
    assert counts[~free].sum() == 0
    assert chisquare(counts[free]).pvalue > LEVEL
    u, v = h.global_uniform_negative_sampling(50)
    assert len(set(zip(u.tolist(), v.tolist(), strict=True))) == len(u) <= free.sum()


def epoch(h, **options):
    loader = DataLoader(
        h, torch.arange(200), NeighborSampler([3, 3], **options.pop("sampler", {})), batch_size=50, **options
    )
    return [b.edata[dgl.EID] for _, _, blocks in loader for b in blocks]


def equal(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


FORGET = "import gz_dgl._random as r; r._stream.__init__()"


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [0, 2])
def test_torchs_seed_makes_an_epoch_repeat(on_disk, num_workers):
    exec(FORGET)  # another test may have called dgl.seed, which rules from then on
    h = on_disk(random_graph())
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append((epoch(h, num_workers=num_workers), epoch(h, num_workers=num_workers)))
    assert equal(runs[0][0], runs[1][0])
    assert equal(runs[0][1], runs[1][1])
    assert not equal(runs[0][0], runs[0][1])
    assert not equal(runs[0][0], runs[2][0])


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"num_workers": 2}])
def test_dgls_seed_makes_an_epoch_repeat(on_disk, options):
    h = on_disk(random_graph())
    runs = []
    for seed in (1, 1, 2):
        dgl.seed(seed)
        runs.append((epoch(h, **options), epoch(h, **options)))
    assert equal(runs[0][0], runs[1][0])
    assert equal(runs[0][1], runs[1][1])
    assert not equal(runs[0][0], runs[0][1])
    assert not equal(runs[0][0], runs[2][0])


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", ready.CLEAN])
def test_two_workers_do_not_draw_the_same(on_disk, context):
    h = on_disk(random_graph())
    runs = []
    for started_by in (context, "fork"):
        dgl.seed(1)
        seeds = torch.arange(50).repeat(2)  # the same batch for either worker
        loader = DataLoader(
            h, seeds, NeighborSampler([3]), batch_size=50, num_workers=2, multiprocessing_context=started_by
        )
        runs.append([blocks[0].edata[dgl.EID] for _, _, blocks in loader])
    assert not torch.equal(*runs[0])
    assert equal(runs[0], runs[1])


def test_the_number_of_threads_changes_nothing(on_disk):
    import gz

    h = on_disk(random_graph(2000, 60_000))
    before, found = gz.num_threads(), []
    try:
        for threads in (1, 2, 5):
            gz.set_num_threads(threads)
            dgl.seed(3)
            block = h.sample_neighbors_fused(torch.arange(1500), 7)
            found.append((block.srcdata[dgl.NID], block.edata[dgl.EID]))
    finally:
        gz.set_num_threads(before)
    assert equal(found[0], found[1])
    assert equal(found[0], found[2])


def test_wrong_arguments_say_what_is_wrong(on_disk):
    h = on_disk(random_graph())
    with pytest.raises(IndexError, match="200"):
        h.sample_neighbors(torch.tensor([200]), 2)
    with pytest.raises(dgl.DGLError, match="int64"):
        h.sample_neighbors(torch.tensor([2], dtype=torch.int32), 2)
    with pytest.raises(dgl.DGLError, match="edge_dir"):
        h.sample_neighbors(torch.tensor([2]), 2, edge_dir="sideways")
    g = on_disk(games())
    with pytest.raises(dgl.DGLError, match="node type"):
        g.sample_neighbors(torch.tensor([2]), 2)
    with pytest.raises(dgl.DGLError, match="each edge type"):
        g.sample_neighbors({"user": torch.tensor([2])}, {"play": 2})


@pytest.mark.parametrize("make", [random_graph, games, random_relations])
def test_the_nodes_of_an_edge_subgraph_are_numbered_as_dgl_numbers_them(on_disk, make):
    g = make()
    ids = {t: torch.randperm(g.num_edges(t))[: g.num_edges(t) // 2 + 1] for t in g.canonical_etypes}
    theirs, ours = g.edge_subgraph(ids), on_disk(g).edge_subgraph(ids)
    for t in g.ntypes:
        assert torch.equal(ours.nodes[t].data[dgl.NID], theirs.nodes[t].data[dgl.NID])
    for t in g.canonical_etypes:
        assert torch.equal(torch.stack(ours.edges(etype=t)), torch.stack(theirs.edges(etype=t)))
