"""The graph of `gz demo`: communities, hubs, features that a model can learn from; of any size, in chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLASSES = 16
_EDGES = 1 << 21
_ROWS = 1 << 16
_INSIDE = 0.75  # share of the edges that stay in their community
_NOISE = 4.0  # of a feature, around a centroid of deviation 1: a node alone says little, its neighbours more


@dataclass(frozen=True)
class DemoGraph:
    """Node i belongs to community i % CLASSES, which is its label. Members of low rank are sources of far
    more edges than others; ranks are spread over the ids, so that hot rows do not lie side by side."""

    num_nodes: int
    num_edges: int
    num_features: int = 128

    @classmethod
    def of_size(cls, size: int) -> DemoGraph:
        """Whose files take about so many bytes."""
        nodes = max(CLASSES * 8, size // (128 * 4 + 8 + 8 + 6 * 4))
        return cls(nodes // CLASSES * CLASSES, 6 * nodes)

    @property
    def bytes(self) -> int:
        return self.num_nodes * (self.num_features * 4 + 16) + self.num_edges * 4

    def edges(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        members = self.num_nodes // CLASSES
        spread = next(a for a in range(int(members * 0.618), 2 * members + 2) if math.gcd(a, members) == 1)
        for number, begin in enumerate(range(0, self.num_edges, _EDGES)):
            count = min(_EDGES, self.num_edges - begin)
            rng = np.random.default_rng([1, number])
            to = rng.integers(0, self.num_nodes, count)
            home = np.where(rng.random(count) < _INSIDE, to % CLASSES, rng.integers(0, CLASSES, count))
            rank = (rng.random(count) ** 3 * members).astype(np.int64)
            yield rank * spread % members * CLASSES + home, to

    def features(self) -> Iterator[NDArray[np.float32]]:
        centroids = np.random.default_rng(2).standard_normal((CLASSES, self.num_features), np.float32)
        for number, begin in enumerate(range(0, self.num_nodes, _ROWS)):
            ids = np.arange(begin, min(begin + _ROWS, self.num_nodes))
            rng = np.random.Generator(np.random.SFC64([3, number]))
            rows = rng.standard_normal((len(ids), self.num_features), np.float32)
            rows *= np.float32(_NOISE)
            rows += centroids[ids % CLASSES]
            yield rows

    def labels(self) -> Iterator[NDArray[np.int64]]:
        for begin in range(0, self.num_nodes, 1 << 20):
            yield np.arange(begin, min(begin + (1 << 20), self.num_nodes)) % CLASSES

    def splits(self) -> dict[str, NDArray[np.int64]]:
        """Node ids to train on, and others to test on."""
        most = min(200_000, self.num_nodes // 2)
        chosen = np.unique(np.random.default_rng(4).integers(0, self.num_nodes, most + most // 4))
        np.random.default_rng(5).shuffle(chosen)
        cut = len(chosen) * 9 // 10
        return {"train": chosen[:cut], "test": chosen[cut:]}
