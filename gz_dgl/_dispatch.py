"""DGL's functions called with a StoreGraph: dgl.sampling.sample_neighbors(g, ...) as well as
g.sample_neighbors(...).

DGL has both forms, and its own code calls them. Sampling goes to gz's engine; what needs the whole graph gets
it in memory (gz_dgl/_functions/whole.py). Any other graph goes where it always went.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gz_dgl._dgl import DGLGraph, dgl
from gz_dgl._functions import sampling, subgraphs, walks, whole
from gz_dgl._redirect import Function, redirect
from gz_dgl.graph import StoreGraph

_OURS = {
    sampling: (
        "sample_neighbors",
        "sample_neighbors_fused",
        "sample_labors",
        "global_uniform_negative_sampling",
    ),
    walks: ("random_walk", "node2vec_random_walk"),
    subgraphs: ("in_subgraph", "out_subgraph", "node_type_subgraph", "edge_type_subgraph"),
}
# Of dgl.transforms, what makes graphs from points, or changes columns alone: those stay as they are.
NOT_WHOLE = {
    "functional": {
        "knn_graph",
        "segmented_knn_graph",
        "radius_graph",
        "to_bfloat16",
        "to_double",
        "to_float",
        "to_half",
    },
    "module": {
        "BaseTransform",
        "Compose",
        "FeatMask",
        "GCNNorm",
        "LaplacianPE",
        "LapPE",
        "NodeShuffle",
        "RandomWalkPE",
        "RowFeatNormalizer",
        "SIGNDiffusion",
        "SVDPE",
    },
}


def _either(ours: Function) -> Callable[[Function], Function]:
    def make(original: Function) -> Function:
        def function(g: Any, *args: Any, **kwargs: Any) -> Any:
            return (ours if isinstance(g, StoreGraph) else original)(g, *args, **kwargs)

        return function

    return make


def _whole_graph(name: str) -> Callable[[Function], Function]:
    """A function that is given, for every StoreGraph among its arguments, the same graph in memory."""

    def lowered(value: Any) -> Any:
        if isinstance(value, StoreGraph):
            return whole.in_memory(value, name)
        if isinstance(value, (list, tuple)) and any(isinstance(v, StoreGraph) for v in value):
            return [lowered(v) for v in value]
        return value

    def make(original: Function) -> Function:
        def function(*args: Any, **kwargs: Any) -> Any:
            given = [lowered(a) for a in args], {k: lowered(v) for k, v in kwargs.items()}
            out = original(*given[0], **given[1])
            ours = any(a is not b for a, b in zip(args, given[0], strict=True)) or any(
                v is not given[1][k] for k, v in kwargs.items()
            )
            outs = out if isinstance(out, (list, tuple)) else [out]
            if ours and any(isinstance(o, DGLGraph) for o in outs):
                whole.say_so(name, "gives a graph in memory; the store stays as it is")
            return out

        return function

    return make


def install() -> None:
    for ours, names in _OURS.items():
        for name in names:
            _point("" if ours is subgraphs else "sampling", name, _either(getattr(ours, name)))
    for name in set(_find("transforms.functional.__all__") or ()) - NOT_WHOLE["functional"]:
        _point("transforms.functional", name, _whole_graph(name))
    for name in set(_find("transforms.module.__all__") or ()) - NOT_WHOLE["module"]:
        _point(f"transforms.module.{name}", "__call__", _whole_graph(name))
    for name in ("to_homogeneous", "batch", "merge", "save_graphs"):
        _point("", name, _whole_graph(name))
    _point("distributed", "partition_graph", _whole_graph("partition_graph"))


def _point(home: str, name: str, make: Callable[[Function], Function]) -> None:
    """Redirects a function of DGL's, if this DGL has it."""
    function = _find(f"{home}.{name}")
    if function is not None:
        redirect(function, make)


def _find(path: str) -> Any:
    """`dgl.<path>`, or None."""
    found: Any = dgl
    for name in filter(None, path.split(".")):
        found = getattr(found, name, None)
    return found
