"""Edge types as the engine samples them: over a store's files, or over the arrays of a PyG object."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

import gz
from gz import adapter
from gz_pyg._tensors import take

_WHOLLY_CHECKED = 1 << 24  # up to so many edges every id is looked at, beyond it a sample of them
_SAMPLE = 1 << 16
_numbered: WeakKeyDictionary[gz.Graph, bool] = WeakKeyDictionary()


def by_id(graph: gz.Graph) -> bool:
    """Whether the edges of a type are numbered by their ids, else by their positions.

    ``graph``: the topology whose order its columns have.

    They are where the ids name each edge once: not after an ingest that dropped, merged or added edges.
    """
    if graph not in _numbered:
        ids, positions = graph.edge_ids, graph.edge_positions
        found = ids is not None and positions is not None and len(positions) == len(ids) > 0
        if found:
            assert ids is not None
            assert positions is not None
            step = 1 if len(ids) <= _WHOLLY_CHECKED else len(ids) // _SAMPLE
            some = np.arange(0, len(ids), step)
            where = positions[::step]
            found = int(where.max()) < len(ids) and bool((ids[where] == some).all())
        _numbered[graph] = found
    return _numbered[graph]


def edge_rows(graph: gz.Graph, edges: Tensor) -> Tensor:
    """Rows of the edge columns, which are positions in the topology, of edges by number."""
    index = adapter.host_ids(edges)
    if len(index) and not 0 <= index.min() <= index.max() < graph.num_edges:
        bad = next(int(i) for i in index if not 0 <= i < graph.num_edges)
        raise IndexError(f"edge {bad} is out of range: there are {graph.num_edges} edges")
    if by_id(graph):
        positions = graph.edge_positions
        assert positions is not None
        index = adapter.lookup(positions, index, graph.num_edges, graph.path)
    return torch.from_numpy(index)


def edge_ends(graph: gz.Graph, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Sources and destinations of edges by number, reading only those."""
    rows = edge_rows(graph, edges).numpy()
    others = torch.from_numpy(adapter.lookup(graph.indices, rows, num_other(graph), graph.path))
    if len(rows) * 8 > graph.num_nodes:  # most of them: walking all lists is cheaper than searching
        all_owners = np.repeat(np.arange(graph.num_nodes, dtype=np.int64), np.diff(graph.indptr))
        found = all_owners[rows]
    else:
        found = np.searchsorted(graph.indptr, rows, side="right") - 1
    owners = torch.from_numpy(found.astype(np.int64, copy=False))
    return (owners, others) if graph.direction == "out" else (others, owners)


def num_other(graph: gz.Graph) -> int:
    """Nodes at the end that lists hold."""
    return graph.num_dst if graph.direction == "out" else graph.num_src


def edge_numbers(rows: Tensor, permutation: Any) -> Tensor:
    """Which edges of ``edge_index`` a sampler's are: what ``permutation`` says, or else they themselves."""
    if permutation is None:
        return rows.to(torch.int64)
    return take(permutation, rows) if isinstance(permutation, Tensor) else permutation[rows]


class StoreEdges:
    """One edge type of a store. Pickles by path.

    Args:
        graph: what is sampled.
        ordering: the topology whose order the edge columns have.
    """

    def __init__(self, graph: gz.Graph, ordering: gz.Graph):
        self.graph, self._ordering = graph, ordering

    @property
    def topology(self) -> Any:
        return adapter.topology(self.graph)

    @property
    def permutation(self) -> EdgeIds | None:
        return EdgeIds(self._ordering) if by_id(self._ordering) else None


class EdgeIds:
    """Edges' numbers by row of the edge columns: indexes like the tensor PyG calls an edge permutation."""

    def __init__(self, graph: gz.Graph):
        self._graph = graph

    def __reduce__(self) -> tuple[Any, ...]:
        return EdgeIds, (self._graph,)

    def _ids(self) -> np.ndarray[Any, Any]:
        ids = self._graph.edge_ids
        assert ids is not None
        return ids

    def __getitem__(self, rows: Tensor) -> Tensor:
        limit = adapter.topology(self._graph).num_edge_ids
        return torch.from_numpy(adapter.lookup(self._ids(), rows, limit, self._graph.path))

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
        self._grouped: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_grouped": None}

    @property
    def topology(self) -> Any:
        if self._grouped is None:
            self._grouped = adapter.Topology.from_arrays(
                self.pointer.numpy(), self.neighbours.numpy(), self.num_other, out=self.out
            )
        return self._grouped

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
