"""HGTSampler: nodes of every type by budget, drawn in the engine (csrc/sample/hgt)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch_geometric.sampler import (
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
)

from gz import adapter
from gz_pyg._random import draw_rng_seed
from gz_pyg._sampler.base import EngineSampler, share_threads
from gz_pyg._source.protocol import Wanted
from gz_pyg._source.resolve import as_source


class HGTSampler(EngineSampler):
    """``torch_geometric.sampler.HGTSampler`` on a store, or on any ``HeteroData`` without torch-sparse.

    Args:
        data: a ``HeteroData``, what ``gz_pyg.load`` returns, a path to a store, or any
            ``(FeatureStore, GraphStore)`` with several types.
        num_samples: nodes of each type to draw in each hop: a list for all types, or a dict of lists that
            names every node type.
        is_sorted: ``edge_index`` is sorted by column already. In-memory data only.
        share_memory: accepted for PyG's sake; workers share what there is to share in any case.
    """

    def __init__(
        self,
        data: Any,
        num_samples: list[int] | dict[str, list[int]],
        is_sorted: bool = False,
        share_memory: bool = False,
    ):
        super().__init__(as_source(data), Wanted(is_sorted=is_sorted))
        if not self._data_source.is_hetero:
            raise NotImplementedError(
                f"{self.__class__.__name__} draws by node type, and this graph has only one; use "
                f"NeighborLoader or NeighborSampler"
            )
        self._num_samples = num_samples
        self._build()

    def _build(self) -> None:
        super()._build()
        self._per_type = _by_type(self._num_samples, self._types)

    @property
    def num_samples(self) -> dict[Any, list[int]]:
        """Nodes to draw in each hop, by node type."""
        return dict(zip(self._types, self._per_type, strict=True))

    @num_samples.setter
    def num_samples(self, num_samples: Any) -> None:
        self._per_type = _by_type(num_samples, self._types)
        self._num_samples = num_samples

    @property
    def num_hops(self) -> int:
        """Hops of a sample."""
        return len(self._per_type[0]) if self._per_type else 0

    def sample_from_nodes(self, inputs: NodeSamplerInput, **kwargs: Any) -> HeteroSamplerOutput:
        """As PyG's: the sample of the nodes in ``inputs``."""
        self._look()
        share_threads()
        inputs = NodeSamplerInput.cast(inputs)
        if inputs.time is not None:
            raise ValueError("HGT sampling knows no times; NeighborSampler with time_attr does")
        found = adapter.hgt_sample(
            list(self._source.num_nodes.values()),
            self._engine_types(),
            [self._engine_seeds(inputs.input_type, inputs.node)],
            self._per_type,
            rng_seed=draw_rng_seed(),
        )
        edges = dict(zip(self.edge_types, found.edges, strict=True))
        return HeteroSamplerOutput(
            {t: torch.from_numpy(ids) for t, ids in zip(self._types, found.nodes, strict=True)},
            {t: torch.from_numpy(e.neighbour) for t, e in edges.items()},
            {t: torch.from_numpy(e.frontier) for t, e in edges.items()},
            {t: torch.from_numpy(e.rows) for t, e in edges.items()},
            metadata=(inputs.input_id, inputs.time),
        )

    def sample_from_edges(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None
    ) -> HeteroSamplerOutput:
        """As PyG's: refused."""
        raise NotImplementedError("HGT sampling starts from nodes; LinkNeighborLoader starts from edges")

    def _engine_types(self) -> list[adapter.SampleEdgeType]:
        """What the engine wants to know of each edge type; made once per process."""
        if self._edge_types is None:
            self._edge_types = [
                adapter.SampleEdgeType(edges.topology, self._types.index(t[2]), self._types.index(t[0]), [])
                for t, edges in self._source.edges.items()
                if t is not None
            ]
        return self._edge_types


def _by_type(given: Any, types: list[Any]) -> list[list[int]]:
    """Numbers per hop, in the order of ``types``."""
    if isinstance(given, Mapping):
        for t in given:
            if t not in types:
                raise ValueError(f"num_samples names node type {t!r}; there are {types}")
        missing = [t for t in types if t not in given]
        if missing:
            raise ValueError(
                f"num_samples does not name node type {missing[0]!r}; give 0s to draw none of it"
            )
        lists = [_numbers(given[t]) for t in types]
    else:
        lists = [_numbers(given)] * len(types)
    if len({len(v) for v in lists}) > 1:
        lengths = {t: len(v) for t, v in zip(types, lists, strict=True)}
        raise ValueError(f"num_samples must have as many hops for every node type, not {lengths}")
    return lists


def _numbers(values: Any) -> list[int]:
    whole = isinstance(values, (list, tuple)) and all(
        hasattr(v, "__index__") and not isinstance(v, bool) and int(v) >= 0 for v in values
    )
    if not whole:
        raise ValueError(
            f"num_samples is {values!r}; give numbers of nodes, one per hop, such as [512, 512], or a dict "
            f"of such lists by node type"
        )
    return [int(v) for v in values]
