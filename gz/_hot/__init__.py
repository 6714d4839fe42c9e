"""gz.reorder: the rows of a column and the lists of a topology that are read most, once more, the most read
first, in files of their own.

Which they are, a presampling pass tells: an epoch over the training seeds, as training would sample it. Where
there are no seeds, a node counts as often as it stands in the lists of others. Column and topology stay as
they are, and with them every id, `get_tensor()` and all that reads them: what is hot lies together a second
time. Rows lie in tiers that memory can hold from the first on, and which are read in order, gigabytes in
seconds, when the column is first used; rows of a tier that it cannot hold are read from there, for what a
batch wants of them lies closer together than in the column (csrc/hot/rows). Lists lie in one file, a small
part of the topology, which is used where the topology itself is not held (csrc/hot/lists).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

from gz import edit
from gz._base.arrays import as_ids, as_integer
from gz._base.place import temporary_folder
from gz._base.progress import Progress
from gz._base.sizes import parse_memory
from gz._hot import publish
from gz._hot.lists import write_lists
from gz._hot.rank import Counts, Seeds, counter, degrees, lists_within, most_read, rankable, sampled
from gz._hot.rows import write_in_front
from gz.manifest import EdgeType
from gz.store import Store, open_store

__all__ = ["reorder"]

_SMALLEST_ROW = 128  # bytes: smaller rows are read by the page (csrc/read/row_source.cpp)
# Of a topology's bytes, in shares of the rows. A list is short beside a row and is asked for as soon as its
# node is: nearly all that an epoch samples should be there.
_LIST_SHARES = 2


def reorder(
    store: str | os.PathLike[str] | Store,
    feature: str | None = None,
    t: str | None = None,
    *,
    share: float = 0.125,
    seeds: Any = "train",
    fanouts: Sequence[int] = (15, 10, 5),
    undo: bool = False,
    memory: str | int = "2GB",
    tmp: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    check_disk: bool = True,
) -> dict[str | EdgeType, int]:
    """Puts the rows and lists that training reads most in front, for all who open the store from now on.

    They are copied, so nothing that reads the column changes, and the store grows by at most ``share`` of it
    (of what it shows, where it is stored smaller), and by twice that share of the topology. Each column, and
    the lists of each edge type, appear in their new form at once; a killed call leaves the others as they
    were.

    Args:
        store: a path, or an open store.
        feature: a node column; by default all whose rows have 128 bytes or more, and the lists.
        t: its node type, which may be left out when there is one.
        share: of the rows, the most that are put in front; of a column that is stored in fewer bytes than it
            shows, more of them, for as many bytes as that share of what it shows. What memory has no place
            for is read from there, where it lies closer together.
        seeds: what training starts from: the name of a split, ids, or ``{node type: ids}``. Without any,
            nodes that stand in most lists come first.
        fanouts: as training samples, from the seeds outward.
        undo: remove the copies instead.
        memory, tmp: what it may take, and a folder for temporary files.
        progress: by default when stderr is a terminal.
        check_disk: refuse, before anything is written, when the disk has not the room this will need.

    Returns:
        For each column, by ``"TYPE/NAME"``, how many rows lie in front, and for each edge type, by its three
        names, how many lists.
    """
    opened = store if isinstance(store, Store) else open_store(store)
    budget, place = parse_memory(memory), temporary_folder(tmp)
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share <= 1:
        raise ValueError(f"share={share!r}: give the part of the rows, above 0 and at most 1")
    steps = [as_integer(k, "a fanout") for k in fanouts]
    columns = _columns(opened, feature, t, undo)
    lists = _lists(opened, undo) if feature is None and t is None else []
    if undo:
        for name, of in columns:
            publish.set_hot(opened, name, of, opened.feature(name, of).version, None)
        for edge_type in lists:
            publish.remove_hot_lists(opened, edge_type)
        return {**{f"{of}/{name}": 0 for name, of in columns}, **dict.fromkeys(lists, 0)}
    start = _seeds(opened, seeds, t)
    done: dict[str | EdgeType, int] = {}
    # A copy of lists that is there already may be damaged, and is not needed to make another.
    plain = Store(opened.path, _generation=opened.manifest.generation)
    plain._files.copies = False
    with closing(Progress(progress)) as show, edit.scratch(opened) as room, ExitStack() as stack:
        folder = place or room.folder
        types = {of for _, of in columns}
        ends = {e[2] for e in lists}
        each = budget // (len(types) + len(ends))

        def counters(of: set[str]) -> Counts:
            return {t: counter(opened.num_nodes(t), each, folder, stack) for t in sorted(of)}

        if start:
            counts, expanded = counters(types), counters(ends)
            with lists_within(plain, budget):
                sampled(plain, start, steps, counts, expanded, show)
        else:
            counts = expanded = counters(types | ends)
            degrees(plain, counts, show)
        for of in sorted(types):
            for name in (n for n, other in columns if other == of):
                hot = most_read(counts[of], _rows_for(opened, name, of, share, budget), budget)
                done[f"{of}/{name}"] = len(hot)
                write_in_front(opened, name, of, hot, budget, place, show, check_disk)
                del hot
            if start:
                del counts[of]
        most = min(1.0, _LIST_SHARES * share)
        for e in lists:
            graph, count = plain.graph(e), expanded[e[2]]
            done[e] = write_lists(opened, e, graph, count, most, budget, place, show, check_disk)
    return done


def _rows_for(store: Store, name: str, t: str, share: float, budget: int) -> float:
    """The share of a column's rows that takes as many bytes as `share` of what it shows, as far as so many
    can be ranked; never less than `share`."""
    column = store.feature(name, t)
    more = share * column._read_bytes / column.nbytes
    return max(share, min(1.0, more, rankable(budget) / len(column)))


def _lists(store: Store, undo: bool) -> list[EdgeType]:
    """Edge types whose lists are meant."""
    return [e.type for e in store.manifest.edges if (e.hot is not None if undo else e.in_file is not None)]


def _columns(store: Store, feature: str | None, t: str | None, undo: bool) -> list[tuple[str, str]]:
    """(name, node type) of each column that is meant."""
    types = store.node_types if t is None and feature is None else [t or _type_of(store, feature)]
    if feature is not None:
        why = None if undo else _unfit(store, feature, types[0])
        if why is not None:
            raise ValueError(f"{store.path}: column {feature!r} {why}")
        store.feature(feature, types[0])  # or KeyError
        return [(feature, types[0])]
    named = [(name, of) for of in types for name in store.node_columns(of)]
    if undo:
        return [(n, of) for n, of in named if store.manifest.nodes[of].columns[n].hot is not None]
    found = [(n, of) for n, of in named if _unfit(store, n, of) is None]
    if not found:
        raise ValueError(
            f"{store.path}: no node column of the store's own has rows of {_SMALLEST_ROW} bytes or more; "
            "smaller ones are read by the page, and gain nothing"
        )
    return found


def _type_of(store: Store, feature: str | None) -> str:
    having = [of for of in store.node_types if feature in store.node_columns(of)]
    if len(having) > 1:
        raise ValueError(f"{store.path}: node types {having} have a column {feature!r}: say which, by t=")
    return having[0] if having else store.node_types[0]


def _unfit(store: Store, name: str, t: str) -> str | None:
    """Why a column gains nothing from it, or cannot have it."""
    column = store.feature(name, t)
    if column.path.endswith(".npy"):
        return (
            "is an adopted .npy, which its owner may change; copy it into the store first "
            "(gz add --overwrite)"
        )
    if column.nbytes < _SMALLEST_ROW * len(column) or len(column) == 0:
        return f"has rows of less than {_SMALLEST_ROW} bytes, which are read by the page and gain nothing"
    return None


def _seeds(store: Store, seeds: Any, t: str | None) -> Seeds:
    if seeds is None:
        return {}
    if isinstance(seeds, str):
        having = [of for of in store.node_types if seeds in store.splits(of)]
        if not having and seeds != "train":
            raise KeyError(f"{store.path}: no split {seeds!r}")
        found = {of: store.split(seeds, of) for of in having}
    elif isinstance(seeds, Mapping):
        found = {of: as_ids(ids, f"seeds of {of!r}") for of, ids in seeds.items()}
    else:
        if t is None and len(store.node_types) != 1:
            raise ValueError(f"{store.path}: give seeds by node type: {{type: ids}}")
        found = {t or store.node_types[0]: as_ids(seeds, "seeds")}
    return {of: ids for of, ids in found.items() if len(ids)}
