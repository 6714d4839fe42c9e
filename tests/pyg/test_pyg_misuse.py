"""Wrong use of gz_pyg is refused with a message that says what exists."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data, HeteroData

import gz_pyg


def test_wrong_time_attr(homo, hetero):
    with pytest.raises(ValueError, match=r"nothing.*edge_time|edge_time.*nothing|'nothing'.*time"):
        gz_pyg.NeighborLoader(homo, [2], time_attr="nothing")
    with pytest.raises(ValueError, match=r"'nothing'.*paper"):
        gz_pyg.NeighborLoader(hetero, [2], "paper", time_attr="nothing")


def test_wrong_weight_attr(homo, hetero):
    with pytest.raises(ValueError, match=r"'nothing'.*edge_attr"):
        gz_pyg.NeighborLoader(homo, [2], weight_attr="nothing")
    with pytest.raises(ValueError, match=r"'nothing'.*cites"):
        gz_pyg.NeighborLoader(hetero, [2], "paper", weight_attr="nothing")


def test_a_node_attribute_is_no_weight(homogeneous):
    with pytest.raises(ValueError, match="edge-level"):
        gz_pyg.NeighborLoader(homogeneous, [2], weight_attr="time")


def test_weights_of_the_wrong_shape(homogeneous):
    with pytest.raises(ValueError, match="one value per edge"):
        gz_pyg.NeighborLoader(homogeneous, [2], weight_attr="edge_attr")


def test_wrong_fanouts(homo, hetero, heterogeneous):
    for bad in (5, "15", [1.5], [None]):
        with pytest.raises(ValueError, match="one per hop"):
            gz_pyg.NeighborLoader(homo, bad)
    with pytest.raises(ValueError, match="give a list"):
        gz_pyg.NeighborLoader(homo, {("paper", "cites", "paper"): [1]})
    with pytest.raises(ValueError, match=r"unknown.*cites"):
        gz_pyg.NeighborLoader(hetero, {("paper", "unknown", "paper"): [1]}, "paper")
    with pytest.raises(ValueError, match="Missing number of neighbors"):
        gz_pyg.NeighborLoader(hetero, {("paper", "cites", "paper"): [1]}, "paper")
    lengths = {t: [1] * (i + 1) for i, t in enumerate(heterogeneous.edge_types)}
    with pytest.raises(ValueError, match="hops must be the same"):
        gz_pyg.NeighborLoader(hetero, lengths, "paper")


def test_wrong_input_nodes(homo, hetero):
    with pytest.raises(IndexError, match="100"):
        gz_pyg.NeighborLoader(homo, [2], [3, 100])
    with pytest.raises(IndexError, match="-1"):
        gz_pyg.NeighborLoader(homo, [2], torch.tensor([-1]))
    with pytest.raises(TypeError, match="integers or a boolean mask"):
        gz_pyg.NeighborLoader(homo, [2], torch.tensor([0.5]))
    with pytest.raises(ValueError, match=r"7 entries.*100"):
        gz_pyg.NeighborLoader(homo, [2], torch.ones(7, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"paper.*author"):
        gz_pyg.NeighborLoader(hetero, [2], [1, 2, 3])
    with pytest.raises(ValueError, match=r"'person'.*paper"):
        gz_pyg.NeighborLoader(hetero, [2], "person")


def test_wrong_edge_label_index(homo, hetero):
    with pytest.raises(IndexError, match="100"):
        gz_pyg.LinkNeighborLoader(homo, [2], torch.tensor([[0], [100]]))
    with pytest.raises(ValueError, match=r"\[3, 4\]|\(3, 4\)"):
        gz_pyg.LinkNeighborLoader(homo, [2], torch.zeros(3, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match="cites"):
        gz_pyg.LinkNeighborLoader(hetero, [2], ("paper", "unknown", "venue"))
    with pytest.raises(ValueError, match="name an edge type"):
        gz_pyg.LinkNeighborLoader(hetero, [2])
    with pytest.raises(ValueError, match=r"600 edges.*3 in edge_label"):
        gz_pyg.LinkNeighborLoader(homo, [2], edge_label=torch.ones(3))


def test_labels_of_triplets(homo):
    with pytest.raises(ValueError, match="triplet"):
        gz_pyg.LinkNeighborLoader(homo, [2], edge_label=torch.ones(600), neg_sampling="triplet")


def test_times_without_their_other_half(homo):
    with pytest.raises(ValueError, match="'time_attr' is not set"):
        gz_pyg.NeighborLoader(homo, [2], input_time=torch.arange(100))
    with pytest.raises(ValueError, match="'edge_label_time' is not set"):
        gz_pyg.LinkNeighborLoader(homo, [2], time_attr="time")
    with pytest.raises(ValueError, match="input_time"):
        next(iter(gz_pyg.NeighborLoader(homo, [2], time_attr="edge_time")))
    with pytest.raises(ValueError, match=r"100 input nodes.*3"):
        gz_pyg.NeighborLoader(homo, [2], time_attr="edge_time", input_time=torch.arange(3))


def test_wrong_choices(homo):
    with pytest.raises(ValueError, match="'uniform' or 'last'"):
        gz_pyg.NeighborLoader(homo, [2], temporal_strategy="first")
    with pytest.raises(ValueError, match="sideways"):
        gz_pyg.NeighborLoader(homo, [2], subgraph_type="sideways")
    with pytest.raises(ValueError, match="'forward' or 'backward'"):
        gz_pyg.NeighborSampler(homo, [2], sample_direction="sideways")


def test_wrong_data(tmp_path):
    with pytest.raises(ValueError, match="path of a store"):
        gz_pyg.NeighborLoader(42, [2])
    with pytest.raises(FileNotFoundError, match="there is no such store"):
        gz_pyg.NeighborLoader(tmp_path / "nothing", [2])


def test_edges_that_point_nowhere():
    with pytest.raises(IndexError, match="7"):
        gz_pyg.NeighborLoader(Data(num_nodes=3, edge_index=torch.tensor([[0, 7], [1, 1]])), [2])
    data = HeteroData()
    data["a"].num_nodes = 2
    data["a", "to", "b"].edge_index = torch.tensor([[0], [0]])
    with pytest.raises(ValueError, match="'b'"):
        gz_pyg.NeighborLoader(data, [2], "a")


def test_nan_times():
    data = Data(num_nodes=2, edge_index=torch.tensor([[0], [1]]), when=torch.tensor([float("nan")]))
    loader = gz_pyg.NeighborLoader(data, [2], input_time=torch.zeros(2), time_attr="when")
    with pytest.raises(ValueError, match="NaN"):
        next(iter(loader))
