"""Tables of the docs whose first column is code: each row is a test, and its code is what the test runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """A row: the code of its first cell, and its cells as they stand."""

    code: tuple[str, ...]
    cells: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.code[0]


def rows(page: Path, first_heading: str) -> list[Row]:
    """The rows of the table whose first column is headed so."""
    lines = iter(page.read_text().splitlines())
    for line in lines:
        if line.startswith(f"| {first_heading} |"):
            break
    else:
        raise AssertionError(f"{page.name} has no table headed {first_heading!r}")
    next(lines)
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells = tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        found.append(Row(tuple(re.findall(r"`([^`]+)`", cells[0])), cells))
    return found


def value_of(code: str, names: dict[str, Any]) -> Any:
    """Runs one piece of code of a table; its value if it is an expression."""
    try:
        compiled = compile(code, code, "eval")
    except SyntaxError:
        exec(compile(code, code, "exec"), names)
        return None
    return eval(compiled, names)


class Checks:
    """What is checked for each row, by the first code in it."""

    def __init__(self) -> None:
        self.by_name: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        def add(check: Any) -> Any:
            assert name not in self.by_name, f"two checks of {name}"
            self.by_name[name] = check
            return check

        return add
