"""What holds for every mini-batch of the graphs in conftest.py, and when two graphs are equal."""

from __future__ import annotations

import torch


def check_homogeneous(batch, data):
    """Every edge of the batch is an edge of the graph, and every row is the row of its node or edge."""
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    for name in ("x", "y", "time"):
        assert torch.equal(batch[name], data[name][batch.n_id])
    for name in ("edge_attr", "weight", "edge_time"):
        assert torch.equal(batch[name], data[name][batch.e_id])
    assert batch.num_nodes == batch.n_id.numel()


def check_heterogeneous(batch, data):
    for t in data.node_types:
        if "x" in data[t]:
            assert torch.equal(batch[t].x, data[t].x[batch[t].n_id])
        assert batch[t].num_nodes == batch[t].n_id.numel()
    for t in data.edge_types:
        part, (row, col) = batch[t], batch[t].edge_index
        ends = torch.stack([batch[t[0]].n_id[row], batch[t[2]].n_id[col]])
        assert torch.equal(ends, data[t].edge_index[:, part.e_id])
        assert torch.equal(part.edge_attr, part.e_id)
        assert torch.equal(part.weight, data[t].weight[part.e_id])


def equal(a, b):
    """Whether two graphs hold the same, attribute by attribute."""
    assert [s._key for s in a.stores if s._key] == [s._key for s in b.stores if s._key]
    for x, y in zip(a.stores, b.stores, strict=True):
        assert set(x.keys()) == set(y.keys())
        for name in x.keys():  # noqa: SIM118
            if isinstance(x[name], torch.Tensor):
                assert torch.equal(x[name].cpu(), y[name].cpu()), name
            else:
                assert x[name] == y[name], name


def same_batches(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        equal(x, y)
