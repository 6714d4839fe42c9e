"""What the loaders start from: input nodes and edges in every form that users write them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler
from torch_geometric.sampler import EdgeSamplerInput
from torch_geometric.typing import DEFAULT_REL

from gz_pyg._source.protocol import Source
from gz_pyg._store.lazy import LazyTensor
from gz_pyg._store.stored import StoredEdgeIndex


class ShuffledIndex(RandomSampler):
    """torch's RandomSampler, order and all, without its list of every index: 100 M of them would be 4 GB."""

    _CHUNK = 1 << 16

    @property
    def is_permutation(self) -> bool:
        """Whether it gives every index once."""
        return not self.replacement and self.num_samples == len(self.data_source)  # type: ignore[arg-type]

    def order(self) -> Tensor:
        """A new permutation of the indices, as torch would draw it."""
        generator = self.generator
        if generator is None:
            generator = torch.Generator()
            generator.manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
        return torch.randperm(len(self.data_source), generator=generator)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[int]:
        if not self.is_permutation:
            yield from super().__iter__()
            return
        order = self.order()
        for begin in range(0, len(order), self._CHUNK):
            yield from order[begin : begin + self._CHUNK].tolist()


@dataclass(slots=True)
class IndexSlice:
    """The indices of a batch of an epoch that goes through all of them, in order or shuffled."""

    order: Tensor | None  # of the epoch; None where index i is i
    begin: int
    end: int

    def tensor(self) -> Tensor:
        if self.order is None:
            return torch.arange(self.begin, self.end)
        return self.order[self.begin : self.end].clone()  # a batch must not keep the whole epoch's


def index_batches(sampler: Any) -> Iterator[Any]:
    """What ``iter(sampler)`` gives; batches of all indices, in order or shuffled, come as slices.

    To list a thousand numbers takes longer than the rest of what the iterating thread does for a batch; a
    slice can be looked up by another thread.
    """
    indices = sampler.sampler if type(sampler) is BatchSampler else None
    if type(indices) is SequentialSampler or (type(indices) is ShuffledIndex and indices.is_permutation):
        return _slices(sampler, indices)
    return iter(sampler)


def _slices(sampler: BatchSampler, indices: Any) -> Iterator[IndexSlice]:
    # Drawn when the first batch is asked for, as a sampler does.
    order = indices.order() if isinstance(indices, ShuffledIndex) else None
    n, size = len(indices.data_source), sampler.batch_size
    for begin in range(0, n - n % size if sampler.drop_last else n, size):
        yield IndexSlice(order, begin, min(begin + size, n))


def all_indices(n: int) -> Any:
    """The loader's dataset: a range, as PyG has it."""
    return range(n)


def without_lists(kwargs: dict[str, Any], length: int) -> dict[str, Any]:
    """DataLoader arguments with `shuffle=True` replaced by a sampler that does the same."""
    if (
        kwargs.get("shuffle")
        and kwargs.get("sampler") is None
        and kwargs.get("batch_sampler") is None
        and length > 0
    ):
        kwargs = {k: v for k, v in kwargs.items() if k != "shuffle"}
        kwargs["sampler"] = ShuffledIndex(range(length), generator=kwargs.get("generator"))  # type: ignore[arg-type]
    return kwargs


def input_nodes(
    source: Source, nodes: Any, input_id: Tensor | None
) -> tuple[str | None, Tensor, Tensor | None]:
    """(node type or None, ids, what each counts as) of None, ids, a mask, a type, or (type, any of these)."""
    known = source.node_types
    t: str | None = None
    if isinstance(nodes, str):
        t, nodes = nodes, None
    elif (
        isinstance(nodes, (list, tuple))
        and len(nodes) == 2
        and (nodes[0] is None or isinstance(nodes[0], str))
    ):
        t, nodes = nodes
    if t is None and known != [None]:
        if len(known) != 1:
            raise ValueError(f"input_nodes must name a node type: (type, ids); there are {known}")
        t = known[0]
    if t is not None and t not in known:
        if known != [None]:
            raise ValueError(f"input_nodes names node type {t!r}; there are {known}")
        t = None  # the graph has one type, whatever it is called
    limit = source.num_nodes(t)
    if nodes is None:
        return t, torch.arange(limit), input_id
    ids = _as_tensor(nodes, "input_nodes")
    if ids.dtype == torch.bool:
        if ids.numel() != limit:
            raise ValueError(f"the mask of input_nodes has {ids.numel()} entries; there are {limit} nodes")
        ids = ids.view(-1).nonzero().view(-1)
        input_id = ids if input_id is None else input_id
    elif ids.dtype.is_floating_point or ids.dtype.is_complex:
        raise TypeError(f"input_nodes are {ids.dtype}; give integers or a boolean mask")
    ids = ids.reshape(-1).to(torch.int64)  # torch has no minimum of uint16, uint32 and uint64
    if ids.numel():
        low, high = (int(v) for v in torch.aminmax(ids))
        if low < 0 or high >= limit:
            raise IndexError(
                f"input node {low if low < 0 else high} is out of range: there are {limit} nodes"
            )
    if input_id is not None and input_id.numel() != ids.numel():
        raise ValueError(f"there are {ids.numel()} input nodes, but {input_id.numel()} input ids")
    return t, ids, input_id


