"""What a script writes to a StoreGraph is seen everywhere, as it is on a graph in memory; or it raises."""

from __future__ import annotations

import pickle
import warnings

import dgl
import numpy as np
import pytest
import ready
import torch
from dgl.dataloading import DataLoader, MultiLayerFullNeighborSampler, NeighborSampler
from dgl_graphs import games, random_graph, same_graph

import gz
import gz_dgl

N, E = 60, 300


def normalize(g):
    g.ndata["feat"] = g.ndata["feat"] / 2


def in_place(g):
    g.ndata["feat"][3] = 7
    g.ndata["label"] += 1


def new_columns(g):
    g.ndata["degree"] = g.in_degrees().float()
    g.edata["age"] = torch.arange(E)


def delete(g):
    del g.ndata["feat"], g.edata["e"]


def pop(g):
    g.ndata["x"] = g.ndata.pop("feat")
    g.edata["y"] = g.edata.pop("e")


def update(g):
    g.ndata.update({"label": torch.zeros(N), "feat": torch.ones(N, 2)})
    g.edata.update({"e": torch.ones(E)})


def some_rows(g):
    g.nodes[[3, 5]].data["feat"] = torch.full((2, 8), 9.0)
    g.edges[[0, 299]].data["e"] = torch.full((2, 3), 9.0)


def edges(g):
    g.edata["e"] = g.edata["e"].flip(0)


def edges_in_place(g):
    g.edata["e"][5] = 7
    g.edata["p"] *= 2


WRITES = [normalize, in_place, new_columns, delete, pop, update, some_rows, edges, edges_in_place]


def loaded(graph, **options):
    """Rows of all columns by id, as a loader with full neighbourhoods brings them."""
    sampler = MultiLayerFullNeighborSampler(1)
    loader = DataLoader(graph, torch.arange(N, dtype=graph.idtype), sampler, batch_size=16, **options)
    nodes, links = {}, {}
    for _, _, (block,) in loader:
        for k, v in block.srcdata.items():
            nodes.setdefault(k, []).append(v)
        for k, v in block.edata.items():
            links.setdefault(k, []).append(v)
    return [by_id(c, name) for c, name in ((nodes, dgl.NID), (links, dgl.EID))]


def by_id(columns, name):
    joined = {k: torch.cat(v) for k, v in columns.items()}
    ids, first = np.unique(joined.pop(name).numpy(), return_index=True)
    return {"ids": torch.from_numpy(ids), **{k: v[torch.from_numpy(first)] for k, v in joined.items()}}


def prefetched(graph):
    """The same, as prefetch_node_feats and prefetch_edge_feats bring them."""
    sampler = MultiLayerFullNeighborSampler(
        1, prefetch_node_feats=list(graph.ndata), prefetch_edge_feats=list(graph.edata)
    )
    _, _, (block,) = next(iter(DataLoader(graph, torch.arange(N), sampler, batch_size=N)))
    nodes = {k: [v] for k, v in block.srcdata.items()}
    return [by_id(nodes, dgl.NID), by_id({k: [v] for k, v in block.edata.items()}, dgl.EID)]


def subgraphs(graph):
    part = graph.subgraph(torch.arange(0, N, 2))
    one = part.edge_subgraph(torch.arange(part.num_edges()), relabel_nodes=False, store_ids=False)
    order = part.edata[dgl.EID].argsort()
    return [dict(part.ndata), {k: v[order] for k, v in part.edata.items()}, one.edata["p"][order]]


def stored(graph):
    rows = torch.tensor([3, 0, 5])
    found = {}
    for kind, names in (("node", graph.ndata), ("edge", graph.edata)):
        for name in names:
            got = getattr(graph, f"get_{kind}_storage")(name).fetch(rows, "cpu")
            found[kind + name] = got.wait() if hasattr(got, "wait") else got
    return found


def pickled(graph):
    back = pickle.loads(pickle.dumps(graph))
    return [dict(back.ndata), dict(back.edata)]


