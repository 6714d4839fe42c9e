"""What is not in memory: the same rows and the same samples as if it were, and memory divided as promised.

Files are put out of the page cache by posix_fadvise, which needs no rights. Where the filesystem keeps them
all the same (tmpfs), tests that need cold files skip.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from graphs import random_edges
from waits import PATIENCE, ended

import gz
from gz import _engine
from gz._base import memory_plan as _plan
from gz._base.memory_plan import AUTO, Part, Share


def evict(path) -> None:
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def column(folder, array, cache, name="x") -> gz.FeatureStore:
    path = folder / f"{name}.gd"
    writer = _engine.ColumnWriter(str(path), array.dtype.name, list(array.shape[1:]))
    writer.append(array.reshape(-1).view(np.uint8))
    writer.finish()
    fs = gz.FeatureStore(path, cache, _share=Share(cache=_plan.parse_cache(cache) or 0))
    evict(path)
    if fs._file.resident_bytes() > fs.nbytes // 2:
        pytest.skip(f"{folder} keeps files in memory")
    return fs


def rows(n=20_000, width=128, dtype="float32") -> np.ndarray:
    return np.random.default_rng(0).integers(0, 100, (n, width)).astype(dtype)


@pytest.mark.parametrize("cache", [0, "1MB", "100MB", 1, 600])
@pytest.mark.parametrize(
    ("width", "dtype"), [(128, "float32"), (128, "float16"), (33, "float64"), (1, "int64")]
)
def test_cold_rows_equal_the_files(cache, width, dtype, tmp_path):
    array = rows(width=width, dtype=dtype)
    fs = column(tmp_path, array, cache)
    rng = np.random.default_rng(1)
    for _ in range(4):
        ids = rng.integers(0, len(array), 3000)
        np.testing.assert_array_equal(fs.gather(ids), array[ids])
        evict(fs.path)
    stats = fs.stats()
    assert stats["reads"] > 0
    assert stats["bytes_read"] > 0


def test_rows_smaller_than_a_block_are_read_by_the_block(tmp_path):
    """Reads of 512 bytes are several times slower on some disks (docs/design.md)."""
    fs = column(tmp_path, rows(), 0)
    try:
        os.close(os.open(fs.path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip(f"{tmp_path} has no direct reads")
    fs.gather(np.arange(0, 20_000, 64))  # 32 KiB apart: none is joined with another
    stats = fs.stats()
    assert stats["reads"] == 313
    assert stats["bytes_read"] == 313 * 4096


def test_rows_asked_for_again_come_from_the_cache(tmp_path):
    array = rows()
    fs = column(tmp_path, array, "100MB")
    ids = np.random.default_rng(1).permutation(len(array))[:5000]
    for _ in range(3):
        np.testing.assert_array_equal(fs.gather(ids), array[ids])
        evict(fs.path)
    stats = fs.stats()
    assert stats["misses"] == 5000
    assert stats["hits"] == 10_000
    assert stats["cached_rows"] == 5000


def test_the_cache_keeps_to_its_budget(tmp_path):
    array = rows(60_000)
    fs = column(tmp_path, array, "4MB")
    for seed in range(5):
        fs.gather(np.random.default_rng(seed).integers(0, len(array), 20_000))
        evict(fs.path)
    stats = fs.stats()
    assert stats["cache_bytes"] <= 4_000_000
    assert stats["cached_rows"] == stats["cache_rows"] > 4_000_000 // 600


def test_a_scan_does_not_push_out_what_is_hot(tmp_path):
    array = rows(60_000)
    fs = column(tmp_path, array, "4MB")
    hot = np.arange(0, 60_000, 30)  # 2,000 rows, 1 MB
    for at in range(0, 60_000, 2000):
        fs.gather(hot)
        evict(fs.path)
        fs.gather(np.arange(at, at + 2000))
        evict(fs.path)
    before = fs.stats()["hits"]
    fs.gather(hot)
    assert fs.stats()["hits"] - before > 0.9 * len(hot)


def test_a_bad_id_is_refused_before_anything_is_read(tmp_path):
    fs = column(tmp_path, rows(), "1MB")
    out = np.full((3, 128), 7, np.float32)
    with pytest.raises(IndexError, match="20000"):
        fs.gather([1, 20_000, 2], out=out)
    assert (out == 7).all()
    assert fs.stats()["reads"] == 0


def test_threads_gather_at_once(tmp_path):
    array = rows()
    fs = column(tmp_path, array, "2MB")
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(8):
            ids = rng.integers(0, len(array), 2000)
            if not np.array_equal(fs.gather(ids), array[ids]):
                wrong.append(seed)
            evict(fs.path)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    ended(threads)
    assert not wrong


def _gather_in_child(fs, seed, queue):
    ids = np.random.default_rng(seed).integers(0, len(fs), 2000)
    evict(fs.path)
    queue.put((ids, np.array(fs.gather(ids))))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_process_reads_on_its_own(method, tmp_path):
    array = rows()
    fs = column(tmp_path, array, "2MB")
    fs.gather(np.arange(1000))
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    workers = [context.Process(target=_gather_in_child, args=(fs, s, queue)) for s in range(2)]
    for w in workers:
        w.start()
    for _ in workers:
        ids, got = queue.get(timeout=PATIENCE)
        np.testing.assert_array_equal(got, array[ids])
    for w in workers:
        w.join(PATIENCE)
        assert w.exitcode == 0


def test_a_column_pickles_with_its_cache(tmp_path):
    fs = column(tmp_path, rows(), "2MB")
    assert pickle.loads(pickle.dumps(fs))._cache == "2MB"


@pytest.mark.parametrize("io", ["ring", "threads", "map"])
def test_every_way_of_reading_gives_the_same_rows(io, tmp_path):
    array = rows()
    fs = column(tmp_path, array, 0)
    code = """
