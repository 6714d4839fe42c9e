"""How much memory there is to use: the machine's, or what the cgroups of this process leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def free_ram() -> int:
    """Bytes that can be taken without swapping; page cache, which the kernel gives up, counts as free."""
    free = _of_the_machine("MemAvailable")
    for group, names in _groups():
        limit, usage, cached = (_read(group, names[0]), _read(group, names[1]), _cached(group, names[2]))
        if limit is not None and usage is not None:
            free = min(free, limit - usage + cached)
    return max(0, free)


def usable_ram() -> int:
    """Bytes this process could have at most: the machine's memory, or its cgroups' limit."""
    limits = (_read(group, names[0]) for group, names in _groups())
    return min([_of_the_machine("MemTotal"), *(limit for limit in limits if limit is not None)])


def check_fits(needed: int, what: str, instead: str) -> None:
    """Refuses with MemoryError what would not fit."""
    free = free_ram()
    if needed > free:
        raise MemoryError(
            f"{what} would take {needed / 1e9:,.1f} GB of memory, and {free / 1e9:,.1f} GB are free; "
            + instead
        )


def _of_the_machine(field: str) -> int:
    """Of /proc/meminfo, in bytes; more than any machine has where it cannot be read."""
    try:
        with open("/proc/meminfo") as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith(field))
    except (OSError, StopIteration):
        return 1 << 62


_V2 = ("memory.max", "memory.current", ("active_file", "inactive_file"))
_V1 = (
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_active_file", "total_inactive_file"),
)


def _groups() -> Iterator[tuple[Path, tuple[str, str, tuple[str, str]]]]:
    """The memory cgroups this process is in, innermost first, with the names of their files."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers == "":
            root, files = Path("/sys/fs/cgroup"), _V2
        elif "memory" in controllers.split(","):
            root, files = Path("/sys/fs/cgroup/memory"), _V1
        else:
            continue
        group = root / name.lstrip("/")
        while True:
            yield group, files
            if group == root or root not in group.parents:
                break
            group = group.parent


def _read(group: Path, name: str) -> int | None:
    try:
        return int((group / name).read_text())
    except (OSError, ValueError):  # no such group, or "max"
        return None


def _cached(group: Path, names: tuple[str, str]) -> int:
    try:
        lines = (group / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(value) for key, _, value in (line.partition(" ") for line in lines) if key in names)