READERS = {
    "views": lambda g: [dict(g.ndata), dict(g.edata)],
    "a loader": loaded,
    "forked workers": lambda g: loaded(g, num_workers=2),
    "prefetching": prefetched,
    "subgraphs": subgraphs,
    "storages": stored,
    "a pickle": pickled,
    "int32": lambda g: loaded(g.int()),
    "a local copy": lambda g: [dict(g.local_var().ndata), dict(g.clone().edata)],
}


@pytest.mark.parametrize("write", WRITES)
def test_a_write_is_seen_everywhere(on_disk, write):
    g = random_graph(N, E)
    h = on_disk(g)
    early = {"sampled before": [], "copied before": []}
    for graph in (g, h):
        early["copied before"].append(graph.local_var())
        early["sampled before"].append(graph.subgraph(torch.arange(N)))
    loaded(h)  # and read before
    write(g)
    write(h)
    for reader, read in READERS.items():
        torch.testing.assert_close(read(h), read(g), msg=lambda m, r=reader: f"{r}: {m}", rtol=0, atol=0)
    for theirs, ours in early.values():
        assert torch.equal(theirs.ndata["feat"], ours.ndata["feat"])
    same_graph(g, h.to_dgl())


@pytest.mark.slow
@pytest.mark.parametrize(("write", "start"), [(in_place, "spawn"), (edges_in_place, ready.CLEAN)])
def test_a_write_is_seen_by_spawned_workers(on_disk, write, start):
    """For the other writes the pickle that they get is a reader of its own; starting them takes seconds."""
    g = random_graph(N, E)
    h = on_disk(g)
    write(g)
    write(h)
    ours = loaded(h, num_workers=1, multiprocessing_context=start)
    torch.testing.assert_close(ours, loaded(g), rtol=0, atol=0)


@pytest.mark.parametrize("write", WRITES)
def test_a_write_is_saved(on_disk, tmp_path, write):
    g = random_graph(N, E)
    h = on_disk(g)
    write(g)
    write(h)
    gz_dgl.save(h, tmp_path / "copy")
    same_graph(g, gz_dgl.load(tmp_path / "copy"))
    assert torch.equal(gz_dgl.load(h.store.path).edata["e"], random_graph(N, E).edata["e"])  # not the file


@pytest.mark.parametrize("dtype", ["half", "double", "bfloat16"])
def test_another_dtype_for_all_columns(on_disk, dtype):
    g, h = (getattr(dgl, f"to_{dtype}")(k) for k in (random_graph(N, E), on_disk(random_graph(N, E))))
    assert isinstance(h, gz_dgl.StoreGraph)
    for read in (loaded, prefetched, stored, READERS["forked workers"], pickled, READERS["views"]):
        torch.testing.assert_close(read(h), read(g), rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["assigned", "in place"])
def test_weights_are_sampled_as_written(on_disk, kind):
    h = on_disk(random_graph(N, E))
    only = torch.zeros(E)
    only[h.in_edges(4, form="eid")[0]] = 1
    for _ in range(2):  # the second time over what was kept from the first
        if kind == "assigned":
            h.edata["p"] = only
        else:
            h.edata["p"][:] = only
        for fused in (True, False):
            sampler = NeighborSampler([2], prob="p", fused=fused)
            *_, (block,) = next(iter(DataLoader(h, torch.tensor([4]), sampler)))
            assert block.edata[dgl.EID].tolist() == only.nonzero().flatten().tolist()
        only = torch.zeros(E)
        only[h.in_edges(4, form="eid")[-1]] = 1


def test_a_loader_made_before_sees_it_from_its_next_epoch(on_disk):
    h = on_disk(random_graph(N, E))
    sampler = NeighborSampler([3], prefetch_node_feats=["feat"], prefetch_labels=["label"])
    loaders = [DataLoader(h, torch.arange(N), sampler, batch_size=N, num_workers=k) for k in (0, 1)]
    for loader in (*loaders, gz_dgl.prefetch(loaders[0])):
        list(loader)
        h.ndata["feat"] = torch.rand(N, 4)
        h.ndata["label"] = torch.rand(N)
        ((inputs, outputs, (block,)),) = loader
        assert torch.equal(block.srcdata["feat"], h.ndata["feat"][inputs])
        assert torch.equal(block.dstdata["label"], h.ndata["label"][outputs])


