"""gz_dgl.partition beside dgl.distributed.partition_graph on the same assignment: the same parts."""

from __future__ import annotations

import json

import dgl
import pytest
import torch
from dgl_graphs import random_graph, random_relations
from dgl_parts import assignment_of, by_dgl, read

import gz_dgl

METHODS = ["metis", "fennel", "random", "range"]


def many_types(seed=0):
    """Three node types, one of them small, five relations; columns of many dtypes on nodes and edges."""
    rng = torch.Generator().manual_seed(seed)
    counts = {"paper": 120, "author": 80, "venue": 9}
    relations = {}
    for s, name, d, n in (
        ("paper", "cites", "paper", 400),
        ("author", "writes", "paper", 300),
        ("paper", "written-by", "author", 300),
        ("paper", "in", "venue", 120),
        ("author", "knows", "author", 150),
    ):
        u = torch.randint(0, counts[s], (n,), generator=rng)
        v = torch.randint(0, counts[d], (n,), generator=rng)
        relations[s, name, d] = (u, v)
    g = dgl.heterograph(relations, num_nodes_dict=counts)
    g.nodes["paper"].data["feat"] = torch.randn(120, 5, generator=rng)
    g.nodes["paper"].data["year"] = torch.randint(1990, 2020, (120,), generator=rng, dtype=torch.int16)
    g.nodes["paper"].data["train_mask"] = torch.rand(120, generator=rng) < 0.3
    g.nodes["author"].data["h"] = torch.randn(80, 2, 3, generator=rng).double()
    g.edges["cites"].data["w"] = torch.rand(400, generator=rng)
    g.edges["writes"].data["place"] = torch.randint(0, 9, (300,), generator=rng, dtype=torch.uint8)
    return g


GRAPHS = {
    "homogeneous": random_graph,
    "two types": lambda: random_relations(60, 300),
    "many types": many_types,
    "no features": lambda: dgl.rand_graph(50, 300),
    "self loops and copies": lambda: dgl.graph(
        (torch.tensor([0, 0, 1, 1, 2, 5, 5, 5, 4]), torch.tensor([0, 1, 1, 2, 2, 5, 0, 0, 3])), num_nodes=7
    ),
}


def _compare(g, store, out, parts, tmp_path, monkeypatch, **options):
    made = gz_dgl.partition(store, out, parts, **options)
    assignment = assignment_of(made.config, made.orig_nids, g)
    theirs = by_dgl(g, tmp_path / "theirs", parts, assignment, monkeypatch)
    for p in range(parts):
        mine, other = read(made.config, p, made.orig_nids, made.orig_eids), read(theirs[0], p, *theirs[1:])
        assert mine[0] == other[0]  # nodes: own and halo
        assert mine[1] == other[1]  # edges: inner and outer, with their ends
        assert mine[2] == other[2]  # rows of every column, and their dtypes
    return made, theirs[0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["homogeneous", "many types"])
def test_the_parts_are_those_of_partition_graph(tmp_path, monkeypatch, name, method):
    g = GRAPHS[name]()
    gz_dgl.save(g, tmp_path / "store")
    _compare(g, tmp_path / "store", tmp_path / "out", 3, tmp_path, monkeypatch, method=method)


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("name", GRAPHS)
def test_any_graph_in_any_number_of_parts(tmp_path, monkeypatch, name, parts):
    g = GRAPHS[name]()
    gz_dgl.save(g, tmp_path / "store")
    if name == "self loops and copies":
        options = {"assignment": torch.arange(7) % parts}
    else:
        options = {"method": "random", "memory": 10**6}  # blocks of a thousand edges
    if parts == 1:  # DGL leaves the flags of the one part as they are, and gives it no part ids
        made = gz_dgl.partition(tmp_path / "store", tmp_path / "out", parts, **options)
        nodes, edges, _ = read(made.config, 0, made.orig_nids, made.orig_eids)
        assert all(own == 1 and part == 0 for own, part in nodes.values())
        assert len(edges) == g.num_edges()
        assert all(own == 1 for *_, own in edges.values())
    else:
        _compare(g, tmp_path / "store", tmp_path / "out", parts, tmp_path, monkeypatch, **options)


