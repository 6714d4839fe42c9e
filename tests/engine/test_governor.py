"""The governor in a container that is played: a folder stands in for / (GZ_SYSTEM_ROOT), so that what it
sees, and thus what it decides, is the same on every machine. governor_test.cpp plays whole scripts.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import gz
from gz import _engine

MiB = 1 << 20

# What the played processes begin with: a group of which they set the use, and a column that is not in memory.
PRELUDE = """
import json, os, sys
from pathlib import Path
import numpy as np

root, column = Path(os.environ["GZ_SYSTEM_ROOT"]), sys.argv[1]
group = root / "sys/fs/cgroup/job"

def write(path, text):
    part = path.with_name("part" + str(os.getpid()))
    part.write_text(text)
    part.rename(path)

def container(limit, used, files=0):
    write(group / "memory.stat", f"anon 1\\nactive_file {files}\\ninactive_file 0\\n")
    write(group / "memory.current", str(used))
    write(group / "memory.max", str(limit))

def rows(n, start=0):  # what the file holds
    return np.arange(start * 32, (start + n) * 32, dtype=np.int32).reshape(n, 32)

def evict():
    with open(column, "rb") as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

def gather(fs, ids):
    evict()
    got = fs.gather(ids)
    assert (got[:, 0] == np.asarray(ids) * 32).all() and (got[:, 31] == np.asarray(ids) * 32 + 31).all()

MiB = 1 << 20
"""
ROWS = 400_000  # of 128 bytes: 51 MB


@pytest.fixture(scope="module")
def column(tmp_path_factory):
    folder = tmp_path_factory.mktemp("governor")
    path = folder / "x.gd"
    writer = _engine.ColumnWriter(str(path), "int32", [32])
    writer.append(np.arange(ROWS * 32, dtype=np.int32).view(np.uint8))
    writer.finish()
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    fs = gz.FeatureStore(path, 0)
    if fs._file.resident_bytes() > fs.nbytes // 2:
        pytest.skip(f"{folder} keeps files in memory")
    return path


@pytest.fixture
def played(tmp_path, column):
    """Runs code in a container that is played; what it prints."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/job").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/job\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal: 99000000 kB\nMemAvailable: 90000000 kB\n")

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(code), str(column)],
            env=os.environ | {"GZ_SYSTEM_ROOT": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_page_cache_of_a_container_counts_as_free(played):
    played("""
        from gz._base.memory_plan import free_ram
        container(1000 * MiB, 900 * MiB, files=500 * MiB)
        assert free_ram() == 600 * MiB
        write(group / "memory.max", "max")
        assert free_ram() == 90_000_000 * 1024
    """)


def test_a_cache_is_given_back_when_the_script_needs_the_memory(played):
    played("""
        container(1024 * MiB, 300 * MiB)
        import gz
        from gz import _engine
        from gz._base.memory_plan import AUTO, Share
        fs = gz.FeatureStore(column, _share=Share(cache=AUTO))
        ids = np.random.default_rng(0).integers(0, len(fs), 100_000)
        gather(fs, ids)
        first = fs.stats()
        assert first["cache_bytes"] > 40 * MiB and first["cached_rows"] > 80_000, first
        assert first["memory"]["limit"] == 1024 * MiB
        assert first["memory"]["caches"] > 10 * MiB
        gather(fs, ids)
        assert fs.stats()["hits"] > 0.9 * len(ids)

        container(1024 * MiB, 1010 * MiB)
        for _ in range(10):
            _engine.look_at_memory()
        short = fs.stats()
        assert short["cache_bytes"] == 0 and "gave back" in short["cache_why"], short
        assert "gave back" in short["memory"]["change"]
        gather(fs, ids)  # and what is gathered stays right
        assert fs.stats()["misses"] == short["misses"] + len(ids)
    """)


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library keeps no free pages"
)
@pytest.mark.parametrize(("used", "given_back"), [(900, True), (300, False)])
def test_what_a_script_freed_goes_back_where_memory_is_short(played, used, given_back):
    played(f"""
        import ctypes
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.free.argtypes = [ctypes.c_void_p]
        container(1024 * MiB, 300 * MiB)
        import gz
        from gz import _engine
        _engine.look_at_memory()

        def resident():
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        blocks = [libc.malloc(100_000) for _ in range(2000)]  # too small for mappings of their own
        for block in blocks:
            ctypes.memset(block, 1, 100_000)
        full = resident()
        for block in blocks[:-1]:  # the last one holds the end of the heap
            libc.free(block)
        assert resident() > full - 20 * MiB, "the C library gave it back by itself"
        container(1024 * MiB, {used} * MiB)
        _engine.look_at_memory()
        assert (resident() < full - 150 * MiB) == {given_back}
    """)


def test_no_cache_where_the_script_leaves_no_room(played):
    played("""
        container(1024 * MiB, 900 * MiB)
        import gz
        from gz._base.memory_plan import AUTO, Share
        fs = gz.FeatureStore(column, _share=Share(cache=AUTO))
        gather(fs, np.arange(1000))
        assert fs.stats()["cache_bytes"] == 0
    """)


