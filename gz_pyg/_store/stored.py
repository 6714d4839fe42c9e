"""What an attribute of a loaded graph is until it is written over: a column, or the edges, of a store.

Reading one gives a tensor, over the mapped file where the file holds what PyG shows, else (edges, and columns
that are decoded as they are read) a LazyTensor. A
write in place stays with the object (the mapping is private, what was made is kept), and `version` tells.
All of them pickle by path; the copy made by `fresh` shares no memory with its original.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import gz
from gz.adapter import Mapped, in_place, is_read_by_row, ordering, read_together
from gz_pyg._edges import by_id, edge_ends, edge_rows
from gz_pyg._store.changes import changed
from gz_pyg._store.lazy import LazyTensor
from gz_pyg._store.room import check_column, check_edges
from gz_pyg._tensors import take

EdgeType = tuple[str, str, str]
CPU = torch.device("cpu")
_REQUEST = 112  # bytes the engine takes for a row while it reads: its id, and requests in several orders


class Stored:
    """An attribute that lies in files.

    Attributes:
        device: where batches bring it to; the files stay where they are.
        pinned: whether batches bring it in pinned memory.
        of_edges: whether it goes with edges, else with nodes.
    """

    device = CPU
    pinned = False
    of_edges = False

    def __init__(self, store: gz.Store, t: Any, name: str):
        self._store, self._t, self.name = store, t, name
        self._made: Tensor | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None, "_column": None}

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def dtype(self) -> torch.dtype:
        raise NotImplementedError

    def _make(self) -> Tensor:
        """All of it, as PyG shows it, on the CPU."""
        raise NotImplementedError

    @property
    def _is_mapped(self) -> bool:
        """Whether `_make` reads nothing."""
        return False

    def whole(self) -> Tensor:
        if self._made is None:
            with torch.inference_mode(False):  # an inference tensor could not tell that it was written to
                self._made = self._make().to(self.device)
            changed()
        return self._made

    def in_memory(self) -> Tensor:
        """A copy of all of it, on the CPU."""
        if self._made is not None and (self.version or self.device == CPU):
            return self._made.detach().cpu().clone()
        made = self._make()
        return made.clone() if self._is_mapped else made

    def value(self) -> Tensor:
        """What reading the attribute gives."""
        return self.whole() if self._is_mapped and self.device == CPU else LazyTensor(self)

    @property
    def version(self) -> int:
        """0 until it is written to in place, or asked to track gradients."""
        made = self._made
        return 0 if made is None else made._version + ((1 << 40) if made.requires_grad else 0)

    @property
    def tensors(self) -> list[Tensor]:
        """Those by which it may be written to in place: what ``version`` looks at."""
        return [] if self._made is None else [self._made]

    def pick(self, index: Any) -> Tensor | None:
        """``whole()[index]`` without reading the rest; None where that needs all of it."""
        return None

    def on(self, device: Any) -> Any:
        """The same files, for batches on another device; in memory there, where it was written to."""
        device = torch.device(device)
        torch.empty(0, device=device)  # says why not where it cannot be
        if device == self.device and not self.pinned:
            return self
        return self.whole().to(device) if self.version else self._copy(device=device, pinned=False)

    def in_pinned_memory(self) -> Any:
        torch.empty(1).pin_memory()  # says why not where it cannot be
        return self.whole().pin_memory() if self.version else self._copy(pinned=True)

    def fresh(self, store: gz.Store) -> Any:
        """A copy that shares nothing that can be written to: over another opening of the same store."""
        return self.whole().detach().clone() if self.version else self._copy(_store=store, _column=None)

    def _copy(self, **changed: Any) -> Any:
        other = self.__class__.__new__(self.__class__)
        other.__dict__.update(self.__dict__, _made=None, **changed)
        return other

    def after(self, value: Any) -> Any:
        """What the attribute is after ``value`` was assigned to it: still this, where nothing changed."""
        if isinstance(value, LazyTensor) and value.stored is self:
            return self
        return value


class StoredColumn(Stored):
    """A column of nodes: a tensor over the mapped file, with the rows in any shape of the same size."""

    def __init__(self, store: gz.Store, t: Any, name: str, rows: tuple[int, ...] | None = None):
        super().__init__(store, t, name)
        self._rows = rows  # the shape of a row, if not the file's
        self._column: Mapped | None = None

    @property
    def mapped(self) -> Mapped:
        if self._column is None:
            self._column = Mapped(self._store.feature(self.name, self._t))
        return self._column

    @property
    def shape(self) -> tuple[int, ...]:
        shape = self.mapped.shape
        return shape if self._rows is None else (shape[0], *self._rows)

    @property
    def dtype(self) -> torch.dtype:
        return self.mapped.dtype

    @property
    def version(self) -> int:
        return super().version or (0 if self._column is None else self._column.version)

    @property
    def tensors(self) -> list[Tensor]:
        column = self._column
        return super().tensors + ([] if column is None or column.given is None else [column.given])

    @property
    def nbytes(self) -> int:
        """In memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def _is_mapped(self) -> bool:
        return in_place(self.mapped.column)

    def _make(self) -> Tensor:
        if not self._is_mapped:
            check_column(self.nbytes, self._store, self.name)
            return self._shaped(self.mapped.take(torch.arange(self.shape[0])))
        tensor = self.mapped.tensor
        return tensor if self._rows is None else tensor.view(self.shape)

    def take(self, index: Tensor) -> Tensor:
        """Rows, on the CPU."""
        if self.version:
            return take(self.whole(), index.to(self.device)).cpu()
        return self._shaped(self.mapped.take(index))

    @property
    def is_read_by_row(self) -> bool:
        """Whether ``take`` reads row by row, and more than one take at once may spare reads."""
        return not self.version and is_read_by_row(self.mapped.column)

    def take_together(self, indices: Sequence[Tensor]) -> list[RowsTogether]:
        """``take`` for several at once, of a column that is read by row."""
        parts = read_together(self.mapped.column, indices)
        return [RowsTogether(self, len(i), part) for i, part in zip(indices, parts, strict=True)]

    def _shaped(self, rows: Tensor) -> Tensor:
        return rows if self._rows is None else rows.view(-1, *self._rows)

    def pick(self, index: Any) -> Tensor | None:
        if self._made is not None or not isinstance(index, Tensor) or index.dim() != 1 or index.is_meta:
            return None
        index = index.nonzero().view(-1) if index.dtype == torch.bool else index
        if index.is_floating_point() or bool((index < 0).any()):
            return None
        return self.take(index.cpu()).to(self.device)

    def after(self, value: Any) -> Any:
        value = super().after(value)
        if not isinstance(value, Tensor) or isinstance(value, LazyTensor) or self._made is None:
            return value
        mine = self._made
        same = (
            self._is_mapped
            and value.layout == torch.strided
            and value.device == mine.device == CPU
            and value.data_ptr() == mine.data_ptr()
            and value.dtype == mine.dtype
            and value.is_contiguous()
            and value.dim() > 0
            and value.shape[0] == mine.shape[0]
            and value.numel() == mine.numel()
            and not self.version
            and not value.requires_grad
        )
        if not same or value.shape == mine.shape:
            return self if same else value
        return self._copy(_rows=tuple(value.shape[1:]))  # data.y = data.y.view(-1): still the file


