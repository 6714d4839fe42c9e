"""Every public name of gz_pyg with whatever a caller may hand in: what PyG gives in memory, or a typed error.

PyG's samplers need libraries that are not installed here, so samples are held to its plain functions
(`k_hop_subgraph`, `Data.subgraph`), with all neighbours asked for. A new public name without a line in TABLE
or EXEMPT fails `test_every_public_name_of_gz_pyg_is_in_the_table`.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import api_store
import numpy as np
import pytest
from api_store import DST, REFUSED, SRC, N, X, few, says_something
from hypothesis import given
from hypothesis import strategies as st
from odd_values import odd_arrays, odd_ids, odd_numbers

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data  # noqa: E402
from torch_geometric.nn import SAGEConv  # noqa: E402
from torch_geometric.sampler import EdgeSamplerInput, NodeSamplerInput  # noqa: E402
from torch_geometric.utils import k_hop_subgraph  # noqa: E402

import gz_pyg  # noqa: E402

# torch refuses much with a RuntimeError: devices, layouts, values that an index cannot be.
TYPED = (*REFUSED, RuntimeError)
EDGES = torch.from_numpy(np.stack([SRC, DST]))


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return api_store.make(tmp_path_factory.mktemp("pyg"))


@pytest.fixture(scope="module")
def data(path):
    return gz_pyg.load(path, cache=0)


@pytest.fixture(scope="module")
def peer() -> Data:
    return Data(x=torch.from_numpy(X), edge_index=EDGES)


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


def meant_as_seeds(given, meant):
    """What a loader takes beside one-dimensional integers: None for all nodes, a number alone, any shape, a
    set. None where there is no right answer."""
    if given is None:
        return np.arange(N)
    if meant is not None or isinstance(given, str):
        return meant
    values = list(given) if isinstance(given, set) else given
    array = values if isinstance(values, np.ndarray) else None
    if isinstance(given, set):
        array = np.array(values)
    if array is None or array.dtype.kind not in "iu" or not ((array >= 0) & (array < N)).all():
        return None
    return array.reshape(-1)


def check_batches(batches, meant, hops=1):
    seeds = torch.cat([torch.empty(0, dtype=torch.int64), *[b.n_id[: b.batch_size] for b in batches]])
    assert seeds.tolist() == meant.tolist()
    for b in batches:
        assert torch.equal(b.x, torch.from_numpy(X)[b.n_id])
        start = b.n_id[: b.batch_size].unique()
        nodes, _, _, _ = k_hop_subgraph(start, hops, EDGES, num_nodes=N)
        assert b.n_id.unique().tolist() == nodes.tolist()
        if len(start) == b.batch_size and hops == 1:
            got = b.n_id[b.edge_index]
            to_seeds = EDGES[:, torch.isin(EDGES[1], start)]
            assert sorted(got.T.tolist()) == sorted(to_seeds.T.tolist())


# ---- seeds ----


@given(ids=odd_ids(N), size=st.integers(1, 40))
def test_seeds_of_any_kind(data, ids, size):
    given_, plain = ids
    if isinstance(given_, str):
        return  # the name of a node type: there is one, whatever it is called
    meant = meant_as_seeds(given_, plain)
    sampler = gz_pyg.NeighborSampler(data, [-1])
    for make in (
        lambda: gz_pyg.NeighborLoader(data, [-1], given_, batch_size=size, prefetch=0),
        lambda: gz_pyg.NodeLoader(data, sampler, given_, batch_size=size, prefetch=0),
    ):
        batches = refused(lambda make=make: list(make()), allowed=meant is None)
        if batches is not None:
            assert meant is not None, f"{given_!r} was taken"
            check_batches(batches, meant)


@few
@given(ids=odd_ids(N))
def test_roots_of_any_kind(data, ids):
    given_, plain = ids
    if isinstance(given_, str):
        return
    meant = meant_as_seeds(given_, plain)
    batches = refused(
        lambda: list(gz_pyg.ShaDowKHopSampler(data, 1, -1, given_, batch_size=8)),
        allowed=meant is None,
    )
    if batches is not None:
        assert meant is not None, f"{given_!r} was taken"
        sizes = torch.cat([torch.empty(0, dtype=torch.int64), *[b.batch.bincount() for b in batches]])
        want = [len(k_hop_subgraph(torch.tensor([int(s)]), 1, EDGES, num_nodes=N)[0]) for s in meant]
        assert sizes.tolist() == want


@few
@given(ids=odd_ids(N))
def test_seeds_of_samplers(data, ids):
    """Which take tensors, as PyG's do."""
    given_, meant = ids
    if not isinstance(given_, torch.Tensor) or given_.is_sparse or given_.is_meta:
        return
    some = meant is not None and len(meant) > 0
    for sampler in (
        gz_pyg.NeighborSampler(data, [-1]),
        gz_pyg.BidirectionalNeighborSampler(data, [-1]),
    ):
        out = refused(
            lambda s=sampler: s.sample_from_nodes(NodeSamplerInput(None, given_)), allowed=meant is None
        )
        if out is not None:
            assert meant is not None, f"{given_!r} was taken"
            assert out.node[: len(meant)].tolist() == meant.tolist()
        ends = EdgeSamplerInput(None, given_, given_)
        out = refused(lambda s=sampler, e=ends: s.sample_from_edges(e), allowed=not some)
        assert out is None or meant is not None


