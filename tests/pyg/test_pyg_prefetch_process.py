"""prefetch and the process: forks, interrupts, the end of the interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
import warnings

import pytest
import torch
from torch_geometric import seed_everything

import gz_pyg


@pytest.fixture(autouse=True)
def forks_are_meant():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
        yield


def in_child(run):
    """Whether `run` succeeds in a forked child. Never returns from there."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            run()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert torch.equal(x.n_id, y.n_id)
        assert torch.equal(x.x, y.x)


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
    while thread.is_alive():
        assert len(list(loader)) == 50
    thread.join()
    assert done == [True] * 10


SCRIPT = """
import faulthandler, signal, sys, threading
import torch, gz_pyg
faulthandler.enable()
loader = gz_pyg.NeighborLoader(sys.argv[1], [4, 3], batch_size=1, prefetch=4)
"""


def script(path, code, *options):
    command = [sys.executable, "-X", "dev", "-W", "ignore::DeprecationWarning", *options, "-c", SCRIPT + code]
    return subprocess.Popen(
        [*command, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/tmp"
    )


def ended(process):
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()  # if it hangs, the test fails; the process does not stay
    return process.returncode, out, err


@pytest.mark.parametrize(
    "code",
    [
        "iterator = iter(loader); next(iterator)",
        "for batch in loader: break",
        "iterator = iter(loader); next(iterator); sys.exit(0)",
        "keep = [iter(loader) for _ in range(4)]; [next(i) for i in keep]; loop = [keep]; loop.append(loop)",
    ],
    ids=["global", "break", "exit", "cycle"],
)
def test_the_interpreter_ends_in_mid_epoch(homogeneous_path, code):
    code, _, err = ended(script(homogeneous_path, code))
    assert code == 0, err
    assert err == ""


def test_an_unhandled_error_in_mid_epoch_ends_the_process_as_ever(homogeneous_path):
    code, _, err = ended(script(homogeneous_path, "\nfor batch in loader: raise LookupError('mine')"))
    assert code == 1
    assert err.rstrip().endswith("LookupError: mine")


def test_an_interrupt_while_waiting_for_a_batch(homogeneous_path):
    """Ctrl-C reaches the main thread although it waits for another one; nothing is lost by it."""
    code = """
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
gate = threading.Event()
original = loader._sample
def slow(index):
    if index == [3]:
        print("waiting", flush=True)
        gate.wait()
    return original(index)
loader._sample = slow
iterator, seen = iter(loader), []
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
    process = script(homogeneous_path, code)
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    status, out, err = ended(process)
    assert status == 0, err
    assert out == "interrupted\n"
    assert err == ""
