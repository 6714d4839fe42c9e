"""The text parser against Python's own idea of a line, cut into pieces at every place."""

import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gz
from gz import _engine
from gz._engine import InputError

ids = st.one_of(st.integers(0, 9), st.integers(0, 10**8), st.integers(0, 2**32 + 5), st.integers(0, 2**62))
blank = st.sampled_from(["", " ", "\t ", "# comment", "  # 1,2"])
row = st.tuples(ids, ids, st.sampled_from(["{},{}", " {} , {} ", '"{}",{}', "{},{}\t", "0{},000{}"]))
line = st.one_of(blank, row)


def render(lines, end, last_newline):
    text = end.join(x if isinstance(x, str) else x[2].format(x[0], x[1]) for x in lines)
    return (text + (end if last_newline and lines else "")).encode()


def from_file(path, fmt, piece):
    source = _engine.CsvSource(str(path), fmt, 0, piece)
    with open(path, "rb") as f:
        source.open_file(f.fileno(), 0)
    rows, more = [], True
    while more:
        more, pieces = source.file_to_rows()
        rows += [tuple(p) for r in pieces for p in zip(*(k.tolist() for k in r.keys), strict=True)]
    return rows, source


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(line, max_size=30),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    piece=st.one_of(st.integers(1, 40), st.just(1 << 20)),
)
def test_rows_and_lines_are_the_same_however_the_text_is_cut(tmp_path, lines, end, last, piece):
    path = tmp_path / "t.csv"
    data = render(lines, end, last)
    path.write_bytes(data)
    expected = [(a, b) for a, b, _ in (x for x in lines if not isinstance(x, str))]
    fmt = _engine.CsvFormat(",", 2, [0, 1])
    rows, source = from_file(path, fmt, piece)
    assert rows == expected
    assert source.lines == len(data.splitlines())
    text = _engine.CsvSource("text", fmt, 0, piece)
    pieces = text.text_to_rows(data)
    assert [tuple(p) for r in pieces for p in zip(*(k.tolist() for k in r.keys), strict=True)] == expected


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(line, min_size=1, max_size=20),
    bad=st.sampled_from(
        ["x", "1", "1,2,3", "1,-2", "1,2.0", "1,99999999999999999999", ",", "1,", "1 2,3", "1;2"]
    ),
    where=st.integers(0, 20),
    piece=st.integers(1, 60),
)
def test_the_first_bad_line_is_named_however_the_text_is_cut(tmp_path, lines, bad, where, piece):
    where = min(where, len(lines))
    lines = [*lines[:where], bad, *lines[where:]]
    path = tmp_path / "t.csv"
    path.write_bytes(render(lines, "\n", True))
    with pytest.raises(InputError, match=rf"t\.csv, line {where + 1}: "):
        from_file(path, _engine.CsvFormat(",", 2, [0, 1]), piece)
    rows, source = from_file(path, _engine.CsvFormat(",", 2, [0, 1], skip_bad=True), piece)
    assert source.skipped == 1
    assert source.first_skipped.startswith(f"{path}, line {where + 1}: ")
    assert rows == [(a, b) for a, b, _ in (x for x in lines if not isinstance(x, str))]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(width=32), st.integers(-(2**63), 2**63 - 1), st.booleans()),
        min_size=1,
        max_size=20,
    )
)
def test_values_are_read_exactly(values):
    fmt = _engine.CsvFormat(",", 3, [])
    fmt.add_value(0, "float32", 0)
    fmt.add_value(1, "int64", 4)
    fmt.add_value(2, "bool", 12)
    text = "".join(f"{np.float32(f)!s},{i},{str(b).lower()}\n" for f, i, b in values).encode()
    out = []
    for rows in _engine.CsvSource("t", fmt, 0, 64).text_to_rows(text):
        out += rows.payload.view([("f", "<f4"), ("i", "<i8"), ("b", "?")]).tolist()
    for (f, i, b), (g, j, c) in zip(values, out, strict=True):
        assert np.float32(f) == np.float32(g) or (f != f and g != g)
        assert (i, b) == (j, c)