@given(src=odd_ids(N), dst=odd_ids(N))
def test_links_of_any_kind(data, src, dst):
    (a, a_meant), (b, b_meant) = src, dst
    right = a_meant is not None and b_meant is not None and len(a_meant) == len(b_meant) > 0
    sampler = gz_pyg.NeighborSampler(data, [-1])
    for make in (
        lambda: gz_pyg.LinkNeighborLoader(data, [-1], [a, b], batch_size=8, prefetch=0),
        lambda: gz_pyg.LinkLoader(data, sampler, [a, b], batch_size=8, prefetch=0),
    ):
        batches = refused(lambda make=make: list(make()), allowed=not right)
        if not right:
            continue
        got = [batch.n_id[batch.edge_label_index] for batch in batches]
        assert torch.cat(got, 1).tolist() == [a_meant.tolist(), b_meant.tolist()]


@few
@given(data=st.data())
def test_links_in_range_are_taken(path, data):
    stored = gz_pyg.load(path, cache=0)
    ends = torch.tensor(
        data.draw(st.lists(st.tuples(*[st.integers(0, N - 1)] * 2), min_size=1, max_size=9))
    ).T
    batches = list(gz_pyg.LinkNeighborLoader(stored, [-1], ends, batch_size=4, prefetch=0))
    assert torch.cat([b.n_id[b.edge_label_index] for b in batches], 1).tolist() == ends.tolist()


# ---- sizes ----


@given(fanout=odd_numbers(2**40), depth=odd_numbers(8))
def test_fanouts_and_sizes_of_any_kind(data, fanout, depth):
    (k, meant), (ahead, ahead_meant) = fanout, depth
    seeds = torch.arange(5)
    right = meant is not None and ahead_meant is not None
    batches = refused(
        lambda: list(gz_pyg.NeighborLoader(data, [k], seeds, batch_size=5, prefetch=ahead)),
        allowed=not right or not isinstance(k, int) or not isinstance(ahead, int),
    )
    degree = np.bincount(DST, minlength=N)[:5]
    if batches is not None and right:
        assert batches[0].edge_index.size(1) == np.minimum(degree, meant).sum()
    tree = refused(lambda: list(gz_pyg.ShaDowKHopSampler(data, ahead, k, seeds)), allowed=True)
    assert tree is None or len(tree) == 5


@few
@given(samples=st.lists(odd_numbers(100).map(lambda g: g[0]), max_size=3), ids=odd_ids(N))
def test_budgets_of_any_kind(tmp_path_factory, samples, ids):
    loaded = hetero(tmp_path_factory)
    given_, meant = ids
    batches = refused(
        lambda: list(gz_pyg.HGTLoader(loaded, samples, ("a", given_), batch_size=64, prefetch=0)),
        allowed=True,
    )
    if batches and meant is not None:
        assert batches[0]["a"].n_id[: len(meant)].tolist() == meant[:64].tolist()
    if isinstance(given_, torch.Tensor) and not given_.is_sparse and not given_.is_meta:
        out = refused(
            lambda: gz_pyg.HGTSampler(loaded, samples).sample_from_nodes(
                NodeSamplerInput(None, given_, None, "a")
            ),
            allowed=True,
        )
        assert out is None or meant is not None


_HETERO: dict = {}


