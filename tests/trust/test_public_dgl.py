"""Every public name of gz_dgl with whatever a caller may hand in: what DGL gives in memory, or a typed error.

The same call is made on DGL's own graph with what was meant; what means nothing must be refused. A new public
name without a line in TABLE or EXEMPT fails `test_every_public_name_of_gz_dgl_is_in_the_table`.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import api_store
import numpy as np
import pytest
from api_store import DST, REFUSED, SRC, E, N, X, few, says_something
from hypothesis import given
from hypothesis import strategies as st
from odd_values import odd_arrays, odd_ids, odd_numbers

torch = pytest.importorskip("torch")
dgl = pytest.importorskip("dgl")

from dgl.dataloading import DataLoader, MultiLayerFullNeighborSampler  # noqa: E402

import gz_dgl  # noqa: E402

TYPED = (*REFUSED, RuntimeError, dgl.DGLError)


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return api_store.make(tmp_path_factory.mktemp("dgl"))


@pytest.fixture(scope="module")
def g(path):
    return gz_dgl.load(path, cache=0)


@pytest.fixture(scope="module")
def peer():
    graph = dgl.graph((SRC, DST), num_nodes=N)
    graph.ndata["x"] = torch.from_numpy(X)
    return graph


def refused(call, *, allowed: bool):
    """What the call gives; None where it was refused with a word, which must be `allowed`."""
    refusal = None
    try:
        return call()
    except TYPED as error:
        refusal = error
    says_something(refusal)
    assert allowed, f"refused: {refusal!r}"
    return None


def must_be_taken(ids) -> bool:
    """DGL asks for tensors of the graph's own kind of ids, and takes some other forms."""
    given_, meant = ids
    return meant is not None and isinstance(given_, torch.Tensor) and given_.dtype == torch.int64


def fetched(storage, ids):
    rows = storage.fetch(ids, "cpu")
    return rows.wait() if hasattr(rows, "wait") else rows


# ---- nodes ----


@given(ids=odd_ids(N))
def test_degrees_and_rows_of_any_nodes(g, peer, ids):
    given_, meant = ids
    for name in ("in_degrees", "out_degrees"):
        got = refused(lambda name=name: getattr(g, name)(given_), allowed=not must_be_taken(ids))
        if got is not None and meant is not None:
            want = getattr(peer, name)(torch.from_numpy(meant))
            assert torch.as_tensor(got).reshape(-1).tolist() == torch.as_tensor(want).reshape(-1).tolist()
    if isinstance(given_, torch.Tensor):
        rows = refused(lambda: fetched(g.get_node_storage("x"), given_), allowed=not must_be_taken(ids))
        if rows is not None:
            assert meant is not None, f"{given_!r} was taken"
            assert torch.equal(rows, torch.from_numpy(X)[torch.from_numpy(meant)])


@few
@given(ids=odd_ids(E))
def test_rows_of_any_edges(g, ids):
    given_, meant = ids
    if isinstance(given_, torch.Tensor):
        got = refused(lambda: fetched(g.get_edge_storage("w"), given_), allowed=not must_be_taken(ids))
        assert got is None or got.tolist() == [1.0] * len(meant)


@few
@given(ids=odd_ids(N), ahead=odd_numbers(4))
def test_seeds_and_depths_of_any_kind(g, peer, ids, ahead):
    (given_, meant), (depth, depth_meant) = ids, ahead
    if not isinstance(given_, torch.Tensor) or given_.layout != torch.strided or given_.is_meta:
        return  # DGL's loader asks it for more than that it can be indexed
    sampler = MultiLayerFullNeighborSampler(1, prefetch_node_feats=["x"])

    def batches(graph, seeds, wrapped):
        return list(wrapped(DataLoader(graph, seeds, sampler, batch_size=8)))

    right = must_be_taken(ids) and len(meant) > 0 and depth_meant is not None
    got = refused(
        lambda: batches(g, given_, lambda plain: gz_dgl.prefetch(plain, depth)),
        allowed=not right or not isinstance(depth, int),
    )
    if got is None or meant is None or len(meant) == 0:
        return
    assert depth_meant is not None, f"{depth!r} was taken"
    want = batches(peer, torch.from_numpy(meant), iter)
    for (inputs, outputs, (block,)), (theirs, their_outputs, (their_block,)) in zip(got, want, strict=True):
        assert outputs.tolist() == their_outputs.tolist()
        assert sorted(inputs.tolist()) == sorted(theirs.tolist())
        assert block.num_edges() == their_block.num_edges()
        assert torch.equal(block.srcdata["x"], torch.from_numpy(X)[inputs.long()])


# ---- parts and wholes ----


