"""The README's and the docs' Python examples run as they stand, one after the other, in an empty folder."""

from __future__ import annotations

import difflib
import os
import re

import numpy as np
import pytest

import gz

NAMES = ("ingest", "tutorial", "howto", "tools", "faq", "pyg", "dgl")
PAGES = ["README.md", *(f"docs/{name}.md" for name in NAMES)]


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


def stores_of(page: str) -> None:
    """The stores that a page takes for granted."""
    rng = np.random.default_rng(0)
    edges, labels = rng.integers(0, 60, (2, 400)), rng.integers(0, 3, 60)
    if page == "docs/pyg.md":
        gz.ingest("store", edges=edges, features={"x": rng.random((60, 128), dtype=np.float32)})
    elif page == "docs/dgl.md":
        features = {"feat": rng.random((60, 16), dtype=np.float32), "label": labels}
        gz.ingest("papers100M", edges=edges, features=features, splits={"train": np.arange(40)})


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("user_files")
def test_examples_run(page, repository):
    if page == "docs/dgl.md":
        pytest.importorskip("dgl", reason="dgl is not installed")
    stores_of(page)
    blocks = python_blocks((repository / page).read_text())
    assert blocks, f"{page} has no examples"
    namespace: dict = {"__name__": "__main__"}
    for i, block in enumerate(blocks):
        exec(compile(block, f"{page}, example {i + 1}", "exec"), namespace)


def test_every_page_with_examples_is_among_those_that_run(repository):
    pages = [repository / "README.md", *(repository / "docs").rglob("*.md")]
    shown = {str(p.relative_to(repository)) for p in pages if python_blocks(p.read_text())}
    assert shown == set(PAGES)


def diffs(text: str) -> dict[str, list[str]]:
    """The lines of each diff that is shown for an example, by the name of the example."""
    found = {}
    for block in re.finditer(r"^```diff\n(.*?)^```", text, re.S | re.M):
        before = text[: block.start()].rsplit("\n\n", 1)[-1].rsplit("```", 1)[-1]
        name = re.search(r"examples/(\w+)\.py", before)
        if name:
            found[name[1]] = block[1].splitlines()
    return found


@pytest.mark.parametrize("page", ["docs/pyg.md", "docs/dgl.md"])
def test_the_diffs_shown_are_those_of_the_files(page, repository):
    examples = repository / "examples"
    shown = diffs((repository / page).read_text())
    originals = {p.name.removesuffix("_in_memory.py") for p in examples.glob("*_in_memory.py")}
    assert set(shown) == {name for name in originals if name.startswith("dgl_") == ("dgl" in page)}
    for name, lines in shown.items():
        old, new = ((examples / f"{name}{end}.py").read_text().splitlines() for end in ("_in_memory", ""))
        changed = [line for line in difflib.ndiff(old, new) if line[0] in "+-" and line[2:].strip()]
        assert sorted(line[:1] + line[2:] for line in changed) == sorted(lines), name


def test_links_lead_somewhere(repository):
    for page in [
        "README.md",
        "CONTRIBUTING.md",
        *(f"docs/{p.name}" for p in (repository / "docs").glob("*.md")),
    ]:
        text = (repository / page).read_text()
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert os.path.exists((repository / page).parent / target), f"{page} links to {target}"


def test_every_public_name_is_in_the_reference(repository):
    import gz_pyg

    packages = {"gz": gz.__all__, "gz_pyg": gz_pyg.__all__}
    source = (repository / "gz_dgl/__init__.py").read_text()
    packages["gz_dgl"] = re.findall(r'^    "(\w+)",$', source, re.M)
    for package, names in packages.items():
        page = (repository / f"docs/reference/{package}.md").read_text()
        missing = [name for name in names if not name.startswith("_") and not re.search(rf"\b{name}\b", page)]
        assert names
        assert not missing, f"docs/reference/{package}.md lacks {missing}"