def _as_tensor(values: Any, what: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.cpu()
    if isinstance(values, np.ndarray):
        # torch takes neither other byte orders nor strides backwards, and warns of what it may not write to.
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        return torch.from_numpy(np.require(native, requirements=("C", "W")))
    values = list(values)
    if not values:
        return torch.empty(0, dtype=torch.int64)
    try:
        return torch.tensor(values)
    except (TypeError, ValueError, RuntimeError) as e:
        raise TypeError(f"{what} cannot be read as ids: {e}") from None


class StoredEdges(EdgeSamplerInput):
    """All edges of a type of a store as input of a link loader: looked up batch by batch, never listed."""

    def __init__(self, edges: StoredEdgeIndex, input_id: Any, label: Any, time: Any, input_type: Any):
        self.input_id = None if input_id is None else input_id.cpu()
        self.row = self.col = torch.empty(0, dtype=torch.int64)  # PyG's fields; nothing is listed
        self.label = None if label is None else label.cpu()
        self.time = None if time is None else time.cpu()
        self.input_type = input_type
        self._edges = edges

    def __len__(self) -> int:
        return self._edges.num_edges

    def __getitem__(self, index: Any) -> EdgeSamplerInput:
        index = torch.as_tensor(index, dtype=torch.int64)
        row, col = self._edges.ends(index)
        return EdgeSamplerInput(
            self.input_id[index] if self.input_id is not None else index,
            row.view(index.shape),
            col.view(index.shape),
            self.label[index] if self.label is not None else None,
            self.time[index] if self.time is not None else None,
            self.input_type,
        )


def input_edges(
    source: Source, given: Any, input_id: Any, label: Any, time: Any
) -> tuple[EdgeSamplerInput, int]:
    """The link loader's input and how many edges it has.

    ``given``: None, ``[2, E]``, an edge type, or (edge type or None, ``[2, E]`` or None).
    """
    t, ends = _edge_type_and_ends(source, given)
    ends = source.edge_index(t) if ends is None else ends
    if isinstance(ends, LazyTensor) and isinstance(ends.stored, StoredEdgeIndex) and not ends.stored.version:
        ends = ends.stored  # data.edge_index
    if isinstance(ends, StoredEdgeIndex):
        lazy = StoredEdges(ends, input_id, label, time, t)
        _check_lengths(len(lazy), label, time, input_id)
        return lazy, len(lazy)
    if not isinstance(ends, Tensor):
        ends = (
            torch.stack([_as_tensor(e, "edge_label_index") for e in ends])
            if isinstance(ends, (list, tuple))
            else _as_tensor(ends, "edge_label_index")
        )
    if ends.dim() != 2 or ends.size(0) != 2:
        raise ValueError(f"edge_label_index has shape {tuple(ends.shape)}, not [2, num_edges]")
    ends = ends.as_subclass(Tensor)
    if ends.numel() and (ends.dtype == torch.bool or ends.dtype.is_floating_point or ends.dtype.is_complex):
        raise TypeError(f"edge_label_index is {ends.dtype}; give integers")
    ends = ends.to(torch.int64)
    limits = (source.num_nodes(None if t is None else t[0]), source.num_nodes(None if t is None else t[2]))
    for end, ids, limit in (("source", ends[0], limits[0]), ("destination", ends[1], limits[1])):
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < limit:
            bad = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
            raise IndexError(f"edge_label_index: {end} {bad} is out of range: there are {limit} nodes")
    _check_lengths(ends.size(1), label, time, input_id)
    return EdgeSamplerInput(input_id, ends[0], ends[1], label, time, t), ends.size(1)


def _check_lengths(n: int, label: Any, time: Any, input_id: Any) -> None:
    for name, value in (("edge_label", label), ("edge_label_time", time), ("input_id", input_id)):
        if value is not None and len(value) != n:
            raise ValueError(f"there are {n} edges in edge_label_index, but {len(value)} in {name}")


def _edge_type_and_ends(source: Source, given: Any) -> tuple[Any, Any]:
    if given is None:
        t, ends = None, None
    elif isinstance(given, (list, tuple)) and len(given) and isinstance(given[0], str):
        t, ends = given, None
    elif isinstance(given, (list, tuple)) and len(given) == 2 and (given[0] is None or _is_type(given[0])):
        t, ends = given
    else:
        t, ends = None, given
    if not source.is_hetero:
        return None, ends
    known = source.edge_types
    if t is None:
        if len(known) != 1:
            raise ValueError(f"edge_label_index must name an edge type: (type, edges); there are {known}")
        return known[0], ends
    return _canonical(source, tuple(t), known, ends is not None), ends


def _is_type(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple)) and len(value) in (2, 3) and all(isinstance(s, str) for s in value)
    )


def _canonical(
    source: Source, t: tuple[str, ...], known: list[Any], edges_given: bool
) -> tuple[str, str, str]:
    """The edge type a user means. Edges to predict, when given, may be of a type the graph does not hold."""
    if len(t) == 3:
        full = t
    else:
        fits = [k for k in known if (k[0], k[2]) == t]
        full = fits[0] if len(fits) == 1 else (t[0], DEFAULT_REL, t[-1])
    ends_exist = full[0] in source.node_types and full[-1] in source.node_types
    if full not in known and not (edges_given and ends_exist):
        raise ValueError(f"edge_label_index names edge type {t}; there are {known}")
    return full[0], full[1], full[2]
