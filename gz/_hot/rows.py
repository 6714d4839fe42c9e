"""Writes the rows that are read most in front: their ids, and the rows in tiers, in bounded memory. They
become part of the column when all is on the disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz import _engine
from gz._base.memory_plan import Share
from gz._base.progress import Progress
from gz._hot import publish
from gz._hot.room import check_room
from gz._ingest.write.permute import permuted
from gz.feature import FeatureStore
from gz.store import Store

_TIERS, _TIER_BYTES = 32, 64 << 20  # about so many, none smaller


def write_in_front(
    store: Store,
    name: str,
    t: str,
    hot: NDArray[np.int64],
    budget: int,
    tmp: Path | None,
    show: Progress,
    check_disk: bool,
) -> None:
    column = store.feature(name, t)
    if len(hot) == 0:
        return publish.set_hot(store, name, t, column.version, None)
    with publish.draft(store, name, t) as draft:
        if check_disk:
            width, what = column.nbytes // len(column), f"{len(hot):,} rows"
            needed, temporary = len(hot) * (width + 8), len(hot) * (width + 24)
            check_room(draft.folder, needed, tmp or draft.folder, temporary, what)
        files = ["hot-ids.gd"]
        ids = hot.astype(np.int32 if len(column) < 1 << 31 else np.int64)
        writer = _engine.ColumnWriter(str(draft.folder / files[0]), ids.dtype.name, [])
        writer.append(ids)
        writer.finish()
        show.phase(f"{name}: rows that are read most")
        with tempfile.TemporaryDirectory(dir=tmp or draft.folder) as folder:
            rows = _rows(column, hot, Path(folder), budget)
            files += _tiers(rows, column, len(hot), draft.folder, show)
        publish.set_hot(store, name, t, column.version, draft, files)
    return None


def _rows(column: FeatureStore, hot: NDArray[np.int64], folder: Path, budget: int) -> Iterator[NDArray[Any]]:
    """Rows `hot`, in this order, piece by piece. The column is read through once, in order."""
    row = np.dtype((np.uint8, (column._row_bytes,)))  # as they lie: they are to lie so in the tiers

    def wanted(a: int, b: int) -> NDArray[np.int64]:
        return hot[a:b]

    with open(column.path, "rb", buffering=0) as file:

        def read(a: int, b: int) -> NDArray[np.uint8]:
            # A mapping for each range, and no row cache: pages that were touched count as this process's
            # memory until they are unmapped, and in the end that would be the whole column.
            return FeatureStore(column.path, 0, _share=Share(), _opened=file.fileno())._stored_rows(a, b)

        yield from permuted(read, len(column), wanted, len(hot), row, folder, budget // 2)


def _tiers(
    rows: Iterator[NDArray[Any]], column: FeatureStore, count: int, folder: Path, show: Progress
) -> list[str]:
    """Writes the rows into files of a size each."""
    width = column.nbytes // len(column)
    size = max(-(-count // _TIERS), -(-_TIER_BYTES // width))
    files: list[str] = []
    done, writer, filled = 0, None, 0
    for block in rows:
        while len(block):
            if writer is None:
                files.append(f"hot-{len(files)}.gd")
                path = str(folder / files[-1])
                writer, filled = column._writer(path), 0
            part, block = block[: size - filled], block[size - filled :]
            writer.append(np.ascontiguousarray(part))
            filled, done = filled + len(part), done + len(part)
            show.update(done, count, " rows")
            if filled == size:
                writer.finish()
                writer = None
    if writer is not None:
        writer.finish()
    return files
