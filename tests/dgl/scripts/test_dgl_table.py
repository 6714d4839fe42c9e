"""docs/dgl.md's table of what a script may do to a loaded graph: every row is checked, by its own code."""

from __future__ import annotations

import pickle
import warnings
from contextlib import contextmanager
from pathlib import Path

import dgl
import dgl.function as fn
import pytest
import torch
from dgl_graphs import same_graph
from doc_tables import Checks, Row, rows, value_of

import gz_dgl
from gz_dgl._index import StoreIndex

TABLE = rows(Path(__file__).parents[3] / "docs/dgl.md", "a script does")
LITTLE = 1000  # bytes
check = Checks()


def of_one_type():
    rng = torch.Generator().manual_seed(0)
    pairs = torch.unique(torch.randint(40, (200, 2), generator=rng), dim=0)
    pairs = pairs[torch.randperm(len(pairs), generator=rng)]
    g = dgl.graph((pairs[:, 0], pairs[:, 1]), num_nodes=40)
    g.ndata["feat"] = torch.rand(40, 3, generator=rng)
    g.edata["w"] = torch.rand(g.num_edges(), generator=rng)
    return g


def of_types():
    ends = {
        ("user", "follows", "user"): ([0, 1, 1, 2, 3], [1, 2, 1, 3, 0]),
        ("user", "plays", "game"): ([0, 1, 1, 3], [0, 1, 2, 2]),
    }
    g = dgl.heterograph(ends)
    for t in g.ntypes:
        g.nodes[t].data["feat"] = torch.rand(g.num_nodes(t), 3, generator=torch.Generator().manual_seed(1))
    g.edges["plays"].data["w"] = torch.arange(4.0)
    return g


