"""gz.adapter: what the adapter of a framework needs of gz beyond the names in `gz` itself.

gz_pyg and gz_dgl are written with this module and with gz's public names alone; so can another adapter be. It
is the one module of gz that needs torch, and gz itself never imports it.

    topologies   topology, ordering, edge_names, edge_ids and the engine's calls on them
    tensors      Mapped, map_column, in_place, stand_in, read_rows, take_rows, lookup, empty, from_numpy,
                 host_ids, host_rows, is_read_by_row, read_together
    stores       Carried, ingest_carrying: what a store knows beyond arrays; weight_column
    outputs      LayerRows over NpyOutput, ArrayOutput and Store.new_column; scratch; Progress
    background   Pipeline, Task
    memory       amount, check_fits, parse_memory; BatchesAhead, BatchAhead, BatchSizes, ReadTogether,
                 tensor_bytes
    watching     Recorder, counters, rates, usage, machine, storage, describe_store, memory_stats,
                 phase
    randomness   fold, MASK
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gz import _engine
from gz._base.arrays import first_outside
from gz._base.background import Pipeline, Task
from gz._base.batches_ahead import BatchAhead, BatchesAhead, BatchSizes, ReadTogether, tensor_bytes
from gz._base.memory_plan import check_fits
from gz._base.progress import Progress
from gz._base.sizes import amount, parse_memory
from gz._engine import (
    Layer,
    LayerEdges,
    LayerEdgeType,
    NodeWeights,
    PageGuard,
    Sample,
    SampledEdges,
    SampleEdgeType,
    SampleSeeds,
    SubgraphEdgeType,
    Topology,
    draw_negatives,
    hgt_sample,
    induced_edges,
    invert,
    labor_layer,
    labor_sample,
    locate_edges,
    match_edges,
    memory_stats,
    random_walk,
    sample,
    sample_layer,
    subgraph_edges,
    two_way_edges,
)
from gz._measure import phase
from gz._measure.about import counters, describe_store
from gz._watch import machine, storage, usage
from gz._watch.counters import rates
from gz._watch.recorder import Recorder
from gz.carried import Carried, ingest_carrying
from gz.edit import scratch
from gz.exporter import weight_column
from gz.feature import FeatureStore
from gz.graph import Graph
from gz.manifest import EdgeType
from gz.output import ArrayOutput, LayerRows, NpyOutput, Output
from gz.store import Store

Ids = NDArray[np.int64]

# ---- topologies ----


def topology(graph: Graph) -> Topology:
    """A graph as the engine samples it."""
    return graph._topology


def ordering(store: Store, t: EdgeType | None = None) -> Graph:
    """The topology whose order the edge columns have: ``in``, or ``out`` where only that is stored."""
    return store._ordering(t)


def edge_names(graph: Graph) -> Topology | None:
    """The topology whose edge ids name the rows of the edge columns; None: an edge's id is its row."""
    return graph._ids_topology


def edge_ids(graph: Graph) -> NDArray[Any] | None:
    """Original edge ids by row of the edge columns, over the mapped file; None: an edge's id is its row."""
    named_by = graph._in_graph if graph._topology.ids_are_in_rows else graph
    return None if named_by is None else named_by.edge_ids


# ---- tensors over files and from the engine's memory ----


def torch_dtype(name: str) -> torch.dtype:
    """torch's dtype by gz's name of it."""
    return getattr(torch, name)


def from_numpy(array: NDArray[Any], dtype: str | torch.dtype | None = None) -> Tensor:
    """A tensor over the same memory, which may be read-only (a mapping under strict overcommit).

    ``dtype="bfloat16"`` for the uint16 that numpy shows such a column as.
    """
    with warnings.catch_warnings():  # torch has no read-only tensors and warns
        warnings.filterwarnings("ignore", message=".*not writable")
        if dtype in ("bfloat16", torch.bfloat16):
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)


def host_ids(ids: Tensor | ArrayLike) -> Ids:
    """Ids as the engine takes them. Widened by numpy: torch would start threads for it.

    Fractions and masks are a TypeError: as ids they would be rounded, or be the nodes 0 and 1.
    """
    if isinstance(ids, Tensor):
        if ids.device.type == "meta":
            raise TypeError("ids are a tensor on the meta device, which holds no values; give integers")
        ids = ids.detach().cpu().numpy()
    array = np.asarray(ids)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"ids are {array.dtype}; give integers")
    return np.ascontiguousarray(array, dtype=np.int64).reshape(-1)


