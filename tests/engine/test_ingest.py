"""gz.ingest: every form of input, the options, and what is left behind when it goes wrong."""

import gzip
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gz._engine import InputError
from ingest_reference import read_gd, read_gl

from gz import manifest
from gz._ingest import ingest
from gz._sizes import parse_memory

N, E = 50, 400
RNG = np.random.default_rng(7)
SRC, DST = RNG.integers(0, N, E), RNG.integers(0, N, E)
SRC[0], DST[1] = N - 1, N - 1
ORDER = np.lexsort((np.arange(E), SRC, DST))
IN = "edges/node__to__node/in.gl"


def text(delimiter=",", header="src,dst\n", end="\n"):
    return header + end.join(f"{s}{delimiter}{d}" for s, d in zip(SRC, DST, strict=True)) + end


def make(tmp_path, form):
    """Edges in the named form; files go to tmp_path."""
    p = tmp_path / "edges"

    def write(suffix, content):
        path = p.with_suffix(suffix)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    table = pa.table({"src": SRC, "dst": DST})
    match form:
        case "tuple":
            return SRC, DST
        case "int32":
            return SRC.astype(np.int32), DST.astype(np.uint8)
        case "lists":
            return SRC.tolist(), DST.tolist()
        case "2xE":
            return np.stack([SRC, DST])
        case "Ex2":
            return np.c_[SRC, DST]
        case "dict":
            return {"target": DST, "source": SRC}
        case "iterator":
            return iter([(SRC[:100], DST[:100]), (SRC[100:101], DST[100:101]), (SRC[101:], DST[101:])])
        case "iterator of dicts":
            return ({"dst": DST[i : i + 9], "src": SRC[i : i + 9]} for i in range(0, E, 9))
        case "csv":
            return write(".csv", text())
        case "csv without header":
            return write(".csv", text(header=""))
        case "csv with swapped columns":
            return write(".csv", "dst,src\n" + "".join(f"{d},{s}\n" for s, d in zip(SRC, DST, strict=True)))
        case "tsv":
            return write(".tsv", text("\t", "src\tdst\n"))
        case "semicolons":
            return write(".csv", text(";", "src;dst\n"))
        case "blanks":
            return write(".txt", text("  ", ""))
        case "crlf, comments, blank lines, no last newline":
            return write(
                ".csv", "# made by hand\r\n\r\n" + text(", ", "src,dst\r\n", "\r\n \r\n# c\r\n").rstrip()
            )
        case "bom":
            return write(".csv", "\ufeff" + text())
        case "quoted":
            return write(".csv", text('","', '"src","dst"\n', '"\n"')[:-1].replace('"dst"\n', '"dst"\n"'))
        case "csv.gz":
            return write(".csv.gz", gzip.compress(text().encode()))
        case "csv.zst":
            path = p.with_suffix(".csv.zst")
            with pa.CompressedOutputStream(str(path), "zstd") as f:
                f.write(text().encode())
            return path
        case "list of csv":
            a = tmp_path / "a.csv"
            b = tmp_path / "b.csv"
            lines = text(header="").splitlines(keepends=True)
            a.write_text("src,dst\n" + "".join(lines[:150]))
            b.write_text("src,dst\n" + "".join(lines[150:]))
            return [a, b]
        case "npy 2xE" | "npy Ex2" | "npy fortran":
            a = np.stack([SRC, DST]) if "2xE" in form else np.c_[SRC, DST]
            np.save(p.with_suffix(".npy"), np.asfortranarray(a) if "fortran" in form else a)
            return p.with_suffix(".npy")
        case "npz edge_index":
            np.savez(p.with_suffix(".npz"), edge_index=np.stack([SRC, DST]), other=np.zeros(3))
            return p.with_suffix(".npz")
        case "npz deflated":
            np.savez_compressed(p.with_suffix(".npz"), src=SRC, dst=DST)
            return p.with_suffix(".npz")
        case "npz member":
            np.savez_compressed(p.with_suffix(".npz"), a=np.stack([SRC, DST]), b=np.zeros(3))
            return f"{p.with_suffix('.npz')}:a"
        case "parquet":
            pq.write_table(table, p.with_suffix(".parquet"), row_group_size=70)
            return p.with_suffix(".parquet")
        case "parquet folder":
            folder = tmp_path / "lake"
            (folder / "part=1").mkdir(parents=True)
            pq.write_table(table.slice(0, 33), folder / "part=1" / "a.parquet")
            pq.write_table(table.slice(33), folder / "part=1" / "b.parquet")
            return folder
        case "torch":
            torch = pytest.importorskip("torch")
            return torch.tensor(SRC), torch.tensor(DST)
    raise AssertionError(form)


