"""Every convolution of dgl.nn.pytorch on what the samplers give out of a store, against the same block or
graph built in memory by DGL from the same edges: outputs and gradients."""

from __future__ import annotations

from typing import Any

import dgl
import dgl.function as fn
import pytest
import torch
from dgl.dataloading import (
    DataLoader,
    LaborSampler,
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    ShaDowKHopSampler,
)
from dgl.nn.pytorch import GATConv, HeteroGraphConv
from dgl_graphs import games
from layers import EDGE, LAYERS, NOT_RUN, Inputs, Layer, in_this_dgl

import gz_dgl

BLOCKS = {
    "NeighborSampler": lambda: NeighborSampler([4, 3]),
    "NeighborSampler not fused": lambda: NeighborSampler([4, 3], fused=False),
    "NeighborSampler with replacement": lambda: NeighborSampler([4, 3], replace=True),
    "MultiLayerFullNeighborSampler": lambda: MultiLayerFullNeighborSampler(2),
    "LaborSampler": lambda: LaborSampler([6, 5]),
}
GRAPHS = ["ShaDowKHopSampler", "a subgraph", "the store itself"]


def test_no_convolution_is_forgotten():
    assert in_this_dgl() == set(LAYERS) | set(NOT_RUN)
    assert not set(LAYERS) & set(NOT_RUN)


def lively_graph(n: int, idtype: torch.dtype) -> Any:
    """Without self loops, and with neighbours for every node even in a part of it: layers that divide by a
    degree or a distance have numbers to give."""
    ring = torch.arange(n)
    u = torch.randint(0, n, (4 * n,), generator=torch.Generator().manual_seed(0))
    v = (u + torch.randint(1, n, (4 * n,), generator=torch.Generator().manual_seed(1))) % n
    forward, back = (ring + 1) % n, (ring - 1) % n
    return dgl.graph((torch.cat([u, ring, ring]), torch.cat([v, forward, back])), idtype=idtype)


@pytest.fixture(
    scope="module",
    params=[pytest.param(torch.int32, marks=pytest.mark.slow), torch.int64],
    ids=["int32", "int64"],
)
def sampled(request, tmp_path_factory):
    """{sampler: the blocks or the graph it gives} of a store."""
    g = lively_graph(120, request.param)
    path = tmp_path_factory.mktemp("layers") / "store"
    gz_dgl.save(g, path)
    h = gz_dgl.load(path).astype(request.param)
    ids = torch.arange(0, 40, dtype=request.param)

    def first(sampler: Any) -> Any:
        return next(iter(DataLoader(h, ids, sampler, batch_size=40)))[2]

    found = {name: first(sampler()) for name, sampler in BLOCKS.items()}
    found["ShaDowKHopSampler"] = first(ShaDowKHopSampler([4, 3]))
    found["a subgraph"] = h.subgraph(ids)
    found["the store itself"] = h
    return found


def in_memory(g: Any) -> Any:
    """The same edges in the same order, by DGL alone."""
    u, v = (t.clone() for t in g.edges(order="eid"))
    if not g.is_block:
        return dgl.graph((u, v), num_nodes=g.num_nodes(), idtype=g.idtype)
    return dgl.create_block((u, v), g.num_src_nodes(), g.num_dst_nodes(), idtype=g.idtype)


def run(layer: Layer, g: Any) -> list[Any]:
    """Outputs, gradients of the inputs and of the parameters."""
    torch.manual_seed(0)
    module, inputs = layer.make(), Inputs(g)
    torch.manual_seed(1)
    out = layer.call(module, g, inputs)
    outputs = list(out) if isinstance(out, tuple) else [out]
    kept = [o.detach().clone() for o in outputs]  # GroupRevRes frees its output in the backward pass
    loss = sum((o * torch.linspace(0.5, 1.5, o.numel()).view_as(o)).sum() for o in outputs)
    if loss.requires_grad:  # AtomicConv has nothing to learn and its inputs are no features
        loss.backward()
    parameters = [p.grad for p in module.parameters()]
    return [*kept, *inputs.gradients(), *parameters]


def compare(layer: Layer, g: Any) -> None:
    for ours, theirs in zip(run(layer, g), run(layer, in_memory(g)), strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("source", BLOCKS)
@pytest.mark.parametrize("name", [n for n, layers in LAYERS.items() if layers[0].blocks])
def test_a_layer_gives_on_a_block_what_it_gives_in_memory(sampled, name, source):
    for block in sampled[source]:
        assert block.is_block
        for layer in LAYERS[name]:
            compare(layer, block)


@pytest.mark.parametrize("source", GRAPHS)
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_gives_on_a_graph_what_it_gives_in_memory(sampled, name, source):
    for layer in LAYERS[name]:
        compare(layer, sampled[source])


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("source", [*BLOCKS, *GRAPHS])
def test_messages_of_edges_give_what_they_give_in_memory(sampled, source, reduce):
    for g in sampled[source] if source in BLOCKS else [sampled[source]]:
        results = []
        for graph in (g, in_memory(g)):
            inputs = Inputs(graph)
            with graph.local_scope():
                graph.srcdata["x"], graph.edata["e"] = inputs.features[:, :EDGE], inputs.edge
                graph.update_all(fn.copy_e("e", "m"), getattr(fn, reduce)("m", "of edges"))
                graph.update_all(fn.u_mul_e("x", "e", "m"), getattr(fn, reduce)("m", "of both"))
                out = graph.dstdata["of edges"] + graph.dstdata["of both"]
            out.square().sum().backward()
            results.append([out.detach(), *inputs.gradients()[:2]])
        torch.testing.assert_close(*results)


def test_attention_over_the_relations_of_a_block(on_disk):
    g = games()
    h = on_disk(g)
    seeds = {t: torch.arange(h.num_nodes(t)) for t in h.ntypes}
    results = []
    for graph in (g, h):
        *_, (block,) = next(iter(DataLoader(graph, seeds, MultiLayerFullNeighborSampler(1), batch_size=99)))
        torch.manual_seed(0)
        layer = HeteroGraphConv(
            {t: GATConv(8, 4, 2, allow_zero_in_degree=True) for t in g.etypes}, aggregate="sum"
        )
        out = layer(block, block.srcdata["feat"])
        sum(v.square().sum() for v in out.values()).backward()
        # Seeds come type by type in one batch, so rows are the nodes' own order in both.
        results.append([*(out[t] for t in h.ntypes), *(p.grad for p in layer.parameters())])
    torch.testing.assert_close(*results)
