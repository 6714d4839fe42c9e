"""What Data and HeteroData can do, a loaded store does: each method beside the same graph in memory."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from pyg_batches import equal
from torch import Tensor
from torch_geometric.data import Data

import gz_pyg


def shown(value):
    """A result as something that can be compared: what it holds, whatever kind of object it is."""
    if isinstance(value, Tensor):
        return value.dtype, value.device.type, value.tolist() if not value.is_meta else tuple(value.shape)
    if hasattr(value, "stores"):
        return [(s._key, shown(dict(s.items()))) for s in value.stores]
    if hasattr(value, "_mapping"):
        return shown(dict(value.items()))
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) or type(value).__name__ in ("KeysView", "ValuesView", "ItemsView"):
        return [shown(v) for v in value]
    return value


def in_any_order(names):
    return sorted(map(str, names))


BOTH = {
    "to": lambda d: d.to("cpu"),
    "to of some": lambda d: d.to("meta", "x"),
    "to of a device and back": lambda d: d.to("meta", "x").to("meta", "time") and None,
    "cpu": lambda d: d.cpu(),
    "cpu of some": lambda d: d.cpu("x", "edge_attr"),
    "contiguous": lambda d: d.contiguous(),
    "share_memory_": lambda d: d.share_memory_("x"),
    "clone": lambda d: d.clone(),
    "clone of some": lambda d: d.clone("x", "edge_index"),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda d: pickle.loads(pickle.dumps(d)),
    "apply": lambda d: d.apply(lambda t: t.clamp(max=2)),
    "apply to some": lambda d: d.apply(lambda t: t + 1, "x", "time"),
    "apply_": lambda d: d.apply_(lambda t: t.add_(1), "x"),
    "apply of the result": lambda d: d.apply(lambda t: t.double(), "x").apply(lambda t: t - 1, "x"),
    "detach": lambda d: d.detach(),
    "detach_": lambda d: d.detach_("x"),
    "requires_grad_": lambda d: (
        d.requires_grad_("x") and [s.x.requires_grad for s in d.node_stores if "x" in s]
    ),
    "validate": lambda d: d.validate(),
    "size": lambda d: d.size(),
    "size of a dimension": lambda d: (d.size(0), d.size(1)),
    "keys": lambda d: in_any_order(d.keys()),
    "len": len,
    "in": lambda d: ["x" in d, "edge_index" in d, "nothing" in d],
    "get": lambda d: (d.get("nothing"), d.get("nothing", 3)) if isinstance(d, Data) else None,
    "node_attrs": lambda d: in_any_order(d.node_attrs()),
    "edge_attrs": lambda d: in_any_order(d.edge_attrs()),
    "stores": lambda d: [in_any_order(s.keys()) for s in d.stores],
    "node_stores": lambda d: [in_any_order(s.node_attrs()) for s in d.node_stores],
    "edge_stores": lambda d: [in_any_order(s.edge_attrs()) for s in d.edge_stores],
    "to_dict": lambda d: d.to_dict(),
    "num_features": lambda d: (d.num_features, d.num_node_features, d.num_edge_features),
    "num_nodes": lambda d: (d.num_nodes, d.num_edges),
    "is_cuda": lambda d: d.is_cuda,
    "can_infer_num_nodes": lambda d: [s.can_infer_num_nodes for s in d.node_stores],
    "has_isolated_nodes": lambda d: d.has_isolated_nodes(),
    "is_undirected": lambda d: (d.is_undirected(), d.is_directed()),
    "concat": lambda d: (d._store.pop("name") if isinstance(d, Data) else None, d.concat(d))[1],
    "update": lambda d: d.update(copy.copy(d)),
}
ONE_TYPE = {
    "edge_attr that is not there": lambda d: d.pop("edge_attr") is not None and d.edge_attr,
    "y, pos that are not there": lambda d: (d.pop("y") is not None and d.y, d.pos),
    "subgraph": lambda d: d.subgraph(torch.arange(0, 100, 3)),
    "subgraph of a mask": lambda d: d.subgraph(torch.arange(100) % 2 == 0),
    "edge_subgraph": lambda d: d.edge_subgraph(torch.arange(0, 600, 7)),
    "keys of some": lambda d: [*d._store.keys("x", "y")],
    "values": lambda d: [*d._store.values("x", "y")],
    "items": lambda d: [*d._store.items("x", "y")],
    "iteration": lambda d: dict(iter(d)),
    "call": lambda d: dict(d("x", "y")),
    "is_node_attr": lambda d: {k: (d.is_node_attr(k), d.is_edge_attr(k)) for k in sorted(d.keys())},
    "to_namedtuple": lambda d: sorted(d.to_namedtuple()._fields),
    "num_node_types": lambda d: (d.num_node_types, d.num_edge_types),
    "to_heterogeneous": lambda d: (
        d.to_heterogeneous(
            node_type=torch.zeros(100, dtype=torch.long), edge_type=torch.zeros(600, dtype=torch.long)
        ).num_nodes
    ),
    "from_dict": lambda d: Data.from_dict(d.to_dict()),
    "sort_by_time": lambda d: d.sort_by_time().time if hasattr(d, "sort_by_time") else None,
    "snapshot": lambda d: d.snapshot(100, 500).time if hasattr(d, "snapshot") else None,
    "set and delete": lambda d: (setattr(d, "z", torch.ones(100)), delattr(d, "y"), in_any_order(d.keys()))[
        2
    ],
}
SEVERAL = {
    "node_items": lambda d: [(t, in_any_order(s.keys())) for t, s in d.node_items()],
    "edge_items": lambda d: [(t, in_any_order(s.keys())) for t, s in d.edge_items()],
    "node_types": lambda d: (d.node_types, d.edge_types),
    "metadata": lambda d: d.metadata(),
    "x_dict": lambda d: d.x_dict,
    "edge_index_dict": lambda d: d.edge_index_dict,
    "num_nodes_dict": lambda d: (d.num_nodes_dict, d.num_features, d.num_edge_features),
    "collect": lambda d: d.collect("time"),
    "part by two names": lambda d: d["paper", "author"],
    "part": lambda d: d["paper"],
    "get of a part": lambda d: (d["paper"].get("nothing"), d["venue"].get("x", 7)),
    "part that is added": lambda d: (
        d["new"].__setattr__("x", torch.ones(3, 2)),
        d.node_types,
        d["new"].num_nodes,
    )[1:],
    "delete a part": lambda d: (d.__delitem__("venue"), d.node_types)[1],
    "rename": lambda d: d.rename("paper", "article").metadata(),
    "node_type_subgraph": lambda d: d.node_type_subgraph(["paper", "author"]),
    "edge_type_subgraph": lambda d: d.edge_type_subgraph([("paper", "cites", "paper")]),
    "subgraph": lambda d: d.subgraph({"paper": torch.arange(0, 100, 3), "author": torch.arange(50)}),
    "to_homogeneous": lambda d: d.to_homogeneous(),
    "set_value_dict": lambda d: d.set_value_dict("z", {"paper": torch.ones(100)}),
    "size of a part": lambda d: (d["paper", "author"].size(), d["paper", "author"].size(1)),
    "is_node_attr": lambda d: [d["paper"].is_node_attr("x"), d["paper", "author"].is_edge_attr("weight")],
    "to of a part": lambda d: d["paper"].to("meta", "x"),
}


@pytest.mark.parametrize("name", [*BOTH, *ONE_TYPE])
def test_a_graph_of_one_type_does_as_data(name, homogeneous, homogeneous_path):
    method = (BOTH | ONE_TYPE)[name]
    loaded, memory = gz_pyg.load(homogeneous_path), copy.deepcopy(homogeneous)
    check(method, loaded, memory)


@pytest.mark.parametrize("name", [*BOTH, *SEVERAL])
def test_a_graph_of_several_types_does_as_hetero_data(name, heterogeneous, heterogeneous_path):
    method = (BOTH | SEVERAL)[name]
    loaded, memory = gz_pyg.load(heterogeneous_path), copy.deepcopy(heterogeneous)
    check(method, loaded, memory)


def check(method, loaded, memory):
    got, want = shown(method(loaded)), shown(method(memory))
    assert sorted_stores(got) == sorted_stores(want)
    assert shown_of(loaded) == shown_of(memory)  # what it did to the graph itself


def sorted_stores(value):
    """Attributes in any order: a store lists those of nodes first."""
    if isinstance(value, list):
        return [sorted_stores(v) for v in value]
    if isinstance(value, dict):
        return {k: sorted_stores(value[k]) for k in sorted(value, key=str)}
    return value


def shown_of(data):
    return sorted_stores(shown(data))


@pytest.mark.parametrize("move", ["cuda", "pin_memory"])
def test_without_cuda_it_fails_as_pygs(move, homogeneous, homogeneous_path):
    if torch.cuda.is_available():
        pytest.skip("there is CUDA")
    loaded = gz_pyg.load(homogeneous_path)
    for args in ((), ("x",)) if move == "pin_memory" else ((), (None, "x")):
        with pytest.raises((RuntimeError, AssertionError)) as want:
            getattr(copy.copy(homogeneous), move)(*args)
        with pytest.raises(want.type, match=str(want.value)[:20]):
            getattr(loaded, move)(*args)
    equal(loaded, homogeneous)


def test_reddits_inference(homogeneous, homogeneous_path):
    """`del loader.data.x` and `loader.data.n_id = ...`: batches without features, with ids of the nodes."""
    outcomes = []
    for data in (copy.copy(homogeneous), gz_pyg.load(homogeneous_path)):
        loader = gz_pyg.NeighborLoader(copy.copy(data), [-1], batch_size=30, shuffle=False)
        del loader.data.x, loader.data.y
        loader.data.num_nodes = data.num_nodes
        loader.data.n_id = torch.arange(data.num_nodes)
        for _ in range(2):
            batches = list(loader)
            assert [b.num_nodes for b in batches] == [b.n_id.numel() for b in batches]
            outcomes.append([(sorted(b.keys()), b.n_id.tolist(), b.edge_index.tolist()) for b in batches])
        assert "x" in data
    assert outcomes[0] == outcomes[1] == outcomes[2] == outcomes[3]
    assert "x" not in outcomes[0][0][0]


def test_a_mapped_tensor_is_saved_as_a_tensor(homogeneous, homogeneous_path):
    buffer = io.BytesIO()
    torch.save({"x": gz_pyg.load(homogeneous_path).x}, buffer)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer, weights_only=True)["x"], homogeneous.x)
    assert torch.equal(pickle.loads(pickle.dumps(gz_pyg.load(homogeneous_path).x)), homogeneous.x)