FORMS = [
    "tuple",
    "int32",
    "lists",
    "2xE",
    "Ex2",
    "dict",
    "iterator",
    "iterator of dicts",
    "csv",
    "csv without header",
    "csv with swapped columns",
    "tsv",
    "semicolons",
    "blanks",
    "crlf, comments, blank lines, no last newline",
    "bom",
    "quoted",
    "csv.gz",
    "csv.zst",
    "list of csv",
    "npy 2xE",
    "npy Ex2",
    "npy fortran",
    "npz edge_index",
    "npz deflated",
    "npz member",
    "parquet",
    "parquet folder",
    "torch",
]


@pytest.mark.parametrize("form", FORMS)
def test_edges_in_any_form_give_the_same_topology(tmp_path, form):
    report = ingest(tmp_path / "s", make(tmp_path, form))
    gl = read_gl(tmp_path / "s" / IN)
    np.testing.assert_array_equal(gl.indices, SRC[ORDER])
    np.testing.assert_array_equal(np.diff(gl.indptr.astype(int)), np.bincount(DST, minlength=N))
    assert report.num_nodes == {"node": N}
    assert "400 edges" in str(report)
    assert os.fspath(report) == str(tmp_path / "s")


@pytest.mark.parametrize("form", ["tuple", "csv", "csv.gz", "npy 2xE", "parquet", "iterator"])
def test_separate_edge_features_follow_their_edges(tmp_path, form):
    wide = RNG.random((E, 3), np.float32)
    ingest(tmp_path / "s", make(tmp_path, form), edge_features={"a/b": np.arange(E), "w": wide}, memory="1MB")
    m = manifest.read(tmp_path / "s")
    gl = read_gl(tmp_path / "s" / IN)
    np.testing.assert_array_equal(gl.edge_ids, ORDER)
    np.testing.assert_array_equal(gl.positions[ORDER], np.arange(E))
    np.testing.assert_array_equal(read_gd(m.edges[0].columns["a/b"].path(tmp_path / "s")), ORDER)
    np.testing.assert_array_equal(read_gd(m.edges[0].columns["w"].path(tmp_path / "s")), wide[ORDER])
    assert m.edges[0].edge_ids == "original"


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_further_columns_become_edge_columns(tmp_path, form):
    w, k = RNG.random(E), RNG.integers(-5, 5, E)
    if form == "csv":
        path = tmp_path / "e.csv"
        path.write_text(
            "src,dst,w,k\n"
            + "".join(f"{s},{d},{x!r},{y}\n" for s, d, x, y in zip(SRC, DST, w.tolist(), k, strict=True))
        )
    else:
        path = tmp_path / "e.parquet"
        pq.write_table(pa.table({"src": SRC, "dst": DST, "w": w.astype("f4"), "k": k}), path)
    ingest(tmp_path / "s", path, weight="w", directions="both")
    m = manifest.read(tmp_path / "s").edges[0]
    np.testing.assert_array_equal(read_gd(m.columns["k"].path(tmp_path / "s")), k[ORDER])
    np.testing.assert_array_equal(read_gd(m.columns["w"].path(tmp_path / "s")), w.astype("f4")[ORDER])
    gl, out = read_gl(tmp_path / "s" / IN), read_gl(tmp_path / "s" / m.out_file)
    np.testing.assert_array_equal(gl.weights, w.astype("f4")[ORDER])
    np.testing.assert_array_equal(out.weights, gl.weights[out.edge_ids])
    assert out.flags == 3


