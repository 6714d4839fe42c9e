"""benchmarks/_policies.py: what is counted is what such a cache would read."""

from __future__ import annotations

import sys
from itertools import combinations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def policies(request):
    folder = str(request.config.rootpath / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import _policies

        yield _policies
    finally:
        sys.path.remove(folder)


def _batches(rng, count, num_rows, size):
    return [rng.choice(num_rows, rng.integers(1, size + 1), replace=False) for _ in range(count)]


def _fewest_misses(batches, capacity, held):
    """By trying all: after each batch any of the rows at hand may be kept."""
    best = {frozenset(held): 0}
    for rows in batches:
        after: dict[frozenset, int] = {}
        for cache, misses in best.items():
            at_hand = cache | set(rows.tolist())
            cost = misses + len(at_hand) - len(cache)
            for kept in combinations(sorted(at_hand), min(capacity, len(at_hand))):
                key = frozenset(kept)
                after[key] = min(cost, after.get(key, cost))
        best = after
    return min(best.values())


@pytest.mark.parametrize("seed", range(8))
def test_knowing_all_batches_misses_as_little_as_any_policy_could(policies, seed):
    rng = np.random.default_rng(seed)
    batches, rank = _batches(rng, 8, 7, 3), rng.permutation(7)
    uses = policies.next_uses(batches, 7)
    missed = list(policies.look_ahead(batches, uses, len(batches), rank, 3))
    assert sum(map(len, missed)) == _fewest_misses(batches, 3, np.flatnonzero(rank < 3).tolist())


@pytest.mark.parametrize("known", [1, 3, 10])
def test_what_is_known_is_all_that_is_used(policies, known):
    """Batches further away than `known` do not change what is read until they come near."""
    rng = np.random.default_rng(5)
    batches, rank = _batches(rng, 30, 60, 12), rng.permutation(60)
    changed = [*batches[:20], *_batches(rng, 10, 60, 12)]
    read = [
        list(policies.look_ahead(some, policies.next_uses(some, 60), known, rank, 20))
        for some in (batches, changed)
    ]
    for a, b in zip(read[0][: 20 - known], read[1][: 20 - known], strict=True):
        assert np.array_equal(a, b)
    more = policies.look_ahead(batches, policies.next_uses(batches, 60), 30, rank, 20)
    assert sum(map(len, read[0])) >= sum(map(len, more)) > 0


@pytest.mark.parametrize("known", [1, 4, 50])
def test_a_union_has_what_its_batches_need_and_fits(policies, known):
    rng = np.random.default_rng(3)
    batches, rank = _batches(rng, 40, 100, 10), rng.permutation(100)
    cached, at, groups = set(np.flatnonzero(rank < 30).tolist()), 0, 0
    for missed in policies.unions(batches, known, rank, 30):
        wanted: set[int] = set()
        size = 0
        while size < known and at + size < len(batches):
            more = wanted | set(batches[at + size].tolist())
            if size and len(more) > 30:
                break
            wanted, size = more, size + 1
        assert set(missed.tolist()) == wanted - cached
        others = sorted(cached - wanted, key=lambda row: rank[row])
        cached = wanted | set(others[: 30 - len(wanted)])
        at, groups = at + size, groups + 1
    assert at == len(batches)
    assert groups == 40 if known == 1 else groups < 40


@pytest.mark.parametrize("row_bytes", [128, 512, 768, 4096, 6000])
def test_reads_are_joined_as_the_engine_joins_them(policies, row_bytes):
    """A row at a time, as csrc/read/extents.cpp goes; a run of more than 64 KiB takes several reads."""
    rng = np.random.default_rng(0)
    for count, of in ((1, 5), (300, 5000), (40, 100_000), (3000, 3000)):
        rows = rng.choice(of, count, replace=False)
        runs: list[list[int]] = []
        for row in np.sort(rows).tolist():
            low, high = row * row_bytes // 4096 * 4096, -(-(row + 1) * row_bytes // 4096) * 4096
            if runs and low <= runs[-1][1] + 4096:
                runs[-1][1] = high
            else:
                runs.append([low, high])
        reads = sum(-(-(end - begin) // 65536) for begin, end in runs)
        assert policies.joined(rows, row_bytes) == (reads, sum(end - begin for begin, end in runs))
    assert policies.joined(np.zeros(0, np.int64), 512) == (0, 0)


def test_a_prefix_serves_what_was_read_most_and_sieve_the_rest(policies):
    rank = np.arange(10)[::-1].copy()  # row 9 is the hottest
    batches = [np.array([9, 8, 0]), np.array([9, 0, 1]), np.array([0, 1, 2])]
    missed = [rows.tolist() for rows in policies.prefix(batches, [], rank, 4, share=0.5)]
    assert missed == [[0], [1], [2]]
