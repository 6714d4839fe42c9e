"""LightningNodeData, LightningLinkData: PyG's data modules for PyTorch Lightning, on gz's loaders."""

from __future__ import annotations

from typing import Any

from torch_geometric.data.lightning import LightningLinkData as PyGLightningLinkData
from torch_geometric.data.lightning import LightningNodeData as PyGLightningNodeData
from torch_geometric.data.lightning.datamodule import split_kwargs

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
        inputs: ``input_train_nodes`` and so on, as in PyG: found by ``train_mask`` and its like if not given.
        loader: ``"neighbor"``, or ``"full"`` for one batch with the whole graph.
        node_sampler: a sampler of your own.
        options: of ``gz_pyg.NeighborLoader``, ``prefetch`` among them, and ``eval_loader_kwargs``.
    """

    def __init__(
        self, data: Any, *inputs: Any, loader: str = "neighbor", node_sampler: Any = None, **options: Any
    ):
        source = as_source(data)
        node_sampler, options = _sampler(source, loader, node_sampler, options)
        super().__init__(source.data, *inputs, loader=loader, node_sampler=node_sampler, **options)

    def dataloader(
        self,
        input_nodes: Any,
        input_time: Any = None,
        input_id: Any = None,
        node_sampler: Any = None,
        **options: Any,
    ) -> Any:
        if self.loader == "full":
            return self.full_dataloader(**options)
        return NodeLoader(self.data, node_sampler, input_nodes, input_time, input_id=input_id, **options)


class LightningLinkData(PyGLightningLinkData):
    """``torch_geometric.data.LightningLinkData`` whose loaders are ``gz_pyg.LinkLoader``.

    Args:
        data: also the path of a store, or what ``gz_pyg.load`` returns.
        inputs: ``input_train_edges`` and so on, as in PyG.
        loader: ``"neighbor"``, or ``"full"`` for one batch with the whole graph.
        link_sampler: a sampler of your own.
        options: of ``gz_pyg.LinkNeighborLoader``, ``prefetch`` among them, and ``eval_loader_kwargs``.
    """

    def __init__(
        self, data: Any, *inputs: Any, loader: str = "neighbor", link_sampler: Any = None, **options: Any
    ):
        source = as_source(data)
        link_sampler, options = _sampler(source, loader, link_sampler, options)
        super().__init__(source.data, *inputs, loader=loader, link_sampler=link_sampler, **options)

    def dataloader(
        self,
        input_edges: Any,
        input_labels: Any = None,
        input_time: Any = None,
        input_id: Any = None,
        link_sampler: Any = None,
        **options: Any,
    ) -> Any:
        if self.loader == "full":
            return self.full_dataloader(**options)
        return LinkLoader(
            self.data,
            link_sampler,
            edge_label_index=input_edges,
            edge_label=input_labels,
            edge_label_time=input_time,
            input_id=input_id,
            **options,
        )
