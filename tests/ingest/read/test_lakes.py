"""Partitioned Parquet folders, CSV folders, many files per edge type, files elsewhere."""

from __future__ import annotations

import gzip
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from stores import edge_column, edges_of, same

import gz

N, E = 60, 500
RNG = np.random.default_rng(8)
SRC, DST = RNG.integers(0, N, E), RNG.integers(0, N, E)
YEAR, COUNTRY = RNG.integers(2008, 2013, E), RNG.choice(["de", "fr"], E)
TABLE = pa.table({"src": SRC, "dst": DST, "w": np.arange(E) / 2, "year": YEAR, "country": COUNTRY})


def rows(*columns):
    return sorted(zip(*(np.asarray(c).tolist() for c in columns), strict=True))


def hive(folder, table, *keys):
    pq.write_to_dataset(table, folder, partition_cols=list(keys))
    (folder / "_SUCCESS").write_text("")
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log" / "0.json").write_text("{}")


def test_a_partition_becomes_an_edge_column(tmp_path):
    """pyarrow's reading of the same folder has the same rows."""
    hive(tmp_path / "lake", TABLE.drop_columns("country"), "year")
    store = gz.open(gz.ingest(tmp_path / "s", edges=tmp_path / "lake", num_nodes=N))
    assert sorted(store.edge_columns()) == ["w", "year"]
    theirs = pyarrow.dataset.dataset(tmp_path / "lake", partitioning="hive").to_table()
    e = edges_of(store)
    ours = rows(*e, edge_column(store, "w"), edge_column(store, "year"))
    assert ours == rows(theirs["src"], theirs["dst"], theirs["w"], theirs["year"])


def test_a_partition_of_text_becomes_codes(tmp_path):
    hive(tmp_path / "lake", TABLE.drop_columns("w"), "country", "year")
    store = gz.open(gz.ingest(tmp_path / "s", edges=tmp_path / "lake", num_nodes=N))
    assert store.edge_columns() == ["country", "year"]
    names = np.array(store.categories("country", ("node", "to", "node")))
    codes = edge_column(store, "country")
    ours = rows(*edges_of(store), names[codes], edge_column(store, "year"))
    assert ours == rows(SRC, DST, COUNTRY, YEAR)
    store = gz.open(gz.ingest(tmp_path / "t", edges=tmp_path / "lake", num_nodes=N, drop="country"))
    assert store.edge_columns() == ["year"]


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        (["2010", "007"], [2010, 7]),
        (["3000000000", "-1"], [3_000_000_000, -1]),  # text, to pyarrow.dataset
        (["99999999999999999999", "1"], ["99999999999999999999", "1"]),
        (["1.5", "2"], ["1.5", "2"]),
        (["a%20b%2Fc", "d"], ["a b/c", "d"]),
        (["__HIVE_DEFAULT_PARTITION__", "4"], [-1, 4]),
        (["__HIVE_DEFAULT_PARTITION__", "d"], ["-1", "d"]),
    ],
)
def test_values_of_partitions(tmp_path, values, stored):
    for i, v in enumerate(values):
        (tmp_path / "lake" / f"k={v}").mkdir(parents=True)
        pq.write_table(pa.table({"src": [i], "dst": [i + 1]}), tmp_path / "lake" / f"k={v}" / "p.parquet")
    options = {"edges": tmp_path / "lake", "keep_edge_ids": True, "nulls": {"k": -1}}
    store = gz.open(gz.ingest(tmp_path / "s", **options))
    names, found = store.categories("k", ("node", "to", "node")), edge_column(store, "k").tolist()
    order = edges_of(store)[0].tolist()
    assert [(names[v] if names else v) for v in found] == [stored[i] for i in order]


def test_partitions_of_text_tables_are_named(tmp_path):
    (tmp_path / "csv" / "year=2010").mkdir(parents=True)
    (tmp_path / "csv" / "year=2010" / "a.csv").write_text("src,dst\n0,1\n")
    report = gz.ingest(tmp_path / "s", edges=tmp_path / "csv")
    assert "the partitions year were left out" in str(report)


