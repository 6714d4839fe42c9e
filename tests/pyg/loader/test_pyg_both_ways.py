"""BidirectionalNeighborSampler: edges into a node and out of it, hop by hop, each edge once."""

from __future__ import annotations

import sys

import graphs
import numpy as np
import pytest
import torch
import torch_geometric.sampler
import torch_geometric.typing
from pyg_batches import check_heterogeneous, check_homogeneous, same_batches
from scipy import stats
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.sampler import NodeSamplerInput

import gz_pyg

LIKELY = 1e-4  # a test of a true claim fails this seldom


def sample(sampler, seeds, node_type=None):
    return sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor(seeds), None, node_type))


def reached(edge_index, seeds, hops):
    """(nodes, edges) by hop: what is new within one more step along edges, either way."""
    row, col = edge_index.tolist()
    nodes, edges, frontier = [list(dict.fromkeys(seeds))], [], list(dict.fromkeys(seeds))
    known, found = set(seeds), set()
    for _ in range(hops):
        touched = [e for e in range(len(row)) if row[e] in frontier or col[e] in frontier]
        edges.append([e for e in touched if e not in found])
        found.update(touched)
        frontier = list({v for e in touched for v in (row[e], col[e])} - known)
        known.update(frontier)
        nodes.append(frontier)
    return nodes, edges


def by_hop(values, counts):
    return [sorted(part.tolist()) for part in values.split(counts)]


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("edges", [graphs.kite(), graphs.path(7), graphs.random_edges(40, 90)])
def test_all_neighbours_are_those_that_edges_lead_to_and_from(edges, hops):
    data = Data(edge_index=torch.from_numpy(np.stack([edges.src, edges.dst])), num_nodes=edges.num_nodes)
    out = sample(gz_pyg.BidirectionalNeighborSampler(data, [-1] * hops), [3, 1])
    nodes, numbers = reached(data.edge_index, [3, 1], hops)
    assert by_hop(out.node, out.num_sampled_nodes) == [sorted(n) for n in nodes]
    assert out.node[:2].tolist() == [3, 1]
    assert by_hop(out.edge, out.num_sampled_edges) == [sorted(n) for n in numbers]
    assert torch.equal(out.node[torch.stack([out.row, out.col])], data.edge_index[:, out.edge])


@pytest.fixture
def stock(monkeypatch, repository):
    """PyG's own class, over the stand-in of pyg-lib."""
    if not torch_geometric.typing.WITH_PYG_LIB:
        monkeypatch.syspath_prepend(str(repository / "tests/pyg/stand_in"))
        for flag in ("PYG_LIB", "EDGE_TIME_NEIGHBOR_SAMPLE", "WEIGHTED_NEIGHBOR_SAMPLE"):
            monkeypatch.setattr(torch_geometric.typing, f"WITH_{flag}", True)
        import pyg_lib  # noqa: F401
    yield torch_geometric.sampler.BidirectionalNeighborSampler
    if "stand_in" in str(getattr(sys.modules.get("pyg_lib"), "__file__", "")):
        del sys.modules["pyg_lib"]
        for name in ("neighbor_sample", "hetero_neighbor_sample"):
            delattr(torch.ops.pyg, name)


@pytest.mark.parametrize("hops", [1, 2])
def test_the_nodes_and_ends_are_those_of_pygs_class(stock, homogeneous, homogeneous_path, hops):
    theirs = sample(stock(homogeneous, [-1] * hops), [5, 2, 9])
    for data in (homogeneous, homogeneous_path):
        ours = sample(gz_pyg.BidirectionalNeighborSampler(data, [-1] * hops), [5, 2, 9])
        assert sum(ours.num_sampled_nodes) == sum(theirs.num_sampled_nodes)
        assert set(ours.node.tolist()) == set(theirs.node.tolist())
        ends = {tuple(e) for e in torch.stack([ours.global_row, ours.global_col], 1).tolist()}
        want = {tuple(e) for e in torch.stack([theirs.global_row, theirs.global_col], 1).tolist()}
        assert ends == want


def test_edges_have_one_numbering_whichever_way_they_were_found(homo, homogeneous):
    """In memory, the two directions are sorted differently; in a store they share the rows of the columns."""
    sampler = gz_pyg.BidirectionalNeighborSampler(homo, [3, 2])
    seed_everything(2)
    for batch in gz_pyg.NodeLoader(homo, sampler, batch_size=25):
        check_homogeneous(batch, homogeneous)
        assert batch.e_id.unique().numel() == batch.e_id.numel()
        assert sum(batch.num_sampled_edges) == batch.num_edges


