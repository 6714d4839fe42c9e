"""Frames, Arrow tables and tables of nodes: by the names of their columns, with the types those have."""

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stores import edge_column, edges_of

import gz
from gz import InputError


class Capsule:
    """Anything that speaks Arrow's C interface."""

    def __init__(self, table):
        self._table, self.schema = table, table.schema

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def polars(table):
    return pytest.importorskip("polars", reason="a frame of polars").from_arrow(table)


FORMS = {
    "pandas": lambda t, _: t.to_pandas(),
    "arrow": lambda t, _: t,
    "stream": lambda t, _: t.to_reader(),
    "capsule": lambda t, _: Capsule(t),
    "polars": lambda t, _: polars(t),
    "parquet": lambda t, folder: pq.write_table(t, folder / "t.parquet") or folder / "t.parquet",
}


@pytest.fixture(params=FORMS)
def form(request, tmp_path):
    return lambda table: FORMS[request.param](table, tmp_path)


def ingest(path, *args, **options):
    gz.ingest(path, *args, keep_edge_ids=True, **options)
    return gz.open(path)


def test_columns_are_found_by_name_whatever_their_order(tmp_path, form):
    store = ingest(tmp_path / "g", form(pa.table({"dst": [1, 2], "w": [0.5, 1.5], "src": [0, 0]})))
    assert edges_of(store).tolist() == [[0, 0], [1, 2]]
    assert edge_column(store, "w").tolist() == [0.5, 1.5]


def test_columns_that_say_nothing_are_asked_for(tmp_path, form):
    with pytest.raises(InputError, match=r"(?s)a -> b: ends=.*b -> a: ends="):
        ingest(tmp_path / "g", form(pa.table({"a": [1, 2], "b": [0, 0]})))
    store = ingest(tmp_path / "g", form(pa.table({"a": [1, 2], "b": [0, 0]})), ends=["b", "a"])
    assert edges_of(store).tolist() == [[0, 0], [1, 2]]


DAY = dt.date(2020, 2, 29)
TYPED = {
    "stamp": (
        pa.array([dt.datetime(2020, 1, 1), dt.datetime(1969, 1, 1)], pa.timestamp("ms")),
        "timestamp[ms]",
    ),
    "zoned": (pa.array([0, 10**18], pa.timestamp("ns", "UTC")), "timestamp[ns, tz=UTC]"),
    "day": (pa.array([DAY, dt.date(1960, 1, 1)], pa.date32()), "date32[day]"),
    "wait": (pa.array([5, 7], pa.duration("s")), "duration[s]"),
    "price": (pa.array([decimal.Decimal("1.25"), decimal.Decimal("-3")], pa.decimal128(8, 2)), None),
    "f": (pa.array([1600000000.5, float("nan")]), None),
    "u16": (pa.array([1, 65535], pa.uint16()), None),
    "u64": (pa.array([1, 2**63 - 1], pa.uint64()), None),
    "flag": (pa.array([True, False]), None),
    "row": (pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32())), None),
    "fixed": (pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2)), None),
}


def test_types_are_kept_as_numbers_with_their_unit(tmp_path, form):
    table = pa.table({"src": [0, 1], "dst": [1, 0], **{n: a for n, (a, _) in TYPED.items()}})
    drop = ["row"] if isinstance(form(table), pa.RecordBatchReader) else []
    store = ingest(tmp_path / "g", form(table), drop=drop)
    for name, (values, unit) in TYPED.items():
        if name in drop:
            continue
        found = edge_column(store, name)
        if name == "price":
            assert found.dtype == np.float64
        if unit is None:
            expected = np.array(values.to_pylist(), found.dtype)
            np.testing.assert_array_equal(found, expected)
        else:
            assert found.dtype == np.int64
            assert store.unit(name) is not None
            kept = pa.array(found).cast(pa.int32() if name == "day" else pa.int64())
            shown = kept.cast(pa.type_for_alias("date32") if name == "day" else _type(store.unit(name)))
            assert shown.cast(values.type).to_pylist() == values.to_pylist()