def test_the_out_topology_points_into_the_in_topology(tmp_path):
    ingest(tmp_path / "s", (SRC, DST), directions="both", memory="1MB")
    gl, out = read_gl(tmp_path / "s" / IN), read_gl(tmp_path / "s/edges/node__to__node/out.gl")
    order = np.lexsort((DST, SRC))
    assert out.out
    assert out.pairs() == list(zip(SRC[order].tolist(), DST[order].tolist(), strict=True))
    owner = np.repeat(np.arange(N), np.diff(gl.indptr.astype(int)))
    np.testing.assert_array_equal(owner[out.edge_ids], out.indices)
    np.testing.assert_array_equal(np.sort(out.edge_ids), np.arange(E))


def test_features_in_any_form(tmp_path):
    x = RNG.random((N, 4), np.float32)
    y = RNG.integers(0, 9, N)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "all.npz", x=x, y=y)
    np.savetxt(tmp_path / "x.csv", x, "%.9g", ",", header="a,b,c,d", comments="")
    pq.write_table(
        pa.table({"x": pa.FixedSizeListArray.from_arrays(x.ravel(), 4), "y": y}), tmp_path / "n.parquet"
    )
    features = {
        "array": x,
        "npy": tmp_path / "x.npy",
        "npz": f"{tmp_path}/all.npz:x",
        "csv": tmp_path / "x.csv",
        "parquet": {"file": tmp_path / "n.parquet", "columns": ["x"]},
        "chunks": (x[i : i + 7] for i in range(0, N, 7)),
        "y": {"file": tmp_path / "n.parquet", "columns": ["y"]},
        "b": {"file": tmp_path / "x.csv", "columns": ["b"], "dtype": "float64"},
        "mask": y > 4,
        "half": x.astype(np.float16),
        "u16": y.astype(np.uint16),
    }
    ingest(tmp_path / "s", (SRC, DST), features, splits={"train": np.array([3, 1]), "test": y > 4})
    node = manifest.read(tmp_path / "s").nodes["node"]
    for name in ("array", "npy", "npz", "csv", "parquet", "chunks"):
        np.testing.assert_array_equal(read_gd(node.columns[name].path(tmp_path / "s")), x)
    assert read_gd(node.columns["y"].path(tmp_path / "s")).tolist() == y.tolist()
    np.testing.assert_allclose(read_gd(node.columns["b"].path(tmp_path / "s")), x[:, 1], rtol=1e-7)
    assert read_gd(node.columns["mask"].path(tmp_path / "s")).tolist() == (y > 4).tolist()
    assert read_gd(node.columns["half"].path(tmp_path / "s")).dtype == np.float16
    assert read_gd(node.columns["u16"].path(tmp_path / "s")).tolist() == y.tolist()
    assert read_gd(node.splits["train"].path(tmp_path / "s")).tolist() == [3, 1]
    assert read_gd(node.splits["test"].path(tmp_path / "s")).tolist() == np.flatnonzero(y > 4).tolist()


def test_npy_features_can_be_adopted_where_they_lie(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((N, 4), np.float32))
    ingest(tmp_path / "s", (SRC, DST), {"x": tmp_path / "x.npy"}, adopt=True)
    assert manifest.read(tmp_path / "s").nodes["node"].columns["x"].npy == str(tmp_path / "x.npy")
    np.save(tmp_path / "f.npy", np.asfortranarray(np.zeros((N, 4))))
    with pytest.raises(InputError, match="cannot be adopted"):
        ingest(tmp_path / "t", (SRC, DST), {"x": tmp_path / "f.npy"}, adopt=True)


