"""NeighborLoader and LinkNeighborLoader: PyG's loaders, sampled and gathered by gz."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.loader.utils import infer_filter_per_worker
from torch_geometric.sampler import (
    BaseSampler,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.base import SubgraphType

from gz_pyg._batch import Joiner
from gz_pyg._inputs import all_indices, input_edges, input_nodes, without_lists
from gz_pyg._iterator import Prefetching, checked_prefetch
from gz_pyg.data import resolve
from gz_pyg.sampler import NeighborSampler, share_threads


class NeighborLoader(Prefetching, NodeLoader):
    """``torch_geometric.loader.NeighborLoader`` on a store, or on any PyG data without pyg-lib.

    Takes the same arguments, with the same defaults, and returns the same mini-batches. Besides:

    Args:
        data: also the path of a store, or what ``gz_pyg.load`` returns.
        input_nodes: ids as a tensor, an array or a list, a mask, or None for all; of a graph with several
            node types a type, or ``(type, any of these)``. On any data.
        time_attr, weight_attr: on any data; edges need not be sorted.
        subgraph_type: ``"induced"`` on any data, disjoint and temporal ones included.
        prefetch: without workers, the number of batches made ahead in background threads while the model
            trains; 0 for none. None means 2, or 0 where a sampler or a subclass of yours makes the batches.
            The batches are the same whatever it is. See docs/pyg.md.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: SubgraphType | str = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[..., Any] | None = None,
        transform_sampler_output: Callable[..., Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: BaseSampler | None = None,
        directed: bool = True,
        prefetch: int | None = None,
        **kwargs: Any,
    ):
        if input_time is not None and time_attr is None:
            raise ValueError(
                "Received conflicting 'input_time' and 'time_attr' arguments: 'input_time' is set while "
                "'time_attr' is not set."
            )
        self.prefetch = checked_prefetch(prefetch)
        data = resolve(data)
        if neighbor_sampler is None:
            neighbor_sampler = NeighborSampler(
                data,
                num_neighbors=num_neighbors,
                replace=replace,
                subgraph_type=subgraph_type,
                disjoint=disjoint,
                temporal_strategy=temporal_strategy,
                time_attr=time_attr,
                weight_attr=weight_attr,
                is_sorted=is_sorted,
                directed=directed,
            )
        self._start(
            data,
            neighbor_sampler,
            input_nodes,
            input_time,
            transform,
            transform_sampler_output,
            filter_per_worker,
            kwargs,
        )

    def _start(
        self,
        data: Any,
        sampler: BaseSampler,
        nodes: Any,
        input_time: Tensor | None,
        transform: Any,
        transform_sampler_output: Any,
        filter_per_worker: bool | None,
        kwargs: dict[str, Any],
    ) -> None:
        self.data = data
        self.node_sampler = sampler
        self.input_nodes = nodes
        self.input_time = input_time
        self.transform = transform
        self.transform_sampler_output = transform_sampler_output
        self.filter_per_worker = (
            infer_filter_per_worker(data) if filter_per_worker is None else filter_per_worker
        )
        self.custom_cls = kwargs.pop("custom_cls", None)
        self.input_id = kwargs.pop("input_id", None)
        kwargs.pop("dataset", None)  # PyTorch Lightning hands these back
        kwargs.pop("collate_fn", None)
        input_type, ids, input_id = input_nodes(data, nodes, self.input_id)
        if input_time is not None and len(input_time) != ids.numel():
            raise ValueError(f"there are {ids.numel()} input nodes, but {len(input_time)} in input_time")
        self.input_data = NodeSamplerInput(input_id, ids, input_time, input_type)
        self._join = Joiner(data, sampler, self.custom_cls)
        torch.utils.data.DataLoader.__init__(
            self, all_indices(ids.numel()), collate_fn=self.collate_fn, **without_lists(kwargs, ids.numel())
        )

    def filter_fn(self, out: SamplerOutput | HeteroSamplerOutput) -> Any:
        """Joins a sample with its features."""
        if self.transform_sampler_output:
            out = self.transform_sampler_output(out)
        data = self._joined(out)
        return data if self.transform is None else self.transform(data)

    def _neighbor_sampler(self) -> BaseSampler:
        return self.node_sampler

    def _is_customised(self) -> bool:
        """Whether a subclass, or a function set afterwards, makes the batches in its own way."""
        collate = getattr(self.collate_fn, "__func__", None)
        return collate is not NodeLoader.collate_fn or type(self).filter_fn is not NeighborLoader.filter_fn

    def _sample(self, index: Any) -> SamplerOutput | HeteroSamplerOutput:
        return self.node_sampler.sample_from_nodes(self.input_data[index])

    def _joined(self, out: SamplerOutput | HeteroSamplerOutput, join: Joiner | None = None) -> Any:
        share_threads()
        data = (join or self._join)(out)
        input_id, time = out.metadata[0], out.metadata[1]
        part = data if isinstance(out, SamplerOutput) else data[self.input_data.input_type]
        part.input_id = input_id
        part.seed_time = time
        part.batch_size = input_id.size(0)
        return data


