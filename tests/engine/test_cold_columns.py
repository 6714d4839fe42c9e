"""Weights and times that are not in memory: what sampling by them needs is read many pages at a time, and the
picks are those of a warm run. The files are put out of the page cache as in test_out_of_core.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from graphs import random_edges
from test_out_of_core import evict

import gz
from gz import _engine

NODES, EDGES = 40_000, 600_000
SEEDS = np.random.default_rng(1).permutation(NODES)[:600]
TIMES = np.random.default_rng(2).integers(0, 1000, len(SEEDS))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cold")
    edges, rng = random_edges(NODES, EDGES), np.random.default_rng(0)
    options = {"num_nodes": NODES, "directions": "both"}
    gz.ingest(
        folder / "g",
        edges=(edges.src, edges.dst),
        features={"t": rng.integers(0, 1000, NODES)},
        edge_features={
            "w": rng.random(EDGES).astype(np.float32),
            "et": rng.integers(0, 1000, EDGES),
        },
        **options,
    )
    gz.ingest(
        folder / "ordered",
        edges=(edges.src, edges.dst),
        edge_features={"et": np.sort(rng.integers(0, 1000, EDGES))},
        neighbor_order="input",
        **options,
    )
    return folder


class Opened:
    """A store, all of whose files are open and, if asked for, not in memory."""

    def __init__(self, path, cold: bool):
        self.store = gz.open(path)
        self.edge_type = self.store.edge_types[0]
        self.graph = {d: self.store.graph(direction=d) for d in ("in", "out")}
        self.columns = {c: self.store.feature(c, self.edge_type) for c in self.store.edge_columns()}
        self.columns |= {c: self.store.feature(c) for c in self.store.node_columns()}
        for graph in self.graph.values():
            graph._topology.allow_loading(False)  # or a thread would bring in what is evicted
        for column in self.columns.values():
            column._file.configure(0, False)
        if not cold:
            return
        for file in (*self.graph.values(), *self.columns.values()):
            evict(file.path)
        if any(c._file.resident_bytes() > c.nbytes // 2 for c in self.columns.values()):
            pytest.skip(f"{path} keeps files in memory")

    def array(self, column):
        return self.columns[column].get_tensor()

    def reads(self):
        return {c: f.stats()["bytes_read"] for c, f in self.columns.items()}


def sampled(**options):
    def call(o):
        timed = "edge_time" in options or "node_time" in options
        times = {"seed_time": {"node": TIMES}} if timed else {}
        s = o.store.sample({"node": SEEDS}, [6, 4], rng_seed=5, **options, **times)
        return [v[key] for v in (s.nodes, s.src, s.dst, s.edge_ids) for key in v]

    return call


def labor(o):
    graph = o.graph["in"]
    edge_type = _engine.SampleEdgeType(graph._topology, 0, 0, [6, 4], weights=o.array("w"))
    found = _engine.labor_sample([NODES], [edge_type], [_engine.SampleSeeds(0, SEEDS)], random_seed=3)
    edges = found.sample.edges[0]
    return [found.sample.nodes[0].ids, edges.neighbour, edges.frontier, edges.rows, found.importance[0]]


def layer(o):
    graph = o.graph["out"]
    edge_type = _engine.LayerEdgeType(graph._topology, 0, 0, 6, weights=o.array("w"))
    found = _engine.sample_layer([NODES], [edge_type], [SEEDS], rng_seed=3)
    return [found.edges[0].neighbour, found.edges[0].frontier, found.edges[0].rows]


def negatives(o):
    limits = np.full(3000, 300)
    return [_engine.draw_negatives(3000, NODES, times=o.array("t"), not_after=limits, rng_seed=1)]


def rows_of_an_array(o):
    out = np.empty((len(SEEDS), 4), np.uint8)
    _engine.gather_array(o.array("w").reshape(-1, 1).view(np.uint8), SEEDS * 10, out)
    return [out]


# What is sampled, the store, the column it goes by, and the share of its pages that are wanted, at least.
CASES = {
    "weights": (sampled(weights="w"), "g", "w", 0.9),
    "weights, with replacement": (sampled(weights="w", replace=True), "g", "w", 0.9),
    "weights of edges the other way": (sampled(weights="w", direction="out"), "g", "w", 0.9),
    "times of edges": (sampled(edge_time="et"), "g", "et", 0.7),
    "latest edges": (sampled(edge_time="et", last=True), "g", "et", 0.7),
    "times of edges the other way": (sampled(edge_time="et", direction="out"), "g", "et", 0.9),
    "times of nodes": (sampled(node_time="t"), "g", "t", 0.9),
    "times of edges in order": (sampled(edge_time="et"), "ordered", "et", 0.9),  # all are looked through once
    "labor": (labor, "g", "w", 0.9),
    "layer": (layer, "g", "w", 0.9),
    "negatives": (negatives, "g", "t", 0.9),
    "rows of an array": (rows_of_an_array, "g", "w", 0.4),
}


@pytest.mark.parametrize("case", CASES)
def test_picks_by_cold_columns_are_those_by_warm_ones_and_their_pages_are_read(case, folder):
    call, store, column, share = CASES[case]
    warm = call(Opened(folder / store, cold=False))
    before = gz.num_threads()
    try:
        for threads in (1, 2, 4):
            gz.set_num_threads(threads)
            opened = Opened(folder / store, cold=True)
            there = opened.columns[column]._file.resident_bytes()
            cold = call(opened)
            for got, expected in zip(cold, warm, strict=True):
                np.testing.assert_array_equal(got, expected)
            assert opened.reads()[column] >= share * opened.columns[column].nbytes - there
            del opened
    finally:
        gz.set_num_threads(before)


def test_what_was_written_to_a_cold_column_counts(folder):
    opened = Opened(folder / "g", cold=True)
    weights, graph = opened.array("w"), opened.graph["in"]
    hub = int(np.argmax(graph.degree(SEEDS)))
    begin, end = graph.indptr[SEEDS[hub]], graph.indptr[SEEDS[hub] + 1]
    weights[begin:end] = 0
    weights[end - 1] = 1
    found = graph.sample(SEEDS, [1], weights=weights, rng_seed=1)
    np.testing.assert_array_equal(found.edge_rows[found.dst == hub], [end - 1])
    assert opened.reads()["w"] > 0
