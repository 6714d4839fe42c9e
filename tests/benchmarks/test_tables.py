"""What the README says was measured is what the result files hold."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import tables

    yield tables
    sys.modules.pop("tables", None)


def test_the_tables_of_the_readme_are_those_of_the_results(tables):
    text = (ROOT / "README.md").read_text()
    assert "<!-- measured: warm -->" in text
    assert "<!-- measured: cold -->" in text
    assert tables.filled(text) == text, "run python benchmarks/tables.py"


def test_the_table_of_memory_limits_is_that_of_the_results(tables):
    text = (ROOT / "docs" / "reliability.md").read_text()
    assert "<!-- measured: memory -->" in text
    assert tables.filled(text) == text, "run python benchmarks/tables.py"


def test_the_tables_of_papers100m_are_those_of_the_results(tables):
    text = (ROOT / "docs" / "papers100m.md").read_text()
    assert "<!-- measured: papers -->" in text
    assert "<!-- measured: look_ahead -->" in text
    assert "<!-- measured: layout -->" in text
    assert tables.filled(text) == text, "run python benchmarks/tables.py"


def test_the_table_of_accuracies_is_that_of_the_results(tables):
    text = (ROOT / "docs" / "howto.md").read_text()
    assert "<!-- measured: accuracy -->" in text
    assert tables.filled(text) == text, "run python benchmarks/tables.py"


def test_points_lost_are_the_mean_of_pairs(tables):
    found = {"float32": [80.0, 90.0], "float16": [79.5, 90.5], "bfloat16": [79.0, 88.0], "int8": [79.0, 89.0]}
    lines = tables.small_accuracy.table(
        {"date": "2026-01-02", "tables": [{"note": "n"}, {"title": "cora", "accuracy": found}]}
    ).splitlines()
    assert lines[2] == "| cora | 85.0 % | 7.07 | +0.00 ± 0.50 | +1.50 ± 0.50 | +1.00 ± 0.00 |"
    assert lines[-1].startswith("Points of accuracy, the mean of 2 pairs")


def record(quiet: bool) -> dict:
    times = {"gz": [0.2, 0.1], "graphzero": [1.0, 0.8]}
    return {
        "date": "2026-01-02", "quiet": quiet, "others": 0.03, "setting": {"repeat": 5},
        "machine": {"cpu": "C", "threads": 2, "ram": "9 GiB"},
        "tables": [
            {"title": f"{kind} walk", "unit": "M steps/s", "work": 2.0, "seconds": times}
            for kind in ("uniform", "node2vec")
        ],
    }  # fmt: skip


def test_a_row_is_the_best_of_both_with_their_spread(tables, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    (tmp_path / "walk-scale1.json").write_text(json.dumps(record(quiet=True)))
    row = next(r for r in tables.TABLES["warm"] if r.title == "uniform walk")
    assert row.cells()[1:4] == (
        "20 M steps/s (worst round 2.0x)",
        "graphzero, 2.5 M steps/s (worst round 1.2x)",
        "8.0x",
    )
    lines = tables.table("warm").splitlines()
    assert len(lines) == 6  # two of the head, the two rows there are, and where they were measured
    assert lines[-1].startswith("C, 2 threads, 9 GiB, 2026-01-02; best of 5 rounds")
    assert lines[-1].endswith("others took at most 3% of a processor.")


def test_a_run_beside_others_is_not_used(tables, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    (tmp_path / "walk-scale1.json").write_text(json.dumps(record(quiet=False)))
    assert next(r for r in tables.TABLES["warm"] if r.title == "uniform walk").cells() is None


def under_a_limit(quiet: bool | None) -> dict:
    tables = [
        {"title": "training, 2 GiB limit", "unit": "batches/s", "work": 1.0,
         "seconds": {"gz": [4.0], "dgl-mapped": [40.0]}},
        {"title": "pyg-memory: finished", "limits": [{"name": "finished", "value": 0.0}]},
        {"title": "dgl-memory: finished", "limits": [{"name": "finished", "value": 1.0}]},
    ]  # fmt: skip
    machine = {"cpu": "C", "threads": 2, "ram": "9 GiB", "load": 2.57}
    told = {} if quiet is None else {"quiet": quiet}
    return {"date": "2026-01-02", "machine": machine, "tables": tables} | told


@pytest.mark.parametrize("quiet", [True, False, None])
def test_a_run_under_a_limit_is_shown_and_marked_where_it_was_not_quiet(tables, tmp_path, monkeypatch, quiet):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    found = under_a_limit(quiet)
    for name in ("train", "killed"):
        (tmp_path / f"out_of_core-{name}-scale1.json").write_text(json.dumps(found))
    run = {"batches_per_s": 0.304, "others": 0.05 if quiet else 0.3, "date": "2026-01-02 10:00"}
    runs = {"papers100m-directed, float32, hot first, 8 GiB, scale 1": run}
    (tmp_path / "papers_train.json").write_text(json.dumps({"machine": found["machine"], "runs": runs}))
    lines = tables.table("cold").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:5]]
    assert [row[1:] for row in rows] == [
        ["0.25 batches/s", "DGL on mapped arrays, 0.025 batches/s", "10.0x"],
        ["", "PyG: killed, DGL: finished", ""],
        ["0.304 batches/s", "", ""],
    ]
    assert all(row[0].endswith("\u2020") != (quiet is True) for row in rows)
    assert ("its load was up to 2.6" in lines[-1]) != (quiet is True)


def trained(**changes) -> dict:
    return {
        "profile": "papers100m-directed", "dtype": "float32", "order": "hot first", "scale": 1, "limit": 8.0,
        "batches_per_s": 0.8, "rows_per_batch": 318_000, "hot_rate": 0.9, "hit_rate": 0.02, "miss_rate": 0.08,
        "reads_per_batch": 20_000, "topology_reads_per_batch": 5_000, "device": [90_000, 110_000],
        "others": 0.04,
    } | changes  # fmt: skip


def test_a_run_at_full_size_is_shown_beside_the_processors_limit_and_the_law(tables):
    runs = {
        "memory": trained(
            limit=0, scale=0.1, batches_per_s=3.2, rows_per_batch=159_000, order="plain", device=[0]
        ),
        "8": trained(),
        "dead": trained(limit=2.0, ended="SIGKILL"),
    }
    lines = tables.papers_train.table({"runs": runs}).splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert len({len(row) for row in rows}) == 1
    assert rows[2][:4] == [
        "`papers100m-directed`, float32, 10% of the size",
        "none, in memory",
        "**3.20**",
        "",
    ]
    assert rows[3][:4] == ["`papers100m-directed`, float32, hot first", "8 GiB", "**0.80**", "50%"]
    assert rows[3][12] == "4.00"  # 100,000 reads a second, 25,000 a batch
    assert rows[4][1:4] == ["2 GiB", "SIGKILL", ""]


def test_a_run_at_full_size_is_compared_with_the_limit_of_its_host(tables):
    memory = {"limit": 0, "rows_per_batch": 159_000}
    runs = {
        "fast": trained(**memory, host="a", batches_per_s=3.2),
        "slow": trained(**memory, host="b", batches_per_s=1.6),
        "small": trained(**memory, host="b", batches_per_s=3.2, dtype="int8"),
        "here": trained(host="b"),
        "elsewhere": trained(host="c"),
    }
    limits = [tables.papers_train.limit_of({"runs": runs}, runs[name]) for name in ("here", "elsewhere")]
    assert limits == [1.6 * 159_000, 3.2 * 159_000]


@pytest.fixture
def caps(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import memory_caps

    yield memory_caps
    sys.modules.pop("memory_caps", None)


def test_a_cover_of_pairs_has_all_of_them_in_few_cells(caps):
    factors = {"a": [1, 2, 3, 4, 5, 6], "b": [1, 2, 3], "c": [1, 2], "d": [1, 2], "e": [1, 2], "f": [1, 2]}
    chosen = caps.covering(factors)
    for one, other in itertools.combinations(factors, 2):
        met = {(c[one], c[other]) for c in chosen}
        assert met == set(itertools.product(factors[one], factors[other]))
    assert len(chosen) <= 24  # of 288; 18 are needed


def test_a_cell_fails_where_the_defaults_alone_are_killed_or_slow(caps):
    def ran(rate):
        return {"batches_per_s": rate} if rate else {"ended": "SIGKILL", "said": ""}

    def cell(bare, defaults):
        return {"bare": [ran(r) for r in bare], "defaults": [ran(r) for r in defaults], "others": 0.0}

    cells = {
        "good": cell([1.0, 2.0], [1.9, 1.0]),
        "slow": cell([1.0, 2.0], [1.8, 1.0]),
        "killed": cell([1.0, 1.0], [1.0, 0]),
        "both killed": cell([0], []),
    }
    assert caps.summary(cells) == (["killed"], ["slow: 0.90"])


@pytest.mark.parametrize(("scale", "status"), [(1.0, 1), (0.1, 0)])
def test_a_target_is_judged_from_the_scale_it_was_set_for(monkeypatch, tmp_path, capsys, scale, status):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setattr(sys, "argv", ["b", "--scale", str(scale), "--no-save", "--data", str(tmp_path)])
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "DGLBACKEND"):
        monkeypatch.setenv(name, "1")  # which options() changes
    import _common

    report = _common.Report("b", _common.options(None))
    slow = _common.Target("gz", ("peer",), 2.0, scale=1)
    report.rates("t", {"gz": [1.0], "peer": [1.5]}, unit="x", targets=(slow,))
    said = "FAIL gz is 1.50x peer; at least 2x wanted" if status else "not judged at this scale: gz is 1.50x"
    assert said in capsys.readouterr().out
    assert report.tables[0]["targets"][0]["judged"] == bool(status)
    with pytest.raises(SystemExit) as end:
        report.finish()
    assert end.value.code == status


def test_forks_are_processes_of_their_own_and_say_why_they_failed(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from _process import Forks

    with Forks("import os, time; held = bytearray(50 << 20)") as forks:
        used = forks.run("b = bytearray(n); os.write(1, b'0')", setup="n = 100 << 20; held = None")
        assert 90e6 < used.peak_rss - used.rss_before < 150e6
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            forks.run("1 / 0")
        with pytest.raises(RuntimeError, match="ended with -9"):
            forks.run("os.kill(os.getpid(), 9)")
        assert forks.run("assert len(held) == 50 << 20; time.sleep(0.01)").seconds >= 0.01


def test_what_others_take_is_all_work_less_ones_own(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from _common import Bystanders

    # Seconds: on the clock, of all processors, of this process.
    moments = iter([(100.0, 50.0, 5.0), (110.0, 68.0, 20.0), (120.0, 78.0, 30.0)])
    monkeypatch.setattr(Bystanders, "_now", lambda self: next(moments))
    bystanders = Bystanders()
    assert bystanders.share() == pytest.approx(0.3)  # 18 s in all, 15 of its own
    assert bystanders.share() == 0
