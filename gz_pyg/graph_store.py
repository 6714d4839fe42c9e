"""GraphStore: the edges of a loaded store behind PyG's interface for remote backends."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, EdgeAttr, HeteroData
from torch_geometric.data import GraphStore as PyGGraphStore
from torch_geometric.data.graph_store import EdgeLayout

import gz
from gz_pyg._edges import ArrayEdges, by_id
from gz_pyg._store.open import graph_of, open_store, store_of
from gz_pyg._store.overlay import raw
from gz_pyg._store.stored import StoredEdgeIndex


class GraphStore(PyGGraphStore):
    """The edge types of a store, as CSC, as CSR or as both: whatever the store holds. Pickles by path.

    PyG's own sampler wants int64 throughout: where a store keeps 32-bit ids, handing out ``row`` copies it
    (8 bytes an edge). gz_pyg's loaders sample the files themselves and never ask for it.

    Args:
        store: what ``gz_pyg.load`` returns, which then shares what is written to either; or the path of a
            store, or a ``gz.Store``.
    """

    def __init__(self, store: Data | HeteroData | gz.Store | str | os.PathLike[str]):
        super().__init__()
        self._graph = store if isinstance(store, (Data, HeteroData)) else graph_of(open_store(store))

    @property
    def graph(self) -> Data | HeteroData:
        """The PyG graph whose edges these are."""
        return self._graph

    @property
    def store(self) -> gz.Store:
        """The open ``gz.Store``."""
        return store_of(self._graph)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.store.path!r})"

    def _parts(self) -> dict[Any, Any]:
        """Storages by edge type; None for that of a homogeneous graph."""
        return {None: self._graph._store} if isinstance(self._graph, Data) else dict(self._graph.edge_items())

    def _part(self, edge_type: Any) -> tuple[Any, Any]:
        parts = self._parts()
        key = None if edge_type is None else tuple(edge_type)
        if key not in parts:
            what = "name an edge type" if key is None else f"no edge type {edge_type!r}"
            raise KeyError(f"{what}; there are {[*parts]}")
        return key, parts[key]

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """As PyG's: the edge types and the layouts in which they lie in files."""
        out = []
        for key, storage in self._parts().items():
            edges = raw(storage, "edge_index")
            layouts = []
            if isinstance(edges, StoredEdgeIndex) and not edges.version:
                entry = edges.store.manifest.edge(edges.type)
                layouts = [
                    n for n, file in (("csc", entry.in_file), ("csr", entry.out_file)) if file is not None
                ]
            elif edges is not None:
                layouts = ["coo"]
            out += [EdgeAttr(key, layout, size=storage.size()) for layout in layouts]
        return out

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        """``(row, colptr)``, ``(rowptr, col)``, or ``(row, col)`` by edge; None if it is not kept so."""
        try:
            _, storage = self._part(edge_attr.edge_type)
        except KeyError:
            return None
        edges = raw(storage, "edge_index")
        if edges is None:
            return None
        if edge_attr.layout == EdgeLayout.COO:
            row, col = storage.edge_index
            return row, col
        if not isinstance(edges, StoredEdgeIndex) or edges.version:
            return None
        entry = edges.store.manifest.edge(edges.type)
        file = entry.in_file if edge_attr.layout == EdgeLayout.CSC else entry.out_file
        if file is None:
            return None
        graph = edges.store.graph(edges.type, "in" if edge_attr.layout == EdgeLayout.CSC else "out")
        pointer, ids = torch.from_numpy(graph.indptr), _int64(graph.indices)
        return (ids, pointer) if edge_attr.layout == EdgeLayout.CSC else (pointer, ids)

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        """Kept over the store, in memory: from now on the edges of the type are these."""
        first, second = (torch.as_tensor(part) for part in edge_index)
        if edge_attr.layout == EdgeLayout.CSC:
            second = torch.repeat_interleave(torch.arange(second.numel() - 1), second.diff())
        elif edge_attr.layout == EdgeLayout.CSR:
            first = torch.repeat_interleave(torch.arange(first.numel() - 1), first.diff())
        graph: Any = self._graph
        storage = graph._store if isinstance(graph, Data) else graph[tuple(edge_attr.edge_type)]
        storage.edge_index = torch.stack([first, second])
        return True

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        _, storage = self._part(edge_attr.edge_type)
        if "edge_index" not in storage:
            return False
        del storage["edge_index"]
        return True

    # ---- conversions: with the permutation that makes e_id the number of the edge in edge_index ----

    def csc(self, edge_types: list[Any] | None = None, store: bool = False) -> Any:
        """As PyG's: ``(row, colptr, permutation)``, by edge type where there are several."""
        return self._compressed(EdgeLayout.CSC, edge_types)

    def csr(self, edge_types: list[Any] | None = None, store: bool = False) -> Any:
        """As PyG's: ``(rowptr, col, permutation)``, by edge type where there are several."""
        return self._compressed(EdgeLayout.CSR, edge_types)

    def coo(self, edge_types: list[Any] | None = None, store: bool = False) -> Any:
        """As PyG's: every edge, in the order of ``edge_index``: 16 bytes an edge, in memory."""
        parts = self._asked(edge_types)
        pairs = {key: tuple(storage.edge_index) for key, storage in parts.items()}
        row, col = ({t: p[i] for t, p in pairs.items()} for i in (0, 1))
        return self._result(row, col, dict.fromkeys(pairs))

    def _asked(self, edge_types: list[Any] | None) -> dict[Any, Any]:
        if edge_types is None:
            return {t: s for t, s in self._parts().items() if "edge_index" in s}
        return dict(self._part(t) for t in edge_types)

    def _compressed(self, layout: EdgeLayout, edge_types: list[Any] | None) -> Any:
        first: dict[Any, Any] = {}
        second: dict[Any, Any] = {}
        permutations: dict[Any, Any] = {}
        for key, storage in self._asked(edge_types).items():
            pair = self._get_edge_index(EdgeAttr(key, layout))
            if pair is not None:
                first[key], second[key] = pair
                permutations[key] = _permutation(raw(storage, "edge_index"), layout)
                continue
            out = layout == EdgeLayout.CSR  # not kept so: grouped here
            edges = ArrayEdges.from_edge_index(storage.edge_index, storage.size(), out, False, str(key))
            ids = edges.neighbours.to(torch.int64)
            first[key], second[key] = (edges.pointer, ids) if out else (ids, edges.pointer)
            permutations[key] = edges.permutation
        return self._result(first, second, permutations)

    def _result(self, first: dict[Any, Any], second: dict[Any, Any], permutations: dict[Any, Any]) -> Any:
        if isinstance(self._graph, Data):
            return first[None], second[None], permutations[None]
        return first, second, permutations


def _permutation(edges: StoredEdgeIndex, layout: EdgeLayout) -> Tensor | None:
    """Number of the edge at each position of a stored topology."""
    ids = _int64(edges.graph.edge_ids) if by_id(edges.graph) else None
    if layout == (EdgeLayout.CSR if edges.graph.direction == "out" else EdgeLayout.CSC):
        return ids
    rows = edges.store.graph(edges.type, "out").edge_ids  # positions in `in`
    assert rows is not None
    return _int64(rows) if ids is None else ids[_int64(rows)]


def _int64(ids: Any) -> Tensor:
    return torch.from_numpy(ids if ids.dtype == np.int64 else ids.astype(np.int64))
