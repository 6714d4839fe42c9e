"""gz.ingest: input that is wrong is named and leaves nothing; options, names, existing stores."""

import gzip
import os

import numpy as np
import pytest
from ingest_edges import DST, IN, SRC, E, N, text
from ingest_reference import read_gd, read_gl
from stores import nothing_but_phases

from gz import manifest
from gz._base.sizes import parse_memory
from gz._engine import InputError
from gz._ingest import ingest

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
            "^feature 'y' of 'node': has 3 rows, but feature 'x' says 50",
        ),
        (
            {"edges": (SRC, DST), "features": {"x": np.zeros(N - 1)}},
            f"^feature 'x' of 'node': has {N - 1} rows, but the edges name more nodes: .* id {N - 1} is",
        ),
        (
            {"edges": (SRC, DST), "edge_features": {"w": np.zeros(E - 1)}},
            f"^feature 'w': has {E - 1} rows, but there are {E} edges",
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
def test_bad_arrays_are_named_and_nothing_is_left_but_finished_phases(tmp_path, kwargs, message):
    with pytest.raises(InputError, match=message) as caught:
        ingest(tmp_path / "s", **kwargs)
    assert nothing_but_phases(tmp_path / "s", "".join(getattr(caught.value, "__notes__", ())))


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


def test_a_single_value_is_no_column(tmp_path):
    with pytest.raises(InputError, match="column 'x' is a single value, 3, not one for each row"):
        ingest(tmp_path / "s", (SRC, DST), {"x": np.array(3)})
    assert not (tmp_path / "s").exists()
