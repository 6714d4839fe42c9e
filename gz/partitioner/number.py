"""New numbers for nodes and edges: those of a part are consecutive, and within it those of a type.

DGL finds the part and the type of an id by its place among such ranges. Within a range nodes keep the order
of their old ids, and edges that of the topology: by destination, and as its list has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz._base.progress import Progress
from gz.partitioner.assign import Parts
from gz.partitioner.whole import Ids, Whole, steps

_STEP = 1 << 20


@dataclass
class Numbers:
    """How many nodes and edges each part has, by type: ``[part, type]``. The rest follows."""

    nodes: Ids
    edges: Ids

    def node_range(self, part: int, t: int) -> tuple[int, int]:
        return _range(self.nodes, part, t)

    def edge_range(self, part: int, e: int) -> tuple[int, int]:
        return _range(self.edges, part, e)

    def node_rows(self, part: int, t: int) -> slice:
        """Where the nodes of a part and type are among those of the type, parts one after the other."""
        return _rows(self.nodes, part, t)

    def edge_rows(self, part: int, e: int) -> slice:
        return _rows(self.edges, part, e)

    def first_node(self, part: int) -> int:
        return int(self.nodes[:part].sum())

    @property
    def starts(self) -> Ids:
        """The first node of each part, and the end."""
        return np.concatenate([[0], np.cumsum(self.nodes.sum(1))]).astype(np.int64)

    def to_json(self) -> dict[str, Any]:
        return {"nodes": self.nodes.tolist(), "edges": self.edges.tolist()}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Numbers:
        return cls(np.array(told["nodes"], np.int64), np.array(told["edges"], np.int64))


def _range(counts: Ids, part: int, t: int) -> tuple[int, int]:
    begin = int(counts[:part].sum() + counts[part, :t].sum())
    return begin, begin + int(counts[part, t])


def _rows(counts: Ids, part: int, t: int) -> slice:
    begin = int(counts[:part, t].sum())
    return slice(begin, begin + int(counts[part, t]))


def count(whole: Whole, parts: Parts, k: int) -> Numbers:
    nodes = np.zeros((k, len(whole.ntypes)), np.int64)
    edges = np.zeros((k, len(whole.etypes)), np.int64)
    for t in range(len(whole.ntypes)):
        mine = parts[whole.nodes(t)]
        ending = [e for e in range(len(whole.etypes)) if whole.ends(e)[1] == t]
        for a, b in steps(len(mine), _STEP):
            nodes[:, t] += np.bincount(mine[a:b], minlength=k)
            for e in ending:
                # Sums of at most 2^20 degrees at a time: exact in the doubles that bincount adds in.
                edges[:, e] += np.bincount(mine[a:b], whole.degrees(e, a, b), minlength=k).astype(np.int64)
    return Numbers(nodes, edges)


def number(
    whole: Whole,
    parts: Parts,
    numbers: Numbers,
    new_ids: NDArray[Any],
    orig_nids: list[NDArray[np.int64]],
    progress: Progress,
) -> None:
    """Fills `new_ids`, by id of the whole, and for each type the old ids in the order of the new ones."""
    k = len(numbers.nodes)
    for t in range(len(whole.ntypes)):
        nodes = whole.nodes(t)
        mine, new = parts[nodes], new_ids[nodes]
        first = np.array([numbers.node_range(p, t)[0] for p in range(k)], np.int64)
        row = np.array([numbers.node_rows(p, t).start for p in range(k)], np.int64)
        done = np.zeros(k, np.int64)
        for a, b in steps(len(mine), _STEP):
            chunk = mine[a:b]
            order, rank, counts = grouped(chunk, k)
            sorted_parts = chunk[order]
            place = done[sorted_parts] + rank
            orig_nids[t][row[sorted_parts] + place] = a + order
            new[a + order] = first[sorted_parts] + place
            done += counts
            progress.update(nodes.start + b, whole.num_nodes, " nodes")


def grouped(parts: NDArray[Any], k: int) -> tuple[Ids, Ids, Ids]:
    """(an order that sorts by part and keeps what is equal as it was; the rank of each, in that order, within
    its part; how many each part has)."""
    order = np.argsort(parts, kind="stable")
    counts = np.bincount(parts, minlength=k)
    rank = np.arange(len(parts)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order, rank, counts
