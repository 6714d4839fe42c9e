"""gz doctor, gz bench and gz demo, whole, on graphs of a second. Their figures mean nothing there."""

from __future__ import annotations

import json
import os
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
import report_check

import gz
from gz._measure import capped, demo, disk
from gz._measure.demo_graph import CLASSES, DemoGraph
from gz._watch import machine, software
from gz.cli import main


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("tools") / "s"
    g = DemoGraph(4000, 24_000)
    gz.ingest(path, edges=g.edges(), features={"x": g.features(), "y": g.labels()}, splits=g.splits())
    return path


def told(capsys, *call):
    code = main([*map(str, call), "--json"])
    out, err = capsys.readouterr()
    assert err == ""
    return code, json.loads(out)


def test_doctor_predicts_for_every_cache(store, capsys):
    call = ("doctor", store, "--seconds", "0.05", "--no-frameworks", "--fanouts", "5,3", "--batch-size", "32")
    code, found = told(capsys, *call, "--cache", "auto", "--cache", "0", "--cache", "1MB")
    assert code == 0
    assert [c["asked"] for c in found["prediction"]["cases"]] == ["auto", "0", "1MB"]
    assert all(c["batches_per_second"] > 0 for c in found["prediction"]["cases"])
    assert found["prediction"]["workload"]["fanouts"] == [5, 3]
    assert {r["in_flight"] for r in found["disk"]["reads"]} >= {1}
    assert found["prediction"]["advice"]
    assert found["versions"]["numpy"] == np.__version__
    assert main([*map(str, call)]) == 0
    text = capsys.readouterr().out
    for word in (
        "CPU",
        "memory",
        "kernel",
        "filesystem",
        "disk",
        "O_DIRECT",
        "reads by",
        "memlock",
        "/dev/shm",
    ):
        assert word in text
    assert all(len(line) <= 80 or max(map(len, line.split())) > 40 for line in text.splitlines())


def test_doctor_without_a_store_leaves_no_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(disk, "_SCRATCH", 4 << 20)
    code, found = told(capsys, "doctor", "--dir", tmp_path, "--seconds", "0.05", "--no-frameworks")
    assert code == 0
    assert found["disk"]["file_bytes"] == 4 << 20
    assert os.listdir(tmp_path) == []


def test_reads_without_io_uring_are_measured_too(tmp_path):
    (tmp_path / "f").write_bytes(bytes(1 << 20))
    # On a busy machine a thread may not get its turn in so short a time.
    rates = (disk._by_threads(str(tmp_path / "f"), 4096, 4, 1, seconds) for seconds in (0.02, 0.5, 30))
    assert any(rate > 0 for rate in rates)


@pytest.mark.slow
def test_whether_frameworks_work_is_tried(tmp_path, monkeypatch):
    assert software.works({"torch": None, "torch_geometric": None}) == {
        "PyG": "not installed (torch, torch_geometric)",
        "DGL": "not installed (torch, dgl)",
    }
    monkeypatch.setattr(software, "_TRIES", {"PyG": "raise ImportError('no such thing')"})
    assert software.works({"torch": "1", "torch_geometric": "1"}) == {"PyG": "ImportError: no such thing"}


@pytest.mark.slow
def test_bench_measures_cold_and_warm_beside_torch(store, tmp_path, capsys):
    """DGL's part is tests/dgl/test_dgl_peer.py."""
    pytest.importorskip("torch_geometric")
    call = ("bench", store, "--seconds", "0.05", "--fanouts", "5,3", "--batch-size", "32")
    call += ("--only", "gathering", "--only", "loading")
    code, found = told(capsys, *call, "--html", tmp_path / "b.html", "--save", tmp_path / "b.json")
    assert code == 0
    done = {(p["task"], p["who"]) for p in found["phases"]}
    assert {
        ("gathering", "gz"),
        ("gathering", "torch on np.memmap"),
        ("loading", "gz_pyg.NeighborLoader"),
    } == done
    for p in found["phases"]:
        assert p["cold"]["batches_per_second"] > 0
        assert p["warm"]["batches"] >= 3
        assert len(p["samples"]) >= 2
    assert sum(found["degrees"]["node to node"]["counts"]) == 4000
    report_check.sound((tmp_path / "b.html").read_text())
    assert json.loads((tmp_path / "b.json").read_text())["phases"] == found["phases"]


