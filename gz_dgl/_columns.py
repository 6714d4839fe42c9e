"""Feature columns that stay in their files: what a store's ndata and edata are made of.

DGL keeps features in Column objects, which know how to wait: a sampled graph's column is the parent's storage
and an index, sliced at the first read. A MappedColumn is such a Column over a mapped file, sliced by the
engine, and its fetch() starts the read in a thread and hands back a future, which DGL's DataLoader awaits
after it has started all of them, and gz_dgl.prefetch when the batch is asked for.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import gz
from gz import _engine
from gz._background import Pipeline, Task
from gz_dgl import _memory
from gz_dgl._dgl import Column

_READERS = 4  # futures in flight; each read uses the engine's threads


def as_tensor(array: NDArray[Any]) -> torch.Tensor:
    """Zero copy, also of a read-only mapping (strict overcommit)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)


def map_file(file: str | gz.FeatureStore) -> torch.Tensor:
    """A column's file as a tensor over the mapping, which remembers the file (gather_rows)."""
    column = gz.FeatureStore(file) if isinstance(file, str) else file
    tensor = as_tensor(column.get_tensor())
    if column.dtype == "bfloat16":
        tensor = tensor.view(torch.bfloat16)
    tensor._gz_column = column  # type: ignore[attr-defined]
    return tensor


def _as_bytes(tensor: torch.Tensor) -> NDArray[np.uint8]:
    return tensor.detach().reshape(tensor.shape[0], -1).view(torch.uint8).numpy()


def host_ids(ids: torch.Tensor) -> NDArray[np.int64]:
    """Ids as the engine takes them. Widened by numpy: torch would start threads for it."""
    return np.ascontiguousarray(ids.detach().cpu().numpy(), dtype=np.int64)


def gather_rows(storage: torch.Tensor, ids: NDArray[np.int64], pin: bool = False) -> torch.Tensor:
    """storage[ids] by the engine: in parallel, without the GIL, into memory that is used again.

    Of a mapped file, rows that are not in memory are read with deep queues and kept in the row cache; unless
    the tensor was written to: then it is this process's own, and its memory is what counts.
    """
    shape = (len(ids), *storage.shape[1:])
    row_bytes = storage[:0].new_empty(storage.shape[1:]).numel() * storage.element_size()
    if pin or row_bytes == 0 or len(ids) == 0:
        out = torch.empty(shape, dtype=storage.dtype, pin_memory=pin)
    else:
        out = torch.from_numpy(_engine.empty(len(ids) * row_bytes)).view(storage.dtype).view(shape)
    if out.numel():
        column = getattr(storage, "_gz_column", None)
        if column is not None and storage._version == 0:
            column._file.gather_into(ids, _as_bytes(out).reshape(-1))
        else:
            _engine.gather_array(_as_bytes(storage), ids, _as_bytes(out))
    elif len(ids) and not (ids.min() >= 0 and ids.max() < len(storage)):
        raise IndexError(f"a row id is out of range: there are {len(storage)} rows")
    return out


class Fetch:
    """Rows on their way. wait() gives them, or raises what reading them raised."""

    def __init__(self, task: Task):
        self._task = task

    def wait(self) -> torch.Tensor:
        return self._task.result()


def _read(order: tuple[MappedColumn, NDArray[np.int64], Any, bool, Any]) -> torch.Tensor:
    column, *how = order
    return column._fetch(*how)


_readers = Pipeline(_read, threads=_READERS, name="gz-fetch")


