"""Anything array-like as numpy, with the dtype name the store knows it by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gz._engine import InputError

STORABLE = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
# numpy types the store lacks, and the smallest it has that holds every value.
_WIDER = {"uint16": "int32", "uint32": "int64"}


@dataclass(frozen=True)
class Column:
    """What a column holds: its dtype by name (bfloat16 lies in uint16 arrays) and the shape of one row."""

    name: str
    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def numpy(self) -> np.dtype:
        return np.dtype("uint16" if self.dtype == "bfloat16" else self.dtype)


def is_array(obj: Any) -> bool:
    return isinstance(obj, np.ndarray) or (hasattr(obj, "__array__") and hasattr(obj, "shape"))


def as_numpy(obj: Any) -> tuple[np.ndarray, str]:
    """The array and its dtype name. Torch tensors come as they are, bfloat16 included."""
    if isinstance(obj, np.ndarray):
        return obj, obj.dtype.name
    if type(obj).__module__.split(".")[0] == "torch":
        t = obj.detach().cpu()
        if str(t.dtype) == "torch.bfloat16":
            import torch

            return t.contiguous().view(torch.int16).numpy().view(np.uint16), "bfloat16"
        return t.numpy(), t.numpy().dtype.name
    a = np.asarray(obj)
    return a, a.dtype.name


def storable(dtype: str, what: str) -> str:
    """The dtype a column of this numpy dtype is stored as."""
    if dtype in STORABLE:
        return dtype
    if dtype in _WIDER:
        return _WIDER[dtype]
    raise InputError(
        f"{what} has dtype {dtype}, which cannot be stored; convert it to one of {', '.join(STORABLE)}"
    )


def to_dtype(a: np.ndarray, column: Column, given: str) -> np.ndarray:
    """Rows as the column stores them: little-endian, C order, the column's dtype."""
    if given == "bfloat16" or column.dtype == "bfloat16":
        if given != column.dtype:
            raise InputError(
                f"column {column.name!r}: cannot convert {given} to {column.dtype}; do it beforehand"
            )
        return np.ascontiguousarray(a)
    return np.ascontiguousarray(a, dtype=column.numpy.newbyteorder("<"))


def check_ids(a: np.ndarray, where: str, first_row: int, limit: int | None, what: str) -> np.ndarray:
    """Ids as uint32 or int64. Floats, NaN, negatives and ids past `limit` are errors that name the row."""
    if a.dtype.kind not in "iu":
        bad: Any = None
        if a.dtype.kind == "f" and np.isnan(a).any():
            i = int(np.isnan(a).argmax())
            raise InputError(f"{where}, row {first_row + i}: {what} id is NaN")
        if len(a):
            bad = a.flat[0]
        raise InputError(
            f"{where}: {what} ids have dtype {a.dtype}"
            + (f" (row {first_row} is {bad!r})" if bad is not None else "")
            + '; ids must be integers, or anything with ids="map"'
        )
    if len(a) == 0:
        return np.zeros(0, np.int64)
    if a.dtype.kind == "i" and a.min() < 0:
        i = int((a < 0).argmax())
        raise InputError(
            f"{where}, row {first_row + i}: {what} id {a[i]} is negative; node ids start at 0 "
            '(ids="map" takes any integer)'
        )
    top = int(a.max())
    bound = limit if limit is not None else 1 << 62
    if top >= bound:
        i = int((a >= bound).argmax())
        raise InputError(
            f"{where}, row {first_row + i}: {what} id {a[i]} is out of range"
            + (f": there are {limit} nodes, ids are 0 to {limit - 1}" if limit is not None else "")
        )
    if a.dtype == np.dtype("<u4"):
        return np.ascontiguousarray(a)
    return np.ascontiguousarray(a, dtype=np.uint32 if a.dtype.itemsize < 4 else np.int64)
