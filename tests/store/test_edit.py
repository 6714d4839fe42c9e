"""Columns added to, replaced in and removed from a store that others have open."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from waits import PATIENCE, ended, in_child, script

import gz
from gz._ingest.write.permute import permuted
from gz.verify import verify

N, E = 200, 1500
RNG = np.random.default_rng(0)
SRC, DST = RNG.integers(0, N, (2, E))
EDGE = ("node", "to", "node")


@pytest.fixture
def path(tmp_path):
    gz.ingest(tmp_path / "s", edges=(SRC, DST), features={"x": np.arange(N)}, keep_edge_ids=True)
    return tmp_path / "s"


def sound(path) -> bool:
    checked = list(verify(path))
    return len(checked) > 1 and all(error is None for _, error in checked)


def files(path) -> list[str]:
    return sorted(os.path.relpath(os.path.join(d, f), path) for d, _, fs in os.walk(path) for f in fs)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
def test_a_column_is_added_for_all_who_open_the_store_from_then_on(path, tmp_path, dtype):
    emb = RNG.integers(0, 2, (N, 8)).astype(dtype)
    np.save(tmp_path / "emb.npy", emb)
    store = gz.add(path, {"emb": tmp_path / "emb.npy", "again": emb})
    for opened in (store, gz.open(path)):
        assert np.array_equal(opened.feature("emb").get_tensor(), emb)
        assert np.array_equal(opened.feature("again").get_tensor(), emb)
    assert sound(path)


def test_a_column_of_the_same_name_must_be_replaced_outright(path):
    store = gz.open(path)
    with pytest.raises(FileExistsError, match=r"has a column 'x'; pass overwrite=True \(--overwrite\)"):
        store.add_feature("x", np.zeros(N))
    assert np.array_equal(gz.open(path).feature("x").get_tensor(), np.arange(N))


def test_readers_keep_the_old_column_and_its_file_goes(path):
    reader = gz.open(path)
    lazy = gz.open(path)
    before = reader.feature("x").get_tensor()
    writer = gz.open(path)
    writer.add_feature("x", np.arange(N) * 2.0, overwrite=True)
    assert np.array_equal(before, np.arange(N))
    assert np.array_equal(reader.feature("x").get_tensor(), np.arange(N))
    assert np.array_equal(writer.feature("x").get_tensor(), np.arange(N) * 2.0)
    # One that had not opened it yet finds the new one.
    assert np.array_equal(lazy.feature("x").get_tensor(), np.arange(N) * 2.0)
    assert len([f for f in files(path) if f.startswith("nodes/node/x")]) == 1
    assert sound(path)


def test_a_wrong_number_of_rows_changes_nothing(path):
    before = files(path)
    with pytest.raises(gz.InputError, match="has 3 rows, but there are 200 nodes"):
        gz.add(path, {"y": np.zeros(3)})
    with pytest.raises(gz.InputError, match="has 3 rows, but there are 1500 edges"):
        gz.add(path, {"y": np.zeros(3)}, EDGE, order="stored")
    with pytest.raises(gz.InputError, match="has 1501 rows, but the store was made from 1500 edges"):
        gz.add(path, {"y": np.zeros(E + 1)}, EDGE)
    with pytest.raises(gz.InputError, match="has 1499 rows, but the store was made from 1500 edges"):
        gz.add(path, {"y": np.zeros(E - 1)}, EDGE)
    assert files(path) == before
    assert gz.open(path).node_columns() == ["x"]


@pytest.mark.parametrize("form", ["array", "npy", "csv", "iterator"])
def test_edge_columns_are_given_in_the_original_order(path, tmp_path, form):
    w = RNG.integers(0, 10**6, E)
    value = w
    if form == "npy":
        value = tmp_path / "w.npy"
        np.save(value, w)
    elif form == "csv":
        value = tmp_path / "w.csv"
        np.savetxt(value, w, "%d", header="w", comments="")
    elif form == "iterator":
        value = iter(np.array_split(w, 7))
    store = gz.add(path, {"w": value}, EDGE, memory="1MB")
    sample = store.graph().sample(np.arange(N), [-1])
    assert np.array_equal(store.edge_feature("w").gather(sample.edge_rows), w[sample.edge_ids])
    assert np.array_equal(store.edge_feature("w").get_tensor(), w[store.graph().edge_ids])
    assert sound(path)


@pytest.mark.parametrize("memory", [10_000, 200_000, 10**9])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,)])
@pytest.mark.parametrize("rows", [1, 5000, 20_000])
def test_rows_are_permuted_in_any_memory(tmp_path, memory, shape, rows):
    source = RNG.integers(-(10**9), 10**9, (rows, *shape))
    ids = RNG.integers(-1, rows, 15_000)
    row = np.dtype((np.int64, shape))
    parts = permuted(lambda a, b: source[a:b], rows, lambda a, b: ids[a:b], len(ids), row, tmp_path, memory)
    out = np.concatenate(list(parts))
    expected = source[ids]
    expected[ids < 0] = 0
    assert np.array_equal(out.reshape(expected.shape), expected)
    assert os.listdir(tmp_path) == []


def test_a_column_larger_than_the_budget_is_put_in_order_through_the_disk(tmp_path):
    e = 60_000
    src, dst = RNG.integers(0, N, (2, e))
    gz.ingest(tmp_path / "s", edges=(src, dst), undirected=True, self_loops="add", keep_edge_ids=True)
    w = RNG.random((e, 8))
    np.save(tmp_path / "w.npy", w)
    store = gz.add(tmp_path / "s", {"w": tmp_path / "w.npy"}, EDGE, memory="1MB")
    ids = store.graph().edge_ids.astype(np.int64)
    expected = w[np.minimum(ids, e - 1)]
    expected[ids >= e] = 0
    assert np.array_equal(store.edge_feature("w").get_tensor(), expected)
    assert sound(tmp_path / "s")


def test_reverses_have_the_columns_of_their_edges_and_added_loops_zeros(tmp_path):
    gz.ingest(
        tmp_path / "s", edges=(SRC, DST), undirected=True, self_loops="add", coalesce=True, keep_edge_ids=True
    )
    w = RNG.integers(1, 10**6, E)
    store = gz.add(tmp_path / "s", {"w": w}, EDGE)
    ids = store.graph().edge_ids.astype(np.int64)
    assert (ids >= E).any()
    assert np.array_equal(
        store.edge_feature("w").get_tensor(), np.where(ids < E, w[np.minimum(ids, E - 1)], 0)
    )


def test_without_original_ids_edge_columns_come_as_stored_or_not_at_all(tmp_path):
    gz.ingest(tmp_path / "s", edges=(SRC, DST))
    with pytest.raises(gz.InputError, match="keeps no original edge ids"):
        gz.add(tmp_path / "s", {"w": np.arange(E)}, EDGE)
    store = gz.add(tmp_path / "s", {"w": np.arange(E)}, EDGE, order="stored")
    assert np.array_equal(store.edge_feature("w").get_tensor(), np.arange(E))


def test_an_npy_can_be_adopted(path, tmp_path):
    np.save(tmp_path / "e.npy", np.arange(N))
    store = gz.add(path, {"e": tmp_path / "e.npy"}, adopt=True)
    assert store.feature("e").path == str(tmp_path / "e.npy")
    store.remove_feature("e")
    assert (tmp_path / "e.npy").exists()


def test_a_removed_column_is_gone_from_the_store_and_the_disk(path):
    reader = gz.open(path)
    x = reader.feature("x").get_tensor()
    gz.open(path).remove_feature("x")
    assert gz.open(path).node_columns() == []
    assert not [f for f in files(path) if "/x" in f]
    assert np.array_equal(x, np.arange(N))
    with pytest.raises(KeyError, match="has no column 'x'"):
        gz.open(path).remove_feature("x")


def test_types_of_a_heterogeneous_store_are_named(tmp_path):
    spec = {
        "nodes": {"a": {"num_nodes": 3}, "b": {"num_nodes": 4}},
        "edges": {("a", "r", "b"): ([0, 1], [3, 0])},
    }
    gz.ingest(tmp_path / "s", spec=spec, keep_edge_ids=True)
    store = gz.open(tmp_path / "s")
    with pytest.raises(ValueError, match="name one of the node types"):
        store.add_feature("x", np.zeros(3))
    store.add_feature("x", np.arange(4), "b")
    store.add_feature("w", np.array([10, 20]), ("a", "r", "b"))
    assert store.feature("x", "b").get_tensor().tolist() == [0, 1, 2, 3]
    assert store.edge_feature("w").get_tensor().tolist() == [20, 10]
    with pytest.raises(KeyError, match="no node type 'c'"):
        store.add_feature("x", np.zeros(3), "c")


# ---- columns filled in place ----


def test_an_output_column_is_published_at_the_end_of_its_block(path):
    store = gz.open(path)
    with store.new_column("emb", 4) as column:
        assert column.array.shape == (N, 4)
        assert not column.array.any()
        column.array[np.arange(0, N, 2)] = 1.5
        assert gz.open(path).node_columns() == ["x"]
    expected = np.zeros((N, 4), np.float32)
    expected[::2] = 1.5
    assert np.array_equal(store.feature("emb").get_tensor(), expected)
    assert sound(path)


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "float64", np.float16])
def test_output_columns_of_any_shape_and_dtype(path, shape, dtype):
    with gz.open(path).new_column("c", shape, dtype) as column:
        column.array[...] = 1
    assert gz.open(path).feature("c").shape == (N, *shape)
    assert sound(path)


def test_an_exception_gives_the_output_column_up(path):
    before = files(path)
    with pytest.raises(KeyError), gz.open(path).new_column("emb", 4):
        raise KeyError
    assert files(path) == before


def fill(column, begin, end):
    column.array[begin:end] = np.arange(begin, end)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_fill_an_output_column_together(path, start):
    context = multiprocessing.get_context(start)
    with gz.open(path).new_column("emb", (), "int64") as column:
        workers = [context.Process(target=fill, args=(column, i * 50, i * 50 + 50)) for i in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join(PATIENCE)
            assert w.exitcode == 0
    assert np.array_equal(gz.open(path).feature("emb").get_tensor(), np.arange(N))
    assert sound(path)


def test_only_the_process_that_made_a_column_can_publish_it(path):
    column = gz.open(path).new_column("emb", (), "int64")
    copy = pickle.loads(pickle.dumps(column))
    with pytest.raises(ValueError, match="only the process that made"):
        copy.publish()
    with copy:
        copy.array[:] = 7
    assert column.publish().get_tensor().tolist() == [7] * N


def test_a_forked_child_that_leaves_the_block_publishes_nothing(path):
    with gz.open(path).new_column("emb", (), "int64") as column:

        def child():
            column.__exit__(None, None, None)
            column.abort()

        assert in_child(child)
        assert gz.open(path).node_columns() == ["x"]
        column.array[:] = 1
    assert gz.open(path).feature("emb").get_tensor().tolist() == [1] * N


def test_writers_at_the_same_time_lose_nothing(path):
    def work(i):
        gz.open(path).add_feature(f"c{i}", np.full(N, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(12)]
    for t in threads:
        t.start()
    ended(threads)
    store = gz.open(path)
    assert sorted(store.node_columns()) == sorted(["x", *(f"c{i}" for i in range(12))])
    for i in range(12):
        assert store.feature(f"c{i}").get_tensor()[0] == i


def test_a_killed_writers_column_is_cleaned_up_by_the_next(path):
    before = files(path)
    code = "import sys, time, gz; c = gz.open(sys.argv[1]).new_column('emb', 4)\n"
    code += "print('up', flush=True); time.sleep(1000)"
    with script(code, path) as process:
        assert process.stdout.readline() == "up\n"
        gz.add(path, {"y": np.zeros(N)})
        assert [f for f in files(path) if f.endswith("rows.gd")]  # it lives: left alone
    gz.open(path).remove_feature("y")
    assert files(path) == sorted([*before, ".lock"])


@pytest.mark.slow
def test_the_commands(path, tmp_path):
    np.save(tmp_path / "emb.npy", np.ones((N, 3), np.float32))
    np.save(tmp_path / "w.npy", np.arange(E))

    def gz_command(*args, code=0):
        done = subprocess.run([sys.executable, "-m", "gz", *args], capture_output=True, text=True, cwd="/")
        assert done.returncode == code, done.stderr
        return " ".join((done.stdout + done.stderr).split())

    add = ["add", str(path), "--features", f"emb={tmp_path / 'emb.npy'}"]
    assert gz_command(*add) == f"{path}: emb, float32 200 x 3"
    assert "--overwrite" in gz_command(*add, code=1)
    edge = ["--edge-type", "node,to,node"]
    said = gz_command("add", str(path), *edge, "--features", f"w={tmp_path / 'w.npy'}")
    assert said == f"{path}: w, int64 {E:,}"
    told = gz_command("info", str(path))
    assert " emb float32 200 x 3, 2.4 kB " in told
    assert f" w int64 {E:,}, {E * 8 / 1000:.1f} kB " in told
    assert gz_command("verify", str(path)).endswith(" 4 files, all sound")
    assert gz_command("rm", str(path), "--features", "emb") == f"{path}: emb removed"
    assert gz_command("rm", str(path), *edge, "--features", "w") == f"{path}: w removed"
    assert gz.open(path).node_columns() == ["x"]
    assert gz.open(path).edge_columns() == []
