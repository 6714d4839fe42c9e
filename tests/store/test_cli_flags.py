"""What every command of gz has: found by walking its parser, so that a new one cannot be without."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import gz
from gz._base.progress import wrapped
from gz.cli import main, parser

# For each command a call that works and one that fails, in a folder with a store s.
CALLS = {
    "ingest": ("ingest new --edges edges.csv", "ingest newer --edges missing.csv"),
    "info": ("info s", "info missing"),
    "verify": ("verify s", "verify missing"),
    "add": ("add s --features y=y.npy", "add s --features z=missing.npy"),
    "rm": ("rm s --features x", "rm s --features missing"),
    "reorder": ("reorder s --undo", "reorder missing"),
    "export": ("export s out", "export missing out2"),
    "completion": ("completion bash", "info missing"),  # of its own it has wrong usage only
    "doctor": ("doctor s --seconds 0 --no-frameworks", "doctor missing --seconds 0 --no-frameworks"),
    "bench": ("bench s --only sampling --no-peers --seconds 0.01", "bench missing"),
    "report": ("report run.jsonl -o run.html", "report missing.jsonl -o run.html"),
    "demo": ("demo --dry-run --size 1MB", "demo --dry-run --size 1MB --dir missing/demo"),
}
if find_spec("dgl") is not None:
    CALLS["partition"] = ("partition s parts --parts 2", "partition missing parts2 --parts 2")


def commands() -> dict[str, argparse.ArgumentParser]:
    (found,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    return found.choices


def flags(of: argparse.ArgumentParser) -> set[str]:
    return {s for a in of._actions for s in a.option_strings}


def test_every_command_is_tried_here_and_has_the_common_flags():
    assert {*commands(), "partition"} == {*CALLS, "partition"}  # which is tried where there is DGL
    for name, command in {"gz": parser(), **commands()}.items():
        assert {"--json", "-q", "--quiet", "--help"} <= flags(command), name


def test_commands_that_work_within_a_budget_say_where_the_rest_goes():
    for name, command in commands().items():
        assert ("--memory" in flags(command)) == ("--tmp" in flags(command)), name


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text("src,dst,w\n0,1,0.5\n1,2,1\n2,0,2.5\n")
    np.save("x.npy", np.eye(3, dtype=np.float32))
    np.save("y.npy", np.arange(3))
    gz.ingest("s", edges="edges.csv", features={"x": "x.npy"}, weight="w")
    (tmp_path / "run.jsonl").write_text('{"kind":"run","version":1}\n{"kind":"sample","t":0,"batches":0}\n')
    return tmp_path


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("before", [False, True])
def test_json_is_one_document_whatever_happens(here, capsys, name, before):
    for code, call in enumerate(CALLS[name]):
        assert main(["--json", *call.split()] if before else [*call.split(), "--json"]) == code
        out, err = capsys.readouterr()
        assert err == ""
        told = json.loads(out)
        assert told["command"] == call.split()[0]
        assert told["ok"] == (code == 0)
        assert told["exit"] == code
        assert (told["error"] is None) == told["ok"]
    assert "missing" in told["error"]["message"]
    assert main([name, "--json", "--no-such-flag"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["exit"] == 2
    assert told["error"]["type"] == "UsageError"


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("flag", ["-q", "--quiet"])
def test_quiet_says_nothing_but_errors(here, capsys, name, flag):
    works, fails = CALLS[name]
    assert main([*works.split(), flag]) == 0
    assert capsys.readouterr() == ("", "")
    assert main([*fails.split(), flag]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "missing" in err


def test_the_documents_say_what_the_text_says(here, capsys):
    def told(call):
        assert main([*call.split(), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    info = told("info s")
    assert info["nodes"]["node"]["num_nodes"] == 3
    assert info["nodes"]["node"]["columns"]["x"] | {"path": ""} == {
        "path": "", "dtype": "float32", "stored": "float32", "shape": [3, 3], "bytes": 36,
        "categories": None, "unit": None,
    }  # fmt: skip
    (edge,) = info["edges"]
    assert (edge["type"], edge["num_edges"], edge["in"]["weighted"]) == (["node", "to", "node"], 3, True)
    assert edge["out"] is None
    assert told(f"info {info['nodes']['node']['columns']['x']['path']}")["shape"] == [3, 3]
    report = told("ingest new --edges edges.csv")
    assert report["num_edges"] == [{"type": ["node", "to", "node"], "num_edges": 3}]
    assert report["plan"]["edges"][0]["ends"] == ["src", "dst"]
    assert told("ingest other --edges edges.csv --dry-run")["plan"] == report["plan"]
    assert not os.path.exists("other")
    assert told("add s --features y=y.npy")["added"] == {
        "y": {"dtype": "int64", "stored": "int64", "shape": [3]}
    }
    with open(gz.open("s").feature("y").path, "r+b") as f:
        f.seek(4096)
        f.write(b"\xff")
    assert main(["verify", "s", "--json"]) == 1
    (failed,) = json.loads(capsys.readouterr().out)["failed"]
    assert "checksum" in failed["error"]


def test_warnings_are_in_the_document_and_on_stderr(here, capsys):
    call = ["ingest", "new", "--edges", "edges.csv", "--edge-columns", "w", "--overwrite"]
    assert main([*call, "--json"]) == 0
    (said,) = json.loads(capsys.readouterr().out)["warnings"]
    assert "edge_columns= is called columns=" in said
    assert main(call) == 0
    assert "edge_columns= is called columns=" in " ".join(capsys.readouterr().err.split())


def test_every_text_keeps_to_80_columns(here, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("", *commands()):
        with pytest.raises(SystemExit):
            main([*name.split(), "--help"])
    for name in CALLS.keys() - {"completion"}:  # which a shell reads
        for call in CALLS[name]:
            main(call.split())
    main(
        ["ingest", "t", "--edges", "edges.csv", "--features", "x=x.npy", "--columns", "nothing", "--dry-run"]
    )
    main(["ingest", "t"])
    names = {f"column-with-a-long-name-{i}": np.zeros(3) for i in range(9)}
    gz.ingest("u", edges="edges.csv", features=names, progress=True)
    texts = "".join(capsys.readouterr())
    for line in texts.splitlines():
        assert len(line) <= 80 or max(map(len, line.split())) > 70, line  # a path is not cut


def test_wrapping_keeps_words_lines_and_indents():
    text = "gz: " + "word " * 40 + "\n  indented " + "x" * 90 + " end\nshort"
    lines = wrapped(text).split("\n")
    assert " ".join(wrapped(text).split()) == " ".join(text.split())
    assert lines[1].startswith("  word")
    assert lines[-1] == "short"
    assert lines[-3:-1] == ["  indented " + "x" * 90, "    end"]


def test_an_interrupt_exits_with_130(here, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(gz, "ingest", interrupted)
    assert main(["ingest", "t", "--edges", "edges.csv"]) == 130
    assert "interrupted; nothing was written" in capsys.readouterr().err
    assert main(["ingest", "t", "--edges", "edges.csv", "--json"]) == 130
    assert json.loads(capsys.readouterr().out)["exit"] == 130


def test_ctrl_c_ends_a_command_with_130(tmp_path):
    os.mkfifo(tmp_path / "wait")  # exported to a module that waits, as an ingest would for a disk
    code = (
        "import gz.cli, signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "gz.ingest = lambda *a, **k: (open(sys.argv[1]).read(), time.sleep(60))\n"
        "sys.exit(gz.cli.main(['ingest', 'x', '--edges', 'e.csv']))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "wait")], stderr=subprocess.PIPE)
    with open(tmp_path / "wait", "w"):
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert b"interrupted" in process.stderr.read()
    process.stderr.close()


@pytest.mark.slow
def test_temporary_files_go_where_they_are_told_to(here, monkeypatch):
    """A budget that edges do not fit: with a folder that nothing can be made in, that is an error."""
    rng = np.random.default_rng(0)
    np.save("e.npy", rng.integers(0, 20_000, (2, 400_000)))
    np.save("w.npy", rng.random(400_000))
    os.mkdir("tmp")
    call = "ingest big --edges e.npy --edge-features w=w.npy --directions both --ids int --memory 2MB --tmp"
    if os.path.isdir("/proc/self"):
        assert main([*call.split(), "/proc/self"]) == 1  # no file can be made there
        assert not os.path.exists("big")
    assert main([*call.split(), "tmp"]) == 0
    assert os.listdir("tmp") == []
    gz.ingest("same", edges="e.npy", edge_features={"w": "w.npy"}, directions="both", ids="int")
    big, same = gz.open("big"), gz.open("same")
    assert np.array_equal(big.graph().indices, same.graph().indices)
    add = "add big --edge-type node,to,node --features v=w.npy --memory 1MB --tmp"
    assert main([*add.split(), "/proc/self"]) == 1
    assert main([*add.split(), "tmp"]) == 0
    assert np.array_equal(big.edge_feature("w").get_tensor(), gz.open("big").edge_feature("v").get_tensor())
    assert main(["export", "big", "out", "--memory", "1MB", "--tmp", "/proc/self"]) == 1
    assert main(["export", "big", "out", "--memory", "1MB", "--tmp", "tmp"]) == 0
    assert os.listdir("tmp") == []
