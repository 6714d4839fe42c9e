"""LocalSource: a PyG Data or HeteroData, with its attributes in memory, in the files of a store, or both.

What differs is each value: one that lies in files is a `Stored`, and gives rows without being read whole.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import N_KEYS
from torch_geometric.typing import SparseTensor

from gz_pyg._edges import ArrayEdges, Edges, StoreEdges
from gz_pyg._source.look import Look
from gz_pyg._source.protocol import (
    Column,
    EdgeKey,
    NodeKey,
    Part,
    Sampled,
    SampleGraph,
    State,
    Wanted,
    in_order_of,
    rows_of,
    whole,
)
from gz_pyg._store.lazy import LazyTensor
from gz_pyg._store.lengths import check_written, warn_of_left_behind
from gz_pyg._store.overlay import Overlay, raw, raw_items
from gz_pyg._store.stored import (
    CPU,
    RowsTogether,
    Stored,
    StoredColumn,
    StoredEdgeColumn,
    StoredEdgeIndex,
)
from gz_pyg._tensors import stack

_NONE = torch.empty(0, dtype=torch.int64)
_EDGES = ("adj", "adj_t", "edge_index")  # the first that is there counts, as in PyG


class LocalSource:
    """See ``Source``."""

    def __init__(self, data: Data | HeteroData, on_files: bool | None = None):
        self.data = data
        if on_files is None:
            on_files = any(isinstance(s._mapping, Overlay) for s in data.stores)
        self._on_files = on_files
        self._look: Look | None = None  # of what is frozen here
        self._read: dict[tuple[NodeKey, str], RowsTogether] = {}  # for the one mini-batch this is to join

    # ---- sizes ----

    @property
    def is_hetero(self) -> bool:
        return isinstance(self.data, HeteroData)

    @property
    def node_types(self) -> list[NodeKey]:
        return self.data.node_types if isinstance(self.data, HeteroData) else [None]

    @property
    def edge_types(self) -> list[EdgeKey]:
        return self.data.edge_types if isinstance(self.data, HeteroData) else [None]

    def _nodes(self) -> list[tuple[NodeKey, Any]]:
        data = self.data
        return data.node_items() if isinstance(data, HeteroData) else [(None, data._store)]

    def _edges(self) -> list[tuple[EdgeKey, Any]]:
        data = self.data
        return data.edge_items() if isinstance(data, HeteroData) else [(None, data._store)]

    def num_nodes(self, t: NodeKey) -> int:
        n = self.data.num_nodes if t is None else self.data[t].num_nodes
        if n is None:
            what, where = ("", "data") if t is None else (f" of type '{t}'", f"data['{t}']")
            raise ValueError(f"the number of nodes{what} is unknown; set {where}.num_nodes")
        return int(n)

    # ---- edges ----

    def edge_index(self, t: EdgeKey) -> Any:
        storage = dict(self._edges())[t]
        edges = raw(storage, "edge_index")
        if isinstance(edges, StoredEdgeIndex) and not edges.version:
            return edges
        if edges is None and "adj_t" not in storage and "adj" not in storage:
            raise ValueError("data has no edge_index; give edge_label_index")
        return storage.edge_index

    def sample_graph(self, wanted: Wanted) -> SampleGraph:
        sizes = {t: self.num_nodes(t) for t in self.node_types}
        warn_of_left_behind(self.data)
        for t in self.edge_types:
            for end in () if t is None else (t[0], t[2]):
                if end not in sizes:
                    raise ValueError(
                        f"edge type {t} names node type '{end}', but data has only {list(sizes)}"
                    )
        node_time = self._values(wanted.time_attr, edges=False)
        edge_time = self._values(wanted.time_attr, edges=True)
        if wanted.time_attr is not None:
            self._check_times(wanted.time_attr, node_time, edge_time)
        weight = self._values(wanted.weight_attr, edges=True)
        if wanted.weight_attr is not None and not weight:
            raise ValueError(
                f"no edge-level weight_attr '{wanted.weight_attr}'; there are {self._listing(nodes=False)}"
            )
        edges: dict[EdgeKey, Edges] = {}
        for t, storage in self._edges():
            size = (sizes[None], sizes[None]) if t is None else (sizes[t[0]], sizes[t[2]])
            near = None if t is None else t[2 if wanted.backward else 0]
            edges[t] = _edges_of(
                storage, size, wanted, "data" if t is None else str(t), node_time.get(near), edge_time.get(t)
            )
        return SampleGraph(
            sizes,
            edges,
            node_time,
            {t: _beside(edges[t], v, f"time_attr '{wanted.time_attr}'") for t, v in edge_time.items()},
            {t: _beside(edges[t], v, f"weight_attr '{wanted.weight_attr}'") for t, v in weight.items()},
        )

    def _values(self, name: str | None, edges: bool) -> dict[Any, Any]:
        """An attribute of the nodes, or of the edges, by type."""
        if name is None:
            return {}
        found = {}
        for t, storage in self._edges() if edges else self._nodes():
            if name in storage and (storage.is_edge_attr(name) if edges else storage.is_node_attr(name)):
                value = raw(storage, name)
                found[t] = value.stored if isinstance(value, LazyTensor) else value
        return found

    def _check_times(self, name: str, on_nodes: dict[Any, Any], on_edges: dict[Any, Any]) -> None:
        if on_nodes and on_edges:
            raise ValueError(
                f"The time attribute '{name}' holds both node-level and edge-level information: "
                f"{sorted(on_nodes)} and {sorted(on_edges)}"
            )
        if not on_nodes and not on_edges:
            raise ValueError(
                f"The time attribute '{name}' is neither a node-level or edge-level attribute; there are "
                f"{self._listing()}"
            )

    def _listing(self, nodes: bool = True) -> str:
        parts: list[tuple[Any, Any]] = [*(self._nodes() if nodes and self.is_hetero else ()), *self._edges()]
        names = {t: [k for k, _ in raw_items(s) if nodes or s.is_edge_attr(k)] for t, s in parts}
        return "; ".join(
            ", ".join(n) if t is None else f"{t}: {', '.join(n) or 'none'}" for t, n in names.items()
        )

    # ---- rows ----

    def _read_by_row(self) -> list[tuple[NodeKey, str, StoredColumn]]:
        found = [(t, k, s, v) for t, s in self._nodes() for k, v in raw_items(s)]
        return [
            (t, key, value)
            for t, key, storage, value in found
            if isinstance(value, StoredColumn)
            and not value.of_edges
            and storage.is_node_attr(key)
            and value.is_read_by_row
        ]

    @property
    def reads_by_row(self) -> bool:
        return self._on_files and bool(self._read_by_row())

    def together(self, nodes: Sequence[dict[NodeKey, Tensor]]) -> list[Part]:
        found: list[dict[tuple[NodeKey, str], RowsTogether]] = [{} for _ in nodes]
        for t, key, column in self._read_by_row():
            rows = column.take_together([n.get(t, _NONE) for n in nodes])
            for read, some in zip(found, rows, strict=True):
                read[t, key] = some
        return [*map(self._part, found)]

    def _part(self, read: dict[tuple[NodeKey, str], RowsTogether]) -> Part:
        source, rows = copy.copy(self), read.values()
        source._read = read
        return Part(source, sum(r.nbytes for r in rows), max((r.reading for r in rows), default=0))

    def join(self, sampled: Sampled, custom_cls: Any) -> Any:
        sampled.read = self._read
        if not self._on_files:
            batch = copy.copy(self.data)
        elif custom_cls is not None:
            batch = custom_cls()
        else:
            batch = HeteroData() if self.is_hetero else Data()
        if isinstance(self.data, Data):
            _filter(self.data._store, batch._store, None, sampled, True, True)
            return batch
        for name, value in raw_items(self.data._global_store):
            batch._global_store[name] = value
        for t, storage in self._nodes():
            _filter(storage, batch[t], t, sampled, True, False)
        for e, storage in self._edges():
            _filter(storage, batch[e], e, sampled, False, True)
        return batch

    def _placed(self) -> list[tuple[Any, str, Stored]]:
        parts: list[tuple[Any, Any]] = [*self._nodes(), *(self._edges() if self.is_hetero else ())]
        found = [(t, k, v) for t, s in parts for k, v in raw_items(s) if isinstance(v, Stored)]
        return [(t, k, v) for t, k, v in found if v.device != CPU or v.pinned]

    @property
    def places(self) -> bool:
        return self._on_files and bool(self._placed())

    def place(self, batch: Any) -> Any:
        if not self._on_files:
            return batch
        for t, name, stored in self._placed():
            part = batch if t is None else batch[t]
            value = part.get(name)
            if isinstance(value, Tensor) and not isinstance(value, LazyTensor) and value.device == CPU:
                if stored.pinned or stored.device.type == "cuda":
                    value = value.pin_memory()
                part[name] = value.to(stored.device, non_blocking=True)
        return batch

    @property
    def joins_anywhere(self) -> bool:
        """Not where it would take rows on a GPU."""
        values = [v for s in self.data.stores for _, v in raw_items(s)]
        return not any(v.is_cuda for v in values if isinstance(v, Tensor) and not isinstance(v, LazyTensor))

    # ---- state ----

    def check(self) -> None:
        if self._on_files:
            check_written(self.data)

    def frozen(self) -> LocalSource:
        look = Look.at(self.data) if self._on_files else None  # first: what changes from now on is seen
        frozen = LocalSource(copy.copy(self.data), self._on_files)
        frozen._look = look
        return frozen

    def state(self) -> State | None:
        try:
            return State(*self._listed(), self._look)
        except RuntimeError:  # being changed right now
            return None

    def is_still(self, state: State) -> bool:
        look = state.look
        if look is not None and look.still(self.data) and state.unwritten():
            return True
        try:
            names, values = self._listed()
        except RuntimeError:  # being changed right now
            return False
        return state.still(names, values) or state == State(names, values)

    def _listed(self) -> tuple[list[str | None], list[Any]]:
        """Names and values of all attributes."""
        names: list[str | None] = []
        values: list[Any] = []
        for storage in self.data.stores:
            mapping = storage._mapping
            kept = mapping.kept() if type(mapping) is Overlay else mapping
            names += kept
            names.append(None)  # between two storages
            values += kept.values()
        return names, values

    def sampling_state(self, wanted: Wanted) -> State | None:
        if not self._on_files:
            return None  # as in PyG: a sampler keeps the edges it was made with
        names = [*_EDGES, *(n for n in (wanted.time_attr, wanted.weight_attr) if n is not None)]
        places: list[Any] = []
        values: list[Any] = []
        for t, storage in self._nodes():  # what says how many there are
            known = [v for k, v in raw_items(storage) if k == "num_nodes" or k in N_KEYS]
            places.append((t, [v.shape[0] if hasattr(v, "shape") else v for v in known]))
        storages: list[tuple[Any, Any]] = [*self._nodes(), *self._edges()]
        for key, storage in storages:
            places.append(key)
            values += [raw(storage, name) for name in names]
        return State(places, values)


def _edges_of(
    storage: Any, size: tuple[int, int], wanted: Wanted, what: str, node_time: Any, edge_time: Any
) -> Edges:
    """The edges of one storage; those in memory have their lists in the order of time, as PyG has them."""
    stored = raw(storage, "edge_index")
    if "adj" in storage:
        return _from_adj(storage.adj, False, size, wanted.backward, what)
    if "adj_t" in storage:
        return _from_adj(storage.adj_t, True, size, wanted.backward, what)
    if isinstance(stored, StoredEdgeIndex) and not stored.version:
        found = (stored.store.num_nodes(stored.type[0]), stored.store.num_nodes(stored.type[2]))
        if found != size:
            raise ValueError(
                f"{what}: the edges of {stored.store.path} are among {found[0]} sources and {found[1]} "
                f"destinations, but the graph has {size[0]} and {size[1]}"
            )
        return StoreEdges(stored.store.graph(stored.type, "out" if wanted.backward else "in"), stored.graph)
    if stored is None:
        edge_index = torch.empty(2, 0, dtype=torch.int64)
        return ArrayEdges.from_edge_index(edge_index, size, wanted.backward, False, what)
    edge_index = storage.edge_index
    time = None if edge_time is None else whole(edge_time)
    if node_time is not None and not wanted.is_sorted:
        time = whole(node_time)[edge_index[1 if wanted.backward else 0].cpu()]
    time = None if time is None else time.reshape(-1)
    return ArrayEdges.from_edge_index(edge_index, size, wanted.backward, wanted.is_sorted, what, time)


def _from_adj(adj: Any, transposed: bool, size: tuple[int, int], backward: bool, what: str) -> ArrayEdges:
    if hasattr(adj, "csr"):
        by_row = transposed != backward
        pointer, neighbours, _ = adj.csr() if by_row else adj.csc()
        if not by_row:
            neighbours, pointer = pointer, neighbours
        return ArrayEdges.from_compressed(pointer, neighbours, None, size, backward, what)
    if backward or not transposed:
        raise ValueError(f"{what}: a torch.sparse tensor must be adj_t, and cannot be sampled backward")
    adj = adj.to_sparse_csr()
    return ArrayEdges.from_compressed(adj.crow_indices(), adj.col_indices(), None, size, False, what)


def _beside(edges: Edges, value: Any, what: str) -> Column:
    """Values of edges in the order of the edges; those of a file beside its topology as they lie there."""
    if isinstance(value, StoredEdgeColumn) and isinstance(edges, StoreEdges) and not value.version:
        mapped = value.mapped
        if len(mapped.shape) == 1 or mapped.shape[1:] == (1,):
            return mapped
    return in_order_of(edges, whole(value), what)


def _filter(storage: Any, out: Any, t: Any, sampled: Sampled, nodes: bool, edges: bool) -> None:
    """Fills ``out`` with the rows of one storage."""
    node = sampled.nodes.get(t, _NONE)
    row, col = sampled.row.get(t, _NONE), sampled.col.get(t, _NONE)
    numbers, places = sampled.edges.get(t, _NONE), sampled.rows.get(t)
    for key, value in raw_items(storage):
        if nodes and key == "num_nodes":
            out.num_nodes = node.numel()
        elif nodes and (read := sampled.read.get((t, key))) is not None:
            out[key] = read.tensor()
        elif nodes and storage.is_node_attr(key):
            out[key] = rows_of(value, node, _dim(storage, key, value))
        elif edges and key == "edge_index":
            joined = stack(row, col)
            out.edge_index = joined if isinstance(value, Stored) else joined.to(value.device)
        elif edges and key == "adj_t":
            size = [sampled.nodes[k].numel() for k in ((None, None) if t is None else (t[2], t[0]))]
            out.adj_t = _sampled_adj_t(value, row, col, numbers, size)
        elif edges and storage.is_edge_attr(key):
            if numbers is None:
                out[key] = None
            elif isinstance(value, StoredEdgeColumn) and places is not None:
                out[key] = value.take_rows(places, numbers)
            else:
                out[key] = rows_of(value, numbers, _dim(storage, key, value))
        elif isinstance(value, Stored):
            out[key] = LazyTensor(value)  # it fits neither: as in PyG, all of it; not read before it is used
        else:
            out[key] = value


def _sampled_adj_t(adj_t: Any, row: Tensor, col: Tensor, numbers: Tensor | None, size: list[int]) -> Any:
    """The sampled edges in the form that the graph has them in."""
    sparse = isinstance(adj_t, Tensor)
    value = adj_t.to_sparse_csr().values() if sparse else adj_t.storage.value()
    if value is not None:
        device = value.device
        row, col = row.to(device), col.to(device)
        value = None if numbers is None else value[numbers.to(device)]
    if sparse:
        value = torch.ones(row.numel(), device=adj_t.device) if value is None else value
        return torch.sparse_coo_tensor(
            torch.stack([col, row]), value, [*size, *value.shape[1:]]
        ).to_sparse_csr()
    return SparseTensor(row=col, col=row, value=value, sparse_sizes=size, is_sorted=False, trust_data=True)


def _dim(storage: Any, key: str, value: Any) -> int:
    return 0 if isinstance(value, Stored) else storage._parent().__cat_dim__(key, value, storage)
