"""Who gets the memory: which files are held in it as a whole, and how much is for the row cache.

Topology comes first, because every hop needs two dependent reads of it and it is small beside features; then
columns, those with small rows before the others, as long as they fit. What does not fit is read with deep
queues: columns through a row cache, topology through the page cache. docs/design.md has the measurements.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gz._ram import free_ram
from gz._sizes import parse_memory

# Of the free memory, what is left to the training script: batches, the model, its gradients. What is held
# is page cache, which the kernel takes back when the script needs more; the row cache is not, so it leaves
# at least the second: without that, training under 2 GiB was killed (docs/design.md).
_FOR_THE_SCRIPT = 0.35
_AT_LEAST_FOR_THE_SCRIPT = 1 << 30
# Where the topology does not fit, the part of the room that the row cache leaves to its pages.
_FOR_TOPOLOGY = 0.6


@dataclass(frozen=True)
class Part:
    """One file that competes for memory."""

    key: Any
    bytes: int
    row_bytes: int = 0  # 0: a topology


@dataclass(frozen=True)
class Share:
    """What a file gets: `held` as a whole in memory, or `cache` bytes of row cache, or neither."""

    held: bool = False
    cache: int = 0

    def __str__(self) -> str:
        if self.held:
            return "held in memory"
        return f"row cache of {self.cache / 1e9:.2f} GB" if self.cache else "read in deep queues"


def parse_cache(cache: str | int) -> int | None:
    """Bytes, or None for "auto"."""
    if isinstance(cache, str) and cache.strip().lower() == "auto":
        return None
    if isinstance(cache, str | int) and not isinstance(cache, bool):
        with suppress(ValueError):
            return parse_memory(cache, least=0)
    raise ValueError(f"cache is {cache!r}; give 'auto', 0, a number of bytes, or text such as '4GB'")


def _workers() -> int:
    """How many processes like this one there are: a DataLoader's workers. What is held they share anyway."""
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data else None
    return info.num_workers if info else 1


def divide(parts: list[Part], cache: int | None, free: int | None = None) -> dict[Any, Share]:
    """Divides the free memory (found out when not given) among `parts`. `cache`: bytes, or None for auto."""
    free = free_ram() if free is None else free
    room = int(free * (1 - _FOR_THE_SCRIPT)) - (cache or 0)
    shares: dict[Any, Share] = {}
    large: list[Part] = []
    topology_fits = True
    for part in sorted(parts, key=lambda p: p.row_bytes):
        if part.bytes <= room:
            shares[part.key] = Share(held=True)
            room -= part.bytes
        elif part.row_bytes == 0:
            shares[part.key] = Share()
            topology_fits = False
        else:
            large.append(part)
    if cache is None:
        room -= max(0, _AT_LEAST_FOR_THE_SCRIPT - int(free * _FOR_THE_SCRIPT))
        cache = max(0, int(room if topology_fits else room * (1 - _FOR_TOPOLOGY)))
    cache //= _workers()
    total = sum(p.bytes for p in large)
    for part in large:
        shares[part.key] = Share(cache=cache * part.bytes // total)
    return shares
