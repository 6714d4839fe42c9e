"""What a disk gives: random reads at several depths, past the page cache, with the engine's queues."""

from __future__ import annotations

import mmap
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gz import _engine

BLOCK = 4096
LARGE = 65536  # as the engine reads where many rows lie close together
DEPTHS = (1, 8, 32, 128)  # in flight, of each thread
_SCRATCH = 256 << 20
Say = Callable[[str], None]


def measure(path: str, seconds: float, say: Say = lambda _: None) -> dict[str, Any]:
    """Random reads of a file for about so many seconds, at several depths.

    ``reads``: of each depth the ``size`` of a read, reads/s and the mean latency in seconds.
    """
    io = _engine.read_path()
    by_ring = io.path == "ring"
    threads = _engine.num_threads() if by_ring else 1
    size = os.path.getsize(path)
    if size < BLOCK:
        raise ValueError(f"{path}: is too small to be measured")
    plan = [(depth, BLOCK) for depth in DEPTHS]
    if size >= 64 * LARGE:
        plan.append((DEPTHS[-1], LARGE))
    found = []
    for depth, block in plan:
        # One in flight in all at depth 1: the latency that nothing hides.
        used = 1 if depth == 1 else threads
        say(f"random reads of {block // 1024} KiB, {depth * used} in flight")
        rate = (_by_ring if by_ring else _by_threads)(path, block, depth, used, seconds / len(plan))
        in_flight = depth * used
        found.append(
            {
                "size": block,
                "in_flight": in_flight,
                "per_second": rate,
                "latency": in_flight / rate if rate else None,
            }
        )
    return {
        "file": path,
        "file_bytes": size,
        "by": io.path,
        "why": io.why,
        "seconds": seconds,
        "reads": found,
    }


def best(measured: dict[str, Any], size: int = BLOCK) -> float:
    """The most reads/s of that size, at any depth."""
    rates = [r["per_second"] for r in measured["reads"] if r["size"] == size]
    if not rates:  # a small file: as many bytes as small reads bring
        return best(measured) * BLOCK / size
    return max(rates)


def _by_ring(path: str, size: int, depth: int, threads: int, seconds: float) -> float:
    """In bursts, each long enough to fill the queue and the one after it sized by what was seen."""
    count, done, rate, seed = max(64, 4 * depth * threads), 0, 0.0, random.getrandbits(60)
    start = time.monotonic()
    while (passed := time.monotonic() - start) < seconds:
        rate = _engine.random_reads_per_second(path, size, depth, threads, count, seed + done)
        done += count
        count = max(threads, int(rate * min(0.5, max(0.05, seconds - passed))))
    return done / (time.monotonic() - start)


def _by_threads(path: str, size: int, depth: int, threads: int, seconds: float) -> float:
    """Where there is no io_uring: blocking reads, `depth` of them at a time (one a thread, at most 32)."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        fd = os.open(path, flags | os.O_DIRECT)
    except OSError:
        fd = os.open(path, flags)
    blocks = os.path.getsize(path) // size
    done = [0] * min(32, depth * threads)
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        rng = random.Random(number)
        with mmap.mmap(-1, size) as buffer:
            while time.monotonic() < end:
                os.preadv(fd, [buffer], rng.randrange(blocks) * size)
                done[number] += 1

    workers = [threading.Thread(target=work, args=(i,)) for i in range(len(done))]
    start = time.monotonic()
    try:
        for w in workers:
            w.start()
        for w in workers:
            w.join()
    finally:
        os.close(fd)
    return sum(done) / (time.monotonic() - start)


@contextmanager
def scratch_file(folder: str) -> Iterator[str]:
    """A file of random bytes to measure where there is no store yet; it goes when this ends."""
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    if free < 4 * _SCRATCH:
        raise OSError(
            28, f"{free / 1e9:.1f} GB are free, {4 * _SCRATCH / 1e9:.1f} GB are wanted to measure", folder
        )
    block = np.random.default_rng(0).bytes(4 << 20)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".gz-doctor-") as f:
        for _ in range(_SCRATCH // len(block)):
            f.write(block)
        f.flush()
        os.fsync(f.fileno())
        yield f.name
