"""A store in plain values: what a report has to say of it."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from gz._watch.counters import Counters
from gz.graph import Graph
from gz.store import Store

# Of a larger topology so many nodes are looked at, in pieces from all over it.
_MOST_NODES = 8_000_000
_PIECES = 64


def describe_store(store: Store) -> dict[str, Any]:
    """Nothing of the data is read."""
    files = store.memory_plan()
    return {
        "path": store.path,
        "bytes": sum(size_of(store, f) for f in files),
        "nodes": {t: store.num_nodes(t) for t in store.node_types},
        "edges": [{"type": list(t), "num_edges": store.num_edges(t)} for t in store.edge_types],
        "columns": [_column(store, name, t) for t in store.node_types for name in store.node_columns(t)]
        + [_column(store, name, t) for t in store.edge_types for name in store.edge_columns(t)],
        "files": [{"file": f, "bytes": size_of(store, f), "plan": plan} for f, plan in files.items()],
    }


def counters(store: Store) -> Counters:
    """What the files of a store have counted so far. Without what ``Store.stats`` adds on memory: that takes
    ten times as long."""
    files = store._files.opened()
    return Counters.of(f._topology.stats() if isinstance(f, Graph) else f._file.stats() for f in files)


def size_of(store: Store, file: str) -> int:
    return os.path.getsize(os.path.join(store.path, file))


def _column(store: Store, name: str, t: Any) -> dict[str, Any]:
    column = store.feature(name, t)
    of = t if isinstance(t, str) else " ".join(t)
    return {
        "name": name,
        "of": of,
        "dtype": column.dtype,
        "stored": column.stored,
        "shape": list(column.shape),
        "bytes": column.nbytes,
    }


def degrees(graph: Graph) -> dict[str, Any]:
    """How many nodes have how many neighbours: counts of 0, 1, 2-3, 4-7, ... in ``counts``."""
    n, indptr = graph.num_nodes, graph.indptr
    step = max(1, n // _PIECES)
    take = step if n <= _MOST_NODES else _MOST_NODES // _PIECES
    counts = np.zeros(65, np.int64)
    for begin in range(0, n, step):
        end = min(begin + take, begin + step, n)
        length = np.diff(indptr[begin : end + 1])
        # frexp's exponent is the number of binary digits: 0 for 0, 1 for 1, 2 for 2 and 3, ...
        counts += np.bincount(np.frexp(length.astype(np.float64))[1], minlength=65)
    last = int(np.flatnonzero(counts)[-1]) if counts.any() else 0
    return {
        "counts": counts[: last + 1].tolist(),
        "looked_at": int(counts.sum()),
        "nodes": n,
        "average": graph.num_edges / n if n else 0.0,
        "largest": graph._topology.max_degree(),
    }
