"""The work that is predicted and measured: batches of seeds, sampled by fanouts, with the rows they need."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gz._base.arrays import Ids
from gz.feature import FeatureStore
from gz.graph import Graph
from gz.store import Store

_PAGE = 4096


@dataclass(frozen=True)
class Request:
    """What a user asks for on the command line."""

    fanouts: tuple[int, ...] = (15, 10, 5)
    batch_size: int = 1024
    split: str | None = None  # of seeds; None: "train" where there is one, else all nodes
    node_type: str | None = None  # of the seeds
    rng_seed: int = 0


@dataclass
class Part:
    """What a batch takes of one file: rows of a column, or pages of a topology."""

    file: str
    ids: Ids


class Workload:
    """Batches as a loader would ask for them, on any store."""

    def __init__(self, store: Store, request: Request):
        self.store, self.request = store, request
        if not store.edge_types:
            raise ValueError(f"{store.path}: holds no edges, so there is nothing to sample")
        self.seed_type, self.split = self._seeds_from()
        self.graphs = {t: store.graph(t) for t in store.edge_types}
        self.columns: dict[str, FeatureStore] = {}
        self._column_types: dict[str, Any] = {}
        types: list[Any] = [*store.node_types, *store.edge_types]
        for t in types:
            names = store.node_columns(t) if isinstance(t, str) else store.edge_columns(t)
            for name in names:
                column = store.feature(name, t)
                file = self.name_of(column)
                self.columns[file], self._column_types[file] = column, t

    def name_of(self, file: Graph | FeatureStore) -> str:
        return os.path.relpath(file.path, self.store.path)

    @property
    def largest_file(self) -> str:
        """The path of it."""
        paths = [c.path for c in self.columns.values()] + [g.path for g in self.graphs.values()]
        return max(paths, key=os.path.getsize)

    def describe(self) -> dict[str, Any]:
        r = self.request
        seeds = f"split {self.split!r}" if self.split else "all nodes"
        return {
            "fanouts": list(r.fanouts),
            "batch_size": r.batch_size,
            "seeds": f"{seeds} of type {self.seed_type!r}" if len(self.store.node_types) > 1 else seeds,
            "num_seeds": self.num_seeds,
        }

    @property
    def num_seeds(self) -> int:
        store, t = self.store, self.seed_type
        return len(store.split(self.split, t)) if self.split else store.num_nodes(t)

    def seeds(self, number: int) -> Ids:
        """Of a batch by its number: distinct, in random order."""
        rng = np.random.default_rng([self.request.rng_seed, number])
        count = min(self.request.batch_size, self.num_seeds)
        # Drawn with a few to spare and made distinct: a permutation would be O(nodes).
        drawn = rng.integers(0, self.num_seeds, count + count // 8 + 16)
        chosen = (
            np.unique(drawn)[:count]
            if self.num_seeds > 8 * count
            else rng.permutation(self.num_seeds)[:count]
        )
        rng.shuffle(chosen)
        return self.store.split(self.split, self.seed_type)[chosen] if self.split else chosen

    def sample(self, number: int) -> Any:
        """The engine's sample of a batch, homogeneous or not."""
        seeds, fanouts = self.seeds(number), list(self.request.fanouts)
        return self.store.sample({self.seed_type: seeds}, fanouts, rng_seed=number)

    def rows(self, sample: Any) -> Iterator[tuple[FeatureStore, Ids]]:
        """Each column with the rows that the batch needs of it."""
        for file, column in self.columns.items():
            t = self._column_types[file]
            yield column, sample.nodes[t] if isinstance(t, str) else sample.edge_rows[t]

    def parts(self, sample: Any) -> list[Part]:
        """Rows by column, and by topology the pages that hold the lists' starts and the picks."""
        found = [Part(self.name_of(column), ids) for column, ids in self.rows(sample)]
        for t, graph in self.graphs.items():
            width = graph.indices.dtype.itemsize
            picked = np.unique(sample.edge_rows[t] * width // _PAGE)
            expanded = sample.nodes[t[2]]
            starts = np.unique(expanded * 8 // _PAGE)
            found.append(Part(self.name_of(graph), np.concatenate([starts, picked + (1 << 40)])))
        return found

    def _seeds_from(self) -> tuple[str, str | None]:
        store, r = self.store, self.request
        if r.node_type is not None and r.node_type not in store.node_types:
            raise ValueError(f"{store.path}: no node type {r.node_type!r}; there are {store.node_types}")
        types = [r.node_type] if r.node_type else store.node_types
        if r.split is not None:
            have = [t for t in types if r.split in store.splits(t)]
            if not have:
                known = sorted({s for t in types for s in store.splits(t)})
                raise ValueError(f"{store.path}: no split {r.split!r}; there are {known or 'none'}")
            return have[0], r.split
        for t in types:
            if "train" in store.splits(t) and len(store.split("train", t)):
                return t, "train"
        targets = [t for t in types if any(e[2] == t for e in store.edge_types) and store.num_nodes(t)]
        if not targets:
            raise ValueError(f"{store.path}: no edge leads to a node of {types}; choose another --node-type")
        return targets[0], None


def num_sampled(sample: Any) -> tuple[int, int]:
    """Nodes and edges of a sample."""
    return sum(map(len, sample.nodes.values())), sum(map(len, sample.src.values()))


def parse_fanouts(text: str) -> tuple[int, ...]:
    """ "15,10,5" """
    parts: Sequence[str] = text.strip("[] ").split(",")
    try:
        fanouts = tuple(int(p) for p in parts)
    except ValueError:
        raise ValueError(f"fanouts are {text!r}; write numbers, as in 15,10,5; -1 takes all") from None
    if not all(k >= -1 for k in fanouts):
        raise ValueError(f"fanouts are {text!r}; -1 takes all neighbours, less than that nothing can be")
    return fanouts
