"""examples/first_look.ipynb runs from top to bottom, and shows what its cells print."""

from __future__ import annotations

import re
from pathlib import Path

import notebook_runs as notebook
import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_look.ipynb"


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(tmp_path):
    written = notebook.read(NOTEBOOK)
    texts = notebook.printed(written, tmp_path)
    cells = notebook.code_cells(written)
    for cell, text in zip(cells, texts, strict=True):
        source = "".join(cell["source"])
        again = f"run `python tests/notebook_runs.py {NOTEBOOK}`:\n{source}"
        assert bool(text) == bool(notebook.shown(cell)), again
    (accuracy,) = re.findall(r"accuracy ([\d.]+)", "".join(texts))
    assert float(accuracy) > 0.6  # one in eight is chance


def test_the_notebook_is_one_that_jupyter_opens():
    written = notebook.read(NOTEBOOK)
    assert (written["nbformat"], written["nbformat_minor"]) == (4, 5)
    ids = [c["id"] for c in written["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in written["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        assert {"outputs", "execution_count"} <= cell.keys() or cell["cell_type"] == "markdown"
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"])
        assert isinstance(cell["metadata"], dict)
    assert all(len(notebook.shown(c)) < 5000 for c in notebook.code_cells(written))