class MappedColumn(Column):
    """A column over a mapped file."""

    storage: Any

    def __init__(
        self,
        storage: Any,
        scheme: Any = None,
        index: Any = None,
        device: Any = None,
        deferred_dtype: Any = None,
        path: str | None = None,
    ):
        super().__init__(storage, scheme, index, device, deferred_dtype)
        self.path = path  # None once rows have been taken out

    @classmethod
    def open(cls, file: str | gz.FeatureStore, **kwargs: Any) -> MappedColumn:
        return cls(map_file(file), path=file if isinstance(file, str) else file.path, **kwargs)

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of the file by the ids that index the column."""
        return ids

    def whole(self) -> torch.Tensor:
        """The column in the order of its ids."""
        return self.storage

    @property
    def data(self) -> torch.Tensor:
        if self.index is not None:
            index = self.index.flatten() if not torch.is_tensor(self.index) else self.index
            self.storage = gather_rows(self.storage, self.rows_of(host_ids(index)))
            self._leave_file()
        elif self.path is not None and self.device is None and self.deferred_dtype is None:
            return self.whole()
        elif self.path is not None:
            self.storage = self.whole()
            self._leave_file()
        return Column.data.fget(self)  # device and dtype, if any are waiting

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        Column.data.fset(self, value)
        self._leave_file()

    def _leave_file(self) -> None:
        self.index = None
        self.path = None

    def _like(self, index: Any) -> MappedColumn:
        return type(self)(self.storage, self.scheme, index, self.device, self.deferred_dtype, **self._more())

    def _more(self) -> dict[str, Any]:
        return {"path": self.path}

    def clone(self) -> MappedColumn:
        return self._like(self.index)

    def astype(self, new_dtype: Any) -> MappedColumn:
        column = super().astype(new_dtype)
        if column.storage is not self.storage:
            column.path = None
        return column

    def subcolumn(self, rowids: torch.Tensor) -> MappedColumn:
        sub = Column.subcolumn(self, rowids)  # a plain Column: it knows how to chain indices
        return self._like(sub.index)

    def fetch(
        self, indices: torch.Tensor, device: Any, pin_memory: bool | None = False, **kwargs: Any
    ) -> Any:
        if self.path is None or self.index is not None:
            _ = self.data
        # Threads may be waiting on others' reads: the ids are taken now, the caller may change them.
        ids = host_ids(indices)
        return Fetch(_readers.submit((self, ids, device, bool(pin_memory), kwargs)))

    def _fetch(self, ids: NDArray[np.int64], device: Any, pin: bool, kwargs: Any) -> torch.Tensor:
        rows = self.rows_of(ids) if self.path is not None else ids
        return gather_rows(self.storage, rows, pin).to(device, non_blocking=pin, **kwargs)

    def pin_memory_(self) -> None:
        """Nothing: a mapped file cannot be pinned. fetch() gathers into pinned memory where asked."""


class EagerStorage:
    """A column whose fetch() gives rows, not a future: what DGL's GPU cache expects."""

    def __init__(self, column: MappedColumn):
        self._column = column

    def fetch(
        self, indices: torch.Tensor, device: Any, pin_memory: bool | None = False, **kwargs: Any
    ) -> Any:
        return self._column.fetch(indices, device, pin_memory, **kwargs).wait()


class EdgeOrder:
    """Where edges lie in the topology, by edge id. Pickles by path; one per file and process."""

    def __init__(self, path: str, limit: int):
        self.path, self.limit = path, limit
        self._graph = gz.Graph(path)
        self._positions = self._graph.edge_positions

    def __reduce__(self) -> tuple[Any, ...]:
        return edge_order, (self.path, self.limit)

    def positions(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        assert self._positions is not None
        out = np.empty(len(ids), self._positions.dtype)
        _engine.gather_array(self._positions, ids, out)
        return out.astype(np.int64)

    def all_positions(self) -> NDArray[np.int64]:
        assert self._positions is not None
        return self._positions.astype(np.int64)


@cache
def edge_order(path: str, limit: int) -> EdgeOrder:
    return EdgeOrder(path, limit)


class EdgeColumn(MappedColumn):
    """An edge column: its file is in the order of the topology, its ids are the edges' own where kept."""

    def __init__(self, *args: Any, order: EdgeOrder | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.order = order
        self._whole: torch.Tensor | None = None

    def _more(self) -> dict[str, Any]:
        return {"path": self.path, "order": self.order}

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return ids if self.order is None else self.order.positions(ids)

    def whole(self) -> torch.Tensor:
        if self.order is None:
            return self.storage
        if self._whole is None:
            size = self.storage.numel() * self.storage.element_size() + 8 * len(self.storage)
            _memory.check(
                self.order.limit,
                size,
                f"{self.path}: the whole edge column in the order of edge ids",
                "Read the rows of a batch instead: block.edata[...], prefetch_edge_feats, or "
                "g.get_edge_storage(name, etype).fetch(ids, 'cpu').wait().",
            )
            self._whole = gather_rows(self.storage, self.order.all_positions())
        return self._whole

    def by_row(self) -> torch.Tensor | None:
        """The column in the order of the topology, as it lies in its file; None once it has been replaced."""
        return self.storage if self.path is not None and self.index is None else None

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["_whole"] = None
        return state


def is_mapped(column: Any) -> bool:
    return isinstance(column, MappedColumn) and column.path is not None and column.index is None
