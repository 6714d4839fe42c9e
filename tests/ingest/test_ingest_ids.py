"""ids="map": any integers, any text, both ways, within the budget; and the single-file converters."""

import pickle

import numpy as np
import pytest
from ingest_reference import read_gd, read_gl

import gz
from gz import manifest
from gz._engine import InputError
from gz._ingest import ingest
from gz.convert import convert_csv_to_gd, convert_csv_to_gl
from gz.id_map import IdMap

IN = "edges/node__to__node/in.gl"
RNG = np.random.default_rng(5)
K, E = 300, 20_000
A, B = RNG.integers(0, K, E), RNG.integers(0, K, E)
INTS = RNG.choice(2**62, K, replace=False) - 2**61
TEXTS = np.array([f"näme-{i}" for i in INTS])


def id_map(root, t="node"):
    return IdMap(root, manifest.read(root).nodes[t].id_map)


@pytest.mark.parametrize("keys", [INTS, TEXTS], ids=["int", "text"])
@pytest.mark.parametrize("memory", ["1MB", "1GB"])
def test_ids_are_given_in_order_of_appearance_and_found_both_ways(tmp_path, keys, memory):
    ingest(tmp_path / "s", (keys[A], keys[B]), ids="map", memory=memory, edge_features={"e": np.arange(E)})
    seen = list(dict.fromkeys(np.c_[A, B].ravel().tolist()))
    m = id_map(tmp_path / "s")
    assert len(m) == len(seen)
    assert list(m.to_original(np.arange(len(m)))) == keys[seen].tolist()
    assert m.to_dense(keys[seen]).tolist() == list(range(len(m)))
    assert pickle.loads(pickle.dumps(m)).to_dense(keys[seen[:3]]).tolist() == [0, 1, 2]
    dense = np.empty(K, int)
    dense[seen] = np.arange(len(seen))
    order = np.lexsort((np.arange(E), dense[A], dense[B]))
    gl = read_gl(tmp_path / "s" / IN)
    np.testing.assert_array_equal(gl.indices, dense[A][order])
    np.testing.assert_array_equal(read_gd(tmp_path / "s/edges/node__to__node/e.gd"), order)


def test_an_unknown_key_is_named(tmp_path):
    ingest(tmp_path / "i", (INTS[A], INTS[B]), ids="map")
    ingest(tmp_path / "t", (TEXTS[A], TEXTS[B]), ids="map")
    with pytest.raises(KeyError, match="original id 17"):
        id_map(tmp_path / "i").to_dense([INTS[A[0]], 17])
    with pytest.raises(KeyError, match="'nobody'"):
        id_map(tmp_path / "t").to_dense(["nobody"])
    with pytest.raises(IndexError, match="node 999"):
        id_map(tmp_path / "i").to_original([999])
    assert id_map(tmp_path / "t").contains(["nobody", TEXTS[A[0]]]).tolist() == [False, True]


@pytest.mark.parametrize("keys", [INTS, TEXTS], ids=["int", "text"])
def test_a_node_table_fixes_the_order(tmp_path, keys):
    x = RNG.random((K, 2))
    ingest(tmp_path / "s", (keys[A], keys[B]), {"x": x}, ids="map", nodes=keys, splits={"train": keys[:4]})
    order = np.lexsort((A, B))
    np.testing.assert_array_equal(read_gl(tmp_path / "s" / IN).indices, A[order])
    assert read_gd(tmp_path / "s/nodes/node/split-train.gd").tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match=r"edge \d+: its (source|destination) .* is not among the nodes"):
        ingest(tmp_path / "t", (keys[A], keys[B]), ids="map", nodes=keys[:-1])
    with pytest.raises(InputError, match=f"row {K}: id .* occurs twice"):
        ingest(tmp_path / "t", (keys[A], keys[B]), ids="map", nodes=np.r_[keys, keys[:1]])
    with pytest.raises(InputError, match="needs nodes="):
        ingest(tmp_path / "t", (keys[A], keys[B]), {"x": x}, ids="map")


def test_names_from_csv_with_quotes_and_a_node_file(tmp_path):
    (tmp_path / "e.csv").write_text('source,target,w\n"al, ice",bob,1.5\nbob,"ca""rl",2\n')
    (tmp_path / "n.csv").write_text('id\nbob\n"ca""rl"\n"al, ice"\nzoe\n')
    ingest(tmp_path / "s", tmp_path / "e.csv", ids="map", nodes=tmp_path / "n.csv", weight="w")
    m = id_map(tmp_path / "s")
    assert m.to_original([0, 1, 2, 3]) == ["bob", 'ca"rl', "al, ice", "zoe"]
    assert read_gl(tmp_path / "s" / IN).pairs() == [(0, 2), (1, 0)]


def test_node_types_have_their_own_ids(tmp_path):
    spec = {
        "ids": "map",
        "edges": {("user", "likes", "item"): (np.array(["u1", "u2", "u1"]), np.array([70, 70, -5]))},
    }
    ingest(tmp_path / "s", spec=spec)
    assert id_map(tmp_path / "s", "user").to_original([0, 1]) == ["u1", "u2"]
    assert id_map(tmp_path / "s", "item").to_original([0, 1]).tolist() == [70, -5]
    assert read_gl(tmp_path / "s/edges/user__likes__item/in.gl").pairs() == [(0, 0), (0, 1), (1, 0)]


def test_integers_and_text_for_one_type_are_refused(tmp_path):
    with pytest.raises(InputError, match="one is text and the other integers"):
        ingest(tmp_path / "s", (np.array(["a"]), np.array([1])), ids="map")


