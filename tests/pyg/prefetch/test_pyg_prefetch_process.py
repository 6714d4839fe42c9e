"""prefetch and the process: forks, interrupts, the end of the interpreter."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import warnings

import pytest
import ready
from prefetch_batches import same
from torch_geometric import seed_everything
from waits import PATIENCE, ended, in_child, script

import gz_pyg


@pytest.fixture(autouse=True)
def forks_are_meant():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
        yield


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_a_forked_child_goes_on_where_the_parent_was_and_starts_its_own(homo, depth):
    def loader(d):
        return gz_pyg.NeighborLoader(homo, [3], batch_size=5, shuffle=True, prefetch=d)

    seed_everything(3)
    want = list(loader(0))
    seed_everything(3)
    iterator = iter(loader(depth))
    for _ in range(6):
        next(iterator)

    def child():
        same(want[6:], list(iterator))
        seed_everything(3)
        same(want, list(loader(depth)))

    assert in_child(child)
    same(want[6:], list(iterator))  # the parent is not disturbed


@pytest.mark.slow
def test_forking_while_batches_are_made(homogeneous_path):
    """A lock taken by a thread that the child does not have would hang here."""
    loader = gz_pyg.NeighborLoader(homogeneous_path, [4, 3], batch_size=1, prefetch=4)
    iterator, forks = iter(loader), 0
    for _ in range(30):
        next(iterator)
        assert in_child(lambda: list(gz_pyg.NeighborLoader(homogeneous_path, [4, 3], batch_size=20)))
        forks += 1
    assert len(list(iterator)) == 100 - forks


def test_a_child_that_drops_the_iterator_does_not_wait_for_threads_it_does_not_have(homogeneous):
    box = [iter(gz_pyg.NeighborLoader(homogeneous, [3], batch_size=5, prefetch=4))]
    next(box[0])
    assert in_child(box.clear)


def test_workers_forked_beside_a_running_pipeline(homogeneous_path):
    ahead = iter(gz_pyg.NeighborLoader(homogeneous_path, [3], batch_size=5, prefetch=4))
    next(ahead)
    for _ in range(3):
        next(ahead)
        assert len(list(gz_pyg.NeighborLoader(homogeneous_path, [3], batch_size=25, num_workers=2))) == 4
    assert len(list(ahead)) == 16


def test_a_fork_from_another_thread(homogeneous_path):
    loader = gz_pyg.NeighborLoader(homogeneous_path, [3], batch_size=2, prefetch=2)
    done = []

    def fork_often():
        for _ in range(10):
            done.append(in_child(lambda: None))

    thread = threading.Thread(target=fork_often)
    thread.start()
    try:
        while thread.is_alive():
            assert len(list(loader)) == 50
    finally:
        ended([thread])
    assert done == [True] * 10


# What is not closed, and what fails in a destructor, is said on stderr.
IMPORTS = """
import faulthandler, json, os, signal, sys, threading, time, warnings
import torch, gz_pyg
faulthandler.enable()
warnings.simplefilter("default")
warnings.simplefilter("ignore", DeprecationWarning)
"""
LOADER = """
loader = gz_pyg.NeighborLoader(sys.argv[1], [4, 3], batch_size=1, prefetch=4)
"""
# Each ends an interpreter. They are forked from one process: importing torch takes longer than all the rest.
ENDINGS = {
    "global": "iterator = iter(loader); next(iterator)",
    "break": "for batch in loader: break",
    "exit": "iterator = iter(loader); next(iterator); sys.exit(0)",
    "cycle": "keep = [iter(loader) for _ in range(4)]; [next(i) for i in keep]; keep.append(keep)",
    "error": "for batch in loader: raise LookupError('mine')",
}
FORKS = """
codes = {}
for name, program in json.loads(sys.argv[3]).items():
    child = os.fork()
    if child == 0:
        os.dup2(os.open(f"{sys.argv[2]}/{name}.err", os.O_CREAT | os.O_WRONLY), 2)
        break
    codes[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
else:
    print(json.dumps(codes))
    sys.exit()
"""


@pytest.fixture(scope="module")
def endings(homogeneous_path, tmp_path_factory):
    """{name: exit code and what was said of it}"""
    folder = tmp_path_factory.mktemp("endings")
    code = IMPORTS + FORKS + LOADER + "exec(program)"
    done = ready.run(["-c", code, homogeneous_path, folder, json.dumps(ENDINGS)], ready.PYG, cwd="/")
    codes = json.loads(done.stdout)
    return {name: (code, (folder / f"{name}.err").read_text()) for name, code in codes.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["global", "break", "exit", "cycle"])
def test_the_interpreter_ends_in_mid_epoch(endings, name):
    assert endings[name] == (0, "")


@pytest.mark.slow
def test_an_unhandled_error_in_mid_epoch_ends_the_process_as_ever(endings):
    code, err = endings["error"]
    assert code == 1
    assert err.rstrip().endswith("LookupError: mine")


@pytest.mark.slow
def test_an_interrupt_while_waiting_for_a_batch(homogeneous_path):
    """Ctrl-C reaches the main thread although it waits for another one; nothing is lost by it."""
    code = """
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
gate = threading.Event()
original = loader._sample
def slow(index):
    if index.tolist() == [3]:
        while len(seen) < 3:  # an interrupt between two batches is another matter
            time.sleep(0.01)
        print("waiting", flush=True)
        gate.wait()
    return original(index)
loader._sample = slow
seen = []
iterator = iter(loader)
while True:
    try:
        seen.append(next(iterator).input_id.item())
    except KeyboardInterrupt:
        gate.set()
        print("interrupted", flush=True)
    except StopIteration:
        break
assert seen == list(range(100)), seen
"""
    code = IMPORTS + LOADER + code
    with script(code, homogeneous_path, options=["-W", "ignore"], stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert out == "interrupted\n"
    assert err == ""