class Graphs:
    """The same graphs in memory and in stores."""

    def __init__(self, folder: Path):
        self.folder = folder
        for make in (of_one_type, of_types):
            gz_dgl.save(make(), folder / make.__name__)

    def names(self, code: str, store: bool = True, **options) -> dict:
        """What the code of a row speaks of."""
        make = of_types if "plays" in code or "user" in code else of_one_type
        g = gz_dgl.load(self.folder / make.__name__, **options) if store else make()
        u, v = of_one_type().edges()
        ids = torch.tensor([1, 0, 2])
        names = {"g": g, "t": torch.arange(40.0), "e": torch.arange(float(len(u))), "ids": ids}
        return {**names, "u": u[:5], "v": v[:5], "dgl": dgl, "fn": fn, "gz_dgl": gz_dgl, "pickle": pickle}

    def each(self, row: Row):
        """For each code of the row: what it gives from the store and in memory, and the graphs afterwards."""
        for code in row.code:
            theirs, ours = self.names(code, store=False), self.names(code)
            dgl.seed(0)
            expected = value_of(code, theirs)
            dgl.seed(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", gz_dgl.InMemoryWarning)
                yield code, value_of(code, ours), expected, ours["g"], theirs["g"]

    def refused(self, row: Row, match: str = "") -> None:
        """Each code of the row past the limit; the graph is none the worse for it."""
        for code in row.code:
            names = self.names(code, memory=LITTLE // 10)
            with pytest.raises(dgl.DGLError, match=match or "the limit is 100 B"):
                value_of(code, names)
            assert isinstance(names["g"], gz_dgl.StoreGraph)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    return Graphs(tmp_path_factory.mktemp("table"))


def same(ours, theirs) -> None:
    if isinstance(theirs, dgl.DGLGraph):
        same_graph(theirs, ours, close=True)
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    elif torch.is_tensor(theirs):
        torch.testing.assert_close(ours, theirs)
    elif hasattr(theirs, "to_dense"):
        same(ours.to_dense(), theirs.to_dense())
    else:
        assert ours == theirs


@contextmanager
def no_edges_are_listed():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_list_edges", "in_memory", "all_degrees"):
            patch.setattr(StoreIndex, name, lambda *_: pytest.fail("all edges were read"))
        yield


# ---- the rows ----


@check("g.num_nodes()")
def _(row, graphs):
    with no_edges_are_listed():
        for code in row.code:
            ours, theirs = value_of(code, graphs.names(code)), value_of(code, graphs.names(code, store=False))
            assert isinstance(ours, gz_dgl.StoreGraph) if "to(" in code else ours == theirs


@check('g.ndata["feat"]')
def _(row, graphs):
    for code, ours, theirs, g, _ in graphs.each(row):
        same(ours, theirs)
        if "ids" not in code:
            file = g.store.feature("feat", "user" if "user" in code else None).get_tensor()
            assert ours.data_ptr() == file.ctypes.data


@check('g.edata["w"]')
def _(row, graphs):
    for _, ours, theirs, *_ in graphs.each(row):
        same(ours, theirs)
    with pytest.raises(dgl.DGLError, match="prefetch_edge_feats"):
        value_of(row.name, graphs.names(row.name, memory=LITTLE // 10))


@check('g.ndata["x"] = t')
def _(row, graphs):
    for _, _, _, g, memory in graphs.each(row):
        same(g.to_dgl(), memory)
        same(pickle.loads(pickle.dumps(g)).to_dgl(), memory)
        ids = torch.arange(40)
        sampler = dgl.dataloading.MultiLayerFullNeighborSampler(1)
        for (_, _, (ours,)), (_, _, (theirs,)) in zip(
            dgl.dataloading.DataLoader(g, ids, sampler, batch_size=40),
            dgl.dataloading.DataLoader(memory, ids, sampler, batch_size=40),
            strict=True,
        ):
            assert ours.srcdata.keys() == theirs.srcdata.keys()
            for name, column in ours.srcdata.items():
                same(column, memory.ndata[name][ours.srcdata[dgl.NID]] if name != dgl.NID else column)
    same(gz_dgl.load(graphs.folder / "of_one_type").to_dgl(), of_one_type())  # the files are as they were


@check("g.find_edges(ids)")
def _(row, graphs):
    with no_edges_are_listed():
        for code, ours, theirs, *_ in graphs.each(row):
            if "_edges(ids, " in code or "cessors" in code:  # in stored order
                ours, theirs = (
                    sorted(zip(*(e.tolist() for e in (x if isinstance(x, tuple) else (x,))), strict=True))
                    for x in (ours, theirs)
                )
            same(ours, theirs)


@check("g.subgraph(ids)")
def _(row, graphs):
    with no_edges_are_listed():
        for _, ours, theirs, *_ in graphs.each(row):
            assert type(ours) is dgl.DGLGraph
            edges = [  # in stored order
                sorted(zip(*(e.tolist() for e in x.edges()), x.edata["w"].tolist(), strict=True))
                for x in (ours, theirs)
            ]
            assert edges[0] == edges[1]
            same(ours.ndata["feat"], theirs.ndata["feat"])


@check('g["plays"]')
def _(row, graphs):
    with no_edges_are_listed():
        found = [(ours, theirs) for _, ours, theirs, *_ in graphs.each(row)]
    for ours, theirs in found:
        assert isinstance(ours, gz_dgl.StoreGraph)
        same(ours.to_dgl(), theirs)


@check("g.int()")
def _(row, graphs):
    for code, ours, theirs, g, _ in graphs.each(row):
        assert isinstance(ours, gz_dgl.StoreGraph), code
        assert ours.store.path == g.store.path
        same(ours.to_dgl(), theirs)
    assert len(pickle.dumps(graphs.names("g")["g"])) < 40 * 3 * 4 + 200 * 16


@check("g.edges()")
def _(row, graphs):
    for _, ours, theirs, *_ in graphs.each(row):
        same(ours, theirs)
    graphs.refused(row, "find_edges")


@check("g.in_degrees()")
def _(row, graphs):
    for _, ours, theirs, *_ in graphs.each(row):
        same(ours, theirs)
    graphs.refused(row, "degrees")


@check('g.update_all(fn.copy_u("feat", "m"), fn.sum("m", "h"))')
def _(row, graphs):
    for code, ours, theirs, g, memory in graphs.each(row):
        if "metis" in code:
            assert ours.shape == theirs.shape
        elif ours is not None:
            same(ours, theirs)
        assert isinstance(g, gz_dgl.StoreGraph)
        same(g.to_dgl(), memory)
    graphs.refused(row)


@check("g.add_edges(u, v)")
def _(row, graphs):
    for code, _, _, g, memory in graphs.each(row):
        assert type(g) is dgl.DGLGraph
        same(g, memory)
        with pytest.warns(gz_dgl.InMemoryWarning):
            value_of(code, graphs.names(code))
    graphs.refused(row, "gz.ingest")


@check("dgl.add_reverse_edges(g)")
def _(row, graphs):
    for code, ours, theirs, g, _ in graphs.each(row):
        assert type(ours) is dgl.DGLGraph
        assert isinstance(g, gz_dgl.StoreGraph)
        same(ours, theirs)
        with pytest.warns(gz_dgl.InMemoryWarning):
            value_of(code, graphs.names(code))
    graphs.refused(row, "option of gz.ingest: (undirected=True|self_loops=|coalesce=True)")


@check('dgl.save_graphs("g.bin", g)')
def _(row, graphs):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(graphs.folder)
        for _ in graphs.each(row):
            pass
        same(dgl.load_graphs("g.bin")[0][0], of_one_type())
        parts = [dgl.distributed.load_partition("parts/g.json", i)[0] for i in (0, 1)]
        assert sum(int(p.ndata["inner_node"].sum()) for p in parts) == 40
        graphs.refused(row, "to_dgl")


@check("g.to_dgl()")
def _(row, graphs):
    names = graphs.names(row.name)
    whole = value_of(row.name, names)
    assert type(whole) is dgl.DGLGraph
    same(whole, of_one_type())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gz._base.memory_plan.free_ram", lambda: LITTLE)
        with pytest.raises(MemoryError):
            value_of(row.name, names)


@check('gz_dgl.save(g, "other")')
def _(row, graphs):
    names = graphs.names(row.name)
    names["g"].ndata["x"] = names["t"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(graphs.folder)
        value_of(row.name, names)
        same(gz_dgl.load("other").to_dgl(), names["g"].to_dgl())


@check('g.to("cuda")')
def _(row, graphs):
    graphs.refused(row, "DataLoader.*device='cuda'")


# ---- and nothing but the rows ----


def test_every_row_has_a_check_and_every_check_a_row():
    assert sorted(check.by_name) == sorted(row.name for row in TABLE)


@pytest.mark.filterwarnings("ignore:Dataloader CPU affinity")
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_what_the_table_says(row, graphs):
    assert len(row.cells) == 3
    assert all(row.cells)
    check.by_name[row.name](row, graphs)
