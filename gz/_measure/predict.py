"""What training from a store will be like here: rows a batch, misses at the memory at hand, batches/s.

    batches/s = 1 / (time to copy rows + the larger of: time to sample, time to read rows that are missed)

Sampling and copying are tried, the disk is measured, and misses are found by letting a stream of batches run
through a model of the row cache (`sieve`). A loader samples one batch while it waits for the rows of another,
hence the larger; copying and sampling both take all processors, hence the sum. Where memory has no room for
batches made ahead, one thing is done after the other. Times are means: on a busy machine, what others take of
the processors while this is tried, they will take of the training, too. A few reads take as long as one does:
whatever is read costs the latency of a read besides.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz import _engine
from gz._base.memory_plan import AUTO, Part, divide
from gz._measure import disk
from gz._measure.about import size_of
from gz._measure.sieve import Followed
from gz._measure.workload import Part as FilePart
from gz._measure.workload import Workload, num_sampled
from gz.feature import FeatureStore

_MOST_BATCHES = 192
_LEAST_BATCHES = 6
_FILLING = 4  # times as long it may take, while the cache of the model is only filling
_WARM_BATCHES = 96  # until it counts as filled
_ENTRY = 36  # bytes that the cache needs to find a row
_SMALL_ROW = 128  # below it a column is read by the page, into the page cache
_PAGE, _EXTENT, _GAP = 4096, 65536, 4096  # as in csrc/read/extents
# The cost of a row in the row cache besides its copy, for one thread: to find it, and to take it in.
_FIND, _INSERT = 0.2e-6, 0.5e-6
# Seconds that make a mini-batch of arrays: Python's, and the ends of its edges put together.
_PER_BATCH, _PER_EDGE = 1.5e-3, 1e-8
_PROGRAMS = 64 << 20
_TRIED = 128 << 20  # bytes of a column
_AHEAD, _NOT_AHEAD = 4, 2  # batches in memory: two ahead, one in the making, one in hand


@dataclass
class Stream:
    """Batches that were tried, and what they took."""

    batches: int
    nodes: float  # of a batch, on average
    edges: float
    sample_seconds: float  # once what can be in memory is
    parts: dict[str, Asked] = field(repr=False)  # by file

    def rows(self, file: str) -> float:
        return self.parts[file].rows / max(1, self.batches)


@dataclass
class Asked:
    """What the batches ask of one file."""

    units: Followed  # rows; pages of a topology and of a column with small rows
    rows: int = 0  # in all, of a column
    last: NDArray[np.int64] | None = None  # all that the last batch asked for


@dataclass
class Speeds:
    """What the machine gives."""

    threads: int
    copy: dict[str, float]  # seconds to gather a batch's rows of each column, if they lie in memory
    reads: float  # random reads/s of a page
    large_reads: float  # of 64 KiB
    latency: float = 0.0  # seconds of one read when nothing else is asked for

    @classmethod
    def measured(cls, work: Workload, stream: Stream, reads: dict[str, Any]) -> Speeds:
        copy = {f: copy_seconds(c, round(stream.rows(f))) for f, c in work.columns.items()}
        alone = [r["latency"] or 0.0 for r in reads["reads"] if r["in_flight"] == 1]
        rates = disk.best(reads), disk.best(reads, disk.LARGE)
        return cls(_engine.num_threads(), copy, *rates, alone[0] if alone else 1 / rates[0])


def try_out(work: Workload, seconds: float) -> Stream:
    """Samples batches for so long, or longer while they are few; the first ones bring in what was not in
    memory."""
    parts: dict[str, Asked] = defaultdict(lambda: Asked(Followed(_MOST_BATCHES)))
    times: list[float] = []
    nodes: list[int] = []
    edges: list[int] = []
    start = time.monotonic()
    while len(times) < _MOST_BATCHES:
        passed = time.monotonic() - start
        most = seconds if len(times) >= _WARM_BATCHES else _FILLING * seconds
        if len(times) >= _LEAST_BATCHES and passed > most:
            break
        begun = time.perf_counter()
        sample = work.sample(len(times))
        times.append(time.perf_counter() - begun)
        counts = num_sampled(sample)
        nodes.append(counts[0])
        edges.append(counts[1])
        for part in work.parts(sample):
            _note(parts[part.file], work, part)
    late = times[len(times) // 2 :]
    return Stream(len(times), float(np.mean(nodes)), float(np.mean(edges)), float(np.mean(late)), dict(parts))


def _note(asked: Asked, work: Workload, part: FilePart) -> None:
    column = work.columns.get(part.file)
    ids = part.ids
    if column is not None:
        asked.rows += len(ids)
        if column._file.row_bytes < _SMALL_ROW:
            ids = np.unique(ids * column._file.row_bytes // _PAGE)
    asked.units.add(ids)
    asked.last = np.array(ids)  # the sample's memory goes back to the pool


def copy_seconds(column: FeatureStore, rows: int) -> float:
    """What it takes to gather so many rows of a column that lie in memory: tried on its beginning."""
    row_bytes = max(1, column._file.row_bytes)
    known = max(1, min(len(column), int(min(_TRIED, _engine.free_memory() // 8)) // row_bytes))
    with open(
        column.path, "rb", buffering=0
    ) as f:  # into the page cache, where a gather may have gone past it
        left = column._file.offset + known * row_bytes
        while left > 0 and (got := len(f.read(min(left, 4 << 20)))):
            left -= got
    ids = np.random.default_rng(0).integers(0, known, max(1, rows))
    times = []
    for _ in range(9):
        begun = time.perf_counter()
        column.gather(ids)
        times.append(time.perf_counter() - begun)
    return float(np.mean(times[1:]))


# ---- who gets the memory ----


@dataclass(frozen=True)
class Room:
    """How the memory at hand is divided, by what the governor goes by (csrc/memory/policy)."""

    free: int  # when the store is opened: what is free now less the script
    ahead: bool  # whether there is room for batches made ahead
    batches: int  # bytes of batches in memory
    reserve: int
    held: frozenset[str]  # files that lie in memory as a whole
    pages: int  # bytes of the page cache for lists and small rows that do not fit
    cache: int  # of the row caches

    def cache_of(self, work: Workload, file: str) -> int:
        """A column's share: by its size, among those that have a row cache."""
        sharing = [
            c.nbytes
            for f, c in work.columns.items()
            if f not in self.held and c._file.row_bytes >= _SMALL_ROW
        ]
        return self.cache * work.columns[file].nbytes // max(1, sum(sharing))

    def pages_of(self, work: Workload, stream: Stream, file: str) -> int:
        sharing = [
            size_of(work.store, f)
            for f in stream.parts
            if f not in self.held and (f not in work.columns or work.columns[f]._file.row_bytes < _SMALL_ROW)
        ]
        return self.pages * size_of(work.store, file) // max(1, sum(sharing))


