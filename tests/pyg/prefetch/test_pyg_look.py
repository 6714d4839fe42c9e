"""The quick look by which the training thread sees that a batch made ahead still holds.

It must say what a list of all attributes with their versions says, whatever was done, and not make that list.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from prefetch_batches import same
from torch_geometric import seed_everything
from waits import in_child

import gz
import gz_pyg
from gz_pyg._loader.epoch import OVER, Indices
from gz_pyg._source.look import Look
from gz_pyg._source.resolve import as_source


def _write_in_place(data):
    data.x[3] = 0


def _write_in_place_later(data):
    x = data.x  # a tensor that was given out before
    yield
    x.mul_(2)


def _write_a_mask_in_place(data):
    data.train_mask[0] = False


def _mask_given_out(data):
    mask = data.train_mask
    yield
    mask[0] = ~mask[0]


def _replaced_in_the_store(data):
    data._store._mapping.store.add_feature("y", np.arange(100), overwrite=True)


HOMOGENEOUS = {
    "set": lambda data: setattr(data, "x", torch.zeros(100, 2)),
    "set as it was": lambda data: setattr(data, "y", data.y),
    "reshaped": lambda data: setattr(data, "y", data.y.view(-1, 1)),
    "added": lambda data: setattr(data, "z", torch.zeros(100)),
    "deleted": lambda data: delattr(data, "y"),
    "popped": lambda data: data.pop("y"),
    "updated": lambda data: data.update({"x": torch.ones(100, 1)}),
    "put": lambda data: data.put_tensor(torch.ones(100, 1), attr_name="x", index=None),
    "read": lambda data: data.x.sum(),
    "read lazily": lambda data: data.edge_index.max(),
    "written in place": _write_in_place,
    "written in place, the tensor given out before": _write_in_place_later,
    "a mask written in place, given out before": _mask_given_out,
    "a mask written in place": _write_a_mask_in_place,
    "edges written in place": lambda data: data.edge_index.zero_(),
    "a mask deleted": lambda data: delattr(data, "train_mask"),
    "asks for gradients": lambda data: data.x.requires_grad_(),
    "the edges": lambda data: setattr(data, "edge_index", data.edge_index[:, :7]),
    "to a device": lambda data: data.to("meta", "x"),
    "replaced in the store": _replaced_in_the_store,
    "another storage": lambda data: data.__dict__.update(_store=data.clone()._store),
}
HETEROGENEOUS = {
    "set": lambda data: setattr(data["paper"], "x", torch.zeros(100, 2)),
    "written in place": lambda data: data["author"].x.zero_(),
    "a type added": lambda data: setattr(data["editor"], "x", torch.zeros(3, 1)),
    "a type deleted": lambda data: data.__delitem__("venue"),
    "an edge type deleted": lambda data: data.__delitem__(("venue", "publishes", "paper")),
    "of the graph": lambda data: setattr(data, "year", 2026),
}


@pytest.fixture
def with_splits(homogeneous, tmp_path):
    """A store with a split, which is a mask once it is asked for."""
    gz.ingest(
        tmp_path / "graph",
        edges=tuple(homogeneous.edge_index.numpy()),
        features={"x": homogeneous.x.numpy(), "y": homogeneous.y.numpy()},
        splits={"train": np.arange(50)},
        num_nodes=100,
    )
    return gz_pyg.load(tmp_path / "graph")


@pytest.mark.parametrize("name", HOMOGENEOUS)
def test_every_change_to_a_homogeneous_graph_is_seen(with_splits, name):
    _seen(with_splits, HOMOGENEOUS[name])


@pytest.mark.parametrize("name", HETEROGENEOUS)
def test_every_change_to_a_heterogeneous_graph_is_seen(heterogeneous, tmp_path, name):
    gz_pyg.save(heterogeneous, tmp_path / "graph")
    _seen(gz_pyg.load(tmp_path / "graph"), HETEROGENEOUS[name])


def _seen(data, change):
    source = as_source(data)
    steps = change(data) if change in (_write_in_place_later, _mask_given_out) else None
    if steps is not None:
        next(steps)
    state = source.frozen().state()
    assert state.look is not None
    assert source.is_still(state)
    if steps is None:
        change(data)
    else:
        assert next(steps, None) is None
    assert source.is_still(state) == (source.state() == state)
    later = source.frozen().state()
    assert source.is_still(later)


def test_where_nothing_happens_no_attribute_is_listed(with_splits, monkeypatch):
    data = with_splits
    assert data.train_mask.sum() == 50
    data.y = data.y.view(-1)
    source = as_source(data)
    state = source.frozen().state()
    monkeypatch.setattr(type(source), "_listed", lambda self: pytest.fail("the attributes were listed"))
    assert source.is_still(state)


def test_what_lies_in_memory_has_no_clock(homogeneous, heterogeneous):
    assert Look.at(homogeneous) is None
    assert Look.at(heterogeneous) is None


def test_a_change_while_the_graph_is_copied_is_not_missed(homogeneous, tmp_path, monkeypatch):
    gz_pyg.save(homogeneous, tmp_path / "graph")
    data = gz_pyg.load(tmp_path / "graph")
    source = as_source(data)
    at = Look.at

    def then_changed(of):
        look = at(of)
        data.x = torch.zeros(100, 1)
        return look

    monkeypatch.setattr(Look, "at", then_changed)
    frozen = source.frozen()
    assert not frozen.state().look.still(data)


# ---- indices, by number ----


def test_indices_come_by_number_whichever_is_asked_for_first():
    indices = Indices(iter("abcd"), last=3)
    assert indices.of(1) == "a"
    assert indices.of(3) == "c"
    assert indices.of(2) == "b"
    assert indices.of(2) == "b"  # asked again: an interrupt came in between
    assert indices.of(4) == "d"
    assert indices.of(5) is OVER
    assert indices.of(6) is OVER


def test_indices_keep_no_more_than_may_be_asked_for():
    indices = Indices(iter(range(1000)), last=3)
    for number in range(1, 1001):
        assert indices.of(number) == number - 1
    assert len(indices._kept) == 3


def test_a_sampler_that_fails_fails_in_its_turn():
    def batches():
        yield [1]
        raise KeyError("of the sampler")

    indices = Indices(batches(), last=3)
    assert indices.of(3) is OVER
    with pytest.raises(KeyError, match="of the sampler"):
        indices.of(2)
    assert indices.of(1) == [1]


def test_a_child_forked_in_mid_epoch_goes_on_with_the_same_batches(homogeneous_path):
    """It makes what it inherited unfinished itself, while its own threads begin what comes after."""

    def epoch():
        seed_everything(5)
        return iter(gz_pyg.NeighborLoader(homogeneous_path, [3], batch_size=9, shuffle=True, prefetch=3))

    want = list(epoch())
    iterator = epoch()
    first = [next(iterator) for _ in range(4)]
    assert in_child(lambda: same(first + list(iterator), want))
    same(first + list(iterator), want)
