"""Splits of link-prediction datasets: edges, negatives and what goes with them, as columns of the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gz import manifest
from gz._base.arrays import first_outside
from gz._base.dtypes import as_numpy, is_array
from gz._base.files import FileNames
from gz._engine import InputError
from gz._ingest.plan.column_input import ColumnInput
from gz._ingest.plan.spec import Spec
from gz._ingest.read.npy import DiskArray
from gz._ingest.read.tables import ArrayTable, NpyTable
from gz._ingest.write.columns import write_column

# What holds node ids in OGB's splits; everything else (relation, weight, year, ...) is kept unchecked.
_ENDS = {
    **dict.fromkeys(("edge", "edge_neg", "source_node", "target_node", "target_node_neg"), None),
    **dict.fromkeys(("head", "head_neg"), "head_type"),
    **dict.fromkeys(("tail", "tail_neg"), "tail_type"),
}
_BLOCK = 1 << 20  # ids checked at once


def write_edge_splits(
    plan: Spec, root: Path, names: FileNames, counts: dict[str, int]
) -> dict[str, dict[str, manifest.ColumnEntry]]:
    """Loads and writes one split after the other, so that only one is in memory."""
    out: dict[str, dict[str, manifest.ColumnEntry]] = {}
    for split, get in plan.edge_splits.items():
        where = f"edge split {split!r}"
        data = get()
        folder = names.get("splits", split)
        (root / folder).mkdir(parents=True, exist_ok=True)
        out[split] = {}
        for key, value in data.items():
            entry = manifest.ColumnEntry(names.get(folder, str(key), ".gd"))
            values, entry.names = _values(value, f"{where}: {key!r}")
            if key in _ENDS:
                kinds = data.get(_ENDS[key] or "")
                _check_ids(values, f"{where}: {key!r}", kinds, counts)
            kind = NpyTable if isinstance(values, DiskArray) else ArrayTable
            table = kind({str(key): values}, f"{where}: {key!r}")
            write_column(root / str(entry.file), ColumnInput(str(key), table))
            out[split][str(key)] = entry
    return out


def _values(value: Any, where: str) -> tuple[Any, list[str] | None]:
    """The column, and the names it counts in when the dataset has a name per row."""
    if is_array(value) or isinstance(value, DiskArray):
        values = value if isinstance(value, DiskArray) else as_numpy(value)[0]
        if not values.shape or values.dtype.kind not in "biuf":
            raise InputError(
                f"{where} is an array of {values.dtype} of shape {values.shape}; one row per edge"
            )
        return values, None
    if isinstance(value, (list, tuple)):
        if all(isinstance(v, str) for v in value):
            known: dict[str, int] = {}
            codes = np.fromiter((known.setdefault(v, len(known)) for v in value), np.int32, len(value))
            return codes, list(known)
        values = np.asarray(value)
        if values.dtype.kind in "biuf":
            return values, None
    raise InputError(f"{where} is a {type(value).__name__}; a split holds arrays or lists of names")


def _blocks(ids: Any) -> Iterator[np.ndarray]:
    rows = max(1, _BLOCK // max(1, int(np.prod(ids.shape[1:], dtype=np.int64))))
    if isinstance(ids, DiskArray):
        yield from ids.chunks(rows)
    else:
        yield from (ids[at : at + rows] for at in range(0, len(ids), rows))


def _check_ids(ids: Any, where: str, kinds: Any, counts: dict[str, int]) -> None:
    if ids.dtype.kind not in "iu":
        raise InputError(f"{where} has dtype {ids.dtype}; node ids are integers")
    if kinds is None and len(counts) > 1:
        return  # ids of a heterogeneous graph that do not say of which type
    if kinds is not None and len(kinds) != len(ids):
        raise InputError(f"{where} has {len(ids)} rows, but there are {len(kinds)} node types beside it")
    only, end = next(iter(counts.values())), 0
    for rows in _blocks(ids):
        at, end = end, end + len(rows)
        block = rows.reshape(len(rows), -1)
        limit: Any = only
        if kinds is not None:
            unknown = set(kinds[at:end]) - set(counts)
            if unknown:
                raise InputError(f"{where}: there is no node type {sorted(unknown)[0]!r}")
            limit = np.array([counts[k] for k in kinds[at:end]])[:, None]
        if (i := first_outside(block, limit)) is not None:
            row = i // block.shape[1]
            n = only if kinds is None else counts[kinds[at + row]]
            raise InputError(
                f"{where}, row {at + row}: node {block.flat[i]} is out of range: there are {n} nodes"
            )
