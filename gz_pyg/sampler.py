"""NeighborSampler: PyG's sampler interface over gz's engine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.base import DataType, NumNeighbors, SubgraphType
from torch_geometric.typing import EdgeTypeStr

from gz import _engine
from gz_pyg._bidirectional import to_bidirectional
from gz_pyg._links import Negatives, sample_links
from gz_pyg._random import draw_rng_seed
from gz_pyg._source import Column, EdgeKey, NodeKey, make_source
from gz_pyg._tensors import Mapped, as_numpy_ids
from gz_pyg._times import Times

_threads_set_in: int | None = None  # the worker process whose share of the threads has been set


def share_threads() -> None:
    """In a DataLoader worker, takes this worker's share of the threads; once per process."""
    global _threads_set_in
    info = torch.utils.data.get_worker_info()
    if info is None or _threads_set_in == os.getpid():
        return
    share = _engine.num_threads() // info.num_workers
    # torch has one thread in a worker unless the user asked for more (PyG: enable_multithreading).
    _engine.set_num_threads(max(1, share, torch.get_num_threads()))
    _threads_set_in = os.getpid()


class NeighborSampler(BaseSampler):
    """Samples multi-hop neighbourhoods. Fits ``neighbor_sampler=`` and ``node_sampler=`` of PyG's loaders.

    Takes what ``torch_geometric.sampler.NeighborSampler`` takes, and needs neither pyg-lib nor torch-sparse.
    What that one refuses and this one does: weights and times on any data and together, times in any order,
    induced subgraphs of disjoint and temporal samples, backward sampling by time.

    Args:
        data: ``Data``, ``HeteroData``, what ``gz_pyg.load`` returns, a path to a store, or any
            ``(FeatureStore, GraphStore)``.
        num_neighbors: neighbours per hop, -1 for all; or a dict of such lists by edge type.
        subgraph_type: ``"directional"``, ``"bidirectional"`` or ``"induced"``.
        replace: draw with replacement.
        disjoint: a tree of its own for each seed; implied by ``time_attr``.
        temporal_strategy: ``"uniform"`` or ``"last"``.
        time_attr: node-level or edge-level times: no neighbour is later than its seed.
        weight_attr: edge-level weights: neighbours are drawn in proportion.
        is_sorted: ``edge_index`` is sorted by column already. In-memory data only.
        share_memory: accepted for PyG's sake; workers share what there is to share in any case.
        sample_direction: ``"forward"`` follows edges into a node, ``"backward"`` edges out of it.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        subgraph_type: SubgraphType | str = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        share_memory: bool = False,
        directed: bool = True,
        sample_direction: Literal["forward", "backward"] = "forward",
    ):
        from gz_pyg.data import resolve

        if not directed:
            subgraph_type = SubgraphType.induced
            warnings.warn(
                f"The usage of the 'directed' argument in '{self.__class__.__name__}' is deprecated. Use "
                f"`subgraph_type='induced'` instead.",
                stacklevel=2,
            )
        if temporal_strategy not in ("uniform", "last"):
            raise ValueError(f"temporal_strategy is {temporal_strategy!r}; choose 'uniform' or 'last'")
        if sample_direction not in ("forward", "backward"):
            raise ValueError(f"sample_direction is {sample_direction!r}; choose 'forward' or 'backward'")
        data = resolve(data)
        self.data_type = DataType.from_data(data)
        self.sample_direction = sample_direction
        self._source = make_source(data, sample_direction == "backward", is_sorted, time_attr, weight_attr)
        self._types = list(self._source.num_nodes)
        self.num_neighbors = num_neighbors
        self.replace = replace
        self.subgraph_type = SubgraphType(subgraph_type)
        self.disjoint = disjoint
        self.temporal_strategy = temporal_strategy
        self.keep_orig_edges = False
        self._times = Times(self._source)
        self._negatives = Negatives(self._source.num_nodes, self._times)
        self._columns: dict[Any, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_columns": None}

    # ---- what PyG's samplers show ----

    @property
    def is_hetero(self) -> bool:
        return self._source.is_hetero

    @property
    def is_temporal(self) -> bool:
        return bool(self._source.node_time or self._source.edge_time)

    @property
    def disjoint(self) -> bool:
        return self._disjoint or self.is_temporal

    @disjoint.setter
    def disjoint(self, disjoint: bool) -> None:
        self._disjoint = disjoint

    @property
    def node_types(self) -> list[NodeKey]:
        return self._types

    @property
    def edge_types(self) -> list[EdgeKey]:
        return list(self._source.edges)

    @property
    def num_nodes(self) -> Any:
        return self._source.num_nodes if self.is_hetero else self._source.num_nodes[None]

    @property
    def node_time(self) -> Any:
        return self._shown(self._source.node_time)

    @property
    def edge_time(self) -> Any:
        return self._shown(self._source.edge_time)

    @property
    def edge_weight(self) -> Any:
        return self._shown(self._source.weight)

    def _shown(self, columns: Mapping[Any, Column]) -> Any:
        if not columns:
            return None
        tensors = {t: c.tensor if isinstance(c, Mapped) else c for t, c in columns.items()}
        return tensors if self.is_hetero else tensors[None]

    @property
    def edge_permutation(self) -> Any:
        """Original edge id by ``SamplerOutput.edge``; None where they are the same."""
        permutations = {t: e.permutation for t, e in self._source.edges.items()}
        return permutations if self.is_hetero else permutations[None]

    @property
    def num_neighbors(self) -> NumNeighbors:
        return self._num_neighbors

    @num_neighbors.setter
    def num_neighbors(self, num_neighbors: Any) -> None:
        if not isinstance(num_neighbors, NumNeighbors):
            num_neighbors = NumNeighbors(num_neighbors)
        self._fanouts = self._resolve_fanouts(num_neighbors)
        self._num_neighbors = num_neighbors

    def _resolve_fanouts(self, given: NumNeighbors) -> dict[EdgeKey, list[int]]:
        known = self.edge_types
        if isinstance(given.values, dict):
            if not self.is_hetero:
                raise ValueError("num_neighbors is a dict, but the graph has one edge type; give a list")
            names = {EdgeTypeStr(t): t for t in known}
            unknown = [str(k) for k in given.values if k not in names]
            if unknown:
                raise ValueError(
                    f"Not all edge types specified in 'num_neighbors' exist in the graph: {unknown} do not; "
                    f"there are {known}"
                )
            fanouts = {t: given.values.get(k, given.default) for k, t in names.items()}
            missing = [t for t, f in fanouts.items() if f is None]
            if missing:
                raise ValueError(
                    f"Missing number of neighbors for edge type '{missing[0]}' in 'num_neighbors'"
                )
        else:
            fanouts = dict.fromkeys(known, given.values)
        out = {t: _as_fanouts(f) for t, f in fanouts.items()}
        hops = {len(f) for f in out.values()}
        if len(hops) > 1:
            lengths = {t: len(f) for t, f in out.items()}
            raise ValueError(f"Number of hops must be the same across all edge types (got {lengths})")
        return out

    # ---- sampling ----

    def sample_from_nodes(
        self, inputs: NodeSamplerInput, **kwargs: Any
    ) -> SamplerOutput | HeteroSamplerOutput:
        inputs = NodeSamplerInput.cast(inputs)
        t = inputs.input_type
        out = self._sample(
            inputs.node if t is None else {t: inputs.node},
            inputs.time if t is None or inputs.time is None else {t: inputs.time},
        )
        out.metadata = (inputs.input_id, inputs.time)
        return self._finish(out)

    def sample_from_edges(
        self, inputs: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None
    ) -> SamplerOutput | HeteroSamplerOutput:
        inputs = EdgeSamplerInput.cast(inputs)
        neg_sampling = NegativeSampling.cast(neg_sampling)
        if inputs.time is not None and not self.is_temporal:
            raise ValueError("the edges have times, but the sampler was made without time_attr")
        out = sample_links(inputs, neg_sampling, self.disjoint, self._negatives, self._sample)
        return self._finish(out)

    def _finish(self, out: Any) -> Any:
        if self.subgraph_type == SubgraphType.bidirectional:
            return to_bidirectional(out, self.keep_orig_edges)
        return out

    def _sample(self, seed: Any, seed_time: Any = None, **_: Any) -> SamplerOutput | HeteroSamplerOutput:
        share_threads()
        if isinstance(seed, dict) != self.is_hetero:
            what = "has several node types: name one" if self.is_hetero else "has one node type: name none"
            raise ValueError(f"the graph {what} (input_type); there are {self._types}")
        seeds = seed if self.is_hetero else {None: seed}
        times = (seed_time if self.is_hetero else {None: seed_time}) if seed_time is not None else {}
        if self.is_temporal:
            times = {t: self._times.of_seeds(t, s, times.get(t)) for t, s in seeds.items()}
        elif times:
            raise ValueError("the seeds have times, but the sampler was made without time_attr")
        nodes, edges = _engine.sample(
            list(self._source.num_nodes.values()),
            self._edge_args(),
            [self._seed_args(t, s, times.get(t)) for t, s in seeds.items()],
            replace=self.replace,
            disjoint=self.disjoint,
            last=self.temporal_strategy == "last",
            rng_seed=draw_rng_seed(),
            edge_ids=False,
        )
        node = {t: torch.from_numpy(n[0]) for t, n in zip(self._types, nodes, strict=True)}
        batch = None
        if self.disjoint:
            batch = {t: torch.from_numpy(n[1]) for t, n in zip(self._types, nodes, strict=True)}
        if self.subgraph_type == SubgraphType.induced:
            near, far, rows = self._induced(node, batch, times)
            node_counts: Any = None
            edge_counts: Any = None
        else:
            order = self.edge_types
            far = {t: torch.from_numpy(e[0]) for t, e in zip(order, edges, strict=True)}
            near = {t: torch.from_numpy(e[1]) for t, e in zip(order, edges, strict=True)}
            rows = {t: torch.from_numpy(e[2]) for t, e in zip(order, edges, strict=True)}
            node_counts = {t: n[2] for t, n in zip(self._types, nodes, strict=True)}
            edge_counts = {t: e[4] for t, e in zip(order, edges, strict=True)}
        row, col = (near, far) if self.sample_direction == "backward" else (far, near)
        if self.is_hetero:
            return HeteroSamplerOutput(node, row, col, rows, batch, node_counts, edge_counts)
        return SamplerOutput(
            node[None],
            row[None],
            col[None],
            rows[None],
            None if batch is None else batch[None],
            None if node_counts is None else node_counts[None],
            None if edge_counts is None else edge_counts[None],
        )

    def _seed_args(self, t: NodeKey, seed: Tensor, time: Any) -> tuple[int, Any, Any]:
        if t not in self._source.num_nodes:
            raise ValueError(f"no node type {t!r}; there are {self._types}")
        return self._types.index(t), as_numpy_ids(torch.as_tensor(seed)), time

    def _edge_args(self) -> list[tuple[Any, ...]]:
        """What the engine wants to know of each edge type; the columns are looked up once per process."""
        source = self._source
        if self._columns is None:
            self._columns = {
                t: (
                    _weights(source.weight.get(t)),
                    self._times.of_edges(t),
                    self._times.of_nodes(self._neighbour_type(t)),
                )
                for t in source.edges
            }
        return [
            (
                edges.topology,
                self._types.index(self._frontier_type(t)),
                self._types.index(self._neighbour_type(t)),
                self._fanouts[t],
                None,
                *self._columns[t],
            )
            for t, edges in source.edges.items()
        ]

    def _frontier_type(self, t: EdgeKey) -> NodeKey:
        return None if t is None else t[0 if self.sample_direction == "backward" else 2]

    def _neighbour_type(self, t: EdgeKey) -> NodeKey:
        return None if t is None else t[2 if self.sample_direction == "backward" else 0]

    def _induced(self, node: Any, batch: Any, times: Mapping[NodeKey, Any]) -> tuple[Any, Any, Any]:
        near, far, rows = {}, {}, {}
        seed_time = torch.cat([torch.from_numpy(v) for v in times.values()]) if self.is_temporal else None
        for t, edges in self._source.edges.items():
            frontier, neighbour = self._frontier_type(t), self._neighbour_type(t)
            found = _engine.induced_edges(
                edges.topology,
                node[frontier].numpy(),
                node[neighbour].numpy(),
                None if batch is None else batch[frontier].numpy(),
                None if batch is None else batch[neighbour].numpy(),
            )
            other, own, row = (torch.from_numpy(a) for a in found)
            edge_time = None if self._columns is None else self._columns[t][1]
            if edge_time is not None and seed_time is not None:
                keep = torch.from_numpy(edge_time)[row] <= seed_time[batch[frontier][own]]
                other, own, row = other[keep], own[keep], row[keep]
            near[t], far[t], rows[t] = own, other, row
        return near, far, rows

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}()"


def _as_fanouts(values: Any) -> list[int]:
    if not isinstance(values, (list, tuple)) or not all(
        isinstance(v, int) or (isinstance(v, Tensor) and v.numel() == 1) or hasattr(v, "__index__")
        for v in values
    ):
        raise ValueError(
            f"num_neighbors is {values!r}; give a list of integers, one per hop, such as [15, 10]"
        )
    return [int(v) for v in values]


def _weights(column: Column | None) -> Any:
    if column is None:
        return None
    weights = (column.tensor if isinstance(column, Mapped) else column).reshape(-1)
    if weights.dtype not in (torch.float32, torch.float64):
        weights = weights.to(
            torch.float32 if weights.dtype in (torch.float16, torch.bfloat16) else torch.float64
        )
    return weights.contiguous().numpy()


__all__ = ["NeighborSampler"]
