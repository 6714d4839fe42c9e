"""Every public function that reads a store, called on one that may be broken in any way.

What succeeds must be right: rows are those in the file, neighbours those in the lists, ids below their
bounds, as format_rules.py reads the same bytes. What fails must be an error of gz that a script can expect.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import file_rules
import format_rules
import numpy as np

import gz
from gz._base import memory_plan
from gz.verify import verify

Call = tuple[str, Callable[[], object]]
MOST = 4000  # nodes, edges or rows looked at


def is_expected(error: Exception) -> bool:
    """FormatError and InputError are ValueErrors; subclasses made by others (UnicodeError, ...) are slips."""
    return isinstance(error, OSError) or type(error) in (
        gz.FormatError,
        gz.InputError,
        ValueError,
        MemoryError,
    )


def some(n: int) -> np.ndarray:
    return np.arange(min(n, MOST))


def check(holds: Any, what: str) -> None:
    if not holds:
        raise AssertionError(what)


# ---- a file ----


def same(got: np.ndarray, want: np.ndarray, seen: file_rules.Feature) -> bool:
    """To the bit; of rows that are decoded a NaN may be another one."""
    if seen.shown == 0:
        return got.tobytes() == want.tobytes()
    return got.dtype == want.dtype and np.array_equal(got, want, equal_nan=True)


def rows(column: gz.FeatureStore, seen: file_rules.Feature | None) -> None:
    ids = np.concatenate([some(len(column))[::-1], some(len(column))[::3]])
    got = column.gather(ids)
    check(got.shape == (len(ids), *column.shape[1:]), "shape of gathered rows")
    if seen is not None:
        want = seen.values()[ids]
        check(same(got, want, seen), f"{column.path}: other rows than the file has")
        check(same(column.get_tensor()[ids], want, seen), f"{column.path}: another tensor than the file")
        check(column.stored != column.dtype or seen.shown == 0, f"{column.path}: what it is stored as")


def lists(graph: gz.Graph, seen: file_rules.Topology | None) -> None:
    nodes = some(graph.num_nodes)
    degrees = graph.degree(nodes)
    check((degrees >= 0).all(), "a negative degree")
    for v in nodes[:20]:
        near = graph.neighbors(int(v))
        check(len(near) == degrees[v], "a list as long as its degree")
        if seen is not None:
            begin, end = seen.indptr[v : v + 2].astype(int)
            check(near.tolist() == seen.indices[begin:end].tolist(), "other neighbours than the file has")


def legal_sample(graph: gz.Graph, s: gz.Sample, seeds: np.ndarray) -> None:
    others = max(graph.num_src, graph.num_dst)
    check(((s.nodes >= 0) & (s.nodes < others)).all(), "a node that is not there")
    check((s.nodes[: len(seeds)] == seeds).all(), "seeds first")
    for end in (s.src, s.dst):
        check(((end >= 0) & (end < len(s.nodes))).all(), "a local id that is not there")
    check(((s.edge_rows >= 0) & (s.edge_rows < graph.num_edges)).all(), "an edge row that is not there")
    check((s.edge_ids >= 0).all(), "an edge id that is not there")
    check(sum(s.edges_per_hop) == len(s.src) and sum(s.nodes_per_hop) == len(s.nodes), "counts per hop")


def all_edges(graph: gz.Graph, seen: file_rules.Topology | None) -> None:
    seeds = some(graph.num_nodes)
    s = graph.sample(seeds, [-1])
    legal_sample(graph, s, seeds)
    if seen is not None and seen.num_nodes <= MOST:
        near = s.nodes[s.dst if graph.direction == "out" else s.src]
        check(near.tolist() == seen.indices.tolist(), "other edges than the file has")


def samples(graph: gz.Graph) -> Iterator[Call]:
    seeds = some(graph.num_nodes)
    w = np.ones(min(graph.num_edges, 1 << 20))
    for options in (
        {"fanouts": [3, 2]},
        {"fanouts": [2, 2], "replace": True},
        {"fanouts": [2, -1], "disjoint": True},
        {"fanouts": [2], "weights": w},
        {"fanouts": [4], "weights": w, "replace": True},
    ):
        yield (
            f"sample {options['fanouts']}",
            lambda o=options: legal_sample(graph, graph.sample(seeds, **o), seeds),
        )


def walks(graph: gz.Graph, q: float) -> None:
    starts = some(graph.num_nodes)
    got = graph.batch_random_walk(starts, 12, q=q)
    check(((got >= -1) & (got < graph.num_nodes)).all(), "a walk to a node that is not there")
    check((got[:, 0] == starts).all(), "a walk from another node")


def fanout(graph: gz.Graph, replace: bool) -> None:
    got = graph.batch_random_fanout(some(graph.num_nodes), 4, replace=replace)
    check(((got >= -1) & (got < max(graph.num_src, graph.num_dst))).all(), "a neighbour that is not there")


def graph_calls(graph: gz.Graph, seen: file_rules.Topology | None) -> Iterator[Call]:
    yield "lists", lambda: lists(graph, seen)
    if graph.num_src == graph.num_dst:
        yield "all edges", lambda: all_edges(graph, seen)
        yield from samples(graph)
        for q in (1.0, 0.5, 100.0):
            yield f"walks q={q}", lambda q=q: walks(graph, q)
    for replace in (False, True):
        yield "fanout", lambda r=replace: fanout(graph, r)
    for part in ("indptr", "indices", "edge_ids", "edge_positions", "weights"):
        yield part, lambda part=part: getattr(graph, part)


# ---- a store ----


def ids_both_ways(store: gz.Store, t: str) -> None:
    ids = store.id_map(t)
    for v in some(len(ids))[:50]:
        key = ids.to_original([int(v)])[0]
        check(ids.contains([key]).shape == (1,), "one answer")


def store_calls(store: gz.Store, seen: format_rules.Store) -> Iterator[Call]:
    """As they come: what one call has opened the next one uses."""
    for t in store.node_types:
        for name in store.node_columns(t):
            file = store.manifest.nodes[t].columns[name].file
            yield (
                f"feature {name}",
                lambda t=t, n=name, f=file: rows(store.feature(n, t), seen.columns.get(f)),
            )
            yield "categories", lambda t=t, n=name: (store.categories(n, t), store.unit(n, t))
        for name in store.splits(t):
            yield f"split {name}", lambda t=t, n=name: store.split(n, t).sum()
        if store.manifest.nodes[t].id_map is not None:
            yield f"ids of {t}", lambda t=t: ids_both_ways(store, t)
    for edge in store.manifest.edges:
        for direction, file in (("in", edge.in_file), ("out", edge.out_file)):
            if file is not None:
                yield (
                    f"graph {edge.type} {direction}",
                    lambda e=edge, d=direction, f=file: run(
                        graph_calls(store.graph(e.type, d), seen.topologies.get(f))
                    ),
                )
        for name, column in edge.columns.items():
            yield (
                f"edge feature {name}",
                lambda e=edge, n=name, c=column: rows(
                    store.edge_feature(n, e.type), seen.columns.get(c.file)
                ),
            )
    for name in store.edge_splits:
        yield f"edge split {name}", lambda n=name: store.edge_split(n)
    seeds = {t: some(store.num_nodes(t))[:50] for t in store.node_types}
    for options in ({}, {"replace": True}, {"disjoint": True}, {"direction": "out"}):
        yield f"Store.sample {options}", lambda o=options: store.sample(seeds, [2, 2], **o)
    yield "stats", store.stats
    yield "memory plan", store.memory_plan
    yield "repr", lambda: (repr(store), store.num_nodes(), store.num_edges())


def run(calls: Iterator[Call]) -> None:
    """All of them; an error that is expected ends one call, not the rest."""
    for name, call in calls:
        try:
            call()
        except Exception as error:
            if not is_expected(error):
                error.add_note(f"in: {name}")
                raise


def lists_in_front(root: Path) -> None:
    """Where memory has no place for a topology, lists come from the copy of those that are sampled most. What
    that holds is checked by gz verify alone, as the topology's is: whatever it is, samples are legal."""
    with patch.object(memory_plan, "free_ram", lambda: 1):
        store = gz.open(root)
        for edge in store.manifest.edges:
            if edge.hot is not None and edge.type[0] == edge.type[2]:
                run(samples(store.graph(edge.type)))


