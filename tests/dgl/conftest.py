"""Fixtures of the DGL tests: graphs in memory beside the same graphs in a store."""

from __future__ import annotations

import itertools
import warnings

import pytest

pytest.importorskip("dgl")

import gz_dgl

# DGL advises CPU affinity at every iteration of a loader without workers.
warnings.filterwarnings("ignore", "Dataloader CPU affinity opt is not enabled")


@pytest.fixture
def on_disk(tmp_path):
    """Saves a DGLGraph and loads it back."""
    number = itertools.count()

    def save_and_load(g, **options):
        path = tmp_path / f"store{next(number)}"
        gz_dgl.save(g, path)
        return gz_dgl.load(path, **options)

    return save_and_load
