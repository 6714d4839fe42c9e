"""gz_dgl.save(directions=...): what is stored, which samplers of DGL it serves, what the rest are told."""

from __future__ import annotations

import dgl
import numpy as np
import pytest
import torch
from dgl_graphs import edges_by_id, games, random_graph, same_graph

import gz
import gz_dgl

SEEDS = torch.tensor([3, 9, 4])
# Everything of DGL that follows edges out of nodes.
OUT = {
    "sample_neighbors": lambda g: g.sample_neighbors(SEEDS, 2, edge_dir="out"),
    "sampler": lambda g: dgl.dataloading.NeighborSampler([2], edge_dir="out").sample_blocks(g, SEEDS),
    "out_edges": lambda g: g.out_edges(SEEDS),
    "successors": lambda g: g.successors(3),
    "out_subgraph": lambda g: dgl.out_subgraph(g, SEEDS),
    "random_walk": lambda g: dgl.sampling.random_walk(g, SEEDS, length=2),
    "node2vec_random_walk": lambda g: dgl.sampling.node2vec_random_walk(g, SEEDS, 1.0, 1.0, 2),
}


def files(path):
    return sorted(p.name for p in path.glob("edges/*/*.gl"))


@pytest.mark.parametrize("make", [random_graph, games])
@pytest.mark.parametrize("directions", ["in", "both"])
def test_the_graph_comes_back_equal(tmp_path, make, directions):
    g = make()
    h = gz_dgl.load(gz_dgl.save(g, tmp_path / "s", directions=directions))
    same_graph(g, h)
    stored = ["in.gl"] if directions == "in" else ["in.gl", "out.gl"]
    assert files(tmp_path / "s") == sorted(stored * len(g.etypes))
    assert not [error for _, error in gz.verify(tmp_path / "s") if error]


def test_both_are_stored_unless_told_otherwise(tmp_path):
    gz_dgl.save(random_graph(), tmp_path / "s")
    assert files(tmp_path / "s") == ["in.gl", "out.gl"]


@pytest.mark.parametrize("way", ["in", "out"])
@pytest.mark.parametrize("directions", ["in", "both"])
def test_samples_of_all_neighbours_are_dgls(tmp_path, directions, way):
    """From in-edges alone out-edges are found too, while they fit into memory."""
    g = random_graph()
    h = gz_dgl.load(gz_dgl.save(g, tmp_path / "s", directions=directions))
    found, expected = (k.sample_neighbors(SEEDS, -1, edge_dir=way) for k in (h, g))
    assert edges_by_id(found) == edges_by_id(expected)
    ends = g.find_edges(found.edata[dgl.EID])
    assert torch.isin(ends[1 if way == "in" else 0], SEEDS).all()


@pytest.mark.parametrize("name", OUT)
def test_out_edges_that_are_not_stored_and_do_not_fit_are_asked_for_by_name(tmp_path, name):
    path = gz_dgl.save(random_graph(), tmp_path / "s", directions="in")
    h = gz_dgl.load(path, memory=100)
    with pytest.raises(dgl.DGLError, match=r"grouped by source.*directions='both' \(gz_dgl.save's default"):
        OUT[name](h)
    # DGL's default, edges into nodes, needs none of it.
    _, _, (block,) = dgl.dataloading.NeighborSampler([2]).sample_blocks(h, SEEDS)
    assert block.num_edges() > 0


@pytest.mark.parametrize("name", OUT)
def test_both_serve_them_in_no_memory(tmp_path, name):
    h = gz_dgl.load(gz_dgl.save(random_graph(), tmp_path / "s", directions="both"), memory=100)
    OUT[name](h)


def test_out_alone_is_for_gz_and_dgl_is_told_what_is_missing(tmp_path):
    g = random_graph()
    path = gz_dgl.save(g, tmp_path / "s", directions="out")
    assert files(tmp_path / "s") == ["out.gl"]
    graph = gz.open(path).graph(direction="out")
    u, v, _ = g.edges(form="all")
    order = np.argsort(u.numpy(), kind="stable")
    assert np.array_equal(graph.indices, v.numpy()[order])
    assert np.array_equal(graph.edge_ids, order)
    assert np.array_equal(gz.open(path).edge_feature("e")[:], g.edata["e"].numpy()[order])
    with pytest.raises(
        ValueError, match="not stored in direction 'in', by which DGL.*directions='in' or 'both'"
    ):
        gz_dgl.load(path)


def test_another_word_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="directions='forward': choose one of 'in', 'out', 'both'"):
        gz_dgl.save(random_graph(), tmp_path / "s", directions="forward")
    assert not list(tmp_path.iterdir())
