"""prefetch under the governor: where there is no room no batch is begun ahead, and its books are right."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from prefetch_batches import flat, same
from torch_geometric import seed_everything
from waits import background, ended

import gz_pyg
from gz._base import batches_ahead


def test_where_memory_is_short_fewer_batches_are_made_ahead(homo, monkeypatch):
    told = []

    def run(room, depth=3):
        governor = SimpleNamespace(
            room_ahead=lambda size, known: told.append((size, known)) or room(size),
            change_ahead=lambda *change: held.append(change),
        )
        held = []
        monkeypatch.setattr(batches_ahead, "_engine", governor)
        seed_everything(3)
        iterator = iter(gz_pyg.NeighborLoader(homo, [4, 3], batch_size=16, shuffle=True, prefetch=depth))
        batches, begun = [], []
        for batch in iterator:
            batches.append(batch)
            begun.append(len(iterator._waiting))
        assert [sum(parts) for parts in zip(*held, strict=True)] == [0, 0, 0]  # nothing is left on the books
        return batches, begun

    want, begun = run(lambda size: True)
    assert begun[0] == 3
    batches, begun = run(lambda size: False)
    assert set(begun) == {0}
    same(batches, want)
    sizes = [sum(v.nbytes for v in flat(b).values() if isinstance(v, torch.Tensor)) for b in want]
    told.clear()
    run(lambda size: True)
    assert told[0] == (0, False)
    assert told[-1] == (max(sizes), True)


def test_an_iteration_that_is_dropped_leaves_nothing_on_the_books(homo, monkeypatch):
    held = []
    governor = SimpleNamespace(room_ahead=lambda *_: True, change_ahead=lambda *change: held.append(change))
    monkeypatch.setattr(batches_ahead, "_engine", governor)
    for _ in gz_pyg.NeighborLoader(homo, [4, 3], batch_size=16, prefetch=3):
        break
    ended(background())
    assert [sum(parts) for parts in zip(*held, strict=True)] == [0, 0, 0]
