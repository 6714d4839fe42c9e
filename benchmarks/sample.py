"""Multi-hop sampling, warm: Graph.sample against DGL's NeighborSampler, GraphZero's fanout and pyg-lib.

Batches of 1024 seeds, fanouts [15, 10, 5], the same lists for everybody. Wanted: 4.5x DGL, 10x GraphZero,
14x pyg-lib, which is measured where it can be imported.

DGL runs as its users run it, NeighborSampler over an in-memory DGLGraph with no workers: fused and not,
with 64-bit ids, its default, and with 32-bit ids (`g.int()`), judged on their own. A DGL sampler that, given
the same seeds twice, ends with fewer nodes than the others is left out, with a note. With 32-bit ids DGL
1.1.3's fused one is: from call to call it keeps a map of the nodes, made of 64-bit places, which its C++ side
fills as 32-bit ones and its Python side clears as 64-bit ones. So the first batch is right; in later ones old
entries pass for nodes already seen, those nodes are missing, and edges have wrong ends. `fused=False`, which
is right, stands for DGL there.
Its lists carry no edge-id table, which spares it reads. GraphZero samples hop by hop, numpy's unique makes
the next frontier; relabelling, which gz and DGL do, is forgiven. It takes 30 times as long, so it does a
quarter of a round's batches, another quarter each round, and is timed as if it had done all.
"""

from __future__ import annotations

import _common

FANOUTS = [15, 10, 5]
BATCH = 1024
TARGET_DGL, TARGET_GRAPHZERO, TARGET_PYG_LIB = 4.5, 10.0, 14.0
GRAPHZERO = "graphzero + numpy unique"


def dgl_contestants(data, batches, threads, report):
    import dgl
    import torch

    torch.set_num_threads(threads)
    dgl.utils.set_num_threads(threads)
    indptr, indices = (torch.from_numpy(a) for a in data.lists())
    wide = dgl.graph(("csc", (indptr, indices, torch.empty(0, dtype=torch.int64))), num_nodes=len(indptr) - 1)
    graphs = {"int64": wide, "int32": wide.int()}
    sampled: dict[str, int] = {}  # nodes of a batch, the second time

    def contestant(name, graph, fused):
        # A sampler for each graph, as scripts have it: it keeps a map of that graph's nodes.
        # DGL lists fanouts from the outermost hop inwards.
        sampler = dgl.dataloading.NeighborSampler(FANOUTS[::-1], fused=fused)
        seeds = [torch.from_numpy(b).to(graph.idtype) for b in batches]
        for _ in range(2):
            sampled[name] = len(sampler.sample(graph, seeds[0])[0])

        def run(turn):
            for s in seeds:
                sampler.sample(graph, s)

        return run

    made = {}
    for width, graph in graphs.items():
        for how, fused in (("fused", True), ("sample_neighbors + to_block", False)):
            name = f"dgl {how}, {width}"
            made[name] = contestant(name, graph, fused)
    largest = max(sampled.values())
    for name, nodes in sampled.items():
        if nodes < 0.9 * largest:
            report.note(f"left out: {name} returns {nodes:,} nodes for a batch, the others up to {largest:,}")
            del made[name]
    return made


def graphzero_contestant(data, batches, parts):
    import graphzero
    import numpy as np

    graph = graphzero.Graph(str(data.graphzero()))

    def run(turn):
        for seeds in batches[turn % parts :: parts]:
            nodes = frontier = seeds
            for fanout in FANOUTS:
                picked = graph.batch_random_fanout(frontier.astype(np.uint64), fanout)
                frontier = np.unique(picked)
                nodes = np.concatenate([nodes, frontier])
            np.unique(nodes)

    return run


def pyg_lib_contestant(data, batches):
    """pyg-lib's sampler as PyG's loader calls it; None where it is not installed."""
    import torch

    try:
        import pyg_lib
    except ImportError:
        return None
    indptr, indices = (torch.from_numpy(a) for a in data.lists())

    def run(turn):
        for seeds in batches:
            pyg_lib.sampler.neighbor_sample(indptr, indices, torch.from_numpy(seeds), FANOUTS, csc=True)

    return run


def gz_contestant(data, batches, threads):
    import gz

    gz.set_num_threads(threads)
    graph = gz.Graph(str(data.gz()))

    def run(turn):
        for i, seeds in enumerate(batches):
            graph.sample(seeds, FANOUTS, rng_seed=turn * len(batches) + i)

    return run


def sizes(data, seeds) -> str:
    """How big one batch is, so that a figure can be compared with another graph's."""
    import dgl
    import torch

    indptr, indices = (torch.from_numpy(a) for a in data.lists())
    graph = dgl.graph(
        ("csc", (indptr, indices, torch.empty(0, dtype=torch.int64))), num_nodes=len(indptr) - 1
    )
    nodes, _, blocks = dgl.dataloading.NeighborSampler(FANOUTS[::-1]).sample(graph, torch.from_numpy(seeds))
    return f"one batch: {len(nodes):,} nodes, {sum(b.num_edges() for b in blocks):,} edges (DGL's blocks)"


def main() -> None:
    args = _common.options(__doc__, batches=(20, "batches in a round"))
    import numpy as np
    from _data import Data

    data = Data(args.data, args.scale)
    report = _common.Report(
        "sample", args, batch=BATCH, fanouts=FANOUTS, data_in="RAM (DGL), page cache (others)"
    )
    rng = np.random.default_rng(1)
    # Below the highest id by a margin: GraphZero ends the process at an id it does not know.
    ids = data.graph.num_nodes - data.graph.num_nodes // 1000
    batches = [rng.choice(ids, BATCH, replace=False) for _ in range(args.batches)]
    report.note(sizes(data, batches[0]))
    contestants = {}
    if not args.peers_only:
        contestants["gz"] = gz_contestant(data, batches, args.threads)
    peers = dgl_contestants(data, batches, args.threads, report)
    parts = 4 if len(batches) % 4 == 0 else 1
    contestants |= peers | {GRAPHZERO: graphzero_contestant(data, batches, parts)}
    if (pyg_lib := pyg_lib_contestant(data, batches)) is not None:
        contestants["pyg-lib"] = pyg_lib
    report.contest(
        "sampling",
        contestants,
        unit="batches/s",
        work=len(batches),
        targets=(
            *(
                _common.Target("gz", tuple(p for p in peers if w in p), TARGET_DGL, scale=1)
                for w in ("int64", "int32")
            ),
            _common.Target("gz", (GRAPHZERO,), TARGET_GRAPHZERO, scale=1),
            _common.Target("gz", ("pyg-lib",), TARGET_PYG_LIB, scale=1),
        ),
        parts={GRAPHZERO: parts},
    )
    report.finish()


if __name__ == "__main__":
    main()