def test_types_of_their_own(on_disk):
    g = games()
    h = on_disk(g)
    for k in (g, h):
        k.nodes["user"].data["feat"] = k.nodes["user"].data["feat"] * 3
        k.edges["play"].data["w"][0] = 5
        k.ndata["age"] = {"game": torch.arange(3)}
        del k.edges["follow"].data["w"]
    same_graph(g, h.to_dgl())
    same_graph(g["play"], h["play"].to_dgl())
    sampler = MultiLayerFullNeighborSampler(1)
    *_, (block,) = next(iter(DataLoader(h, {"game": torch.arange(3)}, sampler, batch_size=3)))
    ids = block.edges["play"].data[dgl.EID]
    assert torch.equal(block.edges["play"].data["w"], g.edges["play"].data["w"][ids])
    users = block.srcnodes["user"].data
    assert torch.equal(users["feat"], g.nodes["user"].data["feat"][users[dgl.NID]])


@pytest.mark.parametrize("where", ["ndata", "edata"])
def test_a_wrong_length_raises_with_both_numbers(on_disk, where):
    h = on_disk(random_graph(N, E))
    rows = N if where == "ndata" else E
    for write in (
        lambda: getattr(h, where).__setitem__("x", torch.ones(7)),
        lambda: getattr(h, where).update({"x": torch.ones(7)}),
    ):
        with pytest.raises(dgl.DGLError, match=rf"{rows}.*7|7.*{rows}"):
            write()
    assert "x" not in getattr(h, where)


def test_changes_of_the_store_are_seen_by_graphs_opened_through_it(on_disk):
    g = random_graph(N, E)
    store = gz.open(on_disk(g).store.path)
    h = gz_dgl.load(store)
    sampler = NeighborSampler([3], prefetch_node_feats=["feat"])
    loader = DataLoader(h, torch.arange(N), sampler, batch_size=N)
    early = h.local_var(), h.int(), h["_E"] if len(h.etypes) > 1 else h.clone()
    new = torch.rand(N, 3)
    store.add_feature("feat", new.numpy(), overwrite=True)
    store.add_feature("more", new.numpy())
    store.add_feature("e", np.arange(E), tuple(store.edge_types[0]), overwrite=True)
    store.remove_feature("label")
    for graph in (h, *early, pickle.loads(pickle.dumps(h))):
        assert torch.equal(graph.ndata["feat"], new)
        assert torch.equal(graph.ndata["more"], new)
        assert torch.equal(graph.edata["e"], torch.arange(E))
        assert "label" not in graph.ndata
    inputs, _, (block,) = next(iter(loader))
    assert torch.equal(block.srcdata["feat"], new[inputs])
    h.ndata["feat"] = new + 1  # the latest wins, over the store and under it
    assert torch.equal(h.ndata["feat"], new + 1)
    store.add_feature("feat", new.numpy(), overwrite=True)
    assert torch.equal(h.ndata["feat"], new)


def test_a_write_that_another_process_could_not_hold_is_refused(on_disk, monkeypatch):
    h = on_disk(random_graph(N, E))
    h.ndata["feat"][0] = 7
    monkeypatch.setattr("gz._base.memory_plan.free_ram", lambda: 10)
    with pytest.raises(MemoryError, match="add_feature"):
        pickle.dumps(h)
    with pytest.raises(MemoryError, match=r"g.ndata\[name\]\[ids\] = rows"):
        h.nodes[[1]].data["label"] = torch.tensor([1])


def test_nothing_is_copied_to_find_out(on_disk):
    """A column that was not written to crosses to another process by its path."""
    h = on_disk(random_graph(20_000, 100))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(pickle.dumps(h)) < 20_000
        h.ndata["label"][3] = 1
        assert len(pickle.dumps(h)) > 160_000
