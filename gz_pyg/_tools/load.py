"""python -m gz_pyg._tools.load SPEC: mini-batches by gz_pyg.NeighborLoader, no model; of `gz bench`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch

from gz.adapter import phase
from gz_pyg.loader import NeighborLoader


def main() -> None:
    spec = phase.Spec.read(sys.argv[1])
    store = spec.open_cold()
    work = phase.workload(spec, store)
    seeds = torch.from_numpy(store.split(work.split, work.seed_type).copy()) if work.split else None
    loader = NeighborLoader(
        store,
        num_neighbors=list(spec.fanouts),
        input_nodes=seeds if store.is_homogeneous else (work.seed_type, seeds),
        batch_size=spec.batch_size,
        shuffle=True,
    )
    batches = endless(loader)
    meter = phase.Meter(spec, store, "gz_pyg.NeighborLoader")
    spec.finish(**meter.run(lambda _: next(batches)))


def endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


if __name__ == "__main__":
    main()
