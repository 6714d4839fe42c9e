"""Waits that end: for threads, forked children, other processes and whatever else should happen.

The limit is for what hangs. It is no measure of speed: a right answer comes long before it on any machine.
Once a wait was in vain the run has failed; the waits after it are shorter, so that it ends.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

PATIENCE = 120  # seconds

_in_vain = False
_waited_for: weakref.WeakSet[threading.Thread] = weakref.WeakSet()  # in vain
_of_others: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def patience() -> float:
    """How long to wait now, in seconds."""
    return PATIENCE / 10 if _in_vain else PATIENCE


def give_up(why: str) -> None:
    """Fails the test: something that was waited for did not come."""
    global _in_vain
    _in_vain = True
    raise AssertionError(why)


def until(happened: Callable[[], object], what: str) -> None:
    """Returns when `happened()` is true."""
    begin, most = time.monotonic(), patience()
    while not happened():
        if time.monotonic() > begin + most:
            give_up(f"waited {most:.0f} s in vain: {what}")
        time.sleep(0.001)


def ended(threads: Iterable[threading.Thread]) -> None:
    """Returns when all of the threads have. Those that were waited for in vain before are not again."""
    threads = list(threads)
    end = time.monotonic() + patience()
    for thread in threads:
        if thread not in _waited_for:
            thread.join(max(0, end - time.monotonic()))
    alive = [t for t in threads if t.is_alive()]
    _waited_for.update(alive)
    if alive:
        give_up(f"still running: {[t.name for t in alive]}")


def background() -> list[threading.Thread]:
    """The threads of gz that work ahead, but for those that an earlier test left: that was its failure."""
    return [t for t in _of_gz() if t not in _of_others]


def forget_what_others_left() -> None:
    """A test begins."""
    _of_others.update(_of_gz())


def _of_gz() -> list[threading.Thread]:
    # gz_dgl's readers, gz-fetch, are there for as long as the process.
    from_there = [t for t in threading.enumerate() if type(t).__module__ == "gz._base.background"]
    return [t for t in from_there if not t.name.startswith("gz-fetch")]


def in_child(run: Callable[[], object]) -> bool:
    """Whether `run` succeeds in a forked child. Never returns from there; a child that hangs is killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    process = os.pidfd_open(child)
    try:
        done, _, _ = select.select([process], [], [], patience())
    finally:
        os.close(process)
    if not done:
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if not done:
        give_up("the forked child hung, and was killed")
    return status == 0


@contextmanager
def script(code: str, *arguments: object, options: Iterable[str] = (), **popen) -> Iterator[subprocess.Popen]:
    """A Python process that runs `code`. Neither it nor its children outlive the block."""
    command = [sys.executable, *options, "-c", code, *map(str, arguments)]
    popen = {"stdout": subprocess.PIPE, "cwd": "/", "text": True, **popen}
    process = subprocess.Popen(command, start_new_session=True, **popen)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
