"""GraphStore: a store's topologies behind PyG's interface."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import EdgeAttr
from torch_geometric.data import GraphStore as PyGGraphStore
from torch_geometric.data.graph_store import EdgeLayout

import gz
from gz.manifest import EdgeType


class GraphStore(PyGGraphStore):
    """The edge types of a store, as CSC and, where the store holds both directions, as CSR. Pickles by path.

    PyG's own sampler wants int64 throughout: where a store keeps 32-bit ids, handing out ``row`` copies it
    (8 bytes an edge). gz_pyg's loaders sample the files themselves and never ask for it.

    Args:
        store: a ``gz.Store``, or the path of one.
    """

    def __init__(self, store: gz.Store | str | os.PathLike[str]):
        super().__init__()
        self._store = store if isinstance(store, gz.Store) else gz.open(store)

    @property
    def store(self) -> gz.Store:
        return self._store

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._store.path!r})"

    def _type(self, edge_type: Any) -> EdgeType:
        if edge_type is None:
            if not self._store.is_homogeneous:
                raise KeyError(f"name an edge type; the store has {self._store.edge_types}")
            return self._store.edge_types[0]
        found = [t for t in self._store.edge_types if t == tuple(edge_type)]
        if not found:
            raise KeyError(f"no edge type {edge_type!r}; the store has {self._store.edge_types}")
        return found[0]

    def _key(self, t: EdgeType) -> EdgeType | None:
        return None if self._store.is_homogeneous else t

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        out = []
        for entry in self._store.manifest.edges:
            size = (self._store.num_nodes(entry.type[0]), self._store.num_nodes(entry.type[2]))
            if entry.in_file is not None:
                out.append(EdgeAttr(self._key(entry.type), "csc", size=size))
            if entry.out_file is not None:
                out.append(EdgeAttr(self._key(entry.type), "csr", size=size))
        return out

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        """``(row, colptr)``, ``(rowptr, col)``, or ``(row, col)`` by edge id; None if not stored."""
        try:
            t = self._type(edge_attr.edge_type)
        except KeyError:
            return None
        entry = self._store.manifest.edge(t)
        if edge_attr.layout == EdgeLayout.COO:
            return self.edge_index(t) if entry.in_file is not None else None
        file = entry.in_file if edge_attr.layout == EdgeLayout.CSC else entry.out_file
        if file is None:
            return None
        graph = self._store.graph(t, "in" if edge_attr.layout == EdgeLayout.CSC else "out")
        pointer, ids = torch.from_numpy(graph.indptr), _int64(graph.indices)
        return (ids, pointer) if edge_attr.layout == EdgeLayout.CSC else (pointer, ids)

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise NotImplementedError(
            f"the edges of {self._store.path} are never changed; write a new store with gz.ingest"
        )

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise NotImplementedError(
            f"the edges of {self._store.path} are never changed; write a new store instead"
        )

    # ---- conversions: with the permutation that makes e_id the original edge id ----

    def csc(self, edge_types: list[Any] | None = None, store: bool = False) -> Any:
        return self._compressed("csc", "in", edge_types)

    def csr(self, edge_types: list[Any] | None = None, store: bool = False) -> Any:
        return self._compressed("csr", "out", edge_types)

    def coo(self, edge_types: list[Any] | None = None, store: bool = False) -> Any:
        """Every edge, in the order of the edge ids: 16 bytes an edge, in memory."""
        types = self._asked(edge_types)
        pairs = {self._key(t): self.edge_index(t) for t in types}
        row, col = ({t: p[i] for t, p in pairs.items()} for i in (0, 1))
        return self._result(row, col, dict.fromkeys(pairs))

    def edge_index(self, t: EdgeType) -> tuple[Tensor, Tensor]:
        """Sources and destinations of all edges of a type, in the order of the edge ids."""
        return self.edge_ends(t, torch.arange(self.num_edges(t)))

    def num_edges(self, t: EdgeType) -> int:
        return self._store.num_edges(t)

    def edge_ends(self, t: EdgeType, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Sources and destinations of some edges, reading only those.

        ``edges`` are original ids where every stored edge has one of its own, else positions in the topology.
        """
        graph = self._store.graph(t)
        positions = edges.to(torch.int64).view(-1).numpy()
        if len(positions) and not 0 <= positions.min() <= positions.max() < graph.num_edges:
            bad = next(int(p) for p in positions if not 0 <= p < graph.num_edges)
            raise IndexError(f"edge {bad} is out of range: edge type {t} has {graph.num_edges} edges")
        if graph.edge_positions is not None and len(graph.edge_positions) == graph.num_edges:
            positions = graph.edge_positions[positions].astype(np.int64)
        src = graph.indices[positions].astype(np.int64)
        if len(positions) * 8 > graph.num_nodes:  # most of them: walking all lists is cheaper than searching
            owners = np.repeat(np.arange(graph.num_nodes, dtype=np.int64), np.diff(graph.indptr))
            dst = owners[positions]
        else:
            dst = np.searchsorted(graph.indptr, positions, side="right") - 1
        return torch.from_numpy(src), torch.from_numpy(dst.astype(np.int64, copy=False))

    def _asked(self, edge_types: list[Any] | None) -> list[EdgeType]:
        return self._store.edge_types if edge_types is None else [self._type(t) for t in edge_types]

    def _compressed(self, layout: str, direction: str, edge_types: list[Any] | None) -> Any:
        first: dict[Any, Any] = {}
        second: dict[Any, Any] = {}
        permutations: dict[Any, Any] = {}
        for t in self._asked(edge_types):
            key = self._key(t)
            pair = self._get_edge_index(EdgeAttr(key, layout))
            if pair is None and layout == "csr":  # only `in` is stored: group by source here
                row, col = self.edge_index(t)
                order = torch.argsort(row, stable=True)
                pointer = torch.zeros(self._store.num_nodes(t[0]) + 1, dtype=torch.int64)
                torch.cumsum(torch.bincount(row, minlength=len(pointer) - 1), 0, out=pointer[1:])
                first[key], second[key], permutations[key] = pointer, col[order], order
                continue
            if pair is None:
                self._store.graph(t, direction)  # raises, saying how to ingest it
                raise KeyError(t)
            first[key], second[key] = pair
            permutations[key] = self._permutation(t, direction)
        return self._result(first, second, permutations)

    def _permutation(self, t: EdgeType, direction: str) -> Tensor | None:
        graph = self._store.graph(t, direction)
        if graph._topology.ids_are_in_rows:
            rows = graph.edge_ids
            ids = self._store.graph(t).edge_ids if self._store.manifest.edge(t).in_file else None
            return None if rows is None else _int64(rows if ids is None else ids[rows])
        return None if graph.edge_ids is None else _int64(graph.edge_ids)

    def _result(self, first: dict[Any, Any], second: dict[Any, Any], permutations: dict[Any, Any]) -> Any:
        if self._store.is_homogeneous:
            return first[None], second[None], permutations[None]
        return first, second, permutations


def _int64(ids: Any) -> Tensor:
    return torch.from_numpy(ids if ids.dtype == np.int64 else ids.astype(np.int64))
