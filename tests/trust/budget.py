"""How much the campaigns of this folder try: little in every run of the tests, much in `make soak`."""

from __future__ import annotations

import os

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


def cases(short: int, long: int) -> int:
    """GZ_CASES says otherwise."""
    return int(os.environ.get("GZ_CASES", long if SOAK else short))


def seconds(short: float) -> float:
    """For what is measured by the clock: GZ_CAPPED, which `make soak CAPPED=3600` sets."""
    return float(os.environ.get("GZ_CAPPED") or short)
