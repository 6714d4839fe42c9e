"""Anything array-like as numpy, with the dtype name the store knows it by; and rows as they are stored.

A column may be stored smaller than it is read (csrc/file/encoding.h): as float16, bfloat16, or int8 with a
scale for each row, and read as float32; or as whole numbers of up to 32 bits, and read as int64.
"""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from gz import _engine
from gz._base.arrays import numpy_dtype
from gz._engine import InputError

STORABLE = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
# numpy types the store lacks, and the smallest it has that holds every value.
_WIDER = {"uint16": "int32", "uint32": "int64"}


_KEEP = ":keep"  # after a dtype: the column is read as it is stored
_WIDE = ":int64"  # after one of these: it is read as int64
_NARROW = ("uint8", "int8", "int16", "int32")
_SCALE = 4  # bytes of a row of int8 before its values
_VANISHED = 0.1  # of the values: what int8 may make 0 of without a word


@dataclass(frozen=True)
class Column:
    """What a column holds: its dtype by name (bfloat16 lies in uint16 arrays) and the shape of one row."""

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    unit: str | None = None  # of dates and times: what its integers count
    stored: str | None = None  # where it is smaller in the file, as one of these, and read as `dtype`

    @property
    def numpy(self) -> np.dtype:
        """Of its values in arrays, where they are not encoded."""
        return numpy_dtype(self.dtype)

    @property
    def row(self) -> np.dtype:
        """One row as it lies in the file."""
        if self.stored == "int8" and self.dtype == "float32":
            return np.dtype((np.uint8, (_SCALE + math.prod(self.shape),)))
        return np.dtype((numpy_dtype(self.stored or self.dtype), self.shape))

    @property
    def row_bytes(self) -> int:
        """In the file."""
        return self.row.itemsize

    @property
    def parsed(self) -> bool:
        """Whether text can be parsed into what is stored."""
        return self.stored is None and self.dtype not in ("float16", "bfloat16")

    @property
    def _shown(self) -> str | None:
        """What a file says its rows are read as, where that is not what they are stored as."""
        return self.dtype if self.stored else None

    def writer(self, path: Any) -> _engine.ColumnWriter:
        """Takes rows as they lie in the file."""
        return _engine.ColumnWriter(str(path), self.stored or self.dtype, list(self.shape), self._shown)

    def of_edges(self, path: Any, offset: int) -> _engine.EdgeColumn:
        """For a builder: rows as they lie in the file, from `offset` on in what goes with an edge."""
        kind = self.stored or self.dtype
        return _engine.EdgeColumn(str(path), kind, list(self.shape), offset, self._shown)


def asked_for(column: Column, dtype: str | None, what: str) -> Column:
    """The column, stored as `dtype`.

    What is made float16 or bfloat16 is read as float32, and so is int8 of fractions, with a scale for each
    row; what has that dtype already stays what it is. After `float16:keep` the column is one of float16.
    What is made `int16:int64` is read as int64, whatever it is now.
    """
    kind = column.dtype if dtype is None else dtype.removesuffix(_KEEP)
    if (narrow := _narrow(kind)) is not None:
        return Column(column.name, "int64", column.shape, column.unit, narrow)
    if kind not in STORABLE:
        raise InputError(f"{what}: dtype {kind!r} cannot be stored; choose one of {', '.join(STORABLE)}")
    fractions = column.dtype in ("float16", "bfloat16", "float32", "float64")
    small = kind in ("float16", "bfloat16") or (kind == "int8" and fractions and column.shape != ())
    if dtype is None or dtype.endswith(_KEEP) or kind == column.dtype or not small:
        return Column(column.name, kind, column.shape, column.unit)
    return Column(column.name, "float32", column.shape, None, kind)


def parsed_as(dtype: str | None) -> str | None:
    """What text is read as that is to be stored as `dtype`; None: what it looks like."""
    kind = None if dtype is None else dtype.removesuffix(_KEEP)
    if kind is not None and _narrow(kind) is not None:
        return "int64"
    return "float32" if kind in ("float16", "bfloat16") else kind


def _narrow(kind: str) -> str | None:
    """What numbers that are read as int64 are stored as: int16, of `int16:int64`. None of anything else."""
    stored = kind.removesuffix(_WIDE)
    return stored if stored != kind and stored in _NARROW else None


