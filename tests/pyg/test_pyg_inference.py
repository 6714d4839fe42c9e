"""gz_pyg.inference gives what the model gives on the whole graph in memory, wherever its rows are kept."""

from __future__ import annotations

import copy
import io
import os
import pathlib
import re
import signal
import subprocess

import numpy as np
import pytest
import torch
import waits
from torch_geometric.data import Data
from torch_geometric.nn import (
    APPNP,
    GAT,
    GCN,
    GIN,
    PNA,
    EdgeCNN,
    GCNConv,
    GraphSAGE,
    HeteroConv,
    HGTConv,
    LGConv,
    SAGEConv,
    to_hetero,
)
from torch_geometric.transforms import ToSparseTensor
from torch_geometric.utils import degree, to_edge_index

import gz_pyg

MODELS = {
    "sage": lambda: GraphSAGE(8, 16, 3, 4, dropout=0.5),
    "sage max": lambda: GraphSAGE(8, 16, 2, 4, aggr="max", project=True),
    "gcn": lambda: GCN(8, 16, 3, 4),
    "gcn improved": lambda: GCN(8, 16, 2, 4, improved=True),
    "gcn without loops": lambda: GCN(8, 16, 2, 4, add_self_loops=False),
    "gat": lambda: GAT(8, 16, 2, 4, heads=2),
    "gatv2": lambda: GAT(8, 16, 2, 4, v2=True),
    "gin": lambda: GIN(8, 16, 2, 4),
    "edge cnn": lambda: EdgeCNN(8, 16, 2, 4),
    "batch norm": lambda: GraphSAGE(8, 16, 3, 4, norm="batch_norm", act="elu", act_first=True),
    "layer norm": lambda: GIN(8, 16, 2, norm="layer_norm", norm_kwargs={"mode": "node"}),
    "jk last": lambda: GraphSAGE(8, 16, 3, 4, jk="last"),
    "jk cat": lambda: GCN(8, 16, 3, 4, jk="cat"),
    "jk max": lambda: GraphSAGE(8, 16, 3, 4, jk="max"),
    "jk lstm": lambda: GraphSAGE(8, 16, 2, 4, jk="lstm"),
    "one layer": lambda: GraphSAGE(8, 4, 1),
}
ON_ONE_TYPE = {"memory": lambda data, path: data, "store": lambda data, path: gz_pyg.load(path)}


@pytest.fixture(params=ON_ONE_TYPE)
def graph(request, homogeneous, homogeneous_path):
    return ON_ONE_TYPE[request.param](homogeneous, homogeneous_path)


@pytest.fixture
def own_store(homogeneous, tmp_path):
    return gz_pyg.load(gz_pyg.save(homogeneous, tmp_path / "store"))


def learned(model):
    """With statistics of its norms that are not those of the beginning."""
    for module in model.modules():
        if hasattr(module, "running_mean"):
            torch.nn.init.normal_(module.running_mean)
            torch.nn.init.uniform_(module.running_var, 0.5, 2)
    return model


def in_memory(model, data, **edges):
    model.eval()
    with torch.no_grad():
        return model(data.x, data.edge_index, **edges)


def files(folder):
    return sorted(str(p) for p in pathlib.Path(folder).rglob("*"))


@pytest.mark.parametrize("name", MODELS)
def test_a_basic_model_gives_what_it_gives_in_memory(name, graph, homogeneous):
    model = learned(MODELS[name]())
    want = in_memory(model, homogeneous)
    model.train()
    got = gz_pyg.inference(model, graph, batch_size=33)
    assert model.training
    assert all(m.training for m in model.modules())
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_pna_by_the_degrees_it_was_made_with(graph, homogeneous):
    deg = torch.bincount(degree(homogeneous.edge_index[1], 100, dtype=torch.long))
    model = PNA(8, 16, 2, 4, aggregators=["mean", "max"], scalers=["identity", "attenuation"], deg=deg)
    want = in_memory(model, homogeneous)
    torch.testing.assert_close(gz_pyg.inference(model, graph, batch_size=41), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["sage", "gat", "gin", "jk last"])
def test_it_gives_what_basic_gnn_inference_gives(name, graph):
    model = MODELS[name]().eval()
    loader = gz_pyg.NeighborLoader(copy.copy(graph), [-1], batch_size=33)
    want = model.inference(loader)
    torch.testing.assert_close(gz_pyg.inference(model, graph, batch_size=33), want, rtol=1e-4, atol=1e-5)


