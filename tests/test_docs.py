"""The README's and the docs' Python examples run as they stand, one after the other, in an empty folder."""

from __future__ import annotations

import os
import re

import pytest

PAGES = ["README.md", "docs/ingest.md"]


def python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page, repository, tmp_path, monkeypatch, capsys):
    path = repository / page
    if not path.exists():
        pytest.fail(f"{page} is missing")
    blocks = python_blocks(path.read_text())
    assert blocks, f"{page} has no examples"
    monkeypatch.chdir(tmp_path)
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
