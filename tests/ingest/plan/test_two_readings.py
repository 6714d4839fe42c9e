"""Where an input may be read in two ways, gz asks; where it is read, it is read as its names say."""

import numpy as np
import pytest
from stores import edge_column, edges_of, nothing_at

import gz
from gz import InputError


def ingest(path, **options):
    gz.ingest(path, keep_edge_ids=True, **options)
    return gz.open(path)


def names(store):
    """The edges by the original ids of their ends."""
    ids = store.id_map()
    return [(ids.to_original([a])[0], ids.to_original([b])[0]) for a, b in edges_of(store).T.tolist()]


@pytest.fixture
def table(tmp_path):
    def write(text, name="e.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_a_header_over_text_is_asked_about_and_both_readings_are_shown(tmp_path, table):
    path = table("package,file\nzlib,/a\nzlib,/b\n")
    with pytest.raises(InputError, match=r"(?s)header=True \(--header\).*zlib, /a.*header=False") as e:
        ingest(tmp_path / "g", edges=path, ids="map")
    assert "first row package, file" in str(e.value)
    assert nothing_at(tmp_path / "g")
    assert names(ingest(tmp_path / "a", edges=path, ids="map", ends=["file", "package"])) == [
        ("/a", "zlib"),
        ("/b", "zlib"),
    ]
    headless = ingest(tmp_path / "b", edges=path, ids="map", header=False)
    assert names(headless)[0] == ("package", "file")


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "source,target\nx,y\n", "x,y,n\nzlib,/a,3\n"])
def test_a_header_shows_by_its_names_or_by_the_numbers_below_it(tmp_path, table, text):
    first = text.split("\n")[0].split(",")
    store = ingest(tmp_path / "g", edges=table(text), ids="map", ends=first[:2])
    assert store.num_edges() == 1


def test_ends_that_are_not_named_are_asked_for(tmp_path, table):
    for edges in (table("a,b,c\n0,1,2\n"), {"a": np.array([0]), "b": np.array([1])}):
        with pytest.raises(InputError, match=r'(?s)a -> b: ends=\["a", "b"\].*b -> a'):
            ingest(tmp_path / "g", edges=edges)
    store = ingest(tmp_path / "g", edges=table("a,b,c\n0,1,2\n"), ends=["c", "a"])
    assert edges_of(store).tolist() == [[2], [0]]
    assert store.edge_columns() == ["b"]


def test_columns_called_as_their_node_types_are_the_ends(tmp_path, table):
    spec = {"ids": "map", "edges": [{"type": ["user", "likes", "item"], "file": table("item,user\n7,u1\n")}]}
    gz.ingest(tmp_path / "g", spec=spec)
    store = gz.open(tmp_path / "g")
    assert store.id_map("user").to_original([0]) == ["u1"]
    assert store.id_map("item").to_original([0]).tolist() == [7]


def test_leading_zeros_are_not_lost(tmp_path, table):
    path = table("src,dst\n007,7\n08,8\n")
    assert names(ingest(tmp_path / "a", edges=path, ids="map")) == [("007", "7"), ("08", "8")]
    assert names(ingest(tmp_path / "b", edges=path, ids="int")) == [(7, 7), (8, 8)]
    with pytest.raises(InputError, match=r'line 2: .*\'007\' has a leading zero.*ids="text"'):
        ingest(tmp_path / "c", edges=path)
    late = table("src,dst\n" + "1,2\n" * 300 + "3,04\n")
    with pytest.raises(InputError, match="line 302: .*'04' has a leading zero"):
        ingest(tmp_path / "c", edges=late, ids="map")


def test_text_after_integers_names_the_remedy_and_the_remedy_works(tmp_path, table):
    path = table("src,dst\n" + "1,2\n" * 300 + "3,abc\n")
    with pytest.raises(InputError, match="line 302: .*'abc' is not an integer id.*ids=\"text\""):
        ingest(tmp_path / "g", edges=path, ids="map")
    assert names(ingest(tmp_path / "g", edges=path, ids="text"))[-1] == ("3", "abc")


def test_text_in_one_file_is_text_in_the_other(tmp_path, table):
    files = [table("src,dst\n1,2\n", "a.csv"), table("src,dst\nx,1\n", "b.csv")]
    assert names(ingest(tmp_path / "g", edges=files, ids="map")) == [("1", "2"), ("x", "1")]


