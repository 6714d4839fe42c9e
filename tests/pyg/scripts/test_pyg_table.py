"""docs/pyg.md's table of what a script may do to a loaded graph: every row is checked, by its own code."""

from __future__ import annotations

import copy
import pickle
from contextlib import contextmanager
from pathlib import Path

import pyg_datasets as made
import pytest
import torch
import torch_geometric.transforms as T
from doc_tables import Checks, Row, rows, value_of
from pyg_batches import equal
from torch_geometric import seed_everything
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import BaseStorage
from torch_geometric.utils import add_self_loops, to_undirected

import gz
import gz_pyg
from gz_pyg._store.stored import StoredColumn, StoredEdgeColumn, StoredEdgeIndex

TABLE = rows(Path(__file__).parents[3] / "docs/pyg.md", "a script does")
STORED = gz_pyg.StoreData, gz_pyg.StoreHeteroData
EDGE_TYPE = ("author", "writes", "paper")
OF_TYPES = ('["paper"]', "edge_type", "_dict", "metadata", "items()", "_types", "to_homogeneous")
check = Checks()


def of_one_type() -> Data:
    data = made.papers(n=100)
    data.edge_attr = torch.arange(500)
    return data


def of_types() -> HeteroData:
    data = made.academic()
    for t in data.edge_types:
        data[t].edge_attr = torch.arange(data[t].num_edges)
    return data


