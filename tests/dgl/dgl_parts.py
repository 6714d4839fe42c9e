"""Partitions read as DGL reads them, in terms of the ids of the graph they were made from."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO

import dgl
import torch
from dgl.distributed import load_partition


def by_dgl(g, folder, num_parts, assignment, monkeypatch):
    """dgl.distributed.partition_graph with a given assignment: (config, orig_nids, orig_eids)."""
    monkeypatch.setattr(dgl.distributed.partition, "metis_partition_assignment", lambda *_, **__: assignment)
    with redirect_stdout(StringIO()):
        nids, eids = dgl.distributed.partition_graph(
            g, "graph", num_parts, str(folder), part_method="metis", return_mapping=True
        )
    return f"{folder}/graph.json", nids, eids


def typed(ids, types):
    """{type: ids}, of a tensor where there is one type."""
    return ids if isinstance(ids, dict) else {types[0]: ids}


def read(config, part, orig_nids, orig_eids):
    """A part with every id an original one:

    nodes   {(type, id): (own, part)}
    edges   {(type, id): (source type, source, destination type, destination, own)}
    columns {"type/name": {id: row}}
    """
    g, node_feats, edge_feats, book, _, ntypes, etypes = load_partition(config, part)
    orig_nids, orig_eids = typed(orig_nids, ntypes), typed(orig_eids, etypes)
    type_ids, ids = book.map_to_per_ntype(g.ndata[dgl.NID])
    names = [
        (ntypes[t], int(orig_nids[ntypes[t]][i]))
        for t, i in zip(type_ids.tolist(), ids.tolist(), strict=True)
    ]
    if dgl.NTYPE in g.ndata:
        assert torch.equal(g.ndata[dgl.NTYPE].long(), type_ids.long())
    facts = zip(g.ndata["inner_node"].tolist(), g.ndata["part_id"].tolist(), strict=True)
    nodes = dict(zip(names, facts, strict=True))
    type_ids, ids = book.map_to_per_etype(g.edata[dgl.EID])
    if dgl.ETYPE in g.edata:
        assert torch.equal(g.edata[dgl.ETYPE].long(), type_ids.long())
    edges = {}
    ends = zip(*(e.tolist() for e in g.edges()), strict=True)
    inner = g.edata["inner_edge"].tolist()
    for (u, v), t, i, own in zip(ends, type_ids.tolist(), ids.tolist(), inner, strict=True):
        edges[etypes[t], int(orig_eids[etypes[t]][i])] = (*names[u], *names[v], own)
    assert len(nodes) == g.num_nodes()
    assert len(edges) == g.num_edges()
    columns = {}
    for t in ntypes:
        mine = orig_nids[t][book.partid2nids(part, t)].tolist()
        columns |= {k: _rows(mine, v) for k, v in node_feats.items() if k.partition("/")[0] == t}
    for t in etypes:
        mine = orig_eids[t][book.partid2eids(part, t)].tolist()
        columns |= {k: _rows(mine, v) for k, v in edge_feats.items() if k.partition("/")[0] == ":".join(t)}
    assert set(columns) == {*node_feats, *edge_feats}
    return nodes, edges, columns


def _rows(ids, values):
    rows = dict(zip(ids, values.tolist(), strict=True))
    return values.dtype, rows


def assignment_of(config, orig_nids, g):
    """The part of each node, type after type, as a partitioned folder has it."""
    book, _, _, _ = dgl.distributed.load_partition_book(config, 0)
    out = []
    for t in g.ntypes:
        parts = torch.empty(g.num_nodes(t), dtype=torch.int64)
        for p in range(book.num_partitions()):
            parts[typed(orig_nids, g.ntypes)[t][book.partid2nids(p, t)]] = p
        out.append(parts)
    return torch.cat(out)
