"""The gz command, as a person types it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import gz
from gz.cli import main

EDGES = "src,dst,weight\n0,1,0.5\n1,2,1\n2,0,2.5\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text(EDGES)
    np.save(tmp_path / "x.npy", np.eye(3, dtype=np.float32))
    np.save(tmp_path / "train.npy", np.array([0, 2]))
    return tmp_path


def test_ingest_info_and_verify(here, capsys):
    command = "ingest s --edges edges.csv --features x=x.npy --split train=train.npy"
    assert main([*command.split(), "--weight", "weight", "--directions", "both"]) == 0
    assert "3 nodes, 3 edges" in capsys.readouterr().out
    assert main(["info", "s"]) == 0
    text = capsys.readouterr().out
    for part in (
        "nodes node: 3",
        "float32 3 x 3",
        "split train",
        "2 nodes",
        "weighted",
        "degree 1.0 on average",
        "held in memory",
    ):
        assert part in text
    assert main(["verify", "s"]) == 0
    assert "all sound" in capsys.readouterr().out
    store = gz.open("s")
    assert store.graph().num_edges == 3
    assert store.edge_feature("weight").get_tensor().sum() == 4


def test_info_and_verify_take_a_single_file(here, capsys):
    gz.ingest("s", edges="edges.csv", features={"x": "x.npy"})
    store = gz.open("s")
    for path, part in ((store.graph().path, "degree"), (store.feature("x").path, "float32 3 x 3")):
        assert main(["info", path]) == 0
        assert part in capsys.readouterr().out
        assert main(["verify", path]) == 0
        assert "1 files, all sound" in capsys.readouterr().out


def test_verify_names_every_damaged_file(here, capsys):
    gz.ingest("s", edges="edges.csv", features={"x": "x.npy"})
    store = gz.open("s")
    for path in (store.feature("x").path, store.edge_feature("weight").path):
        with open(path, "r+b") as f:
            f.seek(4096)
            f.write(b"\xff")
    assert main(["verify", "s"]) == 1
    err = capsys.readouterr().err
    assert "x.gd: checksum" in err
    assert "weight.gd: checksum" in err
    assert "2 of 3 files failed" in err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("info nothing", "there is no such store"),
        ("verify nothing", "there is no such store"),
        ("ingest s --edges missing.csv", "missing.csv: No such file"),
        ("ingest s", "give --edges FILE"),
        ("ingest s --edges edges.csv --features x", "'x': write it as NAME=FILE"),
        ("ingest s --edges edges.csv --features x=nothing.npy", "nothing.npy"),
        ("ingest s --edges edges.csv --num-nodes 2", "2"),
        ("ingest s.gz --edges edges.csv", ".gz"),
    ],
)
def test_a_wrong_call_says_so_in_one_line_and_writes_nothing(command, message, here, capsys):
    before = sorted(p.name for p in here.iterdir())
    assert main(command.split()) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("gz: ")
    assert err.count("\n") == 1
    assert sorted(p.name for p in here.iterdir()) == before


@pytest.mark.parametrize("command", ["", "ingest", "fly away", "ingest s --edges e.csv --ids sparse"])
def test_wrong_usage_exits_with_2(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main(command.split())
    assert stop.value.code == 2


def test_help_shows_examples(capsys):
    for command in (["--help"], ["ingest", "--help"], ["info", "--help"], ["verify", "--help"]):
        with pytest.raises(SystemExit) as stop:
            main(command)
        assert stop.value.code == 0
        assert "gz " in capsys.readouterr().out


def test_the_module_runs_as_a_command(here):
    done = subprocess.run(
        [sys.executable, "-m", "gz", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"gz {gz.__version__}"


def test_output_into_a_closed_pipe_is_no_traceback(here):
    gz.ingest("s", edges="edges.csv")
    done = subprocess.run(
        f"{sys.executable} -m gz verify s | true", shell=True, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