def _type(unit):
    kind, _, rest = unit[:-1].partition("[")
    unit, _, zone = rest.partition(", tz=")
    return pa.duration(unit) if kind == "duration" else pa.timestamp(unit, zone or None)


@pytest.mark.parametrize("categorical", [False, True])
def test_text_becomes_codes_whose_names_are_kept(tmp_path, form, categorical):
    words = pa.array(["red", "blue", "red"])
    table = pa.table(
        {"src": [0, 1, 2], "dst": [1, 2, 0], "c": words.dictionary_encode() if categorical else words}
    )
    store = ingest(tmp_path / "g", form(table))
    codes = edge_column(store, "c")
    assert [store.categories("c")[i] for i in codes] == ["red", "blue", "red"]
    assert store.unit("c") is None


def test_a_null_is_an_error_or_the_value_that_was_named(tmp_path, form):
    table = pa.table({"src": [0, 1], "dst": [1, 0], "n": [None, 3], "c": ["x", None]})
    if isinstance(form(table), pd.DataFrame):  # pandas made floats of integers with a null: NaN is a value
        table = table.set_column(2, "n", pa.array([-1, 3]))
    with pytest.raises(InputError, match=r"column '[nc]' is null in row [01].*--null"):
        ingest(tmp_path / "g", form(table))
    store = ingest(tmp_path / "g", form(table), nulls={"n": -1, "c": "none"})
    assert edge_column(store, "n").tolist() == [-1, 3]
    assert [store.categories("c")[i] for i in edge_column(store, "c")] == ["x", "none"]


def test_a_column_that_cannot_be_stored_is_named_with_what_leaves_it_out(tmp_path, form):
    table = pa.table({"src": [0, 1], "dst": [1, 0], "s": [{"a": 1}, {"a": 2}]})
    with pytest.raises(InputError, match=r"column 's'.*cannot be stored.*drop="):
        ingest(tmp_path / "g", form(table))
    assert ingest(tmp_path / "g", form(table), drop="s").edge_columns() == []
    with pytest.raises(InputError, match="no table has a column 'typo'"):
        ingest(tmp_path / "h", form(table), drop=["s", "typo"])


def test_a_table_of_nodes_maps_its_ids_and_brings_its_columns(tmp_path, form):
    users = pa.table({"age": [30, 40, 50], "id": ["b", "a", "c"], "town": ["X", "Y", "X"]})
    edges = pa.table({"src": ["a", "c"], "dst": ["b", "a"]})
    store = ingest(tmp_path / "g", edges, nodes=form(users))
    assert store.id_map().to_original([0, 1, 2]) == ["b", "a", "c"]
    assert store.feature("age").get_tensor().tolist() == [30, 40, 50]
    assert [store.categories("town")[i] for i in store.feature("town").get_tensor()] == ["X", "Y", "X"]
    assert edges_of(store).tolist() == [[1, 2], [0, 1]]


def test_a_table_of_nodes_in_one_line_of_the_command(tmp_path, capsys):
    from gz.cli import main

    (tmp_path / "users.csv").write_text("name,id,born,karma\nBob,7,1990-01-01,\nAl,-3,2001-02-03,5\n")
    pq.write_table(pa.table({"from": [7, -3], "to": [-3, -3]}), tmp_path / "follows.parquet")
    command = ["--nodes", f"{tmp_path}/users.csv:id", "--edges", f"{tmp_path}/follows.parquet"]
    more = ["--drop", "name", "--null", "karma=0", "--keep-edge-ids"]
    assert main(["ingest", str(tmp_path / "g"), *command, *more]) == 0
    store = gz.open(tmp_path / "g")
    assert store.id_map().to_original([0, 1]).tolist() == [7, -3]
    assert sorted(store.node_columns()) == ["born", "karma"]
    assert store.feature("karma").get_tensor().tolist() == [0, 5]
    born = [dt.date(1970, 1, 1) + dt.timedelta(int(d)) for d in store.feature("born").get_tensor()]
    assert born == [dt.date(1990, 1, 1), dt.date(2001, 2, 3)]
    assert edges_of(store).tolist() == [[0, 1], [1, 1]]


