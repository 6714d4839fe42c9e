"""gz_dgl.prefetch: features of the next batches are read while the model trains; nothing else changes."""

from __future__ import annotations

import gc
import threading
import weakref

import dgl
import numpy as np
import pytest
import torch
from dgl_graphs import random_graph
from waits import PATIENCE, in_child, until

import gz_dgl
from gz.adapter import BatchesAhead
from gz_dgl import _columns, _random

DEPTHS = [0, 1, 2, 4]
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
    pytest.mark.usefixtures("room_ahead"),
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("prefetch") / "store"
    gz_dgl.save(random_graph(), path)
    return gz_dgl.load(path)


@pytest.fixture(autouse=True)
def no_dgl_seed_was_given(monkeypatch):
    """As in a new process: another test's dgl.seed would decide over torch's, and seed() would do nothing."""
    monkeypatch.setattr(_random, "_stream", _random._Stream())


def make_loader(g, sampler=None, **options):
    sampler = sampler or dgl.dataloading.NeighborSampler(
        [3, 4], prefetch_node_feats=["feat"], prefetch_labels=["label"]
    )
    options = {"batch_size": 20, "shuffle": True, **options}
    return dgl.dataloading.DataLoader(g, torch.arange(g.num_nodes()), sampler, **options)


def seed(value=3):
    torch.manual_seed(value)
    np.random.seed(value)


class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.first = dgl.nn.SAGEConv(features, 16, "mean")
        self.second = dgl.nn.SAGEConv(16, 8, "mean")

    def forward(self, blocks):
        x = blocks[0].srcdata["feat"].float()
        x = torch.nn.functional.dropout(self.first(blocks[0], x).relu(), 0.5)
        return self.second(blocks[1], x)


