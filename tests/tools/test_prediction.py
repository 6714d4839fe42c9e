"""The model of the row cache against SIEVE written plainly, and what a prediction must obey."""

from __future__ import annotations

import numpy as np
import pytest

import gz
from gz import _engine
from gz._base.memory_plan import Share
from gz._measure import predict
from gz._measure.advice import advise
from gz._measure.demo_graph import DemoGraph
from gz._measure.sieve import Followed, Sieve
from gz._measure.workload import Request, Workload, parse_fanouts
from gz._watch import machine, storage

GB = 10**9


class PlainSieve:
    """As the paper has it: a list, oldest first, and a hand that is a place in it."""

    def __init__(self, size):
        self.size, self.queue, self.visited, self.hand = size, [], set(), 0

    def ask(self, row):
        if row in self.queue:
            self.visited.add(row)
            return True
        if len(self.queue) == self.size:
            while True:
                if self.hand >= len(self.queue):
                    self.hand = 0
                at = self.queue[self.hand]
                if at not in self.visited:
                    break
                self.visited.discard(at)
                self.hand += 1
            self.queue.pop(self.hand)
            if self.hand == len(self.queue):  # past the newest: it begins again, before the next one comes
                self.hand = 0
        self.queue.append(row)
        return False


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_the_model_is_sieve(size, rng_seed):
    rng = np.random.default_rng(rng_seed)
    stream = (rng.random(4000) ** 3 * 100).astype(int).tolist()
    fast, plain = Sieve(size), PlainSieve(size)
    assert [fast.ask(r) for r in stream] == [plain.ask(r) for r in stream]


def test_a_part_of_the_ids_misses_as_all_do():
    rng = np.random.default_rng(0)
    followed = Followed(40)
    followed._rate = 0.1
    whole = Sieve(5000)
    hits = asked = 0
    for number in range(40):
        ids = np.unique((rng.random(6000) ** 3 * 50_000).astype(np.int64))
        followed.add(ids)
        found = sum(map(whole.ask, ids.tolist()))
        if number >= 27:
            hits, asked = hits + found, asked + len(ids)
    assert followed.miss_rate(5000) == pytest.approx(1 - hits / asked, abs=0.06)
    assert followed.miss_rate(0) == 1.0