import sys, numpy as np, gz
from gz import _engine
fs = gz.FeatureStore(sys.argv[1], 0)
ids = np.random.default_rng(3).integers(0, len(fs), 3000)
np.save(sys.argv[2], fs.gather(ids))
print(_engine.read_path().path, fs.stats()["reads"])
"""
    out = tmp_path / "out.npy"
    run = subprocess.run(
        [sys.executable, "-c", code, fs.path, str(out)],
        env=os.environ | {"GZ_IO": io},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    path, reads = run.stdout.split()
    if io == "ring" and path == "threads":
        pytest.skip("the kernel forbids io_uring")
    assert path == io
    assert (int(reads) == 0) == (io == "map")
    ids = np.random.default_rng(3).integers(0, len(array), 3000)
    np.testing.assert_array_equal(np.load(out), array[ids])


def test_a_file_that_may_be_held_is_loaded_in_the_background(tmp_path):
    array = rows(60_000)
    fs = column(tmp_path, array, 0)
    fs._file.configure(0, True)
    rng = np.random.default_rng(0)
    for _ in range(200):
        ids = rng.integers(0, len(array), 1000)
        np.testing.assert_array_equal(fs.gather(ids), array[ids])
        if fs._file.resident_bytes() >= fs.nbytes:
            break
        time.sleep(0.05)
    assert fs._file.resident_bytes() >= fs.nbytes
    before = fs.stats()["reads"]
    fs.gather(rng.integers(0, len(array), 1000))
    assert fs.stats()["reads"] == before


# ---- topology ----


@pytest.mark.parametrize("fanouts", [[15, 10, 5], [-1, 2], [3, 3, 3, 3]])
@pytest.mark.parametrize("replace", [False, True])
def test_samples_of_a_cold_topology_are_those_of_a_warm_one(fanouts, replace, tmp_path):
    edges = random_edges(40_000, 600_000)
    weights = np.random.default_rng(0).random(600_000).astype(np.float32)
    gz.ingest(
        tmp_path / "g",
        edges=(edges.src, edges.dst),
        num_nodes=40_000,
        edge_features={"w": weights},
        keep_edge_ids=True,
    )
    graph = gz.open(tmp_path / "g").graph()
    seeds = np.random.default_rng(1).integers(0, 40_000, 300)
    warm = graph.sample(seeds, fanouts, replace=replace, rng_seed=5)
    warm = graph.sample(seeds, fanouts, replace=replace, rng_seed=5)
    del graph
    cold_graph = gz.open(tmp_path / "g").graph()
    evict(cold_graph.path)
    cold = cold_graph.sample(seeds, fanouts, replace=replace, rng_seed=5)
    for field in ("nodes", "src", "dst", "edge_ids", "edge_rows"):
        np.testing.assert_array_equal(getattr(cold, field), getattr(warm, field))
    assert cold_graph.stats()["reads"] > 0


@pytest.mark.parametrize("weighted", [False, True])
def test_walks_and_fanouts_of_a_cold_topology_are_those_of_a_warm_one(weighted, tmp_path):
    edges = random_edges(40_000, 600_000)
    lines = np.stack([edges.src, edges.dst, np.random.default_rng(0).integers(0, 9, 600_000)], axis=1)
    np.savetxt(tmp_path / "edges.csv", lines if weighted else lines[:, :2], fmt="%d", delimiter=",")
    path = tmp_path / "g.gl"
    gz.convert_csv_to_gl(tmp_path / "edges.csv", path)
    starts = np.random.default_rng(1).integers(0, 39_000, 3000)
    calls = (
        lambda g: g.batch_random_walk(starts, 8, rng_seed=3),
        lambda g: g.batch_random_walk(starts, 8, p=4.0, q=0.5, rng_seed=3),
        lambda g: g.batch_random_walk(starts, 8, p=0.1, q=2.0, rng_seed=3),
        lambda g: g.batch_random_fanout(starts, 4, rng_seed=3),
        lambda g: g.batch_random_fanout(starts, 4, replace=True, rng_seed=3),
    )
    for call in calls:
        first, graph = gz.Graph(path), gz.Graph(path)
        for g in (first, graph):
            g._topology.allow_loading(False)  # or a thread would bring in what is evicted
        warm = call(first)
        del first, g
        evict(path)
        np.testing.assert_array_equal(call(graph), warm)
        assert graph.stats()["reads"] > 0


@pytest.mark.parametrize("neighbor_order", ["id", "input"])
def test_questions_about_edges_of_a_cold_topology_are_answered_as_of_a_warm_one(neighbor_order, tmp_path):
    edges = random_edges(40_000, 600_000)
    gz.ingest(
        tmp_path / "g",
        edges=(edges.src, edges.dst),
        num_nodes=40_000,
        neighbor_order=neighbor_order,
    )
    rng = np.random.default_rng(1)
    positions, chosen = rng.integers(0, 600_000, 2000), rng.permutation(40_000)[:4000]
    pairs = (
        np.concatenate([edges.dst[:1000], rng.integers(0, 40_000, 1000)]),
        np.concatenate([edges.src[:1000], rng.integers(0, 40_000, 1000)]),
    )

    def subgraph(topology):
        edge_type = _engine.SubgraphEdgeType(topology, 0, 0)
        found = _engine.subgraph_edges([40_000], [edge_type], [chosen])[0]
        return found.frontier, found.neighbour, found.positions

    def induced(topology):
        found = _engine.induced_edges(topology, chosen, chosen)
        return found.neighbour, found.frontier, found.rows

    def ends(topology):
        found = _engine.locate_edges(topology, positions)
        return found.grouped, found.neighbour

    calls = (
        ends,
        lambda t: (_engine.match_edges(t, *pairs),),
        subgraph,
        induced,
    )
    for call in calls:
        first, graph = (gz.open(tmp_path / "g").graph() for _ in range(2))
        for g in (first, graph):
            g._topology.allow_loading(False)  # or a thread would bring in what is evicted
        warm = call(first._topology)
        path = graph.path
        del first, g
        evict(path)
        for cold, expected in zip(call(graph._topology), warm, strict=True):
            np.testing.assert_array_equal(cold, expected)
        assert graph.stats()["reads"] > 0


def test_of_a_topology_that_is_half_in_memory_the_other_half_is_read(tmp_path):
    edges = random_edges(40_000, 600_000)
    gz.ingest(tmp_path / "g", edges=(edges.src, edges.dst), num_nodes=40_000)
    seeds = np.arange(0, 40_000, 4)
    warm = gz.open(tmp_path / "g").graph().sample(seeds, [-1], rng_seed=1)
    read = []
    for _ in range(5):  # the kernel may drop any page at any time
        graph = gz.open(tmp_path / "g").graph()
        graph._topology.allow_loading(False)  # or a thread would bring in what is evicted
        size = os.path.getsize(graph.path)
        evict(graph.path)
        with open(graph.path, "rb") as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            f.read(size // 2)
        half = graph.sample(seeds, [-1], rng_seed=1)
        read.append(graph.stats()["bytes_read"])
        np.testing.assert_array_equal(half.nodes, warm.nodes)
        np.testing.assert_array_equal(half.src, warm.src)
        if 0 < read[-1] < size * 0.6:
            return
        del graph
    pytest.fail(f"{read} bytes were read of a file of {size}, half of which was in memory")


# ---- who gets the memory; how much of it a row cache has is up to the governor (test_governor.py) ----


G = 1 << 30


def test_topology_comes_first_then_small_rows():
    parts = [Part("x", 100 * G, 512), Part("y", 10 * G, 8), Part("g", 40 * G)]
    shares = _plan.divide(parts, None, free=100 * G)  # 65 to give away
    assert shares["g"] == Share(held=True)
    assert shares["y"] == Share(held=True)
    assert shares["x"] == Share(cache=AUTO)


def test_all_that_fits_is_held():
    parts = [Part("x", 100 * G, 512), Part("y", 10 * G, 8), Part("g", 40 * G)]
    assert all(share.held for share in _plan.divide(parts, None, free=1000 * G).values())


def test_a_topology_that_does_not_fit_is_not_held():
    shares = _plan.divide([Part("x", 1000 * G, 512), Part("g", 400 * G)], None, free=100 * G)
    assert shares == {"g": Share(), "x": Share(cache=AUTO)}


def test_a_given_cache_is_what_large_columns_share():
    parts = [Part("a", 300 * G, 512), Part("b", 100 * G, 512), Part("g", G)]
    shares = _plan.divide(parts, 4 * G, free=10 * G)
    assert (shares["a"].cache, shares["b"].cache) == (3 * G, G)
    assert _plan.divide(parts, 0, free=10 * G)["a"] == Share()


def test_a_column_that_turns_out_not_to_fit_has_a_cache_in_reserve():
    parts = [Part("a", 3 * G, 512), Part("b", G, 512)]
    shares = _plan.divide(parts, 4 * G, free=100 * G)
    assert shares == {"a": Share(True, 3 * G), "b": Share(True, G)}


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4 * 10**9), ("512 MiB", 512 << 20), ("1.5g", 1_500_000_000), (0, 0), (7, 7)]
)
def test_cache_sizes_as_people_write_them(text, size):
    assert _plan.parse_cache(text) == size
    assert _plan.parse_cache("auto") is None


@pytest.mark.parametrize("bad", ["many", "-1", -1, True, 1.5, "4iB", None])
def test_a_cache_that_is_no_size_is_refused(bad, tmp_path):
    gz.ingest(tmp_path / "g", edges=([0], [1]))
    with pytest.raises(ValueError, match="cache is"):
        gz.open(tmp_path / "g", cache=bad)


def test_a_store_says_what_it_does(tmp_path):
    gz.ingest(tmp_path / "g", edges=([0, 1], [1, 2]), features={"x": np.ones((3, 4), np.float32)})
    store = gz.open(tmp_path / "g", cache="1MB")
    assert set(store.memory_plan().values()) == {"held in memory"}
    store.feature("x").gather([0, 1])
    store.graph().sample([0], [2])
    stats = store.stats()
    assert len(stats) == 2
    assert next(s for f, s in stats.items() if f.endswith("x.gd"))["mapped"] == 2