def test_a_heterogeneous_spec_as_toml_and_as_dict(tmp_path):
    (tmp_path / "w.csv").write_text("author,paper\n0,1\n1,0\n1,2\n")
    np.save(tmp_path / "x.npy", np.ones((3, 2), np.float32))
    np.save(tmp_path / "c.npy", np.array([[0, 1], [2, 2]]))
    (tmp_path / "g.toml").write_text(
        textwrap.dedent("""
        [nodes.paper]
        features.x = "x.npy"
        splits.train = "t.npy"
        [nodes.author]
        num_nodes = 5
        [[edges]]
        type = ["author", "writes", "paper"]
        file = "w.csv"
        [[edges]]
        type = ["paper", "cites", "paper"]
        file = "c.npy"
        undirected = true
        """)
    )
    np.save(tmp_path / "t.npy", np.array([2]))
    ingest(tmp_path / "s", spec=tmp_path / "g.toml")
    ingest(
        tmp_path / "d",
        spec={
            "nodes": {
                "paper": {"features": {"x": np.ones((3, 2), np.float32)}, "splits": {"train": [2]}},
                "author": {"num_nodes": 5},
            },
            "edges": {
                ("author", "writes", "paper"): (np.array([0, 1, 1]), np.array([1, 0, 2])),
                ("paper", "cites", "paper"): {"edges": np.array([[0, 1], [2, 2]]), "undirected": True},
            },
        },
    )
    for root in (tmp_path / "s", tmp_path / "d"):
        m = manifest.read(root)
        assert not m.homogeneous
        assert {t: n.num_nodes for t, n in m.nodes.items()} == {"paper": 3, "author": 5}
        writes = read_gl(root / m.edge(("author", "writes", "paper")).in_file)
        assert writes.pairs() == [(0, 1), (1, 0), (2, 1)]
        assert (writes.num_nodes, writes.num_other) == (3, 5)
        assert read_gl(root / m.edge(("paper", "cites", "paper")).in_file).pairs() == [
            (0, 2),
            (1, 2),
            (2, 0),
            (2, 1),
        ]
    assert (tmp_path / "s/edges/author__writes__paper/in.gl").read_bytes() == (
        tmp_path / "d/edges/author__writes__paper/in.gl"
    ).read_bytes()


def test_undirected_is_idempotent(tmp_path):
    ingest(tmp_path / "a", (SRC, DST), undirected=True, num_nodes=N)
    pairs = np.array(read_gl(tmp_path / "a" / IN).pairs())
    ingest(tmp_path / "b", (pairs[:, 1], pairs[:, 0]), undirected=True, num_nodes=N)
    assert (tmp_path / "a" / IN).read_bytes() == (tmp_path / "b" / IN).read_bytes()


BAD_TEXT = [
    ("0,1\n2,x\n", r"e\.csv, line 2: column 2: 'x' is not an integer id"),
    ("src,dst\n0,1\n\n# c\n2,\n", r"e\.csv, line 5: column 'dst': the id is empty"),
    ("0,1\n2\n", r"e\.csv, line 2: has 1 fields, expected 2: '2'"),
    ("0,1\n2,3,4\n", r"e\.csv, line 2: has 3 fields, expected 2: '2,3,4'"),
    ("0,1\n-2,3\n", r"e\.csv, line 2: column 1: '-2' is negative"),
    ("0,1\n2,1.0\n", r"e\.csv, line 2: column 2: '1.0' is not an integer id"),
    ("0,1\nnan,1\n", r"e\.csv, line 2: column 1: 'nan' is not an integer id"),
    (
        "0,1\n99999999999999999999,1\n",
        r"line 2: column 1: '99999999999999999999' does not fit a 64-bit integer",
    ),
    ("0,1\n7,50\n", r"e\.csv, line 2: column 2: '50' is out of range: there are 50 nodes, ids are 0 to 49"),
    ("0,1\n4294967296,1\n", r"line 2: column 1: '4294967296' is out of range"),
    ("0,1,2.5\n1,2,abc\n", r"line 2: column 3: 'abc' is not a number"),
]


@pytest.mark.parametrize(("content", "message"), BAD_TEXT)
@pytest.mark.parametrize("packed", [False, True])
def test_a_bad_line_is_named_and_nothing_is_left(tmp_path, content, message, packed):
    path = tmp_path / ("e.csv.gz" if packed else "e.csv")
    path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    with pytest.raises(InputError, match=message.replace(r"e\.csv,", r"e\.csv\.gz,") if packed else message):
        ingest(tmp_path / "s", path, num_nodes=50)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(("content", "message"), BAD_TEXT)
def test_bad_lines_can_be_skipped_and_are_counted(tmp_path, content, message):
    path = tmp_path / "e.csv"
    path.write_text(content)
    report = ingest(tmp_path / "s", path, num_nodes=50, on_bad_line="skip")
    assert report.skipped_lines == 1
    assert report.num_edges[manifest.EDGE_TYPE] == 1
    assert "skipped 1 bad lines" in str(report)


