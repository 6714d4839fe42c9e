"""NeighborSampler: PyG's sampler interface over gz's engine."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.sampler import (
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.base import DataType, NumNeighbors, SubgraphType
from torch_geometric.typing import EdgeTypeStr

from gz import adapter
from gz_pyg._random import draw_rng_seed
from gz_pyg._sampler.base import EngineSampler, share_threads
from gz_pyg._sampler.bidirectional import to_bidirectional
from gz_pyg._sampler.labor import checked_labor
from gz_pyg._sampler.links import Negatives, sample_links
from gz_pyg._sampler.times import Times
from gz_pyg._source.protocol import Column, EdgeKey, NodeKey, SampleGraph, Wanted, whole
from gz_pyg._source.resolve import as_source


class NeighborSampler(EngineSampler):
    """Samples multi-hop neighbourhoods. Fits ``neighbor_sampler=`` and ``node_sampler=`` of PyG's loaders.

    Takes what ``torch_geometric.sampler.NeighborSampler`` takes, and needs neither pyg-lib nor torch-sparse.
    What that one refuses and this one does: weights and times on any data and together, times in any order,
    induced subgraphs of disjoint and temporal samples, backward sampling by time.

    Edges, times or weights written over those of a store count from the next sample on; in a loader, from
    the next epoch on.

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
        directed: False is PyG's old name of ``subgraph_type="induced"``.
        sample_direction: ``"forward"`` follows edges into a node, ``"backward"`` edges out of it.
        labor: draw by LABOR: all nodes of a hop share one random number per neighbour, so that a batch has
            fewer nodes. ``num_neighbors`` is then how many are drawn on average. See docs/pyg.md.
        layer_dependency: a neighbour has the same number in all hops. Implies ``labor``.
        batch_dependency: the numbers change little by little over so many batches. Implies ``labor`` if > 1.
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
        labor: bool | None = None,
        layer_dependency: bool = False,
        batch_dependency: int = 1,
    ):
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
        self._labor = checked_labor(
            labor,
            layer_dependency,
            batch_dependency,
            replace=replace,
            disjoint=disjoint,
            time_attr=time_attr is not None,
        )
        super().__init__(
            as_source(data), Wanted(sample_direction == "backward", is_sorted, time_attr, weight_attr)
        )
        self.data_type = DataType.from_data(self._data_source.data)
        self.sample_direction = sample_direction
        self.replace = replace
        self.subgraph_type = SubgraphType(subgraph_type)
        self.temporal_strategy = temporal_strategy
        self.keep_orig_edges = False
        self._disjoint = disjoint
        self._num_neighbors = _as_num_neighbors(num_neighbors)
        self._build()

    def _build(self) -> None:
        super()._build()
        self._times = Times(self._source)
        self._negatives = Negatives(self._source.num_nodes, self._times)
        self._fanouts = self._resolve_fanouts(self._num_neighbors)

    # ---- what PyG's samplers show ----

    @property
    def is_temporal(self) -> bool:
        """Whether samples go by time."""
        return bool(self._source.node_time or self._source.edge_time)

    @property
    def disjoint(self) -> bool:
        """Whether each seed has a sample of its own; those by time do."""
        return self._disjoint or self.is_temporal

    @disjoint.setter
    def disjoint(self, disjoint: bool) -> None:
        if disjoint and self._labor is not None:
            raise ValueError("a sampler by LABOR cannot be disjoint: its seeds share their neighbours")
        self._disjoint = disjoint

    @property
    def node_time(self) -> Any:
        """The times of nodes, as given by ``time_attr``."""
        return self._shown(self._source.node_time)

    @property
    def edge_time(self) -> Any:
        """The times of edges, as given by ``time_attr``."""
        return self._shown(self._source.edge_time)

    @property
    def edge_weight(self) -> Any:
        """The weights of edges, as given by ``weight_attr``."""
        return self._shown(self._source.weight)

    def _shown(self, columns: Mapping[Any, Column]) -> Any:
        if not columns:
            return None
        tensors = {t: whole(c) for t, c in columns.items()}
        return tensors if self.is_hetero else tensors[None]

    @property
    def num_neighbors(self) -> NumNeighbors:
        """Neighbours to draw of each node in each hop; can be set between two epochs."""
        return self._num_neighbors

    @num_neighbors.setter
    def num_neighbors(self, num_neighbors: Any) -> None:
        num_neighbors = _as_num_neighbors(num_neighbors)
        self._fanouts = self._resolve_fanouts(num_neighbors)
        self._num_neighbors = num_neighbors
        self._edge_types = None

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
        """As PyG's: the sample of the nodes in ``inputs``."""
        self._look()
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
        """As PyG's: the sample of the ends of the edges in ``inputs``, and of negatives."""
        self._look()
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
        found, importance = self._draw([self._engine_seeds(t, s, times.get(t)) for t, s in seeds.items()])
        nodes = dict(zip(self._types, found.nodes, strict=True))
        node = {t: torch.from_numpy(n.ids) for t, n in nodes.items()}
        batch = {t: torch.from_numpy(n.batch) for t, n in nodes.items()} if self.disjoint else None
        node_counts: Any = None
        edge_counts: Any = None
        if self.subgraph_type == SubgraphType.induced:
            row, col, edge = self._induced(node, batch, times)
        else:
            row, col, edge, edge_counts = self._sampled_edges(found.edges)
            node_counts = {t: n.per_hop for t, n in nodes.items()}
        if self.is_hetero:
            out = HeteroSamplerOutput(node, row, col, edge, batch, node_counts, edge_counts)
            return self._weighed(out, importance)
        out = SamplerOutput(
            node[None],
            row[None],
            col[None],
            edge[None],
            None if batch is None else batch[None],
            None if node_counts is None else node_counts[None],
            None if edge_counts is None else edge_counts[None],
        )
        return self._weighed(out, importance)

    def _draw(self, seeds: list[adapter.SampleSeeds]) -> tuple[adapter.Sample, Any]:
        """A sample, and by LABOR the importance of its edges by edge type."""
        sizes, types = list(self._source.num_nodes.values()), self._engine_types()
        if self._labor is not None:
            found = adapter.labor_sample(sizes, types, seeds, edge_ids=False, **self._labor.draw())
            return found.sample, found.importance
        sample = adapter.sample(
            sizes,
            types,
            seeds,
            replace=self.replace,
            disjoint=self.disjoint,
            last=self.temporal_strategy == "last",
            rng_seed=draw_rng_seed(),
            edge_ids=False,
        )
        return sample, None

    def _weighed(self, out: Any, importance: Any) -> Any:
        """A sample with the importance of its edges, where LABOR went by weights and they are as drawn."""
        if importance is not None and self.subgraph_type == SubgraphType.directional:
            found = dict(zip(self.edge_types, map(torch.from_numpy, importance), strict=True))
            found = {t: i for t, i in found.items() if t in self._source.weight}
            if found:
                out.edge_importance = found if self.is_hetero else found[None]
        return out

    def _engine_types(self) -> list[adapter.SampleEdgeType]:
        """What the engine wants to know of each edge type; made once per process."""
        if self._edge_types is None:
            backward = self.sample_direction == "backward"
            self._edge_types = self._types_of(self._source, self._times, backward)
        return self._edge_types

    def _types_of(self, graph: SampleGraph, times: Times, backward: bool) -> list[adapter.SampleEdgeType]:
        found = []
        for t, edges in graph.edges.items():
            frontier, neighbour = _ends(t, backward)
            found.append(
                adapter.SampleEdgeType(
                    edges.topology,
                    self._types.index(frontier),
                    self._types.index(neighbour),
                    self._fanouts[t],
                    weights=_weights(graph.weight.get(t)),
                    edge_time=times.of_edges(t),
                    node_time=times.of_nodes(neighbour),
                )
            )
        return found

    def _sampled_edges(self, found: list[adapter.SampledEdges]) -> tuple[Any, ...]:
        """(row, col, edge, how many per hop) by edge type."""
        edges = dict(zip(self.edge_types, found, strict=True))
        far = {t: torch.from_numpy(e.neighbour) for t, e in edges.items()}
        near = {t: torch.from_numpy(e.frontier) for t, e in edges.items()}
        row, col = (near, far) if self.sample_direction == "backward" else (far, near)
        edge = {t: torch.from_numpy(e.rows) for t, e in edges.items()}
        return row, col, edge, {t: e.per_hop for t, e in edges.items()}

    def _named(self, t: EdgeKey, rows: Tensor) -> Tensor:
        """Rows of the edge columns as ``edge`` of a result has them."""
        return rows

    def _induced(self, node: Any, batch: Any, times: Mapping[NodeKey, Any]) -> tuple[Any, Any, Any]:
        near, far, named = {}, {}, {}
        seed_time = torch.cat([torch.from_numpy(v) for v in times.values()]) if self.is_temporal else None
        backward = self.sample_direction == "backward"
        for t, edges in self._source.edges.items():
            frontier, neighbour = _ends(t, backward)
            found = adapter.induced_edges(
                edges.topology,
                node[frontier].numpy(),
                node[neighbour].numpy(),
                None if batch is None else batch[frontier].numpy(),
                None if batch is None else batch[neighbour].numpy(),
            )
            other, own, rows = (torch.from_numpy(a) for a in (found.neighbour, found.frontier, found.rows))
            edge_time = self._times.of_edges(t)
            if edge_time is not None and seed_time is not None:
                own_time = adapter.take_rows(torch.from_numpy(edge_time), rows)
                keep = own_time <= seed_time[batch[frontier][own]]
                other, own, rows = other[keep], own[keep], rows[keep]
            near[t], far[t], named[t] = own, other, self._named(t, rows)
        return (near, far, named) if backward else (far, near, named)


def _ends(t: EdgeKey, backward: bool) -> tuple[NodeKey, NodeKey]:
    """The types of the nodes that edges are followed from, and to."""
    if t is None:
        return None, None
    return (t[0], t[2]) if backward else (t[2], t[0])


def _as_num_neighbors(given: Any) -> NumNeighbors:
    return given if isinstance(given, NumNeighbors) else NumNeighbors(given)


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
    weights = whole(column).reshape(-1)
    if weights.dtype not in (torch.float32, torch.float64):
        weights = weights.to(
            torch.float32 if weights.dtype in (torch.float16, torch.bfloat16) else torch.float64
        )
    return weights.contiguous().numpy()


__all__ = ["NeighborSampler"]
