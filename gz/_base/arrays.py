"""Ids checked and turned into what the engine takes, and engine memory turned into numpy arrays."""

from __future__ import annotations

import operator
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gz._base.files import check_regular
from gz._engine import InputError

Ids = NDArray[np.int64]

# numpy has no bfloat16: such a column shows as its bit patterns (torch: .view(torch.bfloat16)).
_STORED_AS = {"bfloat16": "uint16"}


def as_ids(values: ArrayLike, what: str) -> Ids:
    """One-dimensional int64 ids from any integer array, list or CPU tensor, without a copy where possible."""
    try:
        array = np.asarray(values)
    except Exception as e:  # what a tensor on another device, or a ragged list, says of itself
        raise TypeError(f"{what} cannot be read as an array of integers: {e}") from None
    if array.size == 0 and not isinstance(values, np.ndarray):
        array = array.astype(np.int64)
    if array.ndim != 1:
        raise ValueError(f"{what} must be one-dimensional, not of shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{what} must be integers, not {array.dtype}")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise IndexError(f"{what} {array.max()} is out of range")
    return np.ascontiguousarray(array, dtype=np.int64)


_SEED_MASK = (1 << 64) - 1


def as_seed(value: Any, what: str = "rng_seed") -> int:
    """Any integer, numpy's too; the engine takes 64 bits of it."""
    return as_integer(value, what) & _SEED_MASK


def as_integer(value: Any, what: str) -> int:
    """An integer, and not what could be rounded or read as one."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}, not an integer") from None


def as_shape(value: Any) -> tuple[int, ...]:
    """Of a row: a number of values, or several."""
    given = (value,) if isinstance(value, int | np.integer) else value
    shape = tuple(as_integer(n, "a dimension of a row") for n in given)
    if any(n < 0 for n in shape):
        raise ValueError(f"a row of shape {shape}: nothing has fewer than 0 values")
    return shape


def first_outside(ids: NDArray[Any], limit: Any) -> int | None:
    """Where the first id lies that is not one of 0 to limit - 1, counted flat; None where there is none.
    `limit` may be an array, one for each row."""
    if ids.size == 0 or (np.isscalar(limit) and ids.min() >= 0 and ids.max() < limit):
        return None
    bad = (ids < 0) | (ids >= limit)
    return int(bad.argmax()) if bad.any() else None


def past_the_end(nodes: int) -> str:
    """How a message about an id past the last node ends, here and in csrc/csv/csv.cpp."""
    return f": there are {nodes} nodes, ids are 0 to {nodes - 1}"


def check_ids(a: NDArray[Any], where: str, first_row: int, limit: int | None, what: str) -> NDArray[Any]:
    """Ids of an input as uint32 or int64. Floats, NaN, negatives and ids past `limit` are errors that name
    the row."""
    if a.dtype.kind not in "iu":
        if a.dtype.kind == "f" and np.isnan(a).any():
            raise InputError(f"{where}, row {first_row + int(np.isnan(a).argmax())}: {what} id is NaN")
        shown = f" (row {first_row} is {a.flat[0]})" if len(a) else ""
        raise InputError(
            f"{where}: {what} ids have dtype {a.dtype}{shown}; ids must be integers, or text with "
            'ids="map": cast them (.astype("int64"))'
        )
    i = first_outside(a, 1 << 62 if limit is None else limit)
    if i is not None:
        why = "is out of range"
        if a[i] < 0:
            why = 'is negative; node ids start at 0 (ids="map" takes any integer)'
        elif limit is not None:
            why += past_the_end(limit)
        raise InputError(f"{where}, row {first_row + i}: {what} id {a[i]} {why}")
    if a.dtype == np.dtype("<u4"):
        return np.ascontiguousarray(a)
    return np.ascontiguousarray(a, dtype=np.uint32 if a.dtype.itemsize < 4 else np.int64)


def numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(_STORED_AS.get(name, name))


def view(raw: NDArray[np.uint8], dtype: str, shape: tuple[int, ...], writable: bool = True) -> NDArray[Any]:
    """Engine bytes as an array of `dtype` and `shape`, without a copy."""
    array = raw.view(numpy_dtype(dtype)).reshape(shape)
    if not writable:
        array.flags.writeable = False
    return array


def check_shape(shape: tuple[int, ...]) -> None:
    """numpy reads a header with any integers for a shape."""
    if any(n < 0 for n in shape):
        raise ValueError(f"its header gives it the shape {shape}, and nothing has fewer than 0 rows")


def npy_layout(path: str | os.PathLike[str]) -> tuple[int, str, tuple[int, ...]]:
    """(offset of the data, dtype name, shape) of a .npy file that can be mapped as it is; else ValueError."""
    check_regular(path)
    with open(path, "rb") as f:
        try:
            version = np.lib.format.read_magic(f)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran_order, dtype = read(f)
            check_shape(shape)
        except ValueError as e:
            raise ValueError(f"{path}: not a .npy file that can be read: {e}") from None
        if fortran_order and len(shape) > 1:
            raise ValueError(f"{path}: is in Fortran order; save it again with np.ascontiguousarray")
        if dtype.hasobject or dtype.byteorder == ">":
            raise ValueError(f"{path}: dtype {dtype} cannot be mapped; save it again little-endian")
        return f.tell(), dtype.name, shape
