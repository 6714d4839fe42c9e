"""The papers100M layout within a memory budget. The data come from the generator of the benchmark."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

SCRIPT = """
import sys
import gz, gz._ingest
def memory(name):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(name))
before = memory("VmRSS")
gz.ingest(sys.argv[1], ogb=sys.argv[2], memory="20MB")
print(memory("VmHWM") - before)
"""


@pytest.fixture
def generator(repository, monkeypatch):
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("ogb_layout")


@pytest.mark.slow
@pytest.mark.parametrize("deflate", [False, True], ids=["stored", "deflated"])
def test_peak_memory_keeps_to_the_budget(tmp_path, generator, deflate):
    scale = 0.0015  # 85 MB of features, 39 MB of edges
    generator.generate(tmp_path / "data", scale, generator.WIDTH, deflate)
    assert (tmp_path / "data/raw/data.npz").stat().st_size > 60e6
    out = str(tmp_path / "s")
    command = [sys.executable, "-c", SCRIPT, out, str(tmp_path / "data")]
    done = subprocess.run(command, cwd="/", check=True, capture_output=True, text=True)
    generator.check(tmp_path / "s", scale, generator.WIDTH)
    assert (
        int(done.stdout) < 20e6 + 60e6
    )  # 60: chunks of 16 MB on their way, blocks inflated ahead, the arena
