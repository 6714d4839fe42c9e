"""GCNConv and LGConv by the degrees of the whole graph.

They divide by the degrees of both ends of an edge. A mini-batch has all edges of its targets, and few of
their neighbours': left alone, they would take the neighbours for nodes of degree 1. So the degrees are
computed first, in a pass of their own, and go with the batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, LGConv
from torch_geometric.utils import add_remaining_self_loops, scatter

Kind = tuple[bool, float]  # whether self loops are added, and of what weight


class Degrees:
    """The normalising layers of a model, and what they are to divide by.

    Attributes:
        kinds: by name of the column of degrees, how these are counted.
        weighted: whether edges count by their weight.
    """

    def __init__(self, modules: list[torch.nn.Module], weighted: bool):
        every = [m for module in modules for m in module.modules()]
        self._convs = [m for m in every if isinstance(m, (GCNConv, LGConv)) and m.normalize]
        self.kinds = {f"degree_{i}": k for i, k in enumerate(dict.fromkeys(map(_kind, self._convs)))}
        self.weighted = weighted
        self._rows: dict[Kind, Tensor] = {}  # of the batch that is being computed

    def count(self, name: str, edge_index: Tensor, weight: Tensor | None, num_nodes: int) -> Tensor:
        edge_index, weight = _with_loops(self.kinds[name], edge_index, weight, num_nodes)
        if weight is None:
            weight = torch.ones(edge_index.size(1), device=edge_index.device)
        return scatter(weight, edge_index[1], 0, dim_size=num_nodes, reduce="sum")

    def of_batch(self, batch: Any, device: Any) -> None:
        self._rows = {kind: batch[name].to(device) for name, kind in self.kinds.items()}

    @contextmanager
    def used(self) -> Iterator[None]:
        """The layers take the degrees that ``of_batch`` was given."""
        with ExitStack() as stack:
            for conv in self._convs:
                hook = conv.register_forward_pre_hook(self._normalised, with_kwargs=True)
                stack.callback(hook.remove)
                stack.callback(setattr, conv, "normalize", True)
                conv.normalize = False
            yield

    def _normalised(self, conv: Any, args: Any, kwargs: Any) -> Any:
        given = dict(zip(("x", "edge_index", "edge_weight"), args, strict=False)) | kwargs
        x, edge_index, weight = given["x"], given["edge_index"], given.get("edge_weight")
        degree = self._rows[_kind(conv)]
        if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or len(x) != len(degree):
            raise ValueError(f"{type(conv).__name__} in a layer needs the x and edge_index of the batch")
        if (weight is not None) != self.weighted:
            raise ValueError(
                f"{type(conv).__name__} is called {'with' if weight is not None else 'without'} weights; "
                "name the column that all layers take as edge_weight=, or let none take one"
            )
        (row, col), weight = _with_loops(_kind(conv), edge_index, weight, len(x))
        scale = degree.to(x.dtype).pow(-0.5)
        scale = scale.masked_fill(scale == float("inf"), 0)
        norm = scale[row] * scale[col] if weight is None else scale[row] * weight * scale[col]
        return (x, torch.stack([row, col]), norm), {}


def _kind(conv: Any) -> Kind:
    if isinstance(conv, LGConv):
        return False, 0.0
    return conv.add_self_loops, 2.0 if conv.improved else 1.0


def _with_loops(
    kind: Kind, edge_index: Tensor, weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor | None]:
    add, fill = kind
    return add_remaining_self_loops(edge_index, weight, fill, num_nodes) if add else (edge_index, weight)
