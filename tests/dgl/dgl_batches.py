"""What holds for the blocks of every mini-batch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import dgl
import torch


def tensors_in(value):
    return list(value.values()) if isinstance(value, Mapping) else [value]


def check_batch(g, input_nodes, output_nodes, blocks):
    """Ids in the graph's idtype, blocks that hang together, features of the right nodes and edges."""
    assert all(t.dtype == g.idtype for t in tensors_in(input_nodes) + tensors_in(output_nodes))
    for inner, outer in pairwise(blocks):
        for t in g.ntypes:
            assert torch.equal(inner.dstnodes[t].data[dgl.NID], outer.srcnodes[t].data[dgl.NID])
    for block in blocks:
        assert block.idtype == g.idtype
        for t in g.ntypes:
            src, dst = block.srcnodes[t].data[dgl.NID], block.dstnodes[t].data[dgl.NID]
            assert torch.equal(src[: len(dst)], dst)
            assert len(torch.unique(src)) == len(src)
            if "feat" in g.nodes[t].data:
                assert torch.equal(block.srcnodes[t].data["feat"], g.nodes[t].data["feat"][src.long()])
        for t in g.canonical_etypes:
            ids = block.edges[t].data[dgl.EID]
            u, v = block.edges(etype=t)
            wanted_u, wanted_v = g.find_edges(ids, etype=t)
            assert torch.equal(block.srcnodes[t[0]].data[dgl.NID][u.long()], wanted_u)
            assert torch.equal(block.dstnodes[t[2]].data[dgl.NID][v.long()], wanted_v)
            for name in g.edges[t].data:
                assert torch.equal(block.edges[t].data[name], g.edges[t].data[name][ids.long()])
