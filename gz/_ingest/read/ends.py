"""Which columns of a table name the ends of an edge, or a node: by their names, or by saying so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gz._engine import InputError

SOURCE_NAMES = {
    *("src", "source", "src_id", "source_id", "from", "from_id", "u", "head", "start"),
    *("node1", "node_1", "citing", "fromnodeid", "from_node", "src_node", "source_node"),
}
TARGET_NAMES = {
    *("dst", "dest", "destination", "target", "dst_id", "target_id", "to", "to_id", "v", "tail", "end"),
    *("node2", "node_2", "cited", "tonodeid", "to_node", "dst_node", "target_node"),
}


class EndsUnknown(InputError):
    """The names of a table's columns do not tell which are the ends of an edge."""


ID_NAMES = {"id", "node", "node_id", "nodeid", "name"}


def named_ends(names: Sequence[str], types: tuple[str, str] = ("", "")) -> list[int] | None:
    """Where the source and the destination stand, if exactly one column is called so; or if the columns are
    called as the two node types are."""
    lower = [n.strip().lower() for n in names]
    src = [i for i, n in enumerate(lower) if n in SOURCE_NAMES]
    dst = [i for i, n in enumerate(lower) if n in TARGET_NAMES]
    if len(src) == 1 and len(dst) == 1:
        return [src[0], dst[0]]
    a, b = (t.lower() for t in types)
    if a != b:
        first = [i for i, n in enumerate(lower) if n in (a, f"{a}_id")]
        second = [i for i, n in enumerate(lower) if n in (b, f"{b}_id")]
        if len(first) == 1 and len(second) == 1:
            return [first[0], second[0]]
    return None


def find_ends(names: Sequence[str], types: tuple[str, str], where: str) -> list[int]:
    """As `named_ends`; where the names do not tell, an error that shows both readings."""
    found = named_ends(names, types)
    if found is not None:
        return found
    if len(names) < 2:
        raise InputError(f"{where}: has the column {', '.join(names) or 'of nothing'}; an edge needs two")
    a, b = names[0], names[1]
    raise EndsUnknown(
        f"{where}: which columns are the two ends of an edge? It has {', '.join(names)}, and none are called "
        f"src and dst.\n"
        f'  {a} -> {b}: ends=["{a}", "{b}"]  (--ends {a},{b})\n'
        f'  {b} -> {a}: ends=["{b}", "{a}"]  (--ends {b},{a})'
    )


def find_id(names: Sequence[str], given: Any, where: str) -> int:
    """The column that names the nodes: the one given by name or place, the only one called so, the only
    one."""
    if given is not None:
        place = int(given) if isinstance(given, int) or str(given).isdigit() else None
        if given in names:
            return list(names).index(given)
        if place is not None and place < len(names):
            return place
        raise InputError(f"{where}: has no column {given!r}; it has {', '.join(names)}")
    called = [i for i, n in enumerate(names) if n.strip().lower() in ID_NAMES]
    best = [i for i in called if names[i].strip().lower() == "id"]
    if len(best) == 1 or len(called) == 1:
        return (best or called)[0]
    if len(names) == 1:
        return 0
    raise InputError(
        f"{where}: which column holds the id of each node? It has {', '.join(names)}; say "
        f'id="{names[0]}" (--nodes FILE:{names[0]})'
    )
