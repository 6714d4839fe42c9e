"""DGL's functions called with a StoreGraph: dgl.sampling.sample_neighbors(g, ...) as well as
g.sample_neighbors(...).

DGL has both forms, and its SAINT sampler calls dgl.sampling.random_walk. Each public function is replaced,
wherever DGL holds it, by one that looks at its first argument; any other graph goes to DGL's own.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from gz_dgl import _sampling
from gz_dgl._dgl import dgl
from gz_dgl.graph import StoreGraph


def _either(ours: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(g: Any, *args: Any, **kwargs: Any) -> Any:
        return (ours if isinstance(g, StoreGraph) else original)(g, *args, **kwargs)

    function._gz_dispatches = True  # type: ignore[attr-defined]
    return function


def _replace(original: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    for name, module in list(sys.modules.items()):
        if name != "dgl" and not name.startswith("dgl."):
            continue
        for key, value in list(vars(module).items()):
            if value is original:
                setattr(module, key, replacement)


def install() -> None:
    homes = {
        dgl.sampling: (
            "sample_neighbors",
            "sample_neighbors_fused",
            "sample_labors",
            "global_uniform_negative_sampling",
            "random_walk",
            "node2vec_random_walk",
        ),
        dgl: ("in_subgraph", "out_subgraph"),
    }
    for module, names in homes.items():
        for name in names:
            original = getattr(module, name, None)
            if original is not None and not getattr(original, "_gz_dispatches", False):
                _replace(original, _either(getattr(_sampling, name), original))
