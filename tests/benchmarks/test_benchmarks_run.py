"""Every benchmark of `make bench` runs to its end on a tiny graph. Its figures mean nothing there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LESS = {
    "sample": ["--batches", "1"],
    "temporal": ["--batches", "1", "--hub", "500"],
    "walk": ["--starts", "1000"],
}
# All in one process: importing torch and DGL takes longer than the work.
RUN = """
import runpy, sys

for name in NAMES:
    sys.argv = [name, "--scale", "0.001", "--repeat", "1", "--no-save", "--data", DATA, *LESS.get(name, [])]
    print("BEGIN", name, flush=True)
    try:
        runpy.run_path(f"{BENCHMARKS}/{name}.py", run_name="__main__")
    except SystemExit as end:
        print("END", name, end.code, flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_benchmark_runs_to_its_end(tmp_path):
    pytest.importorskip("dgl")
    pytest.importorskip("graphzero")
    names = re.search(r"^BENCHMARKS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    names.append("parsers")  # a minute: not a part of `make bench`
    assert "sample" in names
    given = {"DATA": str(tmp_path), "BENCHMARKS": str(ROOT / "benchmarks"), "NAMES": names, "LESS": LESS}
    start = "".join(f"{name} = {value!r}\n" for name, value in given.items())
    run = subprocess.run(
        [sys.executable, "-c", f"{start}import sys\nsys.path.insert(0, BENCHMARKS)\n{RUN}"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    for name in names:
        part = re.search(rf"^BEGIN {name}\n(.*?)^END {name} (\d)$", run.stdout, re.MULTILINE | re.DOTALL)
        assert part, f"{name} did not reach its end:\n{run.stdout[-3000:]}{run.stderr[-3000:]}"
        # 1: a target was missed, as it may be at this size. The peers and gz were compared all the same.
        assert part[2] in "01"
        assert re.search(r"^   (PASS|FAIL|not judged( at this scale)?:) ", part[1], re.MULTILINE), part[1]