def test_graphzero_agrees_on_a_directed_graph(tmp_path, capfd):
    graphzero = pytest.importorskip("graphzero")
    lines = "".join(f"{a},{b}\n" for a, b in zip(A[:500], B[:500], strict=True))
    (tmp_path / "e.csv").write_text("src,dst\n" + lines)
    convert_csv_to_gl(tmp_path / "e.csv", tmp_path / "e.gl")
    graphzero.convert_csv_to_gl(str(tmp_path / "e.csv"), str(tmp_path / "z.gl"), directed=True)
    theirs, ours = graphzero.Graph(str(tmp_path / "z.gl")), read_gl(tmp_path / "e.gl")
    assert ours.out
    assert theirs.num_nodes == ours.num_nodes
    for v in range(ours.num_nodes):
        mine = ours.indices[int(ours.indptr[v]) : int(ours.indptr[v + 1])]
        assert mine.tolist() == sorted(int(u) for u in theirs.get_neighbours(v))


def test_a_third_column_is_the_weight(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst,weight\n0,1,0.5\n0,2,3\n")
    convert_csv_to_gl(tmp_path / "e.csv", tmp_path / "e.gl", directed=False)
    gl = read_gl(tmp_path / "e.gl")
    assert gl.pairs() == [(0, 1), (0, 2), (1, 0), (2, 0)]
    assert gl.weights.tolist() == [0.5, 3, 0.5, 3]


@pytest.mark.parametrize("dtype", ["float32", np.float64, "INT64"])
def test_features_with_an_id_column_come_in_any_order(tmp_path, dtype):
    (tmp_path / "f.csv").write_text("node,a,b\n2,5,1\n0,2,3\n1,7,8\n")
    convert_csv_to_gd(tmp_path / "f.csv", tmp_path / "f.gd", dtype)
    assert read_gd(tmp_path / "f.gd").tolist() == [[2, 3], [7, 8], [5, 1]]
    convert_csv_to_gd(tmp_path / "f.csv", tmp_path / "g.gd", dtype, id_column=False)
    assert read_gd(tmp_path / "g.gd").shape == (3, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [("0,1\n2,1\n", "node 1 has no line"), ("0,1\n0,1\n", "node 0 has 2 lines"), ("0,x1\n", "line 1")],
)
def test_features_with_gaps_or_repeats_are_refused(tmp_path, content, message):
    (tmp_path / "f.csv").write_text(content)
    with pytest.raises(InputError, match=message):
        convert_csv_to_gd(tmp_path / "f.csv", tmp_path / "f.gd")
    assert [f.name for f in tmp_path.iterdir()] == ["f.csv"]


def test_unsigned_ids_beyond_int64_are_nobodys(tmp_path):
    gz.ingest(tmp_path / "s", edges=([-1, 7], [7, 0]), ids="map")
    ids = gz.open(tmp_path / "s").id_map()
    high = np.array([2**64 - 1, 7, 2**63], np.uint64)
    assert ids.contains(high).tolist() == [False, True, False]
    with pytest.raises(KeyError, match=f"{2**64 - 1}, {2**63}"):
        ids.to_dense(high)
    assert ids.to_original(ids.to_dense([-1, 0, 7])).tolist() == [-1, 0, 7]


def test_one_text_is_not_a_list_of_letters(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\nb,o\nbob,b\n")
    gz.ingest(tmp_path / "s", edges=str(tmp_path / "e.csv"), ids="map")
    ids = gz.open(tmp_path / "s").id_map()
    for find in (ids.to_dense, ids.contains):
        with pytest.raises(TypeError, match=r"give a list of original ids: \['bob'\]"):
            find("bob")
    assert ids.to_original(ids.to_dense(["bob"])) == ["bob"]


@pytest.mark.slow
@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("types", [("a", "a"), ("a", "b")])
def test_edges_are_looked_up_in_a_table_of_nodes_within_any_memory(tmp_path, text, types):
    """More ends than are looked at together, in several edge types; an unknown one is found in the last."""
    rng = np.random.default_rng(0)
    keys = {t: rng.permutation(10**12 + np.arange(500)) for t in "ab"}
    names = {t: [f"n{k}" for k in keys[t].tolist()] if text else keys[t] for t in "ab"}
    edges = rng.integers(0, 500, (2, 150_000))
    ends = [np.array(names[t], object if text else np.int64)[e] for t, e in zip(types, edges, strict=True)]

    def ingest(path, ends, memory):
        spec = {
            "ids": "text" if text else "int",
            "nodes": {t: {"ids": names[t]} for t in set(types)},
            "edges": {(types[0], r, types[1]): tuple(ends) for r in ("r", "s")},
        }
        gz.ingest(path, spec=spec, memory=memory)
        return gz.open(path)

    for memory in ("1MB", "1GB"):
        store = ingest(tmp_path / memory, ends, memory)
        for r in "rs":
            g = store.graph((types[0], r, types[1]))
            order = np.lexsort((edges[0], edges[1]))
            assert np.array_equal(g.indices, edges[0][order])
            assert np.array_equal(
                np.diff(np.asarray(g.indptr).astype(int)), np.bincount(edges[1], minlength=500)
            )
    wrong = [e.copy() for e in ends]
    wrong[1][-1] = "nobody" if text else -5
    with pytest.raises(
        gz.InputError, match=r"edge 149999: its destination ('nobody'|-5) is not among the nodes"
    ):
        ingest(tmp_path / "wrong", wrong, "1MB")
