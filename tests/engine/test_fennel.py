"""The streaming partitioner beside a slow one of a few lines."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gz import _engine

NONE = 0xFFFF


def slow(k, classes, edges, lists, balanced_edges, degree, slack, passes):
    """As csrc/assign/fennel.h says it, node by node."""
    n = len(classes)
    share = [classes.count(c) / k for c in range(max(classes) + 1)]
    edge_share = balanced_edges / k
    parts = [NONE] * n
    nodes, ends = [[0.0] * k for _ in share], [0.0] * k

    def load(p, c):
        return max(nodes[c][p] / share[c] if share[c] else 0, ends[p] / edge_share if edge_share else 0)

    for _ in range(passes):
        for v in range(n):
            c, w = classes[v], edges[v]
            if parts[v] != NONE:
                nodes[c][parts[v]] -= 1
                ends[parts[v]] -= w
            near = [sum(parts[u] == p for u in lists[v] if u != v) for p in range(k)]
            room = [
                p
                for p in range(k)
                if nodes[c][p] + 1 <= max(math.ceil(share[c]), share[c] * slack)
                and (not edge_share or w == 0 or ends[p] + w <= edge_share * slack)
            ]
            if room:
                p = max(room, key=lambda p: (near[p] - 1.5 * degree * math.sqrt(load(p, c)), -p))
            else:
                p = min(range(k), key=lambda p: (load(p, c), p))
            parts[v] = p
            nodes[c][p] += 1
            ends[p] += w
    return parts


def fast(k, classes, edges, lists, balanced_edges, degree, slack, passes, step):
    n = len(classes)
    sizes = np.bincount(classes).tolist()
    fennel = _engine.Fennel(k, sizes, balanced_edges, degree, slack)
    parts = np.full(n, NONE, np.uint16)
    for _ in range(passes):
        for a in range(0, n, step):
            b = min(n, a + step)
            indptr = np.cumsum([0, *(len(x) for x in lists[a:b])])
            near = np.array([u for x in lists[a:b] for u in x], np.int64)
            fennel.add(
                a, np.array(classes[a:b], np.uint8), np.array(edges[a:b], np.int64), indptr, near, parts
            )
    return parts.tolist()


@given(data=st.data())
def test_every_node_goes_where_the_slow_one_puts_it(data):
    n, k = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 5))
    classes = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    lists = data.draw(st.lists(st.lists(st.integers(0, n - 1), max_size=6), min_size=n, max_size=n))
    edges = [len(x) for x in lists]
    balanced = sum(edges) if data.draw(st.booleans()) else 0
    # Loads that are exact in doubles either way: the two must not differ by the order of a sum.
    slack, passes = data.draw(st.sampled_from([1.0, 1.125, 2.0])), data.draw(st.integers(1, 3))
    args = (k, classes, edges, lists, balanced, sum(edges) / n, slack, passes)
    assert fast(*args, step=data.draw(st.integers(1, n))) == slow(*args)


def test_classes_and_edges_are_balanced_within_the_slack():
    rng = np.random.default_rng(0)
    n, k = 4000, 5
    lists = [rng.integers(0, n, rng.integers(0, 12)).tolist() for _ in range(n)]
    classes = (rng.random(n) < 0.1).astype(int).tolist()
    edges = [len(x) for x in lists]
    parts = np.array(fast(k, classes, edges, lists, sum(edges), sum(edges) / n, 1.03, 2, 512))
    for c in range(2):
        counts = np.bincount(parts[np.array(classes) == c], minlength=k)
        assert counts.max() <= np.ceil(counts.sum() / k * 1.03)
    loads = np.bincount(parts, edges, minlength=k)
    assert loads.max() <= loads.sum() / k * 1.03 + max(edges)


def test_what_is_not_there_is_refused():
    def add(first=0, classes=(0, 0), edges=(1, 1), indptr=(0, 1, 2), near=(0, 1), parts=(NONE, NONE)):
        fennel = _engine.Fennel(2, [2], 2, 1.0, 1.1)
        fennel.add(
            first,
            np.array(classes, np.uint8),
            np.array(edges, np.int64),
            np.array(indptr, np.int64),
            np.array(near, np.int64),
            np.array(parts, np.uint16),
        )

    add()
    for wrong in ({"near": (0, 2)}, {"near": (-1, 0)}, {"classes": (0, 1)}, {"first": 1}, {"parts": (7, 0)}):
        with pytest.raises(IndexError):
            add(**wrong)
    for wrong in ({"indptr": (0, 1)}, {"indptr": (0, 2, 1)}, {"indptr": (0, 1, 3)}, {"edges": (1,)}):
        with pytest.raises(ValueError, match="indptr|length"):
            add(**wrong)
    for parts, slack in ((0, 1.1), (65535, 1.1), (2, 0.5), (2, float("nan"))):
        with pytest.raises(ValueError, match="parts|slack"):
            _engine.Fennel(parts, [2], 2, 1.0, slack)
