"""What PyG says of edges is said of a store's without reading them all into memory, and is the same."""

from __future__ import annotations

import copy

import pytest
import torch
from pyg_batches import equal
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import coalesce, sort_edge_index, to_undirected

import gz
import gz_pyg


def edges(n, e):
    return torch.randint(n, (2, e))


def both_ways(n, e):
    ends = edges(n, e)
    return torch.cat([ends, ends.flip(0)], 1)[:, torch.randperm(2 * e)]


def with_attr(ends, attr, n=20):
    return Data(edge_index=ends, edge_attr=attr, num_nodes=n)


def symmetric_with_attr(wrong=0):
    """Edges that occur several times, each with as many back, with the same values in the same order."""
    pairs = torch.tensor([[0, 0, 1, 3, 5], [1, 1, 2, 3, 4]])
    values = torch.tensor([1.5, 2.5, -0.0, 3.0, 7.0])
    ends, back = torch.cat([pairs, pairs.flip(0)], 1), values.clone()
    back[2] = 0.0
    back[wrong] += 1 if wrong else 0
    return with_attr(ends, torch.cat([values, back]), 6)


GRAPHS = {
    "random": lambda: Data(edge_index=edges(20, 60), num_nodes=20),
    "undirected": lambda: Data(edge_index=both_ways(20, 40), num_nodes=20),
    "all but one edge undirected": lambda: Data(edge_index=both_ways(20, 40)[:, 1:], num_nodes=20),
    "as many edges, one turned": lambda: Data(
        edge_index=torch.tensor([[0, 1, 2, 3, 0, 1], [1, 0, 3, 2, 2, 1]]), num_nodes=4
    ),
    "by PyG": lambda: Data(edge_index=to_undirected(edges(20, 30)), num_nodes=20),
    "sorted by row": lambda: Data(edge_index=sort_edge_index(edges(20, 60)), num_nodes=20),
    "sorted by column": lambda: Data(
        edge_index=sort_edge_index(edges(20, 60), sort_by_row=False), num_nodes=20
    ),
    "coalesced": lambda: Data(edge_index=coalesce(edges(20, 60)), num_nodes=20),
    "coalesced but for its end": lambda: Data(
        edge_index=torch.tensor([[0, 0, 1, 1], [1, 2, 0, 0]]), num_nodes=4
    ),
    "no loops": lambda: Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3),
    "a loop": lambda: Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 2]]), num_nodes=3),
    "a node with a loop only": lambda: Data(edge_index=torch.tensor([[0, 1, 2], [1, 0, 2]]), num_nodes=3),
    "only sources": lambda: Data(edge_index=torch.tensor([[0, 1], [2, 2]]), num_nodes=3),
    "nodes without edges": lambda: Data(edge_index=edges(10, 60), num_nodes=30),
    "no edges": lambda: Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=3),
    "values both ways": symmetric_with_attr,
    "other values one way": lambda: symmetric_with_attr(wrong=3),
    "values in another order one way": lambda: with_attr(
        torch.tensor([[0, 0, 1, 1], [1, 1, 0, 0]]), torch.tensor([1.0, 2.0, 2.0, 1.0]), 2
    ),
    "a value that is no number": lambda: with_attr(
        torch.tensor([[0, 1], [1, 0]]), torch.tensor([float("nan")] * 2), 2
    ),
    "rows of integers": lambda: with_attr(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[1, 2], [1, 2]]), 2),
    "other rows of integers": lambda: with_attr(
        torch.tensor([[0, 1], [1, 0]]), torch.tensor([[1, 2], [2, 1]]), 2
    ),
}
QUESTIONS = {
    "is_undirected": lambda d: d.is_undirected(),
    "is_directed": lambda d: d.is_directed(),
    "has_self_loops": lambda d: d.has_self_loops(),
    "has_isolated_nodes": lambda d: d.has_isolated_nodes(),
    "is_sorted": lambda d: d.is_sorted(),
    "is_sorted by column": lambda d: d.is_sorted(sort_by_row=False),
    "is_coalesced": lambda d: d.is_coalesced(),
}


@pytest.fixture(params=[1 << 20, 3])
def pieces(request, monkeypatch):
    """Edges looked at at once."""
    monkeypatch.setattr("gz_pyg._store.edge_facts._EDGES", request.param)


