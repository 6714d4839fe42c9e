"""Is the first line of a text table a header? By its words, by what stands below them, or by asking."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gz._engine import InputError

_INTEGER = re.compile(r"-?[0-9]+")
_CANONICAL = re.compile(r"0|-?[1-9][0-9]*")
_LETTERS = {"u", "v"}  # names of columns, and likely names of nodes
_SHOWN = 60  # characters of a row in a message


def is_integer(s: str) -> bool:
    return _INTEGER.fullmatch(s) is not None


def is_plain_integer(s: str) -> bool:
    """An integer that nothing is lost of when it is read as one: no leading zero."""
    return _CANONICAL.fullmatch(s) is not None


def is_number(s: str) -> bool:
    try:
        float(s)
    except ValueError:
        return False
    return "_" not in s


def is_value(s: str) -> bool:
    return is_number(s) or s.lower() in ("true", "false")


def has_header(
    rows: Sequence[Sequence[str]],
    path: str,
    *,
    wanted: Sequence[object] = (),
    named: Callable[[list[str]], bool] = lambda names: False,
    key_fields: Sequence[int] = (),
    ids: str | None = None,
) -> bool:
    """`wanted`: columns asked for; names among them decide. `named`: whether words are names of id columns.
    `ids`: None for a table without ids.

    Text over a column of numbers is a header (over ids only where those must be integers: a name may stand
    among numbers). Text over text may be a header or a row, unless it names the id columns: that is an error
    which shows both readings.
    """
    first, rest = list(rows[0]), rows[1:]
    asked = [w for w in wanted if isinstance(w, str)]
    if asked:
        return all(w in first for w in asked) or not any(is_value(f) for f in first)
    below = [[r[i] for r in rest if i < len(r) and r[i] != ""] for i in range(len(first))]
    numbers = [bool(b) and all(is_value(v) for v in b) for b in below]
    values = [is_value(f) for f in first]
    if named(first):
        if ids not in ("dense", "int"):
            mixed = any(v and n for v, n in zip(values, numbers, strict=True))
            words = {f.lower() for f in first}
            recurs = any(v.lower() in words for b in below for v in b)
            if mixed or recurs or (words <= _LETTERS and not any(numbers)):
                raise _asked(rows, path)
        return True
    if any(values):
        return False
    if ids in ("dense", "int"):
        return "" not in first
    evidence = [n for i, n in enumerate(numbers) if ids is None or i not in key_fields]
    if any(evidence) or (ids is None and not rest and "" not in first):
        return True
    raise _asked(rows, path)


def _asked(rows: Sequence[Sequence[str]], path: str) -> InputError:
    first, below = ", ".join(rows[0]), ", ".join(rows[1]) if len(rows) > 1 else "none"
    return InputError(
        f"{path}: is its first line a header? It may be read either way:\n"
        f"  header=True (--header): columns {first[:_SHOWN]}; first row {below[:_SHOWN]}\n"
        f"  header=False (--no-header): first row {first[:_SHOWN]}"
    )