def hetero(tmp_path_factory):
    if "it" not in _HETERO:
        from torch_geometric.data import HeteroData

        plain = HeteroData()
        plain["a"].x, plain["b"].x = torch.from_numpy(X), torch.from_numpy(X)
        plain["a", "to", "b"].edge_index = EDGES
        plain["b", "to", "a"].edge_index = EDGES.flip(0)
        folder = tmp_path_factory.mktemp("hetero") / "s"
        gz_pyg.save(plain, folder)
        _HETERO["it"] = gz_pyg.load(folder, cache=0)
    return _HETERO["it"]


# ---- rows and parts of a graph ----


@given(ids=odd_ids(N))
def test_rows_and_subgraphs_of_any_kind(data, peer, ids):
    given_, meant = ids
    store = gz_pyg.FeatureStore(data)
    if isinstance(given_, torch.Tensor):  # as PyG has it; it takes no lists
        rows = refused(
            lambda: store.get_tensor(group_name=None, attr_name="x", index=given_), allowed=meant is None
        )
        assert rows is None or meant is None or torch.equal(rows, peer.x[torch.from_numpy(meant)])
        part = refused(lambda: data.subgraph(given_), allowed=meant is None)
        if part is not None:
            assert meant is not None, f"{given_!r} was taken"
            want = peer.subgraph(torch.from_numpy(meant))
            if len(set(meant)) == len(meant):  # else PyG gives all edges to the last of a node's places
                assert sorted(part.edge_index.T.tolist()) == sorted(want.edge_index.T.tolist())
            assert torch.equal(part.x[:], want.x)
    for names in (store.get_all_tensor_attrs(), gz_pyg.GraphStore(data).get_all_edge_attrs()):
        assert names


@given(
    layout=st.sampled_from(["coo", "csc", "csr", "dense", None, 3]),
    kind=st.sampled_from([None, ("node", "to", "node"), "node", ("a", "b"), 3]),
)
def test_layouts_of_any_kind(data, layout, kind):
    store = gz_pyg.GraphStore(data)
    got = refused(lambda: store.get_edge_index(edge_type=kind, layout=layout), allowed=True)
    if got is not None and layout == "coo":
        assert sorted(torch.stack(list(got)).T.tolist()) == sorted(EDGES.T.tolist())
    if kind in (None, ("node", "to", "node")):
        for call in (store.coo, store.csc, store.csr):
            assert refused(lambda call=call: call(), allowed=True) is not None


@given(name=st.one_of(st.none(), st.text(max_size=4), st.integers(), st.just("train")))
def test_names_of_splits_and_types(data, tmp_path_factory, name):
    got = refused(lambda: data[name], allowed=True)
    assert got is None or name in data
    assert data.get_idx_split()["train"].tolist() == list(range(5))
    assert hetero(tmp_path_factory).get_idx_split() == {}
    assert data.metadata() == (data.node_types, data.edge_types)
    both = hetero(tmp_path_factory)
    known = "ab"[name % 2] if isinstance(name, int) else "a"
    part = both.subgraph({known: torch.arange(3)})
    assert part[known].num_nodes == 3
    assert both.is_undirected()
    assert both.has_isolated_nodes() == (len(set(SRC)) < N or len(set(DST)) < N)


# ---- writing, reading back ----


@few
@given(value=odd_arrays(N))
def test_an_attribute_of_anything(tmp_path_factory, value):
    """It comes back as it was, or `save` refuses it and leaves nothing."""
    folder = tmp_path_factory.mktemp("save") / "s"
    plain = Data(x=torch.from_numpy(X), edge_index=EDGES, thing=value)
    if refused(lambda: gz_pyg.save(plain, folder), allowed=True) is None:
        assert not folder.exists()
        return
    loaded = gz_pyg.load(folder, cache=0)
    assert torch.equal(loaded.x[:], plain.x)
    got = loaded.to_dict().get("thing") if value is not None else None
    if isinstance(value, torch.Tensor) and not value.is_sparse and not value.is_meta:
        assert torch.equal(torch.as_tensor(np.asarray(got)), value)


@given(
    path=st.one_of(
        st.text(max_size=8), st.none(), st.integers(-5, -1), st.just("/dev/null"), st.binary(max_size=4)
    ),
    cache=st.one_of(odd_numbers(None).map(lambda g: g[0]), st.text(max_size=6)),
)
def test_stores_and_caches_of_any_kind(path, cache, tmp_path_factory):
    for call in (gz_pyg.load, gz_pyg.FeatureStore, gz_pyg.GraphStore):
        assert refused(lambda call=call: call(path), allowed=True) is None, f"{call} opened {path!r}"
    sound = api_store_path(tmp_path_factory)
    refused(lambda: gz_pyg.load(sound, cache=cache), allowed=True)


