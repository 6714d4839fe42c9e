"""A graph of the shape of ogbn-papers100M, at any scale, streamed into a store; never held in memory.

    python benchmarks/papers100m.py generate --scale 1 --out /data/papers --profile papers100m-directed
    python benchmarks/papers100m.py features --out /data/papers --dtype int8
    python benchmarks/papers100m.py curves --scale 0.01 --profile friendster

`--profile` says what a sampler meets: `even` (below) spreads neighbours over the whole graph, so that a
cache finds little; the others (skew.py) have the skew that is published of real graphs. `curves` measures it.

`even`, scale 1: 111,059,956 nodes, 1,615,685,872 edges, 128 features, 172 classes, 1,546,782 labelled nodes
(1.4 %), split into train, valid and test as the original's are. Smaller scales have proportionally fewer.

Every chunk is a function of (scale, seed, chunk number) alone, so chunks are made in parallel and the graph
is the same every time. As in generate.py, whose ids, communities and tails these are:

  ids          hubs and communities lie scattered over the ids
  in-degrees   a power law with exponent 2.5; the greatest hub has about 110,000 in-edges at scale 1
  label        the node's community, of 172; -1 in `y` where a node is not labelled
  edges        70 % stay inside a community
  features     the community's centroid in noise so strong that the nearest centroid is right for 22 % of the
               nodes, and for 81 % where a node's features are averaged with those of 20 neighbours; a
               two-layer GraphSAGE reaches 79 % after 96 batches (scale 0.02)

Features and splits of the other profiles are made in the same way; their labels are the communities of the
core.

Memory: what gz.ingest is given (--memory), the labelled ids (12 MB at scale 1), and a few chunks of 64 MB.
Nothing else grows with the graph.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import _curves
import generate
import numpy as np
import skew

NODES, EDGES = 111_059_956, 1_615_685_872
SPLITS = {"train": 1_207_179, "valid": 125_265, "test": 214_338}
EDGE_CHUNK, ROW_CHUNK = 1 << 22, 1 << 16
_BLOCK = 1 << 15  # edges worked on at once: their arrays stay in the cache
_ROWS = 1 << 11  # rows worked on at once
_EDGES, _FEATURES, _CENTROIDS, _SPLITS = range(10, 14)  # which stream of random numbers


@dataclass(frozen=True)
class Papers:
    scale: float = 1.0
    seed: int = 0
    num_features: int = 128
    noise: float = 6.0  # standard deviation of a feature around its centroid, whose own is 1
    profile: str = "even"  # or one of skew.PROFILES
    classes: int = 0  # communities; 0: 172, fewer in a small graph

    @cached_property
    def _full(self) -> tuple[int, int, dict[str, int]]:
        """Nodes, edges and splits at scale 1."""
        if self.profile == "even":
            return NODES, EDGES, SPLITS
        p = skew.PROFILES[self.profile]
        return p.nodes, p.edges, p.splits

    @cached_property
    def graph(self) -> generate.Graph:
        nodes = max(2000, round(self._full[0] * self.scale))
        classes = self.classes or min(172, max(4, nodes // 500))
        return generate.Graph(
            nodes, max(20_000, round(self._full[1] * self.scale)), self.num_features, classes, seed=self.seed
        )

    @cached_property
    def skewed(self) -> skew.Skewed | None:
        """None: this is `even`."""
        if self.profile == "even":
            return None
        return skew.Skewed(skew.PROFILES[self.profile], self.scale, self.graph.num_classes, self.seed)

    @property
    def symmetric(self) -> bool:
        return self.skewed is not None and self.skewed.profile.symmetric

    def labels(self, ids: np.ndarray) -> np.ndarray:
        """The communities of nodes."""
        return generate.labels(self.graph, ids) if self.skewed is None else self.skewed.labels(ids)

    @cached_property
    def splits(self) -> dict[str, np.ndarray]:
        """Ids of the labelled nodes, sorted in each split. Only as many numbers as there are of them."""
        n = self.graph.num_nodes
        full, _, splits = self._full
        sizes = {name: max(20, round(size * n / full)) for name, size in splits.items()}
        count = sum(sizes.values())
        if self.skewed is None:
            drawn = self.graph.rng(_SPLITS).choice(n, count, replace=False)
        else:
            drawn = self.skewed.labelled(count)
        parts = np.split(drawn, np.cumsum(list(sizes.values()))[:-1])
        return {name: np.sort(ids) for name, ids in zip(sizes, parts, strict=True)}

    @cached_property
    def labelled(self) -> np.ndarray:
        return np.sort(np.concatenate(list(self.splits.values())))

    @cached_property
    def _centroids(self) -> np.ndarray:
        shape = (self.graph.num_classes, self.num_features)
        return self.graph.rng(_CENTROIDS).standard_normal(shape, np.float32)

    # ---- edges ----

    @property
    def num_edge_chunks(self) -> int:
        return -(-self.graph.num_edges // EDGE_CHUNK)

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """First rank and size of each community."""
        n, k = self.graph.num_nodes, self.graph.num_classes
        begin = np.arange(k + 1, dtype=np.int64) * n // k
        return begin[:-1].astype(np.uint64), np.diff(begin).astype(np.float64)

    def edge_chunk(self, chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """(src, dst) of EDGE_CHUNK edges, but for the last chunk."""
        if self.skewed is not None:
            return self.skewed.edge_chunk(chunk)
        count = min(EDGE_CHUNK, self.graph.num_edges - chunk * EDGE_CHUNK)
        bits = self.graph.rng(_EDGES, chunk).bit_generator
        src, dst = np.empty((2, count), np.int64)
        for at in range(0, count, _BLOCK):
            end = min(count, at + _BLOCK)
            self._edges(bits.random_raw(2 * (end - at)), src[at:end], dst[at:end])
        return src, dst

    def _edges(self, bits: np.ndarray, src: np.ndarray, dst: np.ndarray) -> None:
        """128 random bits an edge: 16 + 16 for communities, 8 for whether they differ, 32 + 32 for places."""
        a, b = bits[: len(src)], bits[len(src) :]
        k = np.uint64(self.graph.num_classes)
        sixteen, mask = np.uint64(16), np.uint64(0xFFFF)
        to = ((a & mask) * k) >> sixteen
        away = (((a >> sixteen) & mask) * k) >> sixteen
        stays = ((a >> np.uint64(32)) & np.uint64(0xFF)) < np.uint64(round(256 * self.graph.inside))
        of = np.where(stays, to, away)
        u = (b & np.uint64(0xFFFFFFFF)).astype(np.float64)
        u *= 2.0**-32
        self._members(to, u * u * u, dst)
        u = (b >> np.uint64(32)).astype(np.float64)
        u *= 2.0**-32
        self._members(of, u * np.sqrt(u), src)

    def _members(self, community: np.ndarray, place: np.ndarray, out: np.ndarray) -> None:
        """Ids of the nodes at relative `place` of each community: generate.Graph.ids_of_ranks, unsigned."""
        begin, size = self._tables
        community = community.view(np.int64)
        place *= size[community]
        rank = place.astype(np.uint64)
        rank += begin[community]
        n = np.uint64(self.graph.num_nodes)
        rank *= np.uint64(self.graph._multiplier)
        rank += n // np.uint64(3)
        rank -= rank // n * n  # numpy divides by a scalar fast; its % does not
        out[:] = rank.view(np.int64)

    # ---- nodes ----

    @property
    def num_row_chunks(self) -> int:
        return -(-self.graph.num_nodes // ROW_CHUNK)

    def _ids(self, chunk: int) -> np.ndarray:
        return np.arange(chunk * ROW_CHUNK, min((chunk + 1) * ROW_CHUNK, self.graph.num_nodes))

    def feature_chunk(self, chunk: int, dtype: str) -> np.ndarray:
        ids = self._ids(chunk)
        communities = self.labels(ids)
        rng = self.graph.rng(_FEATURES, chunk)
        out = np.empty((len(ids), self.num_features), dtype)
        for at in range(0, len(ids), _ROWS):
            x = rng.standard_normal((min(_ROWS, len(ids) - at), self.num_features), np.float32)
            x *= np.float32(self.noise)
            x += self._centroids[communities[at : at + _ROWS]]
            out[at : at + _ROWS] = x
        return out

    def label_chunk(self, chunk: int) -> np.ndarray:
        """int64: the label, or -1 where the node has none."""
        ids = self._ids(chunk)
        first, last = np.searchsorted(self.labelled, (ids[0], ids[-1] + 1))
        here = self.labelled[first:last]
        out = np.full(len(ids), -1, np.int64)
        out[here - ids[0]] = self.labels(here)
        return out


VALUE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}


def ahead(make: Callable[[int], Any], count: int, threads: int) -> Iterator[Any]:
    """make(0), make(1), ... in order, the next ones made in threads; at most threads + 1 of them exist."""
    waiting: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for number in range(count):
                waiting.append(pool.submit(make, number))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class Phases:
    """Passes chunks on and notes how long each phase took, made and stored."""

    def __init__(self, quiet: bool):
        self.seconds: dict[str, float] = {}
        self._quiet = quiet

    def __call__(self, name: str, chunks: Iterator[Any], count: int) -> Iterator[Any]:
        start = shown = time.monotonic()
        for done, chunk in enumerate(chunks):
            yield chunk
            now = time.monotonic()
            if now - shown > 10 and not self._quiet:
                shown = now
                left = (now - start) / (done + 1) * (count - done - 1)
                print(f"   {name}: {done + 1:,} of {count:,} chunks, {left:,.0f} s left", file=sys.stderr)
        self.seconds[name] = time.monotonic() - start


def generate_store(
    out: Path, papers: Papers, dtype: str, memory: str, threads: int, quiet: bool = False, **options: Any
) -> dict[str, Any]:
    """Writes the store and says what it took. `dtype`: what the features are stored as; they are read as
    float32. They come last: while edges are sorted the disk holds them twice."""
    import gz

    g = papers.graph
    phases = Phases(quiet)
    rows, edges = papers.num_row_chunks, papers.num_edge_chunks
    y = (papers.label_chunk(i) for i in range(rows))
    start = time.monotonic()
    gz.ingest(
        out,
        edges=phases("edges", ahead(papers.edge_chunk, edges, threads), edges),
        features={"y": phases("y", y, rows)},
        splits=papers.splits,
        num_nodes=g.num_nodes,
        undirected=papers.symmetric,
        memory=memory,
        dtype={"y": "int16:int64"},
        meta={
            "generator": "papers100m.py",
            "profile": papers.profile,
            "scale": papers.scale,
            "seed": papers.seed,
            "noise": papers.noise,
        },
        **options,
    )
    write_features(out, papers, dtype, memory, threads, phases)
    seconds = time.monotonic() - start
    with open("/proc/self/status") as f:
        peak = next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))
    return {
        "profile": papers.profile,
        "nodes": g.num_nodes,
        "edges": g.num_edges,
        "features": papers.num_features,
        "classes": g.num_classes,
        "splits": {name: len(ids) for name, ids in papers.splits.items()},
        "dtype": dtype,
        "memory": memory,
        "threads": threads,
        "seconds": round(seconds, 1),
        "seconds_of": {name: round(s, 1) for name, s in phases.seconds.items()},
        "million_edges_per_s": round(g.num_edges / 1e6 / phases.seconds["edges"], 1),
        "bytes": sum(p.stat().st_size for p in Path(out).rglob("*") if p.is_file()),
        "peak_rss_bytes": peak,
    }


def write_features(
    store: Path, papers: Papers, dtype: str, memory: str, threads: int, phases: Phases
) -> None:
    """Writes the features into the store, in the place of those that may be there."""
    import gz

    rows, opened = papers.num_row_chunks, gz.open(store)
    if "x" in opened.node_columns():
        opened.remove_feature("x")  # first: the disk may not have room for both
    x = ahead(lambda i: papers.feature_chunk(i, "float32"), rows, threads)
    opened.add_feature("x", phases("x", x, rows), dtype=dtype, memory=memory)


def size_on_disk(papers: Papers, dtype: str) -> tuple[int, int]:
    """(bytes of the store, bytes needed while it is made: edges are spilled before they are sorted)."""
    g = papers.graph
    edges = g.num_edges * (2 if papers.symmetric else 1)
    lists = g.num_nodes * (8 + 8) + 4 * edges
    store = g.num_nodes * papers.num_features * VALUE_BYTES[dtype] + lists
    return store, max(store, lists + 8 * edges)


def of_store(store: Path) -> Papers:
    """What a store was made from."""
    meta = json.loads((store / "store.json").read_text())["meta"]
    return Papers(meta["scale"], meta["seed"], noise=meta["noise"], profile=meta["profile"])


def curves(papers: Papers, store: Path) -> tuple[dict[str, Any], _curves.Published]:
    """What a sampler reads of the graph, whose topology goes to `store`, and what is published of it."""
    import gz

    g = papers.graph
    degree = np.zeros(g.num_nodes, np.int64)

    def counted() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for chunk in range(papers.num_edge_chunks):
            src, dst = papers.edge_chunk(chunk)
            for ends in (src, dst) if papers.symmetric else (src,):
                degree[:] += np.bincount(ends, minlength=g.num_nodes)
            yield src, dst

    gz.ingest(store, edges=counted(), num_nodes=g.num_nodes, undirected=papers.symmetric)
    like, seeds = _curves.PUBLISHED[papers.profile], papers.splits["train"]
    return _curves.measure(gz.open(store).graph(), degree, seeds, papers.scale, like), like


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    profiles = ("even", *skew.PROFILES)
    command = commands.add_parser("generate", help="write the store")
    again = commands.add_parser("features", help="write the features of a store anew, as another dtype")
    for each, place in ((command, "the store to write; must not exist"), (again, "the store")):
        each.add_argument("--out", type=Path, required=True, help=place)
        each.add_argument(
            "--dtype", choices=[*VALUE_BYTES], default="float32", help="what the features are stored as"
        )
        each.add_argument("--memory", default="2GB", help="what the ingest may take")
        each.add_argument(
            "--threads", type=int, default=len(os.sched_getaffinity(0)), help="that make chunks"
        )
    command.add_argument("--directions", choices=("in", "both"), default="in")
    command.add_argument("--overwrite", action="store_true")
    measured = commands.add_parser("curves", help="print touched nodes and hits beside the published ones")
    for each, some in ((command, profiles), (measured, profiles[1:])):
        each.add_argument("--scale", type=float, default=0.01, help="1 = all of the graph")
        each.add_argument("--profile", choices=some, default=some[0], help="what a sampler meets")
        each.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    if args.command == "features":
        phases = Phases(quiet=False)
        write_features(args.out, of_store(args.out), args.dtype, args.memory, args.threads, phases)
        print(json.dumps({"dtype": args.dtype, "seconds": round(phases.seconds["x"], 1)}))
        return
    papers = Papers(args.scale, args.seed, profile=args.profile)
    if args.command == "curves":
        with tempfile.TemporaryDirectory() as folder:
            found, like = curves(papers, Path(folder) / "store")
        print(json.dumps(vars(args) | found | {"published": asdict(like)}, indent=1))
        return
    _, needed = size_on_disk(papers, args.dtype)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(args.out.parent).free
    if free < needed + (1 << 30):
        raise SystemExit(
            f"{args.out.parent} has {free / 1e9:.1f} GB free and {needed / 1e9:.1f} GB (and some) are "
            "needed: give another --out, a smaller --scale, or --dtype float16"
        )
    done = generate_store(
        args.out,
        papers,
        args.dtype,
        args.memory,
        args.threads,
        directions=args.directions,
        overwrite=args.overwrite,
    )
    print(json.dumps(done, indent=1))


if __name__ == "__main__":
    main()
