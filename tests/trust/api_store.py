"""The store that the public functions are tried on, and what is asked of their answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from graphs import group_edges
from hypothesis import settings

import gz

N, E = 50, 400
RNG = np.random.default_rng(0)
SRC, DST = RNG.integers(0, N, (2, E))
X = RNG.random((N, 3), dtype=np.float32)
KEYS = np.arange(N) * 1000 - 20_000
REFUSED = (TypeError, ValueError, IndexError, KeyError, OSError, MemoryError, OverflowError)
few = settings(max_examples=max(10, settings().max_examples // 4))


def make(folder: Path) -> Path:
    gz.ingest(
        folder / "s",
        edges=(KEYS[SRC], KEYS[DST]),
        nodes=KEYS,
        ids="map",
        features={"x": X},
        edge_features={"w": np.ones(E, np.float32)},
        weight="w",
        splits={"train": KEYS[:5]},
        directions="both",
        keep_edge_ids=True,
    )
    return folder / "s"


LISTS = group_edges(SRC, DST, N, sort_lists=True)


def says_something(error: Exception) -> None:
    assert str(error), "an error without a word"


def right_or_refused(call: Callable[[], Any], meant: Any, check: Callable[[Any], None]) -> None:
    """`meant` None: there is no right answer. A refusal says something."""
    refusal = None
    try:
        got = call()
    except REFUSED as error:
        refusal = error
    if refusal is not None:
        assert meant is None, f"{meant!r} was refused: {refusal!r}"
        says_something(refusal)
        return
    assert meant is not None, f"taken for {got!r}"
    check(got)
