"""Arguments turned into what the engine takes, and engine memory turned into numpy arrays."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ids = NDArray[np.int64]

# numpy has no bfloat16: such a column shows as its bit patterns (torch: .view(torch.bfloat16)).
_STORED_AS = {"bfloat16": "uint16"}


def as_ids(values: ArrayLike, what: str) -> Ids:
    """One-dimensional int64 ids from any integer array, list or CPU tensor, without a copy where possible."""
    array = np.asarray(values)
    if array.size == 0 and not isinstance(values, np.ndarray):
        array = array.astype(np.int64)
    if array.ndim != 1:
        raise ValueError(f"{what} must be one-dimensional, not of shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{what} must be integers, not {array.dtype}")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise IndexError(f"{what} {array.max()} is out of range")
    return np.ascontiguousarray(array, dtype=np.int64)


def numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(_STORED_AS.get(name, name))


def view(raw: NDArray[np.uint8], dtype: str, shape: tuple[int, ...], writable: bool = True) -> NDArray[Any]:
    """Engine bytes as an array of `dtype` and `shape`, without a copy."""
    array = raw.view(numpy_dtype(dtype)).reshape(shape)
    if not writable:
        array.flags.writeable = False
    return array


def npy_layout(path: str | os.PathLike[str]) -> tuple[int, str, tuple[int, ...]]:
    """(offset of the data, dtype name, shape) of a .npy file that can be mapped as it is; else ValueError."""
    with open(path, "rb") as f:
        try:
            version = np.lib.format.read_magic(f)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran_order, dtype = read(f)
        except ValueError as e:
            raise ValueError(f"{path}: not a .npy file that can be read: {e}") from None
        if fortran_order and len(shape) > 1:
            raise ValueError(f"{path}: is in Fortran order; save it again with np.ascontiguousarray")
        if dtype.hasobject or dtype.byteorder == ">":
            raise ValueError(f"{path}: dtype {dtype} cannot be mapped; save it again little-endian")
        return f.tell(), dtype.name, shape