@pytest.mark.parametrize("options", [{}, {"disjoint": True}, {"weight_attr": "weight"}, {"replace": True}])
def test_prefetch_changes_nothing(homo, options):
    def batches(depth):
        seed_everything(2)
        sampler = gz_pyg.BidirectionalNeighborSampler(homo, [3, 2], **options)
        return list(gz_pyg.NodeLoader(homo, sampler, batch_size=30, shuffle=True, prefetch=depth))

    want = batches(0)
    same_batches(want, batches(None))
    for batch in want:
        assert bool((batch.n_id.bincount() <= (30 if options.get("disjoint") else 1)).all())


def test_times_hold_in_both_directions(homo, homogeneous):
    sampler = gz_pyg.BidirectionalNeighborSampler(homo, [-1, -1], time_attr="time")
    (batch,) = gz_pyg.NodeLoader(homo, sampler, torch.arange(20), batch_size=20)
    check_homogeneous(batch, homogeneous)
    limits = homogeneous.time[:20][batch.batch]
    assert bool((batch.time <= limits).all())
    assert batch.num_nodes > 20


@pytest.mark.parametrize("subgraph_type", ["induced", "bidirectional"])
def test_other_subgraphs(homo, homogeneous, subgraph_type):
    sampler = gz_pyg.BidirectionalNeighborSampler(homo, [-1], subgraph_type=subgraph_type)
    out = sample(sampler, [4])
    row, col = homogeneous.edge_index
    ends = homogeneous.edge_index[:, out.edge]
    if subgraph_type == "induced":
        inside = torch.isin(row, out.node) & torch.isin(col, out.node)
        assert torch.equal(out.edge.sort()[0], inside.nonzero().view(-1))
        assert torch.equal(out.node[torch.stack([out.row, out.col])], ends)
    else:
        forth = set(zip(out.row.tolist(), out.col.tolist(), strict=True))
        assert forth == {(b, a) for a, b in forth}
        assert {out.node[e].item() for e in out.row} == set(ends.view(-1).tolist())


def test_several_types(hetero, heterogeneous):
    sampler = gz_pyg.BidirectionalNeighborSampler(hetero, [-1])
    (batch,) = gz_pyg.NodeLoader(hetero, sampler, ("paper", [7, 8]), batch_size=2)
    check_heterogeneous(batch, heterogeneous)
    papers = torch.tensor([7, 8])
    for e, storage in heterogeneous.edge_items():
        row, col = storage.edge_index
        from_there = torch.isin(row, papers) if e[0] == "paper" else torch.zeros_like(row, dtype=torch.bool)
        touched = from_there | (torch.isin(col, papers) if e[2] == "paper" else False)
        assert torch.equal(batch[e].e_id.sort()[0], touched.nonzero().view(-1))


def test_draws_are_uniform_in_each_direction(rng_seed):
    torch.manual_seed(rng_seed)
    data = Data(edge_index=torch.tensor([[1, 2, 3, 0, 0, 0, 0], [0, 0, 0, 4, 5, 6, 7]]), num_nodes=8)
    sampler = gz_pyg.BidirectionalNeighborSampler(data, [1])
    counts = np.zeros((3, 4))
    for _ in range(2400):
        out = sample(sampler, [0])
        into, out_of = sorted(out.edge.tolist())
        counts[into, out_of - 3] += 1
    assert stats.chisquare(counts.ravel()).pvalue > LIKELY


def test_the_graph_store_for_retrieval_takes_it(homogeneous):
    """torch_geometric.llm's graph store, the user of PyG's class: edge ids are those of the edges put in."""
    from torch_geometric.data import TensorAttr
    from torch_geometric.distributed import LocalFeatureStore

    store_module = pytest.importorskip("torch_geometric.llm.utils.graph_store")

    class Store(store_module.NeighborSamplingRAGGraphStore):
        def _init_sampler(self):
            self.sampler = gz_pyg.BidirectionalNeighborSampler((self.feature_store, self), self.num_neighbors)
            self._sampler_is_initialized = True

    features = LocalFeatureStore()
    features.put_tensor(homogeneous.x, TensorAttr(None, "x", None))
    store = Store(features)
    store.meta = {"is_hetero": False}
    store.config = {"num_neighbors": [-1, -1]}
    store.edge_index = homogeneous.edge_index
    out = store.sample_subgraph(torch.tensor([3, 3, 1]))
    assert torch.equal(out.node[torch.stack([out.row, out.col])], homogeneous.edge_index[:, out.edge])
    _, edges = reached(homogeneous.edge_index, [1, 3], 2)
    assert sorted(out.edge.tolist()) == sorted(e for hop in edges for e in hop)