class RowsTogether:
    """Rows of one mini-batch, in a block of memory with those of others.

    Attributes:
        nbytes: of the rows.
        reading: bytes that reading them took besides.
    """

    def __init__(self, stored: StoredColumn, rows: int, part: NDArray[np.uint8]):
        column = stored.mapped.column
        in_file = 0 if in_place(column) else column.nbytes // max(1, len(column))
        self._stored, self._part = stored, part
        self.nbytes, self.reading = part.nbytes, rows * (_REQUEST + in_file)

    def tensor(self) -> Tensor:
        """As ``take`` gives it: with a storage and a version of its own."""
        return torch.from_numpy(self._part).view(self._stored.dtype).view(-1, *self._stored.shape[1:])


class StoredEdgeColumn(StoredColumn):
    """A column of edges, shown in the order of ``edge_index``; the file has the order of the topology."""

    of_edges = True

    @property
    def graph(self) -> gz.Graph:
        return ordering(self._store, self._t)

    @property
    def _is_mapped(self) -> bool:
        return super()._is_mapped and not by_id(self.graph)

    def _make(self) -> Tensor:
        if not by_id(self.graph):
            return super()._make()
        check_column(self.nbytes, self._store, self.name)
        return self._shaped(self.mapped.take(edge_rows(self.graph, torch.arange(self.shape[0]))))

    def take(self, index: Tensor) -> Tensor:
        if self.version:
            return super().take(index)
        return self._shaped(self.mapped.take(edge_rows(self.graph, index)))

    def take_rows(self, rows: Tensor, edges: Tensor) -> Tensor:
        """Rows of edges whose places in the file are known besides their numbers."""
        return self.take(edges) if self.version else self._shaped(self.mapped.take(rows))


class StoredEdgeIndex(Stored):
    """The edges of a type, in the order of their ids, or of the topology where these name no edge each."""

    of_edges = True
    dtype = torch.int64

    def __init__(self, store: gz.Store, t: EdgeType):
        super().__init__(store, t, "edge_index")

    @property
    def store(self) -> gz.Store:
        return self._store

    @property
    def type(self) -> EdgeType:
        """The type's name in the store."""
        return self._t

    @property
    def graph(self) -> gz.Graph:
        return ordering(self._store, self._t)

    @property
    def num_edges(self) -> int:
        return self._store.num_edges(self._t)

    @property
    def shape(self) -> tuple[int, ...]:
        return (2, self.num_edges)

    def ends(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Sources and destinations of some edges, reading only those."""
        return edge_ends(self.graph, edges)

    def _make(self) -> Tensor:
        check_edges(self.num_edges, self._store)
        return torch.stack(self.ends(torch.arange(self.num_edges)))
