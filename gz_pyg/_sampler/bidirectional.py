"""A sample with its edges in both directions, `subgraph_type="bidirectional"`, as PyG defines it."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from gz import adapter

EdgeType = tuple[str, str, str]


def to_bidirectional(out: Any, keep_orig_edges: bool = False) -> Any:
    """``out`` with a reverse of every edge, each once, sorted by column; counts per hop no longer apply.

    Edge ids are kept where there is one edge type: a reverse edge has the id of the edge it reverses. Of
    several types, the reverse of ``(a, r, b)`` is ``(b, rev_r, a)``, or else the one type from b to a.
    """
    out = copy.copy(out)
    if keep_orig_edges:
        out.orig_row, out.orig_col = copy.copy(out.row), copy.copy(out.col)
    else:
        out.num_sampled_nodes = out.num_sampled_edges = None
    return _homogeneous(out) if isinstance(out, SamplerOutput) else _heterogeneous(out)


def _homogeneous(out: SamplerOutput) -> SamplerOutput:
    n = out.node.numel()
    ends = (out.row, out.col)
    out.row, out.col, out.edge = _two_way(ends, ends, n, n, out.edge)
    return out


def _heterogeneous(out: HeteroSamplerOutput) -> HeteroSamplerOutput:
    rows, cols = out.row, out.col
    out.row, out.col, out.edge = dict(rows), dict(cols), dict(out.edge or {})
    for t in rows:
        if t[1].startswith("rev_"):
            continue  # set together with the type it reverses
        back = _reverse(t, list(rows))
        if back is None:
            warnings.warn(
                f"Cannot convert to bidirectional graph since the edge type {t} does not seem to have a "
                f"reverse edge type",
                stacklevel=2,
            )
            continue
        sizes = out.node[t[0]].numel(), out.node[t[2]].numel()
        out.row[t], out.col[t], _ = _two_way((rows[t], cols[t]), (rows[back], cols[back]), *sizes)
        out.edge[t] = None
        if back[1] == f"rev_{t[1]}":
            out.row[back], out.col[back], out.edge[back] = out.col[t], out.row[t], None
    return out


def _reverse(t: EdgeType, known: list[EdgeType]) -> EdgeType | None:
    named = (t[2], f"rev_{t[1]}", t[0])
    if named in known:
        return named
    if t[0] == t[2]:
        return t
    fits = [k for k in known if (k[0], k[2]) == (t[2], t[0])]
    return fits[0] if len(fits) == 1 else None


def _two_way(
    ends: tuple[Tensor, Tensor],
    back: tuple[Tensor, Tensor],
    num_rows: int,
    num_cols: int,
    edge: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    ids = None if edge is None else edge.numpy()
    arrays = (ends[0].numpy(), ends[1].numpy(), ids, back[0].numpy(), back[1].numpy(), ids)
    both = adapter.two_way_edges(*arrays, num_rows, num_cols)
    names = None if both.ids is None else torch.from_numpy(both.ids)
    return torch.from_numpy(both.row), torch.from_numpy(both.col), names