def api_store_path(tmp_path_factory) -> Path:
    if "path" not in _HETERO:
        _HETERO["path"] = api_store.make(tmp_path_factory.mktemp("caches"))
    return _HETERO["path"]


@few
@given(
    size=odd_numbers(5000),
    feature=st.sampled_from(["x", "nothing", None, 3]),
    device=st.sampled_from([None, "cpu", "nonsense", "meta"]),
)
def test_inference_of_any_kind(data, peer, size, feature, device):
    torch.manual_seed(0)
    conv = SAGEConv(3, 2)
    given_, meant = size
    right = bool(meant) and feature == "x" and device in (None, "cpu") and isinstance(given_, int)
    got = refused(
        lambda: gz_pyg.inference([conv], data, feature=feature, batch_size=given_, device=device),
        allowed=not right,
    )
    if got is not None and right:
        with torch.no_grad():
            want = conv(peer.x, peer.edge_index)
        assert torch.allclose(torch.as_tensor(np.asarray(got)), want, atol=1e-5)


# ---- all of them ----

TABLE = {
    "BidirectionalNeighborSampler": "test_seeds_of_samplers",
    "FeatureStore": "test_stores_and_caches_of_any_kind",
    "FeatureStore.get_all_tensor_attrs": "test_rows_and_subgraphs_of_any_kind",
    "GraphStore": "test_stores_and_caches_of_any_kind",
    "GraphStore.coo": "test_layouts_of_any_kind",
    "GraphStore.csc": "test_layouts_of_any_kind",
    "GraphStore.csr": "test_layouts_of_any_kind",
    "GraphStore.get_all_edge_attrs": "test_rows_and_subgraphs_of_any_kind",
    "HGTLoader": "test_budgets_of_any_kind",
    "HGTSampler": "test_budgets_of_any_kind",
    "HGTSampler.sample_from_nodes": "test_budgets_of_any_kind",
    "LinkLoader": "test_links_of_any_kind",
    "LinkNeighborLoader": "test_links_in_range_are_taken",
    "NeighborLoader": "test_seeds_of_any_kind",
    "NeighborSampler": "test_seeds_of_samplers",
    "NeighborSampler.sample_from_edges": "test_seeds_of_samplers",
    "NeighborSampler.sample_from_nodes": "test_seeds_of_samplers",
    "NodeLoader": "test_seeds_of_any_kind",
    "ShaDowKHopSampler": "test_roots_of_any_kind",
    "ShaDowKHopSampler.collate_fn": "test_roots_of_any_kind",
    "StoreData.get_idx_split": "test_names_of_splits_and_types",
    "StoreData.metadata": "test_names_of_splits_and_types",
    "StoreData.subgraph": "test_rows_and_subgraphs_of_any_kind",
    "StoreHeteroData.get_idx_split": "test_names_of_splits_and_types",
    "StoreHeteroData.has_isolated_nodes": "test_names_of_splits_and_types",
    "StoreHeteroData.is_undirected": "test_names_of_splits_and_types",
    "StoreHeteroData.subgraph": "test_names_of_splits_and_types",
    "inference": "test_inference_of_any_kind",
    "load": "test_stores_and_caches_of_any_kind",
    "save": "test_an_attribute_of_anything",
}
EXEMPT = {
    "__version__": "a text",
    "monitor": "paths and loaders of the wrong kind: test_pyg_stats.py",
    "HGTSampler.sample_from_edges": "refuses, as PyG's does",
    "LightningLinkData": "hands its options to the loaders; PyTorch Lightning takes seconds to import",
    "LightningNodeData": "hands its options to the loaders; PyTorch Lightning takes seconds to import",
    "StoreData": "made by load",
    "StoreHeteroData": "made by load",
}


def test_every_public_name_of_gz_pyg_is_in_the_table():
    names = set()
    for name in gz_pyg.__all__:
        names.add(name)
        if name.startswith("Lightning"):
            continue
        thing = getattr(gz_pyg, name)
        if inspect.isclass(thing):
            names |= {f"{name}.{m}" for m, f in vars(thing).items() if callable(f) and not m.startswith("_")}
    assert names == TABLE.keys() | EXEMPT.keys()
    assert not TABLE.keys() & EXEMPT.keys()
    tree = ast.parse(Path(__file__).read_text())
    assert set(TABLE.values()) <= {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
