"""docs/reliability.md: every test it names is there, and every test file of this folder is named in it."""

from __future__ import annotations

import ast
import re

ROW = re.compile(r"`(tests/[\w/]+\.(?:py|cpp))(?:::(\w+))?`")


def test_every_test_in_the_table_exists(repository):
    text = (repository / "docs/reliability.md").read_text()
    named = ROW.findall(text)
    assert len(named) > 40
    for file, test in named:
        path = repository / file
        assert path.exists(), file
        if not test:
            continue
        if path.suffix == ".cpp":
            assert f"void {test}()" in path.read_text(), (file, test)
        else:
            functions = {
                n.name for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)
            }
            assert test in functions, (file, test)


def test_every_promise_has_a_test_and_a_command(repository):
    text = (repository / "docs/reliability.md").read_text()
    text = re.sub(r"<!-- measured: .*?<!-- end -->", "", text, flags=re.DOTALL)
    for row in (r for r in text.splitlines() if r.startswith("| ")):
        cells = [c.strip() for c in row.strip("|").split(" | ")]
        if cells[0] in ("promise", "---"):
            continue
        assert len(cells) == 3, row
        assert ROW.search(cells[1]), row
        assert "`" in cells[2], row


def test_every_test_of_this_folder_is_in_the_table(repository):
    text = (repository / "docs/reliability.md").read_text()
    for path in (repository / "tests/trust").glob("test_*.py"):
        assert f"tests/trust/{path.name}" in text, path.name
