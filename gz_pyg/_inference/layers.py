"""A model as layers that can be computed for some nodes at a time from those nodes and their neighbours."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import LayerNorm, MessagePassing
from torch_geometric.nn.models.basic_gnn import BasicGNN

# layer(x, edge_index, edge values by argument, number of targets) -> rows of the targets, which come first
Layer = Callable[[Any, Any, dict[str, Any], Any], Any]

_HINT = "run the model on a graph in memory: model(data.x, data.edge_index) of data.to_data()"
# Of one layer they need the rows or the degrees of nodes that are two and more hops away.
_FAR = {
    *("APPNP", "ARMAConv", "ChebConv", "DNAConv", "EGConv", "FAConv", "GCN2Conv", "LabelPropagation"),
    *("MixHopConv", "PDNConv", "SGConv", "SSGConv", "TAGConv"),
}


@dataclass
class Layers:
    """What to compute: each layer for all nodes before the next.

    Attributes:
        head: of the rows that all layers gave, row by row (jumping knowledge); None: the last layer's rows.
        takes: which edge values the layers take; None: not known.
        modules: whose parameters and modes these are.
    """

    layers: list[Layer]
    head: Callable[[list[Tensor]], Tensor] | None = None
    takes: set[str] | None = None
    modules: list[Module] = field(default_factory=list)

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        found = (p.device for m in self.modules for p in m.parameters())
        return next(found, torch.device("cpu"))

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Dropout off, statistics of batch norms as they were learned; afterwards as before."""
        every = [m for module in self.modules for m in module.modules()]
        before = [m.training for m in every]
        try:
            for m in self.modules:
                m.eval()
            with torch.no_grad():
                yield
        finally:
            for m, training in zip(every, before, strict=True):
                m.training = training


def layers_of(model: Any, hetero: bool) -> Layers:
    """Of a BasicGNN, a convolution, or functions ``layer(x, edge_index)``."""
    if isinstance(model, BasicGNN):
        found = _of_basic_gnn(model, hetero)
    elif isinstance(model, (list, tuple, torch.nn.ModuleList)) and len(model) and all(map(callable, model)):
        found = Layers([_of_function(f) for f in model])
        found.modules = [m for m in model if isinstance(m, Module)]
    elif isinstance(model, MessagePassing):
        found = Layers([_of_function(model)], modules=[model])
    else:
        raise TypeError(
            f"a {type(model).__name__} cannot be taken apart into layers; give one of PyG's basic models "
            "(GraphSAGE, GCN, GAT, GIN, PNA, EdgeCNN), or a list of functions layer(x, edge_index), each "
            "with its activation: [lambda x, e: conv1(x, e).relu(), conv2]"
        )
    for module in found.modules:
        for m in module.modules():
            _check_near(m)
    return found


def _check_near(m: Module) -> None:
    name = type(m).__name__
    if isinstance(m, MessagePassing) and m.flow != "source_to_target":
        raise ValueError(f"{name}: flow is {m.flow!r}; neighbours are those that edges come from: {_HINT}")
    if name in _FAR and getattr(m, "normalize", True):
        raise ValueError(f"{name} needs more of a node than its neighbours within one layer: {_HINT}")
    by_rows = isinstance(m, LayerNorm) and m.mode == "node"
    if "norm" in type(m).__module__ and not by_rows and "batch" in inspect.signature(m.forward).parameters:
        raise ValueError(f"{name} is computed over all nodes at once: {_HINT}, or use norm='batch_norm'")
    if isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and not m.track_running_stats:
        raise ValueError(f"{name} without running statistics is computed over all nodes at once: {_HINT}")


def _of_basic_gnn(model: BasicGNN, hetero: bool) -> Layers:
    if hetero:
        raise TypeError(
            f"{type(model).__name__} is a model of one node type; give a list of layers that take dicts, "
            "such as HeteroConv, HGTConv or to_hetero of a module that has one convolution"
        )
    if type(model).forward is not BasicGNN.forward:
        raise TypeError(
            f"{type(model).__name__} has a forward of its own; give a list of functions layer(x, edge_index)"
        )
    takes = {n for n in ("edge_weight", "edge_attr") if getattr(model, f"supports_{n}")}
    layers = [_basic_layer(model, number) for number in range(model.num_layers)]
    return Layers(layers, _jump(model) if hasattr(model, "jk") else None, takes, [model])


def _basic_layer(model: BasicGNN, number: int) -> Layer:
    conv, norm, act = model.convs[number], model.norms[number], model.act
    last = number == model.num_layers - 1

    def layer(x: Tensor, edge_index: Tensor, edges: dict[str, Any], size: int) -> Tensor:
        x = conv(x, edge_index, **edges)[:size]
        if last and model.jk_mode is None:
            return x
        if act is not None and model.act_first:
            x = act(x)
        x = norm(x)
        if act is not None and not model.act_first:
            x = act(x)
        return model.lin(x) if last and model.jk_mode == "last" else x

    return layer


def _jump(model: BasicGNN) -> Callable[[list[Tensor]], Tensor]:
    return lambda rows: model.lin(model.jk(rows))


def _of_function(function: Callable[..., Any]) -> Layer:
    def layer(x: Any, edge_index: Any, edges: dict[str, Any], size: Any) -> Any:
        rows = function(x, edge_index, **edges)
        if isinstance(size, Mapping):  # several node types, of which one has targets
            if not isinstance(rows, Mapping):
                raise TypeError(
                    f"a layer gave a {type(rows).__name__}; on several node types it takes and gives dicts"
                )
            return {t: rows[t][:n] for t, n in size.items() if rows.get(t) is not None}
        if not isinstance(rows, Tensor):
            raise TypeError(f"a layer gave a {type(rows).__name__}, not a tensor with a row for each node")
        if len(rows) < size:
            raise ValueError(f"a layer gave {len(rows)} rows for {size} nodes")
        return rows[:size]

    return layer


def check_edge_values(layers: Layers, names: Sequence[str]) -> None:
    if layers.takes is not None and (unknown := [n for n in names if n not in layers.takes]):
        model = type(layers.modules[0]).__name__
        raise ValueError(f"{unknown[0]}= is given, but {model} takes no {unknown[0]}")
