"""Stores read back in the order of their input, to be compared with what another reader made of it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np


def contents(store: Path) -> dict[str, bytes]:
    """Every byte of a store but its generation, by which two ingests of one input are told apart."""
    found = {str(p.relative_to(store)): p.read_bytes() for p in sorted(store.rglob("*")) if p.is_file()}
    if "store.json" in found:
        found["store.json"] = re.sub(rb'"generation": "[0-9a-f]{16}"', b"", found["store.json"])
    return found


def edges_of(store, t=None):
    """The edge_index [2, E] in the original order, from a store with edge ids."""
    g = store.graph(t)
    assert g.has_edge_ids, "ingest with keep_edge_ids=True"
    dst = np.repeat(np.arange(g.num_dst), np.diff(np.asarray(g.indptr).astype(np.int64)))
    ids = np.asarray(g.edge_ids).astype(np.int64)
    assert sorted(ids) == list(range(g.num_edges))
    out = np.empty((2, g.num_edges), np.int64)
    out[0, ids], out[1, ids] = np.asarray(g.indices), dst
    return out


def edge_column(store, name, t=None):
    """An edge column in the original order."""
    rows = store.edge_feature(name, t).get_tensor()
    out = np.empty_like(rows)
    out[np.asarray(store.graph(t).edge_ids).astype(np.int64)] = rows
    return out


def same(a, b, dtype=True):
    """Equal in shape, values (NaN equals NaN) and, if asked, dtype."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    if dtype:
        assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


def nothing_but_phases(path, said):
    """No store, and nothing left of the attempt unless it was said."""
    left = [p for p in path.parent.glob(path.name + "*") if p.is_dir()]
    return not path.exists() and all(str(p) in "".join(said.split()) for p in left)


def nothing_at(path):
    """No store, and nothing left of the attempt."""
    return not list(path.parent.glob(path.name + "*"))
