"""What an ingest does to edges on disk is what PyG does to them in memory, their columns included."""

from __future__ import annotations

import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import (
    add_remaining_self_loops,
    coalesce,
    is_undirected,
    remove_self_loops,
    to_undirected,
)

import gz
import gz_pyg

COLUMNS = ("w", "attr", "label")


def columns(number):
    """Several columns that grow with the number of the edge, so that of duplicates the first is the least."""
    at = torch.arange(number)
    return {"w": at + 0.5, "attr": at[:, None] + torch.tensor([0.0, 0.25, 0.75]), "label": 7 * at}


def one_way(nodes, generator, number=250):
    """Some edges several times and some self loops (one a node at most), but no edge in both directions."""
    low, high = torch.randint(nodes, (2, number), generator=generator).sort(0)[0]
    turned = (low * 31 + high * 17) % 2 == 0
    pairs = torch.stack([torch.where(turned, low, high), torch.where(turned, high, low)])
    loops = torch.arange(0, nodes, 7).repeat(2, 1)
    pairs = torch.cat([pairs[:, low != high], loops], dim=1)
    return pairs[:, torch.randperm(pairs.size(1), generator=generator)]


@pytest.fixture(params=[0, 1])
def edges(request):
    return one_way(40, torch.Generator().manual_seed(request.param))


def as_rows(edge_index, values):
    """The edges with their columns, in an order that both sides can be brought into."""
    parts = [edge_index.t().double(), *(values[k].double().view(len(values[k]), -1) for k in COLUMNS)]
    return sorted(map(tuple, torch.cat(parts, dim=1).tolist()))


def stored_rows(part):
    return as_rows(part.edge_index, {k: part[k] for k in COLUMNS})


def ingested(tmp_path, edges, **options):
    numpy = {k: v.numpy() for k, v in columns(edges.size(1)).items()}
    gz.ingest(tmp_path / "s", edges=tuple(edges.numpy()), num_nodes=40, edge_features=numpy, **options)
    return gz_pyg.load(tmp_path / "s")


def in_pyg(edges, options):
    """The same by PyG's functions, column by column."""
    number = edges.size(1)
    values = list(columns(number).values())
    if options.get("self_loops") == "remove":
        kept = [remove_self_loops(edges, v) for v in values]
        edges, values = kept[0][0], [v for _, v in kept]
    if options.get("self_loops") == "add":
        kept = [add_remaining_self_loops(edges, v, fill_value=0.0, num_nodes=40) for v in values]
        edges, values = kept[0][0], [v for _, v in kept]
    if options.get("undirected"):
        edges, values = to_undirected(edges, values, num_nodes=40, reduce="min")
    elif options.get("coalesce"):
        edges, values = coalesce(edges, values, num_nodes=40, reduce="min")
    return edges, dict(zip(COLUMNS, values, strict=True))


OPTIONS = [
    {"coalesce": True},
    {"undirected": True, "coalesce": True},
    {"self_loops": "remove"},
    {"self_loops": "add"},
    {"self_loops": "add", "coalesce": True},
    {"undirected": True, "coalesce": True, "self_loops": "remove"},
    {"undirected": True, "coalesce": True, "self_loops": "add", "directions": "both"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_edges_and_their_columns_are_what_pyg_makes_of_them(tmp_path, edges, options):
    data = ingested(tmp_path, edges, **options)
    theirs = as_rows(*in_pyg(edges, options))
    assert stored_rows(data) == theirs
    whole = data.to_data()
    assert type(whole) is Data
    assert stored_rows(whole) == theirs
    assert whole.edge_index.size(1) == len(whole.attr) == data.num_edges
    (batch,) = gz_pyg.NeighborLoader(data, [-1], batch_size=40)
    batch.edge_index = batch.n_id[batch.edge_index]
    assert stored_rows(batch) == theirs
    if options.get("undirected"):
        assert all(is_undirected(data.edge_index, data[name]) for name in COLUMNS)


def test_undirected_without_repeated_edges_is_pygs_transform(tmp_path, edges):
    edges = torch.unique(edges[:, edges[0] != edges[1]], dim=1)
    data = ingested(tmp_path, edges, undirected=True)
    theirs = T.ToUndirected()(Data(edge_index=edges, num_nodes=40, **columns(edges.size(1))))
    assert stored_rows(data) == stored_rows(theirs)


def library() -> HeteroData:
    generator = torch.Generator().manual_seed(2)
    data = HeteroData()
    data["author"].num_nodes, data["paper"].num_nodes = 30, 40
    cites = one_way(40, generator)
    cites = torch.unique(cites[:, cites[0] != cites[1]], dim=1)
    ends = {
        ("author", "writes", "paper"): torch.stack(
            [torch.randint(n, (200,), generator=generator) for n in (30, 40)]
        ),
        ("paper", "cites", "paper"): cites[:, torch.randperm(cites.size(1), generator=generator)],
    }
    for t, pairs in ends.items():
        data[t].edge_index = pairs
        data[t].update(columns(pairs.size(1)))
    return data


def spec_of(data, **options):
    return {
        "nodes": {t: {"num_nodes": data[t].num_nodes} for t in data.node_types},
        "edges": [
            {
                "type": t,
                "edges": tuple(data[t].edge_index.numpy()),
                "features": {k: data[t][k] for k in COLUMNS},
            }
            for t in data.edge_types
        ],
        **options,
    }


def same_types(ours, theirs):
    assert ours.metadata() == theirs.metadata()
    for t in theirs.edge_types:
        assert stored_rows(ours[t]) == stored_rows(theirs[t])


@pytest.mark.parametrize("memory", ["2GB", "1MB"])
def test_undirected_in_a_spec_is_pygs_transform_of_several_types(tmp_path, memory):
    data = library()
    gz.ingest(tmp_path / "s", spec=spec_of(data, undirected=True), memory=memory)
    ours = gz_pyg.load(tmp_path / "s")
    same_types(ours, T.ToUndirected()(data))
    same_types(ours.to_data(), T.ToUndirected()(data))


def test_reverse_in_a_spec_is_the_transform_that_does_not_merge(tmp_path):
    data = library()
    gz.ingest(tmp_path / "s", spec=spec_of(data, reverse=True))
    theirs = T.ToUndirected(merge=False)(data)
    ours = gz_pyg.load(tmp_path / "s")
    same_types(ours, theirs)
    for t in theirs.edge_types:  # edge by edge: a reverse has the number of its edge
        assert torch.equal(ours[t].edge_index, theirs[t].edge_index)
        assert torch.equal(ours[t].attr, theirs[t].attr)


@pytest.mark.parametrize("options", [{"coalesce": True}, {"self_loops": "remove"}], ids=str)
def test_options_of_several_types(tmp_path, options):
    data = library()
    data["paper", "paper"].edge_index[1, ::9] = data["paper", "paper"].edge_index[0, ::9]
    gz.ingest(tmp_path / "s", spec=spec_of(data, **options))
    ours = gz_pyg.load(tmp_path / "s")
    for t in data.edge_types:
        ends, values = data[t].edge_index, [data[t][k] for k in COLUMNS]
        if "coalesce" in options:
            ends, values = coalesce(ends, values, num_nodes=40, reduce="min")
        elif t[0] == t[2]:
            kept = [remove_self_loops(ends, v) for v in values]
            ends, values = kept[0][0], [v for _, v in kept]
        theirs = as_rows(ends, dict(zip(COLUMNS, values, strict=True)))
        assert stored_rows(ours[t]) == theirs
        assert stored_rows(ours.to_data()[t]) == theirs
