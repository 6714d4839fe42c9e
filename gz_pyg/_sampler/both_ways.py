"""BidirectionalNeighborSampler: along edges into a node and out of it, in the same hop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gz import adapter
from gz_pyg._edges import edge_numbers
from gz_pyg._sampler.times import Times
from gz_pyg._source.protocol import EdgeKey, SampleGraph
from gz_pyg.sampler import NeighborSampler


class BidirectionalNeighborSampler(NeighborSampler):
    """``torch_geometric.sampler.BidirectionalNeighborSampler`` on the engine.

    Every hop draws ``num_neighbors`` edges into each new node and as many out of it. An edge that both find
    is there once. ``edge`` of the result are the numbers of the edges in ``edge_index``, for both
    directions; PyG's class numbers them by two different orders. It also does what that one refuses:
    several types, times, negatives, fanouts by edge type.

    Args:
        data: as in ``NeighborSampler``, and so is all that follows but ``sample_direction``, to
            ``directed``. A store needs ``directions="both"``.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        subgraph_type: Any = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        share_memory: bool = False,
        directed: bool = True,
    ):
        super().__init__(
            data,
            num_neighbors,
            subgraph_type,
            replace,
            disjoint,
            temporal_strategy,
            time_attr,
            weight_attr,
            is_sorted,
            share_memory,
            directed,
        )

    def _build(self) -> None:
        super()._build()
        self._back: SampleGraph = self._data_source.sample_graph(replace(self._wanted, backward=True))
        self._back_times = Times(self._back)

    # `edge` of a result is what a permutation would make of it.

    @property
    def edge_permutation(self) -> Any:
        """None: edges have their own numbers here."""
        return dict.fromkeys(self._source.edges) if self.is_hetero else None

    @property
    def stored_edge_types(self) -> list[EdgeKey]:
        """None of them: ``SamplerOutput.edge`` are numbers, and no rows."""
        return []

    def _named(self, t: EdgeKey, rows: Tensor) -> Tensor:
        return edge_numbers(rows, self._source.edges[t].permutation)

    def _engine_types(self) -> list[adapter.SampleEdgeType]:
        if self._edge_types is None:
            self._edge_types = [
                *self._types_of(self._source, self._times, False),
                *self._types_of(self._back, self._back_times, True),
            ]
        return self._edge_types

    def _sampled_edges(self, found: list[adapter.SampledEdges]) -> tuple[Any, ...]:
        rows, cols, edges, counts = {}, {}, {}, {}
        into, out_of = found[: len(found) // 2], found[len(found) // 2 :]
        for t, forward, backward in zip(self.edge_types, into, out_of, strict=True):
            number = [
                edge_numbers(torch.from_numpy(e.rows), graph.edges[t].permutation).numpy()
                for e, graph in ((forward, self._source), (backward, self._back))
            ]
            row = np.concatenate([forward.neighbour, backward.frontier])
            col = np.concatenate([forward.frontier, backward.neighbour])
            hop = np.concatenate([_hops(forward), _hops(backward)])
            met = np.argsort(hop, kind="stable")  # hop by hop, into the nodes first
            row, col, edge, hop = (a[met] for a in (row, col, np.concatenate(number), hop))
            kept = _first_of_each(row, col, edge)
            rows[t], cols[t], edges[t] = (torch.from_numpy(a[kept]) for a in (row, col, edge))
            counts[t] = np.bincount(hop[kept], minlength=len(forward.per_hop)).tolist()
        return rows, cols, edges, counts


def _hops(edges: adapter.SampledEdges) -> np.ndarray[Any, Any]:
    return np.repeat(np.arange(len(edges.per_hop)), edges.per_hop)


def _first_of_each(*keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Places, in order, where a combination of keys occurs for the first time."""
    order = np.lexsort(keys)
    new = np.ones(len(order), dtype=bool)
    if len(order) > 1:
        new[1:] = np.any([k[order][1:] != k[order][:-1] for k in keys], axis=0)
    return np.sort(order[new])
