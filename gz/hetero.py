"""Sampling over the edge types of a store at once: what Store.sample does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gz import _engine
from gz._base.arrays import Ids, as_ids, as_integer, as_seed
from gz.feature import FeatureStore
from gz.graph import Graph, as_weights, ends
from gz.manifest import EdgeType

Fanouts = Sequence[int] | Mapping[EdgeType, Sequence[int]]
# What is sampled by: the name of a column for all types that have it; by type, a name or an array.
Columns = str | Mapping[Any, Any] | None
_KEPT = 16  # edge types made ready


@dataclass(slots=True)
class HeteroSample:
    """A sampled neighbourhood of several types: the fields of ``Sample``, each as a dict by type.

    Attributes:
        nodes, nodes_per_hop, batch: by node type. Local ids count the entries of ``nodes[type]``.
        src, dst, edge_ids, edges_per_hop, edge_rows: by edge type; ``src`` are local ids of its source type.
    """

    nodes: dict[str, Ids]
    src: dict[EdgeType, Ids]
    dst: dict[EdgeType, Ids]
    edge_ids: dict[EdgeType, Ids]
    nodes_per_hop: dict[str, list[int]]
    edges_per_hop: dict[EdgeType, list[int]]
    batch: dict[str, Ids] | None
    edge_rows: dict[EdgeType, Ids]


class Sampled(Protocol):
    """What sampling asks of an open store."""

    @property
    def path(self) -> str: ...
    @property
    def node_types(self) -> list[str]: ...
    @property
    def edge_types(self) -> list[EdgeType]: ...
    def num_nodes(self, t: str | None = None) -> int: ...
    def num_edges(self, t: EdgeType | None = None) -> int: ...
    def node_columns(self, t: str | None = None) -> list[str]: ...
    def edge_columns(self, t: EdgeType | None = None) -> list[str]: ...
    def feature(self, name: str, t: str | EdgeType | None = None) -> FeatureStore: ...
    def graph(self, t: EdgeType | None = None, direction: str = "in") -> Graph: ...


Ready = dict[Any, _engine.SampleEdgeType]


class HeteroSampler:
    """One sample of a store. ``ready`` keeps edge types whose columns are named from one sample to the next:
    the engine looks through times once, to see whether lists ascend by them."""

    def __init__(self, store: Sampled, ready: Ready):
        self._store, self._ready = store, ready

    def sample(
        self,
        seeds: Mapping[str, ArrayLike],
        fanouts: Fanouts,
        direction: str,
        columns: Mapping[str, Columns],
        seed_time: Mapping[str, ArrayLike] | None,
        options: dict[str, Any],
    ) -> HeteroSample:
        store, types = self._store, self._store.node_types
        by_edge = fanouts if isinstance(fanouts, Mapping) else dict.fromkeys(store.edge_types, fanouts)
        self._check("fanouts", by_edge, store.edge_types)
        for node_type in seeds:
            if node_type not in types:
                raise KeyError(f"no node type {node_type!r}; the store has {types}")
        weights, edge_time = (self._by_type(what, columns[what]) for what in ("weights", "edge_time"))
        node_time = self._by_type("node_time", columns["node_time"])
        graphs = {t: store.graph(t, direction) for t in store.edge_types if t in by_edge}
        edge_types = []
        for t, graph in graphs.items():
            hops = tuple(as_integer(k, "a fanout") for k in by_edge[t])
            frontier, neighbour = (t[2], t[0]) if direction == "in" else (t[0], t[2])
            by = (weights.get(t), edge_time.get(t), node_time.get(neighbour))
            edge_types.append(self._edge_type(t, graph, direction, (frontier, neighbour), hops, by))
        if edge_time or node_time:
            options["disjoint"] = True
        elif seed_time is not None:
            raise ValueError("seed_time goes with node_time or edge_time, the times that seeds are held to")
        starts = []
        timed = bool(edge_time or node_time)
        for node_type, nodes in seeds.items():
            ids = as_ids(nodes, f"seeds of {node_type!r}")
            times = self._seed_times(node_type, ids, seed_time, node_time) if timed else None
            starts.append(_engine.SampleSeeds(types.index(node_type), ids, times))
        options["rng_seed"] = as_seed(options["rng_seed"])
        found = _engine.sample([store.num_nodes(t) for t in types], edge_types, starts, **options)
        return _result(found, types, list(graphs), direction == "out", options["disjoint"])

    def _edge_type(
        self, t: EdgeType, graph: Graph, direction: str, joined: tuple[str, str], hops: Any, by: Any
    ) -> _engine.SampleEdgeType:
        key = (t, direction, hops, *by) if all(v is None or isinstance(v, str) for v in by) else None
        if key is not None and key in self._ready:
            return self._ready[key]
        types = self._store.node_types
        weights, edge_time, node_time = by
        made = _engine.SampleEdgeType(
            graph._topology,
            types.index(joined[0]),
            types.index(joined[1]),
            hops,
            names=graph._ids_topology,
            weights=None if weights is None else as_weights(self._array(weights, t), graph.num_edges),
            edge_time=self._times(edge_time, t, "edge_time", graph.num_edges),
            node_time=self._times(node_time, joined[1], "node_time", self._store.num_nodes(joined[1])),
        )
        if key is not None:
            while len(self._ready) >= _KEPT:
                self._ready.pop(next(iter(self._ready)))
            self._ready[key] = made
        return made

    def _by_type(self, what: str, given: Columns) -> dict[Any, Any]:
        nodes = what == "node_time"
        types: list[Any] = list(self._store.node_types if nodes else self._store.edge_types)
        columns_of: Any = self._store.node_columns if nodes else self._store.edge_columns
        if isinstance(given, str):
            named = {t: given for t in types if given in columns_of(t)}
            if not named:
                raise KeyError(f"{self._store.path}: {what} is {given!r}, which is a column of no type")
            return named
        self._check(what, given or {}, types)
        return dict(given or {})

    def _check(self, what: str, given: Mapping[Any, Any], types: list[Any]) -> None:
        for t in given:
            if t not in types:
                raise KeyError(f"{what} of {t!r}: no such type; the store has {types}")

    def _array(self, value: Any, t: Any) -> NDArray[Any]:
        return self._store.feature(value, t).get_tensor() if isinstance(value, str) else np.asarray(value)

    def _times(self, value: Any, t: Any, what: str, count: int) -> NDArray[Any] | None:
        if value is None:
            return None
        array = self._array(value, t)
        if array.dtype.kind not in "iu":
            raise TypeError(f"{what} of {t!r} is {array.dtype}; times are integers, in any unit")
        if array.shape != (count,):
            raise ValueError(f"{what} of {t!r} has shape {array.shape}; one for each of {count} is needed")
        return np.ascontiguousarray(array, array.dtype if array.dtype == np.int32 else np.int64)

    def _seed_times(self, t: str, ids: Ids, given: Any, node_time: Mapping[str, Any]) -> Ids:
        if given is not None and t in given:
            times = as_ids(given[t], f"seed_time of {t!r}")
            if len(times) != len(ids):
                raise ValueError(f"seed_time of {t!r} has {len(times)} times for {len(ids)} seeds")
            return times
        if t not in node_time:
            raise ValueError(f"the seeds of {t!r} have no times of their own; give seed_time={{{t!r}: ...}}")
        if isinstance(node_time[t], str):
            return as_ids(self._store.feature(node_time[t], t).gather(ids), "node_time")
        if len(ids) and not 0 <= ids.min() <= ids.max() < self._store.num_nodes(t):
            raise IndexError(f"a seed of {t!r} is out of range: there are {self._store.num_nodes(t)} nodes")
        own = self._times(node_time[t], t, "node_time", self._store.num_nodes(t))
        assert own is not None
        return as_ids(own[ids], "node_time")


def _result(
    found: _engine.Sample, types: list[str], edge_types: list[EdgeType], out: bool, disjoint: bool
) -> HeteroSample:
    nodes = dict(zip(types, found.nodes, strict=True))
    edges = dict(zip(edge_types, found.edges, strict=True))
    pairs = {t: ends(e, out) for t, e in edges.items()}
    return HeteroSample(
        nodes={t: n.ids for t, n in nodes.items()},
        src={t: src for t, (src, _) in pairs.items()},
        dst={t: dst for t, (_, dst) in pairs.items()},
        edge_ids={t: e.rows if e.ids is None else e.ids for t, e in edges.items()},
        nodes_per_hop={t: n.per_hop for t, n in nodes.items()},
        edges_per_hop={t: e.per_hop for t, e in edges.items()},
        batch={t: n.batch for t, n in nodes.items() if n.batch is not None} if disjoint else None,
        edge_rows={t: e.rows for t, e in edges.items()},
    )