def test_partitions_above_the_folder_are_not_columns(tmp_path):
    hive(tmp_path / "run=7" / "lake", TABLE.select(["src", "dst", "year"]), "year")
    store = gz.open(gz.ingest(tmp_path / "s", edges=tmp_path / "run=7" / "lake", num_nodes=N))
    assert store.edge_columns() == ["year"]
    (one,) = (tmp_path / "run=7" / "lake" / "year=2010").iterdir()
    store = gz.open(gz.ingest(tmp_path / "t", edges=one, num_nodes=N))
    assert store.edge_columns() == []


def test_a_file_outside_the_partitions(tmp_path):
    hive(tmp_path / "lake", TABLE.select(["src", "dst", "year"]), "year")
    pq.write_table(TABLE.select(["src", "dst"]), tmp_path / "lake" / "loose.parquet")
    with pytest.raises(gz.InputError, match="loose.parquet: lies outside the partitions year="):
        gz.ingest(tmp_path / "s", edges=tmp_path / "lake")
    assert not (tmp_path / "s").exists()


def test_a_partition_without_value(tmp_path):
    table = TABLE.select(["src", "dst"]).append_column("year", pa.array([None, *YEAR[1:].tolist()]))
    hive(tmp_path / "lake", table, "year")
    with pytest.raises(gz.InputError, match=r"column 'year' is null in row 0; .*--null year=VALUE"):
        gz.ingest(tmp_path / "s", edges=tmp_path / "lake")
    gz.ingest(tmp_path / "s", edges=tmp_path / "lake", drop="year")


def test_files_with_other_columns_are_refused(tmp_path):
    pq.write_table(TABLE.select(["src", "dst"]), tmp_path / "a.parquet")
    pq.write_table(TABLE.select(["src", "dst", "w"]), tmp_path / "b.parquet")
    with pytest.raises(gz.InputError, match=r"b.parquet: has columns .*'w'.*, but .*a.parquet has"):
        gz.ingest(tmp_path / "s", edges=[tmp_path / "a.parquet", tmp_path / "b.parquet"])


def test_more_files_than_a_process_may_open(tmp_path):
    (tmp_path / "lake").mkdir()
    for i in range(0, E, 2):
        pq.write_table(TABLE.select(["src", "dst"]).slice(i, 2), tmp_path / "lake" / f"part-{i:05}.parquet")
    program = (
        "import resource, sys, gz; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100));"
        "gz.ingest(sys.argv[1] + '/s', edges=sys.argv[1] + '/lake', keep_edge_ids=True, num_nodes=60)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, cwd="/")
    same(edges_of(gz.open(tmp_path / "s")), np.stack([SRC, DST]))


def csv_text(first, last):
    return "src,dst,w\n" + "".join(f"{SRC[i]},{DST[i]},{i / 2}\n" for i in range(first, last))


def test_a_folder_of_csv_files_in_sub_folders(tmp_path):
    for k, (first, last) in enumerate([(0, 100), (100, 101), (101, E)]):
        (tmp_path / "csv" / f"day{k}").mkdir(parents=True)
        raw = csv_text(first, last).encode()
        name, raw = ("p.csv.gz", gzip.compress(raw)) if k == 1 else ("p.csv", raw)
        (tmp_path / "csv" / f"day{k}" / name).write_bytes(raw)
    store = gz.open(gz.ingest(tmp_path / "s", edges=tmp_path / "csv", num_nodes=N))
    same(edges_of(store), np.stack([SRC, DST]))
    same(edge_column(store, "w"), np.arange(E) / 2)


def test_several_files_per_edge_type_in_a_spec(tmp_path):
    hive(tmp_path / "lake", TABLE.select(["src", "dst", "year"]), "year")
    pq.write_table(TABLE.select(["src", "dst"]).slice(0, 200), tmp_path / "a-0.parquet")
    pq.write_table(TABLE.select(["src", "dst"]).slice(200), tmp_path / "a-1.parquet")
    (tmp_path / "spec.toml").write_text(
        f"""
[nodes.user]
num_nodes = {N}
[[edges]]
type = ["user", "follows", "user"]
file = "a-*.parquet"
keep_edge_ids = true
[[edges]]
type = ["user", "likes", "user"]
file = "lake"
"""
    )
    store = gz.open(gz.ingest(tmp_path / "s", spec=tmp_path / "spec.toml"))
    same(edges_of(store, ("user", "follows", "user")), np.stack([SRC, DST]))
    assert store.edge_columns(("user", "likes", "user")) == ["year"]
    assert store.num_edges(("user", "likes", "user")) == E


@pytest.fixture
def elsewhere(tmp_path):
    """A filesystem that is not the local one: fsspec's, in memory."""
    fsspec = pytest.importorskip("fsspec", reason="other filesystems come through fsspec")
    fs = fsspec.filesystem("memory")
    name = f"gz-{tmp_path.name}"
    yield fs, f"memory://{name}"
    if fs.exists(f"/{name}"):
        fs.rm(f"/{name}", recursive=True)


def put(fs, url, data):
    with fs.open(url.removeprefix("memory:/"), "wb") as f:
        f.write(data)


def test_remote_parquet_folder(tmp_path, elsewhere):
    fs, url = elsewhere
    hive(tmp_path / "lake", TABLE.select(["src", "dst", "year"]), "year")
    for p in (tmp_path / "lake").rglob("*"):
        if p.is_file():
            put(fs, f"{url}/lake/{p.relative_to(tmp_path / 'lake')}", p.read_bytes())
    store = gz.open(gz.ingest(tmp_path / "s", edges=f"{url}/lake", num_nodes=N))
    assert rows(*edges_of(store), edge_column(store, "year")) == rows(SRC, DST, YEAR)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "npy"])
