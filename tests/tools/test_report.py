"""The report: what it states, that it is one file, and that a browser shows no label over another."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from xml.etree import ElementTree

import pytest
import report_check

from gz._base.sizes import rounded
from gz._report.build import of_bench, of_run
from gz._report.series import over_time, smooth_rates
from gz._report.svg import Level, Series, bars, lines, standalone
from gz._report.units import BATCH_RATE, BYTES, LATENCY, PERCENT, fitting, ticks
from gz.cli import main

MACHINE = {
    "cpu": "A <CPU> & more", "architecture": "x86_64", "cores": 2, "load": 0.5, "ram": 25 * 10**9,
    "free": 20 * 10**9, "limit": 10**9, "limit_of": "/sys/fs/cgroup/x", "kernel": "6.1",
    "reads": "ring", "reads_why": "the kernel has io_uring",
}  # fmt: skip
STORAGE = {
    "filesystem": "ext4", "source": "/dev/sda1", "options": "rw,noatime", "disk": "sda", "model": "NVMe 3",
    "rotates": False, "read_ahead": 131072, "scheduler": "none",
}  # fmt: skip
STORE = {
    "path": "/data/papers", "bytes": 3 * 10**9, "nodes": {"node": 5_000_000},
    "edges": [{"type": ["node", "to", "node"], "num_edges": 30_000_000}], "columns": [],
    "files": [{"file": "nodes/node/x.gd", "bytes": 2 * 10**9, "plan": "row cache as memory allows"}],
}  # fmt: skip


def samples(count=120, every=0.5):
    return [
        {
            "t": i * every, "batches": 3 * i, "mapped": 0, "hits": 4000 * i, "misses": 1000 * i,
            "reads": 900 * i,
            "bytes_read": 4_000_000 * i, "read_seconds": 1.5 * i, "cache_bytes": min(i, 60) * 5_000_000,
            "anonymous": 300_000_000 + min(i, 60) * 6_000_000, "rss": 900_000_000, "read": 0,
        }
        for i in range(count)
    ]  # fmt: skip


def run_page(**changes) -> str:
    about = {
        "name": "a <run>", "started": 1.8e9, "machine": MACHINE, "storage": STORAGE, "store": STORE,
        "loaders": [{"loader": "NeighborLoader", "batch_size": 1024, "fanouts": "[15, 10, 5]", "workers": 0,
                     "prefetch": 2, "batches": 1000}],
        "about": {"model": "GraphSAGE"},
    }  # fmt: skip
    logs = [{"t": i, "loss": 2.0 / (i + 1)} for i in range(50)]
    return of_run(about | changes, samples(), logs, ended=True)


def bench_found() -> dict:
    window = {"batches_per_second": 12.3, "miss_rate": 0.25, "bytes_per_second": 4e8}
    phase = {"cold": window, "warm": window, "samples": samples()}
    return {
        "kind": "bench", "version": 1, "started": 1.8e9, "machine": MACHINE, "storage": STORAGE,
        "store": STORE, "versions": {"gz": "0.1", "dgl": None},
        "degrees": {"node to node": {"counts": [5, 100, 10**6, 3, 0, 1] + [7] * 15, "looked_at": 9,
                                     "nodes": 10, "average": 6.0, "largest": 1234}},
        "workload": {"batch_size": 1024, "fanouts": [15, 10, 5], "seeds": "split 'train'", "num_seeds": 9,
                     "cache": "auto", "seconds": 5.0},
        "disk": {"reads": [{"size": 4096, "in_flight": 256, "per_second": 1e5, "latency": 0.0025}]},
        "phases": [{"task": "sampling", "who": "gz", **phase},
                   {"task": "loading", "who": "gz_pyg.NeighborLoader", **phase}],
        "skipped": [{"task": "sampling", "who": "pyg-lib, in memory", "why": "not installed: pyg_lib"}],
    }  # fmt: skip


CHECKLIST = (
    "3.0 GB", "/data/papers", "ext4 on /dev/sda1", "rw,noatime", "NVMe 3", "does not rotate", "25.0 GB",
    "1.0 GB by /sys/fs/cgroup/x", "1024", "15, 10, 5", "6.1", "A &lt;CPU&gt; &amp; more",
)  # fmt: skip


def test_the_report_of_a_run_states_the_checklist_and_shows_the_plots():
    page = run_page()
    report_check.sound(page)
    for word in (*CHECKLIST, "a &lt;run&gt;", "GraphSAGE", "prefetch 2"):
        assert word in page, word
    titles = re.findall(r"<h3>(.*?)</h3>", page)
    assert titles == [
        "Memory",
        "Batches",
        "Rows that were not in memory",
        "Reading",
        "Latency of a read",
        "loss",
    ]


def test_the_report_of_a_benchmark_states_the_checklist_and_shows_the_plots():
    page = of_bench(bench_found())
    report_check.sound(page)
    for word in (*(w for w in CHECKLIST if w != "1024"), "1,024", "not installed: pyg_lib", "1,234"):
        assert word in page, word
    assert "Degrees: node to node" in page
    assert page.count("<svg") == 6


def test_rates_are_written_out():
    found = bench_found()
    found["phases"][1]["warm"] = found["phases"][1]["warm"] | {"batches_per_second": 1234.5}
    page = of_bench(found)
    assert "1,230" in page
    assert "e+0" not in page
    assert [rounded(v, 2) for v in (0.0123, 7, 364.0, 12_345)] == ["0.012", "7", "360", "12,000"]


@pytest.mark.parametrize("page", [run_page, lambda: of_bench(bench_found())], ids=["run", "bench"])
def test_every_axis_has_a_unit_and_no_label_lies_over_another(page):
    for chart in report_check.charts(page()):
        names = report_check.axis_names(chart)
        assert len(names) == 2
        assert all(re.search(r"\(.+\)$", name) for name in names), names
        assert report_check.overlaps(chart) == []


def test_a_run_of_which_little_is_known_has_a_page_too():
    report_check.sound(of_run({}, [], [], ended=False))
    report_check.sound(of_run({"machine": None}, [{"t": 0.0}], [{"t": 1.0, "note": "text"}], ended=False))


def test_rates_are_those_of_the_samples():
    found = smooth_rates(samples())
    assert {round(r["batches_per_second"], 6) for r in found} == {6.0}
    assert {round(r["miss_rate"], 6) for r in found} == {0.2}
    assert {round(r["read_latency"] * 1e6) for r in found} == {round(1.5 / 900 * 1e6)}
    assert smooth_rates([]) == smooth_rates(samples(1)) == []
    long = over_time(samples(5000), "anonymous")
    assert len(long) <= 402
    assert long[-1][0] == samples(5000)[-1]["t"]


def test_ticks_are_round_and_reach_the_largest():
    for most in (1e-6, 0.3, 1, 7.2, 99, 12345, 3.3e9):
        found = ticks(most)
        assert found[0] == 0
        assert most <= found[-1] < 2.5 * most + 1e-12
        assert 2 <= len(found) <= 8
    assert ticks(0) == [0, 1]
    assert fitting(BYTES, 2.5e9).name == "GB"
    assert fitting(LATENCY, 0.004).name == "ms"
    assert fitting(PERCENT, 0.5).name == "%"


def test_lines_keep_gaps_and_a_picture_stands_alone():
    drawn = lines(
        [
            Series("a & b", [(0, 1.0), (1, 2.0), (2, None), (3, 3.0), (4, 3.0)], "killed"),
            Series("c", [], "never"),
        ],
        BATCH_RATE, what="rate", level=Level("limit", 4.0),
    )  # fmt: skip
    path = next(e for e in ElementTree.fromstring(drawn).iter() if e.tag == "path")
    assert path.get("d").count("M") == path.get("d").count("L") == 2
    assert not [e for e in ElementTree.fromstring(drawn).iter() if e.get("r") == "3"]
    whole = standalone(drawn)
    assert ElementTree.fromstring(whole).tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme:dark" in whole
    assert report_check.overlaps(ElementTree.fromstring(whole)) == []
    assert (
        report_check.overlaps(
            ElementTree.fromstring(bars([1] * 40, [f"{i}k" for i in range(40)], what="n (1)", x_name="x (1)"))
        )
        == []
    )


def test_a_point_without_neighbours_is_a_dot():
    drawn = lines([Series("a", [(0, None), (1, 2.0), (2, None), (3, 1.0)])], BATCH_RATE, what="rate")
    found = list(ElementTree.fromstring(drawn).iter())
    assert not [e for e in found if e.tag == "path"]
    assert len([e for e in found if e.get("r") == "3"]) == 2


def test_the_command_makes_the_page(tmp_path, capsys):
    (tmp_path / "bench.json").write_text(json.dumps(bench_found()))
    assert main(["report", str(tmp_path / "bench.json"), "-o", str(tmp_path / "b.html")]) == 0
    assert "b.html" in capsys.readouterr().out
    report_check.sound((tmp_path / "b.html").read_text())
    (tmp_path / "bench.json").write_text(json.dumps(bench_found() | {"version": 9}))
    assert main(["report", str(tmp_path / "bench.json"), "-o", str(tmp_path / "b.html")]) == 1
    assert "version 9" in capsys.readouterr().err


# ---- in a browser ----

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
)  # fmt: skip
# Pairs of texts of one chart whose boxes overlap, as the browser lays them out, and whether the page scrolls.
SCRIPT = """<script>
const wrong = [];
for (const svg of document.querySelectorAll("svg")) {
  const texts = [...svg.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]);
  texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
    const beside = p.left < q.right - 1 && q.left < p.right - 1;
    if (beside && p.top < q.bottom - 2 && q.top < p.bottom - 2) wrong.push(a + " / " + b);
  }));
}
if (document.documentElement.scrollWidth > innerWidth) wrong.push("the page is wider than the window");
document.title = "found:" + JSON.stringify(wrong) + ":found";
</script></body>"""


def shown(page: str, folder) -> str | None:
    """The page as the browser has it after its script; None where the browser does not run here."""
    (folder / "page.html").write_text(page)
    command = [
        CHROMIUM,
        *FLAGS,
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=800,900",
        "--dump-dom",
    ]
    try:
        done = subprocess.run(
            [*command, f"file://{folder}/page.html"], capture_output=True, text=True, timeout=120
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 and "</html>" in done.stdout else None


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("page", [run_page, lambda: of_bench(bench_found())], ids=["run", "bench"])
def test_a_browser_shows_no_label_over_another(page, tmp_path):
    dom = shown(page().replace("</body>", SCRIPT), tmp_path)
    if dom is None:
        pytest.skip("chromium does not run here")
    assert json.loads(re.search(r"found:(.*?):found", dom)[1].replace("&amp;", "&")) == []