@pytest.mark.parametrize("cache", [1_200_000, 4_000_000])
def test_the_misses_foretold_are_those_that_the_engine_counts(cache, tmp_path):
    """Of batches with a skew, from a column that is not in memory, through a cache of some of its rows."""
    path, row_bytes = tmp_path / "x.gd", 512
    writer = _engine.ColumnWriter(str(path), "float32", [128])
    writer.append(np.zeros(20_000 * row_bytes, np.uint8))
    writer.finish()
    column = gz.FeatureStore(path, cache, _share=Share(cache=cache))
    rng = np.random.default_rng(0)
    foretold, batches, counted = Followed(40), 40, []
    for _ in range(batches):
        ids = rng.permutation(np.unique((rng.random(2500) ** 4 * 20_000).astype(np.int64)))
        foretold.add(ids)
        storage.forget(str(path))
        column.gather(ids)
        counted.append((column.stats(), len(ids)))
    late = batches - batches // 3  # as the model counts
    then, now = counted[late - 1][0], counted[-1][0]
    if now["mapped"] - then["mapped"] > 0 or now["cache_bytes"] < 0.8 * cache:
        pytest.skip("the filesystem keeps files in memory, or the machine has no room for a cache")
    missed = (now["misses"] - then["misses"]) / sum(n for _, n in counted[late:])
    assert 0.02 < missed < 0.9
    assert foretold.miss_rate(cache // (row_bytes + predict._ENTRY)) == pytest.approx(missed, rel=0.15)


def test_a_few_reads_take_as_long_as_one(work, stream):
    """Where nearly all is found, what is left still waits for the disk."""
    free = 24 * 10**6
    quick, slow = (predicted(work, stream, free, cache=0, latency=s) for s in (0.0, 0.5))
    assert slow.seconds["read"] == pytest.approx(quick.seconds["read"] + 0.5, rel=0.01)
    fits = predicted(work, stream, 20 * GB, latency=0.5)
    assert fits.seconds["read"] == 0


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Workload:
    path = tmp_path_factory.mktemp("predict") / "s"
    g = DemoGraph(32_000, 200_000)
    gz.ingest(path, edges=g.edges(), features={"x": g.features(), "y": g.labels()}, splits=g.splits())
    return Workload(gz.open(path), Request((10, 5), 64))


@pytest.fixture(scope="module")
def stream(work) -> predict.Stream:
    return predict.try_out(work, 0.0)


SPEEDS = {"threads": 2, "reads": 10_000.0, "large_reads": 5_000.0}


def predicted(work, stream, free, cache=None, **speeds):
    """By copies that take no time."""
    found = predict.Speeds(**{"copy": dict.fromkeys(work.columns, 0.0), **SPEEDS, **speeds})
    room = predict.divide_room(work, stream, cache, free, free)
    return predict.predict(work, stream, found, room)


def test_batches_are_those_of_the_sampler(work, stream):
    samples = [work.sample(i) for i in range(stream.batches)]
    assert stream.nodes == np.mean([len(s.nodes["node"]) for s in samples])
    assert stream.edges == np.mean([len(s.src[("node", "to", "node")]) for s in samples])
    x = work.name_of(work.store.feature("x"))
    assert stream.rows(x) == stream.nodes
    seeds = work.seeds(3)
    assert len(np.unique(seeds)) == len(seeds) == 64
    assert np.isin(seeds, work.store.split("train")).all()


def test_what_fits_is_never_read(work, stream):
    found = predicted(work, stream, 20 * GB)
    assert (found.verdict, found.misses, found.reads) == ("fits", 0, 0)


def test_less_memory_means_more_misses_and_a_faster_disk_more_batches(work, stream):
    x = stream.parts[work.name_of(work.store.feature("x"))]
    rates = [x.units.miss_rate(rows) for rows in (0, 500, 4000, 32_000)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == 1.0 > rates[-1]
    slow = predicted(work, stream, 24 * 10**6, cache=0)
    assert slow.verdict == "disk-bound"
    assert slow.misses == pytest.approx(stream.nodes)  # of the labels, which are held, none
    fast = predicted(work, stream, 24 * 10**6, cache=0, reads=1e6, large_reads=5e5)
    assert fast.batches_per_second > slow.batches_per_second


def test_rows_that_lie_close_are_read_together():
    small, large, size = predict._extents(np.arange(1000), 1000, 512)
    assert small == 0
    assert size == 1000 * 512 // 4096 * 4096
    assert large == size / 65536
    small, large, size = predict._extents(np.arange(0, 100_000, 100), 1000, 512)
    assert (small, large, size) == (1000, 0, 1000 * 4096)


def test_advice_follows_from_what_was_found(work, stream):
    speeds = predict.Speeds(2, dict.fromkeys(work.columns, 0.001), 3_000.0, 1_000.0)
    facts = {"machine": machine.describe(), "storage": storage.describe(work.store.path), "limit": 24 * 10**6}

    def advice(free, **storage_says):
        room = predict.divide_room(work, stream, None, free, free)
        found = predict.predict(work, stream, speeds, room)
        return " ".join(
            advise(work, stream, speeds, room, found, facts | {"storage": facts["storage"] | storage_says})
        )

    tight = advice(24 * 10**6)
    for word in ("float16", "free memory all of it would fit", "NVMe", "no room for a row cache"):
        assert word in tight
    assert "changes nothing" in advice(20 * GB)
    assert "network filesystem" in advice(20 * GB, network=True, filesystem="nfs4")
    assert _engine.free_memory() > 0


@pytest.mark.parametrize(("text", "fanouts"), [("15,10,5", (15, 10, 5)), ("[3, -1]", (3, -1))])
def test_fanouts_as_people_write_them(text, fanouts):
    assert parse_fanouts(text) == fanouts


@pytest.mark.parametrize("text", ["", "a", "3,-2", "3;4"])
def test_fanouts_that_are_none_are_refused(text):
    with pytest.raises(ValueError, match="fanouts"):
        parse_fanouts(text)


def test_a_store_of_several_types_is_predicted_for(tmp_path):
    spec = {
        "nodes": {
            "a": {"num_nodes": 50, "features": {"x": np.zeros((50, 40), np.float32)}},
            "b": {"num_nodes": 30},
        },
        "edges": [{"type": ["a", "to", "b"], "edges": (np.arange(50), np.arange(50) % 30)}],
    }
    gz.ingest(tmp_path / "s", spec=spec)
    work = Workload(gz.open(tmp_path / "s"), Request((2,), 8))
    assert work.seed_type == "b"
    stream = predict.try_out(work, 0.0)
    (x,) = work.columns
    assert 0 < stream.rows(x) <= 16
    with pytest.raises(ValueError, match="no node type 'c'"):
        Workload(work.store, Request((2,), 8, node_type="c"))
    with pytest.raises(ValueError, match="no split 'train'"):
        Workload(work.store, Request((2,), 8, split="train"))
