"""Which topologies an ingest stores: `directions`. On a store with the edges out of nodes alone, what works
is as on one that has both, and what cannot work says which direction is missing."""

import numpy as np
import pytest

import gz
from gz.cli import main

RNG = np.random.default_rng(5)
N, E = 60, 500
SRC, DST = RNG.integers(0, N, E), RNG.integers(0, N - 7, E)
W = RNG.random(E).astype(np.float32)
OPTIONS = {
    "plain": {},
    "nodes counted": {"num_nodes": None},
    "input order": {"neighbor_order": "input", "keep_edge_ids": True},
    "weighted": {"weight": "w", "edge_features": {"w": W}},
    "mended": {"undirected": True, "coalesce": True, "self_loops": "add", "keep_edge_ids": True},
    "mapped": {"ids": "map", "num_nodes": None, "keep_edge_ids": True},
}


def store_of(path, directions, edges=(SRC, DST), **options):
    options = {"num_nodes": N} | options
    return gz.open(gz.ingest(path, edges=edges, directions=directions, **options))


def lists(graph):
    """Of every node: (neighbour, edge id) of its edges, sorted."""
    ids = np.arange(graph.num_edges) if graph.edge_ids is None else graph.edge_ids
    pairs = np.stack([graph.indices.astype(np.int64), ids.astype(np.int64)], 1)
    return [sorted(map(tuple, p.tolist())) for p in np.split(pairs, graph.indptr[1:-1])]


def no_in(call):
    with pytest.raises(ValueError, match="not stored in direction 'in'.*--directions both"):
        call()


@pytest.mark.parametrize("name", OPTIONS)
def test_out_groups_the_edges_by_source_and_stores_nothing_else(tmp_path, name):
    """As the turned edges grouped by destination are."""
    options = OPTIONS[name]
    store = store_of(tmp_path / "out", "out", **options)
    entry = store.manifest.edges[0]
    assert entry.in_file is None
    assert sorted(p.name for p in tmp_path.glob("out/edges/*/*.gl")) == ["out.gl"]
    graph = store.graph(direction="out")
    assert graph.direction == "out"
    if name == "mapped":  # ids are numbered as they come: turned edges would be numbered otherwise
        dense = store.id_map().to_dense(SRC), store.id_map().to_dense(DST)
        turned = store_of(tmp_path / "in", "in", dense[::-1], **options | {"ids": "dense"}).graph()
    else:
        turned = store_of(tmp_path / "in", "in", (DST, SRC), **options).graph()
    assert lists(graph) == lists(turned)
    assert (graph.weights is None) == (turned.weights is None)
    if graph.weights is not None:
        assert np.array_equal(graph.weights, turned.weights)
        assert np.array_equal(store.edge_feature("w")[:], graph.weights)
    assert [error for _, error in gz.verify(store.path) if error] == []


def test_plain_lists_are_those_of_numpy(tmp_path):
    graph = store_of(tmp_path / "s", "out").graph(direction="out")
    for v in range(N):
        assert np.array_equal(graph.neighbors(v), np.sort(DST[v == SRC]))
    seeds = np.arange(N)
    found = graph.sample(seeds, [-1])
    edges = {(int(found.nodes[s]), int(found.nodes[d])) for s, d in zip(found.src, found.dst, strict=True)}
    assert edges == set(zip(SRC.tolist(), DST.tolist(), strict=True))


def test_edge_columns_are_found_by_the_rows_and_the_ids_of_a_sample(tmp_path):
    number = np.arange(E)
    store = store_of(tmp_path / "s", "out", edge_features={"number": number})
    found = store.sample({"node": np.arange(N)}, [-1], direction="out")
    t = store.edge_types[0]
    rows, ids = found.edge_rows[t], found.edge_ids[t]
    assert np.array_equal(store.edge_feature("number").gather(rows), ids)
    nodes = found.nodes["node"]
    assert np.array_equal(SRC[ids], nodes[found.src[t]])
    assert np.array_equal(DST[ids], nodes[found.dst[t]])