def test_a_contestant_that_fails_is_told_of_and_not_counted(store, tmp_path):
    from gz._measure import bench

    broken = bench.Contestant("sampling", "broken", "gz._measure.nothing", "sample")
    options = bench.Options(bench.Request((2,), 8), seconds=0.01)
    assert "nothing" in bench._in_child(broken, str(store), options, str(tmp_path))["why"]


# ---- the demo ----


def test_the_graph_of_the_demo_is_what_it_says():
    g = DemoGraph.of_size(2_000_000)
    src, dst = (np.concatenate(part) for part in zip(*g.edges(), strict=True))
    assert len(src) == g.num_edges
    assert src.max() < g.num_nodes > dst.max()
    assert 0.7 < (src % CLASSES == dst % CLASSES).mean() < 0.85
    assert np.bincount(src).max() > 20 * np.bincount(src).mean()  # hubs
    x, y = np.concatenate(list(g.features())), np.concatenate(list(g.labels()))
    assert x.shape == (g.num_nodes, 128)
    centres = np.stack([x[y == c].mean(0) for c in range(CLASSES)])
    assert np.abs(centres).mean() > 0.5  # the label shows in the features
    split = g.splits()
    assert not np.isin(split["test"], split["train"]).any()


def tiny(tmp_path, **changes) -> demo.Options:
    return demo.Options(
        str(tmp_path / "d"),
        str(tmp_path / "p.svg"),
        **{"size": 10**6, "limit": 10**9, "seconds": 0.5} | changes,
    )


@pytest.mark.slow
def test_a_tiny_demo_trains_draws_and_cleans_up(tmp_path, monkeypatch):
    """By the watch that stands in where no cgroup can be made, so that it is the same everywhere."""
    pytest.importorskip("torch_geometric")
    monkeypatch.setattr(capped, "_make_group", _refused)
    lines: list[str] = []
    found = demo.demonstrate(tiny(tmp_path, size=3 * 10**6), lines.append, lambda _: None)
    text = "\n".join(lines)
    assert found.files.code == 0, found.files.lines
    assert found.result["accuracy"] > 0.3  # of 16 classes
    assert found.memory.code == 0  # so small a graph is no trouble in memory either
    assert "no cgroup can be made here" in text
    assert ElementTree.fromstring((tmp_path / "p.svg").read_text()).tag.endswith("svg")
    assert not (tmp_path / "d").exists()


def _refused(size):
    raise PermissionError(13, "Permission denied")


def test_a_watched_command_that_takes_too_much_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(capped, "_make_group", _refused)
    limit = capped.Limit.of(200 * 10**6)
    # It stops at 600 MB, however late the watch comes.
    greedy = (
        "import time\nheld = []\nwhile len(held) < 60:\n    held.append(b'x' * 10**7)\n    time.sleep(0.01)\n"
    )
    greedy += "time.sleep(100)\n"
    ran = capped.run(
        [sys.executable, "-c", greedy], limit, str(tmp_path / "o"), lambda *_: None, dict(os.environ)
    )
    assert ran.killed
    assert ran.peak > 200 * 10**6
    modest = capped.run(
        [sys.executable, "-c", "print(1)"], limit, str(tmp_path / "o"), lambda *_: None, dict(os.environ)
    )
    assert (modest.killed, modest.code, modest.lines) == (False, 0, ["1"])


def test_a_cgroup_kills_and_is_removed(tmp_path):
    limit = capped.Limit.of(100 * 10**6)
    if limit.folder is None:
        pytest.skip(limit.how)
    if machine.describe()["swap"]:
        limit.close()
        pytest.skip("there is swap, which a limit of memory may not reach")
    try:
        greedy = "b'x' * 10**9"
        ran = capped.run(
            [sys.executable, "-c", greedy], limit, str(tmp_path / "o"), lambda *_: None, dict(os.environ)
        )
        assert ran.killed
    finally:
        limit.close()
    assert not os.path.exists(limit.folder)


def test_the_demo_looks_for_room_and_touches_no_folder_of_others(tmp_path):
    with pytest.raises(OSError, match="of disk are needed"):
        demo.prepare(tiny(tmp_path, size=10**18))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "mine").write_text("")
    with pytest.raises(FileExistsError, match="not of gz demo"):
        demo.prepare(tiny(tmp_path))
    assert (tmp_path / "d" / "mine").exists()
    (tmp_path / "d" / demo._MARK).write_text("{}")
    assert demo.prepare(tiny(tmp_path)) == str(tmp_path / "d")
