"""Source: what a sampler or a loader needs to know of a graph, wherever the graph lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter, is_
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from gz.adapter import Mapped
from gz_pyg._edges import Edges
from gz_pyg._store.lazy import LazyTensor
from gz_pyg._store.stored import RowsTogether, Stored, StoredColumn
from gz_pyg._tensors import take

NodeKey = str | None  # None: the one type of a homogeneous graph
EdgeKey = tuple[str, str, str] | None
Column = Tensor | Mapped | StoredColumn  # values by node, or by edge


@dataclass(frozen=True)
class Wanted:
    """What a sampler is to sample by."""

    backward: bool = False
    is_sorted: bool = False
    time_attr: str | None = None
    weight_attr: str | None = None


@dataclass
class SampleGraph:
    """A graph as it is sampled: made once, and anew when the source's edges, times or weights change."""

    num_nodes: dict[NodeKey, int]
    edges: dict[EdgeKey, Edges]
    node_time: dict[NodeKey, Column] = field(default_factory=dict)
    edge_time: dict[EdgeKey, Column] = field(default_factory=dict)  # in the order of the edges here
    weight: dict[EdgeKey, Column] = field(default_factory=dict)  # in the order of the edges here

    @property
    def is_hetero(self) -> bool:
        return None not in self.num_nodes


@dataclass
class Sampled:
    """Which nodes and edges a mini-batch is of, by type.

    Attributes:
        edges: numbers of the edges, as ``edge_index`` has them; None where a sampler does not tell.
        rows: places of the edges in the files, where they were sampled from there.
        read: rows of the nodes that were read before, with those of other mini-batches, by type and name.
    """

    nodes: dict[NodeKey, Tensor]
    row: dict[EdgeKey, Tensor]
    col: dict[EdgeKey, Tensor]
    edges: dict[EdgeKey, Tensor | None]
    rows: dict[EdgeKey, Tensor | None]
    read: dict[tuple[NodeKey, str], RowsTogether] = field(default_factory=dict)


_LOOK = attrgetter("_version", "requires_grad")
_MADE, _GIVEN = attrgetter("_made"), attrgetter("given")


class State:
    """What something was made of: objects and their versions. Equal until one is replaced or written to."""

    def __init__(self, places: list[Any], values: list[Any], look: Any = None):
        self._places, self._values = places, values
        self.look = look  # at what it was copied from
        self._versions = [*map(version_of, values)]
        # What can be written to in place, as it is; and what may yet be given out as a tensor.
        stored = [v.stored if isinstance(v, LazyTensor) else v for v in values]
        self._stored = [v for v in stored if isinstance(v, Stored)]
        self._made = [*map(_MADE, self._stored)]
        self._columns = [c for v in self._stored if (c := getattr(v, "_column", None)) is not None]
        self._given = [*map(_GIVEN, self._columns)]
        self._tensors = [t for v in stored for t in _tensors_of(v)]
        self._seen = [*map(_LOOK, self._tensors)]

    def unwritten(self) -> bool:
        """Whether none of the tensors it is of was written to."""
        return not self._tensors or [*map(_LOOK, self._tensors)] == self._seen

    def still(self, places: list[Any], values: list[Any]) -> bool:
        """Whether ``State(places, values)`` would equal this one; False also where that is not sure.

        Asked for every batch in the thread that trains, of what has no ``look``.
        """
        return (
            self._places == places
            and all(map(is_, self._values, values))
            and all(map(is_, map(_MADE, self._stored), self._made))
            and all(map(is_, map(_GIVEN, self._columns), self._given))
            and self.unwritten()
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, State)
            and self._versions == other._versions
            and self._places == other._places
            and all(map(is_, self._values, other._values))
        )

    __hash__ = None  # type: ignore[assignment]


def version_of(value: Any) -> int:
    if isinstance(value, Stored):
        return value.version
    if isinstance(value, LazyTensor):
        return value.stored.version
    return value._version if isinstance(value, Tensor) and not value.is_inference() else 0


