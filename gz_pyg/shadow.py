"""ShaDowKHopSampler: PyG's loader of one shallow subgraph per node, sampled and gathered by gz."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.loader import ShaDowKHopSampler as PyGShaDowKHopSampler
from torch_geometric.sampler import NodeSamplerInput, SamplerOutput

from gz_pyg._loader.batch import Joiner
from gz_pyg._loader.inputs import all_indices, input_nodes, without_lists
from gz_pyg._sampler.base import share_threads
from gz_pyg._source.resolve import as_source
from gz_pyg.sampler import NeighborSampler


class ShaDowKHopSampler(PyGShaDowKHopSampler):
    """``torch_geometric.loader.ShaDowKHopSampler`` on a store, or on a ``Data`` without torch-sparse.

    Each node of a batch has a subgraph of its own: the nodes met in ``depth`` hops, and all edges among them
    ("Decoupling the Depth and Scope of Graph Neural Networks", Zeng et al. 2021). Takes the arguments of
    PyG's loader and returns its batches: nodes sorted by id within a subgraph, edges by their ends,
    ``batch.batch`` and ``batch.ptr`` for the subgraphs, ``batch.root_n_id`` for where their nodes stand, and
    ``y`` of those only. Besides, ``n_id`` and ``e_id`` name the nodes and edges in the graph.

    Args:
        data: a ``Data``, the path of a store with one node type, or what ``gz_pyg.load`` returns.
        depth: hops.
        num_neighbors: neighbours of each node in each hop; -1 for all.
        node_idx: ids or a mask; None for all nodes.
        kwargs: of ``torch.utils.data.DataLoader``: ``batch_size``, ``shuffle``, ``num_workers``, ...
        replace: draw neighbours with replacement.
    """

    def __init__(
        self,
        data: Any,
        depth: int,
        num_neighbors: int,
        node_idx: Tensor | None = None,
        replace: bool = False,
        **kwargs: Any,
    ):
        self._source = source = as_source(data)
        if source.is_hetero:
            raise ValueError("ShaDowKHopSampler takes graphs with one node type and one edge type")
        self.data, self.depth, self.num_neighbors, self.replace = source.data, depth, num_neighbors, replace
        _, self.node_idx, _ = input_nodes(source, node_idx, None)
        self._sampler = NeighborSampler(
            source, [num_neighbors] * depth, replace=replace, disjoint=True, subgraph_type="induced"
        )
        self._join = Joiner(self._sampler, None)
        for name in ("dataset", "collate_fn"):  # PyTorch Lightning hands these back
            kwargs.pop(name, None)
        count = self.node_idx.numel()
        torch.utils.data.DataLoader.__init__(
            self, all_indices(count), collate_fn=self.collate_fn, **without_lists(kwargs, count)
        )

    def collate_fn(self, index: Any) -> Batch:
        """As PyG's: the subgraphs of the nodes at places ``index`` of ``node_idx``, as one batch."""
        share_threads()
        roots = self.node_idx[torch.as_tensor(index, dtype=torch.int64)]
        out, place = _sorted(self._sampler.sample_from_nodes(NodeSamplerInput(None, roots)))
        joined = self._join(out, self._source)
        ptr = torch.zeros(roots.numel() + 1, dtype=torch.int64)
        torch.cumsum(torch.bincount(out.batch, minlength=roots.numel()), 0, out=ptr[1:])
        batch = Batch(batch=out.batch, ptr=ptr)
        batch.root_n_id = place[: roots.numel()]  # seeds come first in a sample, tree by tree
        n = joined.num_nodes
        for name, value in joined:
            if value is None or name in ("batch", "ptr", "num_nodes"):
                continue
            labels = name == "y" and isinstance(value, Tensor) and value.size(0) == n
            batch[name] = value[batch.root_n_id] if labels else value
        return batch


def _sorted(out: SamplerOutput) -> tuple[SamplerOutput, Tensor]:
    """The sample with its nodes by (tree, id) and its edges by (row, column); and the nodes' new places."""
    order = torch.argsort(out.node, stable=True)
    order = order[torch.argsort(out.batch[order], stable=True)]
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel())
    row, col = place[out.row], place[out.col]
    edges = torch.argsort(col, stable=True)
    edges = edges[torch.argsort(row[edges], stable=True)]
    return SamplerOutput(out.node[order], row[edges], col[edges], out.edge[edges], out.batch[order]), place
