"""gz.ingest and its process: interrupts, kills, memory, full disks, what it prints."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
from ingest_edges import DST, IN, SRC
from waits import PATIENCE, script

from gz._ingest import ingest

SCRIPT = """
import signal, sys, time, numpy as np
from gz._ingest import ingest
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
def chunks():
    for i in range(10**6):
        yield np.arange(1000), np.arange(1000)
        if i == 300: print("running", flush=True)
        if i > 300: time.sleep(0.01)
try:
    ingest(sys.argv[1], chunks(), memory="1MB")
except KeyboardInterrupt:
    sys.exit(7)
"""


@contextmanager
def started(tmp_path):
    with script(SCRIPT, tmp_path / "s") as process:
        assert process.stdout.readline() == "running\n"
        yield process


def test_an_interrupt_leaves_nothing_behind(tmp_path):
    with started(tmp_path) as process:
        assert [f for f in os.listdir(tmp_path) if f.startswith("s.partial-")]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 7
    assert os.listdir(tmp_path) == []


def test_after_a_kill_of_an_iterator_the_next_ingest_starts_anew_and_cleans_up(tmp_path):
    ingest(tmp_path / "s", (SRC, DST))
    before = (tmp_path / "s" / IN).read_bytes()
    os.rename(tmp_path / "s", tmp_path / "keep")
    with started(tmp_path):
        pass  # killed at the end of the block
    left = [f for f in os.listdir(tmp_path) if f.startswith("s.partial-")]
    assert len(left) == 1
    with pytest.warns(RuntimeWarning, match="starts anew"):
        ingest(tmp_path / "s", (SRC, DST))
    assert (tmp_path / "s" / IN).read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["keep", "s"]


RSS = """
import json, sys
from gz._ingest import ingest
def memory(name):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(name))
before = memory("VmRSS")
ingest(sys.argv[1], sys.argv[2], memory=sys.argv[3], **json.loads(sys.argv[4]))
print(memory("VmHWM") - before)  # ru_maxrss would begin with that of the process which started this one
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"keep_edge_ids": True, "undirected": True, "directions": "both"}, {"ids": "map"}]
)
def test_memory_stays_within_the_budget(tmp_path, options):
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 400_000, (2, 6_000_000))
    np.save(tmp_path / "e.npy", edges)
    del edges
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            RSS,
            str(tmp_path / "s"),
            str(tmp_path / "e.npy"),
            "40MB",
            json.dumps(options),
        ],
        stdout=subprocess.PIPE,
        check=True,
        cwd="/",
    )
    assert int(run.stdout) < 40e6 + 30e6


def test_nothing_is_said_when_stderr_is_no_terminal(tmp_path, capfd):
    ingest(tmp_path / "s", (SRC, DST))
    assert capfd.readouterr() == ("", "")


def test_a_full_disk_is_an_oserror_and_leaves_no_store(tmp_path):
    """RLIMIT_FSIZE stands in for a full disk: the write fails halfway in the same place."""
    code = (
        "import resource, signal, sys, numpy as np\nfrom gz._ingest import ingest\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n    ingest(sys.argv[1], (np.arange(200_000), np.arange(200_000)))\n"
        "except OSError as e:\n    print(e.errno, e.filename)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "s")], stdout=subprocess.PIPE, check=True, cwd="/"
    )
    assert run.stdout.split()[0] == b"27"
    assert [n for n in os.listdir(tmp_path) if not n.startswith("s.partial-")] == []


def test_progress_shows_rate_and_time_left(tmp_path, capfd):
    def slow():
        for _ in range(3):
            time.sleep(0.25)
            yield SRC, DST

    ingest(tmp_path / "s", slow(), progress=True, memory="1MB")
    assert "edges/s" in capfd.readouterr().err
