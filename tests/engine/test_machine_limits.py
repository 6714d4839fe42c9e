"""What a container or a shell allows: threads by CPU quota, and no memory for the background load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from gz import _engine

SHORT_OF_MEMORY = """
import os, resource, sys, threading, time
import numpy as np
import gz
from gz._base.memory_plan import Share

path = sys.argv[1]
def evict():
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
gz.set_num_threads(1)  # else it is chance how many buffers were needed at once, before the limit and after it
fs = gz.FeatureStore(path, 0, _share=Share(held=True))
evict()
# What a read takes is in the pool from here on. Of a column that is not to be held: no load has begun yet.
gz.FeatureStore(path, 0, _share=Share()).gather(np.arange(0, 100_000, 300))
evict()
threads = len(os.listdir("/proc/self/task"))
t = threading.Thread(target=lambda: None)
t.start()
t.join()
while len(os.listdir("/proc/self/task")) > threads:
    time.sleep(0.001)  # only when it has ended is its stack there for the next thread
with open("/proc/self/statm") as f:
    size = int(f.read().split()[0]) * os.sysconf("SC_PAGESIZE")
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 20), resource.RLIM_INFINITY))
for turn in range(20):  # a load begins when a 64th of the file was read
    ids = np.arange(turn, 100_000, 300)
    assert (fs.gather(ids)[:, 0] == ids).all()
print("rows are right, read:", fs.stats()["misses"])
"""


def test_a_load_without_memory_is_left_out(tmp_path):
    """Its thread had no one to catch what it threw, and ended the process."""
    path = tmp_path / "x.gd"
    writer = _engine.ColumnWriter(str(path), "float32", [128])
    writer.append(np.repeat(np.arange(100_000, dtype=np.float32), 128).view(np.uint8))
    writer.finish()
    done = subprocess.run([sys.executable, "-c", SHORT_OF_MEMORY, path], capture_output=True, text=True)
    assert done.returncode != -signal.SIGABRT, done.stderr
    assert done.returncode == 0, done.stderr
    if "read: 0" in done.stdout:
        pytest.skip(f"{tmp_path} keeps files in memory")
    assert "rows are right" in done.stdout


@pytest.fixture
def cpu_group():
    """A cgroup (v1) with so many CPUs' worth of time; gives the command that runs another in it."""
    path = f"/sys/fs/cgroup/cpu/gz-test-{os.getpid()}"
    try:
        os.mkdir(path)
    except OSError as e:
        pytest.skip(f"no cgroup can be made: {e}")

    def limit(cpus):
        with open(f"{path}/cpu.cfs_quota_us", "w") as f:
            f.write(str(int(cpus * 100_000)))
        return ["sh", "-c", f'echo $$ > {path}/cgroup.procs && exec "$@"', "sh"]

    yield limit
    os.rmdir(path)


@pytest.mark.parametrize(("cpus", "threads"), [(0.5, 1), (1, 1), (1.5, 2), (64, None)])
def test_threads_start_as_what_the_cgroup_gives_time_for(cpu_group, cpus, threads):
    show = [sys.executable, "-c", "import gz; print(gz.num_threads())"]
    done = subprocess.run([*cpu_group(cpus), *show], capture_output=True, text=True, check=True)
    expected = len(os.sched_getaffinity(0)) if threads is None else threads
    assert int(done.stdout) == min(expected, len(os.sched_getaffinity(0)))


def test_threads_start_as_the_cpus_of_the_process():
    show = textwrap.dedent("""
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        import gz
        print(gz.num_threads())
    """)
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 1