def test_line_numbers_are_exact_far_into_a_file(tmp_path):
    path = tmp_path / "e.csv"
    lines = ["1,2"] * 300_000
    lines[123_456] = "1;2"
    path.write_text("src,dst\n" + "\n".join(lines))
    with pytest.raises(InputError, match=r"line 123458: "):
        ingest(tmp_path / "s", path, memory="2MB")


@pytest.mark.parametrize("weight", ["-1", "nan", "inf", "1e60"])
def test_a_weight_that_cannot_be_is_an_error(tmp_path, weight):
    path = tmp_path / "e.csv"
    path.write_text(f"src,dst,w\n0,1,1\n1,0,{weight}\n")
    with pytest.raises(InputError, match=r"line 3: column 'w'"):
        ingest(tmp_path / "s", path, weight="w")
    with pytest.raises(InputError, match=r"row 1: .* cannot be a weight"):
        ingest(
            tmp_path / "s",
            (np.array([0, 1]), np.array([1, 0])),
            edge_features={"w": np.array([1.0, float(weight)])},
            weight="w",
        )


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"edges": (np.array([0, -3]), np.array([1, 1]))}, "edges, row 1: source id -3 is negative"),
        (
            {"edges": (np.array([0, 9]), np.array([1, 1])), "num_nodes": 9},
            "row 1: source id 9 is out of range: there are 9 nodes",
        ),
        ({"edges": (np.array([0.0]), np.array([1]))}, "source ids have dtype float64"),
        ({"edges": (np.array([np.nan]), np.array([1]))}, "row 0: source id is NaN"),
        ({"edges": (np.array([0, 1]), np.array([1]))}, "differ in length: 'src' has 2, 'dst' has 1"),
        ({"edges": np.zeros((3, 3), int)}, r"shape \(3, 3\); edges are"),
        (
            {"edges": (SRC, DST), "features": {"x": np.zeros(N - 1)}, "num_nodes": N},
            f"has {N - 1} rows, but there are {N} nodes",
        ),
        (
            {"edges": (SRC, DST), "features": {"x": np.zeros(N), "y": np.zeros(3)}},
            "feature 'y' of 'node' has 3 rows, but feature 'x' says 50",
        ),
        (
            {"edges": (SRC, DST), "features": {"x": np.zeros(N - 1)}},
            f"id {N - 1} is out of range: there are {N - 1} nodes",
        ),
        (
            {"edges": (SRC, DST), "edge_features": {"w": np.zeros(E - 1)}},
            f"has {E - 1} rows, but there are more edges",
        ),
        (
            {"edges": (SRC, DST), "edge_features": {"w": np.zeros(E + 1)}},
            f"has {E + 1} rows, but there are {E} edges",
        ),
        ({"edges": (SRC, DST), "features": {"x": np.array(["a"] * N)}}, "cannot be stored"),
        (
            {"edges": (SRC, DST), "splits": {"t": np.array([0, N])}},
            f"split 't', row 1: node {N} is out of range",
        ),
        ({"edges": (SRC, DST), "weight": "w"}, "no edge column 'w'"),
    ],
)
def test_bad_arrays_are_named_and_nothing_is_left(tmp_path, kwargs, message):
    with pytest.raises(InputError, match=message):
        ingest(tmp_path / "s", **kwargs)
    assert os.listdir(tmp_path) == []


def test_truncated_and_wrong_files_are_named(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((N, 4)))
    with open(tmp_path / "x.npy", "r+b") as f:
        f.truncate(500)
    (tmp_path / "e.npz").write_bytes(b"PK nonsense")
    (tmp_path / "e.parquet").write_bytes(b"PAR1 nonsense")
    (tmp_path / "e.csv.gz").write_bytes(gzip.compress(text().encode())[:100])
    with pytest.raises(InputError, match=r"x\.npy: is 500 bytes long"):
        ingest(tmp_path / "s", (SRC, DST), {"x": tmp_path / "x.npy"})
    for name in ("e.npz", "e.parquet", "e.csv.gz"):
        with pytest.raises(InputError, match=name):
            ingest(tmp_path / "s", tmp_path / name)
    with pytest.raises(FileNotFoundError, match="missing"):
        ingest(tmp_path / "s", tmp_path / "missing.csv")
    assert not [f for f in os.listdir(tmp_path) if f.startswith("s")]


