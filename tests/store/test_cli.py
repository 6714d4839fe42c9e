"""The gz command, as a person types it."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import gz
from gz.cli import main

TO = "edges/node__to__node"
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
    assert re.fullmatch(rf"{here}/s: 3\s+nodes,\s+3\s+edges\s+in\s+\d+\.\d\s+s\n", capsys.readouterr().out)
    assert main(["info", "s"]) == 0
    # A line that is too long goes on two columns further in: here they are whole again.
    shown = re.sub(r"\n    +(?=\S)", " ", capsys.readouterr().out)
    path, size, gap, *content = shown.splitlines()
    at = next(i for i, line in enumerate(content) if line.startswith("with "))
    content, free, held = content[:at], content[at:-4], content[-4:]
    assert (path, gap) == (f"{here}/s", "")
    assert re.fullmatch(r"  homogeneous, \d+\.\d kB on disk", size)
    assert content == [
        "nodes node: 3",
        "  x                float32 3 x 3, 36 B",
        "  split train      2 nodes",
        "edges node to node: 3",
        "  in               degree 1.0 on average, 1 at most, 32-bit ids, lists sorted, weighted, 24.6 kB",
        "  out              degree 1.0 on average, 1 at most, 32-bit ids, lists sorted, weighted, 20.5 kB",
        "  edge ids         original",
        "  weight           float32 3, 12 B",
        "in-edges of a node, node to node, and how many nodes",
        "  0  0    0 %",
        f"  1  3  100 %  {'#' * 65}",
        "out-edges of a node, node to node, and how many nodes",
        "  0  0    0 %",
        f"  1  3  100 %  {'#' * 65}",
        "on disk",
        *content[-6:],
    ]
    assert all(re.fullmatch(r"  \S+ +[\d.]+ k?B +\d+ %  #+", line) for line in content[-6:])
    said = " ".join(" ".join(free).split())
    assert re.fullmatch(r"with .*B of memory free; what is not in it is read by .* \(.*\)", said)
    assert held == [
        "  edges/node__to__node/in.gl       held in memory",
        "  edges/node__to__node/out.gl      held in memory",
        "  nodes/node/x.gd                  held in memory",
        "  edges/node__to__node/weight.gd   held in memory",
    ]
    assert main(["verify", "s"]) == 0
    files = [
        "nodes/node/x.gd",
        "nodes/node/split-train.gd",
        *(f"{TO}/{f}" for f in ("in.gl", "out.gl", "weight.gd")),
    ]
    assert capsys.readouterr().out.splitlines() == [
        *(f"ok      {here}/s/{file}" for file in files),
        "5 files, all sound",
    ]
    store = gz.open("s")
    assert store.graph().num_edges == 3
    assert store.edge_feature("weight").get_tensor().sum() == 4


def test_info_and_verify_take_a_single_file(here, capsys):
    gz.ingest("s", edges="edges.csv", features={"x": "x.npy"})
    store = gz.open("s")
    for path, text in (
        (store.graph().path, "degree 1.0 on average, 1 at most, 32-bit ids, lists sorted, 16.4 kB"),
        (store.feature("x").path, "float32 3 x 3, 36 B"),
    ):
        assert main(["info", path]) == 0
        drawn = f"edges of a node, and how many nodes\n  0  0    0 %\n  1  3  100 %  {'#' * 65}\n"
        assert capsys.readouterr().out == f"{path}\n  {text}\n" + (drawn if "degree" in text else "")
        assert main(["verify", path]) == 0
        assert capsys.readouterr().out == f"ok      {path}\n1 files, all sound\n"


def test_verify_names_every_damaged_file(here, capsys):
    gz.ingest("s", edges="edges.csv", features={"x": "x.npy"})
    store = gz.open("s")
    for path in (store.feature("x").path, store.edge_feature("weight").path):
        with open(path, "r+b") as f:
            f.seek(4096)
            f.write(b"\xff")
    assert main(["verify", "s"]) == 1
    out, err = capsys.readouterr()
    assert out == f"ok      {here}/s/{TO}/in.gl\n"
    said = " ".join(err.split())
    assert f"FAILED {here}/s/nodes/node/x.gd: checksum of section 'data' does not match" in said
    assert f"FAILED {here}/s/{TO}/weight.gd: checksum of section 'data' does not match" in said
    assert said.endswith("gz: 2 of 3 files failed")


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("info nothing", 1, "there is no such store"),
        ("verify nothing", 1, "there is no such store"),
        ("doctor nothing", 1, "there is no such store"),
        ("bench nothing", 1, "there is no such store"),
        ("ingest s --edges missing.csv", 1, "missing.csv: No such file"),
        ("ingest s", 2, "give --edges FILE"),
        ("ingest s --edges edges.csv --features x", 2, "'x': write it as NAME=FILE"),
        ("ingest s --edges edges.csv --features x=nothing.npy", 1, "nothing.npy"),
        ("ingest s --edges edges.csv --num-nodes 2", 1, "2"),
        ("ingest s --edges edges.csv --tmp nowhere", 1, "nowhere"),
        ("ingest s.gz --edges edges.csv", 1, ".gz"),
    ],
)
def test_a_wrong_call_says_so_and_writes_nothing(command, code, message, here, capsys):
    before = sorted(p.name for p in here.iterdir())
    assert main(command.split()) == code
    out, err = capsys.readouterr()
    assert not out
    assert message in " ".join(err.split())  # wherever the lines of 80 end
    assert err.startswith("gz: ")
    assert sorted(p.name for p in here.iterdir()) == before


@pytest.mark.parametrize(
    "command",
    ["", "ingest", "fly away", "ingest s --edges e.csv --ids sparse", "export s out --memory much", "add s"],
)
def test_wrong_usage_exits_with_2_and_shows_the_usage(command, capsys):
    assert main(command.split()) == 2
    assert capsys.readouterr().err.startswith("usage: gz")


@pytest.mark.parametrize(
    ("command", "usage", "message"),
    [
        (
            "ingest s --edges e.csv --undirectd",
            "gz ingest",
            "arguments: --undirectd; did you mean --undirected?",
        ),
        ("bench s --fanot=5", "gz bench", "unrecognized arguments: --fanot=5; did you mean --fanouts?"),
        ("info s more", "gz info", "unrecognized arguments: more"),
        (
            "reorder s --fanouts 15,ten",
            "gz reorder",
            "--fanouts: fanouts are '15,ten'; write numbers",
        ),
    ],
)
def test_a_word_that_is_not_known_is_told_beside_the_flags_of_its_command(command, usage, message, capsys):
    assert main(command.split()) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert err.startswith(f"usage: {usage} ")
    assert message in err


def test_help_shows_examples(capsys):
    for command, example in {
        "": "  gz ingest papers --edges edges.csv --features x=x.npy    make a store\n",
        "ingest": "  gz ingest cora --edges cites.csv --features x=x.npy --features y=y.npy\n",
        "info": "  gz info papers\n",
        "verify": "  gz verify papers && echo sound\n",
        "add": "  gz add papers --features emb=emb.npy\n",
        "rm": "  gz rm papers --features emb\n",
        "completion": 'eval "$(gz completion bash)"',
        "export": "  gz export papers folder\n  gz ingest again --spec folder/graph.toml\n",
        "doctor": "  gz doctor papers --fanouts 15,10,5 --batch-size 1024\n",
        "bench": "  gz bench papers --cache 4GB --html bench.html --save bench.json\n",
        "report": "  gz report run.jsonl -o report.html ",
        "demo": "  gz demo --limit 1GB --size 3GB\n",
    }.items():
        with pytest.raises(SystemExit) as stop:
            main([*command.split(), "--help"])
        assert stop.value.code == 0
        out = capsys.readouterr().out
        assert out.startswith(f"usage: gz {command}".rstrip() + " [-h]"), command
        assert example in out, command


def test_the_module_runs_as_a_command(here):
    done = subprocess.run(
        [sys.executable, "-m", "gz", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"gz {gz.__version__}\n"


def test_output_into_a_closed_pipe_is_no_traceback(here):
    gz.ingest("s", edges="edges.csv")
    done = subprocess.run(
        f"{sys.executable} -m gz verify s | true", shell=True, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