def losses(g, batches, **options):
    seed()
    loader = gz_dgl.prefetch(make_loader(g, **options), batches)
    model = Model(g.ndata["feat"].shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    curve = []
    for _ in range(3):
        for _, _, blocks in loader:
            optimizer.zero_grad()
            out = model(blocks)
            loss = torch.nn.functional.cross_entropy(out, blocks[-1].dstdata["label"].long() % 8)
            loss.backward()
            optimizer.step()
            curve.append(loss.item())
    return curve


@pytest.mark.slow
def test_the_loss_curve_with_dropout_is_bit_identical(graph):
    want = losses(graph, 0)
    assert len(want) == 30
    for batches in DEPTHS[1:]:
        assert losses(graph, batches) == want


def flat(batch):
    """Ids, edges and features of a batch."""
    ids, out, blocks = batch
    found = [*(ids.values() if isinstance(ids, dict) else [ids])]
    if isinstance(out, dgl.DGLGraph):
        found += [torch.stack(out.edges())]
    for block in blocks:
        found += [torch.stack(block.edges()), block.srcdata[dgl.NID], block.dstdata[dgl.NID]]
    return [*found, blocks[0].srcdata["feat"]]


@pytest.mark.parametrize("dgl_seed", [None, 5])
@pytest.mark.parametrize("negatives", [None, "Uniform", "GlobalUniform"])
def test_random_samplers_draw_the_same_however_far_ahead(graph, negatives, dgl_seed):
    def batches(depth):
        seed()
        if dgl_seed is not None:
            dgl.seed(dgl_seed)
        sampler = dgl.dataloading.NeighborSampler([3, 4], prefetch_node_feats=["feat"])
        ids = torch.arange(graph.num_nodes())
        if negatives is not None:
            negative = getattr(dgl.dataloading.negative_sampler, negatives)(2)
            sampler = dgl.dataloading.as_edge_prediction_sampler(sampler, negative_sampler=negative)
            ids = torch.arange(200)
        loader = dgl.dataloading.DataLoader(graph, ids, sampler, batch_size=40, shuffle=True)
        made = []
        for _ in range(2):
            for batch in gz_dgl.prefetch(loader, depth):
                torch.rand(3)  # a model's dropout
                np.random.rand(3)
                made.append(flat((batch[0], batch[1], batch[-1])))
        return made

    want = batches(0)
    assert len(want) == 10
    for depth in DEPTHS[1:]:
        got = batches(depth)
        assert all(
            torch.equal(x, y) for a, b in zip(want, got, strict=True) for x, y in zip(a, b, strict=True)
        )


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_generators_move_alike_also_when_broken_off(graph, depth):
    def after(depth):
        seed()
        for i, _ in enumerate(gz_dgl.prefetch(make_loader(graph), depth)):
            if i == 3:
                break
        return torch.rand(1).item(), np.random.rand()

    assert after(depth) == after(0)


def test_features_are_those_of_the_graph(graph):
    for depth in DEPTHS:
        loader = gz_dgl.prefetch(make_loader(graph), depth)
        assert len(loader) == 10
        seen = []
        for ids, out, blocks in loader:
            assert torch.equal(blocks[0].srcdata["feat"], graph.ndata["feat"][ids])
            assert torch.equal(blocks[-1].dstdata["label"], graph.ndata["label"][out])
            seen.append(out)
        assert torch.equal(torch.cat(seen).sort()[0], torch.arange(200))


def test_workers(graph):
    loader = gz_dgl.prefetch(make_loader(graph, num_workers=2), 2)
    seen = []
    for ids, out, blocks in loader:
        assert torch.equal(blocks[0].srcdata["feat"], graph.ndata["feat"][ids])
        seen.append(out)
    assert torch.equal(torch.cat(seen).sort()[0], torch.arange(200))


def watch(monkeypatch):
    """The batches whose rows have been read."""
    read = []
    gather = _columns.take_rows

    def watching(storage, ids, pin=False):
        read.append(threading.current_thread())
        return gather(storage, ids, pin)

    monkeypatch.setattr(_columns, "take_rows", watching)
    return read


@pytest.mark.parametrize("depth", DEPTHS)
def test_so_many_batches_are_read_ahead_and_no_more(graph, monkeypatch, depth):
    read = watch(monkeypatch)
    sampler = dgl.dataloading.NeighborSampler([3], prefetch_node_feats=["feat"])
    running = iter(gz_dgl.prefetch(make_loader(graph, sampler), depth))
    for taken in range(1, 11):
        next(running)
        until(lambda t=taken: len(read) >= min(10, t + depth), "reads, which need no other next()")
        assert len(read) == min(10, taken + depth)
    assert threading.main_thread() not in read


@pytest.mark.parametrize("room", [True, False])
def test_a_batch_that_the_script_drops_is_gone(graph, monkeypatch, room):
    """Three loaders that keep theirs until the next is asked for are three batches too many under a limit."""
    monkeypatch.setattr(BatchesAhead, "may_begin", lambda self: room)
    batches = iter(gz_dgl.prefetch(make_loader(graph), 2))
    for _ in range(3):
        _, _, blocks = next(batches)
        rows = weakref.ref(blocks[0].srcdata["feat"])
        assert rows() is not None
        del blocks, _
        gc.collect()
        assert rows() is None


def test_columns_are_read_at_the_same_time(graph, monkeypatch):
    together = threading.Barrier(2, timeout=PATIENCE)
    gather = _columns.take_rows

    def meeting(*args):
        together.wait()  # breaks if one read waits for the other
        return gather(*args)

    monkeypatch.setattr(_columns, "take_rows", meeting)
    assert len(list(gz_dgl.prefetch(make_loader(graph), 0))) == 10


@pytest.mark.parametrize("depth", DEPTHS)
def test_an_error_comes_with_its_batch(graph, monkeypatch, depth):
    class Failing(dgl.dataloading.NeighborSampler):
        calls = 0

        def sample_blocks(self, *args, **kwargs):
            self.calls += 1
            if self.calls == 4:
                raise LookupError("the fourth")
            return super().sample_blocks(*args, **kwargs)

    sampler = Failing([3], prefetch_node_feats=["feat"])
    running = iter(gz_dgl.prefetch(make_loader(graph, sampler), depth))
    for _ in range(3):
        next(running)
    with pytest.raises(LookupError, match="the fourth") as caught:
        next(running)
    assert caught.traceback[-1].name == "sample_blocks"


def test_a_child_forked_while_rows_are_read_has_them_too(graph):
    ids = torch.arange(200)
    for _ in range(20):
        futures = [graph.get_node_storage("feat").fetch(ids, "cpu") for _ in range(8)]

        def child(futures=futures):
            assert all(torch.equal(f.wait(), graph.ndata["feat"]) for f in futures)
            assert torch.equal(graph.get_node_storage("feat").fetch(ids, "cpu").wait(), graph.ndata["feat"])

        assert in_child(child)
        assert all(torch.equal(f.wait(), graph.ndata["feat"]) for f in futures)


def test_a_number_of_batches_that_makes_no_sense(graph):
    for bad in (-1, True, 1.5):
        with pytest.raises(ValueError, match="batches"):
            gz_dgl.prefetch(make_loader(graph), bad)