def test_weights_and_attributes_of_edges(graph, homogeneous):
    model = GCN(8, 16, 2, 4)
    want = in_memory(model, homogeneous, edge_weight=homogeneous.weight)
    got = gz_pyg.inference(model, graph, edge_weight="weight", batch_size=33)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    model = GAT(8, 16, 2, 4, edge_dim=3)
    want = in_memory(model, homogeneous, edge_attr=homogeneous.edge_attr)
    got = gz_pyg.inference(model, graph, edge_attr="edge_attr", batch_size=33)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="GraphSAGE takes no edge_weight"):
        gz_pyg.inference(GraphSAGE(8, 4, 1), graph, edge_weight="weight")
    with pytest.raises(ValueError, match="no attribute 'wait'"):
        gz_pyg.inference(model, graph, edge_attr="wait")


def test_loops_and_several_edges_between_two_nodes(tmp_path):
    ends = torch.tensor([[0, 0, 0, 1, 2, 2, 4, 1, 0], [1, 1, 0, 1, 0, 0, 0, 3, 4]])
    data = Data(x=torch.randn(5, 8), edge_index=ends, w=torch.rand(9))
    stored = gz_pyg.load(gz_pyg.save(data, tmp_path / "s"))
    for model in (GCN(8, 4, 2), GCN(8, 4, 2, improved=True)):
        for given in (data, stored):
            got = gz_pyg.inference(model, given, batch_size=2)
            torch.testing.assert_close(got, in_memory(model, data), rtol=1e-4, atol=1e-5)
            got = gz_pyg.inference(model, given, batch_size=2, edge_weight="w")
            want = in_memory(model, data, edge_weight=data.w)
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weight", [None, "weight"])
def test_edges_kept_as_a_matrix(homogeneous, weight):
    data = ToSparseTensor(attr=weight, layout=torch.sparse_csr)(copy.copy(homogeneous))
    for model in (GCN(8, 16, 2, 4), GraphSAGE(8, 16, 2, 4, aggr="sum" if weight is None else "max")):
        ends, value = to_edge_index(data.adj_t)
        edges = {"edge_weight": value} if isinstance(model, GCN) else {}
        with torch.no_grad():
            want = model.eval()(data.x, ends.flip(0), **edges)
        torch.testing.assert_close(gz_pyg.inference(model, data, batch_size=33), want, rtol=1e-4, atol=1e-5)