def test_fields_separated_by_blanks_and_quotes():
    assert _engine.CsvFormat(" ").split("  1   2\t3 ") == ["1", "2", "3"]
    assert _engine.CsvFormat(",").split('a,"b ""c"", d" , e') == ["a", 'b "c", d', "e"]
    assert _engine.CsvFormat("\t").split("a\t\tb c") == ["a", "", "b c"]
    assert _engine.CsvFormat(",").split("a,") == ["a", ""]


@pytest.mark.parametrize("extra", [1, 4, 8, 40])
def test_columns_left_out_may_be_empty(tmp_path, extra):
    edges = np.random.default_rng(extra).integers(0, 10, (20_000, 2))
    path = tmp_path / "t.csv"
    path.write_text("".join(f"{a},{b}{',' * extra}\n" for a, b in edges))
    rows, _ = from_file(path, _engine.CsvFormat(",", 2 + extra, [0, 1]), 8 << 20)
    assert np.array_equal(rows, edges)
    store = tmp_path / "g"
    gz.ingest(store, edges=path, ends=(0, 1), columns=[], header=False, num_nodes=10)
    expected = np.zeros((10, 10), int)
    np.add.at(expected, (edges[:, 0], edges[:, 1]), 1)
    g = gz.open(store).graph()
    found = np.zeros((10, 10), int)
    np.add.at(found, (g.indices, np.repeat(np.arange(10), np.diff(g.indptr))), 1)
    assert np.array_equal(found, expected)


def test_a_table_of_empty_cells_is_nan(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(",,1,\n" + ",,,\n" * 5000)
    fmt = _engine.CsvFormat(",", 4, [])
    for i in range(4):
        fmt.add_value(i, "float32", 4 * i, empty_is_nan=True)
    pieces = _engine.CsvSource("x", fmt, 0, 8 << 20).text_to_rows(path.read_bytes())
    x = np.concatenate([p.payload.view(np.float32) for p in pieces]).reshape(-1, 4)
    assert x.shape == (5001, 4)
    assert np.isnan(x).sum() == 5001 * 4 - 1
    assert x[0, 2] == 1


@pytest.mark.parametrize("line", ['"1"2,3', '1,"2"3', '1,"2', '"1,2', "1\xff,2", "1,\xff", "\xe9,1"])
@pytest.mark.parametrize("ids", ["dense", "map"])
def test_what_is_no_csv_or_no_text_names_file_and_line(tmp_path, line, ids):
    path = tmp_path / "t.csv"
    path.write_bytes(f"1,2\n3,4\n{line}\n".encode("latin-1"))
    with pytest.raises(InputError, match=rf"{path}, line 3: "):
        gz.ingest(tmp_path / "g", edges=path, header=False, ids=ids)


@pytest.mark.parametrize("before", ["", "# a comment\n\n"])
@pytest.mark.parametrize("length", [1 << 18, (1 << 18) - 1, 300_000, 2_000_000])
def test_a_header_of_any_length_is_one_line(tmp_path, before, length):
    path = tmp_path / "t.csv"
    header = "src,dst," + "n" * (length - 9)
    path.write_text(f"{before}{header}\n1,2,\n0,1,\nx,1,\n")
    number = 4 + before.count("\n")
    with pytest.raises(InputError, match=rf"t\.csv, line {number}: column 'src': 'x'"):
        gz.ingest(tmp_path / "g", edges=path, columns=[])
    path.write_text(f"{before}{header}\n1,2,\n0,1,\n")
    gz.ingest(tmp_path / "g", edges=path, columns=[])
    g = gz.open(tmp_path / "g").graph()
    assert g.num_edges == 2
    assert g.neighbors(1).tolist() == [0]
    assert g.neighbors(2).tolist() == [1]


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_in_the_place_of_a_text_table_is_refused(protocol, tmp_path):
    (tmp_path / "edges.pkl").write_bytes(pickle.dumps(" ", protocol))
    with pytest.raises(gz.InputError, match=r"edges.pkl: holds zero bytes, so it is no text table"):
        gz.ingest(tmp_path / "s", edges=tmp_path / "edges.pkl")
    assert not (tmp_path / "s").exists()
