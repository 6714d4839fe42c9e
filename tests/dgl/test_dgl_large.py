"""No batch costs memory or page faults in proportion to the graph: 111 M nodes in sparse files."""

from __future__ import annotations

import json
import subprocess
import sys

import dgl
import numpy as np
import pytest
import sparse_store
import torch

import gz_dgl

# A single byte per node would be 111 MB and 27,000 page faults. Faults on the files count too, their memory
# does not.
MAX_GROWTH, MAX_FAULTS = 60e6, 25_000

PROGRAM = """
import ctypes, json, resource, sys, warnings
# Without huge pages every 4 KiB of memory that is touched is a fault, also what is freed again at once.
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)
warnings.simplefilter("ignore")
import torch, gz_dgl, dgl
from dgl.dataloading import *
def memory(name):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(name))
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def loop(g, batches, *given):
    for _ in zip(range(batches), DataLoader(g, *given, batch_size=100)):
        pass
path, small, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
used = {}
for name, work in json.loads(sys.argv[4]).items():
    # A graph of the usual size first: what libraries set up once is not counted.
    g, ids, edges, batches = gz_dgl.load(small), torch.arange(200), torch.arange(200), 2
    exec(work)
    # Opened anew, so that no case finds the pages of another mapped.
    g, ids, edges, batches = gz_dgl.load(path), torch.arange(first, first + 4000), torch.arange(20_000), 5
    before, faults_before = memory("RssAnon"), faults()
    exec(work)
    used[name] = dict(growth=memory("RssAnon") - before, faults=faults() - faults_before)
print(json.dumps(used))
"""

WORK = {
    "fused": "loop(g, batches, ids, NeighborSampler([4, 4, 4], prefetch_node_feats=['feat', 'label']))",
    "not fused": "loop(g, batches, ids, NeighborSampler([4, 4], fused=False, prefetch_node_feats=['feat']))",
    "labor": "loop(g, batches, ids, LaborSampler([4, 4]))",
    "shadow": "loop(g, batches, ids, ShaDowKHopSampler([3, 3]))",
    "edges": "loop(g, batches, edges, as_edge_prediction_sampler(NeighborSampler([4, 4]), exclude='self', "
    "negative_sampler=negative_sampler.Uniform(1)))",
    "global negatives": "loop(g, batches, edges, as_edge_prediction_sampler(NeighborSampler([4, 4]), "
    "negative_sampler=negative_sampler.GlobalUniform(1)))",
}
# Last, when what the others have freed could hide most.
TOO_MUCH = "kept = torch.ones(g.num_nodes(), dtype=torch.int8)"


@pytest.fixture(scope="module")
def great(tmp_path_factory):
    return sparse_store.make(tmp_path_factory.mktemp("great"))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    rng = torch.Generator().manual_seed(0)
    g = dgl.graph(tuple(torch.randint(0, 300, (2, 3000), generator=rng)), num_nodes=300)
    g.ndata["feat"], g.ndata["label"] = torch.zeros(300, 128), torch.zeros(300, dtype=torch.int64)
    path = tmp_path_factory.mktemp("small") / "s"
    gz_dgl.save(g, path)
    return path


@pytest.fixture(scope="module")
def used(great, small):
    """{name: memory and page faults}, measured one after the other in a process of their own."""
    path, busy, _ = great
    work = json.dumps(WORK | {"a byte per node": TOO_MUCH})
    command = [sys.executable, "-c", PROGRAM, str(path), str(small), str(int(busy[0])), work]
    done = subprocess.run(command, capture_output=True, text=True, cwd=path)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_a_batch_costs_nothing_in_proportion_to_the_graph(used, name):
    assert used[name]["growth"] < MAX_GROWTH
    assert used[name]["faults"] < MAX_FAULTS


@pytest.mark.slow
def test_the_measurement_sees_a_byte_per_node(used):
    assert used["a byte per node"]["growth"] > MAX_GROWTH
    assert used["a byte per node"]["faults"] > MAX_FAULTS


def test_samples_and_features_are_right_at_this_size(great):
    path, busy, neighbours = great
    g = gz_dgl.load(path)
    assert g.num_nodes() == sparse_store.NODES
    assert g.num_edges() == sparse_store.EDGES
    seeds = torch.from_numpy(busy[:50])
    block = g.sample_neighbors_fused(seeds, -1)
    src = block.srcdata[dgl.NID][block.edges()[0]].view(50, -1)
    assert np.array_equal(src.numpy(), neighbours[:50])
    assert torch.equal(block.dstdata["feat"][:, 0], (seeds % 1000).float())
    assert torch.equal(block.dstdata["label"], seeds % 7)
    assert torch.equal(g.find_edges(torch.arange(20))[1], seeds[:2].repeat_interleave(10))
    assert g.in_degrees(seeds).tolist() == [10] * 50
    assert g.subgraph(seeds).num_nodes() == 50


def test_what_would_need_the_whole_graph_is_refused_at_this_size(great):
    g = gz_dgl.load(great[0])
    for refused in (
        lambda: g.edges(),
        lambda: g.edges(form="eid"),
        lambda: g.sample_neighbors(torch.tensor([5]), 2, edge_dir="out"),
        lambda: dgl.reverse(g),
        lambda: g.update_all(dgl.function.copy_u("feat", "m"), dgl.function.sum("m", "s")),
        lambda: next(
            iter(dgl.dataloading.DataLoader(g, torch.arange(1), dgl.dataloading.SAINTSampler("edge", 10)))
        ),
    ):
        with pytest.raises(dgl.DGLError, match="GB of memory; the limit is 2.0 GB"):
            refused()
