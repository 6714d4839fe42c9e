"""Every convolution of dgl.nn.pytorch, made small: how to build it and how to call it.

LAYERS names what test_dgl_layers runs; NOT_RUN says why the others are not. The test holds both together
against the module itself, so that a layer of a newer DGL cannot be forgotten.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dgl.nn.pytorch.conv as conv
import torch
from torch import nn

IN, OUT, EDGE = 6, 4, 3

NOT_RUN = {
    "DenseChebConv": "takes a dense adjacency matrix, no graph",
    "DenseGraphConv": "takes a dense adjacency matrix, no graph",
    "DenseSAGEConv": "takes a dense adjacency matrix, no graph",
    "CuGraphGATConv": "runs on CUDA only, with pylibcugraphops",
    "CuGraphRelGraphConv": "runs on CUDA only, with pylibcugraphops",
    "CuGraphSAGEConv": "runs on CUDA only, with pylibcugraphops",
}


class Inputs:
    """Random inputs that follow the size of a graph or block; `x` is a pair on a block."""

    def __init__(self, g: Any):
        rng = torch.Generator().manual_seed(3)
        draw = lambda *shape: torch.randn(*shape, generator=rng, requires_grad=True)  # noqa: E731
        sources, edges = g.num_src_nodes(), g.num_edges()
        self.features = draw(sources, IN)
        self.x = (self.features, self.features[: g.num_dst_nodes()]) if g.is_block else self.features
        self.edge = draw(edges, EDGE)
        self.as_wide = draw(edges, IN)  # GINEConv adds edge features to node features
        self.weight = torch.rand(edges, generator=rng).requires_grad_()
        self.column = torch.rand(edges, 1, generator=rng) + 0.1
        self.relation = torch.randint(0, 3, (edges,), generator=rng)
        self.kind = torch.randint(0, 2, (sources,), generator=rng)
        self.place = draw(sources, 3)
        self.first = draw(sources, IN)

    def gradients(self) -> list[torch.Tensor | None]:
        tensors = (self.features, self.edge, self.as_wide, self.weight, self.place, self.first)
        return [t.grad for t in tensors]


@dataclass
class Layer:
    make: Callable[[], nn.Module]
    call: Callable[[nn.Module, Any, Inputs], Any] = lambda layer, g, i: layer(g, i.x)
    blocks: bool = True  # whether DGL's takes a block; all take a graph


def _rings() -> nn.Module:
    return conv.AtomicConv(torch.full((3, 1), 2.0), torch.rand(3, 1), torch.rand(3, 1), torch.tensor([6.0]))


def _towers(kind: Any) -> Callable[[], nn.Module]:
    return lambda: kind(
        IN, IN, ["mean", "max", "sum"], ["identity", "amplification"], 2.5, edge_feat_size=EDGE
    )


def _dgn() -> nn.Module:
    return conv.DGNConv(IN, IN, ["dir1-av", "dir1-dx", "sum"], ["identity"], 2.5, residual=False)


def _sage(how: str) -> Layer:
    return Layer(lambda: conv.SAGEConv(IN, OUT, how), lambda f, g, i: f(g, i.x, edge_weight=i.weight))


def _on_graph(make: Callable[[], nn.Module], call: Any = lambda f, g, i: f(g, i.features)) -> Layer:
    return Layer(make, call, blocks=False)


LAYERS: dict[str, list[Layer]] = {
    "AGNNConv": [Layer(lambda: conv.AGNNConv(allow_zero_in_degree=True))],
    "APPNPConv": [_on_graph(lambda: conv.APPNPConv(2, 0.1))],
    "AtomicConv": [_on_graph(_rings, lambda f, g, i: f(g, i.kind.float()[:, None] + 5, i.column))],
    "CFConv": [Layer(lambda: conv.CFConv(IN, EDGE, 5, OUT), lambda f, g, i: f(g, i.x, i.edge))],
    "ChebConv": [_on_graph(lambda: conv.ChebConv(IN, OUT, 2), lambda f, g, i: f(g, i.features, [2.0]))],
    "DGNConv": [
        _on_graph(_dgn, lambda f, g, i: f(g, i.features, eig_vec=i.place)),
    ],
    "DotGatConv": [
        Layer(
            lambda: conv.DotGatConv(IN, OUT, 2, allow_zero_in_degree=True),
            lambda f, g, i: f(g, i.features),  # a pair it takes only with two sizes
        )
    ],
    "EGATConv": [
        Layer(
            lambda: conv.EGATConv(IN, EDGE, OUT, OUT, 2),
            lambda f, g, i: f(g, i.x, i.edge, edge_weight=i.weight),
        )
    ],
    "EGNNConv": [
        _on_graph(lambda: conv.EGNNConv(IN, 5, OUT, EDGE), lambda f, g, i: f(g, i.features, i.place, i.edge))
    ],
    "EdgeConv": [Layer(lambda: conv.EdgeConv(IN, OUT, allow_zero_in_degree=True))],
    "EdgeGATConv": [
        Layer(
            lambda: conv.EdgeGATConv(IN, EDGE, OUT, 2, allow_zero_in_degree=True),
            lambda f, g, i: f(g, i.x, i.edge),
        )
    ],
    "EdgeWeightNorm": [
        Layer(lambda norm=norm: conv.EdgeWeightNorm(norm), lambda f, g, i: f(g, i.weight))
        for norm in ("both", "right")
    ],
    "GATConv": [
        Layer(lambda: conv.GATConv(IN, OUT, 2, allow_zero_in_degree=True)),
        Layer(
            lambda: conv.GATConv(IN, OUT, 2, residual=True, allow_zero_in_degree=True),
            lambda f, g, i: f(g, i.x, edge_weight=i.weight, get_attention=True),
        ),
    ],
    "GATv2Conv": [Layer(lambda: conv.GATv2Conv(IN, OUT, 2, allow_zero_in_degree=True))],
    "GCN2Conv": [
        _on_graph(
            lambda: conv.GCN2Conv(IN, 1, allow_zero_in_degree=True),
            lambda f, g, i: f(g, i.features, i.first, edge_weight=i.weight),
        )
    ],
    "GINConv": [
        Layer(lambda how=how: conv.GINConv(nn.Linear(IN, OUT), how), lambda f, g, i: f(g, i.x, i.weight))
        for how in ("sum", "max", "mean")
    ],
    "GINEConv": [
        Layer(lambda: conv.GINEConv(nn.Linear(IN, OUT)), lambda f, g, i: f(g, i.x, i.as_wide)),
    ],
    "GMMConv": [
        Layer(
            lambda how=how: conv.GMMConv(IN, OUT, EDGE, 2, how, allow_zero_in_degree=True),
            lambda f, g, i: f(g, i.x, i.edge),
        )
        for how in ("sum", "mean", "max")
    ],
    "GatedGraphConv": [
        _on_graph(lambda: conv.GatedGraphConv(IN, IN, 2, 3), lambda f, g, i: f(g, i.features, i.relation))
    ],
    "GraphConv": [
        Layer(lambda: conv.GraphConv(IN, OUT, allow_zero_in_degree=True)),
        Layer(
            lambda: conv.GraphConv(IN, OUT, norm="right", allow_zero_in_degree=True),
            lambda f, g, i: f(g, i.x, edge_weight=i.weight),
        ),
    ],
    "GroupRevRes": [
        _on_graph(
            lambda: conv.GroupRevRes(conv.GraphConv(IN // 2, IN // 2, allow_zero_in_degree=True)),
            lambda f, g, i: f(g, i.features.clone()),  # it frees its input
        )
    ],
    "HGTConv": [
        _on_graph(
            lambda: conv.HGTConv(IN, OUT, 2, 2, 3, dropout=0.0),
            lambda f, g, i: f(g, i.features, i.kind, i.relation),
        )
    ],
    "NNConv": [
        Layer(
            lambda how=how: conv.NNConv(IN, OUT, nn.Linear(EDGE, IN * OUT), how),
            lambda f, g, i: f(g, i.x, i.edge),
        )
        for how in ("sum", "mean", "max")
    ],
    "PNAConv": [_on_graph(_towers(conv.PNAConv), lambda f, g, i: f(g, i.features, i.edge))],
    "RelGraphConv": [
        Layer(
            lambda kind=kind: conv.RelGraphConv(IN, OUT, 3, regularizer=kind, num_bases=2, dropout=0.0),
            lambda f, g, i: f(g, i.features, i.relation, i.column),
        )
        for kind in ("basis", "bdd")
    ],
    "SAGEConv": [_sage(how) for how in ("mean", "gcn", "pool", "lstm")],
    "SGConv": [
        _on_graph(
            lambda: conv.SGConv(IN, OUT, 2, allow_zero_in_degree=True),
            lambda f, g, i: f(g, i.features, i.weight),
        )
    ],
    "TAGConv": [_on_graph(lambda: conv.TAGConv(IN, OUT), lambda f, g, i: f(g, i.features, i.weight))],
    "TWIRLSConv": [_on_graph(lambda: conv.TWIRLSConv(IN, OUT, 5, 2, alp=0.5, attention=True))],
    "TWIRLSUnfoldingAndAttention": [
        _on_graph(lambda: conv.TWIRLSUnfoldingAndAttention(IN, 0.5, 1.0, 2, attn_aft=0, precond=True))
    ],
}


def in_this_dgl() -> set[str]:
    """The convolutions of the DGL that is installed."""
    return {n for n, k in vars(conv).items() if inspect.isclass(k) and issubclass(k, nn.Module)}
