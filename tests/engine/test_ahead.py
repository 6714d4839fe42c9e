"""Reading ahead on a thread, and locks that end with their process."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

import gz
from gz._ingest.ahead import ahead
from gz._lock import try_lock


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
            yield from range(10**9)
        finally:
            ended.append(True)

    source = items()
    for i in ahead(source):
        if i == 3:
            break
    source.close()
    assert ended == [True]


def test_a_lock_is_free_again_when_its_process_is_dead(tmp_path):
    code = "import sys, time; from gz._lock import try_lock; from pathlib import Path\n"
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

    monkeypatch.setattr("gz._lock.fcntl.flock", refuse)
    gz.ingest(tmp_path / "s", edges=([0], [1]))
    assert os.listdir(tmp_path) == ["s"]
    left = tmp_path / "t.partial-0123abcd"
    left.mkdir()
    (left / "lock").write_text("12345\n")
    with pytest.raises(BlockingIOError, match=f"process 12345 is writing .* delete {left}"):
        gz.ingest(tmp_path / "t", edges=([0], [1]))
    assert left.exists()
