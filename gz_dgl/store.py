"""load and save: between a store and DGL."""

from __future__ import annotations

import os
from typing import Any

import torch

import gz
from gz.adapter import parse_memory
from gz_dgl._dgl import Column
from gz_dgl._frames import frames_of
from gz_dgl._index import StoreIndex
from gz_dgl.graph import StoreGraph

_NTYPE, _ETYPE = "_N", "_E"  # what DGL calls the one type of a homogeneous graph
_META = "dgl"  # store.json's meta entry with what only DGL asks for: the order of types, the idtype


def load(
    path: str | os.PathLike[str] | gz.Store,
    *,
    memory: str | int = "2GB",
    idtype: torch.dtype | None = None,
    cache: str | int = "auto",
) -> StoreGraph:
    """Opens a store as a DGLGraph, at any size, at once.

    Args:
        path: the directory that ``gz.ingest`` or ``gz_dgl.save`` wrote, or a store opened already.
        memory: what a single operation may build in memory where DGL works on whole arrays (``g.edges()``,
            degrees of all nodes, message passing on the full graph). What would take more is refused, with
            the alternative named.
        idtype: ``torch.int64`` or ``torch.int32``; by default that of the graph that was saved, or int64.
        cache: as in ``gz.open``: memory for rows of columns that do not fit into it.

    Returns:
        A graph for ``dgl.dataloading.DataLoader`` with DGL's own samplers. Node types and relations are in
        DGL's order (sorted by name); the types of a homogeneous store are DGL's ``_N`` and ``_E``.

    Raises:
        ValueError: the store has no edges, or holds them grouped by source alone (``directions="out"``).
    """
    if idtype not in (None, torch.int32, torch.int64):
        raise ValueError(f"idtype is {idtype}; DGL knows torch.int32 and torch.int64")
    store = path if isinstance(path, gz.Store) else gz.open(path, cache)
    entry = store.manifest
    saved = entry.meta.get(_META, {})
    stored_n = _ordered(list(entry.nodes), saved.get("ntypes"))
    stored_e = [tuple(t) for t in _ordered([e.type for e in entry.edges], saved.get("etypes"))]
    for t in stored_e:
        if entry.edge(t).in_file is None:
            raise ValueError(
                f"{store.path}: edge type {t} is not stored in direction 'in', by which DGL's samplers find "
                f"edges and gz_dgl numbers them; save it with directions='in' or 'both' (gz_dgl.save's "
                f"default; gz ingest ... --directions both)"
            )
    name = saved.get("idtype", "int64") if idtype is None else str(idtype).removeprefix("torch.")
    index = StoreIndex(
        store, stored_n, stored_e, 32 if name == "int32" else 64, parse_memory(memory, least=0)
    )
    if store.is_homogeneous:
        ntypes, etypes = [_NTYPE], [_ETYPE]
        if not stored_e:
            raise ValueError(f"{store.path}: holds no edges; DGL needs an edge type")
    else:
        ntypes, etypes = stored_n, [t[1] for t in stored_e]
    return StoreGraph(index, ntypes, etypes, *frames_of(index))


def _ordered(types: list[Any], saved: list[Any] | None) -> list[Any]:
    """DGL sorts types by name; a graph saved from another order keeps it."""
    wanted = [tuple(t) if isinstance(t, list) else t for t in saved or []]
    return wanted if wanted and sorted(wanted) == sorted(types) else sorted(types)


def save(
    g: Any,
    path: str | os.PathLike[str],
    *,
    directions: str = "both",
    overwrite: bool = False,
    memory: str | int = "2GB",
) -> str:
    """Writes a DGLGraph with its node and edge features to a store.

    Edge ids and their idtype and the order of neighbours are kept, so that ``load`` gives an equal graph.

    Args:
        g: a graph in memory, homogeneous or heterogeneous, not a block.
        path: the directory to make.
        directions: ``"in"``, edges grouped by destination, as samplers with ``edge_dir="in"`` (DGL's default)
            find them; ``"both"``, by source as well, for ``edge_dir="out"``, ``out_edges``, ``successors``,
            ``out_subgraph``, random walks and ``SAINTSampler("walk")``, which else group them in memory,
            within ``load``'s ``memory``; ``"out"``, by source alone, for gz's own walks and samples and PyG's
            ``sample_direction="backward"``: ``load`` refuses such a store.
        overwrite: replace it if it is there.
        memory: what writing may take.

    Returns:
        The path, for ``load``.
    """
    if g.is_block:
        raise ValueError("a block is one layer of a batch; save the graph it was sampled from")
    options: dict[str, Any] = {
        "keep_edge_ids": True,
        "directions": directions,
        "neighbor_order": "input",
        "overwrite": overwrite,
        "memory": memory,
        "progress": False,
    }
    meta = {"idtype": str(g.idtype).removeprefix("torch.")}
    if g.ntypes == [_NTYPE] and g.canonical_etypes == [(_NTYPE, _ETYPE, _NTYPE)]:
        gz.ingest(
            path,
            edges=_edges(g, g.canonical_etypes[0]),
            num_nodes=g.num_nodes(),
            features=_columns(g._node_frames[0]),
            edge_features=_columns(g._edge_frames[0]),
            meta={_META: meta},
            **options,
        )
        return os.fspath(path)
    spec = {
        "nodes": {
            t: {"num_nodes": g.num_nodes(t), "features": _columns(f)}
            for t, f in zip(g.ntypes, g._node_frames, strict=True)
        },
        "edges": [
            {"type": list(t), "edges": _edges(g, t), "features": _columns(f)}
            for t, f in zip(g.canonical_etypes, g._edge_frames, strict=True)
        ],
        "meta": {_META: {**meta, "ntypes": g.ntypes, "etypes": [list(t) for t in g.canonical_etypes]}},
    }
    gz.ingest(path, spec=spec, **options)
    return os.fspath(path)


def _edges(g: Any, etype: Any) -> tuple[Any, Any]:
    src, dst = g.edges(order="eid", etype=etype)
    return src.cpu().numpy(), dst.cpu().numpy()  # in DGL's own memory where it is a COO; 32-bit ids stay so


def _columns(frame: Any) -> dict[str, Any]:
    """The frame's columns as arrays; dgl.NID and dgl.EID too: a subgraph knows where it came from."""
    out = {}
    for name, column in frame._columns.items():
        if not isinstance(column, Column):
            raise ValueError(f"column {name!r} is a LazyFeature: it has no values to save")
        tensor = column.data.detach().cpu().contiguous()
        out[name] = tensor if tensor.dtype == torch.bfloat16 else tensor.numpy()
    return out
