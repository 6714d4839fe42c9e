"""fetch(): a future whose read does not hold the GIL, and whose failure is not swallowed."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from dgl_graphs import random_graph
from waits import PATIENCE, ended

from gz_dgl import _columns


def test_fetch_hands_back_a_future_of_the_rows(on_disk):
    g = random_graph()
    h = on_disk(g)
    ids = torch.tensor([5, 5, 199, 0])
    for pin in (False, None):
        future = h.get_node_storage("feat").fetch(ids, torch.device("cpu"), pin)
        assert torch.equal(future.wait(), g.ndata["feat"][ids])
    assert torch.equal(h.get_edge_storage("e").fetch(ids.int(), "cpu").wait(), g.edata["e"][ids])
    assert torch.equal(
        h.int().get_node_storage("label").fetch(ids.int(), "cpu").wait(), g.ndata["label"][ids]
    )


def test_fetch_takes_the_ids_when_it_is_called(on_disk, monkeypatch):
    g = random_graph()
    ids = torch.tensor([1, 2])
    gate = threading.Event()
    take = _columns.take_rows

    def late(*args):
        assert gate.wait(PATIENCE)
        return take(*args)

    monkeypatch.setattr(_columns, "take_rows", late)
    future = on_disk(g).get_node_storage("feat").fetch(ids, "cpu")
    ids.zero_()
    gate.set()
    assert torch.equal(future.wait(), g.ndata["feat"][[1, 2]])


def test_an_id_out_of_range_raises_where_it_is_awaited(on_disk):
    future = on_disk(random_graph()).get_node_storage("feat").fetch(torch.tensor([200]), "cpu")
    with pytest.raises(IndexError, match="200"):
        future.wait()


def test_other_threads_run_while_rows_are_read(on_disk, monkeypatch):
    """All fetches are started before any is awaited: while reads run, this thread goes on."""
    h = on_disk(random_graph())
    gate, reading = threading.Event(), threading.Event()
    gather = _columns.take_rows

    def slow(*args, **kwargs):
        reading.set()
        assert gate.wait(PATIENCE)
        return gather(*args, **kwargs)

    monkeypatch.setattr(_columns, "take_rows", slow)
    futures = [h.get_node_storage("feat").fetch(torch.tensor([i]), "cpu") for i in range(3)]
    assert reading.wait(PATIENCE)
    gate.set()
    assert [len(f.wait()) for f in futures] == [1, 1, 1]


@pytest.mark.slow
def test_the_gil_is_free_during_a_read():
    rows = torch.zeros(200_000, 256)
    ids = torch.randint(0, 200_000, (400_000,)).numpy()
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.perf_counter()
    _columns.take_rows(rows, ids)
    end = time.perf_counter()
    done.set()
    ended([thread])
    assert sum(begin < t < end for t in ticks) > 100


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.int8, torch.float64])
@pytest.mark.parametrize("shape", [(50,), (50, 1), (50, 3, 2), (50, 0)])
def test_rows_of_every_shape(dtype, shape):
    rows = torch.randint(0, 2, shape).to(dtype)
    ids = torch.randint(0, 50, (77,))
    assert torch.equal(_columns.take_rows(rows, ids.numpy()), rows[ids])
    assert _columns.take_rows(rows, ids[:0].numpy()).shape == (0, *shape[1:])
