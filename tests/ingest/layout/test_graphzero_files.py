"""Files that GraphZero 0.2 wrote, moved into a store: what it answers about them, the store answers too."""

from __future__ import annotations

import os

import numpy as np
import pytest
from stores import nothing_but_phases, same

import gz
from gz.cli import main

graphzero = pytest.importorskip("graphzero", reason="it writes the files: pip install graphzero")

N, E = 300, 2000
RNG = np.random.default_rng(4)
SRC, DST = RNG.integers(0, N - 40, E), RNG.integers(0, N, E)
SRC[:600] = 17  # a hub, longer than a chunk of the smallest budget
DST[0] = N - 1
WEIGHT = RNG.integers(1, 100, E) / 4


def text(path, columns):
    np.savetxt(path, np.column_stack(columns), fmt="%g", delimiter=",")
    return str(path)


@pytest.fixture
def files(tmp_path, capfd):
    """old.gl, weighted.gl, both.gl (undirected) and old.gd, by GraphZero."""
    edges = text(tmp_path / "e.csv", [SRC, DST])
    graphzero.convert_csv_to_gl(edges, str(tmp_path / "old.gl"), directed=True)
    graphzero.convert_csv_to_gl(edges, str(tmp_path / "both.gl"), directed=False)
    weighted = text(tmp_path / "w.csv", [SRC, DST, WEIGHT])
    graphzero.convert_csv_to_gl(weighted, str(tmp_path / "weighted.gl"), directed=True)
    rows = RNG.integers(-50, 50, (N, 5))
    for kind in ("INT32", "INT64", "FLOAT32", "FLOAT64"):
        rows_csv = text(tmp_path / "x.csv", [np.arange(N), rows])
        graphzero.convert_csv_to_gd(rows_csv, str(tmp_path / f"{kind}.gd"), getattr(graphzero.DataType, kind))
    capfd.readouterr()
    return tmp_path


@pytest.mark.parametrize("name", ["old", "both", "weighted"])
@pytest.mark.parametrize("memory", ["1MB", "2GB"])
def test_every_neighbour_list_is_the_same(files, name, memory, monkeypatch):
    path = str(files / f"{name}.gl")
    theirs = graphzero.Graph(path)
    if memory == "1MB":
        monkeypatch.setattr("gz._ingest.write.edges.EdgeJob.chunk_rows", lambda self: 97)
    store = gz.open(gz.ingest(files / "s", edges=path, directions="both", memory=memory))
    assert store.num_nodes() == theirs.num_nodes == N
    assert store.num_edges() == theirs.num_edges
    out = store.graph(direction="out")
    for v in range(N):
        same(np.sort(out.neighbors(v)), np.sort(theirs.get_neighbours(v)), dtype=False)
    assert store.edge_columns() == (["weight"] if name == "weighted" else [])


def test_weights_stay_with_their_edges(files):
    path = str(files / "weighted.gl")
    store = gz.open(gz.ingest(files / "s", edges=path, weight="weight"))
    g = store.graph()
    dst = np.repeat(np.arange(N), np.diff(np.asarray(g.indptr).astype(int)))
    ours = sorted(
        zip(np.asarray(g.indices).tolist(), dst.tolist(), np.asarray(g.weights).tolist(), strict=True)
    )
    assert ours == sorted(zip(SRC.tolist(), DST.tolist(), WEIGHT.tolist(), strict=True))


@pytest.mark.parametrize("kind", ["INT32", "INT64", "FLOAT32", "FLOAT64"])
def test_features_are_the_same(files, kind):
    path = str(files / f"{kind}.gd")
    command = ["ingest", str(files / "s"), "--edges", str(files / "old.gl"), "--features", f"x={path}"]
    assert main(command) == 0
    same(gz.open(files / "s").feature("x").get_tensor(), graphzero.FeatureStore(path).get_tensor())


def patched(path, at, value):
    raw = bytearray(path.read_bytes())
    raw[at : at + 8] = int(value).to_bytes(8, "little")
    path.write_bytes(raw)


def spoil(files, how):
    gl, gd = files / "old.gl", files / "FLOAT32.gd"
    match how:
        case "truncated gl":
            os.truncate(gl, gl.stat().st_size - 1)
        case "truncated gd":
            os.truncate(gd, gd.stat().st_size - 1)
        case "no header":
            os.truncate(gl, 20)
        case "other magic":
            gl.write_bytes(b"something else entirely")
        case "index descends":
            patched(gl, 64 + 8 * 18, 2)
        case "index starts late":
            patched(gl, 64, 1)
        case "large neighbour":
            patched(gl, -(-(64 + 8 * (N + 1)) // 64) * 64 + 8 * 5, N)
        case "sizes disagree":
            patched(gl, 40, N + 1)
        case "flags":
            patched(gl, 56, 6)
        case "dtype":
            raw = bytearray(gd.read_bytes())
            raw[12] = 9
            gd.write_bytes(raw)
        case "too few rows":
            graphzero.convert_csv_to_gd(
                text(files / "y.csv", [np.arange(9), np.ones(9)]), str(gd), graphzero.DataType.FLOAT32
            )


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("truncated gl", "truncated"),
        ("truncated gd", "truncated"),
        ("no header", "less than its header: truncated"),
        ("other magic", "is not a GraphZero file"),
        ("index descends", "its index descends"),
        ("index starts late", "its index does not start with 0"),
        ("large neighbour", "edge 5: neighbour 300 is out of range: there are 300 nodes"),
        ("sizes disagree", "its header says 301 nodes"),
        ("flags", "has flags 0x6"),
        ("dtype", "dtype 9"),
        ("too few rows", "is out of range: there are 9 nodes"),
    ],
)
def test_wrong_files(files, how, message, capfd):
    spoil(files, how)
    capfd.readouterr()
    out = files / "out" / "s"
    out.parent.mkdir()
    command = [
        "ingest",
        str(out),
        "--edges",
        str(files / "old.gl"),
        "--features",
        f"x={files / 'FLOAT32.gd'}",
    ]
    assert main(command) == 1
    err = capfd.readouterr().err
    assert message in " ".join(err.split())
    assert nothing_but_phases(out, err)


def test_gz_files_are_told_apart(tmp_path):
    gz.ingest(tmp_path / "s", edges=([0], [1]), features={"x": np.ones((2, 2))})
    store = gz.open(tmp_path / "s")
    with pytest.raises(gz.InputError, match="is a file of gz itself: open it with gz.Graph"):
        gz.ingest(tmp_path / "t", edges=store.graph().path)
    with pytest.raises(gz.InputError, match="is a file of gz itself: open it with gz.FeatureStore"):
        gz.ingest(tmp_path / "t", edges=([0], [1]), features={"x": store.feature("x").path})
