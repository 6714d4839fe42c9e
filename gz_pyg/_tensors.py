"""Rows of tensors and of store columns, copied by the engine into memory that is used again or shared."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.loader.utils import index_select

import gz
from gz import _engine


def torch_dtype(name: str) -> torch.dtype:
    return getattr(torch, name)


def draw_rng_seed() -> int:
    """A seed from torch's generator: `seed_everything` and the worker's own seed decide every sample."""
    return int(torch.empty((), dtype=torch.int64).random_()) & (2**64 - 1)


def in_worker() -> bool:
    return torch.utils.data.get_worker_info() is not None


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Memory for a result: shared memory in a worker, so that it travels without a copy; else pooled."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes == 0:
        return torch.empty(shape, dtype=dtype)
    if in_worker():
        storage = torch.UntypedStorage._new_shared(nbytes)
        return torch.empty(0, dtype=dtype).set_(storage, 0, shape)  # type: ignore[call-overload]
    return torch.from_numpy(_engine.empty(nbytes)).view(dtype).view(shape)


def stack(row: Tensor, col: Tensor) -> Tensor:
    """``[2, E]`` from its two halves."""
    if row.device.type != "cpu" or row.dtype != torch.int64 or col.dtype != torch.int64:
        return torch.stack([row, col], dim=0)
    return torch.stack([row, col], dim=0, out=empty((2, row.numel()), torch.int64))


def as_numpy_ids(index: Tensor) -> np.ndarray[Any, np.dtype[np.int64]]:
    return index.detach().to("cpu", torch.int64).contiguous().view(-1).numpy()


def take(value: Any, index: Tensor, dim: int = 0) -> Any:
    """``value.index_select(dim, index)`` for whatever PyG stores; by the engine where it can."""
    if (
        isinstance(value, Tensor)
        and type(value) in (Tensor, torch.nn.Parameter)
        and dim == 0
        and value.dim() > 0
        and value.device.type == "cpu"
        and value.layout == torch.strided
        and not value.requires_grad
        and not value.is_quantized
        and value.is_contiguous()
        and value.numel() > 0
    ):
        shape = (index.numel(), *value.shape[1:])
        out = empty(shape, value.dtype)
        if out.numel():
            _engine.gather_array(_bytes(value), as_numpy_ids(index), _bytes(out))
        return out
    return index_select(value, index, dim)


def _bytes(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The same memory as ``[rows, bytes per row]``, whatever the dtype."""
    return tensor.reshape(tensor.shape[0], -1).view(torch.uint8).numpy()


class Mapped:
    """A column of a store as a tensor over the mapped file. Pickles by path, so workers map it themselves."""

    def __init__(self, column: gz.FeatureStore):
        self.column = column
        self._tensor: Tensor | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Mapped, (self.column,)

    @property
    def dtype(self) -> torch.dtype:
        return torch_dtype(self.column.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.column.shape

    @property
    def tensor(self) -> Tensor:
        """All of it, without a copy; nothing is read until it is touched."""
        if self._tensor is None:
            self._tensor = from_numpy(self.column.get_tensor(), self.column.dtype)
        return self._tensor

    def take(self, rows: Tensor) -> Tensor:
        out = empty((rows.numel(), *self.shape[1:]), self.dtype)
        if out.numel():
            target = (
                out.view(torch.int16).numpy().view(np.uint16) if self.dtype is torch.bfloat16 else out.numpy()
            )
            self.column.gather(as_numpy_ids(rows), out=target)
        return out


def from_numpy(array: np.ndarray[Any, Any], dtype: str) -> Tensor:
    """A tensor over the same memory. bfloat16 arrives as the uint16 numpy shows it as."""
    with (
        warnings.catch_warnings()
    ):  # read-only mappings (strict overcommit): torch has no such thing and warns
        warnings.filterwarnings("ignore", message=".*not writable")
        if dtype == "bfloat16":
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)


def ordered_int64(times: Tensor) -> Tensor:
    """Times as integers in the same order, which is all that sampling asks of them."""
    times = times.detach().cpu()
    if times.dtype in (torch.int32, torch.int64):
        return times.contiguous().view(-1)
    if not times.dtype.is_floating_point:
        return times.to(torch.int64).contiguous().view(-1)
    if bool(torch.isnan(times).any()):
        raise ValueError("a time is NaN; times must be comparable")
    # IEEE doubles order like their bits as sign and magnitude; -0.0 + 0.0 is 0.0.
    bits = (times.to(torch.float64) + 0.0).contiguous().view(-1).view(torch.int64)
    return torch.where(bits < 0, bits ^ 0x7FFFFFFFFFFFFFFF, bits)
