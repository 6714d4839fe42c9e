"""Names that are kept for one version."""

from __future__ import annotations

import warnings


def deprecated(old: str, new: str) -> None:
    warnings.warn(
        f"{old} is called {new} now; the old name goes with the next version", DeprecationWarning, 4
    )