def host_rows(rows: Tensor) -> tuple[NDArray[Any], str]:
    """Rows as numpy shows them, and gz's name of their dtype."""
    dtype = str(rows.dtype).removeprefix("torch.")
    rows = rows.detach().cpu()
    if rows.dtype == torch.bfloat16:
        return rows.contiguous().view(torch.int16).numpy().view(np.uint16), dtype
    return rows.numpy(), dtype


def in_worker() -> bool:
    """Whether this process is a worker of torch's DataLoader."""
    return torch.utils.data.get_worker_info() is not None


def empty(shape: tuple[int, ...], dtype: torch.dtype, pin: bool = False) -> Tensor:
    """Memory for a result: pinned if asked for; in a worker shared, so that it travels without a copy; else
    from the engine's pool, to which it returns."""
    nbytes = math.prod(shape) * dtype.itemsize
    if pin or nbytes == 0:
        return torch.empty(shape, dtype=dtype, pin_memory=pin)
    if in_worker():
        storage = torch.UntypedStorage._new_shared(nbytes)
        return torch.empty(0, dtype=dtype).set_(storage, 0, shape)  # type: ignore[call-overload]
    return torch.from_numpy(_engine.empty(nbytes)).view(dtype).view(shape)


def written(tensor: Tensor) -> bool:
    """Whether a tensor over a file was written to: it is then this process's own, and no longer the file."""
    return tensor._version != 0


# Not an attribute of the tensor: torch never frees the Python objects of tensors that autograd or a view
# still holds when the interpreter ends, and pickles what they have.
_columns: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def in_place(column: FeatureStore) -> bool:
    """Whether the file holds what the column shows; else rows are decoded as they are read."""
    return column.stored == column.dtype


def map_column(column: FeatureStore) -> Tensor:
    """All of a column over its mapped file, without a copy; where it does not lie ``in_place``, decoded into
    memory, if that has room. ``take_rows`` knows such a tensor's file."""
    with torch.inference_mode(False):  # tensors made in that mode do not tell when they are written to
        tensor = from_numpy(column.get_tensor(), column.dtype)
    _columns[tensor] = column
    return tensor


def stand_in(column: FeatureStore) -> Tensor:
    """A tensor with the shape and dtype of a column that is decoded as it is read, for ``take_rows``. It
    takes no memory, and its values are NaN, or the least: they are not to be looked at."""
    with torch.inference_mode(False):
        nothing = -(1 << 63) if column.dtype == "int64" else math.nan
        tensor = torch.full((1,), nothing, dtype=torch_dtype(column.dtype)).expand(column.shape)
    _columns[tensor] = column
    return tensor


def column_of(rows: Tensor | None) -> FeatureStore | None:
    """The column that a tensor of ``map_column`` shows; None for any other tensor."""
    return None if rows is None else _columns.get(rows)


def read_rows(column: FeatureStore, ids: Tensor | ArrayLike, pin: bool = False) -> Tensor:
    """Rows of a column's file, into `empty`. What is not in memory is read with deep queues, and cached."""
    index = host_ids(ids)
    out = empty((len(index), *column.shape[1:]), torch_dtype(column.dtype), pin)
    if out.numel():
        column._file.gather_into(index, _bytes(out))
    else:
        _check_ids(index, len(column))
    return out


def is_read_by_row(column: FeatureStore) -> bool:
    """Whether rows of the file are read one by one: it is not held in memory, and they are not small."""
    return column._is_read_by_row


def read_together(column: FeatureStore, ids: Sequence[Tensor]) -> list[NDArray[np.uint8]]:
    """The bytes of ``read_rows`` for several results, by one call: see ``FeatureStore._gather_together``."""
    return column._gather_together([*map(host_ids, ids)])


def take_rows(rows: Tensor, ids: Tensor | ArrayLike, pin: bool = False) -> Tensor:
    """``rows[ids]`` of a contiguous CPU tensor, by the engine: in parallel, without the GIL, into `empty`.

    Of one that ``map_column`` made, rows come from the file by ``read_rows``, unless it was written to.
    """
    column = column_of(rows)
    if column is not None and not written(rows):
        return read_rows(column, ids, pin)
    index = host_ids(ids)
    out = empty((len(index), *rows.shape[1:]), rows.dtype, pin)
    if out.numel():
        _engine.gather_array(_bytes(rows), index, _bytes(out))
    else:
        _check_ids(index, len(rows))
    return out