class Graphs:
    """The same graphs in memory and in stores, for one row after the other."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.paths = [gz_pyg.save(make(), folder / make.__name__) for make in (of_one_type, of_types)]

    def load(self, types: bool = False):
        return gz_pyg.load(self.paths[types])

    def names(self, code: str, store: bool) -> dict:
        """What the code of a row speaks of."""
        types = any(word in code for word in OF_TYPES)
        data = self.load(types) if store else (of_types() if types else of_one_type())
        rows = 250 if "edge_type" in code else 120 if types else 100
        torch.manual_seed(0)
        return {
            "data": data,
            "device": "cpu",
            "edge_type": EDGE_TYPE,
            "t": torch.arange(float(rows)),
            "ids": torch.tensor([5, 1, 70]),
            "edges": torch.stack([torch.arange(100), torch.arange(100).flip(0)]),
            "adjacency": torch.eye(100).to_sparse_csr(),
            "copy": copy,
            "pickle": pickle,
            "torch": torch,
            "T": T,
            "gz_pyg": gz_pyg,
            "to_undirected": to_undirected,
            "add_self_loops": add_self_loops,
        }

    def each(self, row: Row):
        """For each code of the row: what it gives in memory and from the store, and the graphs afterwards."""
        for code in row.code:
            memory, store = self.names(code, False), self.names(code, True)
            seed_everything(1)
            theirs = value_of(code, memory)
            seed_everything(1)
            yield code, value_of(code, store), theirs, store["data"], memory["data"]


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    return Graphs(tmp_path_factory.mktemp("table"))


def same(ours, theirs) -> None:
    if isinstance(theirs, (Data, HeteroData)):
        same((ours.to_data() if isinstance(ours, STORED) else ours).to_dict(), theirs.to_dict())
    elif isinstance(theirs, torch.Tensor):
        assert torch.equal(ours.to_dense(), theirs.to_dense())
    elif isinstance(theirs, BaseStorage):
        assert sorted(ours.keys()) == sorted(theirs.keys())
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        same(list(ours.values()), [theirs[k] for k in ours])
    elif isinstance(theirs, list) and theirs and all(isinstance(name, str) for name in theirs):
        assert sorted(ours) == sorted(theirs)  # HeteroData.keys() is a set's list: its order is chance
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    else:
        assert ours == theirs


@contextmanager
def nothing_is_read():
    """Columns of nodes may be mapped; edges and their columns would be listed, rows taken."""
    with pytest.MonkeyPatch.context() as patch:
        for stored in (StoredEdgeIndex, StoredEdgeColumn):
            patch.setattr(stored, "_make", lambda self: pytest.fail(f"{self.name} was read"))
        for stored in (StoredColumn, StoredEdgeColumn):
            patch.setattr(stored, "take", lambda self, _: pytest.fail(f"rows of {self.name} were read"))
        yield


@contextmanager
def free_memory(nbytes: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gz._base.memory_plan.free_ram", lambda: nbytes)
        yield


def is_in(tensor, column: gz.FeatureStore) -> bool:
    """Whether a tensor lies over the file of a column."""
    return tensor.data_ptr() == column.get_tensor().ctypes.data


# ---- the rows ----


@check("data.num_nodes")
def _(row, graphs):
    with nothing_is_read():
        for _, ours, theirs, *_ in graphs.each(row):
            same(ours, theirs)


@check("data.x")
def _(row, graphs):
    for code, ours, theirs, data, _ in graphs.each(row):
        same(ours, theirs)
        one = ours["paper"] if isinstance(ours, dict) else ours
        assert is_in(one, data.store.feature("x", None if code == "data.x" else "paper")), code


@check("data.train_mask")
def _(row, graphs):
    split = graphs.folder / "split"
    if not split.exists():
        masks = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
        ids = {name: of_one_type()[mask].nonzero().view(-1).numpy() for name, mask in masks.items()}
        gz.ingest(split, edges=([0], [1]), num_nodes=100, splits=ids)
    for code in row.code:
        of_masks = value_of(code, graphs.names(code, True))
        of_splits = value_of(code, {"data": gz_pyg.load(split)})
        same(of_splits, of_masks)
        if "idx" not in code:
            same(of_masks, value_of(code, graphs.names(code, False)))
            assert of_masks.dtype == torch.bool


@check("data.num_classes")
def _(row, graphs):
    for code in row.code:
        assert value_of(code, graphs.names(code, True)) == made.CLASSES


@check("data.edge_index")
def _(row, graphs):
    for code in row.code:
        names = graphs.names(code, True)
        theirs = value_of(code, graphs.names(code, False))
        with free_memory(1000):
            with nothing_is_read():
                ours = value_of(code, names)
                assert ours.shape == theirs.shape
            with pytest.raises(MemoryError, match="gz ingest"):
                _ = ours + 0
        same(ours, theirs)


@check("data.x[ids]")
def _(row, graphs):
    for code, ours, theirs, data, _ in graphs.each(row):
        same(ours, theirs)
        assert data.validate(), code


@check("data.y = t")
def _(row, graphs):
    for _, _, _, data, memory in graphs.each(row):
        same(data, memory)
        options = {"num_neighbors": [-1], "batch_size": 50}
        nodes = "paper" if isinstance(memory, HeteroData) else None
        for ours, theirs in zip(
            gz_pyg.NeighborLoader(data, input_nodes=nodes, **options),
            gz_pyg.NeighborLoader(memory, input_nodes=nodes, **options),
            strict=True,
        ):
            equal(ours, theirs)
        types = isinstance(memory, HeteroData)
        same(graphs.load(types), of_types() if types else of_one_type())  # the files are as they were


@check("data.y = data.y.view(-1)")
def _(row, graphs):
    for _, _, _, data, memory in graphs.each(row):
        same(data.y, memory.y)
        assert isinstance(data._store._mapping.raw("y"), StoredColumn)
        assert is_in(data.y, data.store.feature("y"))


@check("data.edge_index = edges")
def _(row, graphs):
    for code, _, _, data, memory in graphs.each(row):
        for graph in (data, memory):
            if "adj_t" in code:
                del graph.edge_index
            del graph.edge_attr
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StoredEdgeIndex, "_make", lambda _: pytest.fail("the store's edges were read"))
            (ours,) = gz_pyg.NeighborLoader(data, [-1], torch.tensor([3, 9]), batch_size=2)
        (theirs,) = gz_pyg.NeighborLoader(memory, [-1], torch.tensor([3, 9]), batch_size=2)
        same(ours, theirs)


@check('data.to(device, "x", "y")')
def _(row, graphs):
    for code in row.code:
        names = graphs.names(code, True)
        with nothing_is_read():
            if ("pin" in code or "cuda" in code) and not torch.cuda.is_available():
                with pytest.raises((RuntimeError, AssertionError)):
                    value_of(code, names)
                continue
            assert value_of(code, names) is names["data"]
    data = graphs.load()
    with nothing_is_read():
        data.to("meta", "x", "y")
    batch = next(iter(gz_pyg.NeighborLoader(data, [2], batch_size=5)))
    assert (batch.x.device.type, batch.y.device.type, batch.edge_index.device.type) == ("meta", "meta", "cpu")


@check("copy.copy(data)")
def _(row, graphs):
    for code in row.code:
        names = graphs.names(code, True)
        data = names["data"]
        data.z = names["t"]
        other = value_of(code, names)
        assert isinstance(other._store._mapping.raw("x"), StoredColumn)  # a file still
        assert torch.equal(other.z, names["t"])
        other.z = torch.zeros(100)
        assert torch.equal(data.z, names["t"])
        same(other.x, of_one_type().x)
    assert len(pickle.dumps(graphs.load())) < 100 * 6 * 4  # less than x alone


@check("data.subgraph(ids)")
def _(row, graphs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoredEdgeIndex, "_make", lambda _: pytest.fail("all edges were read"))
        for _, ours, theirs, *_ in graphs.each(row):
            same(ours, theirs)


@check("data.is_undirected()")
@check("data.is_sorted()")
def _(row, graphs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoredEdgeIndex, "_make", lambda _: pytest.fail("all edges were listed"))
        for _, ours, theirs, *_ in graphs.each(row):
            same(ours, theirs)


@check("data.sort()")
def _(row, graphs):
    for code, ours, theirs, *_ in graphs.each(row):
        same(ours, theirs)
        with free_memory(1000), pytest.raises(MemoryError):
            value_of(code, graphs.names(code, True))


@check("T.NormalizeFeatures()(data)")
def _(row, graphs):
    for _, ours, theirs, data, memory in graphs.each(row):
        with free_memory(1 << 40):
            same(ours, theirs)
        same(data, of_one_type())
        assert isinstance(ours._store._mapping.raw("edge_index"), StoredEdgeIndex)  # edges stay in files
        del memory


@check("T.ToUndirected()(data)")
def _(row, graphs):
    for code, ours, theirs, data, _ in graphs.each(row):
        same(ours, theirs)
        same(data, of_one_type())
        with free_memory(1000), pytest.raises(MemoryError, match="gz ingest|LinkNeighborLoader|loaders"):
            value_of(code, graphs.names(code, True))


@check("data.to_data()")
def _(row, graphs):
    for code in row.code:
        names = graphs.names(code, True)
        whole = value_of(code, names)
        assert type(whole) is Data
        equal(whole, of_one_type())
        with free_memory(1000), pytest.raises(MemoryError, match="use it where it lies"):
            value_of(code, names)


@check('gz_pyg.save(data, "other")')
def _(row, graphs):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(graphs.folder)
        for code in row.code:
            names = graphs.names(code, True)
            names["data"].z = names["t"]
            value_of(code, names)
            equal(gz_pyg.load("other").to_data(), names["data"].to_data())


# ---- and nothing but the rows ----


def test_every_row_has_a_check_and_every_check_a_row():
    assert sorted(check.by_name) == sorted(row.name for row in TABLE)


@pytest.mark.filterwarnings("ignore:Sparse")  # torch's word on CSR tensors being new
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_what_the_table_says(row, graphs):
    assert len(row.cells) == 3
    assert all(row.cells)
    check.by_name[row.name](row, graphs)
