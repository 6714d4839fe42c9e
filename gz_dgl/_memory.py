"""The limit on what an operation may build in memory because DGL works on whole arrays."""

from __future__ import annotations

from gz.adapter import amount
from gz_dgl._dgl import DGLError


def check(limit: int, needed: int, what: str, instead: str) -> None:
    """Refuses to build `needed` bytes of `what` past the limit, and names what to do instead."""
    if needed > limit:
        raise DGLError(
            f"{what} would take {amount(needed)} of memory; the limit is {amount(limit)}. "
            f"{instead} "
            f"Or raise the limit: gz_dgl.load(path, memory='{-(-needed // 10**9)}GB')."
        )
