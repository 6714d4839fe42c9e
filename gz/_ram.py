"""How much memory there is to load things into."""

from __future__ import annotations

from pathlib import Path

_GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def free_ram() -> int:
    """Bytes that can be allocated without swapping: the machine's, or a container's if that is less."""
    free = 1 << 62
    try:
        with open("/proc/meminfo") as f:
            free = next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        pass
    for limit, usage in _GROUPS:
        try:
            free = min(free, int(Path(limit).read_text()) - int(Path(usage).read_text()))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return max(0, free)


def check_fits(needed: int, what: str, instead: str) -> None:
    """Refuses with MemoryError what would not fit."""
    free = free_ram()
    if needed > free:
        raise MemoryError(
            f"{what} would take {needed / 1e9:,.1f} GB of memory, and {free / 1e9:,.1f} GB are free; "
            + instead
        )
