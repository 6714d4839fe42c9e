"""Splits: nodes to train and test on, as ids, a mask, a range or a .pt file; edge splits in .npy files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gz._base.arrays import first_outside
from gz._engine import InputError
from gz._ingest.plan.column_input import open_table
from gz._ingest.read.files import Files
from gz._ingest.read.npy import DiskArray, open_array
from gz._ingest.read.paths import is_path, located
from gz._ingest.read.pt import FromPt

_ROWS = 1 << 20  # at a time


@dataclass(frozen=True)
class IdRange:
    """A split of consecutive nodes, which may be too many to list beforehand."""

    start: int
    stop: int
    input_files = ()  # none: it is a rule


def check_split(name: str, value: Any, num_nodes: int | None, files: Files) -> None:
    """Reads a split through, so that a wrong one is found before the work and not after it."""
    for _ in split_chunks(name, value, num_nodes, files) if num_nodes is not None else ():
        pass


def split_chunks(name: str, value: Any, num_nodes: int, files: Files) -> Iterator[np.ndarray]:
    """A split as node ids, in pieces: given as ids, a mask over all nodes, a range, or in a .pt file."""
    if isinstance(value, FromPt):
        value = value()
        value = value.chunks(_ROWS) if isinstance(value, DiskArray) else np.asarray(value)
    if isinstance(value, IdRange):
        for at in range(value.start, value.stop, _ROWS):
            yield np.arange(at, min(at + _ROWS, value.stop), dtype=np.int64)
        return
    row, mask = 0, False
    for chunk in open_table(name, value, files).chunks(_ROWS):
        ids = np.asarray(next(iter(chunk.columns.values())))
        if ids.ndim == 2 and ids.shape[-1] == 1:
            ids = ids[:, 0]
        if ids.ndim != 1 or ids.dtype.kind not in "iub":
            what = f"shape {ids.shape}" if ids.ndim != 1 else f"dtype {ids.dtype}"
            raise InputError(f"split {name!r}: has {what}; give node ids, or a mask over the nodes")
        mask = ids.dtype == np.bool_
        rows = len(ids)
        if mask:
            ids = row + np.flatnonzero(ids)
        elif (i := first_outside(ids, num_nodes)) is not None:
            raise InputError(
                f"split {name!r}, row {row + i}: node {ids[i]} is out of range: there are {num_nodes} nodes"
            )
        row += rows
        yield ids.astype(np.int64)
    if mask and row != num_nodes:
        raise InputError(f"split {name!r}: the mask has {row} rows, but there are {num_nodes} nodes")


@dataclass(frozen=True)
class SplitFiles:
    """One edge split, as gz export writes it and a spec names it: {name: a .npy file, or
    {"file": ..., "names": [...]} where the file counts in `names`}."""

    split: str
    columns: dict[str, Any]
    files: Files = field(repr=False)

    def __post_init__(self) -> None:
        for key, value in self.columns.items():
            known = isinstance(value, dict) and set(value) <= {"file", "names"} and "file" in value
            if not (known or is_path(value)):
                raise ValueError(
                    f"edge split {self.split!r}: {key!r} is {value!r}; give a .npy file, or "
                    '{file = "x.npy", names = [...]}'
                )

    @property
    def input_files(self) -> list[str]:
        return [self._file(value) for value in self.columns.values()]

    def __call__(self) -> dict[str, Any]:
        return {key: self._read(key, value) for key, value in self.columns.items()}

    def _file(self, value: Any) -> str:
        return located(value["file"] if isinstance(value, dict) else value, self.files.base)

    def _read(self, key: str, value: Any) -> Any:
        """An array, or a list of names."""
        rows = open_array(self._file(value), self.files)
        names = value.get("names") if isinstance(value, dict) else None
        if names is None:
            return rows.load() if rows.fortran else rows
        counts = len(rows.shape) == 1 and rows.dtype.kind in "iu"
        codes = rows.load().tolist() if counts else [-1]
        if any(not 0 <= i < len(names) for i in codes):
            raise InputError(
                f"{rows.name}: {key!r} of edge split {self.split!r} must hold places in its "
                f"{len(names)} names"
            )
        return [names[i] for i in codes]
