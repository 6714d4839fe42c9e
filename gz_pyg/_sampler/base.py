"""EngineSampler: what every sampler of gz is: a graph as it is now, to be sampled by the engine."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import BaseSampler

import gz
from gz import adapter
from gz_pyg._edges import StoreEdges
from gz_pyg._random import in_batch
from gz_pyg._source.protocol import EdgeKey, NodeKey, SampleGraph, Source, State, Wanted

_threads_set_in: int | None = None  # the worker process whose share of the threads has been set


def share_threads() -> None:
    """In a DataLoader worker, takes this worker's share of the threads; once per process."""
    global _threads_set_in
    info = torch.utils.data.get_worker_info()
    if info is None or _threads_set_in == os.getpid():
        return
    share = gz.num_threads() // info.num_workers
    # torch has one thread in a worker unless the user asked for more (PyG: enable_multithreading).
    gz.set_num_threads(max(1, share, torch.get_num_threads()))
    _threads_set_in = os.getpid()


class EngineSampler(BaseSampler):
    """A sampler over a ``Source``. Its subclasses say what is drawn.

    Edges, times or weights written over those of a store count from the next sample on; in a loader, from
    the next epoch on.
    """

    def __init__(self, source: Source, wanted: Wanted):
        self._data_source, self._wanted = source, wanted
        self._made_of: State | None = None
        self._edge_types: list[adapter.SampleEdgeType] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_edge_types": None, "_made_of": None}

    def _build(self) -> None:
        """What is sampled, as the data is now."""
        self._data_source.check()
        self._made_of = self._data_source.sampling_state(self._wanted)
        self._source: SampleGraph = self._data_source.sample_graph(self._wanted)
        self._types = list(self._source.num_nodes)
        self._edge_types = None

    def refresh(self) -> None:
        """Takes in what was written to the data since. Loaders do so when an epoch begins."""
        now = self._data_source.sampling_state(self._wanted)
        if self._made_of is None:  # it came with a pickle, together with the data
            self._made_of = now
        elif now is not None and now != self._made_of:
            self._build()

    def _look(self) -> None:
        if not in_batch():  # else an epoch is under way, which goes on as it began
            self.refresh()

    @property
    def is_hetero(self) -> bool:
        """Whether there are several types."""
        return self._source.is_hetero

    @property
    def node_types(self) -> list[NodeKey]:
        """Their names; ``[None]`` where there is one without."""
        return self._types

    @property
    def edge_types(self) -> list[EdgeKey]:
        """Their names; ``[None]`` where there is one without."""
        return list(self._source.edges)

    @property
    def num_nodes(self) -> Any:
        """Nodes; by type where there are several."""
        return self._source.num_nodes if self.is_hetero else self._source.num_nodes[None]

    @property
    def edge_permutation(self) -> Any:
        """Original edge id by ``SamplerOutput.edge``; None where they are the same."""
        permutations = {t: e.permutation for t, e in self._source.edges.items()}
        return permutations if self.is_hetero else permutations[None]

    @property
    def stored_edge_types(self) -> list[EdgeKey]:
        """Types whose ``SamplerOutput.edge`` are rows of the store's edge columns."""
        return [t for t, e in self._source.edges.items() if isinstance(e, StoreEdges)]

    def _engine_seeds(self, t: NodeKey, seed: Tensor, time: Any = None) -> adapter.SampleSeeds:
        if t not in self._source.num_nodes:
            raise ValueError(f"no node type {t!r}; there are {self._types}")
        return adapter.SampleSeeds(self._types.index(t), adapter.host_ids(torch.as_tensor(seed)), time)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}()"
