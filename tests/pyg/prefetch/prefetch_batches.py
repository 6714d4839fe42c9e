"""Comparing batches."""

from __future__ import annotations

import torch

DEPTHS = [0, 1, 2, 4]


def flat(batch):
    """Every tensor and number of a mini-batch, by name."""
    found = {}
    for store in batch.stores:
        for key, value in store.items():
            found[store._key if hasattr(store, "_key") else None, key] = value
    return found


def same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        x, y = flat(x), flat(y)
        assert x.keys() == y.keys()
        for key in x:
            if isinstance(x[key], torch.Tensor):
                assert torch.equal(x[key], y[key]), key
            else:
                assert x[key] == y[key], key