def test_remote_files(tmp_path, elsewhere, suffix):
    fs, url = elsewhere
    raw = csv_text(0, E).encode()
    if suffix == "npy":
        # Pairs: [2, E] has two readers, and in fsspec's memory all readers of a file share a position.
        np.save(tmp_path / "e.npy", np.c_[SRC, DST])
        raw = (tmp_path / "e.npy").read_bytes()
    put(fs, f"{url}/e.{suffix}", gzip.compress(raw) if suffix == "csv.gz" else raw)
    np.save(tmp_path / "x.npy", RNG.random((N, 3)))
    put(fs, f"{url}/x.npy", (tmp_path / "x.npy").read_bytes())
    edges, x = f"{url}/e.{suffix}", f"{url}/x.npy"
    store = gz.open(gz.ingest(tmp_path / "s", edges=edges, features={"x": x}, keep_edge_ids=True))
    same(edges_of(store), np.stack([SRC, DST]))
    same(store.feature("x").get_tensor(), np.load(tmp_path / "x.npy"))


def test_remote_files_that_are_not_there(tmp_path, elsewhere):
    _, url = elsewhere
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        gz.ingest(tmp_path / "s", edges=f"{url}/none.parquet")
    with pytest.raises(gz.InputError, match="cannot be reached"):
        gz.ingest(tmp_path / "s", edges="nosuchscheme://x/y.parquet")
    assert not (tmp_path / "s").exists()


def test_file_addresses_are_local_paths(tmp_path):
    pq.write_table(TABLE.select(["src", "dst"]), tmp_path / "a b.parquet")
    url = (tmp_path / "a b.parquet").as_uri()
    store = gz.open(gz.ingest(tmp_path / "s", edges=url, num_nodes=N, keep_edge_ids=True))
    same(edges_of(store), np.stack([SRC, DST]))


@pytest.mark.parametrize("dictionary", [False, True])
def test_text_where_dense_ids_are_expected_is_named(dictionary, tmp_path):
    column = pa.array(["a", "b"])
    src = column.dictionary_encode() if dictionary else column
    pq.write_table(pa.table({"src": src, "dst": column}), tmp_path / "t.parquet")
    with pytest.raises(gz.InputError, match=r"t.parquet.*, row 0: column 'src' holds text .*--ids map"):
        gz.ingest(tmp_path / "s", edges=tmp_path / "t.parquet")
    gz.ingest(tmp_path / "s", edges=tmp_path / "t.parquet", ids="map")
