"""HGTLoader: PyG's loader of samples by budget, sampled and gathered by gz."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_geometric.loader import HGTLoader as PyGHGTLoader

from gz_pyg._loader.nodes import NodeLoader
from gz_pyg._sampler.hgt import HGTSampler
from gz_pyg._source.resolve import as_source


class HGTLoader(NodeLoader, PyGHGTLoader):
    """``torch_geometric.loader.HGTLoader`` on a store, or on any ``HeteroData`` without torch-sparse.

    Takes the same arguments, with the same defaults (``kwargs``: of ``torch.utils.data.DataLoader``).
    Each hop draws ``num_samples`` nodes of every type, more likely those with many edges to what is sampled
    already; a batch holds all edges among its nodes.

    Args:
        data: also the path of a store, what ``gz_pyg.load`` returns, or any ``(FeatureStore, GraphStore)``.
        num_samples: nodes to draw in each hop: a list for every type, or a dict of lists by node type.
        input_nodes: a node type, or ``(type, ids, a list, an array, a mask or None)``.
        prefetch, look_ahead: as in ``NeighborLoader``.
    """

    def __init__(
        self,
        data: Any,
        num_samples: list[int] | dict[str, list[int]],
        input_nodes: Any,
        is_sorted: bool = False,
        transform: Callable[..., Any] | None = None,
        transform_sampler_output: Callable[..., Any] | None = None,
        filter_per_worker: bool | None = None,
        prefetch: int | None = None,
        look_ahead: int | None = None,
        **kwargs: Any,
    ):
        source = as_source(data)
        NodeLoader.__init__(
            self,
            source,
            HGTSampler(source, num_samples, is_sorted=is_sorted),
            input_nodes,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            prefetch=prefetch,
            look_ahead=look_ahead,
            **kwargs,
        )