@pytest.mark.parametrize("ids", ["text", "int"])
def test_arrays_are_read_as_asked(tmp_path, ids):
    store = ingest(tmp_path / "g", edges=(np.array([5, 70]), ["70", "5"]), ids=ids)
    assert names(store) == ([("5", "70"), ("70", "5")] if ids == "text" else [(5, 70), (70, 5)])
    with pytest.raises(InputError, match='one is text and the other integers; ids="text"'):
        ingest(tmp_path / "h", edges=(np.array([5, 70]), ["70", "5"]), ids="map")


@pytest.mark.parametrize("largest", [2**32, 99_999_999_999, 50_000_000])
def test_sparse_ids_are_found_before_they_are_written_out(tmp_path, table, largest):
    path = table(f"0,{largest}\n1,2\n")
    with pytest.raises(InputError, match=rf'(?s)largest id is {largest}.*ids="int".*num_nodes={largest + 1}'):
        ingest(tmp_path / "g", edges=path)
    with pytest.raises(InputError, match="largest id"):
        gz.convert_csv_to_gl(path, tmp_path / "e.gl")
    assert [f.name for f in tmp_path.iterdir()] == ["e.csv"]
    store = ingest(tmp_path / "g", edges=path, ids="int")
    assert names(store) == [(0, largest), (1, 2)]


def test_ids_with_gaps_that_cost_little_are_node_numbers(tmp_path):
    assert ingest(tmp_path / "g", edges=(np.array([0]), np.array([(1 << 20) - 1]))).num_nodes() == 1 << 20


def test_a_float_column_keeps_its_digits(tmp_path, table):
    times = [1600000000.5, 1600000001.5]
    store = ingest(tmp_path / "g", edges=table(f"src,dst,t\n0,1,{times[0]}\n1,0,{times[1]}\n"))
    assert edge_column(store, "t").tolist() == times


def test_a_column_that_is_wider_in_the_second_file_is_wide_in_both(tmp_path, table):
    files = [table("src,dst,w\n0,1,3\n", "a.csv"), table("src,dst,w\n1,0,0.5\n", "b.csv")]
    assert edge_column(ingest(tmp_path / "g", edges=files), "w").tolist() == [3, 0.5]
    files[1] = table("src,dst,w\n1,0,red\n", "b.csv")
    with pytest.raises(InputError, match=r"b\.csv: column 'w' is text, but it is int64 in .*a\.csv"):
        ingest(tmp_path / "h", edges=files)


def test_two_delimiters_that_fit_are_asked_about(tmp_path, table):
    path = table("src;dst,x\nalice;bob,3\n")
    with pytest.raises(InputError, match=r"(?s)what cuts its lines.*delimiter=','.*delimiter=';'"):
        ingest(tmp_path / "g", edges=path, ids="map")


def test_hashes_in_text_ids_are_ids_and_not_comments(tmp_path, table):
    path = table("src,dst\n#a,b\nb,#a\n")
    assert names(ingest(tmp_path / "g", edges=path, ids="text")) == [("#a", "b"), ("b", "#a")]
    with pytest.raises(InputError, match="line 1: '#a,b' may be a comment or a row"):
        ingest(tmp_path / "h", edges=table("#a,b\nb,c\n"), ids="text", header=False)


def test_the_plan_is_said_before_the_work_and_kept(tmp_path, table):
    path = table("dst;src;when;kind\n1;0;2020-01-01;a\n2;0;2020-01-02;b\n")
    dry = gz.ingest(tmp_path / "g", edges=path, drop=["kind"], dry_run=True)
    assert nothing_at(tmp_path / "g")
    (edge,) = dry.plan["edges"]
    assert (edge["delimiter"], edge["header"], edge["ends"]) == (";", True, ["src", "dst"])
    assert edge["columns"] == {"when": {"dtype": "int64", "unit": "date32[day]"}}
    assert edge["left_out"] == ["kind"]
    assert edge["first_rows"][0] == ["0", "1", "2020-01-01"]
    report = gz.ingest(tmp_path / "g", edges=path, drop=["kind"])
    assert report.plan == dry.plan == gz.open(tmp_path / "g").manifest.plan


def test_a_terminal_shows_the_plan_and_a_dry_run_all_of_it(tmp_path, table, capsys):
    from gz.cli import main

    path = table("src,dst,w\na,b,1.5\nb,c,2\n")
    gz.ingest(tmp_path / "g", edges=path, ids="text", progress=True)
    shown = capsys.readouterr().err
    assert "src -> dst; ids are text" in shown
    assert "columns w (float64)" in shown
    assert "row: src=a, dst=b, w=1.5" in shown
    assert main(["ingest", str(tmp_path / "h"), "--edges", str(path), "--ids", "text", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "column w: float64" in out
    assert "row: src=b, dst=c, w=2" in out
    assert nothing_at(tmp_path / "h")
