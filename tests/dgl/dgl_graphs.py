"""DGL graphs for the tests, made by DGL alone, and comparisons of what samplers give out."""

from __future__ import annotations

import dgl
import numpy as np
import torch


def random_graph(num_nodes=200, num_edges=1000, idtype=torch.int64, seed=0):
    """Random ends, with features, labels, a mask, edge features, probabilities and an edge mask."""
    rng = torch.Generator().manual_seed(seed)
    ends = torch.randint(0, num_nodes, (2, num_edges), generator=rng)
    g = dgl.graph((ends[0], ends[1]), num_nodes=num_nodes).astype(idtype)
    g.ndata["feat"] = torch.randn(num_nodes, 8, generator=rng)
    g.ndata["label"] = torch.randint(0, 5, (num_nodes,), generator=rng)
    g.ndata["train_mask"] = torch.rand(num_nodes, generator=rng) < 0.5
    g.edata["e"] = torch.randn(num_edges, 3, generator=rng)
    g.edata["p"] = torch.rand(num_edges, generator=rng)
    g.edata["m"] = torch.rand(num_edges, generator=rng) < 0.5
    return g


def games(idtype=torch.int64):
    """Users who follow users and play games; two relations between the same types."""
    follow = [0, 0, 0, 1, 1, 1, 2], [1, 2, 3, 0, 2, 3, 0]
    play = [0, 1, 1, 3, 5], [0, 1, 2, 0, 2]
    g = dgl.heterograph(
        {
            ("user", "follow", "user"): follow,
            ("user", "followed-by", "user"): follow[::-1],
            ("user", "play", "game"): play,
            ("game", "played-by", "user"): play[::-1],
        }
    ).astype(idtype)
    rng = torch.Generator().manual_seed(1)
    for t in g.ntypes:
        g.nodes[t].data["feat"] = torch.randn(g.num_nodes(t), 8, generator=rng)
    for t in g.canonical_etypes:
        g.edges[t].data["w"] = torch.rand(g.num_edges(t), generator=rng)
    return g


def random_relations(nodes=200, edges=1000, seed=0):
    """Two relations and their reverses over two types: AA, rev-AA, AB, rev-AB."""
    rng = torch.Generator().manual_seed(seed)
    relations = {}
    for source, name, destination in (("A", "AA", "A"), ("A", "AB", "B")):
        u, v = torch.randint(0, nodes, (2, edges), generator=rng)
        relations[source, name, destination] = (u, v)
        relations[destination, "rev-" + name, source] = (v, u)
    return dgl.heterograph(relations, num_nodes_dict={"A": nodes, "B": nodes})


def edges_by_id(g, etype=None):
    """{edge id in the parent: (source, destination)} of a subgraph or block, all ids those of the parent."""
    if g.is_block:
        s, _, d = g.to_canonical_etype(etype) if etype else g.canonical_etypes[0]
        src_ids, dst_ids = g.srcnodes[s].data[dgl.NID], g.dstnodes[d].data[dgl.NID]
    else:
        s, _, d = g.to_canonical_etype(etype) if etype else g.canonical_etypes[0]
        ids = {t: g.nodes[t].data.get(dgl.NID, g.nodes(t)) for t in (s, d)}
        src_ids, dst_ids = ids[s], ids[d]
    u, v = g.edges(etype=etype)
    eids = g.edges[etype].data[dgl.EID] if etype else g.edata[dgl.EID]
    pairs = zip(src_ids[u.long()].tolist(), dst_ids[v.long()].tolist(), strict=True)
    out = list(zip(eids.tolist(), pairs, strict=True))
    return dict(out) if len(dict(out)) == len(out) else out


def same_graph(a, b, close=False):
    """Both graphs have the same types, edges by id, and columns; values only nearly, if `close`."""
    equal = torch.testing.assert_close if close else _equal
    assert a.ntypes == b.ntypes
    assert a.canonical_etypes == b.canonical_etypes
    assert a.idtype == b.idtype
    for t in a.ntypes:
        assert a.num_nodes(t) == b.num_nodes(t)
        assert set(a.nodes[t].data) == set(b.nodes[t].data)
        for k, v in a.nodes[t].data.items():
            equal(v, b.nodes[t].data[k])
    for t in a.canonical_etypes:
        for x, y in zip(a.edges(etype=t, form="all"), b.edges(etype=t, form="all"), strict=True):
            _equal(x, y)
        assert set(a.edges[t].data) == set(b.edges[t].data)
        for k, v in a.edges[t].data.items():
            equal(v, b.edges[t].data[k])


def _equal(a, b):
    assert a.dtype == b.dtype
    assert torch.equal(a, b)


def counts_of(draw, repeats, bins):
    """How often each of `bins` outcomes comes up in draw(), which gives a list of them."""
    counts = np.zeros(bins, np.int64)
    for _ in range(repeats):
        np.add.at(counts, np.asarray(draw(), np.int64), 1)
    return counts
