"""The passes over all nodes: batches with all neighbours through a layer, rows out, then the next layer."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from gz.adapter import LayerRows, Progress, host_rows, parse_memory
from gz_pyg._inference.degrees import Degrees
from gz_pyg._inference.layers import Layers, check_edge_values, layers_of
from gz_pyg._inference.places import InnerRows, Target, tensors
from gz_pyg._source.adjacency import edges_of_adjacency
from gz_pyg._source.local import LocalSource
from gz_pyg._source.resolve import as_source
from gz_pyg._store.overlay import Overlay, raw, raw_items
from gz_pyg.loader import NeighborLoader
from gz_pyg.sampler import NeighborSampler

_AT_ONCE = 1 << 20  # nodes whose ids are listed at a time


def inference(
    model: Any,
    data: Any,
    out: str | os.PathLike[str] | None = None,
    *,
    feature: str = "x",
    edge_weight: str | None = None,
    edge_attr: str | None = None,
    batch_size: int = 4096,
    device: Any = None,
    memory: str | int = "1GB",
    tmp: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Any:
    """Computes a model for all nodes, one layer after the other, each with all neighbours.

    As ``BasicGNN.inference(loader)``, with the rows of every layer in files where they are large. In memory
    are ``batch_size`` nodes with all their neighbours, a few such batches ahead, and inner layers up to
    ``memory``. Nothing of the output is seen until all of it is there, and nothing is left when it is
    interrupted.

    Args:
        model: a GraphSAGE, GCN, GAT, GIN, PNA or EdgeCNN of PyG's with any norm that goes row by row and any
            ``jk``; a convolution; or a list of functions ``layer(x, edge_index) -> rows``, of which the first
            ones, those of the nodes that are computed, count. On a graph with several node types both
            arguments and the result are dicts by type. Modules are in evaluation mode meanwhile.
        data: the path of a store, ``gz_pyg.load(...)``, or a ``Data`` or ``HeteroData`` in memory.
        out: the name of a column of the store; a file ``"....npy"``, of a graph with several node types a
            folder as a ``pathlib.Path``; None: a tensor in memory.
        feature: the attribute that the first layer takes.
        edge_weight, edge_attr: attributes of edges that layers take as arguments of that name; of a graph
            with several types as ``edge_weight_dict``, ``edge_attr_dict``.
        batch_size: nodes computed at a time.
        device: where layers run; by default where their parameters are.
        memory: what inner layers may take of memory; beyond that they are files.
        tmp: the folder for these; by default in the store, or else the system's for temporary files.
        overwrite: replace a column of the name ``out``.
        progress: show it; by default when stderr is a terminal.

    Returns:
        The rows of the last layer, ``[num_nodes, ...]``, over the file if there is one; by node type where
        there are several.
    """
    source = as_source(data)
    if not isinstance(source, LocalSource):
        raise TypeError("inference needs a store, a Data or a HeteroData; give gz_pyg.load(...) of a path")
    layers = layers_of(model, source.is_hetero)
    asked = {k: v for k, v in (("edge_weight", edge_weight), ("edge_attr", edge_attr)) if v is not None}
    view = _Edges(source, feature, asked, layers)
    store = next((s._mapping.store for s in source.data.stores if isinstance(s._mapping, Overlay)), None)
    target = Target(out, store, source.node_types, overwrite)
    run = _Run(view, layers, batch_size, layers.device if device is None else torch.device(device))
    inner = InnerRows(parse_memory(memory, least=0), store, tmp)
    with ExitStack() as stack:
        stack.callback(inner.close)
        run.show = Progress(progress)
        stack.callback(run.show.close)
        stack.enter_context(layers.evaluating())
        found = target.publish(run.all_layers(inner, target, stack))
    return found if source.is_hetero else found[None]


class _Edges:
    """The graph with its edges, the values of edges that layers take, and the rows of the layer before."""

    def __init__(self, source: LocalSource, feature: str, asked: dict[str, str], layers: Layers):
        self.hetero, self.asked = source.is_hetero, dict(asked)
        self.node_types, self.edge_types = source.node_types, source.edge_types
        self.num_nodes = {t: source.num_nodes(t) for t in self.node_types}
        if not sum(self.num_nodes.values()):
            raise ValueError("the graph has no nodes")
        self.data: Data | HeteroData = copy.copy(source.data)
        first = {t: raw(self.part(t), feature) for t in self.node_types if feature in self.part(t)}
        if not first:
            raise ValueError(f"no node has the attribute {feature!r}; name that of the first layer: feature=")
        for e in self.edge_types:
            self._only_edges(self.part(e), layers)
        for t in self.node_types if self.hetero else ():
            _empty(self.part(t), keep=())
        check_edge_values(layers, [*self.asked])
        for t in self.node_types:
            self.part(t).num_nodes = self.num_nodes[t]
        self.put("x", first)
        self.sampler = NeighborSampler(LocalSource(self.data), num_neighbors=[-1])

    def part(self, t: Any) -> Any:
        return self.data._store if t is None else self.data[t]

    def _only_edges(self, storage: Any, layers: Layers) -> None:
        if "adj" in storage or "adj_t" in storage:
            edge_index, value = edges_of_adjacency(storage)
            for name in ("adj", "adj_t"):
                storage.pop(name, None)
            storage.edge_index = edge_index
            if value is not None and layers.takes is not None and "edge_weight" in layers.takes:
                storage.adjacency_values = value
                self.asked.setdefault("edge_weight", "adjacency_values")
        missing = [name for name in self.asked.values() if name not in storage]
        if missing:
            raise ValueError(f"{storage._key or 'the edges'}: no attribute {missing[0]!r}")
        _empty(storage, keep=("edge_index", *self.asked.values()))

    def put(self, name: str, rows: dict[Any, Any]) -> None:
        """Rows by node type, in the place of those of that name."""
        for t in self.node_types:
            storage = self.part(t)
            if t not in rows:
                storage.pop(name, None)
            elif isinstance(storage._mapping, Overlay):
                storage._mapping.keep(name, rows[t])
            else:
                storage[name] = rows[t]

    def batches(self, t: Any, size: int) -> Iterator[tuple[int, int, Any]]:
        """(first node, number of nodes, batch) of all nodes of a type, in order."""
        step = max(1, _AT_ONCE // size) * size
        for begin in range(0, self.num_nodes[t], step):
            ids = torch.arange(begin, min(begin + step, self.num_nodes[t]))
            loader = NeighborLoader(self.data, [-1], (t, ids), neighbor_sampler=self.sampler, batch_size=size)
            for batch in loader:
                n = batch.batch_size if t is None else batch[t].batch_size
                yield begin, n, batch
                begin += n


def _empty(storage: Any, keep: tuple[str, ...]) -> None:
    for name, _ in raw_items(storage):
        if name not in keep:
            del storage[name]


class _Run:
    """Layers over a graph."""

    def __init__(self, view: _Edges, layers: Layers, batch_size: int, device: torch.device):
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"batch_size is {batch_size!r}; give a number of nodes")
        self.view, self.layers, self.size, self.device = view, layers, batch_size, device
        self.degrees = Degrees(layers.modules, "edge_weight" in view.asked)
        if self.degrees.kinds and view.hetero:
            raise ValueError(
                "GCNConv and LGConv on several node types: normalise at the ingest and give the weights as "
                "edge_weight=, with normalize=False"
            )
        self.show = Progress(False)

    def all_layers(self, inner: InnerRows, target: Target, stack: ExitStack) -> LayerRows:
        """The rows of the last layer, not yet published; the stack gives up what is not."""

        def rows_at(place: Any) -> LayerRows:
            rows = LayerRows(place)
            stack.callback(rows.abort)
            return rows

        for name in self.degrees.kinds:
            self.show.phase("degrees")
            rows = rows_at(inner.place)
            self._count_degrees(name, rows)
            self.view.put(name, tensors(rows))
        kept: list[LayerRows] = []
        stack.enter_context(self.degrees.used())
        total = len(self.layers.layers)
        for number, layer in enumerate(self.layers.layers):
            last = number + 1 == total and self.layers.head is None
            rows = rows_at(target.place if last else inner.place)
            self.show.phase(f"layer {number + 1} of {total}")
            self._compute(layer, rows)
            if last:
                return rows
            self.view.put("x", tensors(rows))
            if kept and self.layers.head is None:
                kept.pop().abort()
            kept.append(rows)
        rows = rows_at(target.place)
        self.show.phase("all layers together")
        self._join(kept, rows)
        return rows

    def _count_degrees(self, name: str, rows: LayerRows) -> None:
        weight = self.view.asked.get("edge_weight")
        for begin, n, batch in self.view.batches(None, self.size):
            values = None if weight is None else batch[weight]
            degree = self.degrees.count(name, batch.edge_index, values, batch.num_nodes)
            rows.write(None, begin, *host_rows(degree[:n]), self.view.num_nodes[None])
            self.show.update(begin + n, self.view.num_nodes[None], " nodes")

    def _compute(self, layer: Any, rows: LayerRows) -> None:
        done, total = 0, sum(self.view.num_nodes.values())
        for t in self.view.node_types:
            for begin, n, batch in self.view.batches(t, self.size):
                found = (
                    self._of_types(layer, batch, t, n) if self.view.hetero else self._of_one(layer, batch, n)
                )
                if found is not None:
                    rows.write(t, begin, *host_rows(found), self.view.num_nodes[t])
                done += n
                self.show.update(done, total, " nodes")

    def _of_one(self, layer: Any, batch: Any, n: int) -> Tensor:
        edges = {k: batch[name].to(self.device) for k, name in self.view.asked.items()}
        self.degrees.of_batch(batch, self.device)
        return layer(batch.x.to(self.device), batch.edge_index.to(self.device), edges, n)

    def _of_types(self, layer: Any, batch: Any, t: Any, n: int) -> Tensor | None:
        x = {s: batch[s].x.to(self.device) for s in self.view.node_types if "x" in batch[s]}
        types: list[Any] = [e for e in self.view.edge_types if e and e[0] in x and e[2] in x]
        ends = {e: batch[e].edge_index.to(self.device) for e in types}
        edges = {
            f"{k}_dict": {e: batch[e][name].to(self.device) for e in types}
            for k, name in self.view.asked.items()
        }
        if t not in x:
            return None
        return layer(x, ends, edges, {t: n}).get(t)

    def _join(self, kept: list[LayerRows], rows: LayerRows) -> None:
        """The head of the model, row by row; homogeneous, as all models that have one."""
        assert self.layers.head is not None
        total = self.view.num_nodes[None]
        every = [tensors(layer)[None] for layer in kept]
        for begin in range(0, total, self.size):
            part = slice(begin, min(begin + self.size, total))
            found = self.layers.head([x[part].to(self.device) for x in every])
            rows.write(None, begin, *host_rows(found), total)
            self.show.update(part.stop, total, " nodes")
