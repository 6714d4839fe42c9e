"""python -m gz._measure.child SPEC: sampling, or gathering, by gz alone; a process of `gz bench`."""

from __future__ import annotations

import sys
from typing import Any

from gz._measure.phase import Meter, Spec, workload
from gz._measure.workload import Workload

_AHEAD = 8  # batches whose rows are known before the time runs


def main() -> None:
    spec = Spec.read(sys.argv[1])
    store = spec.open_cold()
    work = workload(spec, store)
    meter = Meter(spec, store, f"gz, {spec.task}")
    step = sampling(work) if spec.task == "sample" else gathering(work)
    spec.finish(**meter.run(step))


def sampling(work: Workload) -> Any:
    return work.sample


def gathering(work: Workload) -> Any:
    """The rows of some batches in turn; sampling them is not a part of it."""
    wanted = [[(column, ids.copy()) for column, ids in work.rows(work.sample(i))] for i in range(_AHEAD)]

    def step(number: int) -> None:
        for column, ids in wanted[number % _AHEAD]:
            column.gather(ids)

    return step


if __name__ == "__main__":
    main()