@pytest.mark.parametrize("name", ["homogeneous", "many types"])
def test_the_union_of_the_parts_is_the_store(tmp_path, name):
    g = GRAPHS[name]()
    gz_dgl.save(g, tmp_path / "store")
    made = gz_dgl.partition(tmp_path / "store", tmp_path / "out", 4, method="fennel")
    nodes, edges, columns = {}, {}, {}
    for p in range(4):
        found = read(made.config, p, made.orig_nids, made.orig_eids)
        own = {n for n, (inner, _) in found[0].items() if inner}
        assert not own & set(nodes)
        nodes |= dict.fromkeys(own, p)
        own_edges = {e: ends for e, ends in found[1].items() if ends[-1]}
        assert not set(own_edges) & set(edges)
        edges |= own_edges
        for k, (_, rows) in found[2].items():
            columns.setdefault(k, {}).update(rows)
    assert set(nodes) == {(t, i) for t in g.ntypes for i in range(g.num_nodes(t))}
    for t in g.canonical_etypes:
        for i, (u, v) in enumerate(zip(*(e.tolist() for e in g.edges(etype=t, order="eid")), strict=True)):
            assert edges.pop((t, i)) == (t[0], u, t[2], v, 1)
    assert not edges
    for t in g.ntypes:
        for k, v in g.nodes[t].data.items():
            v = v.byte() if v.dtype == torch.bool else v
            assert columns.pop(f"{t}/{k}") == dict(enumerate(v.tolist()))
    for t in g.canonical_etypes:
        for k, v in g.edges[t].data.items():
            v = v.byte() if v.dtype == torch.bool else v
            assert columns.pop(f"{':'.join(t)}/{k}") == dict(enumerate(v.tolist()))
    assert not columns


def test_the_json_has_the_fields_of_dgl(tmp_path, monkeypatch):
    g = many_types()
    gz_dgl.save(g, tmp_path / "store")
    made, theirs = _compare(
        g, tmp_path / "store", tmp_path / "out", 2, tmp_path, monkeypatch, method="metis", graph_name="graph"
    )
    with open(made.config) as a, open(theirs) as b:
        mine, other = json.load(a), json.load(b)
    assert mine == other
    assert list(mine) == list(other)


@pytest.mark.parametrize("name", ["homogeneous", "many types"])
def test_tensors_have_the_names_and_the_dtypes_of_dgl(tmp_path, monkeypatch, name):
    g = GRAPHS[name]()
    gz_dgl.save(g, tmp_path / "store")
    made, theirs = _compare(
        g, tmp_path / "store", tmp_path / "out", 2, tmp_path, monkeypatch, method="random"
    )
    for p in range(2):
        mine, other = (dgl.distributed.load_partition(c, p)[0] for c in (made.config, theirs))
        for a, b in ((mine.ndata, other.ndata), (mine.edata, other.edata)):
            assert {k: (v.dtype, v.shape) for k, v in a.items()} == {
                k: (v.dtype, v.shape) for k, v in b.items()
            }
        for k in ("inner_node", "inner_edge"):
            (a, b) = (part.ndata[k] if k in part.ndata else part.edata[k] for part in (mine, other))
            assert torch.equal(a, b)  # what is the part's own comes first
        own = int(mine.edata["inner_edge"].sum())
        assert torch.equal(mine.edata[dgl.EID][:own], other.edata[dgl.EID][:own])
        assert mine.formats() == other.formats()


def test_parts_that_partition_graph_cannot_write(tmp_path):
    """One without edges; one without nodes of a type."""
    g = dgl.heterograph(
        {("a", "x", "b"): ([0, 1, 2, 2], [0, 0, 1, 1]), ("b", "y", "a"): ([1, 1], [0, 1])},
        num_nodes_dict={"a": 4, "b": 2},
    )
    g.nodes["b"].data["f"] = torch.arange(2.0)
    gz_dgl.save(g, tmp_path / "store")
    parts = {"a": torch.tensor([0, 0, 0, 2]), "b": torch.tensor([1, 0])}
    made = gz_dgl.partition(tmp_path / "store", tmp_path / "out", 3, assignment=parts)
    found = [read(made.config, p, made.orig_nids, made.orig_eids) for p in range(3)]
    own = [{n for n, (inner, _) in nodes.items() if inner} for nodes, _, _ in found]
    assert own == [{("a", 0), ("a", 1), ("a", 2), ("b", 1)}, {("b", 0)}, {("a", 3)}]
    assert [len(edges) for _, edges, _ in found] == [6, 2, 0]
    assert [sum(e[-1] for e in edges.values()) for _, edges, _ in found] == [4, 2, 0]
    assert [columns["b/f"][1] for _, _, columns in found] == [{1: 1.0}, {0: 0.0}, {}]
