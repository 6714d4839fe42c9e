"""Stands in for pyg-lib, which has no wheel here: its two samplers, slow and plain, by pyg-lib's signatures.

With it PyG's own loaders run, over gz's stores and over graphs in memory. That shows that what they hand on
is what pyg-lib is documented to take: the arguments in their order, one dtype, contiguous arrays, offsets
that fit. It does not show that pyg-lib itself is happy.
"""

from __future__ import annotations

import random
from types import SimpleNamespace

import torch


def _check(colptr, row, *others):
    for t in (colptr, row, *others):
        assert t.dtype == colptr.dtype, "pyg-lib takes one integer type"
        assert t.is_contiguous()
        assert t.device.type == "cpu"
        assert t.dim() == 1
    assert colptr[0] == 0
    assert int(colptr[-1]) == row.numel()


class _Nodes:
    """The nodes of one type, numbered as they are met."""

    def __init__(self):
        self.ids, self.trees, self.numbers = [], [], {}

    def number(self, tree, node):
        if (tree, node) not in self.numbers:
            self.numbers[tree, node] = len(self.ids)
            self.ids.append(node)
            self.trees.append(tree)
        return self.numbers[tree, node]

    def tensor(self, disjoint):
        ids = torch.tensor(self.ids, dtype=torch.int64)
        return torch.stack([torch.tensor(self.trees, dtype=torch.int64), ids], 1) if disjoint else ids


def _sample(types, seeds, replace, disjoint, last):
    """types: (source type, destination type, colptr, row, fanouts, node time, edge time) by name."""
    nodes = {t: _Nodes() for name in types for t in types[name][:2]}
    limits, tree = {}, 0
    for t, (ids, times) in seeds.items():
        table = nodes.setdefault(t, _Nodes())
        for i, node in enumerate(ids.tolist()):
            table.number(tree if disjoint else 0, node)
            limits[tree] = None if times is None else int(times[i])
            tree += 1
    begin = dict.fromkeys(nodes, 0)
    out = {name: ([], [], []) for name in types}
    node_counts = {t: [len(table.ids)] for t, table in nodes.items()}
    edge_counts = {name: [] for name in types}
    hops = max((len(t[4]) for t in types.values()), default=0)
    for hop in range(hops):
        end = {t: len(table.ids) for t, table in nodes.items()}
        for name, (src, dst, colptr, row, fanouts, node_time, edge_time) in types.items():
            before = len(out[name][0])
            for local in range(begin[dst], end[dst]):
                node, tree = nodes[dst].ids[local], nodes[dst].trees[local]
                edges = range(colptr[node], colptr[node + 1])
                limit = limits.get(tree) if disjoint else None
                if limit is not None and node_time is not None:
                    edges = [e for e in edges if node_time[row[e]] <= limit]
                if limit is not None and edge_time is not None:
                    edges = [e for e in edges if edge_time[e] <= limit]
                k = fanouts[hop]
                if replace and k >= 0 and len(edges):
                    edges = random.choices(edges, k=k)
                elif 0 <= k < len(edges):
                    edges = list(edges)[-k:] if last and k else sorted(random.sample(list(edges), k))
                for e in edges:
                    out[name][0].append(nodes[src].number(tree, row[e]))
                    out[name][1].append(local)
                    out[name][2].append(e)
            edge_counts[name].append(len(out[name][0]) - before)
        for t, table in nodes.items():
            node_counts[t].append(len(table.ids) - end[t])
        begin = end
    return nodes, out, node_counts, edge_counts


def _tensor(values):
    return torch.tensor(values, dtype=torch.int64)


def neighbor_sample(
    rowptr,
    col,
    seed,
    num_neighbors,
    node_time=None,
    edge_time=None,
    seed_time=None,
    edge_weight=None,
    csc=False,
    replace=False,
    directed=True,
    disjoint=False,
    temporal_strategy="uniform",
    return_edge_id=True,
):
    assert csc
    assert directed
    assert return_edge_id
    assert edge_weight is None
    _check(rowptr, col, seed)
    times = [None if t is None else t.tolist() for t in (node_time, edge_time)]
    if node_time is not None and seed_time is None:
        seed_time = node_time[seed]
    types = {"": ("", "", rowptr.tolist(), col.tolist(), num_neighbors, *times)}
    sampled = _sample(types, {"": (seed, seed_time)}, replace, disjoint, temporal_strategy == "last")
    nodes, out, node_counts, edge_counts = sampled
    row, column, edge = (_tensor(v) for v in out[""])
    return row, column, nodes[""].tensor(disjoint), edge, node_counts[""], edge_counts[""]


def hetero_neighbor_sample(
    node_types,
    edge_types,
    rowptr_dict,
    col_dict,
    seed_dict,
    num_neighbors_dict,
    node_time_dict=None,
    edge_time_dict=None,
    seed_time_dict=None,
    edge_weight_dict=None,
    csc=False,
    replace=False,
    directed=True,
    disjoint=False,
    temporal_strategy="uniform",
    return_edge_id=True,
):
    assert csc
    assert directed
    assert return_edge_id
    assert edge_weight_dict is None
    types = {}
    for src, relation, dst in edge_types:
        name = f"{src}__{relation}__{dst}"
        assert src in node_types
        assert dst in node_types
        _check(rowptr_dict[name], col_dict[name], *seed_dict.values())
        node_time = (node_time_dict or {}).get(src)
        edge_time = (edge_time_dict or {}).get(name)
        times = [None if t is None else t.tolist() for t in (node_time, edge_time)]
        arrays = rowptr_dict[name].tolist(), col_dict[name].tolist()
        types[name] = (src, dst, *arrays, num_neighbors_dict[name], *times)
    seeds = {}
    for t, ids in seed_dict.items():
        time = (seed_time_dict or {}).get(t)
        if time is None and node_time_dict is not None:
            time = node_time_dict[t][ids]
        seeds[t] = (ids, time)
    sampled = _sample(types, seeds, replace, disjoint, temporal_strategy == "last")
    nodes, out, node_counts, edge_counts = sampled
    rows, cols, edges = ({name: _tensor(v[i]) for name, v in out.items()} for i in range(3))
    missing = {t: _Nodes() for t in node_types if t not in nodes}
    ids = {t: table.tensor(disjoint) for t, table in {**nodes, **missing}.items()}
    hops = max((len(c) for c in edge_counts.values()), default=0)
    node_counts |= {t: [0] * (hops + 1) for t in missing}
    return rows, cols, ids, edges, node_counts, edge_counts


ops = SimpleNamespace()
sampler = SimpleNamespace(neighbor_sample=neighbor_sample)
torch.ops.pyg.neighbor_sample = neighbor_sample
torch.ops.pyg.hetero_neighbor_sample = hetero_neighbor_sample