def dtype_name(dtype: Any) -> str:
    """gz's name of what numpy, torch or text call a dtype."""
    text = str(dtype).removeprefix("torch.")
    if text.removesuffix(_KEEP) in STORABLE or _narrow(text) is not None:
        return text
    with suppress(TypeError):
        text = np.dtype(dtype).name
    if text not in STORABLE:
        raise ValueError(f"dtype {dtype!r} cannot be stored; choose one of {', '.join(STORABLE)}")
    return text


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


def to_dtype(a: np.ndarray, column: Column, given: str, where: str = "", first_row: int = 0) -> np.ndarray:
    """Rows as the column stores them: little-endian, C order, the column's dtype, encoded where it says so.
    `where`, `first_row`: of the rows, for messages."""
    if column.stored is not None:
        return _encoded(a, column, given, where, first_row)
    if given == "bfloat16" == column.dtype:
        return np.ascontiguousarray(a)
    if given == "bfloat16":
        a = _widened(a)
    if column.dtype == "bfloat16":
        return _halves(a, column, "bfloat16", where, first_row)
    return _cast(a, column, column.dtype)


def _cast(a: np.ndarray, column: Column, kind: str) -> np.ndarray:
    """As `kind`, if every value is one."""
    with np.errstate(invalid="ignore"):  # NaN as an integer is found below
        out = np.ascontiguousarray(a, dtype=numpy_dtype(kind).newbyteorder("<"))
    if out.dtype.kind in "iu" and a.dtype.kind in "iuf" and not np.can_cast(a.dtype, out.dtype):
        bad = out != a
        if bad.any():
            value = a[bad].flat[0]
            raise InputError(f"column {column.name!r}: {value} is no {kind}; choose another dtype")
    return out


# ---- rows that are stored smaller than they are read ----


def _widened(a: np.ndarray) -> np.ndarray:
    """bfloat16, which numpy shows as its bits, as float32."""
    return (a.astype(np.uint32) << 16).view(np.float32)


def _encoded(a: np.ndarray, column: Column, given: str, where: str, first_row: int) -> np.ndarray:
    if given == "bfloat16":
        a = _widened(a)
    assert column.stored is not None
    if column.dtype == "int64":
        return _cast(a, column, column.stored)
    if column.stored != "int8":
        return _halves(a, column, column.stored, where, first_row)
    if a.shape[1:] != column.shape:
        raise InputError(
            f"column {column.name!r}: {where}: rows from {first_row} on have shape {a.shape[1:]}, the first "
            f"had {column.shape}"
        )
    with np.errstate(over="ignore"):  # what is no float32 is found below
        values = np.ascontiguousarray(a, np.float32)
    if not math.prod(column.shape):
        return np.zeros((len(a), *column.row.shape), column.row.base)
    found = _engine.encode_int8(values.reshape(-1), math.prod(column.shape))
    if found.wrong is not None:
        wrong = values[found.wrong]
        raise _cannot(column, "int8", wrong[~np.isfinite(wrong)].flat[0], where, first_row + found.wrong)
    if found.vanished > max(1000, _VANISHED * found.nonzero):
        warnings.warn(
            f"column {column.name!r}: of its values that are not 0, one in ten or more becomes 0 as int8: "
            "rows have one scale for all of their values. Bring the values of a row to one scale beforehand, "
            "or store it as float16",
            RuntimeWarning,
            2,
        )
    return found.rows.reshape(len(a), -1)


def _halves(a: np.ndarray, column: Column, kind: str, where: str, first_row: int) -> np.ndarray:
    """Values as float16 or bfloat16, each the nearest; what is too large for it is an error."""
    with np.errstate(over="ignore"):
        wide = np.ascontiguousarray(a, np.float32)
        out: Any = wide.astype(np.float16) if kind == "float16" else _bfloats(wide)
    infinite = np.isinf(out) if kind == "float16" else out & 0x7FFF == 0x7F80
    if infinite.any() and (bad := infinite & np.isfinite(a)).any():
        row = int(bad.reshape(len(bad), -1).any(axis=1).argmax())
        raise _cannot(column, kind, a[row][bad[row]].flat[0], where, first_row + row)
    return out


def _bfloats(wide: np.ndarray) -> np.ndarray:
    """The upper half of each float32, rounded to even; a NaN stays one."""
    bits = wide.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return np.where(np.isnan(wide), (bits >> 16) | 0x40, rounded).astype(np.uint16)


def _cannot(column: Column, kind: str, value: Any, where: str, row: int) -> InputError:
    than = "values must be finite" if kind == "int8" else "it is too large"
    at = f"{where}, row {row}" if where else f"row {row}"
    return InputError(
        f"column {column.name!r}: {at}: {value} cannot be stored as {kind}: {than}; choose float32"
    )
