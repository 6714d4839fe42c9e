"""Names that are kept for one version, and those that mean something else now: see CONTRIBUTING.md."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any


def deprecated(old: str, new: str, stacklevel: int = 4) -> None:
    warnings.warn(
        f"{old} is called {new} now; the old name goes with the next version", DeprecationWarning, stacklevel
    )


def columns_were_ends(columns: list[str], ends: list[str], where: str) -> None:
    """Said of two columns that are kept, and that were taken for the ends of an edge before there was `ends`.
    Not a DeprecationWarning, which Python does not show to whoever calls a script of somebody else."""
    a, b = columns
    src, dst = ends
    keep = f'ends=["{src}", "{dst}"], columns=["{a}", "{b}"]  (--ends {src},{dst})'
    warnings.warn(
        f"{where}: columns={columns!r} keeps these two as columns of the edges; before there was ends= it "
        f"named their ends.\n"
        f"  {src} -> {dst}, keep {a} and {b}: {keep}\n"
        f'  {a} -> {b}: ends=["{a}", "{b}"]  (--ends {a},{b})',
        FutureWarning,
        4,
    )


def out_was_both() -> None:
    """Said of the option whose meaning changed: what it meant is called otherwise."""
    warnings.warn(
        "directions='out' stores edges grouped by source only; it stored both directions before, which is "
        "directions='both'",
        DeprecationWarning,
        5,
    )


def overwrite_or(replace: bool | None, overwrite: bool) -> bool:
    """`overwrite`, which was called `replace`."""
    if replace is None:
        return overwrite
    deprecated("replace=", "overwrite=")
    return replace


class Names(Sequence[str]):
    """Names that are asked for by a call, ``x.names()``; used as a list without one, as before, they warn."""

    def __init__(self, names: Iterable[str], what: str):
        self._names, self._what = list(names), what

    def __call__(self) -> list[str]:
        return list(self._names)

    def __getitem__(self, i: Any) -> Any:
        return self._old()[i]

    def __len__(self) -> int:
        return len(self._old())

    def __eq__(self, other: object) -> bool:
        return self._old() == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._names)

    def _old(self) -> list[str]:
        deprecated(self._what, f"{self._what}()")
        return self._names
