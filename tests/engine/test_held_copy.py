"""Lists held in huge pages: the same samples before, meanwhile and after; only where memory is plentiful;
given back when the script needs it. The container is played (GZ_SYSTEM_ROOT), as in test_governor.py.
"""

from __future__ import annotations

import os
import textwrap

import numpy as np
import pytest
from waits import script

import gz

NODES, EDGES = 300_000, 9_000_000  # lists of 36 MB: above what is worth a copy

PRELUDE = """
import os, sys, threading, time
from pathlib import Path
import numpy as np
import gz
sys.path.insert(0, {tests!r})
from waits import in_child, until

group = Path(os.environ["GZ_SYSTEM_ROOT"]) / "sys/fs/cgroup/job"
GiB = 1 << 30

def container(limit, used):
    for name, value in (("memory.stat", "anon 1\\nactive_file 0\\ninactive_file 0\\n"),
                        ("memory.current", str(used)), ("memory.max", str(limit))):
        part = group / ("part-" + name)
        part.write_text(value)
        part.rename(group / name)

seeds = np.random.default_rng(1).integers(0, {nodes}, (8, 2000))

def draw(graph):
    samples = [graph.sample(s, [10, 5], rng_seed=i) for i, s in enumerate(seeds)]
    return [a.copy() for s in samples for a in (s.nodes, s.src, s.dst, s.edge_ids)]

def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))

def held(graph):
    return graph._topology.stats()["held"]

def drawn_until(graph, happened, what):
    def step():
        assert same(draw(graph), want)
        return happened()
    until(step, what)
"""


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("held") / "store"
    gz.ingest(path, edges=tuple(rng.integers(0, NODES, (2, EDGES), dtype=np.int64)), num_nodes=NODES)
    return path


@pytest.fixture
def played(tmp_path, lists):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/job").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/job\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal: 99000000 kB\nMemAvailable: 90000000 kB\n")

    def run(code: str) -> str:
        start = PRELUDE.format(tests=os.path.dirname(os.path.dirname(__file__)), nodes=NODES)
        with script(
            start + textwrap.dedent(code), lists, env={**os.environ, "GZ_SYSTEM_ROOT": str(tmp_path)}
        ) as process:
            out = process.communicate(timeout=300)[0]
            assert process.returncode == 0, out
        return out

    return run


def test_the_copy_gives_the_same_samples_and_goes_when_memory_is_wanted(played):
    out = played("""
        container(64 * GiB, 1 * GiB)
        graph = gz.open(sys.argv[1]).graph()
        want = draw(graph)
        assert held(graph) == 0
        # Another thread draws all the time, so that the pages change under its hands.
        wrong, end = [], threading.Event()
        def other():
            while not end.is_set():
                if not same(draw(graph), want):
                    wrong.append(1)
        thread = threading.Thread(target=other)
        thread.start()
        drawn_until(graph, lambda: held(graph), "the lists are held")
        print(held(graph))
        assert in_child(lambda: None if same(draw(graph), want) else sys.exit("the child's differ"))
        container(64 * GiB, 64 * GiB - (100 << 20))
        drawn_until(graph, lambda: not held(graph), "the copy is given back")
        end.set()
        thread.join()
        assert not wrong
        print("equal")
    """)
    held, equal = out.split()
    assert int(held) >= EDGES * 4
    assert equal == "equal"


@pytest.mark.slow
def test_a_second_opening_holds_no_second_copy(played):
    out = played("""
        container(64 * GiB, 1 * GiB)
        graph, again = (gz.open(sys.argv[1]).graph() for _ in range(2))
        want = draw(graph)
        drawn_until(graph, lambda: held(graph), "the lists are held")
        end = time.monotonic() + 3
        drawn_until(again, lambda: time.monotonic() > end, "three seconds")
        print(held(again))
    """)
    assert out.split() == ["0"]


@pytest.mark.slow
def test_nothing_is_held_for_who_has_a_budget_of_his_own_until_he_is_done(played):
    out = played("""
        from gz._hot.rank import lists_within
        container(64 * GiB, 1 * GiB)
        store = gz.open(sys.argv[1])
        graph = store.graph()
        want = draw(graph)
        with lists_within(store, 100 << 20):
            end = time.monotonic() + 3
            drawn_until(graph, lambda: time.monotonic() > end, "three seconds")
            print(held(graph))
        drawn_until(graph, lambda: held(graph), "the lists are held")
    """)
    assert out.split() == ["0"]


@pytest.mark.slow
def test_where_memory_is_short_nothing_is_held(played):
    out = played("""
        container(256 << 20, 100 << 20)
        graph = gz.open(sys.argv[1]).graph()
        want = draw(graph)
        end = time.monotonic() + 3
        drawn_until(graph, lambda: time.monotonic() > end, "three seconds")
        print(held(graph))
    """)
    assert out.split() == ["0"]
