"""NodeLoader: mini-batches around nodes, from any sampler; what NeighborLoader and HGTLoader are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.loader import NodeLoader as PyGNodeLoader
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, NodeSamplerInput, SamplerOutput

from gz_pyg._loader.batch import Joiner
from gz_pyg._loader.inputs import all_indices, without_lists
from gz_pyg._loader.inputs import input_nodes as read_input_nodes
from gz_pyg._loader.iterator import Prefetching, checked_look_ahead, checked_prefetch
from gz_pyg._loader.stats import Watched
from gz_pyg._sampler.base import share_threads
from gz_pyg._source.protocol import Source
from gz_pyg._source.resolve import as_source


class NodeLoader(Watched, Prefetching, PyGNodeLoader):
    """``torch_geometric.loader.NodeLoader`` on a store, or on any PyG data.

    Takes the same arguments, with the same defaults (``kwargs`` are those of ``torch.utils.data.DataLoader``:
    ``batch_size``, ``shuffle``, ``num_workers``, ...), and returns the same mini-batches. Besides:

    Args:
        data: also the path of a store, or what ``gz_pyg.load`` returns.
        input_nodes: as in ``NeighborLoader``.
        prefetch, look_ahead: as in ``NeighborLoader``.
    """

    _sampler_name = "node_sampler"

    def __init__(
        self,
        data: Any,
        node_sampler: BaseSampler,
        input_nodes: Any = None,
        input_time: Tensor | None = None,
        transform: Callable[..., Any] | None = None,
        transform_sampler_output: Callable[..., Any] | None = None,
        filter_per_worker: bool | None = None,
        custom_cls: Any = None,
        input_id: Tensor | None = None,
        prefetch: int | None = None,
        look_ahead: int | None = None,
        **kwargs: Any,
    ):
        self.prefetch = checked_prefetch(prefetch)
        self.look_ahead = checked_look_ahead(look_ahead, self.prefetch, kwargs.get("num_workers", 0))
        self._source = source = as_source(data)
        self.data = source.data
        self.node_sampler = node_sampler
        self.input_nodes = input_nodes
        self.input_time = input_time
        self.transform = transform
        self.transform_sampler_output = transform_sampler_output
        self.filter_per_worker = source.joins_anywhere if filter_per_worker is None else filter_per_worker
        self.custom_cls = custom_cls
        self.input_id = input_id
        kwargs.pop("dataset", None)  # PyTorch Lightning hands these back
        kwargs.pop("collate_fn", None)
        input_type, ids, input_id = read_input_nodes(source, input_nodes, input_id)
        if input_time is not None and len(input_time) != ids.numel():
            raise ValueError(f"there are {ids.numel()} input nodes, but {len(input_time)} in input_time")
        self.input_data = NodeSamplerInput(input_id, ids, input_time, input_type)
        self._join = Joiner(node_sampler, custom_cls)
        torch.utils.data.DataLoader.__init__(
            self, all_indices(ids.numel()), collate_fn=self.collate_fn, **without_lists(kwargs, ids.numel())
        )

    def _sample(self, index: Any) -> SamplerOutput | HeteroSamplerOutput:
        return self.node_sampler.sample_from_nodes(self.input_data[index])

    def _joined(self, out: SamplerOutput | HeteroSamplerOutput, source: Source | None = None) -> Any:
        share_threads()
        data = self._join(out, source or self._source)
        input_id, time = out.metadata[0], out.metadata[1]
        part = data if isinstance(out, SamplerOutput) else data[self.input_data.input_type]
        part.input_id = input_id
        part.seed_time = time
        part.batch_size = input_id.size(0)
        return data
