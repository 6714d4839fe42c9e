"""StoreGraph: a DGLGraph whose structure and features stay in the files of a store."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import gz
from gz.adapter import check_fits
from gz_dgl import _memory, _random
from gz_dgl._build import coo_index
from gz_dgl._columns import EagerStorage, MappedColumn, loaded
from gz_dgl._dgl import ALL, DGLError, DGLGraph, is_all
from gz_dgl._functions import whole
from gz_dgl._index import StoreIndex


class StoreGraph(DGLGraph):
    """A graph over a store, for ``dgl.dataloading.DataLoader`` and DGL's own samplers.

    Made by ``gz_dgl.load``. Reads like any DGLGraph: ``ndata``, ``edata``, ``num_nodes``,
    ``in_degrees(ids)``, ``find_edges``, ``subgraph``, ``int()``, ... Columns of the store are mapped tensors;
    new ones may be assigned and live in memory. Pickles by path. What DGL can only do with the whole graph in
    memory it does where that fits the memory limit given to ``load``, and refuses otherwise.
    """

    _graph: StoreIndex

    def __init__(
        self, gidx: StoreIndex, ntypes: Any, etypes: Any, node_frames: Any = None, edge_frames: Any = None
    ):
        self._rows: dict[Any, Any] = {}  # edge values put in the order of the topology, for weighted sampling
        self._init(gidx, ntypes, etypes, node_frames, edge_frames)

    # ---- the store ----

    @property
    def store(self) -> gz.Store:
        """The open store."""
        return self._graph.store

    def split(self, name: str, ntype: str | None = None) -> torch.Tensor:
        """The node ids of a split of the store ("train", ...), of type ``ntype``, in the graph's idtype."""
        t = self._graph.ntypes[self.get_ntype_id(ntype)]
        return self._graph.tensor(np.array(self.store.split(name, t)))

    def to_dgl(self) -> Any:
        """All of it in memory, as an ordinary DGLGraph that can be changed and moved.

        Raises:
            MemoryError: it would not fit into the memory that is free.
        """
        index = self._graph
        edges = [index.num_edges(e) for e in range(len(index.etypes))]
        columns = [c for f in (*self._node_frames, *self._edge_frames) for c in f._columns.values()]
        check_fits(
            sum(len(c) * _row_bytes(c) for c in columns)
            + sum(edges) * index.bits // 4
            + 5 * 8 * max(edges, default=0),  # while the edges of a type are put in order
            f"{self.store.path}: the whole graph",
            "use it where it lies: sample from it, or take a subgraph (g.subgraph(ids))",
        )
        pairs = [index._list_edges(e, "eid")[:2] for e in range(len(edges))]
        g = DGLGraph(coo_index(index, pairs, index.counts), self.ntypes, self.etypes)
        frames = zip(
            (*g._node_frames, *g._edge_frames), (*self._node_frames, *self._edge_frames), strict=True
        )
        for frame, stored in frames:
            for name, column in stored._columns.items():
                frame[name] = loaded(column)
        return g

    def __reduce__(self) -> tuple[Any, ...]:
        extra = {
            k: v
            for k, v in self.__dict__.items()
            if k not in ("_graph", "_node_frames", "_edge_frames", "_rows", "_ntypes", "_etypes")
        }
        frames = self._node_frames, self._edge_frames
        return _unpickle, (self._graph, self._ntypes, self._etypes, frames, extra, _random.child_state())

    # ---- sampling ----

    def get_node_storage(self, key: str, ntype: str | None = None) -> Any:
        """As DGL's: access to a column of nodes, for fetches."""
        return self._storage(super().get_node_storage(key, ntype), "node", key, ntype)

    def get_edge_storage(self, key: str, etype: Any = None) -> Any:
        """As DGL's: access to a column of edges, for fetches."""
        return self._storage(super().get_edge_storage(key, etype), "edge", key, etype)

    def _storage(self, column: Any, kind: str, key: str, type_: Any) -> Any:
        cached = (key, type_) in getattr(self, "_gpu_caches", {}).get(kind, {})
        return EagerStorage(column) if cached and isinstance(column, MappedColumn) else column

    def _by_row(
        self, etype: int, by_id: torch.Tensor | None, by_row: torch.Tensor | None, name: str = "prob"
    ) -> NDArray[Any]:
        """Edge values in the order of the topology, in a dtype the engine takes."""
        values = by_row if by_row is not None else by_id
        assert values is not None
        if values.shape != (self._graph.num_edges(etype),):
            raise DGLError(
                f"{name!r} must hold one number for each of the {self._graph.num_edges(etype)} edges of "
                f"{self.canonical_etypes[etype]}, not {tuple(values.shape)}"
            )
        names = self._graph.ids_topology(etype) if by_row is None else None
        if (
            names is None
            and values.dtype in (torch.float32, torch.float64, torch.bool)
            and values.is_contiguous()
        ):
            array = values.detach().numpy()
            return array.view(np.uint8) if array.dtype == np.bool_ else array
        kept = self._rows.get((etype, name))
        if kept is None or kept[0] is not values or kept[1] != values._version:
            kept = values, values._version, self._reorder(etype, values, names is not None, name)
            self._rows[etype, name] = kept
        return kept[2]

    def _reorder(self, etype: int, values: torch.Tensor, permute: bool, name: str) -> NDArray[Any]:
        index = self._graph
        edges = index.num_edges(etype)
        _memory.check(
            index.limit,
            edges * (8 + (8 if permute else 0)),
            f"{index.store.path}: a copy of {name!r} that weighted sampling can read",
            "Store it as a float32 or bool edge column instead (gz.ingest(edge_features=...)).",
        )
        if values.dtype not in (torch.float32, torch.float64, torch.bool):
            values = values.to(torch.float32)
        array = values.detach().contiguous().numpy()
        if permute:
            array = array[index.edge_ids_of(etype, np.arange(edges, dtype=np.int64))]
        return array.view(np.uint8) if array.dtype == np.bool_ else array

    # ---- what must not touch every node ----

    def in_degrees(self, v: Any = ALL, etype: Any = None) -> Any:
        """As DGL's."""
        if is_all(v):
            return self._graph.all_degrees(self.get_etype_id(etype), "in")
        return super().in_degrees(v, etype)

    def out_degrees(self, u: Any = ALL, etype: Any = None) -> Any:
        """As DGL's."""
        if is_all(u):
            return self._graph.all_degrees(self.get_etype_id(etype), "out")
        return super().out_degrees(u, etype)

    def all_edges(self, form: str = "uv", order: str = "eid", etype: Any = None) -> Any:
        """As DGL's."""
        if form == "eid" and order == "eid":
            e = self.get_etype_id(etype)
            _memory.check(
                self._graph.limit,
                self._graph.num_edges(e) * self._graph.bits // 8,
                f"{self.store.path}: all edge ids of {self.canonical_etypes[e]}",
                "Draw the ids you need with torch.randint(g.num_edges(etype), ...).",
            )
            return torch.arange(self._graph.num_edges(e), dtype=self.idtype)
        return super().all_edges(form, order, etype)

    # ---- where it lives ----

    def to(self, device: Any, **kwargs: Any) -> StoreGraph:
        """As DGL's, for the CPU: a store stays there, and batches go to the device of the DataLoader."""
        if device is None or torch.device(device).type == "cpu":
            return self
        raise DGLError(
            "a graph in a store stays on the CPU. Give the device to the DataLoader instead: "
            "DataLoader(g, ids, sampler, device='cuda') samples here and moves the batches."
        )

    def clone(self) -> StoreGraph:
        """The same store; columns assigned to one are not seen in the other."""
        twin = self.local_var()
        twin._rows = {}
        return twin

    def create_formats_(self) -> None:
        """Nothing to do: the formats are files."""

    def pin_memory_(self) -> StoreGraph:
        """Refused: a store is not in memory."""
        raise DGLError(
            "a graph in a store cannot be pinned for UVA sampling (use_uva=True). Sample on the CPU and "
            "give the device to the DataLoader: DataLoader(g, ids, sampler, device='cuda'). "
            "Features arrive in pinned memory."
        )

    def unpin_memory_(self) -> StoreGraph:
        """Nothing to do."""
        return self

    def shared_memory(self, name: str, formats: Any = ()) -> Any:
        """As DGL's, but refused: files are shared already."""
        raise DGLError(
            "a graph in a store is shared already: every process that opens it maps the same files. "
            "Pass the graph itself to the other process, or call gz_dgl.load there."
        )


