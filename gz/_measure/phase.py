"""One thing measured, in a process of its own: first cold, then, once it has settled, warm.

The process that measures is given a JSON file (`Spec`) and writes another with what came of it; its samples
go into a record like that of any run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gz._measure.about import counters, describe_store
from gz._measure.workload import Request, Workload
from gz._watch import machine, storage, usage
from gz._watch.counters import rates
from gz._watch.recorder import Recorder
from gz.store import Store, open_store

_SETTLED = 0.1  # by so much, relatively, misses of one second differ from those of the second before
_LEAST = 3  # steps of a window that counts
_GROWING = 5.0  # seconds in which a row cache that has not its size yet grows by a step


@dataclass(frozen=True)
class Spec:
    task: str
    store: str
    cache: str | int
    seconds: float
    record: str  # where the samples go
    result: str  # where the result goes
    fanouts: tuple[int, ...]
    batch_size: int
    split: str | None
    node_type: str | None

    @classmethod
    def read(cls, path: str) -> Spec:
        with open(path, encoding="utf-8") as f:
            value = json.load(f)
        return cls(**{**value, "fanouts": tuple(value["fanouts"])})

    def write(self, path: str) -> None:
        with open(path, "w", encoding="utf-8") as f:
            json.dump(asdict(self), f)

    def request(self) -> Request:
        return Request(self.fanouts, self.batch_size, self.split, self.node_type)

    def open_cold(self) -> Store:
        """Opens the store after the kernel was asked to drop its pages."""
        store = open_store(self.store, self.cache)
        for file in store.memory_plan():
            storage.forget(os.path.join(store.path, file))
        return open_store(self.store, self.cache)

    def finish(self, **found: Any) -> None:
        with open(self.result, "w", encoding="utf-8") as f:
            json.dump(found, f)


class Meter:
    """Runs steps, each a batch, and tells what the cold and the warm ones took.

    Args:
        spec: for how long, and where the record goes.
        store: whose counters are followed; None for a peer, which has none.
        name: of what is measured.
    """

    def __init__(self, spec: Spec, store: Store | None, name: str):
        self._spec, self._store, self._batches = spec, store, 0
        self._start = time.monotonic()
        about = {
            "name": name,
            "task": spec.task,
            "machine": machine.describe(),
            "storage": storage.describe(spec.store),
            "store": None if store is None else describe_store(store),
        }
        self._recorder = Recorder(spec.record, self.reading, about, every=min(0.25, spec.seconds / 8))

    def reading(self) -> dict[str, Any]:
        counted = {} if self._store is None else asdict(counters(self._store))
        return counted | usage.of_process() | {"batches": self._batches}

    def run(self, step: Callable[[int], object]) -> dict[str, Any]:
        """`step` is called with the number of the batch."""
        seconds = self._spec.seconds
        try:
            cold = self._window(step, seconds, least=1)
            self._settle(step, 3 * seconds, 12 * seconds)
            warm = self._window(step, seconds, least=_LEAST)
        finally:
            self._recorder.close()
        return {"cold": cold, "warm": warm, "batches": self._batches, "memory": usage.of_process()}

    def _window(self, step: Callable[[int], object], seconds: float, least: int) -> dict[str, Any]:
        then, begun = self.reading(), time.monotonic()
        steps = 0
        while steps < least or time.monotonic() - begun < seconds:
            step(self._batches)
            self._batches += 1
            steps += 1
        passed = time.monotonic() - begun
        self._recorder.log(phase="cold" if least == 1 else "warm", batches=self._batches)
        return told(then, self.reading(), passed) | {"from": begun - self._start, "seconds": passed}

    def _settle(self, step: Callable[[int], object], most: float, most_growing: float) -> None:
        """Goes on until what is missed no longer falls, for at most so many seconds; for longer while the row
        cache grows, which the governor lets it do step by step."""
        begun = grown = time.monotonic()
        before: float | None = None
        while (passed := time.monotonic() - begun) < most_growing:
            then, start = self.reading(), time.monotonic()
            while time.monotonic() - start < min(1.0, most / 3):
                step(self._batches)
                self._batches += 1
            now = self.reading()
            rate = rates(then, now, 1.0)["miss_rate"]
            if rate is None or rate < 0.001:
                return
            if now.get("cache_bytes", 0) > then.get("cache_bytes", 0):
                grown = time.monotonic()
            growing = time.monotonic() - grown < min(_GROWING, most)
            falling = before is None or rate < before * (1 - _SETTLED)
            if not growing and (not falling or passed > most):
                return
            before = rate


def told(then: Mapping[str, Any], now: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """What happened in a window: rates, and what a batch took."""
    batches = max(1, now["batches"] - then["batches"])
    grew = {k: now[k] - then[k] for k in ("misses", "mapped", "hits", "reads", "bytes_read") if k in now}
    each = {f"{name}_per_batch": value / batches for name, value in grew.items()}
    return rates(then, now, seconds) | each | {"batches": batches}


def workload(spec: Spec, store: Store) -> Workload:
    return Workload(store, spec.request())
