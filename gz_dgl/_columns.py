"""Feature columns that stay in their files: what a store's ndata and edata are made of.

DGL keeps features in Column objects, which know how to wait: a sampled graph's column is the parent's storage
and an index, sliced at the first read. A MappedColumn is such a Column over a mapped file, sliced by the
engine, and its fetch() starts the read in a thread and hands back a future, which DGL's DataLoader awaits
after it has started all of them, and gz_dgl.prefetch when the batch is asked for.

What a column is over is known by its storage, the tensor: clones and slices share that one, and DGL puts it
into columns that come from a worker. It knows its file (gz.adapter.map_column) and, of an edge column, the
order of the file's rows; where that is not the order of edge ids, also the copy in that order, if one was
asked for. A column that is decoded as it is read has a stand-in for a storage, which takes no memory, and a
copy if all of it is asked for. A write to either tensor is a write to the column, which from then on is that
tensor and no file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.weak import WeakTensorKeyDictionary

import gz
from gz.adapter import (
    Pipeline,
    Task,
    check_fits,
    column_of,
    empty,
    host_ids,
    in_place,
    in_worker,
    lookup,
    map_column,
    stand_in,
    take_rows,
    written,
)
from gz_dgl import _memory
from gz_dgl._dgl import Column

_READERS = 4  # futures in flight; each read uses the engine's threads


class EdgeOrder:
    """Where the edges of a topology lie, by edge id."""

    def __init__(self, graph: gz.Graph, limit: int):
        self.graph, self.limit = graph, limit
        self._positions = graph.edge_positions

    def __reduce__(self) -> tuple[Any, ...]:
        return EdgeOrder, (self.graph, self.limit)

    def positions(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        assert self._positions is not None
        return lookup(self._positions, ids, self.graph.num_edges, self.graph.path)

    def all_positions(self) -> NDArray[np.int64]:
        assert self._positions is not None
        return self._positions.astype(np.int64)


# ---- storages ----


_orders: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def _file(storage: torch.Tensor | None) -> gz.FeatureStore | None:
    """The file a storage is mapped from; None: it is memory."""
    return column_of(storage)


def _order(storage: torch.Tensor | None) -> EdgeOrder | None:
    """None: rows lie in the order of their ids."""
    return None if storage is None else _orders.get(storage)


def _now(storage: torch.Tensor) -> torch.Tensor:
    """What holds the column: its storage, or the copy in the order of ids once the script wrote to that."""
    by_id = getattr(storage, "_gz_by_id", None)
    return by_id if by_id is not None and written(by_id) else storage


def _all_rows(storage: torch.Tensor) -> torch.Tensor:
    """The column in the order of its ids: the mapped file where it lies so, else a copy, made once."""
    order, file = _order(storage), _file(storage)
    if file is None or (order is None and in_place(file)):
        return storage
    by_id = getattr(storage, "_gz_by_id", None)
    if by_id is None:
        size = storage.numel() * storage.element_size()
        if order is None:
            what = f"{file.path}: all of a column that is stored as {file.stored}"
            check_fits(size, what, "read the rows of a batch instead: block.srcdata[...], g.ndata of a batch")
        else:
            _memory.check(
                order.limit,
                size + 8 * len(storage),
                f"{file.path}: the whole edge column in the order of edge ids",
                "Read the rows of a batch instead: block.edata[...], prefetch_edge_feats, or "
                "g.get_edge_storage(name, etype).fetch(ids, 'cpu').wait().",
            )
        rows = np.arange(len(storage)) if order is None else order.all_positions()
        with torch.inference_mode(False):  # tensors made in that mode do not tell when they are written to
            by_id = take_rows(storage, rows)
        storage._gz_by_id = by_id  # type: ignore[attr-defined]
    return by_id


def _rows(storage: torch.Tensor, ids: NDArray[np.int64], pin: bool = False) -> torch.Tensor:
    order = _order(storage)
    return take_rows(storage, ids if order is None else order.positions(ids), pin)


# ---- columns ----


class Fetch:
    """Rows on their way. wait() gives them, or raises what reading them raised."""

    def __init__(self, task: Task):
        self._task = task

    def wait(self) -> torch.Tensor:
        return self._task.result()


def _read(order: tuple[torch.Tensor, NDArray[np.int64], Any, Any, bool, Any]) -> torch.Tensor:
    storage, ids, dtype, device, pin, more = order
    rows = _rows(storage, ids, pin)
    if dtype is not None:
        rows = rows.to(dtype)
    return rows.to(device, non_blocking=pin, **more)


def _own_ids(indices: torch.Tensor) -> NDArray[np.int64]:
    """The ids as they are now: readers may be busy with others' reads, and the caller may change them. Into
    memory that is used again: fresh pages cost more than the copy."""
    ids = host_ids(indices)
    if in_worker():
        return ids.copy()
    own = empty((len(ids),), torch.int64).numpy()
    np.copyto(own, ids)
    return own


_readers = Pipeline(_read, threads=_READERS, name="gz-fetch")


class MappedColumn(Column):
    """A column over a mapped file. Made by open_column."""

    storage: Any
    index: Any

    @property
    def file(self) -> gz.FeatureStore | None:
        """The file that holds the column; None once it is memory: rows taken out, or written to."""
        storage = _now(self.storage)
        file = _file(storage)
        return None if file is None or self.index is not None or written(storage) else file

    @property
    def order(self) -> EdgeOrder | None:
        """The order of the file's rows; None: that of the column's ids."""
        return _order(self.storage)

    @property
    def data(self) -> torch.Tensor:
        self.storage = _now(self.storage)
        if _file(self.storage) is not None:
            if self.index is not None:
                index = self.index if torch.is_tensor(self.index) else self.index.flatten()
                self.storage, self.index = _rows(self.storage, host_ids(index)), None
            elif self.device is None and self.deferred_dtype is None:
                return _all_rows(self.storage)
            else:
                self.storage = _all_rows(self.storage)
        return Column.data.fget(self)  # what is waiting: an index into memory, a device, a dtype

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        Column.data.fset(self, value)

    def by_row(self) -> torch.Tensor | None:
        """The column in the order of the topology, over its file; None where it is no longer that."""
        storage = _now(self.storage)
        waits = self.index is not None or self.deferred_dtype is not None
        file = _file(storage)
        return None if waits or file is None or not in_place(file) else storage

    def _like(self, index: Any) -> MappedColumn:
        return MappedColumn(_now(self.storage), self.scheme, index, self.device, self.deferred_dtype)

    def clone(self) -> MappedColumn:
        return self._like(self.index)

    def subcolumn(self, rowids: torch.Tensor) -> MappedColumn:
        sub = Column.subcolumn(self, rowids)  # a plain Column: it knows how to chain indices
        return self._like(sub.index)

    def extend(self, feats: torch.Tensor, feat_scheme: Any = None) -> None:
        self._check_copy("rows added to")
        super().extend(feats, feat_scheme)

    def update(self, rowids: torch.Tensor, feats: torch.Tensor) -> None:
        self._check_copy("rows replaced in")
        super().update(rowids, feats)

    def _check_copy(self, what: str) -> None:
        """DGL changes rows in a copy of the whole column."""
        if self.file is not None:
            size = self.storage.numel() * self.storage.element_size()
            instead = "write to its tensor instead, g.ndata[name][ids] = rows: that copies the rows' pages"
            check_fits(size, f"{self.file.path}: {what} a copy of the column", instead)

    def astype(self, new_dtype: Any) -> Column:
        """Waits, as a slice does: rows are converted when they are read, not the file now."""
        column = self.clone()
        if column.dtype == new_dtype:
            return column
        if column.deferred_dtype is not None or _file(column.storage) is None:
            return Column.astype(Column(column.data, self.scheme), new_dtype)
        column.deferred_dtype = new_dtype
        return column

    def fetch(
        self, indices: torch.Tensor, device: Any, pin_memory: bool | None = False, **kwargs: Any
    ) -> Any:
        self.storage = _now(self.storage)
        if self.index is not None or _file(self.storage) is None:
            return super().fetch(indices, device, bool(pin_memory), **kwargs)
        order = (self.storage, _own_ids(indices), self.deferred_dtype, device, bool(pin_memory), kwargs)
        return Fetch(_readers.submit(order))

    def pin_memory_(self) -> None:
        """Nothing: a mapped file cannot be pinned. fetch() gathers into pinned memory where asked."""

    # ---- to another process: by path, or its rows where it is no longer what the file holds ----

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.file is not None and self.device is None:
            return _reopen, (self.file, self.order, self.deferred_dtype)
        return super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if self.storage is not None and _file(self.storage) is not None:  # written to, so not the file's
            state["storage"] = _to_send(self.storage)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "deferred_dtype": None})  # DGL knows of none in another process
        self.deferred_dtype = state["deferred_dtype"]


def _to_send(storage: torch.Tensor) -> torch.Tensor:
    """A copy that knows no file. It is kept: torch hands a new process the copy's memory, not its bytes."""
    sent = getattr(storage, "_gz_sent", None)
    if sent is None or sent[0] != storage._version:
        check_fits(
            storage.numel() * storage.element_size(),
            "a column that was written to, sent to another process,",
            "write it to the store instead: g.store.add_feature(name, rows, overwrite=True)",
        )
        sent = storage._version, storage.clone()
        storage._gz_sent = sent  # type: ignore[attr-defined]
    return sent[1]


def open_column(file: gz.FeatureStore, order: EdgeOrder | None = None) -> MappedColumn:
    """A column over its file; an edge column with the order of its rows where ids are others."""
    storage = map_column(file) if in_place(file) else stand_in(file)
    _orders[storage] = order
    return MappedColumn(storage)


def loaded(column: Any) -> torch.Tensor:
    """A copy of all rows of a column in the order of their ids, whatever the memory limit."""
    if isinstance(column, MappedColumn) and column.file is not None and column.order is not None:
        return take_rows(column.storage, column.order.all_positions()).to(column.dtype)
    return column.data.clone()


def _reopen(file: gz.FeatureStore, order: EdgeOrder | None, dtype: Any) -> MappedColumn:
    column = open_column(file, order)
    column.deferred_dtype = dtype
    return column


class EagerStorage:
    """A column whose fetch() gives rows, not a future: what DGL's GPU cache expects."""

    def __init__(self, column: MappedColumn):
        self._column = column

    def fetch(
        self, indices: torch.Tensor, device: Any, pin_memory: bool | None = False, **kwargs: Any
    ) -> Any:
        rows = self._column.fetch(indices, device, pin_memory, **kwargs)
        return rows.wait() if isinstance(rows, Fetch) else rows
