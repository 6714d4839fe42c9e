"""Integer ids that leave most numbers out would make a store of nodes that do not exist."""

from __future__ import annotations

from gz._base.sizes import amount
from gz._engine import InputError

_MANY = 1 << 20  # nodes: below it empty ones cost next to nothing
_PER_END = 16  # numbers for each end of an edge


def check_density(nodes: int, ends: int, what: str) -> None:
    """`nodes`: one more than the largest id, where nobody gave the number; `ends`: how many ids there are."""
    if nodes > max(_MANY, _PER_END * ends):
        raise InputError(
            f"{what}: the largest id is {nodes - 1}, but its edges have only {ends} ends. Numbered from "
            f"0 on, {amount(8 * nodes)} would be written for nodes that do not occur.\n"
            '  ids="int" (--ids int): ids that occur are numbered, and the originals kept\n'
            f"  num_nodes={nodes} (--num-nodes {nodes}): there are that many nodes"
        )
