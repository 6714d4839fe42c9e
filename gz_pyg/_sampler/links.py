"""Samples that start from edges: their ends, the negatives beside them, and where each lies in the sample."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling

from gz import adapter
from gz_pyg._random import draw_rng_seed
from gz_pyg._sampler.times import Times


def sample_links(
    inputs: EdgeSamplerInput,
    config: NegativeSampling | None,
    disjoint: bool,
    negatives: Negatives,
    sample: Callable[[Any, Any], Any],
) -> Any:
    """Samples around the ends of ``inputs`` and of its negatives.

    The seeds are the sources, then the destinations, each followed by its negatives; a node is a seed once
    unless ``disjoint``. ``metadata`` of the result is what PyG's link loaders read.
    """
    t = inputs.input_type
    src_type, dst_type = (None, None) if t is None else (t[0], t[-1])
    src, dst, label, time = inputs.row.view(-1), inputs.col.view(-1), inputs.label, inputs.time
    num_pos = src.numel()
    binary = config is None or config.is_binary()
    if config is not None:
        num_neg = math.ceil(num_pos * config.amount)
        if binary:
            src = torch.cat([src, negatives.draw(config, src_type, "src", num_neg, time)])
            label = torch.ones(num_pos) if label is None else label
            label = torch.cat([label, label.new_zeros((num_neg, *label.shape[1:]))])
        dst = torch.cat([dst, negatives.draw(config, dst_type, "dst", num_neg, time)])
    seeds, places = _seeds((src_type, src), (dst_type, dst), disjoint)
    src_time = times = None
    if time is not None:
        src_time, dst_time = _repeated(time, src.numel()), _repeated(time, dst.numel())
        times = {src_type: src_time, dst_type: dst_time}
        if src_type == dst_type:
            times = {src_type: torch.cat([src_time, dst_time])}
    out = sample(*(v if t is not None or v is None else v[None] for v in (seeds, times)))

    if disjoint:  # trees of both ends, and of their negatives, belong to the same edge
        trees = out.batch if t is not None else {None: out.batch}
        of_edge = {
            k: torch.where(b < src.numel(), b, b - src.numel()) % max(1, num_pos) for k, b in trees.items()
        }
        out.batch = of_edge if t is not None else of_edge[None]
    if binary:
        out.metadata = (inputs.input_id, torch.stack(places), label, src_time)
    else:
        # Negative k of edge i is draw k * num_pos + i: the one that was drawn for the edge's time.
        of_src, of_dst = places
        dst_neg = of_dst[num_pos:].view(-1 if num_pos else 1, num_pos).t().contiguous()
        out.metadata = (inputs.input_id, of_src, of_dst[:num_pos], dst_neg.squeeze(-1), src_time)
    return out


def _repeated(time: Tensor, n: int) -> Tensor:
    """The times of the edges, over and over for their negatives."""
    return time.repeat(-(-n // max(1, time.numel())))[:n]


def _seeds(
    src: tuple[Any, Tensor], dst: tuple[Any, Tensor], disjoint: bool
) -> tuple[dict[Any, Tensor], tuple[Tensor, Tensor]]:
    """Seeds by node type, and where in the sample each source and each destination will be."""
    one = src[0] == dst[0]
    lists = {src[0]: torch.cat([src[1], dst[1]])} if one else dict([src, dst])
    where = {}
    for t, nodes in lists.items():
        if disjoint:
            where[t] = torch.arange(nodes.numel())
        else:
            lists[t], where[t] = nodes.unique(return_inverse=True)
    if one:
        return lists, (where[src[0]][: src[1].numel()], where[src[0]][src[1].numel() :])
    return lists, (where[src[0]], where[dst[0]])


class Negatives:
    """Draws negative nodes in the engine; keeps what is worth keeping between batches."""

    def __init__(self, num_nodes: dict[Any, int], times: Times):
        self._num_nodes, self._times = num_nodes, times
        self._tables: dict[str, tuple[Tensor, int, Any]] = {}  # by end: the weights, their version, the table
        self._earliest: dict[Any, int] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Negatives, (self._num_nodes, self._times)

    def draw(self, config: NegativeSampling, t: Any, end: str, count: int, time: Tensor | None) -> Tensor:
        times = self._times.of_nodes(t)
        not_after = None
        if times is not None:
            if time is None:
                raise ValueError("negatives of nodes that have times need the time of each edge")
            not_after = self._times.comparable(time)
        weights = config.src_weight if end == "src" else config.dst_weight
        found = torch.from_numpy(
            adapter.draw_negatives(
                count,
                self._num_nodes[t],
                weights=None if weights is None else self._table(weights, t, end),
                times=times,
                not_after=not_after,
                rng_seed=draw_rng_seed(),
            )
        )
        if times is not None and bool((found < 0).any()):  # nothing that early was met: the earliest must do
            if t not in self._earliest:
                self._earliest[t] = int(times.argmin())
            found[found < 0] = self._earliest[t]
        return found

    def _table(self, weights: Tensor, t: Any, end: str) -> Any:
        if weights.numel() != self._num_nodes[t]:
            raise ValueError(
                f"{end}_weight of the negatives has {weights.numel()} values; there are "
                f"{self._num_nodes[t]} nodes"
            )
        known = self._tables.get(end)
        if known is None or known[0] is not weights or known[1] != weights._version:
            values = weights.detach().cpu().to(torch.float32).contiguous().view(-1).numpy()
            known = self._tables[end] = (weights, weights._version, adapter.NodeWeights(values))
        return known[2]
