"""A slow serial sampler whose correctness can be read off the page, and a judge of anybody's samples.

`sample` follows the sampling semantics of docs/design.md, one node and one edge at a time. Where they leave
nothing to chance (fanout < 0, or the caller's own `pick`) the engine must agree with it exactly. Where not,
`check_sample` judges a result instead: is it one of the results that could have been drawn?

A homogeneous graph is the heterogeneous case with one type, so there is one implementation of each.

The rules, once more:
  nodes   the seeds, duplicates included, then every other node in the order first seen
  edges   by hop, then (per edge type) by frontier node, in the order picked
  src     local id of the neighbour: its first place in `nodes`
  dst     local id of the frontier node that was expanded
  a duplicated seed is expanded at each of its places, with the same picks
  disjoint: nodes are told apart by (seed index, node), so no two seeds share anything
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from graphs import Csc, EdgeType

HOMOGENEOUS: EdgeType = ("node", "to", "node")

# (edge type, hop, frontier node, candidate positions, fanout) -> the positions picked, in order
Pick = Callable[[EdgeType, int, int, Sequence[int], int], Sequence[int]]
# (edge type, position, seed index or -1) -> may this edge be picked?
Allowed = Callable[[EdgeType, int, int], bool]


@dataclass
class HeteroSample:
    """What a sampler returns, per node type or per edge type. Local ids count within a type."""

    nodes: dict[str, np.ndarray]
    src: dict[EdgeType, np.ndarray]
    dst: dict[EdgeType, np.ndarray]
    edge_ids: dict[EdgeType, np.ndarray]
    nodes_per_hop: dict[str, list[int]]  # seeds first: one entry more than there are hops
    edges_per_hop: dict[EdgeType, list[int]]
    batch: dict[str, np.ndarray] | None = None  # disjoint only: seed index of every node


@dataclass
class Sample:
    nodes: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    edge_ids: np.ndarray
    nodes_per_hop: list[int]
    edges_per_hop: list[int]
    batch: np.ndarray | None = None


def random_pick(rng_seed: int = 0, replace: bool = False) -> Pick:
    """Uniform picks; all, in stored order, when the fanout is negative or the list is short enough."""

    def pick(edge_type, hop, node, candidates, fanout):
        if fanout < 0 or (not replace and fanout >= len(candidates)):
            return candidates
        stream = random.Random(f"{rng_seed}/{edge_type}/{hop}/{node}")
        if replace:
            return [stream.choice(candidates) for _ in range(fanout)] if candidates else []
        return stream.sample(candidates, fanout)

    return pick


def last_pick(edge_type, hop, node, candidates, fanout) -> Sequence[int]:
    """The final `fanout` candidates: the temporal strategy "last", given a list in order of time."""
    return candidates if fanout < 0 else candidates[len(candidates) - min(fanout, len(candidates)) :]


class _NodeTable:
    """Nodes of every type in the order first seen, each known by (seed index, node)."""

    def __init__(self, node_types, seeds: Mapping[str, Sequence[int]], disjoint: bool):
        self.rows: dict[str, list[tuple[int, int]]] = {t: [] for t in node_types}
        self.first: dict[str, dict[tuple[int, int], int]] = {t: {} for t in node_types}
        seed_index = 0
        for t, ids in seeds.items():
            for v in ids:
                key = (seed_index if disjoint else -1, int(v))
                self.first[t].setdefault(key, len(self.rows[t]))
                self.rows[t].append(key)
                seed_index += 1
        self.per_hop = {t: [len(rows)] for t, rows in self.rows.items()}

    def place(self, t: str, key: tuple[int, int]) -> int:
        """Local id of a node, which joins the table if it is new."""
        if key not in self.first[t]:
            self.first[t][key] = len(self.rows[t])
            self.rows[t].append(key)
        return self.first[t][key]

    def frontier(self, t: str) -> range:
        """Places of the nodes that joined in the last finished hop."""
        end = sum(self.per_hop[t])
        return range(end - self.per_hop[t][-1], end)

    def end_hop(self) -> None:
        for t, rows in self.rows.items():
            self.per_hop[t].append(len(rows) - sum(self.per_hop[t]))


def _node_types(graphs: Mapping[EdgeType, Csc], seeds: Mapping[str, Sequence[int]]) -> list[str]:
    return list(dict.fromkeys([*seeds, *(t[0] for t in graphs), *(t[2] for t in graphs)]))


def _candidates(graph: Csc, t: EdgeType, node: int, seed_index: int, allowed: Allowed | None) -> list[int]:
    positions = range(int(graph.indptr[node]), int(graph.indptr[node + 1]))
    return [p for p in positions if allowed is None or allowed(t, p, seed_index)]


def sample_hetero(
    graphs: Mapping[EdgeType, Csc],
    seeds: Mapping[str, Sequence[int]],
    fanouts: Mapping[EdgeType, Sequence[int]],
    *,
    pick: Pick | None = None,
    disjoint: bool = False,
    allowed: Allowed | None = None,
) -> HeteroSample:
    """Sample along `in` topologies. Edge types are visited in the order of `graphs`, within every hop."""
    pick = pick or random_pick()
    table = _NodeTable(_node_types(graphs, seeds), seeds, disjoint)
    src: dict = {t: [] for t in graphs}
    dst: dict = {t: [] for t in graphs}
    positions: dict = {t: [] for t in graphs}
    edges_per_hop: dict = {t: [] for t in graphs}
    for hop in range(len(next(iter(fanouts.values())))):
        for t, graph in graphs.items():
            before = len(src[t])
            for place in table.frontier(t[2]):
                seed_index, node = table.rows[t[2]][place]
                candidates = _candidates(graph, t, node, seed_index, allowed)
                for p in pick(t, hop, node, candidates, fanouts[t][hop]):
                    src[t].append(table.place(t[0], (seed_index, int(graph.indices[p]))))
                    dst[t].append(place)
                    positions[t].append(p)
            edges_per_hop[t].append(len(src[t]) - before)
        table.end_hop()

    def ids(values) -> np.ndarray:
        return np.array(values, np.int64)

    return HeteroSample(
        nodes={n: ids([v for _, v in rows]) for n, rows in table.rows.items()},
        src={t: ids(v) for t, v in src.items()},
        dst={t: ids(v) for t, v in dst.items()},
        edge_ids={t: graphs[t].edge_ids[ids(v)] for t, v in positions.items()},
        nodes_per_hop=table.per_hop,
        edges_per_hop=edges_per_hop,
        batch={n: ids([b for b, _ in rows]) for n, rows in table.rows.items()} if disjoint else None,
    )


def sample(graph: Csc, seeds: Sequence[int], fanouts: Sequence[int], **options) -> Sample:
    """The homogeneous case of `sample_hetero`, same options."""
    h = sample_hetero({HOMOGENEOUS: graph}, {"node": seeds}, {HOMOGENEOUS: fanouts}, **options)
    return Sample(
        h.nodes["node"],
        h.src[HOMOGENEOUS],
        h.dst[HOMOGENEOUS],
        h.edge_ids[HOMOGENEOUS],
        h.nodes_per_hop["node"],
        h.edges_per_hop[HOMOGENEOUS],
        h.batch["node"] if h.batch is not None else None,
    )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _judge_picks(t, hop, node, graph: Csc, candidates, picked, fanout: int, replace: bool) -> None:
    """Could `picked`, a list of (neighbour, edge id), have been drawn from these candidate positions?"""
    where = f"{t} hop {hop}, node {node}: "
    legal = [(int(graph.indices[p]), int(graph.edge_ids[p])) for p in candidates]
    stray = Counter(picked).keys() - set(legal)
    _require(not stray, f"{where}no such edge (neighbour, edge id): {sorted(stray)[:3]}")
    if fanout < 0:
        _require(
            picked == legal, f"{where}all edges in stored order wanted, got {picked[:5]} for {legal[:5]}"
        )
        return
    want = (fanout if candidates else 0) if replace else min(fanout, len(candidates))
    _require(
        len(picked) == want,
        f"{where}{len(picked)} edges, fanout {fanout}, {len(candidates)} to pick from: want {want}",
    )
    if not replace:
        # Two edges may share neighbour and id (an undirected self loop), so count them.
        repeated = Counter(picked) - Counter(legal)
        _require(not repeated, f"{where}picked more often than stored: {list(repeated)[:3]}")


def check_hetero_sample(
    graphs: Mapping[EdgeType, Csc],
    seeds: Mapping[str, Sequence[int]],
    fanouts: Mapping[EdgeType, Sequence[int]],
    got,
    *,
    replace: bool = False,
    disjoint: bool = False,
    allowed: Allowed | None = None,
) -> None:
    """Raise AssertionError, saying what is wrong, unless `got` (as HeteroSample) is a legal sample.

    Types that were not reached may be missing from the dicts of `got`. Graphs whose `edge_ids` are positions
    check positions; with original ids they check those.
    """
    table = _NodeTable(_node_types(graphs, seeds), seeds, disjoint)
    hops = len(next(iter(fanouts.values())))
    none = np.zeros(0, np.int64)
    src, dst, eid = (
        {t: np.asarray(d.get(t, none)).tolist() for t in graphs} for d in (got.src, got.dst, got.edge_ids)
    )
    per_hop = {t: [int(c) for c in got.edges_per_hop.get(t, [0] * hops)] for t in graphs}
    nodes = {n: np.asarray(got.nodes.get(n, none)).tolist() for n in table.rows}
    cursor = dict.fromkeys(graphs, 0)
    for t in graphs:
        _require(len(per_hop[t]) == hops, f"{t}: edges_per_hop has {len(per_hop[t])} entries for {hops} hops")
        lengths = {len(src[t]), len(dst[t]), len(eid[t]), sum(per_hop[t])}
        _require(
            len(lengths) == 1, f"{t}: src, dst, edge_ids and edges_per_hop disagree in length: {lengths}"
        )

    for hop in range(hops):
        for t, graph in graphs.items():
            here, end = cursor[t], cursor[t] + per_hop[t][hop]
            picks_of_seed: dict[tuple[int, int], list] = {}
            for place in table.frontier(t[2]):
                seed_index, node = key = table.rows[t[2]][place]
                picked = []
                while here < end and dst[t][here] == place:
                    _require(
                        0 <= src[t][here] < len(nodes[t[0]]),
                        f"{t} edge {here}: src {src[t][here]} is no local id",
                    )
                    neighbour = nodes[t[0]][src[t][here]]
                    first = table.place(t[0], (seed_index, neighbour))
                    _require(
                        src[t][here] == first,
                        f"{t} edge {here}: src is {src[t][here]}, but node {neighbour} is first at {first}",
                    )
                    picked.append((neighbour, eid[t][here]))
                    here += 1
                candidates = _candidates(graph, t, node, seed_index, allowed)
                _judge_picks(t, hop, node, graph, candidates, picked, fanouts[t][hop], replace)
                twin = picks_of_seed.setdefault(key, picked)
                _require(picked == twin, f"{t} hop {hop}: node {node} occurs twice with different picks")
            _require(
                here == end,
                f"{t} hop {hop}: edge {here} (dst {dst[t][here : here + 1]}) is not in frontier order",
            )
            cursor[t] = end
        table.end_hop()

    for n, rows in table.rows.items():
        want = [v for _, v in rows]
        _require(
            nodes[n] == want,
            f"nodes of {n!r} are not in the order first seen: {_first_difference(nodes[n], want)}",
        )
        counts = [int(c) for c in got.nodes_per_hop.get(n, [0] * (hops + 1))]
        _require(counts == table.per_hop[n], f"nodes_per_hop of {n!r}: got {counts}, want {table.per_hop[n]}")
        if disjoint:
            batch = np.asarray((got.batch or {}).get(n, none)).tolist()
            want = [b for b, _ in rows]
            _require(batch == want, f"batch of {n!r}: {_first_difference(batch, want)}")


def _first_difference(got: list, want: list) -> str:
    for i, (a, b) in enumerate(zip(got, want, strict=False)):
        if a != b:
            return f"place {i}: got {a}, want {b}"
    return f"length {len(got)}, want {len(want)}"


def check_sample(graph: Csc, seeds: Sequence[int], fanouts: Sequence[int], got, **options) -> None:
    """The homogeneous case of `check_hetero_sample`: `got` has the fields of Sample."""
    batch = getattr(got, "batch", None)
    wrapped = HeteroSample(
        {"node": got.nodes},
        {HOMOGENEOUS: got.src},
        {HOMOGENEOUS: got.dst},
        {HOMOGENEOUS: got.edge_ids},
        {"node": list(got.nodes_per_hop)},
        {HOMOGENEOUS: list(got.edges_per_hop)},
        {"node": batch} if batch is not None else None,
    )
    check_hetero_sample({HOMOGENEOUS: graph}, {"node": seeds}, {HOMOGENEOUS: fanouts}, wrapped, **options)


def assert_same_sample(got, want: Sample) -> None:
    """Every field equal: for fanouts that leave nothing to chance."""
    for name in ("nodes", "src", "dst", "edge_ids", "nodes_per_hop", "edges_per_hop"):
        np.testing.assert_array_equal(
            np.asarray(getattr(got, name)), np.asarray(getattr(want, name)), err_msg=name
        )
    if want.batch is not None:
        np.testing.assert_array_equal(np.asarray(got.batch), want.batch, err_msg="batch")


def walk_is_legal(graph: Csc, starts: Sequence[int], walks: np.ndarray, walk_length: int) -> None:
    """Every step of every walk follows an edge of `graph`; -1 from a dead end to the end of the row."""
    walks = np.asarray(walks)
    _require(walks.shape == (len(starts), walk_length + 1), f"walks have shape {walks.shape}")
    for start, row in zip(starts, walks.tolist(), strict=True):
        _require(row[0] == start, f"walk {row} does not begin at {start}")
        for here, there in itertools.pairwise(row):
            neighbours = graph.neighbors(here).tolist() if here >= 0 else []
            _require(
                there in neighbours if neighbours else there == -1, f"walk {row}: no step {here} -> {there}"
            )