def test_an_existing_store_is_kept_unless_overwritten(tmp_path):
    ingest(tmp_path / "s", (SRC, DST))
    with pytest.raises(FileExistsError, match="overwrite=True"):
        ingest(tmp_path / "s", (SRC, DST))
    with pytest.raises(InputError):
        ingest(tmp_path / "s", (np.array([-1]), np.array([0])), overwrite=True)
    assert read_gl(tmp_path / "s" / IN).num_edges == E
    ingest(tmp_path / "s", (SRC[:5], DST[:5]), overwrite=True)
    assert read_gl(tmp_path / "s" / IN).num_edges == 5
    assert os.listdir(tmp_path) == ["s"]


def test_options_that_cannot_be_meant(tmp_path):
    for kwargs, message in [
        ({"self_loops": "no"}, "self_loops"),
        ({"directions": "up"}, "directions"),
        ({"ids": "x"}, "ids="),
        ({"memory": "lots"}, "memory="),
        ({"num_nodes": -1}, "num_nodes"),
        ({"delimiter": ",,"}, "delimiter"),
    ]:
        (tmp_path / "e.csv").write_text("0,1\n")
        with pytest.raises(ValueError, match=message):
            ingest(tmp_path / "s", tmp_path / "e.csv", **kwargs)
    with pytest.raises(ValueError, match=r"\.gz"):
        ingest(tmp_path / "s.gz", (SRC, DST))
    with pytest.raises(ValueError, match="unknown 'nodez'"):
        ingest(tmp_path / "s", spec={"nodez": {}})


def test_memory_is_read_as_people_write_it():
    assert parse_memory("2GB") == 2 * 10**9
    assert parse_memory("512 MiB") == 512 * 2**20
    assert parse_memory("1.5g") == 15 * 10**8
    assert parse_memory(5_000_000) == 5_000_000


def test_names_become_safe_unique_files(tmp_path):
    x = np.arange(N)
    ingest(tmp_path / "s", (SRC, DST), {"../x": x, "a b": x + 1, "a/b": x + 2, "A_b": x + 3})
    columns = manifest.read(tmp_path / "s").nodes["node"].columns
    assert len({c.file.lower() for c in columns.values()}) == 4
    for i, name in enumerate(("../x", "a b", "a/b", "A_b")):
        assert read_gd(columns[name].path(tmp_path / "s")).tolist() == (x + i).tolist()


@pytest.mark.parametrize("memory", ["1MB", "8MB", "2GB"])
def test_row_groups_of_all_sizes_come_in_order(tmp_path, memory):
    import pyarrow as pa
    import pyarrow.parquet as pq

    sizes = [10, 70_000, 3, 1, 100_000, 30_000, 30_000, 0, 30_000, 90_000, 5]
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 500, (2, sum(sizes)))
    schema = pa.schema([("src", pa.int64()), ("dst", pa.int64())])
    with pq.ParquetWriter(tmp_path / "e.parquet", schema) as writer:
        at = 0
        for n in sizes:
            writer.write_table(pa.table(list(edges[:, at : at + n]), schema=schema))
            at += n
    ingest(tmp_path / "a", tmp_path / "e.parquet", keep_edge_ids=True, memory=memory)
    ingest(tmp_path / "b", edges, keep_edge_ids=True)
    assert (tmp_path / "a" / IN).read_bytes() == (tmp_path / "b" / IN).read_bytes()


