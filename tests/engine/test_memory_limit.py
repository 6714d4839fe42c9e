"""The governor in real cgroups: what lives without a row cache lives with one that takes all it can get.

Limits need root; elsewhere these tests skip and say so. benchmarks/memory_caps.py does the same with whole
training scripts.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import gz
from gz import _engine

MiB = 1 << 20
ROWS, WIDTH = 500_000, 128  # 256 MB
LIMIT = 400 * MiB


@pytest.fixture(scope="module")
def process(request):
    sys.path.insert(0, str(request.config.rootpath / "benchmarks"))
    try:
        import _process

        yield _process
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="module")
def column(tmp_path_factory):
    path = tmp_path_factory.mktemp("limit") / "x.gd"
    writer = _engine.ColumnWriter(str(path), "float32", [WIDTH])
    for at in range(0, ROWS, 50_000):
        rows = np.repeat(np.arange(at, at + 50_000, dtype=np.float32), WIDTH)
        writer.append(rows.view(np.uint8))
    writer.finish()
    return path


@pytest.fixture
def limited(process, column, tmp_path):
    """Runs code under LIMIT, the column not in memory: what it prints."""

    def run(code: str) -> str:
        with open(column, "rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        fs = gz.FeatureStore(column, 0)
        if fs._file.resident_bytes() > fs.nbytes // 10:
            pytest.skip(f"{column} stays in memory")
        del fs
        try:
            capped = process.memory_capped(LIMIT)
            cap = capped.__enter__()
        except OSError as error:
            pytest.skip(f"a memory limit cannot be set here: {error}")
        try:
            done = subprocess.run(
                [sys.executable, "-c", code, str(column)],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                preexec_fn=cap.enter,
            )
            cap.end()
        finally:
            capped.__exit__(None, None, None)
        assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2000:]}"
        return done.stdout

    return run


# A script that reads rows at random, checks them, and says what its cache came to.
SCRIPT = """
import sys, time
import numpy as np
import gz
from gz import _engine
from gz._base.memory_plan import AUTO, Share

def read(fs, seconds, seed, most=float("inf")):
    # Until the cache has stopped growing, or is as large as it may be.
    rng, end = np.random.default_rng(seed), time.monotonic() + seconds
    while time.monotonic() < end and fs.stats()["cache_bytes"] < most:
        ids = rng.integers(0, len(fs), 20_000)
        assert (fs.gather(ids)[:, 7] == ids).all()

def opened(cache=AUTO):
    return gz.FeatureStore(sys.argv[1], _share=Share(cache=cache))
"""


@pytest.mark.slow
def test_a_script_that_grows_by_more_than_is_free_survives(limited):
    out = limited(
        SCRIPT
        + """
fs = opened()
read(fs, 30, 0, most=100 << 20)
before, free = fs.stats()["cache_bytes"], _engine.free_memory()  # what is cached counts as free
grown = np.ones((free - (60 << 20)) >> 3)  # in one go, and more than there is beside the cache
assert grown.nbytes > free - before
read(fs, 1, 1)
after = fs.stats()
print(before, after["cache_bytes"], after["memory"]["change"])
"""
    )
    before, after, change = out.split(maxsplit=2)
    assert int(before) >= 100 * MiB
    assert int(after) < int(before) // 2
    assert "gave back" in change


@pytest.mark.slow
def test_three_who_open_the_same_file_take_what_one_takes(limited):
    limited(
        SCRIPT
        + """
three = [opened() for _ in range(3)]
for turn in range(6):
    for fs in three:
        read(fs, 0.4, turn)
held = three[0].stats()["memory"]["caches"]
assert 0 < held <= 280 << 20, held
assert all(fs.stats()["hits"] for fs in three)
"""
    )


@pytest.mark.slow
def test_eight_forked_workers_share_the_room(limited):
    out = limited(
        SCRIPT
        + """
import os
fs = opened()
read(fs, 0.1, 0)
children = []
for seed in range(8):
    if (pid := os.fork()) == 0:
        read(fs, 4, seed)
        s = fs.stats()
        print(s["memory"]["processes"], s["cache_bytes"], flush=True)
        os._exit(0)
    children.append(pid)
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
"""
    )
    told = [tuple(map(int, line.split())) for line in out.splitlines()]
    assert len(told) == 8
    assert max(processes for processes, _ in told) >= 8
    assert sum(size for _, size in told) < LIMIT