@given(
    form=st.sampled_from(["uv", "eid", "all", "nonsense", None, 3]),
    order=st.sampled_from(["eid", "srcdst", "nonsense", None]),
)
def test_edges_in_any_form(g, peer, form, order):
    got = refused(lambda: g.all_edges(form=form, order=order), allowed=True)
    want = refused(lambda: peer.all_edges(form=form, order=order), allowed=True)
    if want is not None and form in ("uv", "all") and order != "nonsense":
        assert got is not None, f"all_edges({form!r}, {order!r}) was refused"
        assert sorted(zip(*(e.tolist() for e in got[:2]), strict=True)) == sorted(
            zip(*(e.tolist() for e in want[:2]), strict=True)
        )


@given(name=st.one_of(st.none(), st.text(max_size=4), st.integers(), st.just("train"), st.just("x")))
def test_names_of_any_kind_in_dgl(g, name):
    for call in (g.get_node_storage, g.get_edge_storage, g.split):
        got = refused(lambda call=call: call(name), allowed=True)
        assert got is None or name in ("x", "train", "w", None)


@few
@given(device=st.sampled_from(["cpu", torch.device("cpu"), "meta", "nonsense", None, 3]))
def test_devices_of_any_kind(g, device):
    got = refused(lambda: g.to(device), allowed=device not in ("cpu", torch.device("cpu")))
    assert got is None or got.num_nodes() == N
    assert g.clone().num_edges() == E


@pytest.mark.filterwarnings("ignore::gz_dgl.InMemoryWarning")
@few
@given(ids=odd_ids(N))
def test_changes_of_any_kind(path, ids):
    """To a graph's own copy of what is in the file, which stays as it is."""
    given_, meant = ids
    mine, theirs = gz_dgl.load(path, cache=0), dgl.graph((SRC, DST), num_nodes=N)
    taken = must_be_taken(ids) and len(meant) > 0
    for name, values in (("remove_nodes", [given_]), ("add_edges", [given_, given_]), ("add_nodes", [3])):
        graph = mine.clone()
        right = taken or name == "add_nodes"
        try:
            refused(lambda: getattr(graph, name)(*values) or True, allowed=not right)  # noqa: B023
        except (AttributeError, AssertionError):
            assert not right  # DGL's own, of what is no tensor and of ids out of range
        if right:
            peer = theirs.clone()
            getattr(peer, name)(*([3] if name == "add_nodes" else [torch.from_numpy(meant)] * len(values)))
            assert (graph.num_nodes(), graph.num_edges()) == (peer.num_nodes(), peer.num_edges())
    assert (mine.num_nodes(), mine.num_edges()) == (N, E)
    assert gz_dgl.load(path, cache=0).num_edges() == E


@pytest.mark.filterwarnings("ignore::gz_dgl.InMemoryWarning")
def test_formats_and_pinning(path):
    graph = gz_dgl.load(path, cache=0)
    for call in (
        graph.create_formats_,
        graph.pin_memory_,
        graph.unpin_memory_,
        lambda: graph.shared_memory("a"),
    ):
        refused(call, allowed=True)
    graph.remove_edges(torch.arange(3))
    assert graph.num_edges() == E - 3
    assert gz_dgl.load(path, cache=0).to_dgl().num_edges() == E


@few
@given(reduce=st.sampled_from(["sum", None, 3, "nonsense"]))
def test_messages_of_any_kind(path, peer, reduce):
    import dgl.function as fn

    graph = gz_dgl.load(path, cache=0)
    if reduce != "sum":
        with pytest.raises((*TYPED, AttributeError)):
            graph.update_all(fn.copy_u("x", "m"), reduce)
        return
    for each in (graph, peer):
        each.update_all(fn.copy_u("x", "m"), fn.sum("m", "h"))
    assert torch.allclose(graph.ndata["h"][:], peer.ndata["h"], atol=1e-5)


# ---- writing, reading back ----


@few
@given(value=odd_arrays(N))
def test_a_frame_of_anything(tmp_path_factory, value):
    plain = dgl.graph((SRC, DST), num_nodes=N)
    try:
        plain.ndata["thing"] = value
    except Exception:
        return  # DGL itself does not take it
    folder = tmp_path_factory.mktemp("save") / "s"
    if refused(lambda: gz_dgl.save(plain, folder) or True, allowed=True) is None:
        assert not folder.exists()
        return
    got = gz_dgl.load(folder, cache=0).ndata["thing"][:]
    assert torch.equal(torch.as_tensor(got), plain.ndata["thing"])


