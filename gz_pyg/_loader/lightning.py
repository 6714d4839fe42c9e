"""LightningNodeData, LightningLinkData: PyG's data modules for PyTorch Lightning, on gz's loaders."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.data.lightning import LightningLinkData as PyGLightningLinkData
from torch_geometric.data.lightning import LightningNodeData as PyGLightningNodeData
from torch_geometric.data.lightning.datamodule import split_kwargs
from torch_geometric.sampler import BaseSampler

from gz_pyg._loader.links import LinkLoader
from gz_pyg._loader.nodes import NodeLoader
from gz_pyg._source.resolve import as_source
from gz_pyg.sampler import NeighborSampler


def _sampler(source: Any, loader: str, given: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The sampler that all loaders of a module share, and the options that are not its own."""
    if given is not None or loader not in ("neighbor", "link_neighbor"):
        return given, options
    own, rest = split_kwargs(options, NeighborSampler)
    return NeighborSampler(source, **own), rest


class LightningNodeData(PyGLightningNodeData):
    """``torch_geometric.data.LightningNodeData`` whose loaders are ``gz_pyg.NodeLoader``.

    Args:
        data: also the path of a store, or what ``gz_pyg.load`` returns.
        input_train_nodes, input_val_nodes, input_test_nodes, input_pred_nodes: as in PyG: found by
            ``train_mask`` and its like if not given.
        input_train_time, input_val_time, input_test_time, input_pred_time: their times.
        loader: ``"neighbor"``, or ``"full"`` for one batch with the whole graph.
        node_sampler: a sampler of your own.
        eval_loader_kwargs: what of ``kwargs`` is otherwise where the model does not train.
        kwargs: of ``gz_pyg.NeighborLoader``: ``num_neighbors``, ``batch_size``, ``prefetch``, ...
    """

    def __init__(
        self,
        data: Any,
        input_train_nodes: Any = None,
        input_train_time: Tensor | None = None,
        input_val_nodes: Any = None,
        input_val_time: Tensor | None = None,
        input_test_nodes: Any = None,
        input_test_time: Tensor | None = None,
        input_pred_nodes: Any = None,
        input_pred_time: Tensor | None = None,
        loader: str = "neighbor",
        node_sampler: BaseSampler | None = None,
        eval_loader_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ):
        source = as_source(data)
        node_sampler, kwargs = _sampler(source, loader, node_sampler, kwargs)
        super().__init__(
            source.data,
            input_train_nodes,
            input_train_time,
            input_val_nodes,
            input_val_time,
            input_test_nodes,
            input_test_time,
            input_pred_nodes,
            input_pred_time,
            loader,
            node_sampler,
            eval_loader_kwargs,
            **kwargs,
        )

    def dataloader(
        self,
        input_nodes: Any,
        input_time: Any = None,
        input_id: Any = None,
        node_sampler: BaseSampler | None = None,
        **kwargs: Any,
    ) -> Any:
        """As PyG's: the loader of one stage."""
        if self.loader == "full":
            return self.full_dataloader(**kwargs)
        sampler: Any = node_sampler
        return NodeLoader(self.data, sampler, input_nodes, input_time, input_id=input_id, **kwargs)


class LightningLinkData(PyGLightningLinkData):
    """``torch_geometric.data.LightningLinkData`` whose loaders are ``gz_pyg.LinkLoader``.

    Args:
        data: also the path of a store, or what ``gz_pyg.load`` returns.
        input_train_edges, input_val_edges, input_test_edges, input_pred_edges: as in PyG.
        input_train_labels, input_val_labels, input_test_labels, input_pred_labels: their labels.
        input_train_time, input_val_time, input_test_time, input_pred_time: their times.
        loader: ``"neighbor"``, or ``"full"`` for one batch with the whole graph.
        link_sampler: a sampler of your own.
        eval_loader_kwargs: what of ``kwargs`` is otherwise where the model does not train.
        kwargs: of ``gz_pyg.LinkNeighborLoader``: ``num_neighbors``, ``batch_size``, ``neg_sampling``, ...
    """

    def __init__(
        self,
        data: Any,
        input_train_edges: Any = None,
        input_train_labels: Tensor | None = None,
        input_train_time: Tensor | None = None,
        input_val_edges: Any = None,
        input_val_labels: Tensor | None = None,
        input_val_time: Tensor | None = None,
        input_test_edges: Any = None,
        input_test_labels: Tensor | None = None,
        input_test_time: Tensor | None = None,
        input_pred_edges: Any = None,
        input_pred_labels: Tensor | None = None,
        input_pred_time: Tensor | None = None,
        loader: str = "neighbor",
        link_sampler: BaseSampler | None = None,
        eval_loader_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ):
        source = as_source(data)
        link_sampler, kwargs = _sampler(source, loader, link_sampler, kwargs)
        super().__init__(
            source.data,
            input_train_edges,
            input_train_labels,
            input_train_time,
            input_val_edges,
            input_val_labels,
            input_val_time,
            input_test_edges,
            input_test_labels,
            input_test_time,
            input_pred_edges,
            input_pred_labels,
            input_pred_time,
            loader,
            link_sampler,
            eval_loader_kwargs,
            **kwargs,
        )

    def dataloader(
        self,
        input_edges: Any,
        input_labels: Any = None,
        input_time: Any = None,
        input_id: Any = None,
        link_sampler: BaseSampler | None = None,
        **kwargs: Any,
    ) -> Any:
        """As PyG's: the loader of one stage."""
        if self.loader == "full":
            return self.full_dataloader(**kwargs)
        sampler: Any = link_sampler
        return LinkLoader(
            self.data,
            sampler,
            edge_label_index=input_edges,
            edge_label=input_labels,
            edge_label_time=input_time,
            input_id=input_id,
            **kwargs,
        )
