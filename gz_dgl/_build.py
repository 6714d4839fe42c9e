"""Makes DGL graphs and blocks from arrays, by the calls that dgl.graph and dgl.create_block end in, without
the checks before them that read every id."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gz.adapter import empty, in_worker
from gz_dgl._dgl import DGLBlock, graph_index, heterograph_index, utils

_FORMATS = ["coo", "csr", "csc"]


def empty_index(index: Any) -> Any:
    """The types and nodes of a StoreIndex, without edges."""
    none = torch.zeros(0, dtype=index.tensor_dtype)
    return coo_index(index, [(none, none)] * len(index.etypes), index.counts)


def coo_index(index: Any, pairs: Any, counts: list[int]) -> Any:
    """A graph with the types of `index`, these (source, destination) tensors and numbers of nodes."""
    units = [
        heterograph_index.create_unitgraph_from_coo(1 if s == d else 2, counts[s], counts[d], u, v, _FORMATS)
        for (u, v), (s, d) in zip(pairs, index.ends, strict=True)
    ]
    if len(index.ntypes) == 1 and len(units) == 1:
        return units[0]
    sources, destinations = [s for s, _ in index.ends], [d for _, d in index.ends]
    metagraph = graph_index.from_coo(len(counts), sources, destinations, True)
    return heterograph_index.create_heterograph_from_relations(
        metagraph, units, utils.toindex(counts, "int64")
    )


_numbers: dict[str, NDArray[Any]] = {}


def edge_numbers(count: int, dtype: str) -> torch.Tensor:
    """0, 1, 2, ...: the ids of edges that lie in the order of their ids.

    DGL takes an empty array to mean the same, but its CPU kernels with edge values (attention, copy_e) refuse
    one. Every block has a copy, as DGL may sort it in place with the neighbours; copied by numpy into memory
    that is used again: torch would start threads for it, and fresh pages cost twice the copy.
    """
    numbers = _numbers.get(dtype)
    if numbers is None or len(numbers) < count:
        numbers = _numbers[dtype] = np.arange(max(2 * count, 1024), dtype=dtype)
    if in_worker():
        return torch.from_numpy(numbers[:count].copy())
    out = empty((count,), getattr(torch, dtype))
    np.copyto(out.numpy(), numbers[:count])
    return out


def block(
    index: Any,
    ntypes: list[str],
    etypes: list[str],
    csc: Any,
    num_src: list[int],
    num_dst: list[int],
    out: bool,
) -> Any:
    """A block from (indptr, indices) of each edge type, grouped by seed.

    Seeds are the destinations. With `out` the sampled edges run the other way, from seed to neighbour; a
    block sends messages from neighbours to seeds all the same, so that relation is turned round.
    """
    types = len(ntypes)
    ends = [(d, s) if out else (s, d) for s, d in index.ends]
    units = [
        heterograph_index.create_unitgraph_from_csr(
            2,
            num_src[s],
            num_dst[d],
            indptr,
            indices,
            edge_numbers(len(indices), index.dtype),
            _FORMATS,
            True,
        )
        for (indptr, indices), (s, d) in zip(csc, ends, strict=True)
    ]
    metagraph = graph_index.from_coo(2 * types, [s for s, _ in ends], [d + types for _, d in ends], True)
    counts = utils.toindex([*num_src, *num_dst], "int64")
    built = heterograph_index.create_heterograph_from_relations(metagraph, units, counts)
    return DGLBlock(built, (ntypes, ntypes), etypes)
