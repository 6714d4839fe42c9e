"""The graph of the benchmarks: heavy-tailed, with communities, of any size, made in small chunks.

Scale 1 is a tenth of ogbn-papers100M: 11,106,000 nodes, 155 M edges, 128 float32 features.
`PAPERS100M` is all of it.
Everything is a function of (graph, chunk number), so chunks can be made again, skipped, or made in parallel.

How it looks:
  ids          node i of rank order has the id (a * i + b) mod n: hubs and communities lie scattered
  communities  equal blocks of the rank order; the label of a node is its community
  edges        src -> dst. dst takes place u^3 of its community (in-degree falls as rank^-2/3: a power law
               with exponent 2.5), src place u^1.5 (out-degrees have a lighter tail, as citations do);
               70 % of the edges stay inside a community
  features     the community's centroid + noise: learnable, and better with the neighbours' help

    python benchmarks/generate.py --scale 0.1 --csv edges.csv --features x.npy --labels y.npy
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

EDGE_CHUNK = 1 << 22
ROW_CHUNK = 1 << 16
_EDGES, _FEATURES, _CENTROIDS = range(3)  # which stream of random numbers


@dataclass(frozen=True)
class Graph:
    num_nodes: int
    num_edges: int
    num_features: int = 128
    num_classes: int = 172
    inside: float = 0.7  # share of the edges that stay in their community
    noise: float = 2.0  # standard deviation of a feature around its centroid, whose own is 1
    seed: int = 0

    @classmethod
    def scaled(cls, scale: float, **changes) -> Graph:
        nodes = max(1000, round(11_106_000 * scale))
        edges = max(10_000, round(155_000_000 * scale))
        return cls(nodes, edges, num_classes=min(172, max(4, nodes // 500)), **changes)

    @cached_property
    def _multiplier(self) -> int:
        """Coprime to n and near n / golden ratio, which spreads neighbouring ranks evenly over the ids."""
        a = max(1, int(self.num_nodes * 0.6180339887))
        while math.gcd(a, self.num_nodes) != 1:
            a += 1
        return a

    def ids_of_ranks(self, ranks: np.ndarray) -> np.ndarray:
        return (ranks * self._multiplier + self.num_nodes // 3) % self.num_nodes

    def ranks_of_ids(self, ids: np.ndarray) -> np.ndarray:
        inverse = pow(self._multiplier, -1, self.num_nodes)
        return ((ids - self.num_nodes // 3) % self.num_nodes) * inverse % self.num_nodes

    def rng(self, stream: int, chunk: int = 0) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64([self.seed, stream, chunk]))


PAPERS100M = Graph(111_059_956, 1_615_685_872)


def _members(graph: Graph, community: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Ids of the nodes at relative `place` (0 = the greatest hub, 1 = the end) of each community."""
    n, k = graph.num_nodes, graph.num_classes
    begin = community * n // k
    size = (community + 1) * n // k - begin
    return graph.ids_of_ranks(begin + (place * size).astype(np.int64))


def edge_chunk(graph: Graph, chunk: int) -> tuple[np.ndarray, np.ndarray]:
    """Chunk number `chunk` of the edge list: (src, dst), int64, EDGE_CHUNK edges but for the last."""
    count = min(EDGE_CHUNK, graph.num_edges - chunk * EDGE_CHUNK)
    rng = graph.rng(_EDGES, chunk)
    to = rng.integers(0, graph.num_classes, count)
    away = rng.integers(0, graph.num_classes, count)
    of = np.where(rng.random(count, np.float32) < graph.inside, to, away)
    u = rng.random(count)
    dst = _members(graph, to, u * u * u)
    u = rng.random(count)
    src = _members(graph, of, u * np.sqrt(u))
    return src, dst


def edge_chunks(graph: Graph) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The edge list as (src, dst) chunks: what gz.ingest takes as `edges`."""
    return (edge_chunk(graph, i) for i in range(-(-graph.num_edges // EDGE_CHUNK)))


def labels(graph: Graph, ids: np.ndarray | None = None) -> np.ndarray:
    """Labels of the given nodes, or of all of them; int64."""
    ids = np.arange(graph.num_nodes) if ids is None else np.asarray(ids, np.int64)
    # The inverse of begin = c * n // k above: the last community that begins at or before this rank.
    return ((graph.ranks_of_ids(ids) + 1) * graph.num_classes - 1) // graph.num_nodes


def label_chunks(graph: Graph) -> Iterator[np.ndarray]:
    for begin in range(0, graph.num_nodes, ROW_CHUNK):
        yield labels(graph, np.arange(begin, min(begin + ROW_CHUNK, graph.num_nodes)))


def feature_chunk(graph: Graph, chunk: int) -> np.ndarray:
    """float32 [ROW_CHUNK or fewer, num_features]: the features of the nodes from chunk * ROW_CHUNK on."""
    ids = np.arange(chunk * ROW_CHUNK, min((chunk + 1) * ROW_CHUNK, graph.num_nodes))
    shape = (graph.num_classes, graph.num_features)
    centroids = graph.rng(_CENTROIDS).standard_normal(shape, np.float32)
    x = graph.rng(_FEATURES, chunk).standard_normal((len(ids), graph.num_features), np.float32)
    x *= np.float32(graph.noise)
    x += centroids[labels(graph, ids)]
    return x


def feature_chunks(graph: Graph) -> Iterator[np.ndarray]:
    """The feature matrix as chunks of rows: what gz.ingest takes as a feature."""
    return (feature_chunk(graph, i) for i in range(-(-graph.num_nodes // ROW_CHUNK)))


def write_csv(chunks: Iterable[tuple[np.ndarray, np.ndarray]], path: str | Path) -> None:
    """One "dst,src" line an edge, no header.

    The grouped end comes first: converters group by the first column, so this gives every contestant the
    lists that message passing samples from, with the heavy tail in the lists' lengths.
    """
    import pyarrow as pa
    import pyarrow.csv

    options = pa.csv.WriteOptions(include_header=False, quoting_style="none", batch_size=1 << 16)
    schema = pa.schema([("dst", pa.int64()), ("src", pa.int64())])
    with pa.csv.CSVWriter(path, schema, write_options=options) as out:
        for src, dst in chunks:
            out.write_table(pa.table([dst, src], schema=schema))


def write_npy(path: str | Path, chunks: Iterator[np.ndarray], shape: tuple[int, ...], dtype) -> None:
    """An .npy written chunk by chunk: plain writes, so that memory use stays at one chunk."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    with open(path, "wb") as out:
        np.lib.format.write_array_header_2_0(out, header)
        for chunk in chunks:
            out.write(np.ascontiguousarray(chunk, dtype).data)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=0.1, help="1 = 11.1 M nodes, 155 M edges")
    parser.add_argument("--papers100m", action="store_true", help="the size of ogbn-papers100M instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--features", type=Path, help="an .npy, float32 [num_nodes, 128]")
    parser.add_argument("--labels", type=Path, help="an .npy, int64 [num_nodes]")
    args = parser.parse_args()
    graph = PAPERS100M if args.papers100m else Graph.scaled(args.scale, seed=args.seed)
    print(f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges")
    if args.csv:
        write_csv(edge_chunks(graph), args.csv)
    if args.features:
        shape = (graph.num_nodes, graph.num_features)
        write_npy(args.features, feature_chunks(graph), shape, np.float32)
    if args.labels:
        write_npy(args.labels, label_chunks(graph), (graph.num_nodes,), np.int64)


if __name__ == "__main__":
    main()