def _check_ids(index: Ids, rows: int) -> None:
    """For rows without bytes; the engine checks all others."""
    if len(index) and not 0 <= index.min() <= index.max() < rows:
        raise IndexError(f"a row id is out of range: there are {rows} rows")


def lookup(table: NDArray[Any], ids: Tensor | ArrayLike, limit: int, file: str) -> Ids:
    """``table[ids]`` of a table of ids in a file, as int64; by the engine, as ``take_rows``.

    Raises:
        FormatError: one of them is not below ``limit``: the file is damaged.
    """
    index = host_ids(ids)
    out = np.empty(len(index), table.dtype)
    if len(index):
        _engine.gather_array(table.reshape(-1, 1).view(np.uint8), index, out.view(np.uint8))
    found = out.astype(np.int64, copy=False)
    if (i := first_outside(found, limit)) is not None:
        raise _engine.FormatError(
            f"{file}: holds {found[i]} at position {index[i]}, but there are {limit}; run `gz verify`"
        )
    return found


def _bytes(tensor: Tensor) -> NDArray[np.uint8]:
    """The same memory as ``[rows, bytes per row]``, whatever the dtype."""
    return tensor.detach().reshape(tensor.shape[0], -1).view(torch.uint8).numpy()


class Mapped:
    """A column of a store that is mapped when its tensor is first asked for. Pickles by path."""

    def __init__(self, column: FeatureStore):
        self.column = column
        self.given: Tensor | None = None  # the tensor, once it was asked for

    def __reduce__(self) -> tuple[Any, ...]:
        return Mapped, (self.column,)

    @property
    def dtype(self) -> torch.dtype:
        return torch_dtype(self.column.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.column.shape

    @property
    def tensor(self) -> Tensor:
        """All of it, without a copy; nothing is read until it is touched."""
        if self.given is None:
            self.given = map_column(self.column)
        return self.given

    @property
    def version(self) -> int:
        """Grows whenever the tensor is written to; 0 while the column is what its file holds."""
        return 0 if self.given is None else self.given._version

    def take(self, ids: Tensor | ArrayLike) -> Tensor:
        """Some rows, from the file, or from the tensor if that was written to."""
        if self.given is not None and self.version:
            return take_rows(self.given, ids)
        return read_rows(self.column, ids)


# ---- randomness ----

MASK = (1 << 64) - 1


def fold(key: int, *names: int) -> int:
    """Names folded into a stream's key one by one: SplitMix64's finalizer, as in csrc/base/rng.h."""
    for name in names:
        z = ((key ^ (name & MASK)) + 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        key = z ^ (z >> 31)
    return key


__all__ = [
    "MASK",
    "ArrayOutput",
    "BatchAhead",
    "BatchSizes",
    "BatchesAhead",
    "Carried",
    "Layer",
    "LayerEdgeType",
    "LayerEdges",
    "LayerRows",
    "Mapped",
    "NodeWeights",
    "NpyOutput",
    "Output",
    "PageGuard",
    "Pipeline",
    "Progress",
    "ReadTogether",
    "Recorder",
    "Sample",
    "SampleEdgeType",
    "SampleSeeds",
    "SampledEdges",
    "SubgraphEdgeType",
    "Task",
    "Topology",
    "amount",
    "check_fits",
    "column_of",
    "counters",
    "describe_store",
    "draw_negatives",
    "edge_ids",
    "edge_names",
    "empty",
    "fold",
    "from_numpy",
    "hgt_sample",
    "host_ids",
    "host_rows",
    "in_place",
    "in_worker",
    "induced_edges",
    "ingest_carrying",
    "invert",
    "is_read_by_row",
    "labor_layer",
    "labor_sample",
    "locate_edges",
    "lookup",
    "machine",
    "map_column",
    "match_edges",
    "memory_stats",
    "parse_memory",
    "phase",
    "random_walk",
    "rates",
    "read_rows",
    "read_together",
    "sample",
    "sample_layer",
    "scratch",
    "stand_in",
    "storage",
    "subgraph_edges",
    "take_rows",
    "tensor_bytes",
    "topology",
    "torch_dtype",
    "two_way_edges",
    "usage",
    "weight_column",
    "written",
]
