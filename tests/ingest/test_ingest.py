"""gz.ingest: every form of input gives the same store."""

import gzip
import os
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingest_edges import DST, IN, ORDER, RNG, SRC, E, N, text
from ingest_reference import read_gd, read_gl

from gz import manifest
from gz._engine import InputError
from gz._ingest import ingest


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
        "csv": {"file": tmp_path / "x.csv", "dtype": "float32"},
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
