"""Times as the engine compares them: of nodes, of edges, and of what a sample starts from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gz.adapter import Mapped
from gz_pyg._source.protocol import Column, EdgeKey, NodeKey, SampleGraph, rows_of, whole
from gz_pyg._tensors import ordered_int64


class Times:
    """The times of a graph, each as integers in the same order. Made when first asked for, then kept."""

    def __init__(self, source: SampleGraph):
        self._source = source
        columns: list[Any] = [*source.node_time.values(), *source.edge_time.values()]
        self._float = any(c.dtype.is_floating_point for c in columns)
        self._made: dict[Any, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Times, (self._source,)

    def of_nodes(self, t: NodeKey) -> Any:
        """By node of a type; None where it has no times."""
        return self._once(("node", t), self._source.node_time.get(t))

    def of_edges(self, t: EdgeKey) -> Any:
        """By row of the edge columns; None where the type has no times."""
        return self._once(("edge", t), self._source.edge_time.get(t))

    def _once(self, key: Any, column: Column | None) -> Any:
        if column is not None and key not in self._made:
            times = whole(column)
            self._made[key] = ordered_int64(times.to(torch.float64) if self._float else times).numpy()
        return self._made.get(key)

    def comparable(self, time: Tensor) -> Any:
        """Times that were given: a whole number between integers, and as a float among floats."""
        if self._float and not time.dtype.is_floating_point:
            time = time.to(torch.float64)
        elif time.dtype.is_floating_point and not self._float:
            time = torch.floor(time).to(torch.int64)
        return ordered_int64(time).to(torch.int64).numpy()

    def of_seeds(self, t: NodeKey, seed: Tensor, given: Tensor | None) -> Any:
        """What was given, or else the seeds' own times."""
        if given is not None:
            return self.comparable(given)
        column = self._source.node_time.get(t)
        if column is None:
            where = "" if t is None else f" of type '{t}'"
            raise ValueError(
                f"the seeds{where} have no time of their own; give one each (input_time, edge_label_time)"
            )
        index = torch.as_tensor(seed).to(torch.int64).view(-1)
        limit = self._source.num_nodes[t]
        if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < limit:
            bad = next(int(i) for i in index if not 0 <= int(i) < limit)
            raise IndexError(f"seed {bad} is out of range: there are {limit} nodes")
        return self.comparable(column.take(index) if isinstance(column, Mapped) else rows_of(column, index))
