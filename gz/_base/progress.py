"""A progress line on a terminal, a line every ten seconds to the logger `gz` anywhere else; text for a
terminal of 80 columns."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable
from typing import TextIO

from gz._base.sizes import amount

WIDTH = 80
_EVERY, _LOGGED_EVERY = 0.2, 10.0  # seconds
_log = logging.getLogger("gz")


class Progress:
    """Call phase() when something new starts and update() as it goes on; close() clears the line.

    Args:
        enabled: True shows the line, False says nothing; None shows it on a terminal, and logs elsewhere.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        enabled: bool | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._stream, self._clock = stream or sys.stderr, clock
        self._on = self._stream.isatty() if enabled is None else enabled
        self._logs = enabled is None and not self._on
        self._name = ""
        self._start = self._last = clock()
        self._shown = False

    def phase(self, name: str) -> None:
        self._name = name
        self._start = self._clock()
        if self._on:
            self._last = float("-inf")

    def update(self, done: float, total: float | None, unit: str = "") -> None:
        now = self._clock()
        if not (self._on or self._logs) or now - self._last < (_EVERY if self._on else _LOGGED_EVERY):
            return
        self._last = now
        text = self._text(done, total, unit, now)
        if self._logs:
            _log.info(text)
            return
        self._stream.write("\r\x1b[K" + text[: WIDTH - 1])
        self._stream.flush()
        self._shown = True

    def _text(self, done: float, total: float | None, unit: str, now: float) -> str:
        rate = done / max(now - self._start, 1e-9)
        text = f"{self._name}: "
        if total:
            left = (total - done) / rate if rate > 0 else 0
            text += f"{100 * done / total:5.1f} %  {amount(rate, unit)}/s  {_clock(left)} left"
        else:
            text += f"{amount(done, unit)}  {amount(rate, unit)}/s"
        return text

    def say(self, lines: list[str]) -> None:
        """Lines that stay."""
        if self._on and lines:
            self.close()
            self._stream.write(wrapped("\n".join(lines)) + "\n")
            self._stream.flush()

    def close(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False


def _clock(seconds: float) -> str:
    s = int(seconds + 0.5)
    return f"{s // 3600}:{s % 3600 // 60:02}:{s % 60:02}" if s >= 3600 else f"{s // 60}:{s % 60:02}"


def wrapped(text: str) -> str:
    """Lines of at most 80 columns; what goes on is indented. A path that fits no line stays where it is."""
    return "\n".join(part for line in text.split("\n") for part in _lines(line))


def _lines(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    lead = line[: len(line) - len(line.lstrip())]
    first, *words = re.findall(r"\S+ *", line)
    lines = [lead + first + "".join(words[:1])]  # "ok  PATH" stays one line
    for word in words[1:]:
        fits = len(lines[-1]) + len(word.rstrip()) <= WIDTH
        if fits or len(lead) + 2 + len(word) > WIDTH:
            lines[-1] += word
        else:
            lines.append(f"{lead}  {word}")
    return [part.rstrip() for part in lines]