def answers(data):
    return {name: ask(data) for name, ask in QUESTIONS.items()}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_store_answers_as_a_graph_in_memory(name, tmp_path, monkeypatch, pieces):
    memory = GRAPHS[name]()
    loaded = gz_pyg.load(gz_pyg.save(memory, tmp_path / "s"))
    monkeypatch.setattr(
        "gz_pyg._store.stored.StoredEdgeIndex._make", lambda _: pytest.fail("all edges were read")
    )
    assert answers(loaded) == answers(memory)


def test_a_store_without_edge_ids_answers_by_the_edges_it_shows(tmp_path, pieces):
    for options in ({}, {"undirected": True}, {"coalesce": True}, {"self_loops": "add"}):
        path = tmp_path / "-".join(["s", *options])
        gz.ingest(path, edges=edges(20, 60).numpy(), num_nodes=20, progress=False, **options)
        loaded = gz_pyg.load(path)
        assert answers(loaded) == answers(loaded.to_data())


@pytest.mark.parametrize("turned", [False, True])
def test_several_types_answer_as_in_memory(turned, tmp_path, monkeypatch, pieces):
    memory = HeteroData()
    memory["a"].num_nodes, memory["b"].num_nodes = 7, 9
    ends = torch.stack([torch.randint(7, (30,)), torch.randint(9, (30,))])
    memory["a", "to", "b"].edge_index = ends
    memory["b", "rev_to", "a"].edge_index = ends.flip(0)[:, torch.randperm(30)]
    memory["a", "near", "a"].edge_index = both_ways(7, 20)
    if turned:
        memory["a", "near", "a"].edge_index[:, 0] = torch.tensor([0, 1])
        memory["a", "near", "a"].edge_index[:, 1] = torch.tensor([0, 1])
    loaded = gz_pyg.load(gz_pyg.save(memory, tmp_path / "s"))
    with monkeypatch.context() as m:
        m.setattr("gz_pyg._store.stored.StoredEdgeIndex._make", lambda _: pytest.fail("all edges were read"))
        assert answers(loaded) == answers(memory)
        for t in memory.edge_types:
            assert answers(loaded[t]) == answers(memory[t])
    for d in (loaded, memory):
        d["a", "near", "a"].edge_index = torch.tensor([[0], [1]]) if turned else ends[:, :0]
    assert answers(loaded) == answers(memory)
    assert loaded.is_undirected() == (not turned)


def test_edges_that_were_written_count(homogeneous, homogeneous_path):
    loaded, memory = gz_pyg.load(homogeneous_path), copy.copy(homogeneous)
    memory.edge_index = loaded.edge_index = coalesce(homogeneous.edge_index)
    for d in (loaded, memory):
        for name in ("edge_attr", "edge_time", "weight"):
            del d[name]
    assert answers(loaded) == answers(memory)
    assert loaded.is_coalesced()
    written = gz_pyg.load(homogeneous_path)
    written.edge_index[:, :] = torch.tensor([[0], [0]])
    assert written.has_self_loops()
    assert written.has_isolated_nodes()


def test_sort_and_coalesce_give_what_pygs_give(homogeneous, homogeneous_path):
    loaded = gz_pyg.load(homogeneous_path)
    equal(loaded.sort(), homogeneous.sort())
    equal(loaded.sort(sort_by_row=False), homogeneous.sort(sort_by_row=False))
    got, want = loaded.coalesce(), homogeneous.coalesce()
    assert torch.equal(got.edge_index, want.edge_index)
    assert torch.equal(got.edge_attr, want.edge_attr)
    assert got.is_coalesced()
    assert not loaded.is_coalesced()  # they gave copies


@pytest.mark.parametrize("call", ["sort", "coalesce"])
def test_what_would_not_fit_is_refused_before_it_is_read(homogeneous_path, monkeypatch, call):
    monkeypatch.setattr("gz._base.memory_plan.free_ram", lambda: 64 * 600)
    with pytest.raises(MemoryError, match=f"to {call} .* would take 67.2 kB"):
        getattr(gz_pyg.load(homogeneous_path), call)()