def _in_memory_first(name: str) -> Any:
    method = getattr(DGLGraph, name)

    @functools.wraps(method)
    def changed(self: StoreGraph, *args: Any, **kwargs: Any) -> Any:
        whole.become_in_memory(self, name)
        return method(self, *args, **kwargs)

    return changed


for _name in ("add_nodes", "add_edges", "remove_nodes", "remove_edges"):
    setattr(StoreGraph, _name, _in_memory_first(_name))


def _check_first(name: str) -> Any:
    method = getattr(DGLGraph, name)

    @functools.wraps(method)
    def checked(self: StoreGraph, *args: Any, **kwargs: Any) -> Any:
        # DGL allocates its result, a row per node or edge, before it asks for the graph.
        self._graph.in_memory(f"{name}() on the full graph")
        return method(self, *args, **kwargs)

    return checked


for _name in ("update_all", "multi_update_all", "apply_edges"):
    setattr(StoreGraph, _name, _check_first(_name))


def _row_bytes(column: Any) -> int:
    storage = column.storage
    return int(storage[:1].numel()) * storage.element_size()


def _unpickle(
    index: StoreIndex, ntypes: Any, etypes: Any, frames: Any, extra: dict[str, Any], random: Any
) -> StoreGraph:
    _random.adopt_state(random)
    graph = StoreGraph.__new__(StoreGraph)
    graph.__dict__.update(extra, _graph=index, _ntypes=ntypes, _etypes=etypes, _rows={})
    graph._node_frames, graph._edge_frames = frames
    return graph