def read_everything(root: Path, seen: format_rules.Store, scratch: Path) -> None:
    try:
        store = gz.open(root)
    except Exception as error:
        if not is_expected(error):
            raise
    else:
        run(store_calls(store, seen))
        run(iter([("lists in front", lambda: lists_in_front(root))]))
        for format in ("parquet", "npy"):
            shutil.rmtree(scratch, ignore_errors=True)
            run(iter([(f"export {format}", lambda f=format: gz.export(root, scratch, f, memory="16MB"))]))
    for path in sorted(root.rglob("*.g[ld]")):
        opened = gz.Graph if path.suffix == ".gl" else gz.FeatureStore
        run(iter([(f"{path.name} on its own", lambda p=path, o=opened: o(p))]))


def read_by_frameworks(root: Path) -> None:
    """What the adapters read of it, where it opens at all."""
    import torch

    import gz_dgl
    import gz_pyg

    def pyg() -> None:
        data = gz_pyg.load(root)
        types = data.node_types if data.is_hetero else [None]
        for t in types:
            nodes = torch.arange(min(data.store.num_nodes(t or "node"), 30))
            loader = gz_pyg.NeighborLoader(
                data, [2, 2], batch_size=10, input_nodes=nodes if t is None else (t, nodes), prefetch=0
            )
            for _ in loader:
                pass

    def dgl() -> None:
        g = gz_dgl.load(root)
        for t in g.ntypes:
            nodes = torch.arange(min(g.num_nodes(t), 30))
            g.sample_neighbors({t: nodes}, 2)
            for name in g.nodes[t].data:
                g.nodes[t].data[name][nodes]
        for e in g.canonical_etypes:
            g.in_degrees(torch.arange(min(g.num_nodes(e[2]), 30)), e)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(iter([("PyG", pyg), ("DGL", dgl)]))


# ---- gz verify ----


def verified(root: Path) -> dict[str, str]:
    """What it finds broken, by path inside the store."""
    return {
        os.path.relpath(name, root): f"{type(e).__name__}: {e}" for name, e in verify(root) if e is not None
    }


def compare_with_rules(root: Path, seen: format_rules.Store) -> None:
    try:
        found = verified(root)
    except Exception as error:
        check(is_expected(error) and "store.json" in seen.broken, f"gz verify itself failed: {error!r}")
        return
    if "store.json" in seen.broken:
        check("store.json" in found, f"store.json breaks a rule that gz verify misses: {seen.broken}")
        return
    for name, rule in seen.broken.items():
        where = name if isinstance(name, str) else None
        hit = where in found if where else any(f"(ids of {name[1]!r})" in f for f in found)
        check(hit, f"{name} breaks a rule that gz verify misses: {rule}; it found {found}")
    if not seen.broken and not seen.unsure:
        check(not found, f"gz verify finds fault with what breaks no rule: {found}")