def test_layers_of_ones_own(graph, homogeneous):
    convs = torch.nn.ModuleList([GCNConv(8, 16), SAGEConv(16, 16), LGConv(), GCNConv(16, 4)])

    class Inside(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = convs[0]

        def forward(self, x, edge_index):
            return self.conv(x, edge_index).relu()

    layers = [Inside(), lambda x, e: convs[1](x, e).relu(), *convs[2:]]
    h = homogeneous.x
    with torch.no_grad():
        for layer in layers:
            h = layer(h, homogeneous.edge_index)
    torch.testing.assert_close(gz_pyg.inference(layers, graph, batch_size=33), h, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        gz_pyg.inference(convs[0], graph), in_memory(convs[0], homogeneous), rtol=1e-4, atol=1e-5
    )
    assert all(c.normalize for c in (convs[0], *convs[2:]))


# ---- where the rows go ----


def test_into_a_column_of_the_store(own_store, homogeneous):
    model = GraphSAGE(8, 16, 2, 4)
    got = gz_pyg.inference(model, own_store, "emb", batch_size=33)
    torch.testing.assert_close(got, in_memory(model, homogeneous), rtol=1e-4, atol=1e-5)
    assert torch.equal(own_store.emb, got)
    assert torch.equal(gz_pyg.load(own_store.store.path).emb, got)
    (batch,) = gz_pyg.NeighborLoader(own_store, [1], batch_size=100)
    assert torch.equal(batch.emb, got[batch.n_id])
    with pytest.raises(FileExistsError, match="overwrite=True"):
        gz_pyg.inference(model, own_store, "emb")
    other = gz_pyg.inference([lambda x, e: x + 1], own_store, "emb", overwrite=True)
    assert torch.equal(own_store.emb, homogeneous.x + 1)
    assert torch.equal(other, homogeneous.x + 1)


@pytest.mark.parametrize("memory", ["1GB", 0])
def test_into_a_file(graph, homogeneous, tmp_path, memory):
    model = GCN(8, 16, 3, 4, jk="cat")
    got = gz_pyg.inference(model, graph, tmp_path / "out.npy", batch_size=33, memory=memory, tmp=tmp_path)
    torch.testing.assert_close(got, in_memory(model, homogeneous), rtol=1e-4, atol=1e-4)
    assert np.array_equal(np.load(tmp_path / "out.npy"), got.numpy())
    assert os.listdir(tmp_path) == ["out.npy"]


def test_inner_layers_beyond_the_budget_are_files_in_the_store(own_store, homogeneous):
    before, seen = files(own_store.store.path), []

    def layer(x, edge_index):
        seen.append([p for p in files(own_store.store.path) if p not in before and p.endswith(".npy")])
        return x + 1

    rows = 100 * 8 * 4
    for memory, kept in ((0, [0, 1, 1]), (rows, [0, 0, 1]), (2 * rows, [0, 0, 0])):
        seen.clear()
        got = gz_pyg.inference([layer] * 3, own_store, memory=memory)
        assert [len(now) for now in seen] == kept  # of those that are read
        assert torch.equal(got, homogeneous.x + 1 + 1 + 1)
        assert files(own_store.store.path) == before


def test_bfloat16(own_store, homogeneous, tmp_path):
    layers = [lambda x, e: x.bfloat16(), lambda x, e: x * 2]
    want = homogeneous.x.bfloat16() * 2
    assert torch.equal(gz_pyg.inference(layers, own_store, memory=0), want)
    assert torch.equal(gz_pyg.inference(layers, own_store, "emb"), want)
    with pytest.raises(ValueError, match="cannot hold bfloat16"):
        gz_pyg.inference(layers, own_store, tmp_path / "out.npy")


@pytest.mark.parametrize("out", ["x", "file", None])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("layer", [0, 1])
def test_what_is_interrupted_leaves_nothing(own_store, homogeneous, tmp_path, out, error, layer):
    calls = []

    def stops(x, edge_index):
        calls.append(0)
        if len(calls) == 2:
            raise error("now")
        return x

    np.save(tmp_path / "out.npy", np.arange(3))
    layers = [stops, lambda x, e: x] if layer == 0 else [lambda x, e: x + 1, stops]
    target = tmp_path / "out.npy" if out == "file" else out
    before = files(tmp_path)
    with pytest.raises(error):
        gz_pyg.inference(layers, own_store, target, batch_size=33, memory=0, overwrite=True)
    assert files(tmp_path) == before
    assert np.load(tmp_path / "out.npy").tolist() == [0, 1, 2]
    assert torch.equal(gz_pyg.load(own_store.store.path).x, homogeneous.x)


SLOW = """
import signal, sys, time, gz_pyg
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
def layer(x, edge_index):
    print("begun", flush=True)
    time.sleep(0.2)
    return x
gz_pyg.inference([lambda x, e: x, layer], sys.argv[1], "emb", batch_size=1, memory=0)
"""


@pytest.mark.slow
def test_ctrl_c_leaves_the_store_as_it_was(own_store):
    before = files(own_store.store.path)
    with waits.script(SLOW, own_store.store.path, stderr=subprocess.PIPE) as process:
        for _ in range(3):
            assert process.stdout.readline() == "begun\n"
        assert files(own_store.store.path) != before
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=waits.PATIENCE)
    assert error.strip().endswith("KeyboardInterrupt")
    assert files(own_store.store.path) == before


