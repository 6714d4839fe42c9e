"""Graphs with the skew that is published of real ones: what a sampler reads often, and how much of the graph.

A table of parameters for each profile, and the edges they give, in chunks that are functions of (profile,
scale, seed, chunk number) alone. `_curves.py` measures what comes out; papers100m.py makes stores of it.

How such a graph looks:

  core         a share of the nodes: the communities that have labels. Seeds are drawn from them, and their
               lists lead back into them but for `leak`, so that an epoch sees little else
  hot          inside a community a source is drawn by a power law over places, u^hot: few nodes are sampled
               in nearly every batch, many once in an epoch
  degrees      the other nodes have most of the edges. Their sources come from an order of all nodes by
               u^degree, in which core nodes lie a little further up than others (`tilt`), each at a place
               that has nothing to do with how hot it is: so degree tells some of what is sampled, not most
  symmetric    every edge is stored both ways; then the lists of the other nodes hold only such nodes, and
               `leak` edges are the only way out of the core
  ids          a pseudo-random bijection of all places: nothing is local by accident

What it is calibrated to is in PUBLISHED of _curves.py; tests/benchmarks/test_papers_generator.py holds it to
that, and docs/papers100m.md shows the figures.
What it is not: clustering, diameter, the real graphs' degree distributions, the order of years, features or
labels. Hits of one cache size under other fanouts and batches follow from the structure, not from a fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

EDGE_CHUNK = 1 << 22
_BLOCK = 1 << 15  # edges worked on at once: their arrays stay in the cache
_BINS = 64  # of the order by degree
_EDGES = 20  # which stream of random numbers


@dataclass(frozen=True)
class Profile:
    nodes: int
    edges: int  # as generated: a symmetric graph stores each of them both ways
    splits: dict[str, int]
    core: float  # share of the nodes
    core_edges: float  # share of the edges that end in the core
    hot: float  # exponent of a source's place in its community
    lists: float  # exponent of a destination's place
    leak: float  # share of the core's edges that come from outside of it
    degree: float = 2.0  # exponent of a source's place in the order by degree
    tilt: float = 0.0  # how far up in that order the core lies: density exp(-tilt x place)
    inside: float = 0.7  # share of the core's edges that stay in their community
    symmetric: bool = False


_PAPERS = {"nodes": 111_059_956, "edges": 1_615_685_872}
_PAPERS_SPLITS = {"train": 1_207_179, "valid": 125_265, "test": 214_338}

PROFILES = {
    "papers100m-directed": Profile(
        **_PAPERS, splits=_PAPERS_SPLITS, core=0.048, core_edges=0.03, hot=2.5, lists=2.0, leak=0.009,
        degree=2.0, tilt=2.1,
    ),
    "papers100m-symmetric": Profile(
        **_PAPERS, splits=_PAPERS_SPLITS, core=0.2, core_edges=0.15, hot=3.0, lists=3.0, leak=0.008,
        symmetric=True,
    ),
    "friendster": Profile(
        nodes=65_608_366, edges=1_806_067_135, splits={"train": 656_084, "valid": 65_608, "test": 65_608},
        core=0.4, core_edges=0.8, hot=3.8, lists=3.8, leak=0.004, symmetric=True,
    ),
    "igb": Profile(
        nodes=269_346_174, edges=3_995_777_033,
        splits={"train": 2_693_462, "valid": 269_346, "test": 269_346},
        core=0.33, core_edges=0.6, hot=5.5, lists=4.0, leak=0.001,
    ),
}  # fmt: skip


class Shuffle:
    """A pseudo-random bijection of 0 .. n - 1: multiplied and folded among 2^k, until it is below n."""

    def __init__(self, n: int, seed: int):
        self.n = n
        self._half = max(1, (max(2, n) - 1).bit_length() + 1 >> 1)
        self._bits = max(2, (max(2, n) - 1).bit_length())
        self._mask = np.uint64((1 << self._bits) - 1)
        odd = np.random.Generator(np.random.SFC64([seed, n])).integers(0, 1 << 62, 3)
        self._odd = [np.uint64((int(x) | 1) & int(self._mask)) for x in odd]
        self._back = [np.uint64(pow(int(x), -1, 1 << self._bits)) for x in self._odd]

    def _once(self, x: np.ndarray, steps: list[np.uint64]) -> np.ndarray:
        half = np.uint64(self._half)
        for odd in steps:
            x = (x * odd) & self._mask
            x ^= x >> half
        return x

    def _once_back(self, x: np.ndarray, steps: list[np.uint64]) -> np.ndarray:
        half = np.uint64(self._half)
        for odd in steps:
            x = x ^ (x >> half)  # the half and more: its own inverse
            x = (x * odd) & self._mask
        return x

    def _walk(self, x: np.ndarray, step: Any, steps: list[np.uint64]) -> np.ndarray:
        x = step(np.asarray(x).astype(np.uint64), steps)
        while len(out := np.flatnonzero(x >= np.uint64(self.n))):
            x[out] = step(x[out], steps)
        return x.astype(np.int64)

    def __call__(self, places: np.ndarray) -> np.ndarray:
        return self._walk(places, self._once, self._odd)

    def inverse(self, ids: np.ndarray) -> np.ndarray:
        return self._walk(ids, self._once_back, self._back[::-1])


@dataclass(frozen=True)
class Skewed:
    profile: Profile
    scale: float = 1.0
    num_classes: int = 172
    seed: int = 0

    @property
    def num_nodes(self) -> int:
        return max(2000, round(self.profile.nodes * self.scale))

    @property
    def num_edges(self) -> int:
        return max(20_000, round(self.profile.edges * self.scale))

    @cached_property
    def num_core(self) -> int:
        return max(self.num_classes, round(self.profile.core * self.num_nodes))

    @cached_property
    def ids(self) -> Shuffle:
        """From places (the core first, community by community) to ids."""
        return Shuffle(self.num_nodes, self.seed + 1)

    @cached_property
    def _by_degree(self) -> tuple[Shuffle, np.ndarray, np.ndarray]:
        """The core's order by degree; where the core's and the other nodes' parts of each bin begin."""
        n, c = self.num_nodes, self.num_core
        ends = np.arange(_BINS + 1) * n // _BINS
        if self.profile.tilt:
            ideal = 1 - np.exp(-self.profile.tilt * np.arange(_BINS + 1) / _BINS)
            core = np.round(ideal / ideal[-1] * c).astype(np.int64)
            core = _no_steeper(core, ends)
        else:
            core = np.arange(_BINS + 1) * c // _BINS
        return Shuffle(c, self.seed + 2), core, ends - core

    def rng(self, stream: int, chunk: int = 0) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64([self.seed, stream, chunk]))

    def labels(self, ids: np.ndarray) -> np.ndarray:
        """The community of core nodes; any number for the others, which have no label."""
        place = self.ids.inverse(ids)
        core = ((place + 1) * self.num_classes - 1) // self.num_core
        return np.where(place < self.num_core, core, place % self.num_classes)

    def labelled(self, count: int) -> np.ndarray:
        """Ids of `count` nodes of the core, from all of its communities alike."""
        return self.ids(Shuffle(self.num_core, self.seed + 3)(np.arange(count)))

    @property
    def num_edge_chunks(self) -> int:
        return -(-self.num_edges // EDGE_CHUNK)

    def edge_chunk(self, chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """(src, dst) of EDGE_CHUNK edges, but for the last chunk. Each kind of edge has its part of it."""
        p = self.profile
        count = min(EDGE_CHUNK, self.num_edges - chunk * EDGE_CHUNK)
        core = round(count * p.core_edges)
        leaks = round(core * p.leak)
        bits = self.rng(_EDGES, chunk).bit_generator
        src, dst = np.empty((2, count), np.int64)
        for make, begin, end in (
            (self._core_edges, 0, core - leaks),
            (self._leaks, core - leaks, core),
            (self._other_edges, core, count),
        ):
            for at in range(begin, end, _BLOCK):
                to = min(end, at + _BLOCK)
                places = make(bits.random_raw(3 * (to - at)).reshape(3, -1))
                src[at:to], dst[at:to] = (self.ids(end) for end in places)
        return src, dst

    def _core_edges(self, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        to, away = _below(bits[0], self.num_classes), _below(bits[0] << np.uint64(20), self.num_classes)
        stays = (bits[0] & np.uint64(0xFFFF)) < np.uint64(round(65536 * self.profile.inside))
        of = np.where(stays, to, away)
        dst = self._members(to, _unit(bits[1]) ** self.profile.lists)
        return self._members(of, _unit(bits[2]) ** self.profile.hot), dst

    def _leaks(self, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        to = _below(bits[0], self.num_classes)
        dst = self._members(to, _unit(bits[1]) ** self.profile.lists)
        others = self.num_nodes - self.num_core
        return self.num_core + (_unit(bits[2]) * others).astype(np.int64), dst

    def _other_edges(self, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        others = self.num_nodes - self.num_core
        dst = self.num_core + (_unit(bits[1]) ** 3 * others).astype(np.int64)
        place = _unit(bits[2]) ** self.profile.degree
        if self.profile.symmetric:
            return self.num_core + (place * others).astype(np.int64), dst
        return self._of_degree(place, _unit(bits[0])), dst

    def _of_degree(self, place: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Places of the nodes at relative `place` of the order by degree; u: whether of the core."""
        shuffle, core, other = self._by_degree
        place = place * _BINS
        bin_ = place.astype(np.int64)
        cores, others = np.diff(core)[bin_], np.diff(other)[bin_]
        share = place - bin_
        in_core = np.flatnonzero(u * (cores + others) < cores)
        out = self.num_core + other[bin_] + (share * others).astype(np.int64)
        which = core[bin_[in_core]] + (share[in_core] * cores[in_core]).astype(np.int64)
        out[in_core] = shuffle(which)
        return out

    def _members(self, community: np.ndarray, place: np.ndarray) -> np.ndarray:
        begin = community * self.num_core // self.num_classes
        size = (community + 1) * self.num_core // self.num_classes - begin
        return begin + (place * size).astype(np.int64)


def _unit(bits: np.ndarray) -> np.ndarray:
    """[0, 1): 53 bits of each."""
    return (bits >> np.uint64(11)) * 2.0**-53


def _below(bits: np.ndarray, n: int) -> np.ndarray:
    """The upper 20 bits of each as a number below n."""
    return (((bits >> np.uint64(44)) * np.uint64(n)) >> np.uint64(20)).astype(np.int64)


def _no_steeper(core: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """No more core nodes in a bin than it has nodes; what does not fit goes to the next ones."""
    out = core.copy()
    for i in range(1, len(out)):
        out[i] = min(core[i], out[i - 1] + ends[i] - ends[i - 1])
    assert out[-1] == core[-1], "the core is larger than the order has room for"
    return out
