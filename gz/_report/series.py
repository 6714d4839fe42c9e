"""Samples of a record as lines: values over time, and rates over windows of a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gz._watch.counters import rates

_WINDOW = 1.0  # seconds a rate is taken over, at least
_MOST_POINTS = 400


def over_time(samples: Sequence[dict[str, Any]], key: str) -> list[tuple[float, float | None]]:
    """(t, value) of at most some hundred samples, the last among them."""
    step = max(1, -(-len(samples) // _MOST_POINTS))
    chosen = [*samples[:-1:step], *samples[-1:]]
    return [(s["t"], s.get(key)) for s in chosen]


def smooth_rates(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rates between samples that lie a window or more apart, at the end of each. One window is at least a
    two-hundredth of the run: with few batches in it a rate would jump between nothing and too much."""
    if len(samples) < 2:
        return []
    window = max(_WINDOW, (samples[-1]["t"] - samples[0]["t"]) / 200)
    found: list[dict[str, Any]] = []
    then = samples[0]
    for now in samples[1:]:
        passed = now["t"] - then["t"]
        if passed >= window or (now is samples[-1] and not found and passed > 0):
            found.append({"t": now["t"], **rates(then, now, passed)})
            then = now
    return found


def peak(samples: Sequence[dict[str, Any]], key: str) -> float:
    return max((s.get(key) or 0 for s in samples), default=0)
