"""Reading ahead on a thread, and locks that end with their process."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time

import pytest

import gz
from gz._base.background import ahead, calls
from gz._base.lock import try_lock


def test_ahead_gives_the_same_items_and_raises_in_their_place():
    def items():
        yield from range(5)
        raise KeyError("here")

    source = ahead(items())
    assert [next(source) for _ in range(5)] == list(range(5))
    with pytest.raises(KeyError, match="here"):
        next(source)


def test_ahead_stops_its_thread_when_it_is_left():
    ended = []

    def items():
        try:
            for i in range(10**9):
                time.sleep(0.01)  # so that one is being made at every moment
                yield i
        finally:
            ended.append(threading.current_thread())

    threads = set(threading.enumerate())
    for i in ahead(items()):
        if i == 3:
            assert len(set(threading.enumerate()) - threads) == 1
            break
    assert not set(threading.enumerate()) - threads
    assert ended == [threading.current_thread()]  # nobody was in the middle of it any more


@pytest.mark.parametrize("most", [1, 2, 5])
def test_no_more_is_made_ahead_than_was_said(most):
    begun, asked = [], 0

    def items():
        for i in range(50):
            begun.append(i)
            yield i

    for i in ahead(items(), most):
        asked += 1
        assert i == asked - 1
        assert len(begun) <= asked + most
    assert asked == len(begun) == 50


def test_calls_are_answered_in_order_and_run_side_by_side():
    running = threading.Barrier(3, timeout=60)  # three at once, or it breaks
    answers = calls(lambda v: (running.wait(), v * v)[1], range(30), threads=3, most=3)
    assert list(answers) == [v * v for v in range(30)]


def test_a_lock_is_free_again_when_its_process_is_dead(tmp_path):
    code = "import sys, time; from gz._base.lock import try_lock; from pathlib import Path\n"
    code += "lock = try_lock(Path(sys.argv[1]), create=True); print('held', flush=True); time.sleep(1000)"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "l")], stdout=subprocess.PIPE, cwd="/"
    )
    assert process.stdout.readline() == b"held\n"
    assert try_lock(tmp_path / "l") is None
    process.kill()
    process.wait()
    lock = try_lock(tmp_path / "l")
    assert lock is not None
    lock.release()


def test_without_locks_an_ingest_works_and_leaves_what_it_cannot_judge(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("gz._base.lock.fcntl.flock", refuse)
    gz.ingest(tmp_path / "s", edges=([0], [1]))
    assert os.listdir(tmp_path) == ["s"]
    left = tmp_path / "t.partial-0123abcd"
    left.mkdir()
    (left / "lock").write_text("12345\n")
    with pytest.raises(BlockingIOError, match=f"process 12345 is writing .* delete {left}"):
        gz.ingest(tmp_path / "t", edges=([0], [1]))
    assert left.exists()
