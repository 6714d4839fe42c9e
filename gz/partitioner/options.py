"""What a partitioning is asked for, checked, and the key that says from what it is made."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gz.partitioner.assign import MOST_PARTS
from gz.partitioner.whole import Whole

METHODS = ("metis", "fennel", "random", "range", "file")


@dataclass(frozen=True)
class Options:
    """See gz_dgl.partition."""

    parts: int
    method: str = "fennel"
    assignment: Mapping[str | None, Any] | None = None
    balance: str | None = "train"
    balance_edges: bool = True
    passes: int = 8
    rng_seed: int = 0
    memory: int = 2 * 10**9
    tmp: str | os.PathLike[str] | None = None
    overwrite: bool = False
    check_disk: bool = True
    progress: bool | None = None

    def check(self, whole: Whole) -> None:
        if not 1 <= self.parts <= MOST_PARTS:
            raise ValueError(f"parts is {self.parts}; give 1 to {MOST_PARTS}")
        if self.parts > whole.num_nodes:
            what = f"has {whole.num_nodes} nodes, which cannot make {self.parts} parts"
            raise ValueError(f"{whole.store.path}: {what}")
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r}: choose one of {', '.join(METHODS)}")
        if (self.assignment is not None) != (self.method == "file"):
            raise ValueError("an assignment goes with method='file' (--assignment FILE), and that with one")
        if self.passes < 1:
            raise ValueError(f"passes is {self.passes}; give 1 or more")


class Keys:
    """All phases are made from the same: the store, the options and the framework."""

    def __init__(self, whole: Whole, options: Options, writer: str):
        m = whole.store.manifest
        told: list[Any] = [writer, whole.store.path, m.generation, whole.ntypes]
        told += [[list(t) for t in whole.etypes], [whole.store.num_nodes(t) for t in whole.ntypes]]
        told += [sorted(map(str, m.nodes.items())), str(m.edges), options.parts, options.method]
        told += [options.balance, options.balance_edges, options.passes, options.rng_seed]
        told.append(_given(options.assignment))
        self._key = hashlib.sha256(json.dumps(told).encode()).hexdigest()

    @property
    def in_memory(self) -> bool:
        return False

    def of(self, phase: str) -> str | None:
        del phase
        return self._key


def _given(given: Mapping[str | None, Any] | None) -> list[Any]:
    out: list[Any] = []
    for t, value in (given or {}).items():
        if isinstance(value, str | os.PathLike):
            found = os.stat(value)
            out.append([t, os.path.abspath(value), found.st_size, found.st_mtime_ns])
        else:
            out.append([t, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()])
    return out
