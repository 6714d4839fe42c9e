"""Tables as strangers have them: each gives the graph that pandas reads from it, or a refusal that says what
to do; never a third thing."""

from __future__ import annotations

import bz2
import gzip
import io
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from stores import edge_column, edges_of, nothing_at

import gz
from gz import InputError


def ingest(tmp_path, edges, **options):
    gz.ingest(tmp_path / "g", edges=edges, keep_edge_ids=True, **options)
    return gz.open(tmp_path / "g")


def write(tmp_path, raw, name="e.csv"):
    path = tmp_path / name
    path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    return path


@pytest.mark.parametrize(
    ("raw", "how"),
    [
        (b"\xef\xbb\xbfsrc,dst,w\n0,1,2.5\n1,2,3\n", {}),
        (b'\xef\xbb\xbf"src","dst","w"\r\n"0","1","2.5"\r\n"1","2","3"', {}),
        ("src;dst;w\n0;1;2.5\n1;2;3\n", {"sep": ";"}),
        (" src | dst | w \n 0 | 1 | 2.5 \n1|2|3", {"sep": r"\s*\|\s*", "engine": "python"}),
        ("src,dst,w,\n0,1,2.5,\n1,2,3,\n", {"usecols": [0, 1, 2]}),
        (",src,dst,w\n0,5,6,nan\n1,6,7,-inf\n", {"index_col": 0}),
        ("src\tdst\tw\n0\t1\t1e-3\n1\t2\t1e300\n", {"sep": "\t"}),
    ],
)
@pytest.mark.parametrize("pack", [None, "gz", "bz2", "zst"])
def test_the_graph_is_the_one_pandas_reads(tmp_path, raw, how, pack):
    raw = raw if isinstance(raw, bytes) else raw.encode()
    frame = pd.read_csv(io.BytesIO(raw), encoding="utf-8-sig", **how)
    frame.columns = frame.columns.str.strip()
    packers = {
        None: bytes,
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "zst": lambda r: pa.compress(r, codec="zstd", asbytes=True),
    }
    store = ingest(tmp_path, write(tmp_path, packers[pack](raw), f"e.csv.{pack}" if pack else "e.csv"))
    assert edges_of(store).tolist() == frame[["src", "dst"]].T.to_numpy().astype(int).tolist()
    np.testing.assert_array_equal(edge_column(store, "w"), frame["w"].astype(float))


@pytest.mark.parametrize("end", ["\r", "\r\r\n"])
@pytest.mark.parametrize("options", [{}, {"ids": "text", "header": False}, {"ids": "text", "header": True}])
def test_lines_that_end_in_cr_alone_are_no_ids(tmp_path, end, options):
    """They were one line, and two ids with a line end between them one id."""
    path = write(tmp_path, end.join(["src,dst", "a,b", "b,c", ""]))
    if end == "\r\r\n" and not options:
        pytest.skip("these are no integers in any case")
    with pytest.raises(InputError, match=r"holds a carriage return .*convert the file"):
        ingest(tmp_path, path, **options)


def test_a_carriage_return_past_the_first_lines(tmp_path):
    path = write(tmp_path, "src,dst\n" + "a,b\n" * 100_000 + "c\rd,e\n")
    with pytest.raises(InputError, match="line 100002: holds a carriage return"):
        ingest(tmp_path, path, ids="text")
    path = write(tmp_path, 'src,dst\n"c\rd",e\n')  # in quotes it is part of the name, as for pandas
    assert ingest(tmp_path, path, ids="text").id_map().to_original([0]) == ["c\rd"]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (b"PAR1\x15\0", "a Parquet file.*suffix .parquet"),
        (gzip.compress(b"src,dst\n0,1\n"), "gzip.*suffix .gz"),
        (bz2.compress(b"src,dst\n0,1\n"), "bzip2.*suffix .bz2"),
        (pa.compress(b"src,dst\n0,1\n", codec="zstd", asbytes=True), "zstd.*suffix .zst"),
        (b"\xfd7zXZ\0\0", "xz.*unxz"),
        (b"PK\x03\x04\x14\0", "zip archive.*unpack it"),
        ("src,dst\n0,1\n".encode("utf-16"), "UTF-16.*iconv"),
        (b'{"src": 0, "dst": 1}\n{"src": 1, "dst": 2}\n', "JSON.*read_json"),
        (b'[\n {"src": 0, "dst": 1}\n]\n', "JSON"),
        (b'[{"src": 0, "dst": 1}]', "JSON"),
        (b"<!DOCTYPE html>\n<html>404, not found</html>", "HTML or XML"),
        (b"%%MatrixMarket matrix coordinate\n3 3 1\n1 2\n", "scipy.io.mmread"),
        (b"SQLite format 3\0", "read_sql"),
    ],
)
def test_what_is_no_text_table_is_named(tmp_path, table, says):
    for options in ({}, {"ids": "text", "header": False}):
        with pytest.raises(InputError, match=f"e.csv: is .*{says}"):
            ingest(tmp_path, write(tmp_path, table), **options)
    assert nothing_at(tmp_path / "g")


@pytest.mark.parametrize("kind", ["feather", "orc", "parquet"])
def test_tables_of_other_kinds_under_the_wrong_name(tmp_path, kind):
    table = pa.table({"src": [0, 1], "dst": [1, 2]})
    path = tmp_path / "e.csv"
    {
        "feather": pyarrow.feather.write_feather,
        "orc": pyarrow.orc.write_table,
        "parquet": pq.write_table,
    }[kind](table, str(path))
    with pytest.raises(InputError, match=f"(?i)is an? .*{kind}"):
        ingest(tmp_path, path)


