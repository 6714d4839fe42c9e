"""NeighborLoader and LinkNeighborLoader: PyG's loaders, sampled and gathered by gz."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch_geometric.loader import LinkNeighborLoader as PyGLinkNeighborLoader
from torch_geometric.loader import NeighborLoader as PyGNeighborLoader
from torch_geometric.sampler import BaseSampler, NegativeSampling
from torch_geometric.sampler.base import SubgraphType

from gz_pyg._loader.links import LinkLoader
from gz_pyg._loader.nodes import NodeLoader
from gz_pyg._source.resolve import as_source
from gz_pyg.sampler import NeighborSampler


class NeighborLoader(NodeLoader, PyGNeighborLoader):
    """``torch_geometric.loader.NeighborLoader`` on a store, or on any PyG data without pyg-lib.

    Takes the same arguments, with the same defaults (``kwargs`` are those of ``torch.utils.data.DataLoader``:
    ``batch_size``, ``shuffle``, ``num_workers``, ...), and returns the same mini-batches. Besides:

    Args:
        data: also the path of a store, or what ``gz_pyg.load`` returns.
        input_nodes: ids as a tensor, an array or a list, a mask, or None for all; of a graph with several
            node types a type, or ``(type, any of these)``. On any data.
        time_attr, weight_attr: on any data; edges need not be sorted.
        subgraph_type: ``"induced"`` on any data, disjoint and temporal ones included.
        prefetch: without workers, the number of batches made ahead in background threads while the model
            trains; 0 for none. None means 2, or 0 where a sampler or a subclass of yours makes the batches.
            The batches are the same whatever it is. See docs/pyg.md.
        look_ahead: without workers, the number of batches whose rows are read at once, in order of place,
            where they come from a disk: fewer reads, for the memory of twice as many batches. Fewer where
            memory is short; None, the default, reads batch by batch. The batches are the same. A batch that
            is kept keeps the rows of all that were read with it. See docs/pyg.md.
        labor, layer_dependency, batch_dependency: dependent sampling, which gives batches of fewer nodes; as
            in ``NeighborSampler``.
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
        labor: bool | None = None,
        layer_dependency: bool = False,
        batch_dependency: int = 1,
        look_ahead: int | None = None,
        **kwargs: Any,
    ):
        if input_time is not None and time_attr is None:
            raise ValueError(
                "Received conflicting 'input_time' and 'time_attr' arguments: 'input_time' is set while "
                "'time_attr' is not set."
            )
        source = as_source(data)
        if neighbor_sampler is None:
            neighbor_sampler = NeighborSampler(
                source,
                num_neighbors=num_neighbors,
                replace=replace,
                subgraph_type=subgraph_type,
                disjoint=disjoint,
                temporal_strategy=temporal_strategy,
                time_attr=time_attr,
                weight_attr=weight_attr,
                is_sorted=is_sorted,
                directed=directed,
                labor=labor,
                layer_dependency=layer_dependency,
                batch_dependency=batch_dependency,
            )
        NodeLoader.__init__(
            self,
            source,
            neighbor_sampler,
            input_nodes,
            input_time,
            transform,
            transform_sampler_output,
            filter_per_worker,
            prefetch=prefetch,
            look_ahead=look_ahead,
            **kwargs,
        )


class LinkNeighborLoader(LinkLoader, PyGLinkNeighborLoader):
    """``torch_geometric.loader.LinkNeighborLoader`` on a store, or on any PyG data without pyg-lib.

    Takes the same arguments, with the same defaults (``kwargs`` are those of ``torch.utils.data.DataLoader``:
    ``batch_size``, ``shuffle``, ``num_workers``, ...), and returns the same mini-batches. Besides:

    Args:
        data: also the path of a store, or what ``gz_pyg.load`` returns.
        edge_label_index: ``[2, E]``, an edge type, or ``(edge type, [2, E] or None)``, on any data. An edge
            type alone, or None, means all its edges; those of a store are looked up batch by batch.
        prefetch, look_ahead, labor, layer_dependency, batch_dependency: as in ``NeighborLoader``.
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
        labor: bool | None = None,
        layer_dependency: bool = False,
        batch_dependency: int = 1,
        look_ahead: int | None = None,
        **kwargs: Any,
    ):
        if (edge_label_time is not None) != (time_attr is not None):
            raise ValueError(
                f"Received conflicting 'edge_label_time' and 'time_attr' arguments: 'edge_label_time' is "
                f"{'set' if edge_label_time is not None else 'not set'} while 'time_attr' is "
                f"{'set' if time_attr is not None else 'not set'}. "
                f"Both arguments must be provided for temporal sampling."
            )
        source = as_source(data)
        if neighbor_sampler is None:
            neighbor_sampler = NeighborSampler(
                source,
                num_neighbors=num_neighbors,
                replace=replace,
                subgraph_type=subgraph_type,
                disjoint=disjoint,
                temporal_strategy=temporal_strategy,
                time_attr=time_attr,
                weight_attr=weight_attr,
                is_sorted=is_sorted,
                directed=directed,
                labor=labor,
                layer_dependency=layer_dependency,
                batch_dependency=batch_dependency,
            )
        LinkLoader.__init__(
            self,
            source,
            neighbor_sampler,
            edge_label_index,
            edge_label,
            edge_label_time,
            neg_sampling,
            neg_sampling_ratio,
            transform,
            transform_sampler_output,
            filter_per_worker,
            prefetch=prefetch,
            look_ahead=look_ahead,
            **kwargs,
        )