def divide_room(work: Workload, stream: Stream, cache: int | None, free: int, limit: int) -> Room:
    """`cache`: bytes, or None for what there is room for."""
    store = work.store
    files = {f: size_of(store, f) for f in stream.parts}
    row_bytes = {f: max(1, c._file.row_bytes) for f, c in work.columns.items()}
    shares = divide([Part(f, size, row_bytes.get(f, 0)) for f, size in files.items()], cache, free)
    held = frozenset(f for f, share in shares.items() if share.held)
    batch = sum(stream.rows(f) * row_bytes[f] for f in work.columns) + stream.edges * 32 + stream.nodes * 16
    reserve = max(128 << 20, limit // 16)
    ahead = free - reserve > 2 * _AHEAD * batch
    batches = int((_AHEAD if ahead else _NOT_AHEAD) * batch)
    room = max(0, free - batches)
    held_bytes = sum(files[f] for f in held)
    useful = sum(size for f, size in files.items() if f not in held and row_bytes.get(f, 0) < _SMALL_ROW)
    pages = min(useful, int(max(0, room - held_bytes) * 0.6))
    most = max(0, room - max(reserve, held_bytes + pages + _PROGRAMS))
    return Room(free, ahead, batches, reserve, held, pages, min(most, AUTO if cache is None else cache))


# ---- the prediction ----


@dataclass
class Prediction:
    cache: int  # bytes of the row caches
    verdict: str  # "fits", "pages", "disk-bound"
    rows: float  # of a batch, of all columns
    misses: float  # of these
    reads: float  # of a batch
    bytes_read: float
    seconds: dict[str, float]  # of a batch: sample, copy, read
    batches_per_second: float

    def as_json(self) -> dict[str, Any]:
        rate = self.misses / self.rows if self.rows else 0.0
        return vars(self) | {"miss_rate": rate}


def predict(work: Workload, stream: Stream, speeds: Speeds, room: Room) -> Prediction:
    files = [_of_file(work, stream, room, file) for file in stream.parts]
    total = {name: sum(getattr(f, name) for f in files) for name in vars(_OfFile())}
    seconds = {
        "sample": stream.sample_seconds,
        "copy": sum(speeds.copy.values()) + total["handling"] / speeds.threads + _join_seconds(stream),
        "read": total["small"] / speeds.reads
        + total["large"] / speeds.large_reads
        + sum(_at_all(f.small + f.large) for f in files) * speeds.latency,
    }
    together = max if room.ahead else sum
    whole = seconds["copy"] + together((seconds["sample"], seconds["read"]))
    reads = total["small"] + total["large"]
    verdict = "pages"
    if reads < 1:
        verdict = "fits"
    elif seconds["read"] > max(seconds["sample"], seconds["copy"]):
        verdict = "disk-bound"
    return Prediction(
        room.cache, verdict, total["rows"], total["misses"], reads, total["bytes_read"], seconds, 1 / whole
    )


def _at_all(reads: float) -> float:
    """How likely it is that a batch reads, where it does so many times on average."""
    return 1.0 - math.exp(-reads)


def _join_seconds(stream: Stream) -> float:
    return _PER_BATCH + stream.edges * _PER_EDGE


@dataclass
class _OfFile:
    """What a batch takes of one file, on average."""

    rows: float = 0.0
    misses: float = 0.0  # rows
    handling: float = 0.0  # seconds of one thread, in the row cache
    small: float = 0.0  # reads of a page or some
    large: float = 0.0  # reads, in units of 64 KiB
    bytes_read: float = 0.0


def _of_file(work: Workload, stream: Stream, room: Room, file: str) -> _OfFile:
    asked, column = stream.parts[file], work.columns.get(file)
    row_bytes = 0 if column is None else column._file.row_bytes
    rows = stream.rows(file)
    of = _OfFile(rows=rows)
    if file in room.held:
        return of
    if row_bytes >= _SMALL_ROW:
        capacity = room.cache_of(work, file) // (row_bytes + _ENTRY)
        of.misses = rows * asked.units.miss_rate(capacity)
        of.handling = (rows * _FIND + of.misses * _INSERT) if capacity else 0.0
        assert asked.last is not None
        of.small, of.large, of.bytes_read = _extents(asked.last, of.misses, row_bytes)
        return of
    rate = asked.units.miss_rate(room.pages_of(work, stream, file) // _PAGE)
    of.small = asked.units.mean * rate
    of.bytes_read = of.small * _PAGE
    of.misses = rows * rate
    return of


def _extents(ids: NDArray[np.int64], missed: float, row_bytes: int) -> tuple[float, float, float]:
    """Small reads, large reads in units of 64 KiB, and bytes, for so many of these rows: rows that lie close
    are read together."""
    count = round(missed)
    if count < 1:
        return 0.0, 0.0, 0.0
    chosen = np.random.default_rng(0).choice(ids, min(count, len(ids)), replace=False)
    starts = np.unique(chosen * row_bytes // _PAGE)
    ends = np.unique((chosen * row_bytes + row_bytes - 1) // _PAGE)
    pages = np.union1d(starts, ends)
    if row_bytes > _EXTENT:
        return 0.0, count * row_bytes / _EXTENT, float(count * row_bytes)
    breaks = np.flatnonzero(np.diff(pages) * _PAGE > _PAGE + _GAP) + 1
    runs = np.split(pages, breaks)
    lengths = np.array([(run[-1] - run[0] + 1) * _PAGE for run in runs], np.float64)
    scale = count / max(1, min(count, len(ids)))
    # A run of several pages costs what its share of a large read does, and at least a small one.
    small = lengths[lengths < _EXTENT / 4]
    wide = lengths[lengths >= _EXTENT / 4]
    return len(small) * scale, wide.sum() / _EXTENT * scale, lengths.sum() * scale
