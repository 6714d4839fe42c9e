"""Nothing of the engine outlives its last user, and processes that end while it is in use end in silence."""

import subprocess
import sys

import pytest

import gz

MAKE = """
import gc, sys, threading, time
import gz
def use():
    store = gz.open(sys.argv[1])
    graph = store.graph()
    return store, graph, graph.sample([1, 2], [3]), store.feature("x").get_tensor(), graph.indices
"""
# How a script ends, with engine objects still held somewhere.
ENDS = {
    "in its globals": "held = use()",
    "in a cycle": "held = []\nheld.append((held, use()))\ndel held",
    "in an error that was kept": """
def fail():
    held = use()
    raise ValueError
try:
    fail()
except ValueError as e:
    kept = e
""",
    "in a frame that exits": "def leave():\n    held = use()\n    sys.exit()\nleave()",
    "in a cache": "import functools\ncached = functools.cache(use)\ncached()",
    "in a class and a thread's locals": "class C:\n    held = use()\nt = threading.local()\nt.held = use()",
}
DAEMON = """
def wait(held):
    ready.set()
    time.sleep(1000)
ready = threading.Event()
threading.Thread(target=wait, args=[use()], daemon=True).start()
ready.wait()
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("exit") / "store"
    gz.ingest(path, edges=([0, 1, 2], [1, 2, 0]), features={"x": [[1.0], [2.0], [3.0]]}, progress=False)
    return path


def run(code, *args):
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_no_object_of_the_engine_is_alive_after_exit(store, end):
    result = run("from gz import _engine\n_engine.set_leak_warnings(True)" + MAKE + end, store)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_daemon_thread_keeps_objects_alive_and_nothing_is_said_of_it(store):
    told = run("from gz import _engine\n_engine.set_leak_warnings(True)" + MAKE + DAEMON, store)
    assert "nanobind: leaked" in told.stderr  # so the test above could have seen one
    result = run(MAKE + DAEMON, store)
    assert (result.returncode, result.stderr) == (0, "")
