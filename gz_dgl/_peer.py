"""python -m gz_dgl._peer SPEC: DGL's own sampler on the same graph in memory; a process of `gz bench`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

from gz.adapter import check_fits, phase


def main() -> None:
    spec = phase.Spec.read(sys.argv[1])
    try:
        step = _sample(spec)
    except (ImportError, MemoryError, ValueError, OSError) as e:
        spec.finish(skipped=str(e).splitlines()[0])
        return
    spec.finish(**phase.Meter(spec, None, spec.task).run(step))


def _sample(spec: phase.Spec) -> Any:
    import dgl

    work = phase.workload(spec, spec.open_cold())
    if len(work.graphs) != 1:
        raise ValueError("the graph has several edge types; only those of one are compared")
    graph = next(iter(work.graphs.values()))
    check_fits(3 * 8 * (graph.num_nodes + graph.num_edges), "the graph for DGL", "it is left out")
    indptr = torch.from_numpy(np.array(graph.indptr, np.int64))
    indices = torch.from_numpy(np.array(graph.indices, np.int64))
    in_memory = dgl.graph(
        ("csc", (indptr, indices, torch.empty(0, dtype=torch.int64))), num_nodes=len(indptr) - 1
    )
    # DGL lists fanouts from the outermost hop inwards. Its fused sampler returns fewer nodes.
    sampler = dgl.dataloading.NeighborSampler(list(spec.fanouts)[::-1], fused=False)

    def step(number: int) -> None:
        sampler.sample(in_memory, torch.from_numpy(work.seeds(number).astype(np.int64)))

    return step


if __name__ == "__main__":
    main()
