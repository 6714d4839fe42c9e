"""Columns that a program fills in place, in any order, from any number of threads and processes.

The rows are a shared mapping of a file: what one process writes, all see, and memory is only a cache of it.
The disk space is taken when the file is made, so that a full disk is an error here and not a SIGBUS in the
middle.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz._arrays import numpy_dtype

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
            errno.ENOSPC, f"a column of {nbytes / 1e9:,.1f} GB does not fit on this disk", os.fspath(path)
        ) from None
    finally:
        os.close(fd)


def new_npy(path: str | os.PathLike[str], shape: Sequence[int], dtype: Any) -> NDArray[Any]:
    """A new .npy file as an array of zeros: what is written to the array goes to the file."""
    dtype, shape = np.dtype(dtype), tuple(int(n) for n in shape)
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