class LinkNeighborLoader(Prefetching, LinkLoader):
    """``torch_geometric.loader.LinkNeighborLoader`` on a store, or on any PyG data without pyg-lib.

    Takes the same arguments, with the same defaults, and returns the same mini-batches. Besides:

    Args:
        data: also the path of a store, or what ``gz_pyg.load`` returns.
        edge_label_index: ``[2, E]``, an edge type, or ``(edge type, [2, E] or None)``, on any data. An edge
            type alone, or None, means all its edges; those of a store are looked up batch by batch.
        prefetch: as in ``NeighborLoader``.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        edge_label_index: Any = None,
        edge_label: Tensor | None = None,
        edge_label_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: SubgraphType | str = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        neg_sampling: NegativeSampling | None = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[..., Any] | None = None,
        transform_sampler_output: Callable[..., Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: BaseSampler | None = None,
        directed: bool = True,
        prefetch: int | None = None,
        **kwargs: Any,
    ):
        if (edge_label_time is not None) != (time_attr is not None):
            raise ValueError(
                f"Received conflicting 'edge_label_time' and 'time_attr' arguments: 'edge_label_time' is "
                f"{'set' if edge_label_time is not None else 'not set'} while 'time_attr' is "
                f"{'set' if time_attr is not None else 'not set'}. "
                f"Both arguments must be provided for temporal sampling."
            )
        self.prefetch = checked_prefetch(prefetch)
        data = resolve(data)
        if neighbor_sampler is None:
            neighbor_sampler = NeighborSampler(
                data,
                num_neighbors=num_neighbors,
                replace=replace,
                subgraph_type=subgraph_type,
                disjoint=disjoint,
                temporal_strategy=temporal_strategy,
                time_attr=time_attr,
                weight_attr=weight_attr,
                is_sorted=is_sorted,
                directed=directed,
            )
        if neg_sampling_ratio is not None and neg_sampling_ratio != 0.0:
            neg_sampling = NegativeSampling("binary", neg_sampling_ratio)
        self.edge_label_index = edge_label_index
        self.data = data
        self.link_sampler = neighbor_sampler
        self.neg_sampling = NegativeSampling.cast(neg_sampling)
        self.transform = transform
        self.transform_sampler_output = transform_sampler_output
        self.filter_per_worker = (
            infer_filter_per_worker(data) if filter_per_worker is None else filter_per_worker
        )
        self.custom_cls = kwargs.pop("custom_cls", None)
        kwargs.pop("dataset", None)  # PyTorch Lightning hands these back
        kwargs.pop("collate_fn", None)
        edge_label = self._checked_label(edge_label)
        self.input_data, count = input_edges(
            data, edge_label_index, kwargs.pop("input_id", None), edge_label, edge_label_time
        )
        self._join = Joiner(data, neighbor_sampler, self.custom_cls)
        torch.utils.data.DataLoader.__init__(
            self, all_indices(count), collate_fn=self.collate_fn, **without_lists(kwargs, count)
        )

    def _checked_label(self, edge_label: Tensor | None) -> Tensor | None:
        if self.neg_sampling is None or edge_label is None:
            return edge_label
        if self.neg_sampling.is_triplet():
            raise ValueError(
                "'edge_label' needs to be undefined for 'triplet'-based negative sampling. Please use "
                "`src_index`, `dst_pos_index` and `neg_pos_index` of the returned mini-batch instead to "
                "differentiate between positive and negative samples."
            )
        # 0 is to mean "negative" from here on.
        return edge_label + 1 if edge_label.numel() and edge_label.min() == 0 else edge_label

    def filter_fn(self, out: SamplerOutput | HeteroSamplerOutput) -> Any:
        """Joins a sample with its features."""
        if self.transform_sampler_output:
            out = self.transform_sampler_output(out)
        data = self._joined(out)
        return data if self.transform is None else self.transform(data)

    def _neighbor_sampler(self) -> BaseSampler:
        return self.link_sampler

    def _is_customised(self) -> bool:
        """Whether a subclass, or a function set afterwards, makes the batches in its own way."""
        collate = getattr(self.collate_fn, "__func__", None)
        return (
            collate is not LinkLoader.collate_fn or type(self).filter_fn is not LinkNeighborLoader.filter_fn
        )

    def _sample(self, index: Any) -> SamplerOutput | HeteroSamplerOutput:
        return self.link_sampler.sample_from_edges(self.input_data[index], neg_sampling=self.neg_sampling)

    def _joined(self, out: SamplerOutput | HeteroSamplerOutput, join: Joiner | None = None) -> Any:
        share_threads()
        data = (join or self._join)(out)
        homogeneous = isinstance(out, SamplerOutput)
        t = self.input_data.input_type
        edge_part = data if homogeneous else data[t]
        edge_part.input_id = out.metadata[0]
        if self.neg_sampling is None or self.neg_sampling.is_binary():
            edge_part.edge_label_index = out.metadata[1]
            edge_part.edge_label = out.metadata[2]
            edge_part.edge_label_time = out.metadata[3]
        else:
            src_part, dst_part = (data, data) if homogeneous else (data[t[0]], data[t[-1]])
            src_part.src_index = out.metadata[1]
            dst_part.dst_pos_index = out.metadata[2]
            dst_part.dst_neg_index = out.metadata[3]
            src_part.seed_time = out.metadata[4]
            dst_part.seed_time = out.metadata[4]
            # They may have come along from the data; here they would be mistaken for the batch's own.
            for name in ("edge_label_index", "edge_label_time"):
                if (homogeneous or t in data.edge_types) and name in edge_part:
                    delattr(edge_part, name)
        return data
