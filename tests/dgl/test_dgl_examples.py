"""The examples: a load line and an import away from their in-memory originals, and they learn as well."""

from __future__ import annotations

import difflib
import re

import dgl
import numpy as np
import pytest
import ready
import torch
from graphs import community_graph

import gz_dgl

NAMES = ["node_classification", "link_prediction", "rgcn"]


def community():
    """The learnable graph of the engine's tests, every edge followed by its reverse in the second half."""
    e = community_graph(1500, communities=5, degree=6)
    g = dgl.graph((np.concatenate([e.src, e.dst]), np.concatenate([e.dst, e.src])), num_nodes=e.num_nodes)
    g.ndata["feat"], g.ndata["label"] = torch.from_numpy(e.x), torch.from_numpy(e.y)
    g.ndata["train_mask"] = torch.rand(e.num_nodes, generator=torch.Generator().manual_seed(0)) < 0.6
    g.ndata["test_mask"] = ~g.ndata["train_mask"]
    return g


def papers_and_authors():
    g = community()
    rng = torch.Generator().manual_seed(1)
    papers = torch.arange(g.num_nodes())
    authors = g.ndata["label"] * 20 + torch.randint(0, 20, (len(papers),), generator=rng)
    h = dgl.heterograph(
        {
            ("paper", "cites", "paper"): g.edges(),
            ("author", "writes", "paper"): (authors, papers),
            ("paper", "written-by", "author"): (papers, authors),
        }
    )
    for k, v in g.ndata.items():
        h.nodes["paper"].data[k] = v
    h.nodes["author"].data["feat"] = torch.randn(h.num_nodes("author"), 16, generator=rng)
    return h


def run(repository, script, graph, *options, launch=()):
    command = [str(repository / "examples" / script), str(graph), *options]
    done = ready.run([*launch, *command], ready.DGL, cwd=graph.parent, ignore_warnings=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return float(re.findall(r"accuracy ([\d.]+)", done.stdout)[-1])


@pytest.mark.parametrize("name", NAMES)
def test_the_example_differs_from_the_original_by_its_import_and_its_load(repository, name):
    old, new = (
        (repository / "examples" / f"dgl_{name}{s}.py").read_text().splitlines() for s in ("_in_memory", "")
    )
    changed = [line for line in difflib.ndiff(old, new) if line[0] in "+-" and line[2:].strip()]
    assert changed == [
        "+ import gz_dgl",
        "-     g = dgl.load_graphs(args.graph)[0][0]",
        "+     g = gz_dgl.load(args.graph)",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_example_learns_as_well_as_the_original(repository, tmp_path, name):
    g = papers_and_authors() if name == "rgcn" else community()
    dgl.save_graphs(str(tmp_path / "graph.bin"), [g])
    gz_dgl.save(g, tmp_path / "store")
    options = ("--epochs", "2" if name == "link_prediction" else "4", "--batch-size", "256")
    theirs = run(repository, f"dgl_{name}_in_memory.py", tmp_path / "graph.bin", *options)
    ours = run(repository, f"dgl_{name}.py", tmp_path / "store", *options)
    assert ours > 0.55
    assert abs(ours - theirs) < 0.06


@pytest.mark.slow
def test_two_processes_learn_with_a_share_of_the_seeds_each(repository, tmp_path):
    gz_dgl.save(community(), tmp_path / "store")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    accuracy = run(
        repository, "dgl_ddp.py", tmp_path / "store", "--epochs", "4", "--batch-size", "128", launch=launch
    )
    assert accuracy > 0.55