def _tensors_of(value: Any) -> list[Tensor]:
    """The tensors by which a value may be written to in place."""
    if isinstance(value, Stored):
        return value.tensors
    return [value] if isinstance(value, Tensor) and not value.is_inference() else []


@runtime_checkable
class Source(Protocol):
    """A graph: PyG's own objects, in memory or over a store, or any pair of stores."""

    data: Any  # as the user has it: ``loader.data``

    # ---- sizes ----

    @property
    def is_hetero(self) -> bool: ...

    @property
    def node_types(self) -> list[NodeKey]:
        """[None] where there is only one."""

    @property
    def edge_types(self) -> list[EdgeKey]: ...

    def num_nodes(self, t: NodeKey) -> int: ...

    # ---- edges ----

    def sample_graph(self, wanted: Wanted) -> SampleGraph: ...

    def edge_index(self, t: EdgeKey) -> Any:
        """All edges: ``[2, E]``, or a ``StoredEdgeIndex`` that looks up any of them."""

    # ---- rows ----

    def join(self, sampled: Sampled, custom_cls: Any) -> Any:
        """A mini-batch with the rows of what was sampled."""

    @property
    def reads_by_row(self) -> bool:
        """Whether ``join`` reads rows of nodes one by one: ``together`` may spare reads."""

    def together(self, nodes: Sequence[dict[NodeKey, Tensor]]) -> list[Part]:
        """For each of several mini-batches, with these nodes, what joins it. Rows that ``join`` would read
        one by one are read for all of them at once, now."""

    @property
    def places(self) -> bool:
        """Whether ``place`` has anything to do."""

    def place(self, batch: Any) -> Any:
        """The mini-batch with every attribute on the device it is to be on."""

    @property
    def joins_anywhere(self) -> bool:
        """Whether ``join`` may run in a worker process and in a background thread."""

    # ---- state ----

    def check(self) -> None:
        """Raises where what was written does not fit together."""

    def frozen(self) -> Source:
        """The same, as it is now: writes to the user's object are not seen."""

    def state(self) -> State | None:
        """Of all that ``join`` gives; None where it cannot be told."""

    def is_still(self, state: State) -> bool:
        """Whether ``state()`` would equal this one, which it was once; quicker."""

    def sampling_state(self, wanted: Wanted) -> State | None:
        """Of all that ``sample_graph`` is made of; None where a sampler is to keep what it has."""


class Part(NamedTuple):
    """Of several mini-batches whose rows were read together, what one of them has."""

    source: Source  # that joins it
    in_block: int  # bytes of its rows in the memory that all share
    reading: int  # bytes that reading them took besides


def whole(column: Column) -> Tensor:
    """All values, on the CPU."""
    if isinstance(column, Mapped):
        return column.tensor
    return (column.whole() if isinstance(column, Stored) else column).detach().cpu()


def rows_of(value: Any, index: Tensor, dim: int = 0) -> Any:
    """Rows of an attribute, whatever it is. Rows of what lies in files come on the CPU."""
    if isinstance(value, LazyTensor):
        value = value.stored
    if isinstance(value, StoredColumn) and dim == 0:
        return value.take(index)
    if isinstance(value, Stored):
        value = value.whole()
    if isinstance(value, Tensor):
        return take(value, index.to(value.device), dim)
    return take(value, index, dim)


def as_single_values(value: Tensor, what: str) -> Tensor:
    """One value per edge, ``[E]``."""
    if value.dim() > 1:
        value = value.reshape(value.size(0), -1)
        if value.size(1) != 1:
            raise ValueError(f"{what} must have one value per edge, not the shape {tuple(value.shape)}")
    return value.reshape(-1)


def in_order_of(edges: Edges, value: Tensor, what: str) -> Tensor:
    """Values by number of the edge, brought into the order of the edges."""
    value = as_single_values(value.detach().cpu(), what)
    permutation: Any = edges.permutation
    if permutation is None:
        return value
    return value[permutation if isinstance(permutation, Tensor) else permutation[torch.arange(value.numel())]]
