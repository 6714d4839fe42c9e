"""What a loader has done: ``loader.stats()``, ``loader.postfix()``, and the record of a run, ``monitor``.

Nothing is done per batch but to count it. The engine counts rows and reads anyway; they are looked at when
someone asks, or by time in the thread of a monitor.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from torch_geometric.loader.base import DataLoaderIterator

from gz.adapter import (
    Recorder,
    amount,
    counters,
    describe_store,
    machine,
    memory_stats,
    rates,
    storage,
    usage,
)
from gz_pyg._store.open import find_store

_WINDOW = 5.0  # seconds that rates are taken over
_FRESH = 0.1  # seconds for which a line is given again


class Tally:
    """Counts the batches a script was given, and remembers what the store had counted some seconds ago."""

    def __init__(self) -> None:
        self.batches = 0
        self._groups = self._in_groups = 0  # of batches that were read together
        self._lock = threading.Lock()
        self._marks: deque[tuple[float, dict[str, Any]]] = deque()
        self._line = (float("-inf"), "")

    def __reduce__(self) -> tuple[Any, ...]:
        return Tally, ()  # a loader that was unpickled counts for itself

    def read_together(self, batches: int) -> None:
        """Counts a group of them, in the one thread that reads."""
        self._groups += 1
        self._in_groups += batches

    @property
    def together(self) -> float:
        """How many batches were read at once, on average; 0 where none were."""
        return self._in_groups / max(1, self._groups)

    def mark(self, data: Any) -> tuple[dict[str, Any], dict[str, float | None]]:
        """What has been counted by now, and the rates of the last seconds."""
        with self._lock:
            now, found = time.monotonic(), reading(data) | {"batches": self.batches}
            if not self._marks or now - self._marks[-1][0] >= _FRESH:
                self._marks.append((now, found))
            while len(self._marks) > 2 and now - self._marks[1][0] > _WINDOW:
                self._marks.popleft()
            begin, then = self._marks[0]
            return found, rates(then, found, now - begin)

    def line(self, make: Callable[[], str]) -> str:
        """What `make` gives, or gave a moment ago: a progress bar asks after every batch."""
        now = time.monotonic()
        if now - self._line[0] >= _FRESH:
            self._line = (now, make())
        return self._line[1]


class Watched:
    """The part of all loaders that tells how they do. Before the class that iterates."""

    _source: Any
    num_workers: int
    look_ahead: int | None

    @property
    def _tally(self) -> Tally:
        try:
            return self.__dict__["_tally_"]
        except KeyError:
            return self.__dict__.setdefault("_tally_", Tally())

    def __copy__(self) -> Any:
        other = super().__copy__()  # type: ignore[misc]
        other.__dict__.pop("_tally_", None)
        return other

    def __iter__(self) -> Any:
        self._tally.mark(self._source.data)  # rates begin here
        return super().__iter__()  # type: ignore[misc]

    def _get_iterator(self) -> Any:
        iterator = super()._get_iterator()  # type: ignore[misc]
        if self.num_workers == 0:
            return iterator  # which counts by itself
        tally = self._tally

        def counted(batch: Any) -> Any:
            tally.batches += 1
            return batch

        if not isinstance(iterator, DataLoaderIterator):
            return DataLoaderIterator(iterator, counted)
        transform = iterator.transform_fn  # one wrapper, as PyG's loaders have
        iterator.transform_fn = lambda batch: counted(transform(batch))
        return iterator

    def stats(self) -> dict[str, float]:
        """How this loader does, as plain numbers by name: for TensorBoard, Lightning's ``log_dict``, JSON.

        ``batches``: given to the script so far. Of the last 5 seconds: ``batches_per_second``,
        ``bytes_per_second`` and ``reads_per_second`` from the disk, ``read_latency`` of one read in seconds,
        and ``miss_rate``, the share of the rows that were neither in memory nor in the row cache. So far, of
        all who use the store in this process: rows that came from memory (``mapped``), from the row cache
        (``hits``) and from the disk (``misses``), ``reads``, ``bytes_read``. Now: ``cache_bytes`` of the row
        cache, ``memory_free`` and ``memory_limit`` of the container or the machine.

        Rates that nothing is known of are left out. With workers, rows are read in their processes: what they
        count is not seen here, ``batches`` and memory are.

        With ``look_ahead``, also ``batches_together``: of the batches that were read with others, how many at
        once, on average; 0 while there were none.
        """
        found, rate = self._tally.mark(self._source.data)
        seen = {name: value for name, value in rate.items() if value is not None}
        if self.num_workers or "misses" not in found:
            seen = {name: seen[name] for name in ("batches_per_second",)}
        if self.look_ahead is not None:
            seen["batches_together"] = self._tally.together
        return {name: value for name, value in (found | seen).items() if value is not None}

    def postfix(self) -> str:
        """``stats()`` in a line, made anew ten times a second: ``bar.set_postfix_str(loader.postfix())``."""
        return self._tally.line(lambda: postfix(self.stats()))


def postfix(stats: dict[str, Any]) -> str:
    parts = [f"{stats.get('batches_per_second', 0.0):.1f} batches/s"]
    if "miss_rate" in stats:
        parts.append(f"miss {100 * stats['miss_rate']:.1f} %")
    if "bytes_per_second" in stats:
        parts.append(f"read {amount(stats['bytes_per_second'])}/s")
    if "cache_bytes" in stats:
        parts.append(f"cache {amount(stats['cache_bytes'])}")
    return ", ".join(parts)


def reading(data: Any) -> dict[str, Any]:
    """What has been counted by now of the store that `data` lies in, if it does, and the memory there is."""
    store = find_store(data)
    memory = memory_stats()
    counted = {} if store is None else asdict(counters(store))
    return counted | {"memory_free": memory["free"], "memory_limit": memory["limit"]}


def monitor(
    path: str | os.PathLike[str],
    *loaders: Any,
    every: float = 0.5,
    name: str | None = None,
    about: dict[str, Any] | None = None,
) -> Recorder:
    """Writes the record of a run, from which ``gz report`` makes a page with plots.

    >>> with gz_pyg.monitor("run.jsonl", loader) as run:
    ...     for batch in loader:
    ...         loss = step(batch)
    ...         run.log(loss=loss)  # if you like
    $ gz report run.jsonl -o report.html

    A background thread takes a sample every half second: batches, rows found and read, reads, latency, row
    cache, memory of this process and of the container. The training thread does nothing for it.

    Args:
        path: of the record, JSON lines, written anew.
        loaders: what the script iterates over; gz_pyg's loaders, on one store.
        every: seconds between two samples.
        name: of the run, for the heading.
        about: facts of yours that the report shall state: ``{"model": "GraphSAGE, 3 x 256"}``.
    """
    for loader in loaders:
        if not isinstance(loader, Watched):
            raise TypeError(f"a {type(loader).__name__} is given; monitor takes the loaders of gz_pyg")
    if not loaders:
        raise TypeError("name the loaders to watch: gz_pyg.monitor(path, loader)")

    def probe() -> dict[str, Any]:
        batches = sum(loader._tally.batches for loader in loaders)
        return reading(loaders[0]._source.data) | usage.of_process() | {"batches": batches}

    return Recorder(path, probe, _about(loaders, name, about or {}), every)


def _about(loaders: Sequence[Any], name: str | None, about: dict[str, Any]) -> dict[str, Any]:
    store = find_store(loaders[0]._source.data)
    return {
        "name": name or (os.path.basename(store.path) if store else "a graph in memory"),
        "machine": machine.describe(),
        "storage": None if store is None else storage.describe(store.path),
        "store": None if store is None else describe_store(store),
        "loaders": [_loader(loader) for loader in loaders],
        "about": about,
    }


def _loader(loader: Any) -> dict[str, Any]:
    fanouts = getattr(loader._sampler(), "num_neighbors", None)
    return {
        "loader": type(loader).__name__,
        "batch_size": loader.batch_size,
        "fanouts": str(getattr(fanouts, "values", fanouts)),
        "workers": loader.num_workers,
        "prefetch": None if loader.num_workers else loader._depth(),
        "look_ahead": loader.look_ahead,
        "batches": len(loader),
    }
