"""Any typed table pandas or pyarrow makes, as Parquet or in memory: gz's graph is the one that pandas reads,
or gz refuses; never a third thing."""

import datetime as dt
import decimal
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from stores import edge_column, edges_of

import gz
from gz import InputError

WORD = st.text('ab01é," ', min_size=0, max_size=3)
SMALL = st.integers(0, 9)
WHEN = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))
IDS = {
    "int64": (pa.int64(), SMALL),
    "int32": (pa.int32(), SMALL),
    "uint8": (pa.uint8(), SMALL),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "any int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "text": (pa.string(), WORD),
    "numbers as text": (pa.large_string(), st.sampled_from(["7", "07", "1", "0"])),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b", "7"])),
    "float": (pa.float64(), SMALL.map(float)),
}
VALUES = {
    "i8": (pa.int8(), st.integers(-128, 127)),
    "i64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "u16": (pa.uint16(), st.integers(0, 2**16 - 1)),
    "u64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "f16": (pa.float16(), st.floats(width=16).map(np.float16)),
    "f32": (pa.float32(), st.floats(width=32)),
    "f64": (pa.float64(), st.floats()),
    "flag": (pa.bool_(), st.booleans()),
    "word": (pa.string(), WORD),
    "kind": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["x", "y", ""])),
    "day": (pa.date32(), WHEN.map(dt.datetime.date)),
    "date64": (pa.date64(), WHEN.map(dt.datetime.date)),
    "s": (pa.timestamp("s"), WHEN.map(lambda t: t.replace(microsecond=0))),
    "ms": (pa.timestamp("ms"), WHEN.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))),
    "us": (pa.timestamp("us", "UTC"), WHEN.map(lambda t: t.replace(tzinfo=dt.UTC))),
    "ns": (pa.timestamp("ns"), WHEN),
    "clock": (pa.time64("us"), WHEN.map(dt.datetime.time)),
    "wait": (pa.duration("us"), st.timedeltas(dt.timedelta(-9), dt.timedelta(9))),
    "price": (pa.decimal128(9, 2), st.integers(-(10**8), 10**8).map(lambda i: decimal.Decimal(i).scaleb(-2))),
    "fixed": (pa.list_(pa.float32(), 2), st.lists(st.integers(0, 9).map(float), min_size=2, max_size=2)),
    "list": (pa.list_(pa.int64()), st.lists(st.integers(0, 9), min_size=1, max_size=2)),
    "struct": (pa.struct([("a", pa.int64())]), st.just({"a": 1})),
    "nothing": (pa.null(), st.none()),
}


@st.composite
def tables(draw):
    n = draw(st.integers(1, 6))
    ends = draw(st.sampled_from([("src", "dst"), ("to", "from"), ("package", "file")]))
    told = draw(st.integers(0, 9)) != 7  # which columns are the ends
    kind = draw(st.sampled_from(sorted(IDS)))
    ids = draw(st.sampled_from(["map", "text", "int", "dense"] if "int" in kind else ["map", "text", "int"]))
    made = {}
    for name in (*ends, *draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True, max_size=3))):
        t, values = IDS[kind] if name in ends else VALUES[name]
        column = draw(st.lists(values, min_size=n, max_size=n))
        if draw(st.integers(0, 29)) == 17:
            column[draw(st.integers(0, n - 1))] = None
        made[name] = pa.array(column, t)
    return ends if told else None, ids, pa.table({n: made[n] for n in draw(st.permutations(sorted(made)))})


