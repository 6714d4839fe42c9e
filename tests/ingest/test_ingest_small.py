"""Columns stored smaller than they are read, by every way that a column gets into a store and out of it."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import gz
from gz._base.dtypes import STORABLE
from gz.cli import main

N, E, WIDTH = 60, 200, 9
SMALL = ["float16", "bfloat16", "int8"]


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(2).standard_normal((N, WIDTH)).astype(np.float32)


@pytest.fixture
def edges() -> np.ndarray:
    return np.random.default_rng(3).integers(0, N, (2, E))


def near(got: np.ndarray, x: np.ndarray, stored: str) -> bool:
    """float16 and bfloat16 to the bit, by numpy and torch; int8 within half a step of each row."""
    assert got.dtype == np.float32
    assert got.shape == x.shape
    if stored == "float16":
        return np.array_equal(got, x.astype(np.float16).astype(np.float32))
    if stored == "bfloat16":
        return np.array_equal(got, torch.tensor(x, dtype=torch.float32).bfloat16().float().numpy())
    step = np.abs(x).max(axis=tuple(range(1, x.ndim)), keepdims=True) / 127
    return bool((np.abs(got - x) <= step * 0.500001).all())


def column(path, name="x", t=None) -> gz.FeatureStore:
    return gz.open(path).feature(name, t)


def sound(path) -> bool:
    return [e for _, e in gz.verify(path) if e is not None] == []


# ---- in ----


@pytest.mark.parametrize("stored", SMALL)
def test_arrays_files_frames_and_iterators(stored, x, edges, tmp_path):
    np.save(tmp_path / "x.npy", x)
    np.savetxt(tmp_path / "x.csv", x, delimiter=",", fmt="%.9g")
    pq.write_table(pa.table({f"c{i}": x[:, i] for i in range(WIDTH)}), tmp_path / "x.parquet")
    given = {
        "array": x,
        "wide": x.astype(np.float64),
        "tensor": torch.from_numpy(x),
        "npy": tmp_path / "x.npy",
        "csv": tmp_path / "x.csv",
        "parquet": tmp_path / "x.parquet",
        "frame": {"file": pd.DataFrame(x, columns=[f"c{i}" for i in range(WIDTH)])},
        "chunks": iter([x[:7], x[7:40], x[40:]]),
    }
    dtype = dict.fromkeys(given, stored)
    gz.ingest(tmp_path / "s", edges=edges, features=given, dtype=dtype, num_nodes=N)
    for name in given:
        found = column(tmp_path / "s", name)
        assert (found.dtype, found.stored) == ("float32", stored), name
        assert near(found.get_tensor(), x, stored), name
    assert sound(tmp_path / "s")


@pytest.mark.parametrize("stored", SMALL)
def test_a_dtype_in_the_description_of_a_column(stored, x, edges, tmp_path):
    np.save(tmp_path / "x.npy", x)
    np.savetxt(tmp_path / "x.csv", x, delimiter=",", fmt="%.9g")
    for file in ("x.npy", "x.csv"):
        spec = {"x": {"file": str(tmp_path / file), "dtype": stored}}
        gz.ingest(tmp_path / "s", edges=edges, features=spec, num_nodes=N, overwrite=True)
        assert near(column(tmp_path / "s").get_tensor(), x, stored)
    toml = tmp_path / "s.toml"
    np.save(tmp_path / "edges.npy", edges)
    toml.write_text(
        f'[nodes.a]\nfeatures.x = {{file = "x.npy", dtype = "{stored}"}}\n'
        '[[edges]]\ntype = ["a", "to", "a"]\nfile = "edges.npy"\n'
    )
    gz.ingest(tmp_path / "t", spec=toml)
    assert near(column(tmp_path / "t", "x", "a").get_tensor(), x, stored)


def test_a_type_and_a_column_or_a_column_of_all_types(x, edges, tmp_path):
    spec = {
        "nodes": {t: {"features": {"x": x, "z": x}} for t in ("a", "b")},
        "edges": {("a", "to", "b"): edges},
    }
    gz.ingest(tmp_path / "s", spec=spec, dtype={"x": "float16", "b/x": "int8", "a/z": "bfloat16"})
    stored = {(t, n): column(tmp_path / "s", n, t).stored for t in "ab" for n in "xz"}
    assert stored == {
        ("a", "x"): "float16", ("b", "x"): "int8", ("a", "z"): "bfloat16", ("b", "z"): "float32",
    }  # fmt: skip
    with pytest.raises(gz.InputError, match="dtype: there is no column 'y'"):
        gz.ingest(tmp_path / "t", spec=spec, dtype={"y": "float16"})
    with pytest.raises(ValueError, match="cannot be stored"):
        gz.ingest(tmp_path / "t", spec=spec, dtype={"x": "float8"})
    with pytest.raises(TypeError, match="name the columns"):
        gz.ingest(tmp_path / "t", spec=spec, dtype="float16")


@pytest.mark.parametrize("stored", SMALL)
def test_columns_of_edges(stored, x, edges, tmp_path):
    """Beside the edges, in their order; undirected, so that rows travel through the builder twice."""
    attr = np.random.default_rng(0).standard_normal((E, 5)).astype(np.float32)
    gz.ingest(
        tmp_path / "s",
        edges=edges,
        edge_features={"attr": attr, "w": np.ones(E, np.float32)},
        weight="w",
        undirected=True,
        num_nodes=N,
        self_loops="add",
        dtype={"attr": stored},
    )
    store = gz.open(tmp_path / "s")
    found = store.edge_feature("attr")
    assert (found.dtype, found.stored) == ("float32", stored)
    ids = store.graph().edge_ids
    rows, want = found.get_tensor(), np.concatenate([attr, np.zeros((N, 5), np.float32)])[np.minimum(ids, E)]
    assert near(rows, want, stored) if stored != "int8" else near(rows[ids < E], want[ids < E], stored)
    assert not rows[ids >= E].any()
    assert sound(tmp_path / "s")


def test_a_column_of_a_table_of_edges(edges, tmp_path):
    """Single numbers: float16 is smaller, int8 with a scale would not be."""
    v = np.random.default_rng(0).random(E)
    frame = pd.DataFrame({"src": edges[0], "dst": edges[1], "score": v})
    frame.to_csv(tmp_path / "e.csv", index=False)
    frame.to_parquet(tmp_path / "e.parquet")
    for file in ("e.csv", "e.parquet"):
        for options in ({"dtype": {"score": "float16"}}, {"columns": {"score": "float16"}}):
            gz.ingest(tmp_path / "s", edges=tmp_path / file, overwrite=True, **options)
            store = gz.open(tmp_path / "s")
            found = store.edge_feature("score")
            assert (found.dtype, found.stored) == ("float32", "float16")
            want = v.astype(np.float32).astype(np.float16)[store.graph().edge_ids]
            assert np.array_equal(found.get_tensor(), want)
    with pytest.raises(gz.InputError, match="cannot be the weight and be stored as float16"):
        gz.ingest(tmp_path / "t", edges=tmp_path / "e.csv", weight="score", dtype={"score": "float16"})


def test_a_column_of_a_table_of_nodes(edges, tmp_path):
    v = np.random.default_rng(0).random(N)
    pd.DataFrame({"id": np.arange(N), "v": v}).to_csv(tmp_path / "n.csv", index=False)
    for options in ({"dtype": {"v": "bfloat16"}}, {"columns": {"v": "bfloat16"}}):
        gz.ingest(tmp_path / "s", edges=edges, nodes=f"{tmp_path}/n.csv:id", overwrite=True, **options)
        found = column(tmp_path / "s", "v")
        assert found.stored == "bfloat16"
        assert np.array_equal(found.get_tensor(), torch.tensor(v).float().bfloat16().float().numpy())


@pytest.mark.parametrize("stored", SMALL)
@pytest.mark.parametrize("memory", ["2GB", "1MB"])
def test_columns_added_to_a_store(stored, memory, x, edges, tmp_path):
    attr = np.random.default_rng(0).standard_normal((E, 40)).astype(np.float32)
    gz.ingest(tmp_path / "s", edges=edges, num_nodes=N, keep_edge_ids=True)
    store = gz.open(tmp_path / "s")
    order = np.random.default_rng(1).permutation(N)
    store.add_feature("x", x, dtype=stored)
    store.add_feature("by", x[order], dtype=stored, by=order, memory=memory)
    store.add_feature("attr", attr, store.edge_types[0], dtype=stored, memory=memory)
    gz.add(store, {"lies": attr}, store.edge_types[0], dtype=stored, order="stored")
    assert near(store.feature("x").get_tensor(), x, stored)
    np.testing.assert_array_equal(store.feature("by").get_tensor(), store.feature("x").get_tensor())
    assert near(store.edge_feature("attr").get_tensor(), attr[store.graph().edge_ids], stored)
    assert near(store.edge_feature("lies").get_tensor(), attr, stored)
    assert sound(tmp_path / "s")


def test_by_the_command_line(x, edges, tmp_path, capsys):
    def told() -> str:
        return " ".join(capsys.readouterr().out.split())

    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "e.npy", edges)
    call = ["ingest", f"{tmp_path}/s", "--edges", f"{tmp_path}/e.npy", "--features", f"x={tmp_path}/x.npy"]
    assert main([*call, "--dtype", "x=int8", "--dry-run"]) == 0
    assert "column x: float32 [9], stored as int8" in told()
    assert main([*call, "--dtype", "x=int8"]) == 0
    assert main(["add", f"{tmp_path}/s", "--features", f"h={tmp_path}/x.npy", "--dtype", "float16"]) == 0
    assert "h, float32 60 x 9, stored as float16" in told()
    assert main(["info", f"{tmp_path}/s"]) == 0
    assert "float32 60 x 9, stored as int8, 780 B" in told()
    assert main(["verify", f"{tmp_path}/s"]) == 0
    assert near(column(tmp_path / "s").get_tensor(), x, "int8")
    assert main([*call, "--dtype", "x"]) == 2


# ---- what has the dtype already, and what is to be kept ----


def test_what_has_the_dtype_already_stays_what_it_is(x, edges, tmp_path):
    given = {
        "half": x.astype(np.float16),
        "brain": torch.from_numpy(x).bfloat16(),
        "whole": np.arange(N * 3).reshape(N, 3) % 100,
        "label": (np.arange(N) % 7).astype(np.float32),
    }
    asked = {"half": "float16", "brain": "bfloat16", "whole": "int8", "label": "int8"}
    for dtype in (None, asked):
        gz.ingest(tmp_path / "s", edges=edges, features=given, num_nodes=N, dtype=dtype, overwrite=True)
        store = gz.open(tmp_path / "s")
        assert store.feature("half").dtype == "float16"
        np.testing.assert_array_equal(store.feature("half").get_tensor(), given["half"])
        assert store.feature("brain").dtype == "bfloat16"
        np.testing.assert_array_equal(store.feature("brain").get_tensor(), given["brain"].view(torch.uint16))
    assert store.feature("whole").dtype == store.feature("whole").stored == "int8"
    assert store.feature("label").dtype == "int8"  # single numbers
    np.testing.assert_array_equal(store.feature("whole").get_tensor(), given["whole"])


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_kept_columns_are_read_as_they_are_stored(kind, x, edges, tmp_path):
    gz.ingest(tmp_path / "s", edges=edges, features={"x": x}, num_nodes=N, dtype={"x": f"{kind}:keep"})
    found = column(tmp_path / "s")
    assert found.dtype == found.stored == kind
    want = torch.from_numpy(x).to(getattr(torch, kind))
    got = torch.from_numpy(found.get_tensor().view(np.int16)).view(want.dtype)
    assert torch.equal(got, want)


# ---- whole numbers ----


def test_labels_are_stored_narrow_and_read_as_int64(edges, tmp_path):
    y = np.random.default_rng(4).integers(-1, 172, N)
    np.save(tmp_path / "y.npy", y)
    np.savetxt(tmp_path / "y.csv", y, fmt="%d")
    pq.write_table(pa.table({"y": y}), tmp_path / "y.parquet")
    given = {
        "array": y,
        "floats": y.astype(np.float32),
        "tensor": torch.from_numpy(y),
        "npy": tmp_path / "y.npy",
        "csv": tmp_path / "y.csv",
        "parquet": tmp_path / "y.parquet",
        "chunks": iter([y[:7], y[7:]]),
        "rows": np.stack([y, y + 1], 1),
    }
    of_edges = np.random.default_rng(5).integers(0, 200, E)
    gz.ingest(
        tmp_path / "s",
        edges=edges,
        features=given,
        edge_features={"kind": of_edges},
        num_nodes=N,
        dtype={**dict.fromkeys(given, "int16:int64"), "kind": "uint8:int64"},
    )
    store = gz.open(tmp_path / "s")
    for name in given:
        found = store.feature(name)
        assert (found.dtype, found.stored) == ("int64", "int16"), name
        np.testing.assert_array_equal(found.get_tensor(), given["rows"] if name == "rows" else y)
    kind = store.edge_feature("kind")
    assert (kind.dtype, kind.stored) == ("int64", "uint8")
    np.testing.assert_array_equal(kind[np.argsort(store.graph().edge_ids)], of_edges)
    assert sound(tmp_path / "s")
    gz.export(tmp_path / "s", tmp_path / "out", "npy")
    gz.ingest(tmp_path / "again", spec=tmp_path / "out/graph.toml")
    assert column(tmp_path / "again", "array").stored == "int64"
    np.testing.assert_array_equal(column(tmp_path / "again", "array").get_tensor(), y)


def test_labels_by_the_command_line(edges, tmp_path, capsys):
    np.save(tmp_path / "y.npy", np.arange(N) * 5)
    np.save(tmp_path / "e.npy", edges)
    call = ["ingest", f"{tmp_path}/s", "--edges", f"{tmp_path}/e.npy", "--features", f"y={tmp_path}/y.npy"]
    assert main([*call, "--dtype", "y=uint8:int64"]) == 1
    assert "column 'y': 260 is no uint8; choose another dtype" in capsys.readouterr().err
    assert main([*call, "--dtype", "y=int16:int64"]) == 0
    assert main(["info", f"{tmp_path}/s"]) == 0
    assert "int64 60, stored as int16, 120 B" in " ".join(capsys.readouterr().out.split())
    for wrong in ("int64:int64", "float16:int64", "int16:int32", "int16:"):
        assert main([*call, "--dtype", f"y={wrong}", "--overwrite"]) == 1, wrong
        assert "cannot be stored" in capsys.readouterr().err


# ---- what cannot be ----


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_int8_refuses_what_is_not_finite_and_names_the_row(bad, x, edges, tmp_path):
    x[41, 3] = bad
    np.save(tmp_path / "x.npy", x)
    for given in (x, tmp_path / "x.npy", iter([x[:30], x[30:]])):
        with pytest.raises(gz.InputError, match=rf"column 'x': .*row 41: {bad} cannot be stored as int8"):
            gz.ingest(tmp_path / "s", edges=edges, features={"x": given}, dtype={"x": "int8"})
    gz.ingest(tmp_path / "s", edges=edges, features={"x": x}, num_nodes=N, dtype={"x": "float16"})
    assert np.isnan(column(tmp_path / "s")[41][3]) if np.isnan(bad) else column(tmp_path / "s")[41][3] == bad


@pytest.mark.parametrize(
    ("stored", "bad"), [("float16", 65520.0), ("float16", -1e9), ("bfloat16", 3.4e38), ("int8", 1e39)]
)
def test_what_is_too_large_is_refused_and_not_made_infinite(stored, bad, x, edges, tmp_path):
    wide = x.astype(np.float64)
    wide[17, 2] = bad
    with pytest.raises(gz.InputError, match=r"row 17: .*cannot be stored as"):
        gz.ingest(tmp_path / "s", edges=edges, features={"x": wide}, num_nodes=N, dtype={"x": stored})


def test_rows_whose_values_vanish_as_int8_are_warned_of(edges, tmp_path):
    """A year beside flags: one scale for both."""
    flags = np.random.default_rng(0).random((4000, 4)) < 0.5
    mixed = np.concatenate([flags * 0.5, np.full((4000, 1), 1999.5)], 1)
    with pytest.warns(RuntimeWarning, match=r"column 'x': .*becomes 0 as int8.*float16"):
        gz.ingest(tmp_path / "s", edges=edges, features={"x": mixed}, dtype={"x": "int8"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = np.random.default_rng(0).standard_normal((4000, 64))
        gz.ingest(tmp_path / "t", edges=edges, features={"x": x}, dtype={"x": "int8"})


@pytest.mark.parametrize("stored", SMALL)
@pytest.mark.parametrize("shape", [(0, 4), (N, 0)])
def test_no_rows_and_rows_without_values(stored, shape, tmp_path):
    none = np.zeros((2, 0), np.int64)
    gz.ingest(tmp_path / "s", edges=none, features={"x": np.zeros(shape)}, dtype={"x": stored})
    found = column(tmp_path / "s")
    assert (found.shape, found.dtype, found.stored) == (shape, "float32", stored)
    assert found.get_tensor().shape == found.gather(np.arange(shape[0])).shape == shape
    assert sound(tmp_path / "s")


# ---- again, and out ----


def test_another_dtype_is_another_column_for_an_ingest_that_goes_on(x, edges, tmp_path, monkeypatch):
    """Killed after the columns: what is finished is used again for the same dtype, and only for that."""
    np.save(tmp_path / "x.npy", x)
    bad = tmp_path / "e.csv"

    def attempt(stored: str) -> None:
        bad.write_text("src,dst\n0,1\n0,zero\n")
        with pytest.raises(gz.InputError, match="zero"):
            gz.ingest(tmp_path / "s", edges=bad, features={"x": tmp_path / "x.npy"}, dtype={"x": stored})

    attempt("int8")
    attempt("float16")
    bad.write_text("src,dst\n0,1\n0,0\n")
    with pytest.warns(RuntimeWarning, match="feature 'x'"):
        gz.ingest(tmp_path / "s", edges=bad, features={"x": tmp_path / "x.npy"}, dtype={"x": "float16"})
    assert near(column(tmp_path / "s").get_tensor(), x, "float16")


@pytest.mark.parametrize("stored", SMALL)
def test_exports_hold_what_is_read(stored, x, edges, tmp_path):
    attr = np.random.default_rng(0).standard_normal((E, 3)).astype(np.float32)
    gz.ingest(
        tmp_path / "s",
        edges=edges,
        features={"x": x},
        edge_features={"attr": attr},
        num_nodes=N,
        dtype={"x": stored, "attr": stored},
    )
    store = gz.open(tmp_path / "s")
    for format in ("npy", "parquet"):
        gz.export(tmp_path / "s", tmp_path / format, format)
        gz.ingest(tmp_path / "again", spec=tmp_path / format / "graph.toml", overwrite=True)
        again = gz.open(tmp_path / "again")
        np.testing.assert_array_equal(again.feature("x").get_tensor(), store.feature("x").get_tensor())
        assert again.feature("x").dtype == "float32"
        mine, theirs = (s.edge_feature("attr")[np.argsort(s.graph().edge_ids)] for s in (store, again))
        np.testing.assert_array_equal(mine, theirs)


def test_every_dtype_can_be_asked_for(edges, tmp_path):
    """Of whole numbers each kind is what it was asked to be, or float32 where it is stored smaller."""
    x = np.arange(N * 2).reshape(N, 2) % 2
    dtype = {k: k for k in STORABLE}
    gz.ingest(tmp_path / "s", edges=edges, features=dict.fromkeys(STORABLE, x), num_nodes=N, dtype=dtype)
    for kind in STORABLE:
        found = column(tmp_path / "s", kind)
        assert found.stored == kind
        np.testing.assert_array_equal(found.get_tensor(), x)
