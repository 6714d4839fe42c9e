"""Random walks, warm: 100,000 starts, 20 steps, uniform and node2vec (p = 1, q = 0.5), against GraphZero.

Wanted: 12x and 20x. The starts are nodes that have neighbours, and the same for both.
"""

from __future__ import annotations

import _common

LENGTH = 20
P, Q = 1.0, 0.5
TARGETS = {"uniform": 12.0, "node2vec": 20.0}


def graphzero_contestants(data, starts):
    import graphzero
    import numpy as np

    graph = graphzero.Graph(str(data.graphzero()))
    ids = starts.astype(np.uint64)
    return {
        "uniform": lambda turn: graph.batch_random_walk_uniform(ids, LENGTH),
        "node2vec": lambda turn: graph.batch_random_walk(ids, LENGTH, P, Q),
    }


def gz_contestants(data, starts, threads):
    import gz

    gz.set_num_threads(threads)
    graph = gz.Graph(str(data.gz()))
    return {
        "uniform": lambda turn: graph.batch_random_walk(starts, LENGTH),
        "node2vec": lambda turn: graph.batch_random_walk(starts, LENGTH, p=P, q=Q),
    }


def main() -> None:
    args = _common.options(__doc__, starts=(100_000, "walks in a round"))
    import generate
    import numpy as np
    from _data import Data

    data = Data(args.data, args.scale)
    report = _common.Report("walk", args, starts=args.starts, length=LENGTH, data_in="page cache")
    # Ends of edges taken at random have a list each; hubs come up more often, as they do in a walk.
    dst = generate.edge_chunk(data.graph, 0)[1]
    starts = np.random.default_rng(1).choice(dst, args.starts)
    peer = graphzero_contestants(data, starts)
    ours = {} if args.peers_only else gz_contestants(data, starts, args.threads)
    for kind in ("uniform", "node2vec"):
        contestants = {"graphzero": peer[kind]} | ({"gz": ours[kind]} if ours else {})
        report.contest(
            f"{kind} walk",
            contestants,
            unit="M steps/s",
            work=args.starts * LENGTH / 1e6,
            targets=(_common.Target("gz", ("graphzero",), TARGETS[kind], scale=1),),
        )
    report.finish()


if __name__ == "__main__":
    main()
