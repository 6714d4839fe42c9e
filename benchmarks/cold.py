"""What is not in memory, and what that costs those who need it or stand beside.

Sampling beside cold gathers: batches of 1024 x [15, 10, 5] while another thread reads rows from the disk all
the time, against sampling alone. Shown, not judged: a read takes a processor some
microseconds in the kernel, so that a disk that is read as fast as it can be takes most of a core.

A column of small rows with 2 of 32 pages missing: 300,000 rows of it, against all of it in memory. Wanted: at
most four times as long; reading every place again took five to six times.
"""

from __future__ import annotations

import os
import threading
import time

import _common

BATCH, FANOUTS, BATCHES = 1024, [15, 10, 5], 10
ROWS, COLD_ROWS = 300_000, 20_000
PAGE, EVERY = 4096, 16
TARGET_MISSING = 0.25


def evict(path: str) -> None:
    """Puts a file out of the page cache; pages that are mapped stay."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def bring_in(path: str, but_every: int | None = None) -> None:
    """Puts a file into the page cache, page by page; but for every so many-th page of it."""
    evict(path)
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead, and no large folios
        for page in range(-(-os.path.getsize(path) // PAGE)):
            if but_every is None or page % but_every:
                os.pread(file.fileno(), PAGE, page * PAGE)


class ColdGathers:
    """Another thread that gathers cold rows, with no cache of them, while this is entered."""

    def __init__(self, fs, seed: int):
        self._fs, self._seed, self._end, self.rows = fs, seed, threading.Event(), 0
        self._thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        import numpy as np

        rng = np.random.default_rng(self._seed)
        while not self._end.is_set():
            self._fs.gather(rng.integers(0, len(self._fs), COLD_ROWS))
            self.rows += COLD_ROWS

    def __enter__(self) -> ColdGathers:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._end.set()
        self._thread.join()


def beside(report, store) -> None:
    import numpy as np

    graph, fs = store.graph(), store.feature("x")
    fs._file.configure(0, False)  # neither cached nor loaded: every gather reads
    rng = np.random.default_rng(1)
    seeds = [rng.integers(0, len(fs), (BATCHES, BATCH)) for _ in range(report.args.repeat + 1)]

    def sample(turn: int) -> None:
        for i, some in enumerate(seeds[turn]):
            graph.sample(some, FANOUTS, rng_seed=(turn + 1) * BATCHES + i)

    def sample_beside(turn: int) -> None:
        with ColdGathers(fs, turn + 1):
            sample(turn)

    evict(fs.path)
    report.contest(
        "sampling beside cold gathers",
        {"gz, alone": sample, "gz, beside cold gathers": sample_beside},
        unit="batches/s",
        work=BATCHES,
    )
    report.note(f"cold reads: {fs.stats()['reads']:,}")


def missing(report, path) -> None:
    import numpy as np

    import gz

    seconds: dict[str, list[float]] = {"all in memory": [], "2 of 32 pages missing": []}
    rng, bystanders = np.random.default_rng(2), _common.Bystanders()
    for _ in range(report.args.repeat):
        ids = None
        for name, times in seconds.items():
            fs = gz.open(str(path)).feature("y")  # anew: pages that are mapped cannot be put out
            fs._file.configure(0, False)
            ids = rng.integers(0, len(fs), ROWS) if ids is None else ids
            bring_in(fs.path, None if name == "all in memory" else EVERY)
            start = time.perf_counter()
            fs.gather(ids)
            times.append(time.perf_counter() - start)
            del fs
    report.others = max(report.others, bystanders.share())
    report.rates(
        "rows of a column that is nearly in memory",
        seconds,
        unit="rows/s",
        work=ROWS,
        targets=(_common.Target("2 of 32 pages missing", ("all in memory",), TARGET_MISSING),),
    )


def main() -> None:
    args = _common.options(__doc__)
    from _data import Data

    import gz

    gz.set_num_threads(args.threads)
    path = Data(args.data, args.scale).store()
    report = _common.Report("cold", args, batch=BATCH, fanouts=FANOUTS, rows=ROWS, cold_rows=COLD_ROWS)
    beside(report, gz.open(str(path)))
    missing(report, path)
    report.finish()


if __name__ == "__main__":
    main()
