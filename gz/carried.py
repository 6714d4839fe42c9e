"""What a store knows of a graph beyond arrays, taken along into a store that is made from its arrays.

Original node ids, the names that codes stand for, units of times, splits of edges, notes of the user's: an
ingest of arrays can say none of them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gz._base.files import FileNames
from gz._ingest import IngestReport, ingest
from gz.feature import FeatureStore
from gz.manifest import ColumnEntry, EdgeType, Manifest
from gz.store import Store

__all__ = ["Carried", "ingest_carrying"]

_BYTES = 1 << 24  # copied at a time


class Carried:
    """Names what to take along. All files are opened here: the store may be replaced by the new one."""

    def __init__(self) -> None:
        self._id_maps: dict[str, tuple[str, dict[str, FeatureStore]]] = {}
        self._columns: dict[tuple[Any, str], ColumnEntry] = {}
        self._edge_splits: dict[str, dict[str, tuple[FeatureStore, list[str] | None]]] = {}

    def id_map(self, store: Store, t: str) -> None:
        """The original ids of a node type whose nodes are the same in the new store."""
        found = store.id_map(t)
        self._id_maps[t] = found.kind, found.columns

    def meaning(self, t: str | EdgeType, name: str, entry: ColumnEntry) -> None:
        """What the numbers of a column stand for."""
        self._columns[t, name] = entry

    def edge_splits(self, store: Store) -> None:
        for split, columns in store.manifest.edge_splits.items():
            self._edge_splits[split] = {
                key: (store.edge_split_column(split, key), entry.names) for key, entry in columns.items()
            }

    def write(self, root: Path, folders: dict[str, str], names: FileNames, into: Manifest) -> None:
        """Into a new store that lies in ``root`` and has no store.json yet."""
        for (t, name), entry in self._columns.items():
            columns = into.nodes[t].columns if isinstance(t, str) else into.edge(t).columns
            columns[name].names, columns[name].unit = entry.names, entry.unit
        for t, (kind, parts) in self._id_maps.items():
            files = {part: f"{folders[t]}/id-{part}.gd" for part in parts}
            for part, column in parts.items():
                _copy(column, root / files[part])
            into.nodes[t].id_map = {"kind": kind, **files}
        for split, columns_of in self._edge_splits.items():
            folder = names.get("splits", split)
            into.edge_splits[split] = {}
            for key, (column, meaning) in columns_of.items():
                file = names.get(folder, key, ".gd")
                _copy(column, root / file)
                into.edge_splits[split][key] = ColumnEntry(file, names=meaning)


def _copy(column: FeatureStore, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = column._writer(path)
    step = max(1, _BYTES // max(1, column.nbytes // max(1, len(column))))
    for begin in range(0, len(column), step):
        writer.append(column._stored_rows(begin, min(begin + step, len(column))))
    writer.finish(len(column))


def ingest_carrying(carried: Carried, out: str | os.PathLike[str], **options: Any) -> IngestReport:
    """``gz.ingest(out, **options)``; the new store appears with what is carried."""
    return ingest(out, _finish=carried.write, **options)
