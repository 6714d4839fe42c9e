"""Dependent sampling by LABOR: the nodes of a batch share one random number per neighbour.

"Layer-Neighbor Sampling", Balin and Catalyurek, NeurIPS 2023 (arXiv:2210.13339): a node with k of its d
neighbours to draw takes those whose number is at most k / d. Each is taken as likely as in a uniform sample,
k of them on average, but nodes with common neighbours take the same ones.
"""

from __future__ import annotations

from typing import Any

import torch

from gz.adapter import MASK, fold
from gz_pyg._random import batch_name, draw_rng_seed


def checked_labor(
    labor: bool | None, layer_dependency: bool, batch_dependency: int, **excluded: bool
) -> Labor | None:
    """What the arguments of a sampler ask for; None: no LABOR. ``excluded``: options that it cannot serve."""
    if not isinstance(batch_dependency, int) or isinstance(batch_dependency, bool) or batch_dependency < 1:
        raise ValueError(f"batch_dependency is {batch_dependency!r}; give a number of batches, 1 for none")
    asked = bool(layer_dependency) or batch_dependency > 1
    if labor is None:
        labor = asked
    elif asked and not labor:
        raise ValueError("layer_dependency and batch_dependency are options of LABOR; leave labor=False out")
    if not labor:
        return None
    for option, given in excluded.items():
        if given:
            raise ValueError(
                f"{option} and LABOR (labor, layer_dependency, batch_dependency) cannot be had together: "
                "LABOR draws a neighbour once, and for all seeds at the same time; leave one of them out"
            )
    return Labor(bool(layer_dependency), batch_dependency)


class Labor:
    """Which random numbers a sampler's batches share.

    Args:
        layer_dependency: whether a neighbour has the same number in every hop.
        batch_dependency: batches over which the numbers change from one set to the next, little by little;
            with 1 every batch has its own.
    """

    def __init__(self, layer_dependency: bool, batch_dependency: int):
        self.layer_dependency, self.batch_dependency = layer_dependency, batch_dependency
        # Of batches that no loader names: whose they are, and how many there were.
        self._owner: Any = None
        self._key = self._count = 0

    def draw(self) -> dict[str, Any]:
        """Of the next batch, what the engine wants to know."""
        if self.batch_dependency == 1:
            return {"layer_dependency": self.layer_dependency, "random_seed": draw_rng_seed()}
        key, number = batch_name() or self._next_unnamed()
        group, step = divmod(number - 1, self.batch_dependency)
        return {
            "layer_dependency": self.layer_dependency,
            "random_seed": fold(key, group),
            "second_seed": fold(key, group + 1),
            "second_share": step / self.batch_dependency,
        }

    def _next_unnamed(self) -> tuple[int, int]:
        """(key, number from 1 on): a sequence for each epoch of a worker, else for the sampler."""
        worker = torch.utils.data.get_worker_info()
        owner = None if worker is None else worker.seed
        if self._count == 0 or owner != self._owner:
            self._owner, self._count = owner, 0
            self._key = draw_rng_seed() if owner is None else owner & MASK
        self._count += 1
        return self._key, self._count
