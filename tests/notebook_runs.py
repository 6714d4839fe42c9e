"""Runs a notebook as a kernel would, with none installed: its code cells one after the other in one process.

    python tests/notebook_runs.py examples/first_look.ipynb    writes what each cell prints into the notebook

Cells are Python, and lines `!command` that a shell runs. What is kept of a cell is what it prints: no picture
and no value of a last line, so cells print what they want to show.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_MARK = "\0cell\0"


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [c for c in notebook["cells"] if c["cell_type"] == "code"]


def script(notebook: dict[str, Any]) -> str:
    """The cells as a program that says where each begins."""
    lines = ["import subprocess as _subprocess, sys as _sys"]
    for cell in code_cells(notebook):
        lines.append(f"print({_MARK!r}, flush=True)")
        for line in "".join(cell["source"]).splitlines():
            if line.startswith("!"):
                line = f"_sys.stdout.flush(); _subprocess.run({line[1:]!r}, shell=True, check=True)"
            lines.append(line)
    return "\n".join([*lines, ""])


def printed(notebook: dict[str, Any], folder: Path, seconds: float = 240) -> list[str]:
    """What each code cell prints, run in an empty folder. An error shows the whole of what came before."""
    program = folder / "cells.py"
    program.write_text(script(notebook), encoding="utf-8")
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    threads = os.environ.get("OMP_NUM_THREADS", "1")  # on a busy machine more of them take longer
    done = subprocess.run(
        [sys.executable, program.name],
        cwd=folder,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": threads},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    program.unlink()
    if done.returncode:
        raise AssertionError(f"the notebook fails:\n{done.stdout}\n{done.stderr}".replace(_MARK, "---"))
    told = done.stdout.replace(f"{folder.resolve()}{os.sep}", "")
    return [part.removeprefix("\n") for part in told.split(_MARK)[1:]]


def shown(cell: dict[str, Any]) -> str:
    """What the notebook has as the output of a cell."""
    return "".join("".join(o["text"]) for o in cell["outputs"])


def write_outputs(path: Path) -> None:
    notebook = read(path)
    with tempfile.TemporaryDirectory() as folder:
        texts = printed(notebook, Path(folder))
    for number, (cell, text) in enumerate(zip(code_cells(notebook), texts, strict=True), 1):
        stream = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
        cell["outputs"] = [stream] if text else []
        cell["execution_count"] = number
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_outputs(Path(sys.argv[1]))
