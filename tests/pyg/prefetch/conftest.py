"""Batches are made ahead as asked for, however much memory the machine has left."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _enough_memory(room_ahead):
    pass
