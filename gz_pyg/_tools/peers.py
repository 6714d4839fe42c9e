"""python -m gz_pyg._tools.peers SPEC: what torch and pyg-lib take for the same; a process of `gz bench`.

Tasks: "gather torch" (rows of np.memmap by torch, as most scripts have it), "sample pyg-lib". The result is
{"skipped": why} where a peer is not installed or the graph, which it needs in memory, would not fit there.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

from gz.adapter import check_fits, phase

_AHEAD = 8


def main() -> None:
    spec = phase.Spec.read(sys.argv[1])
    try:
        step = {"gather torch": _gather_by_torch, "sample pyg-lib": _sample_by_pyg_lib}[spec.task](spec)
    except (ImportError, MemoryError, ValueError) as e:
        spec.finish(skipped=str(e))
        return
    spec.finish(**phase.Meter(spec, None, spec.task).run(step))


def _gather_by_torch(spec: phase.Spec) -> Any:
    work = phase.workload(spec, spec.open_cold())
    sources, wanted = [], []
    for column in work.columns.values():
        dtype = {"bfloat16": "uint16"}.get(column.dtype, column.dtype)
        rows = np.memmap(column.path, dtype, "c", column.offset, column.shape)
        sources.append(torch.from_numpy(rows))
    for i in range(_AHEAD):
        sample = work.sample(i)
        wanted.append([torch.from_numpy(ids.copy()) for _, ids in work.rows(sample)])

    def step(number: int) -> None:
        for rows, ids in zip(sources, wanted[number % _AHEAD], strict=True):
            rows[ids]

    return step


def _sample_by_pyg_lib(spec: phase.Spec) -> Any:
    import pyg_lib

    work = phase.workload(spec, spec.open_cold())
    if len(work.graphs) != 1:
        raise ValueError("the graph has several edge types; only those of one are compared")
    graph = next(iter(work.graphs.values()))
    check_fits(2 * 8 * (graph.num_nodes + graph.num_edges), "the graph for pyg-lib", "it is left out")
    indptr = torch.from_numpy(np.array(graph.indptr, np.int64))
    indices = torch.from_numpy(np.array(graph.indices, np.int64))

    def step(number: int) -> None:
        seeds = torch.from_numpy(work.seeds(number).astype(np.int64))
        pyg_lib.sampler.neighbor_sample(indptr, indices, seeds, list(spec.fanouts), csc=True)

    return step


if __name__ == "__main__":
    main()
