"""The row groups of a Parquet file, decoded several at a time and handed out in order."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gz import _engine

_SMALL = 1 << 16  # rows


def in_order(path: str, file: Any, columns: list[str], rows: int) -> Iterator[Any]:
    """Record batches of at most `rows` rows. `file` is the open ParquetFile of `path`.

    Row groups of about that size are decoded whole, one on each thread, and cut without a copy; a larger one
    is decoded piece by piece.
    """
    groups = file.metadata.num_row_groups
    whole = [file.metadata.row_group(g).num_rows <= max(rows, _SMALL) for g in range(groups)]
    reader = _Reader(path, file, columns)
    threads = _engine.num_threads()
    with ThreadPoolExecutor(threads, "gz-parquet") as pool:
        begun: deque[Future[Any]] = deque()  # group g and those after it
        for g in range(groups):
            if not whole[g]:
                yield from file.iter_batches(
                    batch_size=rows, row_groups=[g], columns=columns, use_threads=True
                )
                continue
            for later in range(g + len(begun), min(groups, g + threads)):
                if not whole[later]:
                    break
                begun.append(pool.submit(reader.read, later))
            yield from begun.popleft().result().to_batches(max_chunksize=rows)


class _Reader:
    """Reads row groups on any thread. A ParquetFile cannot be shared by threads: each has its own."""

    def __init__(self, path: str, file: Any, columns: list[str]):
        self._path, self._file, self._columns = path, file, columns
        self._own = threading.local()
        self._lock = threading.Lock()
        # Columns at the same time where groups cannot be; a file that is elsewhere has one handle.
        self._alone = file.metadata.num_row_groups == 1 or not os.path.exists(path)

    def read(self, group: int) -> Any:
        import pyarrow.parquet as pq

        if self._alone:
            with self._lock:
                return self._file.read_row_group(group, columns=self._columns, use_threads=True)
        if not hasattr(self._own, "file"):
            self._own.file = pq.ParquetFile(self._path, metadata=self._file.metadata, memory_map=False)
        return self._own.file.read_row_group(group, columns=self._columns, use_threads=False)
