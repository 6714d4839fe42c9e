"""A run's record: JSON lines, taken by time in a background thread.

    {"kind": "run", "version": 1, "name": ..., "started": ..., "machine": {...}, "storage": {...}, ...}
    {"kind": "sample", "t": 0.5, "batches": 12, "misses": 48210, "rss": 612000000, ...}
    {"kind": "log", "t": 0.7, "loss": 1.93}
    {"kind": "end", "t": 61.2}

Each line is written at once: what a killed run leaves is a record up to that moment.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gz._base.background import Ticker

VERSION = 1


class Recorder:
    """Writes the record of a run until it is closed.

    Args:
        path: of the file, which is written anew.
        probe: gives the numbers of a sample; called in a background thread.
        about: goes into the first line.
        every: seconds between samples.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        probe: Callable[[], Mapping[str, Any]],
        about: Mapping[str, Any],
        every: float = 0.5,
    ):
        if not every > 0:
            raise ValueError(f"every is {every!r}; give the seconds between two samples")
        self.path = os.fspath(path)
        self._probe, self._start, self._pid = probe, time.monotonic(), os.getpid()
        self._lock = threading.Lock()
        self._done = False
        self._error: OSError | None = None
        self._file: Any = open(self.path, "w", encoding="utf-8")  # noqa: SIM115
        self._write({"kind": "run", "version": VERSION, "started": time.time(), "every": every, **about})
        self.sample()
        # By a weak reference: a record that is dropped ends.
        me = weakref.WeakMethod(self.sample)
        self._ticker = Ticker(lambda: (call := me()) is not None and call(), every, name="gz-record")

    def sample(self) -> bool:
        """Takes a sample now. False once the record is closed."""
        return self._write({"kind": "sample", "t": self._passed(), **self._probe()})

    def log(self, **values: Any) -> None:
        """Notes numbers or texts of yours: ``run.log(loss=0.3, epoch=2)``."""
        plain = {k: v.item() if hasattr(v, "item") else v for k, v in values.items()}
        self._write({"kind": "log", "t": self._passed(), **plain})

    def close(self) -> None:
        """Takes a last sample and ends. A disk that filled up meanwhile is a warning, not an error."""
        if self._done or self._pid != os.getpid():
            return
        self._done = True
        self._ticker.close()
        self.sample()
        self._write({"kind": "end", "t": self._passed()})
        with self._lock:
            self._end()
        if self._error is not None:
            warnings.warn(f"{self.path}: the record ends early: {self._error}", RuntimeWarning, stacklevel=2)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if "_file" in self.__dict__ and self._pid == os.getpid():
            self._file.close()

    def _passed(self) -> float:
        return round(time.monotonic() - self._start, 4)

    def _write(self, line: Mapping[str, Any]) -> bool:
        text = json.dumps(_plain(line), separators=(",", ":"), default=str)
        with self._lock:
            if self._file.closed or self._pid != os.getpid():  # a forked child writes nothing
                return False
            try:
                self._file.write(text + "\n")
                self._file.flush()
            except OSError as e:
                self._error = e
                self._end()
                return False
            return True

    def _end(self) -> None:
        try:
            self._file.close()
        except OSError as e:
            self._error = self._error or e


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


@dataclass
class Record:
    """A record that was read."""

    about: dict[str, Any]
    samples: list[dict[str, Any]] = field(default_factory=list)
    logs: list[dict[str, Any]] = field(default_factory=list)
    ended: bool = False


def read_record(path: str | os.PathLike[str]) -> Record:
    """Reads a run's record. One that was cut short, as by a kill, is read up to there."""
    record: Record | None = None
    with open(path, encoding="utf-8", errors="replace") as f:
        for number, line in enumerate(f, 1):
            if not line.endswith("\n"):
                break
            record = _read_line(record, line, f"{os.fspath(path)}, line {number}")
    if record is None:
        raise ValueError(f"{os.fspath(path)}: holds no line; is it the record of a run (gz_pyg.monitor)?")
    return record


def _read_line(record: Record | None, line: str, where: str) -> Record:
    try:
        value = json.loads(line)
        kind = value.pop("kind")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise ValueError(f"{where}: is not a line of a run's record") from None
    if record is None:
        if kind != "run" or value.get("version") != VERSION:
            raise ValueError(
                f"{where}: is not the beginning of a run's record of version {VERSION} (gz_pyg.monitor)"
            )
        return Record(value)
    if kind in ("sample", "log") and not isinstance(value.get("t"), int | float):
        raise ValueError(f"{where}: has no time `t`")
    if kind == "sample":
        record.samples.append(value)
    elif kind == "log":
        record.logs.append(value)
    elif kind == "end":
        record.ended = True
    return record
