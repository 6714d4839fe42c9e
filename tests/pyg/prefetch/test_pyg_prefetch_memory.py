"""prefetch under the governor: where there is no room no batch is begun ahead, and its books are right."""

from __future__ import annotations

import random
from itertools import accumulate
from types import SimpleNamespace

import torch
from prefetch_batches import flat, same
from torch_geometric import seed_everything
from waits import background, ended

import gz_pyg
from gz._base import batches_ahead


def test_where_memory_is_short_fewer_batches_are_made_ahead(homo, monkeypatch):
    told, made = [], []

    def run(room, depth=3):
        governor = SimpleNamespace(
            room_ahead=lambda size, known: told.append((size, known)) or room(size),
            change_ahead=lambda *change: held.append(change),
        )
        held = []
        monkeypatch.setattr(batches_ahead, "_engine", governor)
        seed_everything(3)
        loader = gz_pyg.NeighborLoader(homo, [4, 3], batch_size=16, shuffle=True, prefetch=depth)
        made.clear()
        sample = loader._sample
        loader._sample = lambda index: made.append(None) or sample(index)
        iterator = iter(loader)
        batches, ahead = [], []
        for batch in iterator:
            batches.append(batch)
            for task in iterator._waiting:
                task.wait()
            ahead.append(len(made) - len(batches))
        assert [sum(parts) for parts in zip(*held, strict=True)] == [0, 0, 0]  # nothing is left on the books
        return batches, ahead

    want, ahead = run(lambda size: True)
    assert ahead == [3, 3, 3, 3, 2, 1, 0]
    batches, ahead = run(lambda size: False)
    assert set(ahead) == {0}
    same(batches, want)
    chance = random.Random(7)
    batches, _ = run(lambda size: chance.random() < 0.5)  # what was put off is made in its turn
    same(batches, want)
    batches, ahead = run(lambda size: len(made) > 2)  # and ahead again, once there is room
    assert ahead == [0, 0, 3, 3, 2, 1, 0]
    same(batches, want)
    sizes = [sum(v.nbytes for v in flat(b).values() if isinstance(v, torch.Tensor)) for b in want]
    told.clear()
    run(lambda size: True)
    assert told[0] == (0, False)
    assert told[-1] == (max(sizes), True)


def test_a_batch_is_there_for_the_governor_while_its_rows_are_read(homo, monkeypatch):
    """Else what they take would count as the script's, whose peaks are remembered."""
    held, seen, sizes = [], [], []
    governor = SimpleNamespace(room_ahead=lambda *_: True, change_ahead=lambda *change: held.append(change))
    monkeypatch.setattr(batches_ahead, "_engine", governor)
    loader = gz_pyg.NeighborLoader(homo, [4, 3], batch_size=16, prefetch=1)
    joined = loader._joined

    def join(*args):
        seen.append(tuple(map(sum, zip(*held, strict=True))))
        return joined(*args)

    loader._joined = join
    for batch in loader:
        sizes.append(sum(v.nbytes for v in flat(batch).values() if isinstance(v, torch.Tensor)))
    expected = [0, *accumulate(sizes, max)][:-1]  # nobody knows how large the first will be
    assert [(begun, there) for _, begun, there in seen] == [(0, size) for size in expected]


def test_an_iteration_that_is_dropped_leaves_nothing_on_the_books(homo, monkeypatch):
    held = []
    governor = SimpleNamespace(room_ahead=lambda *_: True, change_ahead=lambda *change: held.append(change))
    monkeypatch.setattr(batches_ahead, "_engine", governor)
    for _ in gz_pyg.NeighborLoader(homo, [4, 3], batch_size=16, prefetch=3):
        break
    ended(background())
    assert [sum(parts) for parts in zip(*held, strict=True)] == [0, 0, 0]
