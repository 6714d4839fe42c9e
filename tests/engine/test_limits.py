"""Arguments that cannot be served: refused by name before anything is drawn; and calls ended with Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from graphs import path, random_edges, star
from test_sample import REJECT, chi_square_p, store_of

import gz
from gz import _engine

HUGE = [2**40, 2**60 + 1, 2**62, 2**63 - 1]


@pytest.fixture(scope="module")
def graph(tmp_path_factory) -> gz.Graph:
    return store_of(random_edges(50, 400), tmp_path_factory.mktemp("g"), keep_edge_ids=True).graph()


@pytest.mark.parametrize("size", HUGE)
def test_tables_that_do_not_fit_are_a_memory_error_with_both_sizes(graph, size):
    for call in (
        lambda: graph.batch_random_walk([0, 1], size),
        lambda: graph.batch_random_walk([0, 1], size, p=2.0),
        lambda: graph.batch_random_fanout([0, 1], size),
        lambda: graph.batch_random_fanout([0, 1], size, replace=True),
    ):
        with pytest.raises(MemoryError, match=r"would take [\d.]+ .B of memory, and [\d.]+ .B are free"):
            call()


@pytest.mark.parametrize("size", HUGE)
def test_fanouts_that_do_not_fit_are_refused(graph, size):
    with pytest.raises((MemoryError, ValueError), match="would take|edges, where 2147483647 are possible"):
        graph.sample([0, 1, 2, 3], [size], replace=True)
    with pytest.raises(MemoryError, match="would take"):
        graph.sample([0, 1, 2, 3], [size], replace=True, weights=np.ones(graph.num_edges))
    # Without replacement a list has only so many.
    assert graph.sample([0], [size]).edge_ids.tolist() == graph.sample([0], [-1]).edge_ids.tolist()


def test_the_largest_lengths_are_refused_too(graph):
    for size in (2**64 - 2, 2**64 - 1):
        for call in (graph.batch_random_walk, graph.batch_random_fanout):
            for starts in ([0, 1, 2], []):
                with pytest.raises(MemoryError):
                    call(starts, size)


@pytest.mark.parametrize("fanout", [-2, -(2**40)])
def test_a_fanout_below_minus_one_is_refused(graph, fanout):
    with pytest.raises(ValueError, match=rf"a fanout is {fanout}; .* -1 for all"):
        graph.sample([0], [5, fanout])


def test_a_walk_at_a_dead_end_goes_back_however_dear_that_is(tmp_path):
    graph = store_of(path(1), tmp_path, undirected=True).graph()
    walks = graph.batch_random_walk(np.zeros(10, np.int64), 9, p=1e9)
    assert walks.tolist() == [[0, 1] * 5] * 10
    hub = store_of(star(1000), tmp_path, undirected=True, overwrite=True).graph()
    walks = hub.batch_random_walk(np.zeros(2000, np.int64), 100, p=1e5, q=0.5)
    assert (walks[:, ::2] == 0).all()
    assert (walks[:, 1::2] > 0).all()


def test_seeds_of_negatives_share_no_draws():
    def draws(seed: int) -> np.ndarray:
        return _engine.draw_negatives(4096, 2**40, rng_seed=seed)

    for a in range(8):
        for b in range(a):
            assert not np.isin(draws(a), draws(b)).any()


# ---- weights of any size ----

SMALLEST = 5e-324


@pytest.mark.parametrize(
    "weights",
    [
        [1e308, 0.5e308, 1.5e308, 0, 1e308],
        [SMALLEST, 2 * SMALLEST, 3 * SMALLEST, 0, SMALLEST],
        [1e-300, 3e-300, 2e-300, 0, 1e-300],
    ],
    ids=["large", "smallest", "small"],
)
@pytest.mark.parametrize("replace", [False, True])
def test_weights_of_any_size_are_drawn_in_proportion(weights, replace, tmp_path, rng_seed):
    graph = store_of(star(5), tmp_path).graph()
    seeds = np.zeros(30_000, np.int64)
    got = graph.sample(
        seeds, [1], weights=np.array(weights), replace=replace, disjoint=True, rng_seed=rng_seed
    )
    counts = np.bincount(got.edge_rows, minlength=5)
    share = np.array([float(w / max(weights)) for w in weights])
    assert counts[3] == 0
    assert chi_square_p(counts[share > 0], len(seeds) * share[share > 0] / share.sum()) > REJECT


def test_the_smallest_weight_is_next_after_the_largest(tmp_path, rng_seed):
    """Two of one enormous and two tiny weights: the enormous one, and either of the others."""
    graph = store_of(star(3), tmp_path).graph()
    weights = np.array([SMALLEST, 1e308, SMALLEST])
    got = graph.sample(np.zeros(5000, np.int64), [2], weights=weights, disjoint=True, rng_seed=rng_seed)
    rows = got.edge_rows.reshape(-1, 2)
    assert (rows == 1).any(axis=1).all()
    assert chi_square_p(np.bincount(rows[rows != 1], minlength=3)[[0, 2]]) > REJECT


# ---- Ctrl-C ----

LONG = """
import signal, sys, time
import gz

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job of a shell
file, threads, call = sys.argv[1:]
gz.set_num_threads(int(threads))
graph = gz.Graph(file)
calls = {  # of a size; a hundredth of it is done first, to know how long the whole would take
    "walk": lambda n: graph.batch_random_walk([0], n * 500_000, q=0.5),
    "fanout": lambda n: graph.batch_random_fanout([0], n * 2_000_000, replace=True),
    "sample": lambda n: graph.sample([0] * 100, [n * 40_000], replace=True, weights=graph.indptr[:-1].repeat(
        graph.degree(range(graph.num_nodes))) + 1.0),
}
begin = time.perf_counter()
calls[call](1)
part = time.perf_counter() - begin
print("ready", flush=True)
begin = time.perf_counter()
try:
    calls[call](100)
except KeyboardInterrupt:
    took = time.perf_counter() - begin
    graph.sample([0], [5])  # the engine is as it was
    print("cut" if took < 80 * part else f"took {took} s, a hundredth of it {part} s")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("call", "threads"), [("walk", 1), ("walk", 2), ("fanout", 2), ("sample", 2)])
def test_a_long_call_is_cut_short_by_ctrl_c(call, threads, tmp_path):
    n = 1500
    src, dst = np.repeat(np.arange(n), n), np.tile(np.arange(n)[::-1], n)
    gz.ingest(tmp_path / "g", edges=(src, dst), num_nodes=n, neighbor_order="input")
    file = gz.open(tmp_path / "g").graph().path
    child = subprocess.Popen(
        [sys.executable, "-c", LONG, file, str(threads), call], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)  # it is inside the engine now, or will be: both must do
    child.send_signal(signal.SIGINT)
    assert child.communicate()[0] == "cut\n"
