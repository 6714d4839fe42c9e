"""Splits: as classes of nodes to balance, and as the masks that DGL's scripts read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gz._base.arrays import first_outside
from gz._engine import FormatError
from gz.partitioner.assign import Balance
from gz.partitioner.whole import Ids, Whole, new_array, steps

_MASKS = {"valid": "val_mask"}  # DGL's scripts say val; every other split keeps its name
_STEP = 1 << 20


def masks_of(whole: Whole, t: int) -> dict[str, str]:
    """The splits of a node type that no column stands for yet, by the name of the mask they become."""
    name = whole.ntypes[t]
    columns = whole.store.node_columns(name)
    named = {_MASKS.get(split, f"{split}_mask"): split for split in whole.store.splits(name)}
    return {mask: split for mask, split in named.items() if mask not in columns}


def split_ids(whole: Whole, t: int, split: str) -> Ids:
    name = whole.ntypes[t]
    ids = whole.store.split(split, name)
    if (i := first_outside(ids, whole.store.num_nodes(name))) is not None:
        raise FormatError(f"{whole.store.path}: split {split!r} of {name!r} holds {ids[i]}, which is no node")
    return ids


def balance_of(whole: Whole, path: Path, split: str | None, edges: bool) -> Balance:
    """Node types are classes, and so are the nodes of `split` where a type has it, as a split or a mask."""
    classes = new_array(path, whole.num_nodes, np.uint8)
    sizes: list[int] = []
    chosen: list[bool] = []
    for t in range(len(whole.ntypes)):
        mine = classes[whole.nodes(t)]
        if len(sizes) > 253:
            raise ValueError(f"{whole.store.path}: more than 250 classes of nodes cannot be balanced")
        mine[:] = len(sizes)
        members = 0
        if split is not None:
            for ids in _members(whole, t, split):
                mine[ids] = len(sizes) + 1
            members = sum(int(np.count_nonzero(mine[a:b] > len(sizes))) for a, b in steps(len(mine), _STEP))
        sizes += [len(mine) - members, members] if members else [len(mine)]
        chosen += [False, True] if members else [False]
    return Balance(classes, sizes, chosen, edges)


def has_split(whole: Whole, split: str) -> bool:
    return any(
        split in whole.store.splits(t) or _MASKS.get(split, f"{split}_mask") in whole.store.node_columns(t)
        for t in whole.ntypes
    )


def _members(whole: Whole, t: int, split: str) -> list[Ids]:
    name, store = whole.ntypes[t], whole.store
    mask = _MASKS.get(split, f"{split}_mask")
    if split in store.splits(name):
        ids = split_ids(whole, t, split)
        return [ids[a:b] for a, b in steps(len(ids), _STEP)]
    if mask not in store.node_columns(name) or len(store.feature(mask, name).shape) != 1:
        return []
    column = store.feature(mask, name)
    found: list[NDArray[np.int64]] = []
    for a, b in steps(len(column), _STEP):
        found.append(a + np.flatnonzero(column.gather(np.arange(a, b))))
    return found