@pytest.mark.parametrize(
    "text", ["PARIS,b\nORC,BZh\n", "ORC,b\nc,d\n", "<http://a>,{b}\n{c,[d\n", "BZh,a\n[b],{c}\n"]
)
def test_names_that_begin_as_other_formats_do_are_names(tmp_path, text):
    store = ingest(tmp_path, write(tmp_path, text), ids="text", header=False)
    ids = store.id_map()
    src, dst = (ids.to_original(e) for e in edges_of(store))
    assert [f"{a},{b}" for a, b in zip(src, dst, strict=True)] == text.split()


@pytest.mark.parametrize("values", [["2,5", "-3,25"], ["1,234", "2,345,678.5"], ["1.234,5", "1,5"]])
def test_numbers_with_commas_are_text_with_a_word(tmp_path, values):
    path = write(tmp_path, "src;dst;w\n" + "".join(f"{i};{i + 1};{v}\n" for i, v in enumerate(values)))
    with pytest.warns(RuntimeWarning, match=r"column 'w' holds .*kept as text .*decimal="):
        store = ingest(tmp_path, path)
    assert store.categories("w", ("node", "to", "node")) == values
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ingest(tmp_path, path, columns={"w": "text"}, overwrite=True)
        frame = pd.read_csv(path, sep=";", decimal=",", thousands=".")
        ingest(tmp_path, frame, overwrite=True)


@pytest.mark.parametrize(
    ("edges", "options", "says"),
    [
        ("src,dst,w\n0,1,2\n1,2,\n", {"nulls": {"w": 1.5}}, "1.5 cannot stand for a null in int64"),
        ("src,dst,w\n0,1,2\n", {"nulls": {"typo": 1}}, "nulls: no table has a column 'typo'; there are w"),
        ("src,dst,w\n0,1,2\n", {"drop": "src"}, r"'src' holds the ends of edges; ends="),
        ("src,dst,w\n0,1,a\n", {"weight": "w"}, "'a' is not a number, as a weight must be"),
        ("src,dst\n0,\n", {}, r"the id is empty; .*--on-bad-line skip"),
        ("src,dst\n0,1,2\n", {}, r"has 3 fields, expected 2: '0,1,2'; .*--on-bad-line skip"),
        ("src,dst\n9223372036854775808,1\n", {"ids": "map"}, r'does not fit .*ids="text"'),
        ('src,dst,t\n0,1,"a\nb"\n', {}, "over several lines, give the frame"),
        (pa.table({"src": [0.0], "dst": [1]}), {}, r'\(row 0 is 0.0\); .*cast them \(.astype\("int64"\)\)'),
        (pa.table({"src": pa.array([0], pa.date32()), "dst": [1]}), {}, "'src' is date32.*cast it"),
        (
            pa.table({"src": pa.array([0], pa.timestamp("s")), "dst": [1]}),
            {"ids": "map"},
            "timestamp.*cast it",
        ),
        (pa.table({"src": [b"\xff"], "dst": ["a"]}), {"ids": "map"}, "no UTF-8 text; make text of them"),
        ((np.array([1 << 63], np.uint64), [0]), {"ids": "int"}, r'make text of them \(.astype\("str"\)\)'),
    ],
)
def test_refusals_say_what_to_do(tmp_path, edges, options, says):
    edges = write(tmp_path, edges) if isinstance(edges, str) else edges
    with pytest.raises(InputError, match=f"(?s){says}"):
        ingest(tmp_path, edges, **options)


def test_wrong_arguments(tmp_path):
    path = write(tmp_path, "src,dst\n0,1\n")
    for options in ({"ends": ["src", "src"]}, {"num_nodes": 3.7}, {"num_nodes": "9"}, {"num_nodes": -1}):
        with pytest.raises(ValueError, match=next(iter(options))):
            ingest(tmp_path, path, **options)
    with pytest.raises(TypeError, match=r"LazyFrame; give .*\.collect\(\)"):
        ingest(tmp_path, pl.LazyFrame({"src": [0], "dst": [1]}))
    with pytest.raises(InputError, match=r"write \[\[edges\]\], with two brackets"):
        gz.ingest(tmp_path / "g", spec={"edges": {"type": ["a", "b", "c"], "file": str(path)}})


def test_a_skipped_line_is_not_told_how_to_skip_it(tmp_path):
    path = write(tmp_path, "src,dst\n0,1\n,2\n")
    report = gz.ingest(tmp_path / "g", edges=path, on_bad_line="skip")
    assert report.first_skipped == f"{path}, line 3: column 'src': the id is empty"


def test_a_date_may_be_written_for_a_null(tmp_path):
    path = write(tmp_path, "src,dst,d\n0,1,2020-01-02\n1,2,\n")
    store = ingest(tmp_path, path, nulls={"d": "2020-01-01"})
    assert edge_column(store, "d").tolist() == [18263, 18262]


def test_rows_of_features_that_have_ids_are_not_taken_by_place_without_a_word(tmp_path):
    table = write(tmp_path, "id,b\n2,5\n1,6\n0,7\n", "x.csv")
    with pytest.warns(RuntimeWarning, match=r"row i is taken for node i.*(?s:.)*--nodes FILE:id"):
        ingest(tmp_path, ([0, 1], [1, 2]), features={"x": str(table)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = {"x": {"file": str(table), "columns": ["b"]}}
        ingest(tmp_path, ([0, 1], [1, 2]), features=chosen, overwrite=True)
        store = ingest(tmp_path, ([0, 1], [1, 2]), nodes=f"{table}:id", overwrite=True)
    assert store.id_map().to_original([0]).tolist() == [2]
