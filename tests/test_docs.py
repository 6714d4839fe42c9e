"""The README's and the docs' Python examples run as they stand, one after the other, in an empty folder."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

PAGES = ["README.md", "docs/ingest.md"]


@pytest.fixture
def user_files(tmp_path, monkeypatch):
    """The files the pages speak of, as a user would have them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text("src,dst\n0,1\n1,2\n2,0\n")
    np.save("x.npy", np.eye(3, dtype=np.float32))
    np.save("labels.npy", np.array([0, 1, 0]))
    np.save("train.npy", np.array([0, 2]))


def python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("user_files")
def test_examples_run(page, repository):
    blocks = python_blocks((repository / page).read_text())
    assert blocks, f"{page} has no examples"
    namespace: dict = {"__name__": "__main__"}
    for i, block in enumerate(blocks):
        exec(compile(block, f"{page}, example {i + 1}", "exec"), namespace)


def test_links_lead_somewhere(repository):
    for page in [
        "README.md",
        "CONTRIBUTING.md",
        *(f"docs/{p.name}" for p in (repository / "docs").glob("*.md")),
    ]:
        text = (repository / page).read_text()
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert os.path.exists((repository / page).parent / target), f"{page} links to {target}"
