"""A store written out and ingested again is the same store."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gz

RNG = np.random.default_rng(0)
N, E = 300, 2500
SRC, DST = RNG.integers(0, N, (2, E))


def same(a, b) -> None:
    """Two stores hold the same, whatever their files are called."""
    a, b = gz.open(a), gz.open(b)
    assert a.is_homogeneous == b.is_homogeneous
    assert a.node_types == b.node_types
    assert a.edge_types == b.edge_types
    assert a.manifest.meta == b.manifest.meta
    for t in a.node_types:
        assert a.num_nodes(t) == b.num_nodes(t)
        assert sorted(a.node_columns(t)) == sorted(b.node_columns(t))
        for c in a.node_columns(t):
            x, y = a.feature(c, t), b.feature(c, t)
            assert x.dtype == y.dtype
            assert np.array_equal(x.get_tensor(), y.get_tensor())
            assert (a.categories(c, t), a.unit(c, t)) == (b.categories(c, t), b.unit(c, t))
        maps = [s.manifest.nodes[t].id_map for s in (a, b)]
        assert [m and m["kind"] for m in maps] == [maps[0] and maps[0]["kind"]] * 2
        if maps[0]:
            every = np.arange(a.num_nodes(t))
            assert list(a.id_map(t).to_original(every)) == list(b.id_map(t).to_original(every))
            assert np.array_equal(b.id_map(t).to_dense(a.id_map(t).to_original(every)), every)
        assert sorted(a.splits(t)) == sorted(b.splits(t))
        for s in a.splits(t):
            assert np.array_equal(a.split(s, t), b.split(s, t))
    for t in a.edge_types:
        assert sorted(a.edge_columns(t)) == sorted(b.edge_columns(t))
        for c in a.edge_columns(t):
            x, y = a.edge_feature(c, t), b.edge_feature(c, t)
            assert x.dtype == y.dtype
            assert np.array_equal(x.get_tensor(), y.get_tensor())
            assert (a.categories(c, t), a.unit(c, t)) == (b.categories(c, t), b.unit(c, t))
        for direction in ("in", "out") if a.manifest.edge(t).out_file else ("in",):
            g, h = a.graph(t, direction), b.graph(t, direction)
            assert np.array_equal(g.indptr, h.indptr)
            assert np.array_equal(g.indices, h.indices)
            assert g.sorted == h.sorted
            for name in ("edge_ids", "edge_positions", "weights"):
                x, y = getattr(g, name), getattr(h, name)
                assert (x is None) == (y is None)
                assert x is None or np.array_equal(x, y)


CASES = {
    "plain": {},
    "edge ids": {"keep_edge_ids": True},
    "input order": {"keep_edge_ids": True, "neighbor_order": "input"},
    "both ways, weighted": {
        "directions": "both",
        "edge_features": {"w": RNG.random(E), "t": RNG.integers(0, 9, (E, 3))},
        "weight": "w",
    },
    "splits": {
        "splits": {"train": np.arange(0, N, 3), "valid": np.arange(1, N, 3)},
        "meta": {"a": [1, "ü\"'"]},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("format", ["parquet", "npy"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("memory", ["2GB", "1MB"])
def test_a_round_trip_gives_the_same_store(tmp_path, format, case, memory):
    x = RNG.random((N, 5), dtype=np.float32)
    gz.ingest(tmp_path / "s", edges=(SRC, DST), features={"x": x, "y y": np.arange(N)}, **CASES[case])
    gz.export(tmp_path / "s", tmp_path / "out", format, memory=memory)
    gz.ingest(tmp_path / "again", spec=tmp_path / "out" / "graph.toml")
    same(tmp_path / "s", tmp_path / "again")


@pytest.mark.parametrize("format", ["parquet", "npy"])
def test_a_heterogeneous_round_trip(tmp_path, format):
    spec = {
        "nodes": {
            "paper": {"features": {"x": RNG.random((50, 3))}, "splits": {"train": np.arange(10)}},
            "author": {"num_nodes": 30},
        },
        "edges": {
            ("author", "writes", "paper"): {
                "edges": (RNG.integers(0, 30, 99), RNG.integers(0, 50, 99)),
                "features": {"year": np.arange(99)},
            },
            ("paper", "cites", "paper"): (RNG.integers(0, 50, 70), RNG.integers(0, 50, 70)),
        },
    }
    gz.ingest(tmp_path / "s", spec=spec)
    gz.export(tmp_path / "s", tmp_path / "out", format)
    gz.ingest(tmp_path / "again", spec=tmp_path / "out" / "graph.toml")
    same(tmp_path / "s", tmp_path / "again")


@pytest.mark.parametrize("kind", ["int", "text"])
def test_mapped_ids_go_by_their_original_names(tmp_path, kind):
    keys = np.arange(N) * 7 + 10**12 if kind == "int" else np.array([f'n"{i}, x' for i in range(N)])
    gz.ingest(
        tmp_path / "s", edges=(keys[SRC], keys[DST]), ids="map", nodes=keys, features={"x": np.arange(N)},
        splits={"train": keys[5:9]},
    )  # fmt: skip
    gz.export(tmp_path / "s", tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "edges" / "node__to__node.parquet").to_pydict()
    assert sorted(zip(table["src"], table["dst"], strict=True)) == sorted(
        zip(keys[SRC].tolist(), keys[DST].tolist(), strict=True)
    )
    gz.ingest(tmp_path / "again", spec=tmp_path / "out" / "graph.toml")
    same(tmp_path / "s", tmp_path / "again")
    ids = gz.open(tmp_path / "again").id_map()
    assert list(ids.to_original(np.arange(N))) == keys.tolist()
    gz.export(tmp_path / "s", tmp_path / "npy", "npy")
    assert np.array_equal(
        np.sort(np.load(tmp_path / "npy/edges/node__to__node/edge_index.npy")[1]), np.sort(DST)
    )
    gz.ingest(tmp_path / "third", spec=tmp_path / "npy" / "graph.toml")
    same(tmp_path / "s", tmp_path / "third")


UNITS = ["date32[day]", "timestamp[s]", "timestamp[ms]", "timestamp[ns, tz=UTC]", "duration[us]", "time32[s]"]


@pytest.mark.parametrize("format", ["parquet", "npy"])
@pytest.mark.parametrize("ids", ["text", "int", "dense"])
def test_what_codes_and_times_stand_for_is_kept(tmp_path, format, ids):
    """Also texts that no row has, texts that look like numbers, and units that Parquet does not know."""
    named = {
        "text": [f"0{i}" for i in range(N)],
        "int": list(range(10**12, 10**12 + N)),
        "dense": list(range(N)),
    }
    names, towns = named[ids], ["none", "Ü", "7", 'a "b", c']
    nodes = pa.table(
        {"id": names, "town": [towns[1 + i % 3] for i in range(N)], "code": np.arange(N) % 2}
        | {u: pa.array(RNG.integers(0, 80_000, N).astype(np.int32)).cast(pa.int64()) for u in UNITS}
    )
    edges = pa.table(
        {
            "src": [names[i] for i in SRC],
            "dst": [names[i] for i in DST],
            "kind": [towns[i % 4] for i in range(E)],
            "when": pa.array(np.arange(E), pa.timestamp("us")),
        }
    )
    spec = {
        "ids": ids,
        "nodes": {
            "user": {
                "file": nodes,
                "categories": {"town": towns, "code": ["no", "yes", "never"]},
                "units": {u: u for u in UNITS},
                "splits": {"train": names[3:9]},
            }
        },
        "edges": [
            {"type": ["user", "knows", "user"], "file": edges, "categories": {"kind": towns[::-1]}},
            {"type": ["user", "likes", "user"], "file": edges, "columns": ["when"], "directions": "both"},
        ],
    }
    gz.ingest(tmp_path / "s", spec=spec)
    store = gz.open(tmp_path / "s")
    assert store.categories("town", "user") == towns
    assert store.categories("kind", ("user", "knows", "user")) == towns[::-1]
    assert [store.unit(u, "user") for u in UNITS] == UNITS
    gz.export(tmp_path / "s", tmp_path / "out", format)
    gz.ingest(tmp_path / "again", spec=tmp_path / "out" / "graph.toml")
    same(tmp_path / "s", tmp_path / "again")
    if format == "parquet":  # other readers see text and times
        read = pq.read_table(tmp_path / "out" / "nodes" / "user.parquet")
        assert read["town"].to_pylist() == nodes["town"].to_pylist()
        assert str(read.schema.field("date32[day]").type) == "date32[day]"


def test_categories_that_are_named_are_held_to(tmp_path):
    table = pa.table({"src": [0, 1], "dst": [1, 0], "c": ["a", "z"], "n": [0, 3]})

    def ingest(**keys):
        item = {"type": ["n", "to", "n"], "file": table, **keys}
        return gz.ingest(tmp_path / "s", spec={"edges": [item]})

    with pytest.raises(gz.InputError, match="'c' holds 'z', which is not among its categories"):
        ingest(categories={"c": ["a", "b"]})
    with pytest.raises(gz.InputError, match="row 1: column 'n' has the code 3, but there are 2 categories"):
        ingest(categories={"n": ["a", "b"]})
    with pytest.raises(gz.InputError, match="categories: there is no column 'x'"):
        ingest(categories={"x": ["a"]})
    with pytest.raises(
        gz.InputError, match="column 'c' holds codes of text; the unit 'timestamp.s.' is for single"
    ):
        ingest(units={"c": "timestamp[s]"})
    with pytest.raises(gz.InputError, match="a name occurs twice"):
        ingest(categories={"c": ["a", "z", "a"]})


def test_edges_come_in_the_order_they_were_ingested_in(tmp_path):
    gz.ingest(tmp_path / "s", edges=(SRC, DST), keep_edge_ids=True)
    gz.export(tmp_path / "s", tmp_path / "out", "npy", memory="1MB")
    index = np.load(tmp_path / "out" / "edges" / "node__to__node" / "edge_index.npy")
    assert np.array_equal(index, np.stack([SRC, DST]))


def test_edges_that_were_added_are_there_with_the_ids_of_their_edges(tmp_path):
    gz.ingest(tmp_path / "s", edges=(SRC, DST), undirected=True, keep_edge_ids=True)
    gz.export(tmp_path / "s", tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "edges" / "node__to__node.parquet")
    g = gz.open(tmp_path / "s").graph()
    assert np.array_equal(table["edge_id"].to_numpy(), g.edge_ids)
    assert np.array_equal(table["src"].to_numpy(), g.indices)
    assert np.array_equal(table["dst"].to_numpy(), np.repeat(np.arange(N), np.diff(g.indptr)))


@pytest.mark.slow
def test_bfloat16_becomes_float32_exactly(tmp_path):
    import torch

    x = torch.randn(N, 4).to(torch.bfloat16)
    gz.ingest(tmp_path / "s", edges=(SRC, DST), features={"x": x})
    gz.export(tmp_path / "s", tmp_path / "out", "npy")
    assert np.array_equal(np.load(tmp_path / "out" / "nodes" / "node" / "x.npy"), x.float().numpy())


def test_what_parquet_cannot_hold_is_refused_and_leaves_nothing(tmp_path):
    gz.ingest(tmp_path / "s", edges=(SRC, DST), features={"x": np.zeros((N, 2, 2))})
    with pytest.raises(ValueError, match="export to npy"):
        gz.export(tmp_path / "s", tmp_path / "out")
    assert os.listdir(tmp_path) == ["s"]
    gz.export(tmp_path / "s", tmp_path / "out", "npy")
    with pytest.raises(FileExistsError):
        gz.export(tmp_path / "s", tmp_path / "out", "npy")


def test_the_command(tmp_path):
    gz.ingest(tmp_path / "s", edges=(SRC, DST))
    command = [
        sys.executable,
        "-m",
        "gz",
        "export",
        str(tmp_path / "s"),
        str(tmp_path / "out"),
        "--format",
        "npy",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "graph.toml").exists()
