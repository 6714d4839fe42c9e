"""Store: what it holds, what it refuses, how it travels between processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import threading
import time

import numpy as np
import pytest
import reference
from graphs import community_graph, kite, library, star
from waits import PATIENCE, ended, in_child, until

import gz


@pytest.fixture
def store(tmp_path) -> gz.Store:
    edges = community_graph(3000)
    gz.ingest(
        tmp_path / "s",
        edges=edges.edges,
        features={"x": edges.x, "y": edges.y},
        splits={"train": np.arange(0, 3000, 2)},
        directions="both",
    )
    return gz.open(tmp_path / "s")


def test_a_homogeneous_store_answers_what_it_holds(store):
    assert store.is_homogeneous
    assert store.node_types == ["node"]
    assert store.edge_types == [("node", "to", "node")]
    assert store.num_nodes() == store.num_nodes("node") == 3000
    assert store.num_edges() == store.num_edges(("node", "to", "node")) == store.graph().num_edges == 30_000
    assert store.node_columns() == ["x", "y"]
    assert store.splits() == ["train"]
    np.testing.assert_array_equal(store.split("train"), np.arange(0, 3000, 2))
    assert "3000" in repr(store)
    assert "30000" in repr(store.graph())


def test_a_heterogeneous_store_wants_types_named(tmp_path):
    graph = library()
    spec = {
        "nodes": {
            t: {"num_nodes": n, "features": {"x": np.ones((n, 2))}} for t, n in graph.num_nodes.items()
        },
        "edges": [{"type": list(t), "edges": e} for t, e in graph.edges.items()],
    }
    gz.ingest(tmp_path / "h", spec=spec)
    store = gz.open(tmp_path / "h")
    assert store.node_types == list(graph.num_nodes)
    assert store.edge_types == list(graph.edges)
    assert store.num_nodes("paper") == 5
    assert store.num_nodes() == 10
    for t, (src, _dst) in graph.edges.items():
        assert store.graph(t).num_edges == len(src)
        assert (store.graph(t).num_src, store.graph(t).num_dst) == (
            graph.num_nodes[t[0]],
            graph.num_nodes[t[2]],
        )
    assert store.feature("x", "venue").shape == (2, 2)
    with pytest.raises(ValueError, match="name one of the edge types"):
        store.graph()
    with pytest.raises(ValueError, match="name one of the node types"):
        store.feature("x")
    with pytest.raises(KeyError, match="author"):
        store.feature("x", "book")
    with pytest.raises(ValueError, match=r"two types; use Store\.sample"):
        store.graph(("author", "writes", "paper")).sample([0], [1])


def test_what_is_not_there_is_named_with_what_is(store, tmp_path):
    with pytest.raises(KeyError, match=r"no column 'z'.*\['x', 'y'\]"):
        store.feature("z")
    with pytest.raises(KeyError, match="train"):
        store.split("test")
    with pytest.raises(KeyError, match="ids are dense"):
        store.id_map()
    gz.ingest(tmp_path / "k", edges=kite().edges)
    with pytest.raises(ValueError, match="directions='both'"):
        gz.open(tmp_path / "k").graph(direction="out")
    with pytest.raises(ValueError, match="direction is 'up'"):
        store.graph(direction="up")


def test_opening_what_is_no_store(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such store"):
        gz.open(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="not a gz store"):
        gz.open(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError, match="is a file"):
        gz.open(tmp_path / "file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format="zip"), "not a gz store"),
        (lambda m: m.update(version=9), "store version 9"),
        (lambda m: m["nodes"]["node"].update(num_nodes=-1), "num_nodes is -1"),
        (lambda m: m["edges"][0].update({"in": "../../etc/passwd"}), "not a path inside the store"),
        (lambda m: m["edges"][0].update(type=["a", "b", "c"]), "names node type 'a'"),
        (lambda m: m.pop("nodes"), '"nodes" must be an object'),
    ],
)
def test_a_damaged_manifest_is_refused(change, message, store):
    path = os.path.join(store.path, "store.json")
    data = json.load(open(path))
    change(data)
    json.dump(data, open(path, "w"))
    with pytest.raises(gz.FormatError, match=message):
        gz.open(store.path)


def test_files_that_contradict_the_manifest_are_refused(store):
    path = os.path.join(store.path, "store.json")
    data = json.load(open(path))
    data["nodes"]["node"]["num_nodes"] = 2999
    json.dump(data, open(path, "w"))
    changed = gz.open(store.path)
    with pytest.raises(gz.FormatError, match=r"3000.*store\.json says"):
        changed.graph()
    with pytest.raises(gz.FormatError, match=r"3000 rows.*2999"):
        changed.feature("x")


def _first_edges(store, queue=None):
    sample = store.graph().sample(np.arange(300), [5, 5], rng_seed=4)
    answer = (
        sample.nodes.tolist(),
        sample.edge_ids.tolist(),
        float(store.feature("x").gather(sample.nodes).sum()),
    )
    if queue is None:
        return answer
    queue.put(answer)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_process_samples_the_same(method, store):
    expected = _first_edges(store)  # the parent's threads run before the fork
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    workers = [context.Process(target=_first_edges, args=(store, queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    answers = [queue.get(timeout=PATIENCE) for _ in workers]
    for worker in workers:
        worker.join(PATIENCE)
        assert worker.exitcode == 0
    assert answers == [expected, expected]


def test_fork_while_other_threads_sample(store):
    """A child forked in the middle of other threads' work must not wait for locks nobody will release."""
    stop = threading.Event()
    expected = _first_edges(store)

    def check(answer):
        assert answer == expected

    def work():
        while not stop.is_set():
            check(_first_edges(store))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(10):
            assert in_child(lambda: check(_first_edges(store)))
    finally:
        stop.set()
        ended(threads)


