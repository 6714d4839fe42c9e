"""LinkLoader: mini-batches around edges, from any sampler; what LinkNeighborLoader is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.loader import LinkLoader as PyGLinkLoader
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, NegativeSampling, SamplerOutput

from gz_pyg._loader.batch import Joiner
from gz_pyg._loader.inputs import all_indices, input_edges, without_lists
from gz_pyg._loader.iterator import Prefetching, checked_look_ahead, checked_prefetch
from gz_pyg._loader.stats import Watched
from gz_pyg._sampler.base import share_threads
from gz_pyg._source.protocol import Source
from gz_pyg._source.resolve import as_source


class LinkLoader(Watched, Prefetching, PyGLinkLoader):
    """``torch_geometric.loader.LinkLoader`` on a store, or on any PyG data.

    Takes the same arguments, with the same defaults (``kwargs`` are those of ``torch.utils.data.DataLoader``:
    ``batch_size``, ``shuffle``, ``num_workers``, ...), and returns the same mini-batches. Besides:

    Args:
        data: also the path of a store, or what ``gz_pyg.load`` returns.
        edge_label_index: as in ``LinkNeighborLoader``.
        prefetch, look_ahead: as in ``NeighborLoader``.
    """

    _sampler_name = "link_sampler"

    def __init__(
        self,
        data: Any,
        link_sampler: BaseSampler,
        edge_label_index: Any = None,
        edge_label: Tensor | None = None,
        edge_label_time: Tensor | None = None,
        neg_sampling: NegativeSampling | None = None,
        neg_sampling_ratio: float | None = None,
        transform: Callable[..., Any] | None = None,
        transform_sampler_output: Callable[..., Any] | None = None,
        filter_per_worker: bool | None = None,
        custom_cls: Any = None,
        input_id: Tensor | None = None,
        prefetch: int | None = None,
        look_ahead: int | None = None,
        **kwargs: Any,
    ):
        if neg_sampling_ratio is not None and neg_sampling_ratio != 0.0:
            neg_sampling = NegativeSampling("binary", neg_sampling_ratio)
        self.prefetch = checked_prefetch(prefetch)
        self.look_ahead = checked_look_ahead(look_ahead, self.prefetch, kwargs.get("num_workers", 0))
        self.edge_label_index = edge_label_index
        self._source = source = as_source(data)
        self.data = source.data
        self.link_sampler = link_sampler
        self.neg_sampling = NegativeSampling.cast(neg_sampling)
        self.transform = transform
        self.transform_sampler_output = transform_sampler_output
        self.filter_per_worker = source.joins_anywhere if filter_per_worker is None else filter_per_worker
        self.custom_cls = custom_cls
        kwargs.pop("dataset", None)  # PyTorch Lightning hands these back
        kwargs.pop("collate_fn", None)
        edge_label = self._checked_label(edge_label)
        self.input_data, count = input_edges(source, edge_label_index, input_id, edge_label, edge_label_time)
        self._join = Joiner(link_sampler, custom_cls)
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

    def _sample(self, index: Any) -> SamplerOutput | HeteroSamplerOutput:
        return self.link_sampler.sample_from_edges(self.input_data[index], neg_sampling=self.neg_sampling)

    def _joined(self, out: SamplerOutput | HeteroSamplerOutput, source: Source | None = None) -> Any:
        share_threads()
        data = self._join(out, source or self._source)
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