def test_columns_added_later_go_by_the_original_order(tmp_path):
    store = store_of(tmp_path / "s", "out", keep_edge_ids=True)
    t = store.edge_types[0]
    store.add_feature("number", np.arange(E), t)
    assert np.array_equal(store.edge_feature("number")[:], store.graph(direction="out").edge_ids)
    backwards = np.arange(E)[::-1].copy()
    store.add_feature("by", backwards, t, by=backwards)
    assert np.array_equal(store.edge_feature("by")[:], store.graph(direction="out").edge_ids)


@pytest.mark.parametrize("format", ["parquet", "npy"])
def test_an_export_ingests_to_an_equal_store(tmp_path, format):
    options = {"edge_features": {"w": W}, "weight": "w", "neighbor_order": "input"}
    store = store_of(tmp_path / "s", "out", **options)
    gz.export(store, tmp_path / "files", format)
    again = gz.open(gz.ingest(tmp_path / "again", spec=tmp_path / "files" / "graph.toml"))
    assert again.manifest.edges[0].in_file is None
    a, b = store.graph(direction="out"), again.graph(direction="out")
    for part in ("indptr", "indices", "edge_ids", "weights"):
        assert np.array_equal(getattr(a, part), getattr(b, part)), part
    # The way to the missing direction, for who has nothing but the store.
    spec = tmp_path / "files" / "graph.toml"
    spec.write_text(spec.read_text().replace('directions = "out"', 'directions = "both"'))
    whole = gz.open(gz.ingest(tmp_path / "whole", spec=spec))
    assert lists(whole.graph()) == lists(store_of(tmp_path / "in", "in", **options).graph())


def test_several_types_have_their_own_directions(tmp_path):
    spec = {
        "nodes": {"a": {"num_nodes": N}, "b": {"num_nodes": N}},
        "edges": [
            {"type": ["a", "to", "b"], "edges": (SRC, DST), "directions": "out"},
            {"type": ["b", "of", "a"], "edges": (SRC, DST)},
        ],
    }
    store = gz.open(gz.ingest(tmp_path / "s", spec=spec))
    out, into = store.edge_types
    assert np.array_equal(store.graph(out, "out").degree(np.arange(N)), np.bincount(SRC, minlength=N))
    assert np.array_equal(store.graph(into).degree(np.arange(N)), np.bincount(DST, minlength=N))
    no_in(lambda: store.graph(out))
    with pytest.raises(ValueError, match="not stored in direction 'out'"):
        store.graph(into, "out")
    assert [error for _, error in gz.verify(store.path) if error] == []


def test_what_needs_edges_into_nodes_says_so(tmp_path):
    x = np.zeros((N, 64), np.float32)
    store = store_of(tmp_path / "s", "out", features={"x": x}, splits={"train": np.arange(9)})
    no_in(store.graph)
    no_in(lambda: store.sample({"node": [1]}, [2]))
    no_in(lambda: gz.reorder(store))
    no_in(lambda: gz.reorder(store, seeds=None))
    assert store.manifest.nodes["node"].columns["x"].hot is None


def test_commands_on_a_store_of_out_edges(tmp_path, capsys):
    np.savez(tmp_path / "e.npz", src=SRC, dst=DST)
    call = ["ingest", str(tmp_path / "s"), "--edges", str(tmp_path / "e.npz"), "--directions", "out"]
    assert main(call) == 0
    assert main(["info", str(tmp_path / "s")]) == 0
    said = capsys.readouterr().out
    assert "out-edges of a node" in said
    assert "in-edges of a node" not in said
    assert main(["verify", str(tmp_path / "s")]) == 0
    capsys.readouterr()
    for command in ("bench", "doctor --no-frameworks"):
        assert main([*command.split(), str(tmp_path / "s")]) == 1
        assert "direction 'in'" in " ".join(capsys.readouterr().err.split()), command


def test_the_change_of_meaning_is_said(tmp_path):
    with pytest.warns(DeprecationWarning, match="directions='both'"):
        store_of(tmp_path / "s", "out")