@given(
    path=st.one_of(
        st.text(max_size=8), st.none(), st.integers(-5, -1), st.just("/dev/null"), st.binary(max_size=4)
    ),
    memory=st.one_of(odd_numbers(None).map(lambda n: n[0]), st.text(max_size=6)),
    idtype=st.sampled_from([None, torch.int32, torch.int64, torch.float32, "int64", 3]),
)
def test_stores_and_memory_of_any_kind(path, memory, idtype, tmp_path_factory):
    assert refused(lambda: gz_dgl.load(path), allowed=True) is None, f"{path!r} was opened"
    if "path" not in _MADE:
        _MADE["path"] = api_store.make(tmp_path_factory.mktemp("dgl-memory"))
    refused(lambda: gz_dgl.load(_MADE["path"], memory=memory, cache=0), allowed=True)
    graph = refused(
        lambda: gz_dgl.load(_MADE["path"], idtype=idtype, cache=0),
        allowed=idtype not in (None, torch.int32, torch.int64),
    )
    assert graph is None or graph.idtype in (torch.int32, torch.int64)


_MADE: dict = {}


@few
@given(
    shape=st.one_of(st.lists(st.integers(-1, 3), max_size=3), odd_numbers(64).map(lambda n: n[0])),
    dtype=st.sampled_from([torch.float32, torch.bool, torch.complex64, None, "float32", 3]),
)
def test_an_empty_column_of_anything(tmp_path_factory, shape, dtype):
    file = tmp_path_factory.mktemp("column") / "c.npy"
    column = refused(lambda: gz_dgl.empty_column(file, shape, dtype), allowed=True)
    if column is None:
        assert not file.exists()
    else:
        assert list(column.shape) == [int(n) for n in shape]
        assert not column.any()


@few
@given(size=odd_numbers(5000), feature=st.sampled_from(["x", "nothing", None, 3]))
def test_inference_of_any_size(g, peer, tmp_path_factory, size, feature):
    from dgl.nn import SAGEConv

    torch.manual_seed(0)
    conv = SAGEConv(3, 2, "mean")
    given_, meant = size
    right = bool(meant) and feature == "x" and isinstance(given_, int)
    out = tmp_path_factory.mktemp("inference") / "out.npy"
    got = refused(lambda: gz_dgl.inference(g, [conv], out, feature, batch_size=given_), allowed=not right)
    if got is not None and right:
        with torch.no_grad():
            want = conv(peer, peer.ndata["x"])
        assert np.allclose(np.load(out), want.numpy(), atol=1e-5)


# ---- all of them ----

TABLE = {
    "StoreGraph.add_edges": "test_changes_of_any_kind",
    "StoreGraph.add_nodes": "test_changes_of_any_kind",
    "StoreGraph.all_edges": "test_edges_in_any_form",
    "StoreGraph.clone": "test_devices_of_any_kind",
    "StoreGraph.create_formats_": "test_formats_and_pinning",
    "StoreGraph.get_edge_storage": "test_rows_of_any_edges",
    "StoreGraph.get_node_storage": "test_degrees_and_rows_of_any_nodes",
    "StoreGraph.in_degrees": "test_degrees_and_rows_of_any_nodes",
    "StoreGraph.out_degrees": "test_degrees_and_rows_of_any_nodes",
    "StoreGraph.pin_memory_": "test_formats_and_pinning",
    "StoreGraph.remove_edges": "test_formats_and_pinning",
    "StoreGraph.remove_nodes": "test_changes_of_any_kind",
    "StoreGraph.shared_memory": "test_formats_and_pinning",
    "StoreGraph.split": "test_names_of_any_kind_in_dgl",
    "StoreGraph.to": "test_devices_of_any_kind",
    "StoreGraph.to_dgl": "test_formats_and_pinning",
    "StoreGraph.unpin_memory_": "test_formats_and_pinning",
    "StoreGraph.update_all": "test_messages_of_any_kind",
    "empty_column": "test_an_empty_column_of_anything",
    "inference": "test_inference_of_any_size",
    "load": "test_stores_and_memory_of_any_kind",
    "prefetch": "test_seeds_and_depths_of_any_kind",
    "save": "test_a_frame_of_anything",
}
EXEMPT = {
    "InMemoryWarning": "a warning",
    "Partition": "a plain record",
    "__version__": "a text",
    "partition": "wrong input of every kind: test_dgl_partition_runs.py",
    "StoreGraph": "made by load",
    "StoreGraph.apply_edges": "DGL's, on the graph that update_all reads into memory",
    "StoreGraph.multi_update_all": "DGL's, on the graph that update_all reads into memory",
}


def test_every_public_name_of_gz_dgl_is_in_the_table():
    names = set()
    for name in gz_dgl.__all__:
        names.add(name)
        thing = getattr(gz_dgl, name)
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            names |= {f"{name}.{m}" for m, f in vars(thing).items() if callable(f) and not m.startswith("_")}
    assert names == TABLE.keys() | EXEMPT.keys()
    assert not TABLE.keys() & EXEMPT.keys()
    tree = ast.parse(Path(__file__).read_text())
    assert set(TABLE.values()) <= {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
