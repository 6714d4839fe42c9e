"""Programs written as PyG's examples are, on graphs in memory and on the same graphs in stores, with equal
seeds: they draw the same batches and learn the same, to the bit."""

from __future__ import annotations

import gc

import pyg_datasets as made
import pyg_ddp_program
import pyg_hetero_programs as hetero
import pyg_node_programs as nodes
import pytest
import torch
from torch_geometric import seed_everything

import gz_pyg

LOADERS = (gz_pyg.NeighborLoader, gz_pyg.LinkNeighborLoader, gz_pyg.ShaDowKHopSampler)


@pytest.fixture(autouse=True)
def one_thread_and_no_workers_left():
    """Sums in one order. Persistent workers end here: torch waits five seconds for those of a loader that
    only the garbage collector frees, as PyG's and gz_pyg's are, whose collate_fn is a method of theirs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    for found in gc.get_objects():
        if type(found) in LOADERS:
            found._iterator = None


def learned(program, graphs):
    seed_everything(0)  # numpy and random too: PyG draws negatives with them
    return program(graphs)


PROGRAMS = {
    nodes.graph_sage_unsup: [made.papers],
    nodes.infomax_inductive: [made.papers],
    nodes.reddit: [made.papers],
    nodes.hierarchical_sampling: [made.papers],
    nodes.shadow: [made.papers],
    nodes.ogbn_train: [made.ogbn],
    nodes.ogbn_train_sgformer: [made.ogbn],
    nodes.graph_sage_unsup_ppi: [lambda i=i: made.proteins(i) for i in range(3)],
    hetero.to_hetero_mag: [made.academic],
    hetero.hierarchical_sage: [made.academic],
    hetero.recommender_system: [made.ratings],
    hetero.temporal_link_pred: [made.ratings],
    hetero.bipartite_sage_unsup: [made.shop],
    hetero.mag240m_graphsage: [made.academic_large],
}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_learns_the_same_from_a_store(program, tmp_path):
    graphs = [make() for make in PROGRAMS[program]]
    paths = [gz_pyg.save(graph, tmp_path / f"{i}") for i, graph in enumerate(graphs)]
    theirs = learned(program, graphs)
    ours = learned(program, [gz_pyg.load(path) for path in paths])
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=0, atol=0, msg=lambda m, name=name: f"{name}: {m}")
    assert theirs["losses"].isfinite().all()
    assert len(theirs["losses"].unique()) > 1  # it did learn


@pytest.mark.slow
def test_processes_that_train_together_learn_the_same_from_a_store(tmp_path):
    graph = made.ogbn_nan()
    path = gz_pyg.save(graph, tmp_path / "store")
    for memory, store in pyg_ddp_program.learned_by_each_rank([graph, gz_pyg.load(path)], tmp_path):
        torch.testing.assert_close(store, memory, rtol=0, atol=0)
        assert len(memory["losses"].unique()) > 1
