"""A progress line on a terminal; silence anywhere else."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Call phase() when something new starts and update() as it goes on; close() clears the line."""

    def __init__(self, enabled: bool | None = None, stream: TextIO | None = None):
        self._stream = stream or sys.stderr
        self._on = self._stream.isatty() if enabled is None else enabled
        self._name = ""
        self._start = self._last = 0.0
        self._shown = False

    def phase(self, name: str) -> None:
        self._name = name
        self._start = time.monotonic()
        self._last = 0.0

    def update(self, done: float, total: float | None, unit: str = "") -> None:
        now = time.monotonic()
        if not self._on or now - self._last < 0.2:
            return
        self._last = now
        rate = done / max(now - self._start, 1e-9)
        text = f"{self._name}: "
        if total:
            left = (total - done) / rate if rate > 0 else 0
            text += f"{100 * done / total:5.1f} %  {_human(rate)}{unit}/s  {_clock(left)} left"
        else:
            text += f"{_human(done)}{unit}  {_human(rate)}{unit}/s"
        self._stream.write("\r\x1b[K" + text[:100])
        self._stream.flush()
        self._shown = True

    def close(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False


def _human(n: float) -> str:
    for unit in ("", "k", "M", "G"):
        if n < 1000:
            return f"{n:.0f} {unit}" if not unit else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} T"


def _clock(seconds: float) -> str:
    s = int(seconds + 0.5)
    return f"{s // 3600}:{s % 3600 // 60:02}:{s % 60:02}" if s >= 3600 else f"{s // 60}:{s % 60:02}"
