"""Tensors as PyG and the engine want them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.loader.utils import index_select

from gz.adapter import empty, take_rows


def stack(row: Tensor, col: Tensor) -> Tensor:
    """``[2, E]`` from its two halves."""
    if row.device.type != "cpu" or row.dtype != torch.int64 or col.dtype != torch.int64:
        return torch.stack([row, col], dim=0)
    out = empty((2, row.numel()), torch.int64)
    # Copied by numpy: torch would start a team of threads for it in every thread that calls this.
    np.copyto(out.numpy()[0], row.numpy())
    np.copyto(out.numpy()[1], col.numpy())
    return out


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
        return take_rows(value, index)
    return index_select(value, index, dim)


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
