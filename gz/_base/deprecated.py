"""Names that are kept for one version. CONTRIBUTING.md says how one goes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any


def deprecated(old: str, new: str, stacklevel: int = 4) -> None:
    warnings.warn(
        f"{old} is called {new} now; the old name goes with the next version", DeprecationWarning, stacklevel
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
