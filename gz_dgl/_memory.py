"""The limit on what an operation may build in memory because DGL works on whole arrays."""

from __future__ import annotations

from gz_dgl._dgl import DGLError

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def parse(memory: str | int) -> int:
    """Bytes from "2GB", "512 MiB" or a number."""
    if isinstance(memory, int) and not isinstance(memory, bool) and memory >= 0:
        return memory
    text = str(memory).strip().upper()
    for unit in sorted(_UNITS, key=len, reverse=True):
        if text.endswith(unit):
            try:
                return int(float(text[: -len(unit)]) * _UNITS[unit])
            except ValueError:
                break
    raise ValueError(f"memory is {memory!r}; give bytes, or text such as '2GB'")


def check(limit: int, needed: int, what: str, instead: str) -> None:
    """Refuses to build `needed` bytes of `what` past the limit, and names what to do instead."""
    if needed > limit:
        raise DGLError(
            f"{what} would take {needed / 1e9:.1f} GB of memory; the limit is {limit / 1e9:.1f} GB. "
            f"{instead} "
            f"Or raise the limit: gz_dgl.load(path, memory='{-(-needed // 10**9)}GB')."
        )
