"""What gz info draws, beside numpy's counts; completions, run by the shells they are for; progress elsewhere
than on a terminal."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys

import numpy as np
import pytest

import gz
from gz._base.progress import Progress
from gz.cli import main, parser
from gz.cli.draw import degree_histogram, degree_lines, size_lines


@pytest.mark.parametrize("chunk", [1 << 20, 7])
def test_the_histogram_counts_every_node(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr("gz.cli.draw._NODES", chunk)
    dst = np.repeat(np.arange(40), np.arange(40))  # node i has i edges
    gz.ingest(tmp_path / "s", (dst * 0, dst), num_nodes=45)
    found = degree_histogram(gz.open(tmp_path / "s").graph())
    degrees = np.bincount(dst, minlength=45)
    steps = [(b["from"], b["to"]) for b in found]
    assert steps == [(0, 0), (1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, 63)]
    assert [b["nodes"] for b in found] == [
        int(((degrees >= b["from"]) & (degrees <= b["to"])).sum()) for b in found
    ]


def test_no_nodes_and_no_edges(tmp_path, capsys):
    gz.ingest(tmp_path / "s", (np.zeros(0, int), np.zeros(0, int)), num_nodes=0)
    assert main(["info", str(tmp_path / "s")]) == 0
    gz.ingest(tmp_path / "t", (np.zeros(0, int), np.zeros(0, int)), num_nodes=9)
    assert degree_histogram(gz.open(tmp_path / "t").graph()) == [{"from": 0, "to": 0, "nodes": 9}]


def test_drawings_fit_the_terminal_and_lose_nothing():
    wide = [{"from": (1 << e) >> 1, "to": max((1 << e) - 1, 0), "nodes": 10**10 + e} for e in range(40)]
    lines = degree_lines(wide)
    assert len(lines) <= 12
    assert lines[0].split()[0] == "0"
    assert sum(int(line.split(" % ")[0].split()[-2].replace(",", "")) for line in lines) == sum(
        b["nodes"] for b in wide
    )
    files = {f"edges/{'a_long_type' * 9}__{i}/in.gl": 10**12 + i for i in range(30)}
    drawn = size_lines(files)
    assert drawn[-1].split()[:2] == ["18", "others"]
    assert max(map(len, [*lines, *drawn])) <= 80
    assert max(map(len, drawn)) > 70


def test_info_as_json_has_what_is_drawn(tmp_path, capsys):
    gz.ingest(tmp_path / "s", ([0, 1, 2], [1, 1, 0]))
    assert main(["info", str(tmp_path / "s"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [b["nodes"] for b in found["edges"][0]["in"]["degree"]["histogram"]] == [1, 1, 1]
    assert sum(found["files"].values()) == found["bytes"]


# ---- completion ----


def bash(script, *words):
    """What bash would offer for the last of the words."""
    code = f'{script}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gz; printf "%s\\n" "${{COMPREPLY[@]}}"'
    run = subprocess.run(["bash", "-c", code, "-", *words], capture_output=True, text=True, check=True)
    assert run.stderr == ""
    return run.stdout.split()


@pytest.fixture(scope="module")
def script():
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    made = subprocess.run(
        [sys.executable, "-m", "gz", "completion", "bash"], capture_output=True, text=True, check=True
    )
    return made.stdout


def test_bash_completes_commands_flags_and_values(script):
    (found,) = (a for a in parser()._actions if isinstance(a.choices, dict))
    assert bash(script, "gz", "") == list(found.choices)
    assert bash(script, "gz", "in") == ["ingest", "info"]
    assert bash(script, "gz", "--json", "ver") == ["verify"]
    assert bash(script, "gz", "--js") == ["--json"]
    assert bash(script, "gz", "ingest", "out", "--ed") == ["--edges", "--edge-features"]
    assert bash(script, "gz", "ingest", "--ids", "") == ["dense", "int", "text", "map"]
    assert bash(script, "gz", "ingest", "--ids", "=", "m") == ["map"]
    assert bash(script, "gz", "ingest", "--ids", "=") == ["dense", "int", "text", "map"]
    assert bash(script, "gz", "ingest", "--undirected", "--coa") == ["--coalesce"]
    assert bash(script, "gz", "completion", "z") == ["zsh"]
    for files in (["ingest", "--edges", ""], ["ingest", "--edges", "-"], ["info", ""], ["info", "s", ""]):
        assert bash(script, "gz", *files) == []  # then bash itself: complete -o default
    assert "complete -o default -F _gz gz" in script


def test_bash_offers_every_flag_that_help_shows(script):
    (found,) = (a for a in parser()._actions if isinstance(a.choices, dict))
    for name, command in found.choices.items():
        shown = {w.strip(",[]") for w in command.format_help().split()}
        offered = set(bash(script, "gz", name, "-"))
        assert {s for a in command._actions for s in a.option_strings if s in shown} == offered, name


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_take_theirs(shell, capsys, tmp_path):
    assert main(["completion", shell]) == 0
    made = capsys.readouterr().out
    assert "--ids" in made or "-l ids" in made
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    (tmp_path / "made").write_text(made)
    subprocess.run([shell, "-n", str(tmp_path / "made")], check=True)


# ---- progress ----


def test_a_line_every_ten_seconds_where_there_is_no_terminal(caplog, capfd):
    now = [0.0]
    with caplog.at_level(logging.INFO, "gz"):
        show = Progress(clock=lambda: now[0])
        for phase in ("edges", "columns"):
            show.phase(phase)
            for step in range(1, 16):
                now[0] += 1
                show.update(step * 1e6, 15e6, " edges")
        show.close()
    told = [(r.name, r.levelname, r.getMessage()) for r in caplog.records]
    assert told == [
        ("gz", "INFO", "edges:  66.7 %  1.0 M edges/s  0:05 left"),
        ("gz", "INFO", "columns:  33.3 %  1.0 M edges/s  0:10 left"),
        ("gz", "INFO", "columns: 100.0 %  1.0 M edges/s  0:00 left"),
    ]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_is_logged_where_it_is_shown_or_was_not_wanted(caplog, capfd, enabled):
    now = [0.0]
    with caplog.at_level(logging.INFO, "gz"):
        show = Progress(enabled, clock=lambda: now[0])
        show.phase("edges")
        for _ in range(30):
            now[0] += 1
            show.update(now[0], None, " edges")
    assert not caplog.records
    assert ("edges: 30" in capfd.readouterr().err) == enabled


@pytest.mark.parametrize("flags", [[], ["-q"], ["--json"]])
def test_the_command_shows_the_log(tmp_path, capsys, monkeypatch, flags):
    monkeypatch.setattr("gz._base.progress._LOGGED_EVERY", 0.0)
    np.save(tmp_path / "e.npy", np.zeros((2, 10), int))
    before = logging.getLogger("gz").handlers[:]
    assert main(["ingest", str(tmp_path / "s"), "--edges", str(tmp_path / "e.npy"), *flags]) == 0
    err = capsys.readouterr().err
    assert ("gz: " in err and " edges/s" in err) == (not flags)
    assert logging.getLogger("gz").handlers == before
