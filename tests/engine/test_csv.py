"""The text parser against Python's own idea of a line, cut into pieces at every place."""

import numpy as np
import pytest
from gz._engine import InputError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gz import _engine

ids = st.one_of(st.integers(0, 9), st.integers(0, 10**8), st.integers(0, 2**32 + 5), st.integers(0, 2**62))
blank = st.sampled_from(["", " ", "\t ", "# comment", "  # 1,2"])
row = st.tuples(ids, ids, st.sampled_from(["{},{}", " {} , {} ", '"{}",{}', "{},{}\t", "0{},000{}"]))
line = st.one_of(blank, row)


def render(lines, end, last_newline):
    text = end.join(x if isinstance(x, str) else x[2].format(x[0], x[1]) for x in lines)
    return (text + (end if last_newline and lines else "")).encode()


def from_file(path, fmt, piece):
    source = _engine.CsvSource(str(path), fmt, 0, piece)
    source.open_file(0)
    rows, more = [], True
    while more:
        more, pieces = source.file_to_rows()
        rows += [tuple(p) for n, keys, _ in pieces for p in zip(*(k.tolist() for k in keys), strict=True)]
    return rows, source


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
    assert [tuple(p) for _, k, _ in pieces for p in zip(*(x.tolist() for x in k), strict=True)] == expected


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
    for _, _, payload in _engine.CsvSource("t", fmt, 0, 64).text_to_rows(text):
        out += payload.view([("f", "<f4"), ("i", "<i8"), ("b", "?")]).tolist()
    for (f, i, b), (g, j, c) in zip(values, out, strict=True):
        assert np.float32(f) == np.float32(g) or (f != f and g != g)
        assert (i, b) == (j, c)


def test_fields_separated_by_blanks_and_quotes():
    assert _engine.CsvFormat(" ").split("  1   2\t3 ") == ["1", "2", "3"]
    assert _engine.CsvFormat(",").split('a,"b ""c"", d" , e') == ["a", 'b "c", d', "e"]
    assert _engine.CsvFormat("\t").split("a\t\tb c") == ["a", "", "b c"]
    assert _engine.CsvFormat(",").split("a,") == ["a", ""]
