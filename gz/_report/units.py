"""Axes: round numbers to mark, and the unit they are told in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Formatter = Callable[[float], str]


@dataclass(frozen=True)
class Unit:
    """Values are divided by `scale` and then told in `name`; an axis chooses the largest that fits."""

    name: str
    scale: float = 1.0


BYTES = (Unit("B"), Unit("kB", 1e3), Unit("MB", 1e6), Unit("GB", 1e9), Unit("TB", 1e12))
BYTE_RATE = tuple(Unit(f"{u.name}/s", u.scale) for u in BYTES)
BATCH_RATE = (Unit("batches/s"),)
SECONDS = (Unit("s"),)
LATENCY = (Unit("µs", 1e-6), Unit("ms", 1e-3), Unit("s"))
PERCENT = (Unit("%", 0.01),)
PLAIN = (Unit("value"),)


def fitting(units: Sequence[Unit], most: float) -> Unit:
    """The unit in which the largest value is at least 1, or the smallest unit."""
    return next((u for u in reversed(units) if most >= u.scale), units[0])


def ticks(most: float, about: int = 5) -> list[float]:
    """From 0 to at least `most`, in steps of 1, 2 or 5 times a power of ten."""
    if not most > 0:
        return [0.0, 1.0]
    rough = most / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= rough * 0.999)
    count = math.ceil(most / step - 1e-9)
    return [i * step for i in range(count + 1)]


def told(value: float) -> str:
    """A tick: as many digits as it needs."""
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"


def short(value: float) -> str:
    """A count in few letters: 950, 64k, 1.2M."""
    for name, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g}{name}"
    return f"{value:g}"