def given_as(table, how, path, compression, group):
    """What gz is given, and what pandas makes of the same."""
    if how == "pandas":
        frame = table.to_pandas()
        return frame, frame
    if how == "arrow":
        return table, table.to_pandas(date_as_object=True)
    if how == "stream":
        return table.to_reader(max_chunksize=group), table.to_pandas()
    if how == "pandas' Parquet":
        table.to_pandas().to_parquet(path, compression=compression, index=False, row_group_size=group)
    else:
        pq.write_table(table, path, compression=compression or "none", row_group_size=group)
    return str(path), pd.read_parquet(path)


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@pytest.mark.slow
@given(
    made=tables(),
    how=st.sampled_from(["parquet", "pandas' Parquet", "arrow", "stream", "pandas"]),
    compression=st.sampled_from([None, "snappy", "gzip", "zstd"]),
    group=st.integers(1, 4),
)
def test_the_graph_is_the_one_pandas_reads_or_there_is_none(tmp_path, made, how, compression, group):
    ends, ids, table = made
    try:
        source, expected = given_as(table, how, tmp_path / "t.parquet", compression, group)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return  # what pandas or Parquet itself cannot hold
    options = {} if ends is None else {"ends": list(ends)}
    if ends is None:  # by name, wherever they stand
        ends = ("from", "to") if "from" in table.column_names else ("src", "dst")
    shutil.rmtree(tmp_path / "g", ignore_errors=True)
    try:
        gz.ingest(tmp_path / "g", source, ids=ids, keep_edge_ids=True, **options)
    except InputError as e:
        event("refused: " + str(e).split(": ", 1)[-1][:30])
        return
    event("read")
    store = gz.open(tmp_path / "g")
    found = edges_of(store)
    if ids != "dense":
        found = np.array(list(store.id_map().to_original(np.arange(store.num_nodes()))), object)[found]
    for mine, end in zip(found, ends, strict=True):
        assert [str(k) for k in mine] == [_id(k, ids) for k in expected[end]]
    for name in table.column_names:
        if name not in ends:
            same_values(store, name, expected[name].tolist(), table.schema.field(name).type)


def _id(value, ids):
    return str(int(value)) if ids in ("dense", "int") else str(value)


def same_values(store, name, values, t):
    found, names, unit = edge_column(store, name), store.categories(name), store.unit(name)
    if names is not None:
        assert [names[i] for i in found] == values
    elif unit is not None:
        kind = pa.date64() if unit == "date64[ms]" else _arrow(unit)
        narrow = kind.bit_width == 32
        shown = pa.array(found).cast(pa.int32() if narrow else pa.int64()).cast(kind)
        assert [_time(v) for v in shown.to_pylist()] == [_time(v) for v in values]
    elif found.ndim == 2:
        assert found.tolist() == [list(v) for v in values]
    else:
        mine = np.asarray(found, np.float64 if found.dtype.kind == "f" else object)
        theirs = [float(v) for v in values] if found.dtype.kind == "f" else [int(v) for v in values]
        np.testing.assert_array_equal(mine, np.array(theirs, mine.dtype))


def _arrow(unit):
    kind, _, rest = unit[:-1].partition("[")
    part, _, zone = rest.partition(", tz=")
    make = {"timestamp": lambda: pa.timestamp(part, zone or None), "duration": lambda: pa.duration(part)}
    make |= {"date32": pa.date32, "time32": lambda: pa.time32(part), "time64": lambda: pa.time64(part)}
    return make[kind]()


def _time(value):
    """A date, a time or a duration as numpy counts it, whoever made it."""
    if isinstance(value, dt.time):
        return value
    if isinstance(value, dt.timedelta):
        return np.timedelta64(pd.Timedelta(value).value, "ns")
    stamp = pd.Timestamp(value)
    return (stamp.tz_convert("UTC").tz_localize(None) if stamp.tz else stamp).isoformat()


@pytest.mark.parametrize("how", ["parquet", "pandas' Parquet", "arrow", "stream", "pandas"])
def test_most_tables_are_read(tmp_path, how):
    """A reader that refused everything would pass the test above."""
    names = [n for n in VALUES if n not in ("struct", "nothing", "list", "f16", "date64", "u64")]
    rows = {
        "i8": [1, 2],
        "i64": [1, 2],
        "u16": [1, 2],
        "f32": [1.0, 2],
        "f64": [1.0, 2],
        "flag": [True, False],
    }
    rows |= {"word": ["a", "b"], "kind": ["x", "y"], "fixed": [[1.0, 2], [3, 4]]}
    rows |= {"price": [decimal.Decimal("1.25")] * 2, "wait": [dt.timedelta(1)] * 2, "clock": [dt.time(1)] * 2}
    rows |= dict.fromkeys(("s", "ms", "us", "ns"), [dt.datetime(2020, 1, 1)] * 2) | {
        "day": [dt.date(2020, 1, 1)] * 2
    }
    columns = {n: pa.array(rows[n], VALUES[n][0]) for n in names}
    if how.startswith("pandas"):  # a column of arrays, of which Arrow makes lists of any length
        columns.pop("fixed")
    table = pa.table({"dst": [1, 0], "src": [0, 1], **columns})
    source, expected = given_as(table, how, tmp_path / "t.parquet", "zstd", 1)
    gz.ingest(tmp_path / "g", source, keep_edge_ids=True)
    store = gz.open(tmp_path / "g")
    assert sorted(store.edge_columns()) == sorted(columns)
    for n in columns:
        same_values(store, n, expected[n].tolist(), columns[n].type)
