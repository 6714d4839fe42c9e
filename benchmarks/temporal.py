"""Sampling by time over lists with hubs, warm: gz_pyg's sampler against pyg-lib's on the same sorted lists.

Lists of up to 100,000 edges, in the order of time; 4096 seeds, each with a time, fanouts [10, 5], disjoint.
Without pyg-lib, which searches sorted lists too, gz is timed alone.
"""

from __future__ import annotations

import _common

FANOUTS, SEEDS = [10, 5], 4096
TARGET, TIMES = 5.0, 1_000_000


def lists(scale: float, hub: int):
    """indptr, indices and times: degrees fall off as 1 / rank, neighbours prefer hubs, times ascend."""
    import numpy as np

    rng = np.random.default_rng(0)
    nodes = max(20_000, int(2_000_000 * scale))
    degree = np.maximum(2, hub / np.arange(1, nodes + 1) ** 0.6).astype(np.int64)
    degree = rng.permutation(np.minimum(degree, nodes // 2))
    indptr = np.concatenate([[0], np.cumsum(degree)])
    owner = np.repeat(np.arange(nodes), degree)
    ends = owner[rng.integers(0, len(owner), len(owner))]
    # The owner above, the time below: one sort. Ends are drawn by themselves and need not move along.
    time = np.sort(owner * TIMES + rng.integers(0, TIMES, len(owner))) % TIMES
    return indptr, ends, time


def main() -> None:
    longest = (100_000, "edges of the longest list, as far as half of the nodes go")
    args = _common.options(__doc__, batches=(4, "batches in a round"), hub=longest)
    import numpy as np
    import torch
    from torch_geometric.data import Data
    from torch_geometric.sampler import NodeSamplerInput

    import gz
    import gz_pyg

    torch.set_num_threads(args.threads)
    gz.set_num_threads(args.threads)
    indptr, indices, time = (torch.from_numpy(a) for a in lists(args.scale, args.hub))
    nodes, most = len(indptr) - 1, int(indptr.diff().max())
    report = _common.Report("temporal", args, nodes=nodes, edges=len(indices), longest_list=most)
    rng = np.random.default_rng(1)
    batches = [
        (torch.from_numpy(rng.integers(0, nodes, SEEDS)), torch.from_numpy(rng.integers(0, TIMES, SEEDS)))
        for _ in range(args.batches)
    ]
    contestants = {}
    if not args.peers_only:
        col = torch.repeat_interleave(torch.arange(nodes), indptr.diff())
        data = Data(edge_index=torch.stack([indices, col]), time=time, num_nodes=nodes)
        sampler = gz_pyg.NeighborSampler(data, FANOUTS, time_attr="time", disjoint=True, is_sorted=True)

        def ours(turn):
            for seeds, seed_time in batches:
                sampler.sample_from_nodes(NodeSamplerInput(None, seeds, seed_time))

        contestants["gz_pyg"] = ours
    try:
        import pyg_lib
    except ImportError:
        report.note("pyg-lib is not installed here, and nobody else samples by time: gz alone")
    else:

        def peer(turn):
            for seeds, seed_time in batches:
                pyg_lib.sampler.neighbor_sample(
                    indptr,
                    indices,
                    seeds,
                    FANOUTS,
                    edge_time=time,
                    seed_time=seed_time,
                    csc=True,
                    disjoint=True,
                )

        contestants["pyg-lib"] = peer
    report.contest(
        "by time",
        contestants,
        unit="batches/s",
        work=len(batches),
        targets=(_common.Target("gz_pyg", ("pyg-lib",), TARGET, scale=1),),
    )
    report.finish()


if __name__ == "__main__":
    main()