def test_several_python_threads_at_once(store):
    expected = _first_edges(store)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(_first_edges(store))) for _ in range(8)]
    for t in threads:
        t.start()
    ended(threads)
    assert answers == [expected] * 8


@pytest.mark.slow
def test_another_python_thread_runs_while_the_engine_samples(tmp_path):
    """The GIL is released: a counting thread gets on during one long call."""
    gz.ingest(tmp_path / "s", edges=star(2_000_000).edges)
    graph = gz.open(tmp_path / "s").graph()
    ticks, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            ticks[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        until(lambda: ticks[0], "the thread to count")
        before = ticks[0]
        began = time.perf_counter()
        graph.sample(np.zeros(16, np.int64), [-1])
        during, seconds = ticks[0] - before, time.perf_counter() - began
    finally:
        stop.set()
        ended([thread])
    # With the GIL held the count could rise by one switch at most, before or after the call.
    assert during > 5, f"{during} ticks in {seconds:.3f} s"


def test_stores_and_graphs_pickle_by_path(store):
    for thing in (store, store.graph(), store.graph(direction="out")):
        data = pickle.dumps(thing)
        assert len(data) < 1000
        assert pickle.loads(data).path == thing.path
    out = store.graph(direction="out")
    again = pickle.loads(pickle.dumps(out))
    reference.assert_same_sample(again.sample([5, 6], [3]), out.sample([5, 6], [3]))


def test_a_topology_opens_on_its_own(store):
    graph = gz.Graph(store.graph().path)
    reference.assert_same_sample(graph.sample([1, 2], [4, 4]), store.graph().sample([1, 2], [4, 4]))
    assert graph.indptr.dtype == np.int64
    assert graph.indices.dtype == np.uint32
    assert graph.indptr[-1] == graph.num_edges


def test_set_num_threads_checks_its_argument():
    before = gz.num_threads()
    for bad in (0, -1, 5000):
        with pytest.raises(ValueError, match="from 1 to 1024"):
            gz.set_num_threads(bad)
    assert gz.num_threads() == before
