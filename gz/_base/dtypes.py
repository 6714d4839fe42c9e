"""Anything array-like as numpy, with the dtype name the store knows it by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gz._base.arrays import numpy_dtype
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
    unit: str | None = None  # of dates and times: what its integers count

    @property
    def numpy(self) -> np.dtype:
        return numpy_dtype(self.dtype)

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.numpy.itemsize


def is_array(obj: Any) -> bool:
    return isinstance(obj, np.ndarray) or (hasattr(obj, "__array__") and hasattr(obj, "shape"))


def as_numpy(obj: Any) -> tuple[np.ndarray, str]:
    """The array and its dtype name. Torch tensors come as they are, bfloat16 included."""
    if isinstance(obj, np.ndarray):
        return obj, obj.dtype.name
    if type(obj).__module__.split(".")[0] == "torch":
        try:
            t = obj.detach().cpu()
            t.data_ptr()
        except (RuntimeError, NotImplementedError) as e:
            raise InputError(f"a tensor of {obj.device} and {obj.layout} has no rows to read: {e}") from None
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
    with np.errstate(invalid="ignore"):  # NaN as an integer is found below
        out = np.ascontiguousarray(a, dtype=column.numpy.newbyteorder("<"))
    if out.dtype.kind in "iu" and a.dtype.kind in "iuf" and not np.can_cast(a.dtype, out.dtype):
        bad = out != a
        if bad.any():
            value = a[bad].flat[0]
            raise InputError(f"column {column.name!r}: {value} is no {column.dtype}; choose another dtype")
    return out
