"""Edges kept as a matrix, `adj` or `adj_t`: torch's sparse tensors, and torch_sparse's SparseTensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import is_torch_sparse_tensor


def edges_of_adjacency(storage: Any) -> tuple[Tensor, Tensor | None]:
    """``edge_index`` of the matrix, in its order, and its values; None where it has none."""
    name = "adj" if "adj" in storage else "adj_t"
    matrix = storage[name]
    if isinstance(matrix, Tensor) and is_torch_sparse_tensor(matrix):
        first, second, value = _coo(matrix)
    elif hasattr(matrix, "coo"):
        first, second, value = matrix.coo()
    else:
        raise TypeError(
            f"{name} is a {type(matrix).__name__}; give a sparse tensor of torch or torch_sparse, or put the "
            "edges into edge_index"
        )
    ends = (first, second) if name == "adj" else (second, first)
    return torch.stack(ends).to(torch.int64), value


def _coo(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, columns and values in the order in which the matrix keeps them."""
    if matrix.layout == torch.sparse_coo:
        first, second = matrix._indices()
        return first, second, matrix._values()
    if matrix.layout not in (torch.sparse_csr, torch.sparse_csc):
        raise TypeError(
            f"a sparse tensor of layout {matrix.layout} has blocks, not edges; convert it: .to_sparse_csr()"
        )
    by_row = matrix.layout == torch.sparse_csr
    pointer, other = (
        (matrix.crow_indices(), matrix.col_indices())
        if by_row
        else (matrix.ccol_indices(), matrix.row_indices())
    )
    own = torch.repeat_interleave(torch.arange(pointer.numel() - 1, device=pointer.device), pointer.diff())
    return (own, other, matrix.values()) if by_row else (other, own, matrix.values())
