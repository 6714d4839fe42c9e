"""An ingest opens each input file once, however many of its steps ask the file something."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opens import Opens

import gz

N, E = 200, 3000


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def edges():
    return np.random.default_rng(0).integers(0, N, (2, E))


def write_csv(path, edges, header="src,dst,w\n"):
    text = header + "".join(f"{a},{b},{i / 2}\n" for i, (a, b) in enumerate(edges.T.tolist()))
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def write(path, edges):
    if path.name.endswith((".csv", ".csv.gz")):
        write_csv(path, edges)
    elif path.suffix == ".npy":
        np.save(path, edges)
    elif path.suffix == ".npz":
        np.savez_compressed(path, edge_index=edges)
    else:
        table = pa.table({"src": edges[0], "dst": edges[1], "w": np.arange(E) / 2})
        pq.write_table(table, path, row_group_size=500)


def test_the_counter_counts(folder):
    (folder / "a").write_bytes(b"12345")
    with Opens(folder) as opens:
        for _ in range(3):
            assert (folder / "a").read_bytes() == b"12345"
        assert opens.counts() == {"a": 3}


@pytest.mark.parametrize("ids", ["dense", "map"])
@pytest.mark.parametrize("name", ["e.csv", "e.csv.gz", "e.npy", "e.npz", "e.parquet"])
def test_edges(folder, edges, name, ids):
    write(folder / name, edges)
    with Opens(folder) as opens:
        gz.ingest(folder.parent / "s", edges=str(folder / name), ids=ids)
        assert opens.counts() == {name: 1}


@pytest.mark.parametrize("adopt", [False, True])
def test_columns_splits_and_edge_columns(folder, edges, adopt):
    rng = np.random.default_rng(1)
    np.save(folder / "e.npy", edges)
    np.save(folder / "x.npy", rng.random((N, 8), dtype=np.float32))
    np.savez(folder / "more.npz", a=np.arange(N), b=np.arange(N) / 2)
    np.savetxt(folder / "y.csv", np.arange(N), "%d")
    pq.write_table(pa.table({"p": np.arange(N), "q": np.arange(N) / 4}), folder / "t.parquet")
    np.save(folder / "w.npy", rng.random(E, dtype=np.float32))
    np.save(folder / "train.npy", np.arange(50))
    f = str(folder)
    features = {"x": f"{f}/x.npy", "a": f"{f}/more.npz:a", "b": f"{f}/more.npz:b", "y": f"{f}/y.csv"}
    features |= {n: {"file": f"{f}/t.parquet", "columns": [n]} for n in "pq"}
    with Opens(folder) as opens:
        gz.ingest(
            folder.parent / "s", edges=f"{f}/e.npy", features=features, edge_features={"w": f"{f}/w.npy"},
            weight="w", splits={"train": f"{f}/train.npy"}, adopt=adopt,
        )  # fmt: skip
        counts = opens.counts()
    assert counts == dict.fromkeys(os.listdir(folder), 1)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_of_node_columns_and_ids(folder, suffix):
    names = [f"n{i}" for i in range(N)]
    table = pa.table({"id": names, "a": np.arange(N), "b": np.arange(N) / 2})
    if suffix == "csv":
        (folder / "n.csv").write_text(table.to_pandas().to_csv(index=False))
        features = {c: {"file": str(folder / "n.csv"), "columns": [c]} for c in "ab"}
    else:
        pq.write_table(table, folder / "n.parquet")
        features = None  # its columns are those of the nodes
    nodes = str(folder / f"n.{suffix}")
    with Opens(folder) as opens:
        gz.ingest(folder.parent / "s", edges=(["n1"], ["n2"]), ids="map", nodes=nodes, features=features)
        assert opens.counts() == {f"n.{suffix}": 1}
    assert gz.open(folder.parent / "s").node_columns() == ["a", "b"]


def test_a_folder_of_files(folder, edges):
    for i in range(20):
        write_csv(folder / f"part{i}.csv", edges[:, i::20])
    with Opens(folder) as opens:
        gz.ingest(folder.parent / "s", edges=str(folder))
        assert opens.counts() == {f"part{i}.csv": 1 for i in range(20)}
    assert gz.open(folder.parent / "s").num_edges() == E
