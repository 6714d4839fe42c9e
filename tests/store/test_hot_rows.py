"""gz.reorder: the rows that training reads most lie in front, and nothing else about a store changes."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import forge
import numpy as np
import pytest
from waits import PATIENCE, in_child

import gz
from gz._base import memory_plan
from gz._base.memory_plan import AUTO, Part, Share, divide
from gz._base.progress import Progress
from gz._hot import rank, rows
from gz.cli import main
from gz.verify import verify

N, E, WIDTH = 6000, 40_000, 64


@pytest.fixture(scope="module")
def graph():
    """(src, dst, x, seeds): few nodes stand in most lists."""
    rng = np.random.default_rng(3)
    src = rng.permutation(N)[(rng.random(E) ** 4 * N).astype(np.int64)]
    return src, rng.integers(0, N, E), rng.standard_normal((N, WIDTH)).astype(np.float32), np.arange(0, N, 10)


@pytest.fixture
def store(graph, tmp_path) -> Path:
    src, dst, x, seeds = graph
    y = np.arange(N)
    gz.ingest(tmp_path / "s", edges=(src, dst), features={"x": x, "y": y}, splits={"train": seeds})
    return tmp_path / "s"


def entry(store: Path) -> dict:
    return json.loads((store / "store.json").read_text())["nodes"]["node"]["columns"]["x"]


def files(store: Path) -> set[str]:
    return {str(p.relative_to(store)) for p in store.rglob("*") if p.is_file() and p.name != ".lock"}


def in_front(store: Path) -> np.ndarray:
    return gz.FeatureStore(store / entry(store)["hot"]["ids"]).get_tensor()


def evict(path: Path) -> None:
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cold(store: Path, monkeypatch, free: int) -> gz.FeatureStore:
    """Column x where `free` bytes are said to be free, and none of it in memory."""
    monkeypatch.setattr(memory_plan, "free_ram", lambda: free)
    column = gz.open(store, cache=0).feature("x")
    evict(store / "nodes/node/x.gd")
    if column._file.resident_bytes() > column.nbytes // 2:
        pytest.skip(f"{store} keeps files in memory")
    return column


# ---- which rows ----


def test_rows_in_front_are_those_that_are_sampled_most(graph, store, monkeypatch):
    """Each seed a batch, all neighbours: numpy counts in how many batches a node is."""
    src, dst, _, seeds = graph
    monkeypatch.setattr(rank, "_BATCH", 1)
    assert gz.reorder(store, "x", share=0.05, fanouts=[-1]) == {"node/x": N // 20}
    pairs = np.unique(np.stack([src, dst])[:, np.isin(dst, seeds) & (src != dst)], axis=1)
    count = np.bincount(pairs[0], minlength=N) + np.bincount(seeds, minlength=N)
    assert in_front(store).tolist() == np.lexsort((np.arange(N), -count))[: N // 20].tolist()


@pytest.mark.parametrize("seeds", [None, np.zeros(0, np.int64)])
def test_without_seeds_they_are_those_that_stand_in_most_lists(graph, store, seeds):
    assert gz.reorder(store, "x", share=0.1, seeds=seeds) == {"node/x": N // 10}
    count = np.bincount(graph[0], minlength=N)
    assert in_front(store).tolist() == np.lexsort((np.arange(N), -count))[: N // 10].tolist()


def test_no_row_is_in_front_that_was_never_sampled(graph, store):
    found = gz.reorder(store, share=1.0, fanouts=[2], seeds=np.array([7, 8]))
    nodes = gz.open(store).graph().sample([7, 8], [-1]).nodes
    assert found["node/x"] <= 6
    assert set(in_front(store).tolist()) <= set(nodes.tolist())


def test_counts_that_do_not_fit_into_memory_give_the_same(store, tmp_path):
    gz.reorder(store, seeds=None)
    first = in_front(store).copy()
    counts = rank.counter(N, 1 << 10, tmp_path, stack := ExitStack())
    with stack:
        assert isinstance(counts, np.memmap)
        rank.degrees(gz.open(store), {"node": counts}, Progress(False))
        assert rank.most_read(counts, 0.125, 1 << 30).tolist() == first.tolist()


def test_several_node_types_each_have_their_rows(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 500, 3000), rng.integers(0, 300, 3000)
    x = {t: rng.random((n, 40), dtype=np.float32) for t, n in (("a", 500), ("b", 300))}
    nodes = {t: {"features": {"x": values}} for t, values in x.items()}
    nodes["b"]["splits"] = {"train": np.arange(50)}
    gz.ingest(
        tmp_path / "s", spec={"nodes": nodes, "edges": {("a", "to", "b"): (a, b), ("b", "back", "a"): (b, a)}}
    )
    assert set(gz.reorder(tmp_path / "s", share=0.2)) == {"a/x", "b/x", ("a", "to", "b"), ("b", "back", "a")}
    assert gz.reorder(tmp_path / "s", "x", "b", share=0.1) == {"b/x": 30}
    with pytest.raises(ValueError, match="say which"):
        gz.reorder(tmp_path / "s", "x")
    assert [e for _, e in verify(tmp_path / "s") if e is not None] == []


# ---- reading ----


def test_rows_that_memory_has_no_place_for_come_from_in_front(graph, store, monkeypatch):
    x = graph[2]
    gz.reorder(store, share=0.2)
    column = cold(store, monkeypatch, x.nbytes)  # room for 65 % of it: not for all, but for what is in front
    assert len(column._hot) == 2
    front, end = in_front(store), time.monotonic() + PATIENCE
    while column.stats()["hot"] < len(front):  # they are read in the background
        assert time.monotonic() < end
        ids = np.random.default_rng().integers(0, N, 3000)
        np.testing.assert_array_equal(column.gather(ids), x[ids])
        evict(store / "nodes/node/x.gd")
    np.testing.assert_array_equal(column.gather(front), x[front])
    assert len(front) <= column.stats()["hot"] <= column.stats()["mapped"]
    again = pickle.loads(pickle.dumps(column))
    assert len(again._hot) == 2
    np.testing.assert_array_equal(again.gather(front), x[front])
    with pytest.raises(IndexError):
        column.gather([N])
    told = pickle.dumps(column)
    gz.reorder(store, undo=True)
    without = pickle.loads(told)
    assert without._hot == []
    np.testing.assert_array_equal(without.gather(front), x[front])
    np.testing.assert_array_equal(column.gather(front), x[front])  # who has them open keeps them


def test_tiers_are_used_from_the_first_as_far_as_they_fit(graph, store, monkeypatch):
    monkeypatch.setattr(rows, "_TIER_BYTES", 1)
    gz.reorder(store, share=0.5, seeds=None)
    sizes = [len(gz.FeatureStore(store / f)) for f in entry(store)["hot"]["rows"]]
    assert len(sizes) == 32
    assert sum(sizes) == len(in_front(store))
    topology = (store / "edges/node__to__node/in.gl").stat().st_size
    room = topology + N * 8 + 4096 + 5 * (sizes[0] * WIDTH * 4 + 4096)
    column = cold(store, monkeypatch, int((room + 5000) / 0.65))
    assert (len(column._hot), column._hot_held) == (1 + 32, 5)
    again = pickle.loads(pickle.dumps(column))
    assert (len(again._hot), again._hot_held) == (1 + 32, 5)
    ids, x = np.arange(N), graph[2]
    for _ in range(5):
        np.testing.assert_array_equal(column.gather(ids), x)
        evict(store / "nodes/node/x.gd")


def test_rows_of_tiers_that_are_not_held_are_read_from_there_in_fewer_reads(tmp_path, monkeypatch):
    """A third of those in a tier, as a batch wants them: side by side there, among others in the column."""
    n, rng = 10 * N, np.random.default_rng(4)
    x = rng.standard_normal((n, WIDTH)).astype(np.float32)
    src, store = rng.permutation(n)[: n // 6], tmp_path / "s"
    gz.ingest(store, edges=(src, src[::-1]), features={"x": x}, num_nodes=n)
    monkeypatch.setattr(rows, "_TIER_BYTES", 1)
    monkeypatch.setattr(rows, "_TIERS", 2)
    assert gz.reorder(store, "x", seeds=None) == {"node/x": n // 8}
    held, rest = np.split(in_front(store).astype(np.int64), 2)
    assert set(rest) < set(src)
    wanted = rng.permutation(rest)[: len(rest) // 3]
    room = (store / "edges/node__to__node/in.gl").stat().st_size + 1.5 * len(held) * WIDTH * 4

    def reads() -> int:
        for tier in store.glob("nodes/node/x-hot-*"):
            evict(tier)
        column = cold(store, monkeypatch, int(room / 0.65))
        assert column._hot_held == (1 if column._hot else 0)
        np.testing.assert_array_equal(column.gather(wanted), x[wanted])
        assert column.stats()["misses"] == len(wanted)
        return column.stats()["reads"]

    found = reads()
    gz.reorder(store, "x", undo=True)
    assert 0 < found < reads() / 2


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_a_column_stored_smaller_has_rows_in_front_for_as_many_bytes(graph, dtype, tmp_path, monkeypatch):
    x = np.tile(graph[2], 4)  # 256 values
    stored = {"float16": 512, "int8": 260}[dtype]
    gz.ingest(tmp_path / "s", edges=graph[:2], features={"x": x}, dtype={"x": dtype}, num_nodes=N)
    assert gz.reorder(tmp_path / "s", "x", share=0.05, seeds=None)["node/x"] == int(0.05 * 1024 / stored * N)
    assert in_front(tmp_path / "s")[0] == np.bincount(graph[0], minlength=N).argmax()
    read = len(np.unique(graph[0]))  # no row that nobody reads, and no more than can be ranked
    assert gz.reorder(tmp_path / "s", "x", share=0.9, seeds=None)["node/x"] == read
    monkeypatch.setattr("gz._hot.parse_memory", lambda _: 48 * N // 15)
    assert gz.reorder(tmp_path / "s", "x", share=0.05, seeds=None)["node/x"] == N // 15


def test_rows_that_are_small_on_the_disk_are_not_put_in_front(graph, tmp_path):
    """int8 of 64 values has 68 bytes, and is read by the page."""
    gz.ingest(tmp_path / "s", edges=graph[:2], features={"x": graph[2]}, dtype={"x": "int8"}, num_nodes=N)
    with pytest.raises(ValueError, match="less than 128 bytes"):
        gz.reorder(tmp_path / "s", "x", seeds=None)


def test_what_is_in_front_is_held_after_whole_files_and_never_beside_its_column():
    parts = [Part("g", 100), Part("x", 1000, 512), Part("x0", 50, 512, "x"), Part("x1", 50, 512, "x")]
    parts.append(Part("x2", 50, 512, "x"))
    shares = divide(parts, None, int(230 / 0.65) + 1)
    assert {k for k, s in shares.items() if s.held} == {"g", "x0", "x1"}
    assert shares["x"] == Share(False, AUTO)
    shares = divide(parts, None, int(1120 / 0.65) + 1)
    assert {k for k, s in shares.items() if s.held} == {"g", "x"}
    parts[0] = Part("g", 400)  # the topology is read, too: most of the room is for that
    assert {k for k, s in divide(parts, None, 500).items() if s.held} == {"x0", "x1"}
    assert {k for k, s in divide(parts, None, 399).items() if s.held} == set()


# ---- what stays ----


def test_ids_tensors_exports_and_checks_stay_what_they_were(graph, store, tmp_path):
    x = graph[2]
    before = (store / "nodes/node/x.gd").read_bytes()
    gz.reorder(store)
    assert (store / "nodes/node/x.gd").read_bytes() == before
    s = gz.open(store)
    np.testing.assert_array_equal(s.feature("x").get_tensor(), x)
    assert [e for _, e in verify(store) if e is not None] == []
    gz.export(store, tmp_path / "out", "npy")
    np.testing.assert_array_equal(np.load(next((tmp_path / "out").rglob("x.npy"))), x)
    gz.ingest(tmp_path / "s", edges=graph[:2], features={"x": x}, overwrite=True)  # its files are known
    assert "hot" not in entry(store)


def test_undone_replaced_and_removed_columns_leave_nothing_behind(graph, store):
    plain = files(store)
    gz.reorder(store)
    gz.reorder(store, share=0.01)  # again: the old ones go
    assert len(files(store) - plain) == 2 + 3  # of rows and of lists
    assert gz.reorder(store, undo=True) == {"node/x": 0, ("node", "to", "node"): 0}
    assert files(store) == plain
    gz.reorder(store, "x")
    gz.add(store, {"x": graph[2] + 1}, replace=True)
    assert "hot" not in entry(store)
    assert len(files(store)) == len(plain)
    gz.reorder(store, "x")
    gz.open(store).remove_feature("x")
    assert files(store) < plain


def test_a_failure_leaves_the_store_as_it_was(store, monkeypatch):
    before, text = files(store), (store / "store.json").read_text()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rows, "_tiers", full)
    with pytest.raises(OSError, match="No space"):
        gz.reorder(store)
    assert files(store) == before
    assert (store / "store.json").read_text() == text


# Where a run is killed: when it calls this.
KILLS = {
    "while it counts": ("gz._hot", "sampled"),
    "before rows are written": ("gz._hot.rows", "_rows"),
    "while they are": ("gz._hot.rows", "_tiers"),
    "before they are named": ("gz._hot.publish", "set_hot"),
    "when some have their names": ("gz.manifest", "write"),
}


@pytest.mark.parametrize("first", [False, True], ids=["plain", "with rows in front already"])
@pytest.mark.parametrize("where", KILLS)
def test_a_killed_run_leaves_the_store_sound_and_is_run_again(graph, store, where, first, tmp_path):
    """As if it had never been: what it left goes with the next run, which gives what one alone gives."""
    shutil.copytree(store, tmp_path / "other")
    gz.reorder(tmp_path / "other", share=0.2)
    if first:
        gz.reorder(store, share=0.01)
    text, before = (store / "store.json").read_text(), files(store)
    module, name = KILLS[where]

    def die(*_, **__) -> None:
        (tmp_path / "dead").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    def killed() -> None:
        setattr(sys.modules[module], name, die)
        gz.reorder(store, share=0.2)

    assert not in_child(killed)
    assert (tmp_path / "dead").exists()
    assert (store / "store.json").read_text() == text
    assert before <= files(store)
    assert [e for _, e in verify(store) if e is not None] == []
    np.testing.assert_array_equal(gz.open(store).feature("x").gather(np.arange(N)), graph[2])
    gz.reorder(store, share=0.2)
    np.testing.assert_array_equal(in_front(store), in_front(tmp_path / "other"))
    assert len(files(store)) == len(files(tmp_path / "other"))  # nothing of the killed one, nor of the first
    assert not list(store.rglob("*.new"))
    assert [e for _, e in verify(store) if e is not None] == []


def test_a_column_that_is_replaced_meanwhile_is_not_given_rows_of_the_old_one(graph, store, monkeypatch):
    tiers = rows._tiers

    def slow(*args):
        done = tiers(*args)
        gz.add(store, {"x": graph[2] * 2}, replace=True)
        return done

    monkeypatch.setattr(rows, "_tiers", slow)
    with pytest.raises(OSError, match="was replaced while its rows were read"):
        gz.reorder(store)
    assert "hot" not in entry(store)
    np.testing.assert_array_equal(gz.open(store).feature("x").get_tensor(), graph[2] * 2)


def test_what_cannot_gain_from_it_is_said_to(store, tmp_path):
    with pytest.raises(ValueError, match="less than 128 bytes"):
        gz.reorder(store, "y")
    with pytest.raises(KeyError, match="no column 'z'"):
        gz.reorder(store, "z")
    with pytest.raises(KeyError, match="no split 'valid'"):
        gz.reorder(store, seeds="valid")
    for share in (0, -1, 2, "a", True):
        with pytest.raises(ValueError, match="share="):
            gz.reorder(store, share=share)
    np.save(tmp_path / "far.npy", np.zeros((N, 64)))
    gz.add(store, {"far": tmp_path / "far.npy"}, adopt=True)
    with pytest.raises(ValueError, match="adopted"):
        gz.reorder(store, "far")
    with pytest.raises(ValueError, match="allow more"):
        rank.most_read(np.ones(N, np.uint32), 1.0, 100)


def test_a_disk_without_room_is_an_error_before_anything_is_written(store, monkeypatch):
    before = files(store)

    class Full:
        f_bavail, f_frsize = 1, 4096

    monkeypatch.setattr(os, "statvfs", lambda _: Full)
    with pytest.raises(OSError, match="smaller share"):
        gz.reorder(store)
    assert files(store) == before
    assert gz.reorder(store, check_disk=False)["node/x"] > 0


REORDERED = """
import sys
import numpy as np
import gz, gz._hot
def memory(name):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(name))
before = memory("VmRSS")
gz.reorder(sys.argv[1], memory="20MB", fanouts=[5, 5])
print(memory("VmHWM") - before)
"""


@pytest.mark.slow
def test_peak_memory_keeps_to_the_budget(tmp_path):
    """Pages of the column that were mapped, too: they are memory to whoever looks, though the kernel could
    have them back."""
    n, rng = 250_000, np.random.default_rng(0)
    edges = (rng.integers(0, n, 1_000_000), rng.integers(0, n, 1_000_000))
    x = (np.full((n // 50, 128), i, np.float32) for i in range(50))  # 128 MB
    gz.ingest(tmp_path / "s", edges, {"x": x}, splits={"train": np.arange(0, n, 50)}, num_nodes=n)
    command = [sys.executable, "-c", REORDERED, str(tmp_path / "s")]
    done = subprocess.run(command, cwd="/", check=True, capture_output=True, text=True)
    assert len(in_front(tmp_path / "s")) > n // 20
    assert int(done.stdout) < 20e6 + 50e6  # 50: the lists of 6 MB, batches, threads, the arena


# ---- damage ----


def rewrite(path: Path, array: np.ndarray) -> None:
    path.unlink()
    writer = gz._engine.ColumnWriter(str(path), array.dtype.name, list(array.shape[1:]))
    writer.append(np.ascontiguousarray(array))
    writer.finish()


@pytest.mark.parametrize(
    ("which", "change", "says"),
    [
        ("ids", lambda a: np.concatenate([a[1:], a[1:2]]), "one twice"),
        ("ids", lambda a: np.concatenate([[N], a[1:]]).astype(np.int32), f"is {N}, but there are {N}"),
        ("ids", lambda a: a[:-1], "lie in the files"),
        ("ids", lambda a: a.astype(np.float32), "list of int32 or int64"),
        ("rows", lambda a: a + 1, "is not what the column has"),
        ("rows", lambda a: a.astype(np.float64), "the dtype and shape of their column"),
    ],
)
def test_verify_finds_rows_in_front_that_are_not_those_of_the_column(store, which, change, says):
    gz.reorder(store)
    file = entry(store)["hot"][which]
    path = store / (file if which == "ids" else file[0])
    rewrite(path, change(gz.FeatureStore(path).get_tensor().copy()))
    forge.edit_json(store, lambda d: d.pop("files"))
    found = {os.path.relpath(name, store): str(e) for name, e in verify(store) if e is not None}
    assert says in found[str(path.relative_to(store))]


def test_a_damaged_list_of_rows_is_an_error_and_never_a_wrong_row(graph, store, monkeypatch):
    gz.reorder(store, share=0.2)
    path = store / entry(store)["hot"]["ids"]
    ids = gz.FeatureStore(path).get_tensor().copy()
    ids[3] = ids[4]
    rewrite(path, ids)
    forge.edit_json(store, lambda d: d.pop("files"))
    column = cold(store, monkeypatch, graph[2].nbytes)

    def read_until_it_is_used() -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            column.gather(np.arange(N))
            evict(store / "nodes/node/x.gd")

    with pytest.raises(gz.FormatError, match="twice"):
        read_until_it_is_used()


# ---- the command ----


def test_the_commands(graph, tmp_path, capsys):
    src, dst, x, seeds = graph
    np.save(tmp_path / "e.npy", np.stack([src, dst]))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "t.npy", seeds)
    given = [f"--edges={tmp_path}/e.npy", f"--features=x={tmp_path}/x.npy", f"--split=train={tmp_path}/t.npy"]
    assert main(["ingest", str(tmp_path / "s"), *given, "--order", "hot", "--share", "0.01"]) == 0
    said = capsys.readouterr().out
    assert f"node/x, {N // 100} rows in front" in said
    assert re.search(r"node/to/node, \d+ lists\s+in\s+front", said)
    assert main(["reorder", str(tmp_path / "s"), "--fanouts", "3,2", "--share", "0.02", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == {"node/x": N // 50}
    assert told["lists"]["node/to/node"] > 0
    assert main(["reorder", str(tmp_path / "s"), "--undo"]) == 0
    assert main(["reorder", str(tmp_path / "s"), "--fanouts", "a"]) == 2
    assert "hot" not in entry(tmp_path / "s")
