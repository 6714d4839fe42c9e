"""What a batch made ahead was joined from: every change of the data is noticed, and reading it is none."""

from __future__ import annotations

import copy

import pytest
import torch
from prefetch_batches import DEPTHS

import gz_pyg
from gz_pyg._source.resolve import as_source


def replaced(data):
    data.y = data.y.clone()


def written_in_place(data):
    data.x[3] = 7


def written_by_another_name(data):
    held = data.y
    data.y = held.view(-1, 1)
    held[0] = 5


def written_through_a_copy(data):
    copy.copy(data).x.mul_(2)


def tracked(data):
    data.x.requires_grad_()


def added(data):
    data.z = torch.zeros(100)


def deleted(data):
    del data.x


def renamed(data):
    data.w = data.y
    del data.y


CHANGES = [
    replaced,
    written_in_place,
    written_by_another_name,
    written_through_a_copy,
    tracked,
    added,
    deleted,
    renamed,
]
READS = [lambda data: None, lambda data: data.y, lambda data: data.x[0], lambda data: copy.copy(data).x]


@pytest.fixture
def loaded(homogeneous_path):
    return gz_pyg.load(homogeneous_path)


@pytest.mark.parametrize("given_out", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_noticed(loaded, change, given_out):
    if given_out:
        _ = loaded.x, loaded.y
    source = as_source(loaded)
    state = source.frozen().state()
    change(loaded)
    assert not source.is_still(state)
    assert state != source.state()


@pytest.mark.parametrize("given_out", [False, True])
@pytest.mark.parametrize("read", READS)
def test_reading_is_no_change(loaded, read, given_out):
    if given_out:
        _ = loaded.x, loaded.y
    source = as_source(loaded)
    state = source.frozen().state()
    read(loaded)
    assert source.is_still(state)
    assert state == source.state()


def test_a_view_of_a_column_sees_what_is_written_to_the_column_later(loaded):
    """Two attributes over one mapping, of which neither was given out before."""
    before = copy.copy(loaded)
    loaded.y = loaded.y.view(-1, 1)
    source = as_source(loaded)
    state = source.frozen().state()
    assert source.is_still(state)
    before.y[2] = 9
    assert loaded.y[2].item() == 9
    assert not source.is_still(state)


def test_a_change_of_data_in_memory_is_noticed(homogeneous):
    data = copy.copy(homogeneous)
    source = as_source(data)
    for change in (replaced, added, deleted):
        state = source.state()
        assert source.is_still(state)
        change(data)
        assert not source.is_still(state)


@pytest.mark.parametrize("depth", DEPTHS)
def test_how_batches_were_made_is_not_kept(homo, depth):
    iterator = iter(gz_pyg.NeighborLoader(homo, [3], batch_size=5, prefetch=depth))
    most = max(len(iterator._done) for _ in iterator)
    assert most <= depth + 1
