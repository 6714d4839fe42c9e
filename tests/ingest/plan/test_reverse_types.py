"""`reverse`, and `undirected` between two node types: a type of the same edges turned round."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gz
from gz._engine import InputError
from gz.verify import verify

WRITES, REVERSE = ("author", "writes", "paper"), ("paper", "rev_writes", "author")
NODES = {"author": {"num_nodes": 30}, "paper": {"num_nodes": 50}}
RNG = np.random.default_rng(3)
SRC, DST = RNG.integers(0, 30, 400), RNG.integers(0, 50, 400)
YEAR = RNG.integers(1990, 2020, 400)


def edges_of(store, t):
    """(source, destination, column) by edge id, read from the files as they lie."""
    g = store.graph(t)
    grouped = np.repeat(np.arange(g.num_nodes), np.diff(np.asarray(g.indptr).astype(np.int64)))
    order = np.argsort(np.asarray(g.edge_ids), kind="stable")
    year = store.edge_feature("year", t).get_tensor()
    return np.stack([np.asarray(g.indices)[order], grouped[order], year[order]])


def csv(header, delimiter=","):
    def write(folder):
        frame = pd.DataFrame({"author": SRC, "paper": DST, "year": YEAR})
        frame.to_csv(folder / "e.csv", index=False, header=header, sep=delimiter)
        return {"file": str(folder / "e.csv")} | ({} if header else {"columns": {2: "int64"}})

    return write


def turned_csv(folder):
    """The columns are called src and dst, and stand the other way round."""
    pd.DataFrame({"dst": DST, "year": YEAR, "src": SRC}).to_csv(folder / "e.csv", index=False)
    return {"file": str(folder / "e.csv")}


def parquet(folder):
    pq.write_table(pa.table({"paper": DST, "author": SRC, "year": YEAR}), folder / "e.parquet")
    return {"file": str(folder / "e.parquet")}


def named_parquet(folder):
    pq.write_table(pa.table({"to whom": DST, "who": SRC, "year": YEAR}), folder / "e.parquet")
    return {"file": str(folder / "e.parquet"), "ends": ["who", "to whom"]}


def npy(folder):
    np.save(folder / "e.npy", np.stack([SRC, DST]))
    return {"file": str(folder / "e.npy"), "features": {"year": YEAR}}


def turned_npy(folder):
    np.save(folder / "e.npy", np.stack([DST, SRC]))
    return {"file": str(folder / "e.npy"), "features": {"year": YEAR}, "ends": [1, 0]}


def arrays(folder):
    return {"edges": (SRC, DST), "features": {"year": YEAR}}


def frame(folder):
    return {"edges": pd.DataFrame({"source": SRC, "year": YEAR, "target": DST})}


def two_files(folder):
    pd.DataFrame({"src": SRC[:150], "dst": DST[:150], "year": YEAR[:150]}).to_csv(
        folder / "a.csv", index=False
    )
    pq.write_table(pa.table({"src": SRC[150:], "dst": DST[150:], "year": YEAR[150:]}), folder / "b.parquet")
    return {"file": [str(folder / "a.csv"), str(folder / "b.parquet")]}


FORMS = [
    csv(True),
    csv(True, "\t"),
    turned_csv,
    parquet,
    named_parquet,
    npy,
    turned_npy,
    arrays,
    frame,
    two_files,
]


@pytest.mark.parametrize("option", [{"undirected": True}, {"reverse": True}], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_edges_is_turned_round(tmp_path, form, option):
    spec = {"nodes": NODES, "edges": [{"type": WRITES, **form(tmp_path), **option}]}
    store = gz.open(gz.ingest(tmp_path / "s", spec=spec))
    assert store.edge_types == [WRITES, REVERSE]
    forward = np.stack([SRC, DST, YEAR])
    assert np.array_equal(edges_of(store, WRITES), forward)
    assert np.array_equal(edges_of(store, REVERSE), forward[[1, 0, 2]])
    assert not [error for _, error in verify(store.path) if error is not None]


@pytest.mark.parametrize("ids", ["text", "int", "map"])
def test_original_ids_are_mapped_once(tmp_path, ids):
    names = ("a{}", "p{}") if ids == "text" else ("{}", "{}")
    pd.DataFrame(
        {
            "author": [names[0].format(i * 7) for i in SRC],
            "paper": [names[1].format(i * 3) for i in DST],
            "year": YEAR,
        }
    ).to_csv(tmp_path / "e.csv", index=False)
    edge = {"type": WRITES, "file": str(tmp_path / "e.csv")}
    once = gz.open(gz.ingest(tmp_path / "a", spec={"ids": ids, "edges": [edge]}))
    both = gz.open(gz.ingest(tmp_path / "b", spec={"ids": ids, "edges": [edge], "undirected": True}))
    for t in ("author", "paper"):
        everyone = np.arange(once.num_nodes(t))
        assert list(both.id_map(t).to_original(everyone)) == list(once.id_map(t).to_original(everyone))
    forward = edges_of(once, WRITES)
    assert np.array_equal(edges_of(both, WRITES), forward)
    assert np.array_equal(edges_of(both, REVERSE), forward[[1, 0, 2]])


def test_from_a_toml_file_by_the_command_with_weights_and_little_memory(tmp_path):
    from gz.cli import main

    rng = np.random.default_rng(0)
    np.save(tmp_path / "e.npy", rng.integers(0, 3000, (2, 200_000)))
    np.save(tmp_path / "w.npy", rng.random(200_000, np.float32))
    (tmp_path / "g.toml").write_text(
        """
        undirected = true
        [nodes.a]
        num_nodes = 3000
        [nodes.b]
        num_nodes = 3000
        [[edges]]
        type = ["a", "to", "b"]
        file = "e.npy"
        features.w = "w.npy"
        weight = "w"
        reverse = "fro"
        """
    )
    stores = []
    for name, memory in (("s", "2GB"), ("small", "1MB")):
        assert not main(
            ["ingest", str(tmp_path / name), "--spec", str(tmp_path / "g.toml"), "--memory", memory]
        )
        stores.append(gz.open(tmp_path / name))
    assert stores[0].edge_types == [("a", "to", "b"), ("b", "fro", "a")]
    src, dst = np.load(tmp_path / "e.npy")
    for store in stores:
        g = store.graph(("b", "fro", "a"))
        grouped = np.repeat(np.arange(3000), np.diff(np.asarray(g.indptr).astype(np.int64)))
        rows = np.asarray(g.edge_ids)
        assert np.array_equal(np.asarray(g.indices), dst[rows])
        assert np.array_equal(grouped, src[rows])
        weights = np.load(tmp_path / "w.npy")[rows]
        assert np.array_equal(store.edge_feature("w", ("b", "fro", "a")).get_tensor(), weights)
        assert np.array_equal(np.asarray(g.weights), weights)


def test_the_plan_shows_both_types(tmp_path):
    spec = {"nodes": NODES, "edges": [{"type": WRITES, **turned_csv(tmp_path), "reverse": True}]}
    forward, reverse = gz.ingest(tmp_path / "s", spec=spec, dry_run=True).plan["edges"]
    assert (forward["ends"], reverse["ends"]) == (["src", "dst"], ["dst", "src"])
    assert reverse["type"] == list(REVERSE)


def test_what_cannot_be_is_said(tmp_path):
    def ingest(edge, **top):
        gz.ingest(tmp_path / "s", spec={"nodes": NODES, "edges": [{"type": WRITES, **edge}], **top})

    chunks = iter([(SRC, DST)])
    with pytest.raises(ValueError, match="'rev_writes'.*read twice.*iterator"):
        ingest({"edges": chunks, "undirected": True})
    with pytest.raises(ValueError, match="read twice"):
        ingest({"edges": (SRC, DST), "features": {"year": iter([YEAR])}, "reverse": True})
    with pytest.raises(InputError, match="reverse is true, false or a name"):
        ingest({"edges": (SRC, DST), "reverse": 3})
    with pytest.raises(ValueError, match="self_loops='add' needs the same node type at both ends"):
        ingest({"edges": (SRC, DST), "self_loops": "add"})
    given = [{"type": t, "edges": (a, b)} for t, a, b in ((WRITES, SRC, DST), (REVERSE, DST, SRC))]
    with pytest.raises(ValueError, match="rev_writes.*both given and the reverse of"):
        gz.ingest(tmp_path / "s", spec={"nodes": NODES, "edges": given, "undirected": True})
    one = {"type": ["node", "to", "node"], "edges": (SRC, DST), "reverse": True}
    with pytest.raises(ValueError, match="homogeneous.*undirected"):
        gz.ingest(
            tmp_path / "s", spec={"homogeneous": True, "nodes": {"node": {"num_nodes": 50}}, "edges": [one]}
        )
    assert not (tmp_path / "s").exists()