def test_progress_on_a_terminal(graph, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for progress in (None, False):
        stream = Terminal()
        monkeypatch.setattr("sys.stderr", stream)
        gz_pyg.inference(GCN(8, 4, 2), graph, batch_size=33, progress=progress)
        assert ("degrees" in stream.getvalue()) == (progress is None)
        assert ("layer 2 of 2" in stream.getvalue()) == (progress is None)


# ---- several types ----


def hetero_layers(metadata):
    convs = [HeteroConv({e: SAGEConv((-1, -1), 8) for e in metadata[1]}) for _ in range(2)]
    return [*convs[:1], lambda x, e: {t: v.relu() for t, v in x.items()}, *convs[1:]]


@pytest.mark.parametrize("kind", ["memory", "store"])
def test_layers_that_take_dicts(heterogeneous, heterogeneous_path, kind, tmp_path):
    data = heterogeneous if kind == "memory" else gz_pyg.load(heterogeneous_path)
    layers = hetero_layers(heterogeneous.metadata())
    x = heterogeneous.x_dict
    edges = {e: i for e, i in heterogeneous.edge_index_dict.items() if e[0] in x and e[2] in x}
    with torch.no_grad():
        for layer in layers:
            x = layer(x, edges)
    for out in (None, tmp_path / "out"):
        got = gz_pyg.inference(layers, data, out, batch_size=30)
        assert set(got) == set(x) == {"paper", "author"}
        for t in x:
            torch.testing.assert_close(got[t], x[t], rtol=1e-4, atol=1e-5)
    assert sorted(os.listdir(tmp_path / "out")) == ["author.npy", "paper.npy"]


class OneHop(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SAGEConv((-1, -1), 4)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index).relu()


@pytest.mark.parametrize("kind", ["memory", "store"])
def test_attention_over_types_and_a_module_made_for_them(heterogeneous, tmp_path, kind):
    memory = copy.copy(heterogeneous)
    memory["venue"].x = torch.randn(5, 3)
    publishes = ("paper", "in", "venue")
    memory[publishes].edge_index = torch.stack([torch.arange(100), torch.arange(100) % 5])
    for name in ("edge_attr", "weight", "edge_time"):
        memory[publishes][name] = torch.arange(100)
    data = memory if kind == "memory" else gz_pyg.load(gz_pyg.save(memory, tmp_path / "s"))
    sizes = {t: memory[t].num_features for t in memory.node_types}
    layers = [HGTConv(sizes, 8, memory.metadata(), heads=2), to_hetero(OneHop(), memory.metadata())]
    want = memory.x_dict
    with torch.no_grad():
        for layer in layers:
            want = layer(want, memory.edge_index_dict)
    got = gz_pyg.inference(layers, data, "h" if kind == "store" else None, batch_size=30)
    assert set(got) == set(want) == {"paper", "author", "venue"}
    for t in want:
        torch.testing.assert_close(got[t], want[t], rtol=1e-4, atol=1e-5)
        assert kind == "memory" or torch.equal(data[t].h, got[t])


# ---- what cannot be done says what can ----


class OwnForward(GraphSAGE):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index) + 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (torch.nn.Linear(8, 4), "list of functions"),
        ([], "list of functions"),
        (OwnForward(8, 4, 1), "forward of its own"),
        ([APPNP(2, 0.1)], "more of a node than its neighbours"),
        (GraphSAGE(8, 4, 2, norm="graph_norm"), "GraphNorm is computed over all nodes"),
        (GraphSAGE(8, 4, 2, norm="layer_norm"), "LayerNorm is computed over all nodes"),
        (SAGEConv(8, 4, flow="target_to_source"), "flow"),
        ([lambda x, e: None], "NoneType"),
        ([lambda x, e: x[:1]], "1 rows for 33 nodes"),
        ([lambda x, e: x if len(x) > 40 else x[:, :2]], "shape"),
    ],
)
def test_a_model_that_cannot_be_computed_so(homogeneous, model, message):
    with pytest.raises((TypeError, ValueError), match=message):
        gz_pyg.inference(model, homogeneous, batch_size=33)


def test_wrong_arguments(homogeneous, homogeneous_path, heterogeneous, tmp_path):
    model = GraphSAGE(8, 4, 1)
    data = gz_pyg.load(homogeneous_path)
    with pytest.raises(ValueError, match="lies in memory"):
        gz_pyg.inference(model, homogeneous, "emb")
    with pytest.raises(ValueError, match=r"end in \.npy"):
        gz_pyg.inference(model, data, tmp_path / "out")
    with pytest.raises(ValueError, match="no node has the attribute 'feat'"):
        gz_pyg.inference(model, data, feature="feat")
    with pytest.raises(ValueError, match="batch_size"):
        gz_pyg.inference(model, data, batch_size=0)
    with pytest.raises(TypeError, match="one node type"):
        gz_pyg.inference(model, heterogeneous)
    with pytest.raises(ValueError, match="give a folder"):
        gz_pyg.inference(hetero_layers(heterogeneous.metadata()), heterogeneous, "out.npy")
    with pytest.raises(TypeError, match=r"gz_pyg\.load"):
        gz_pyg.inference(model, (data.feature_store, gz_pyg.load(homogeneous_path).graph_store))
    with pytest.raises(ValueError, match="no nodes"):
        gz_pyg.inference(model, Data(x=torch.empty(0, 8), edge_index=torch.empty(2, 0, dtype=torch.long)))
    with pytest.raises(ValueError, match="several node types"):
        gz_pyg.inference([HeteroConv({("paper", "cites", "paper"): GCNConv(4, 4)})], heterogeneous)


def test_an_output_that_would_not_fit_names_the_file(own_store, monkeypatch):
    monkeypatch.setattr("gz._base.memory_plan.free_ram", lambda: 1000)
    with pytest.raises(MemoryError, match=r"out='out\.npy'"):
        gz_pyg.inference([lambda x, e: x], own_store)


def test_the_lines_shown_in_the_docs(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = Data(x=torch.randn(50, 128), edge_index=torch.randint(50, (2, 300)))
    gz_pyg.save(data, "store")
    text = (repository / "docs" / "pyg.md").read_text()
    (block,) = [b for b in re.findall(r"^```python\n(.*?)^```", text, re.S | re.M) if "inference" in b]
    names: dict = {}
    exec(block, names)
    assert gz_pyg.load("store").embedding.shape == np.load("embedding.npy").shape == (50, 64)
    assert names["embedding"].shape == (50, 64)