def test_a_ceiling_is_kept_by_all_who_open_the_file(played):
    played("""
        container(4096 * MiB, 300 * MiB)
        import gz
        from gz._base.memory_plan import Share
        opened = [gz.FeatureStore(column, _share=Share(cache=20_000_000)) for _ in range(3)]
        for fs in opened:
            gather(fs, np.random.default_rng(0).integers(0, len(fs), 200_000))
        sizes = {fs.stats()["cache_bytes"] for fs in opened}
        assert len(sizes) == 1 and 19_000_000 < sizes.pop() <= 20_000_000
        assert opened[0].stats()["hits"] == 0 < opened[1].stats()["hits"]
        assert opened[0].stats()["memory"]["caches"] <= 20_000_000
    """)


WORK = """
import gz
from gz import _engine
from gz._base.memory_plan import Share
fs = gz.FeatureStore(column, _share=Share(cache=24_000_000))

def work(say, hear):
    gather(fs, np.random.default_rng(os.getpid()).integers(0, len(fs), 150_000))
    say("ready")
    hear()
    _engine.look_at_memory()
    s = fs.stats()
    say(json.dumps([s["cache_bytes"], s["memory"]["processes"]]))
    hear()
"""
FORKED = """
def start():
    (hear, say), (heard, said) = os.pipe(), os.pipe()
    if os.fork() == 0:
        work(lambda text: os.write(said, text.encode() + b"\\n"), lambda: os.read(hear, 1))
        os._exit(0)
    return os.fdopen(heard), lambda: os.write(say, b"x")
"""
STARTED = """
import subprocess
if len(sys.argv) > 2:
    work(lambda text: print(text, flush=True), sys.stdin.readline)
    sys.exit()

def start():
    me = [sys.executable, "-c", sys.orig_argv[sys.orig_argv.index("-c") + 1], column, "child"]
    p = subprocess.Popen(me, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return p.stdout, lambda: (p.stdin.write("x\\n"), p.stdin.flush())
"""


@pytest.mark.parametrize("way", [FORKED, STARTED], ids=["forked", "started"])
def test_processes_divide_what_was_asked_for(played, way):
    played(
        "container(4096 * MiB, 300 * MiB)\n"
        + WORK
        + way
        + """
children = [start() for _ in range(3)]
for hear, _ in children:
    assert hear.readline() == "ready\\n"
for _, go in children:
    go()
found = [json.loads(hear.readline()) for hear, _ in children]
for _, go in children:
    go()
assert all(0 < size <= 8_000_000 for size, _ in found), found
assert {processes for _, processes in found} == {3}, found
"""
    )


def test_a_killed_process_does_not_count(played):
    played("""
        container(4096 * MiB, 300 * MiB)
        import signal
        import gz
        from gz import _engine
        from gz._base.memory_plan import Share
        fs = gz.FeatureStore(column, _share=Share(cache=24_000_000))
        gather(fs, np.arange(100_000))
        whole = fs.stats()["cache_bytes"]
        ready, there = os.pipe()
        child = os.fork()
        if child == 0:
            gather(fs, np.arange(100_000))
            os.write(there, b"x")
            signal.pause()
        os.read(ready, 1)
        _engine.look_at_memory()
        shared = fs.stats()
        assert shared["memory"]["processes"] == 2 and shared["cache_bytes"] <= 12_000_000
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        _engine.look_at_memory()
        assert fs.stats()["memory"]["processes"] == 1
    """)


def test_a_cache_that_does_not_pay_shrinks_by_itself(played):
    played("""
        container(1024 * MiB, 832 * MiB)  # room for a few slabs beside the reserve
        import gz
        from gz import _engine
        from gz._base.memory_plan import AUTO, Share
        fs = gz.FeatureStore(column, _share=Share(cache=AUTO))
        sizes = []
        for at in range(0, 400_000, 20_000):  # no row is ever asked for again
            gather(fs, np.arange(at, at + 20_000))
            _engine.look_at_memory()
            sizes.append(fs.stats()["cache_bytes"])
        assert sizes[0] > 0 and sizes[-1] == 0, sizes
        assert "did not pay" in fs.stats()["cache_why"]
    """)


def test_batches_ahead_are_held_back_where_there_is_no_room(played):
    played("""
        container(4096 * MiB, 300 * MiB)
        from gz._base.batches_ahead import BatchesAhead, BatchSizes
        from gz import _engine
        sizes = BatchSizes(largest=200 * MiB, taken=2)
        ahead = BatchesAhead(2, sizes)
        assert ahead.may_begin()
        batch = ahead.begin()
        ahead.made(batch, 200 * MiB)
        assert _engine.memory_stats()["ahead"] == 200 * MiB
        container(4096 * MiB, 3300 * MiB)
        _engine.look_at_memory()
        assert not ahead.may_begin()
        ahead.taken(batch)
        assert _engine.memory_stats()["ahead"] == 0
        container(4096 * MiB, 300 * MiB)
        assert not ahead.may_begin()  # the peak is remembered
        ahead.close()
    """)


def test_nothing_is_begun_ahead_before_the_script_has_shown_what_it_takes(played):
    played("""
        container(4096 * MiB, 300 * MiB)
        from gz import _engine
        assert not _engine.room_ahead(1000, False) and not _engine.room_ahead(0, True)
        assert _engine.room_ahead(1000, True)
        container(80 << 30, 300 * MiB)  # where there is plenty it need not show it
        _engine.look_at_memory()
        assert not _engine.room_ahead(1000, False)  # the low of the smaller container still counts
    """)
    played("""
        container(80 << 30, 300 * MiB)
        from gz import _engine
        assert _engine.room_ahead(1000, False)
    """)
