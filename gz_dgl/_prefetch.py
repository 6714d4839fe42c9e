"""prefetch: reads the features of DGL's next batches while the model trains.

DGL's DataLoader starts to read a batch's features and then waits for them; only for a GPU does it have a
thread that does so ahead of time. prefetch() takes the same steps, DGL's own functions, but waits later: a
batch is sampled and its reads are started while the one before it is still to be trained on.

Sampling stays in the caller's thread. DGL's samplers draw from generators that belong to the process (torch,
numpy) or to a thread (DGL's), so in another thread they would race with the model's dropout or lose their
seed. Instead every batch is named by its number (gz_dgl/_random.py), which makes what is drawn for it
independent of how far ahead that happens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from gz.adapter import BatchesAhead, BatchSizes, tensor_bytes
from gz_dgl import _random


class Prefetched:
    """A DataLoader whose batches come with their features read ahead. Made by ``gz_dgl.prefetch``."""

    def __init__(self, loader: Any, batches: int):
        self.loader, self.batches = loader, batches
        self._sizes = BatchSizes()

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        epoch = _random.next_seed()
        source = iter(self.loader)
        if getattr(source, "use_thread", False):
            return source  # DGL has a thread of its own for it
        return self._run(epoch, source)

    def _run(self, epoch: int, source: Any) -> Iterator[Any]:
        waiting: deque[_Batch] = deque()
        memory = BatchesAhead(self.batches, self._sizes)
        number, more = 0, True
        while True:
            # One more than asked for while the oldest is about to be handed out.
            while more and len(waiting) <= self.batches and (not waiting or memory.may_begin()):
                number += 1
                batch = _Batch(self.loader, memory)
                with _random.named_batch(epoch, number):
                    more = batch.start(source.dataloader_it)
                if more:
                    waiting.append(batch)
                del batch  # or the last one begun would live until the next is
            if not waiting:
                memory.close()
                return
            yield waiting.popleft().take()


class _Batch:
    def __init__(self, loader: Any, memory: BatchesAhead):
        self._loader = loader
        self._memory, self._counted = memory, memory.begin()
        self._sampled: Any = None
        self._features: Any = None
        self._error: Exception | None = None

    def start(self, sampled: Iterator[Any]) -> bool:
        """Samples it and starts its reads; False at the end. An error is kept for take()."""
        dgl = _steps()
        try:
            batch = next(sampled)
            batch = dgl.recursive_apply(batch, dgl.restore_parent_storage_columns, self._loader.graph)
            self._features = dgl.recursive_apply(batch, dgl._prefetch_for, self._loader)
            self._sampled = batch
            self._memory.made(self._counted, self._counted.begun)  # its rows are being read into new memory
        except StopIteration:
            self._memory.taken(self._counted)
            return False
        except Exception as error:
            self._error = error
        return True

    def take(self) -> Any:
        if self._error is not None:
            self._memory.taken(self._counted)
            raise self._error
        dgl, device = _steps(), self._loader.device
        features = dgl.recursive_apply(self._features, dgl._await_or_return)
        self._memory.made(self._counted, _bytes(features))
        self._memory.taken(self._counted)
        batch = dgl.recursive_apply(self._sampled, lambda x: x.to(device, non_blocking=True))
        self._features = self._sampled = None
        return dgl.recursive_apply_pair(batch, features, dgl._assign_for)


def _bytes(features: Any) -> int:
    """Of what DGL's functions have fetched for a batch: for each graph of it its features by name."""
    if isinstance(features, list | tuple):
        return sum(map(_bytes, features))
    return tensor_bytes([getattr(features, part, None) for part in ("node_feats", "edge_feats")])


def _steps() -> Any:
    """The functions DGL's own iteration is made of. Imported late: nothing else needs DGL's loaders."""
    from dgl.dataloading import dataloader

    return dataloader


def prefetch(loader: Any, batches: int = 2) -> Prefetched:
    """The batches of a ``dgl.dataloading.DataLoader``, the features of the next ones read in the background.

        for input_nodes, output_nodes, blocks in gz_dgl.prefetch(loader): ...

    Args:
        loader: DGL's DataLoader on a graph from ``gz_dgl.load``. Its features to read ahead are those its
            sampler names (``prefetch_node_feats``, ``prefetch_labels``, ...).
        batches: how many batches ahead; 0 for none. The batches are the same whatever it is.
    """
    if not isinstance(batches, int) or isinstance(batches, bool) or batches < 0:
        raise ValueError(f"batches is {batches!r}; give the number of batches to read ahead, or 0")
    return Prefetched(loader, batches)