def test_rows_of_a_table_that_names_its_nodes_are_not_taken_by_place(tmp_path):
    table = pa.table({"id": [1, 0], "x": [10.0, 0.0]})
    edges = (np.array([0]), np.array([1]))
    with pytest.raises(InputError, match="If it names the node of each row, give the table as nodes="):
        ingest(tmp_path / "g", edges, features=table)
    with pytest.raises(InputError, match="row 0: its id is .*1.*row i is node i"):
        ingest(tmp_path / "g", edges, nodes=table, ids="dense")
    store = ingest(tmp_path / "g", edges, nodes=table)
    assert store.feature("x").get_tensor()[store.id_map().to_dense([0, 1])].tolist() == [0.0, 10.0]


def test_a_frame_of_features_and_a_series(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    edges = (np.array([0]), np.array([1]))
    features = {
        "x": frame,
        "when": pd.Series(pd.to_datetime(["2020-01-01", "2021-01-01"])),
        "c": pd.Series(list("pq")),
    }
    store = ingest(tmp_path / "g", edges, features=features)
    assert store.feature("x").get_tensor().tolist() == [[1, 0.5], [2, 1.5]]
    assert store.unit("when").startswith("timestamp[")
    assert store.categories("c") == ["p", "q"]
    each = ingest(tmp_path / "h", edges, features=frame)
    assert each.feature("a").get_tensor().tolist() == [1, 2]


def test_frames_of_polars_as_it_makes_them(tmp_path):
    """With its own types (views of text, categories, lists of fixed length), and a column on its own."""
    pl = pytest.importorskip("polars")
    columns = {"dst": ["b", "c", "a"], "kind": ["x", "y", "x"], "src": ["a", "b", "c"]}
    edges = pl.DataFrame(
        columns | {"day": [DAY, DAY, dt.date(1970, 1, 3)]}, schema_overrides={"kind": pl.Categorical}
    )
    rows = {"id": ["c", "a", "b"], "v": [[1, 2], [3, 4], [5, 6]]}
    users = pl.DataFrame(rows, schema_overrides={"v": pl.Array(pl.Int16, 2)})
    x = pl.Series("x", [0.5, None, 2.5])
    with pytest.raises(InputError, match="is null in row 1"):
        ingest(tmp_path / "g", edges, nodes=users, features={"x": x})
    store = ingest(tmp_path / "g", edges, nodes=users, features={"x": x.fill_null(-1.0)})
    assert store.id_map().to_original([0, 1, 2]) == ["c", "a", "b"]
    assert edges_of(store).tolist() == [[1, 2, 0], [2, 0, 1]]
    assert [store.categories("kind")[i] for i in edge_column(store, "kind")] == ["x", "y", "x"]
    assert (edge_column(store, "day")[2], store.unit("day")) == (2, "date32[day]")
    assert store.feature("v").get_tensor().tolist() == [[1, 2], [3, 4], [5, 6]]
    assert store.feature("x").get_tensor().tolist() == [0.5, -1.0, 2.5]
    lazy = edges.lazy()
    with pytest.raises(TypeError, match="cannot be a LazyFrame"):
        ingest(tmp_path / "h", lazy)


def test_a_narrower_dtype_that_loses_values_is_refused(tmp_path):
    edges = pa.table({"src": [0], "dst": [1], "n": [300]})
    with pytest.raises(InputError, match="'n': 300 is no uint8"):
        ingest(tmp_path / "g", edges, columns={"n": "uint8"})
    assert edge_column(ingest(tmp_path / "g", edges, columns={"n": "int16"}), "n").dtype == np.int16


def test_a_column_added_later_keeps_its_names_and_its_unit(tmp_path):
    ingest(tmp_path / "g", (np.array([0]), np.array([1])))
    days = pa.chunked_array([pa.array([DAY, DAY], pa.date32())])
    gz.add(tmp_path / "g", {"c": pd.Series(["p", "q"]), "when": days})
    store = gz.open(tmp_path / "g")
    assert store.categories("c") == ["p", "q"]
    assert store.unit("when") == "date32[day]"
    assert store.feature("when").get_tensor().tolist() == [(DAY - dt.date(1970, 1, 1)).days] * 2
