"""Scripts that are forked from a process that has torch: they are what `python script.py` would be."""

from __future__ import annotations

import json
import os
import signal

import pytest
import ready

pytest.importorskip("torch")

SHOW = """
import json, os, sys
before = sorted(m for m in ("gz", "gz_pyg", "gz_dgl", "pytest", "ready", "waits") if m in sys.modules)
import gz
main = sys.modules["__main__"]
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "cwd": os.getcwd(), "env": os.environ.get("GZ_SHOWN"),
    "name": __name__, "file": main.__dict__.get("__file__"), "own": main.__dict__ is globals(),
    "before": before, "torch": "torch" in sys.modules,
}))
"""


def test_a_script_has_its_arguments_folder_environment_and_main(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(SHOW)
    env = {**os.environ, "GZ_SHOWN": "yes"}
    done = ready.run([file, "a", 2], ready.TORCH, cwd=tmp_path, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "argv": [str(file), "a", "2"], "path": str(tmp_path), "cwd": str(tmp_path), "env": "yes",
        "name": "__main__", "file": str(file), "own": True, "before": [], "torch": True,
    }  # fmt: skip


def test_code_and_modules_run_too(tmp_path):
    done = ready.run(["-c", "import sys; print(sys.argv)", "x"], ready.TORCH)
    assert done.stdout == "['-c', 'x']\n"
    (tmp_path / "some_module.py").write_text("import sys; print(__name__, sys.argv[1:])")
    done = ready.run(["-m", "some_module", "x"], ready.TORCH, cwd=tmp_path)
    assert done.stdout == "__main__ ['x']\n"


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        ("import atexit, sys; atexit.register(sys.stderr.write, 'at the end')", 0, "at the end"),
    ],
    ids=["exit", "error", "signal", "atexit"],
)
def test_it_ends_as_an_interpreter_does(code, status, said):
    done = ready.run(["-c", code], ready.TORCH)
    assert done.returncode == status
    assert done.stderr.endswith(said)
    assert bool(done.stderr) == bool(said)


def test_children_do_not_draw_the_same_numbers():
    draws = {ready.run(["-c", "import numpy; print(numpy.random.rand())"], ready.TORCH).stdout for _ in "ab"}
    assert len(draws) == 2


def test_after_one_that_was_given_up_the_next_has_its_own_answer(monkeypatch):
    monkeypatch.setattr("waits.PATIENCE", 0.2)
    monkeypatch.setattr("waits._in_vain", False)
    with pytest.raises(AssertionError, match="hung, and was killed"):
        ready.run(["-c", "import time; time.sleep(1000)"], ("json",))
    monkeypatch.undo()
    assert ready.run(["-c", "raise SystemExit(3)"], ("json",)).returncode == 3
