"""`columns` are those to keep, `ends` the two that are the ends of an edge, in Python, specs and commands;
the names they had before still work, and say so."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pytest
from stores import edge_column, edges_of

import gz
from gz import InputError

EDGES = "src,dst,w,t\n0,1,5,7\n1,2,6,8\n"
USERS = "id,age,w\n0,30,1\n1,40,2\n2,50,3\n"


@pytest.fixture(params=["csv", "arrow"])
def table(request, tmp_path):
    def make(text):
        if request.param == "csv":
            path = tmp_path / f"t{abs(hash(text))}.csv"
            path.write_text(text)
            return str(path)
        names, *rows = [line.split(",") for line in text.split()]
        columns = {n: pa.array([r[i] for r in rows]) for i, n in enumerate(names)}
        types = {"day": pa.date32(), "w": pa.float64() if "." in text else pa.int64()}
        return pa.table({n: a.cast(types.get(n, pa.int64())) for n, a in columns.items()})

    return make


def ingest(tmp_path, *args, **options):
    gz.ingest(tmp_path / "g", *args, keep_edge_ids=True, overwrite=True, **options)
    return gz.open(tmp_path / "g")


@pytest.mark.parametrize(
    ("columns", "kept"), [(["t"], ["t"]), (["w", "t"], ["w", "t"]), ([], []), (None, ["w", "t"])]
)
def test_columns_are_those_to_keep(tmp_path, table, columns, kept):
    store = ingest(tmp_path, table(EDGES), columns=columns)
    assert sorted(store.edge_columns()) == sorted(kept)
    assert edges_of(store).tolist() == [[0, 1], [1, 2]]


def test_a_dtype_for_a_column(tmp_path, table):
    store = ingest(tmp_path, table(EDGES), columns={"w": "float32"})
    assert edge_column(store, "w").dtype == "float32"
    assert store.edge_columns() == ["w"]


def test_ends_and_columns_together(tmp_path, table):
    store = ingest(tmp_path, table(EDGES), ends=["dst", "src"], columns=["t"])
    assert edges_of(store).tolist() == [[1, 2], [0, 1]]
    assert store.edge_columns() == ["t"]


def test_a_column_that_is_not_there_is_named(tmp_path, table):
    with pytest.raises(InputError, match="no column 'typo'"):
        ingest(tmp_path, table(EDGES), columns=["typo"])
    with pytest.raises(InputError, match="columns: no table has a column 'typo'"):
        ingest(tmp_path, table(EDGES), nodes=table(USERS), columns=["age", "typo"])


def test_columns_go_for_nodes_and_edges_as_drop_does(tmp_path, table):
    store = ingest(tmp_path, table(EDGES), nodes=table(USERS), columns=["age", "t"])
    assert store.node_columns() == ["age"]
    assert store.edge_columns() == ["t"]
    store = ingest(tmp_path, table(EDGES), nodes={"file": table(USERS), "columns": ["w"]}, columns=["t"])
    assert store.node_columns() == ["w"]
    assert store.edge_columns() == ["t"]


def test_rows_of_text_ids_are_no_header_because_of_columns_of_nodes(tmp_path):
    (tmp_path / "e.csv").write_text("a,b\nb,c\n")
    (tmp_path / "n.csv").write_text("id,age\na,1\nb,2\nc,3\n")
    with pytest.raises(InputError, match="is its first line a header"):
        ingest(tmp_path, tmp_path / "e.csv", nodes=tmp_path / "n.csv", columns=["age"])


def old(match="ends="):
    return pytest.warns(DeprecationWarning, match=match)


def test_columns_that_can_only_be_the_ends_still_are(tmp_path, table):
    with old():
        store = ingest(tmp_path, table("a,b,w\n0,1,5\n"), columns=["b", "a"])
    assert edges_of(store).tolist() == [[1], [0]]
    assert store.edge_columns() == ["w"]
    with old():
        store = ingest(tmp_path, table(EDGES), columns=["dst", "src"])
    assert edges_of(store).tolist() == [[1, 2], [0, 1]]
    assert sorted(store.edge_columns()) == ["t", "w"]
    with old():
        assert edges_of(ingest(tmp_path, table(EDGES), columns=(1, 0))).tolist() == [[1, 2], [0, 1]]
    with old("edge_columns= is called columns="):
        store = ingest(tmp_path, table("a,b,w,t\n0,1,5,7\n"), columns=["b", "a"], edge_columns=["w"])
    assert edges_of(store).tolist() == [[1], [0]]
    assert store.edge_columns() == ["w"]


def test_two_columns_that_were_the_ends_once_are_not_kept_without_a_word(tmp_path, table):
    """Where src and dst are there too; both readings are shown, and each can be said."""
    text = "src,dst,a,b,w,day\n0,1,2,3,0.5,2020-01-01\n1,2,0,1,1.5,2020-01-02\n"
    both = r'(?s)src -> dst, keep a and b: ends=\["src", "dst"\].*a -> b: ends=\["a", "b"\]  \(--ends a,b\)'
    with pytest.warns(FutureWarning, match=both):
        store = ingest(tmp_path, table(text), columns=["a", "b"])
    assert (edges_of(store).tolist(), store.edge_columns()) == ([[0, 1], [1, 2]], ["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = ingest(tmp_path, table(text), ends=["src", "dst"], columns=["a", "b"])
        assert (edges_of(store).tolist(), store.edge_columns()) == ([[0, 1], [1, 2]], ["a", "b"])
        store = ingest(tmp_path, table(text), ends=["a", "b"])
        assert edges_of(store).tolist() == [[2, 0], [3, 1]]
        for others in (["a"], ["a", "w"], ["a", "day"], {"a": "int64", "b": "int64"}):  # never ends
            ingest(tmp_path, table(text), columns=others)


def test_a_spec_of_before(tmp_path, table):
    item = {"type": ["n", "to", "n"], "file": table("a,b,w,t\n0,1,5,7\n"), "keep_edge_ids": True}
    with old("edge_columns is called columns"):
        gz.ingest(tmp_path / "g", spec={"edges": [item | {"columns": ["b", "a"], "edge_columns": ["w"]}]})
    assert gz.open(tmp_path / "g").edge_columns(("n", "to", "n")) == ["w"]
    with old():
        gz.ingest(tmp_path / "h", spec={"edges": [item | {"columns": ["b", "a"]}]})
    store = gz.open(tmp_path / "h")
    assert edges_of(store, ("n", "to", "n")).tolist() == [[1], [0]]
    assert store.edge_columns(("n", "to", "n")) == ["w", "t"]


def test_options_of_one_table_do_not_go_with_a_spec(tmp_path):
    spec = {"edges": [{"type": ["n", "to", "n"], "file": ([0], [1])}]}
    for option in ({"columns": ["w"]}, {"ends": ["a", "b"]}, {"drop": ["w"]}, {"nulls": {"w": 0}}):
        with pytest.raises(ValueError, match=f"{next(iter(option))}= does not go with spec="):
            gz.ingest(tmp_path / "g", spec=spec, **option)


def test_the_commands(tmp_path, capsys):
    from gz.cli import main

    (tmp_path / "e.csv").write_text("a,b,w,t\n0,1,5,7\n1,2,6,8\n")
    (tmp_path / "u.csv").write_text(USERS)

    def run(*flags):
        call = [
            "ingest",
            tmp_path / "g",
            "--edges",
            tmp_path / "e.csv",
            "--overwrite",
            "--keep-edge-ids",
            *flags,
        ]
        assert main([str(c) for c in call]) == 0
        return gz.open(tmp_path / "g"), " ".join(capsys.readouterr().err.split())

    store, said = run("--ends", "b,a", "--columns", "t,age", "--nodes", f"{tmp_path}/u.csv:id")
    assert (store.edge_columns(), store.node_columns(), said) == (["t"], ["age"], "")
    assert edges_of(store).tolist() == [[1, 2], [0, 1]]
    store, said = run("--columns", "b,a")
    assert edges_of(store).tolist() == [[1, 2], [0, 1]]
    assert "is called ends=['b', 'a'] (--ends) now" in said
    (tmp_path / "e.csv").write_text("src,dst,a,b\n0,1,5,7\n")
    store, said = run("--columns", "b,a")
    assert "src -> dst, keep b and a: ends=" in said
    (tmp_path / "e.csv").write_text("a,b,w,t\n0,1,5,7\n1,2,6,8\n")
    store, said = run("--columns", "b,a", "--edge-columns", "w")
    assert (edges_of(store).tolist(), store.edge_columns()) == ([[1, 2], [0, 1]], ["w"])
    store, said = run("--ends", "b,a", "--node-columns", "w", "--nodes", f"{tmp_path}/u.csv:id")
    assert store.node_columns() == ["w"]
    assert "--node-columns is called --columns now" in said