@pytest.mark.parametrize("dtype", ["<i4", "<u4", "<i8", "<u8", ">i8", "<i2", "u1"])
@pytest.mark.parametrize("form", ["array", "npy"])
def test_ids_of_every_width_are_checked_on_the_way(tmp_path, dtype, form):
    edges = np.array([[0, 1, 2, 3], [4, 3, 2, 1]], dtype)

    def given(a):
        np.save(tmp_path / "e.npy", a)
        return a if form == "array" else tmp_path / "e.npy"

    ingest(tmp_path / "s", given(edges), num_nodes=5)
    ingest(tmp_path / "t", edges.astype(np.int64), num_nodes=5)
    assert (tmp_path / "s" / IN).read_bytes() == (tmp_path / "t" / IN).read_bytes()
    with pytest.raises(InputError, match=r"row 0: destination id 4 is out of range: there are 4 nodes"):
        ingest(tmp_path / "u", given(edges), num_nodes=4)
    if "i" in dtype:
        edges[0, 2] = -1
        for n in (5, None):
            with pytest.raises(InputError, match=r"row 2: source id -1 is negative"):
                ingest(tmp_path / "u", given(edges), num_nodes=n)


SCRIPT = """
import signal, sys, time, numpy as np
from gz._ingest import ingest
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
def chunks():
    for i in range(10**6):
        yield np.arange(1000), np.arange(1000)
        if i == 300: print("running", flush=True)
        if i > 300: time.sleep(0.01)
try:
    ingest(sys.argv[1], chunks(), memory="1MB")
except KeyboardInterrupt:
    sys.exit(7)
"""


def started(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "s")], stdout=subprocess.PIPE, cwd="/"
    )
    assert process.stdout.readline() == b"running\n"
    return process


def test_an_interrupt_leaves_nothing_behind(tmp_path):
    process = started(tmp_path)
    assert [f for f in os.listdir(tmp_path) if f.startswith("s.partial-")]
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 7
    assert os.listdir(tmp_path) == []


def test_after_a_kill_of_an_iterator_the_next_ingest_starts_anew_and_cleans_up(tmp_path):
    ingest(tmp_path / "s", (SRC, DST))
    before = (tmp_path / "s" / IN).read_bytes()
    os.rename(tmp_path / "s", tmp_path / "keep")
    process = started(tmp_path)
    process.kill()
    process.wait()
    left = [f for f in os.listdir(tmp_path) if f.startswith("s.partial-")]
    assert len(left) == 1
    with pytest.warns(RuntimeWarning, match="starts anew"):
        ingest(tmp_path / "s", (SRC, DST))
    assert (tmp_path / "s" / IN).read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["keep", "s"]


RSS = """
import json, resource, sys
from gz._ingest import ingest
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ingest(sys.argv[1], sys.argv[2], memory=sys.argv[3], **json.loads(sys.argv[4]))
print(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"keep_edge_ids": True, "undirected": True, "directions": "both"}, {"ids": "map"}]
)
def test_memory_stays_within_the_budget(tmp_path, options):
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 400_000, (2, 6_000_000))
    np.save(tmp_path / "e.npy", edges)
    del edges
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            RSS,
            str(tmp_path / "s"),
            str(tmp_path / "e.npy"),
            "40MB",
            json.dumps(options),
        ],
        stdout=subprocess.PIPE,
        check=True,
        cwd="/",
    )
    before, after = (int(x) * 1024 for x in run.stdout.split())
    assert after - before < 40e6 + 30e6


def test_nothing_is_said_when_stderr_is_no_terminal(tmp_path, capfd):
    ingest(tmp_path / "s", (SRC, DST))
    assert capfd.readouterr() == ("", "")


def test_a_full_disk_is_an_oserror_and_leaves_nothing(tmp_path):
    """RLIMIT_FSIZE stands in for a full disk: the write fails halfway in the same place."""
    code = (
        "import resource, signal, sys, numpy as np\nfrom gz._ingest import ingest\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n    ingest(sys.argv[1], (np.arange(200_000), np.arange(200_000)))\n"
        "except OSError as e:\n    print(e.errno, e.filename)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "s")], stdout=subprocess.PIPE, check=True, cwd="/"
    )
    assert run.stdout.split()[0] == b"27"
    assert os.listdir(tmp_path) == []


def test_progress_shows_rate_and_time_left(tmp_path, capfd):
    def slow():
        for _ in range(3):
            time.sleep(0.25)
            yield SRC, DST

    ingest(tmp_path / "s", slow(), progress=True, memory="1MB")
    assert "edges/s" in capfd.readouterr().err
