"""Makes DGL graphs and blocks from arrays, by the calls that dgl.graph and dgl.create_block end in, without
the checks before them that read every id."""

from __future__ import annotations

from typing import Any

import torch

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
    none = torch.zeros(0, dtype=index.tensor_dtype)
    units = [
        heterograph_index.create_unitgraph_from_csr(
            2, num_src[s], num_dst[d], indptr, indices, none, _FORMATS, True
        )
        for (indptr, indices), (s, d) in zip(csc, ends, strict=True)
    ]
    metagraph = graph_index.from_coo(2 * types, [s for s, _ in ends], [d + types for _, d in ends], True)
    counts = utils.toindex([*num_src, *num_dst], "int64")
    built = heterograph_index.create_heterograph_from_relations(metagraph, units, counts)
    return DGLBlock(built, (ntypes, ntypes), etypes)
