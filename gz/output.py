"""Columns that a program fills in place, in any order, from any number of threads and processes.

The rows are a shared mapping of a file: what one process writes, all see, and memory is only a cache of it.
The disk space is taken when the file is made, so that a full disk is an error here and not a SIGBUS in the
middle.
"""

from __future__ import annotations

import errno
import operator
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gz._base.arrays import numpy_dtype
from gz._base.journal import sync
from gz._base.sizes import amount
from gz.feature import FeatureStore

PAGE = 4096  # a .gd file's rows begin here (docs/format.md)


def reserve(path: str | os.PathLike[str], first: int, nbytes: int) -> None:
    """Makes an existing file `first + nbytes` long, zeros that have their place on the disk."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.ftruncate(fd, first + nbytes)
        if nbytes:
            os.posix_fallocate(fd, first, nbytes)
    except OSError as e:
        if e.errno != errno.ENOSPC:
            raise
        raise OSError(
            errno.ENOSPC, f"a column of {amount(nbytes)} does not fit on this disk", os.fspath(path)
        ) from None
    finally:
        os.close(fd)


def new_npy(path: str | os.PathLike[str], shape: Sequence[int], dtype: Any) -> NDArray[Any]:
    """A new .npy file as an array of zeros: what is written to the array goes to the file."""
    dtype, shape = np.dtype(dtype), tuple(map(operator.index, shape))
    if min(shape, default=0) < 0:
        raise ValueError(f"a column of shape {shape} cannot be: no dimension is negative")
    nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
    with open(path, "wb") as f:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(f, header)
        first = f.tell()
    try:
        reserve(path, first, nbytes)
    except OSError:
        os.unlink(path)
        raise
    return _map(path, first, shape, dtype)


def new_rows(path: str | os.PathLike[str], shape: Sequence[int], dtype: str) -> None:
    """A new file with room for the header of a .gd and its rows; open_rows() maps it, seal_column() finishes
    it."""
    with open(path, "xb"):
        pass
    reserve(path, PAGE, int(np.prod(shape, dtype=object)) * numpy_dtype(dtype).itemsize)


def open_rows(path: str | os.PathLike[str], shape: Sequence[int], dtype: str) -> NDArray[Any]:
    return _map(path, PAGE, tuple(shape), numpy_dtype(dtype))


def _map(path: Any, first: int, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    if 0 in shape:
        return np.zeros(shape, dtype)
    mapped = np.memmap(path, dtype, "r+", first, shape)
    return mapped.view(np.ndarray)  # keeps the mapping alive, without memmap's surprises in arithmetic


# ---- rows of which the first ones tell the shape: the outputs of a model's layers ----


class Output(Protocol):
    """A column being filled: ``Store.new_column`` gives one of the store, here are files and memory."""

    @property
    def array(self) -> NDArray[Any]:
        """``[rows, ...]``; bfloat16 shows as uint16."""

    def publish(self) -> Any:
        """Makes it appear where it was meant to be, whole."""

    def abort(self) -> None:
        """Gives it up: nothing of it is left."""


class NpyOutput:
    """A .npy file being filled, under a name of its own beside it until it is published."""

    def __init__(self, path: str | os.PathLike[str], shape: Sequence[int], dtype: str):
        self.path = os.fspath(path)
        self._draft: str | None = f"{self.path.removesuffix('.npy')}~{secrets.token_hex(4)}.new.npy"
        self.array = new_npy(self._draft, shape, numpy_dtype(dtype))

    def readable(self) -> FeatureStore:
        """What was written so far: rows of it that are not in memory are read with deep queues."""
        assert self._draft is not None
        return FeatureStore(self._draft)

    def publish(self) -> FeatureStore:
        assert self._draft is not None
        sync(Path(self._draft))
        os.replace(self._draft, self.path)  # the mapping follows the file to its new name
        self._draft = None
        return FeatureStore(self.path)

    def abort(self) -> None:
        if self._draft is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._draft)
            self._draft = None


class ArrayOutput:
    """Rows in memory."""

    def __init__(self, shape: Sequence[int], dtype: str):
        self.array = np.zeros(tuple(shape), numpy_dtype(dtype))

    def publish(self) -> NDArray[Any]:
        return self.array

    def abort(self) -> None:
        self.array = np.zeros(0, self.array.dtype)


class LayerRows:
    """The rows that a layer gives, by node type.

    Args:
        place: ``place(node type, shape, dtype)`` makes room for those of a type when the first ones come.
    """

    def __init__(self, place: Callable[[Any, tuple[int, ...], str], Output]):
        self._place = place
        self.outputs: dict[Any, Output] = {}
        self.dtypes: dict[Any, str] = {}

    def write(self, t: Any, begin: int, rows: NDArray[Any], dtype: str, num_nodes: int) -> None:
        """Rows of the nodes from ``begin`` on, of ``num_nodes`` of the type."""
        if t not in self.outputs:
            self.outputs[t] = self._place(t, (num_nodes, *rows.shape[1:]), dtype)
            self.dtypes[t] = dtype
        array = self.outputs[t].array
        if rows.shape[1:] != array.shape[1:] or dtype != self.dtypes[t]:
            raise ValueError(
                f"a layer gave rows of {self.dtypes[t]} of shape {array.shape[1:]} at first and of {dtype} "
                f"of shape {rows.shape[1:]} for the nodes from {begin} on"
            )
        array[begin : begin + len(rows)] = rows

    def publish(self) -> dict[Any, Any]:
        return {t: output.publish() for t, output in self.outputs.items()}

    def abort(self) -> None:
        for output in self.outputs.values():
            output.abort()
