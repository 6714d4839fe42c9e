"""Edge types as the engine samples them: over a store's files, or over the arrays of a PyG object."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import gz
from gz import _engine
from gz_pyg._tensors import as_numpy_ids

_INT32_MAX = 2**31 - 1


class StoreEdges:
    """One edge type of a store. Pickles by path."""

    def __init__(self, graph: gz.Graph):
        self.graph = graph

    @property
    def topology(self) -> Any:
        return self.graph._topology

    @property
    def permutation(self) -> EdgeIds | None:
        return EdgeIds(self.graph) if self.graph._ids_topology is not None else None


class EdgeIds:
    """Original edge ids by row of the edge columns: indexes like the tensor PyG calls an edge permutation."""

    def __init__(self, graph: gz.Graph):
        self._graph = graph

    def __reduce__(self) -> tuple[Any, ...]:
        return EdgeIds, (self._graph,)

    def _ids(self) -> np.ndarray[Any, Any]:
        graph = self._graph._in_graph if self._graph._topology.ids_are_in_rows else self._graph
        assert graph is not None
        ids = graph.edge_ids
        assert ids is not None
        return ids

    def __getitem__(self, rows: Tensor) -> Tensor:
        ids = self._ids()
        index = as_numpy_ids(rows)
        out = np.empty(len(index), ids.dtype)
        if len(index):
            _engine.gather_array(ids.reshape(-1, 1).view(np.uint8), index, out.view(np.uint8))
        return torch.from_numpy(out.astype(np.int64, copy=False))

    def to(self, *_: Any, **__: Any) -> EdgeIds:
        return self


class ArrayEdges:
    """One edge type of an in-memory graph, grouped by the end that sampling starts from.

    Args:
        pointer: int64, where each node's list begins.
        neighbours: int32 or int64, the other end of each edge.
        permutation: original edge by position, or None where the order was kept.
        num_other: number of nodes at the other end.
    """

    def __init__(
        self, pointer: Tensor, neighbours: Tensor, permutation: Tensor | None, num_other: int, out: bool
    ):
        self.pointer = pointer.detach().cpu().to(torch.int64).contiguous()
        dtype = neighbours.dtype if neighbours.dtype in (torch.int32, torch.int64) else torch.int64
        self.neighbours = neighbours.detach().cpu().to(dtype).contiguous()
        self.permutation = None if permutation is None else permutation.cpu()
        self.num_other = num_other
        self.out = out
        self._topology: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_topology": None}

    @property
    def topology(self) -> Any:
        if self._topology is None:
            self._topology = _engine.Topology.from_arrays(
                self.pointer.numpy(), self.neighbours.numpy(), self.num_other, out=self.out
            )
        return self._topology

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor,
        size: tuple[int, int],
        backward: bool,
        is_sorted: bool,
        name: str,
        time: Tensor | None = None,
    ) -> ArrayEdges:
        """Groups a COO ``edge_index``; lists keep the order of the edges, or that of ``time``."""
        edge_index = edge_index.detach().cpu()
        if edge_index.dim() != 2 or edge_index.size(0) != 2:
            raise ValueError(f"{name}: edge_index has shape {tuple(edge_index.shape)}, not [2, num_edges]")
        row, col = (t.as_subclass(Tensor) for t in edge_index.unbind(0))
        for end, ids, limit in (("source", row, size[0]), ("destination", col, size[1])):
            _check_range(ids, limit, f"{name}: {end}")
        grouped, other = (row, col) if backward else (col, row)
        limit, num_other = (size[0], size[1]) if backward else (size[1], size[0])
        permutation = None
        if not is_sorted or backward:
            if time is None:
                grouped, permutation = torch.sort(grouped, stable=True)
            else:
                permutation = torch.argsort(time, stable=True)
                grouped, order = torch.sort(grouped[permutation], stable=True)
                permutation = permutation[order]
            other = other[permutation]
        elif grouped.numel() and bool((grouped[1:] < grouped[:-1]).any()):
            raise ValueError(f"{name}: is_sorted=True, but edge_index is not sorted by column")
        pointer = torch.zeros(limit + 1, dtype=torch.int64)
        torch.cumsum(torch.bincount(grouped, minlength=limit), 0, out=pointer[1:])
        return cls(pointer, other, permutation, num_other, backward)

    @classmethod
    def from_compressed(
        cls,
        pointer: Tensor,
        neighbours: Tensor,
        permutation: Tensor | None,
        size: tuple[int, int],
        out: bool,
        name: str,
    ) -> ArrayEdges:
        """From CSC or, for `out`, CSR. The last nodes may be missing from ``pointer``."""
        limit, num_other = (size[0], size[1]) if out else (size[1], size[0])
        _check_range(neighbours, num_other, f"{name}: neighbour")
        missing = limit + 1 - pointer.numel()
        if missing > 0:
            pointer = torch.cat([pointer, pointer[-1:].expand(missing)])
        return cls(pointer, neighbours, permutation, num_other, out)


def _check_range(ids: Tensor, limit: int, what: str) -> None:
    if ids.numel() == 0:
        return
    low, high = (int(v) for v in torch.aminmax(ids))
    if low < 0 or high >= limit:
        raise IndexError(
            f"{what} {low if low < 0 else high} is out of range: there are {limit} nodes of that type"
        )


Edges = StoreEdges | ArrayEdges
