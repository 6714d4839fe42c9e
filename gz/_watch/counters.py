"""What a store has counted so far, summed over its files; and what happened between two such readings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Counters:
    """Growing numbers, but for the cache's sizes, which are what they are now."""

    mapped: int = 0  # rows copied from memory that a file is mapped to
    hits: int = 0  # rows found in the row cache
    misses: int = 0  # rows read
    reads: int = 0  # of rows and of lists
    bytes_read: int = 0
    read_seconds: float = 0.0  # of all reads, as if one had followed the other
    list_reads: int = 0  # of these, those of topologies
    list_bytes: int = 0
    cache_bytes: int = 0
    cached_rows: int = 0
    held_bytes: int = 0  # of topologies, copied into huge pages

    @classmethod
    def of(cls, files: Iterable[Mapping[str, Any]]) -> Counters:
        """Of ``stats()`` of columns and topologies."""
        total = dict.fromkeys((f.name for f in fields(cls)), 0)
        for f in files:
            for name in ("mapped", "hits", "misses", "reads", "bytes_read", "read_seconds", "cache_bytes"):
                total[name] += f.get(name, 0)
            total["cached_rows"] += f.get("cached_rows", 0)
            if "misses" not in f:
                total["list_reads"] += f.get("reads", 0)
                total["list_bytes"] += f.get("bytes_read", 0)
                total["held_bytes"] += f.get("held", 0)
        return cls(**total)

    @property
    def rows(self) -> int:
        return self.mapped + self.hits + self.misses


def rates(then: Mapping[str, Any], now: Mapping[str, Any], seconds: float) -> dict[str, float | None]:
    """Of two readings of ``as_dict`` and the batches, so many seconds apart. None where nothing happened."""

    def grew(name: str) -> float:
        return max(0.0, (now.get(name) or 0) - (then.get(name) or 0))

    rows = grew("mapped") + grew("hits") + grew("misses")
    reads = grew("reads")
    passed = max(seconds, 1e-9)
    return {
        "batches_per_second": grew("batches") / passed,
        "miss_rate": grew("misses") / rows if rows else None,
        # A process that reads by other means than gz: what the kernel read for it.
        "bytes_per_second": grew("bytes_read" if "bytes_read" in now else "read") / passed,
        "reads_per_second": reads / passed,
        "read_latency": grew("read_seconds") / reads if reads else None,
    }
