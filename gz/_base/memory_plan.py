"""How much memory is free, and who gets it: which files are held as a whole, which columns have a row cache.

Topology comes first, because every hop needs two dependent reads of it and it is small beside features; then
columns, those with small rows before the others, as long as they fit; then, of columns that do not, the rows
that are read most, where a store has them in files of their own (gz.reorder). Where it has its lists that are
sampled most in such files, too, and with the topology held some of those rows would find no place, the copied
lists are held instead of the topology. What does not fit is read with deep queues: columns through a row
cache, topology through the page cache. How large a row cache is at any moment is up to the governor
(csrc/memory). docs/design.md has the measurements.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gz import _engine
from gz._base.sizes import amount, parse_memory

# Of the free memory, what files that are held leave to the training script. They are page cache, which the
# kernel takes back when the script needs more.
_FOR_THE_SCRIPT = 0.35
# Of what is left, for rows that are read most where the topology, which is read too, has no place as a whole.
# None where it is larger than all that is free: its pages come and go, and take those of the rows along.
_BESIDE_TOPOLOGY = 0.4
AUTO = (1 << 64) - 1  # as the size of a row cache: what the governor allows


def free_ram() -> int:
    """Bytes that can be taken without swapping; page cache, which the kernel gives up, counts as free."""
    return _engine.free_memory()


def check_fits(needed: int, what: str, instead: str) -> None:
    """Refuses with MemoryError what would not fit."""
    free = free_ram()
    if needed > free:
        raise MemoryError(
            f"{what} would take {amount(needed)} of memory, and {amount(free)} are free; {instead}"
        )


@dataclass(frozen=True)
class Part:
    """One file that competes for memory."""

    key: Any
    bytes: int
    row_bytes: int = 0  # 0: a topology
    hot_of: Any = None  # the key of the file of which it holds rows or lists that are read most, once more


@dataclass(frozen=True)
class Share:
    """What a file gets: `held` as a whole in memory, or a row cache of at most `cache` bytes, or neither.

    A column that is held has its row cache in reserve, for when it turns out not to fit.
    """

    held: bool = False
    cache: int = 0

    def __str__(self) -> str:
        if self.held:
            return "held in memory"
        if self.cache == AUTO:
            return "row cache as memory allows"
        return f"row cache of at most {amount(self.cache)}" if self.cache else "read in deep queues"


def parse_cache(cache: str | int) -> int | None:
    """Bytes, or None for "auto"."""
    if isinstance(cache, str) and cache.strip().lower() == "auto":
        return None
    if isinstance(cache, str | int) and not isinstance(cache, bool):
        with suppress(ValueError):
            return parse_memory(cache, least=0)
    raise ValueError(f"cache is {cache!r}; give 'auto', 0, a number of bytes, or text such as '4GB'")


def divide(parts: list[Part], cache: int | None, free: int | None = None) -> dict[Any, Share]:
    """Divides the free memory (found out when not given) among `parts`. `cache`: bytes, or None for auto."""
    free = free_ram() if free is None else free
    room = int(free * (1 - _FOR_THE_SCRIPT)) - (cache or 0)
    whole = [p for p in parts if p.hot_of is None]
    rows = [p for p in parts if p.hot_of is not None and p.row_bytes]
    copied = {p.hot_of for p in parts if p.hot_of is not None and not p.row_bytes}
    held = _held(whole, rows, room, free)
    copies = [p for p in parts if p.hot_of in copied]
    if copies:  # what is sampled most first; of the other topologies none that had no place before
        others = [p for p in whole if p.key not in copied]
        kept = [p for p in others if p.row_bytes or p.key in held]
        read = sum(p.bytes for p in others if p not in kept)
        instead = _held([*copies, *kept], rows, room, free, read)
        if all(p.key in instead for p in copies) and _better(parts, copied, held, instead):
            held = instead
    columns = [p for p in whole if p.row_bytes]
    caching = [p for p in columns if p.key not in held] or columns
    total = max(1, sum(p.bytes for p in caching))
    sizes = {p.key: AUTO if cache is None else cache * p.bytes // total for p in caching}
    return {p.key: Share(p.key in held, sizes.get(p.key, 0)) for p in parts}


def _better(parts: list[Part], copied: set[Any], held: set[Any], instead: set[Any]) -> bool:
    """Whether copies of lists, held instead of their topologies, leave more room for rows that are read most;
    or have a place where some of the topologies had none, at no cost of such rows."""

    def rows(of: set[Any]) -> int:
        return sum(p.bytes for p in parts if p.row_bytes and (p.key in of or p.hot_of in of))

    return rows(instead) > rows(held) or (rows(instead) == rows(held) and not copied <= held)


def _held(whole: list[Part], rows: list[Part], room: int, free: int, read: int = 0) -> set[Any]:
    """What is held of `whole` files, and of those with the rows of others that are read most. `read`: bytes
    of topologies besides that are not held whatever the room."""
    held: set[Any] = set()
    for part in sorted(whole, key=lambda p: p.row_bytes):
        if part.bytes <= room:
            held.add(part.key)
            room -= part.bytes
    if lists := read + sum(p.bytes for p in whole if p.row_bytes == 0 and p.key not in held):
        room = int(room * _BESIDE_TOPOLOGY) if lists <= free else 0
    full: set[Any] = set()  # columns of which no more is held
    for part in rows:
        if part.hot_of in held or part.hot_of in full:
            continue
        if part.bytes <= room:
            held.add(part.key)
            room -= part.bytes
        else:
            full.add(part.hot_of)
    return held
