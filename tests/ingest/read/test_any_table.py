"""Any table pandas, pyarrow or the csv module writes: gz's graph is the one pandas reads, or gz refuses."""

import csv
import datetime as dt
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from stores import edge_column, edges_of

import gz
from gz import InputError

# Blanks around an unquoted field are not part of it, in gz; in pandas they are.
WORD = st.text("abuvz01#\"',;|\té x", min_size=1, max_size=4).filter(lambda s: s == s.strip())
IDS = {
    "small": st.integers(0, 12).map(str),
    "any": st.integers(-(2**40), 2**40).map(str),
    "padded": st.sampled_from(["7", "07", "007", "12", "0"]),
    "word": WORD,
}
VALUES = {
    "i": st.integers(-(2**53), 2**53),
    "f": st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0),
    "b": st.booleans(),
    "c": st.text("pq,;\t|\"' ", min_size=1, max_size=3).map(lambda s: f"k{s}k"),
    "d": st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
}


@st.composite
def tables(draw):
    n = draw(st.integers(1, 6))
    ends = draw(st.sampled_from([("src", "dst"), ("source", "target"), ("package", "file"), ("u", "v")]))
    ids = IDS[draw(st.sampled_from(sorted(IDS)))]
    columns = {e: draw(st.lists(ids, min_size=n, max_size=n)) for e in ends}
    for name in draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True, max_size=3)):
        columns[name] = draw(st.lists(VALUES[name], min_size=n, max_size=n))
    if draw(st.booleans()):
        column = draw(st.sampled_from(sorted(columns)))
        columns[column][draw(st.integers(0, n - 1))] = None
    order = draw(st.permutations(sorted(columns)))
    return ends, pd.DataFrame({c: pd.Series(columns[c], dtype=object) for c in order})


def write(frame, path, how, delimiter, header, quoting):
    """As each library does it, None as an empty field."""
    if how == "pandas":
        frame.to_csv(path, sep=delimiter, header=header, index=False, quoting=quoting)
        return
    text = {c: [None if v is None else str(v) for v in frame[c].tolist()] for c in frame}
    if how == "pyarrow":
        table = pa.table({c: pa.array(values, pa.string()) for c, values in text.items()})
        options = pyarrow.csv.WriteOptions(include_header=header, delimiter=delimiter)
        with pa.CompressedOutputStream(path, "gzip") if path.endswith(".gz") else pa.OSFile(path, "wb") as f:
            pyarrow.csv.write_csv(table, f, options)
        return
    with open(path, "w", newline="") as f:
        out = csv.writer(f, delimiter=delimiter, quoting=quoting)
        out.writerows([list(text)] * header)
        out.writerows([["" if v is None else v for v in row] for row in zip(*text.values(), strict=True)])


def as_pandas_reads(frame, path, delimiter, header):
    read = pd.read_csv(path, sep=delimiter, header=0 if header else None, dtype=str, keep_default_na=False)
    read.columns = frame.columns
    return read


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    made=tables(),
    how=st.sampled_from(["pandas", "pyarrow", "csv"]),
    delimiter=st.sampled_from([",", "\t", ";", "|"]),
    header=st.booleans(),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    packed=st.booleans(),
    ids=st.sampled_from(["dense", "int", "text", "map"]),
    told=st.booleans(),
)
@pytest.mark.slow
def test_the_graph_is_the_one_pandas_reads_or_there_is_none(
    tmp_path, made, how, delimiter, header, quoting, packed, ids, told
):
    ends, frame = made
    path = str(tmp_path / ("t.csv.gz" if packed and how != "csv" else "t.csv"))
    write(frame, path, how, delimiter, header, quoting)
    expected = as_pandas_reads(frame, path, delimiter, header)
    if ids in ("dense", "int"):  # where ids are integers, such a line is a comment
        assume(not any(str(v).startswith("#") for v in expected.iloc[:, 0]))
    options = {"ids": ids, "keep_edge_ids": True}
    if told:  # what the file itself may not tell
        places = [list(frame.columns).index(e) for e in ends]
        options |= {"ends": list(ends) if header else places, "delimiter": delimiter, "header": header}
    elif not header:
        ends = list(frame.columns[:2])  # without names, the first two
    shutil.rmtree(tmp_path / "g", ignore_errors=True)
    try:
        gz.ingest(tmp_path / "g", path, **options)
    except InputError as e:
        event("refused: " + str(e).split(": ", 1)[-1][:20])
        return
    event("read")
    store = gz.open(tmp_path / "g")
    found = edges_of(store)
    if ids != "dense":
        original = np.array(
            [str(k) for k in store.id_map().to_original(np.arange(store.num_nodes()))], object
        )
        found = original[found]
    kind = str if ids in ("text", "map") else int
    for mine, end in zip(found, ends, strict=True):
        assert [kind(k) for k in mine] == [kind(k) for k in expected[end]], (ends, expected)
    for place, name in enumerate(frame.columns):
        if name not in ends:
            same_values(store, name if header else f"column{place}", expected[name])


def same_values(store, name, texts):
    found, names, unit = edge_column(store, name), store.categories(name), store.unit(name)
    if names is not None:
        assert [names[i] for i in found] == texts.tolist()
    elif unit is not None:
        days = (pd.to_datetime(texts) - pd.Timestamp(0)).dt.days
        assert found.tolist() == days.tolist()
    elif found.dtype == bool:
        assert found.tolist() == [t == "True" or t == "true" for t in texts]
    else:
        assert found.tolist() == [float(t) if found.dtype.kind == "f" else int(t) for t in texts]


def test_most_tables_are_read(tmp_path):
    """A reader that refused everything would pass the test above."""
    frame = pd.DataFrame({"dst": ["b", "c"], "w": [0.5, 1.5], "src": ["a", "b"]})
    for how in ("pandas", "pyarrow", "csv"):
        write(frame, str(tmp_path / f"{how}.csv"), how, ";", True, csv.QUOTE_MINIMAL)
        gz.ingest(tmp_path / how, tmp_path / f"{how}.csv", ids="map")
        assert gz.open(tmp_path / how).num_edges() == 2
    with pytest.raises(InputError):
        gz.ingest(tmp_path / "x", tmp_path / "csv.csv", ids="int")
