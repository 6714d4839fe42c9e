"""The files of one version of a store, each opened once and compared with what store.json says of it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from gz import _engine, manifest
from gz._base.files import Folder, replaced
from gz._base.memory_plan import Part, Share, divide, parse_cache
from gz.feature import FeatureStore
from gz.graph import Graph
from gz.id_map import IdMap
from gz.manifest import ColumnEntry, EdgeEntry, Manifest, NodeEntry


class StoreFiles:
    """Opens files through the folder as it was when the store was opened: see gz/_base/files.py.

    Args:
        path: of the store.
        cache: as for ``gz.open``.
        generation: of the store that is expected there; None: any.

    Attributes:
        copies: whether copies of lists that are sampled most are used. False before anything is opened: as if
            there were none, whatever state they are in.
    """

    def __init__(self, path: str, cache: str | int, generation: str | None = None):
        self._folder, self._cache, self.copies = Folder(path), cache, True
        self.manifest: Manifest = manifest.read(self._folder)
        if generation is not None and self.manifest.generation != generation:
            raise replaced(path, "since it was pickled")
        self._shares: dict[str, Share] | None = None
        self._open: dict[Any, Any] = {}

    @property
    def path(self) -> str:
        return self._folder.path

    def opened(self) -> list[Graph | FeatureStore]:
        return [f for f in list(self._open.values()) if isinstance(f, Graph | FeatureStore)]

    def graph(self, entry: EdgeEntry, direction: str, in_graph: Graph | None) -> Graph:
        key = ("graph", entry.type, direction)
        if key not in self._open:
            self._open[key] = self._graph(entry, direction, in_graph)
        return self._open[key]

    def column(self, key: Any, entry: ColumnEntry, rows: int | None) -> FeatureStore:
        """`key` names it for `forget`. `rows`: how many it must have, if that is known."""
        if key not in self._open:
            column = self._column(entry)
            if rows is not None and len(column) != rows:
                raise _engine.FormatError(
                    f"{column.path}: has {len(column)} rows, but store.json says {rows}"
                )
            self._open[key] = column
        return self._open[key]

    def id_map(self, t: str, entry: NodeEntry) -> IdMap:
        key = ("id_map", t)
        if key not in self._open:
            assert entry.id_map is not None
            parts = manifest.ID_MAP_FILES[entry.id_map["kind"]]
            columns = {part: self._column(ColumnEntry(entry.id_map[part])) for part in parts}
            ids = IdMap(self.path, entry.id_map, columns)
            if len(ids) != entry.num_nodes:
                raise _engine.FormatError(
                    f"{self.path}: the id map of {t!r} has {len(ids)} ids for {entry.num_nodes} nodes"
                )
            self._open[key] = ids
        return self._open[key]

    def forget(self, key: Any) -> None:
        """What was changed: store.json is read again, and the file opened anew when it is next asked for."""
        self.refresh()
        self._open.pop(key, None)

    def refresh(self) -> bool:
        """Reads store.json again; whether columns were changed since it was read. A store that was replaced
        as a whole is an OSError: what is open belongs to the old one."""
        self.check_current()
        now = manifest.read(self._folder)
        changed = now != self.manifest
        if now.generation != self.manifest.generation and self.manifest.generation is not None:
            raise replaced(self.path)
        self.manifest = now
        return changed

    def check_current(self) -> None:
        if not self._folder.is_current():
            raise replaced(self.path)

    def shares(self) -> dict[str, Share]:
        """What each file gets of the memory that is free now, by path inside the store."""
        return divide(self._parts(), parse_cache(self._cache))

    # ---- inside ----

    def _graph(self, entry: EdgeEntry, direction: str, in_graph: Graph | None) -> Graph:
        file = entry.in_file if direction == "in" else entry.out_file
        assert file is not None
        path = os.path.join(self.path, file)
        try:
            with self._folder.opened(file) as fd:
                graph = Graph(path, _in_graph=in_graph, _share=self._share_of(file), _opened=fd)
        except FileNotFoundError:
            self.refresh()
            raise FileNotFoundError(2, "a file of the store is missing", path) from None
        self._check_version(file, graph)
        if graph.direction != direction:
            raise _engine.FormatError(
                f"{path}: is grouped for direction {graph.direction!r}, but store.json calls it the "
                f"{direction!r} topology"
            )
        nodes = self.manifest.nodes
        expected = (nodes[entry.type[0]].num_nodes, nodes[entry.type[2]].num_nodes, entry.num_edges)
        found = (graph.num_src, graph.num_dst, graph.num_edges)
        if found != expected:
            raise _engine.FormatError(
                f"{path}: has (sources, destinations, edges) {found}, but store.json says {expected}"
            )
        if self.copies and entry.hot is not None and direction == "in" and not graph._share.held:
            files = (entry.hot.ids, entry.hot.starts, entry.hot.lists)
            with suppress(FileNotFoundError):  # made anew, or no longer there: it goes without
                graph._use_hot(*(self._hot_file(f, self._share_of(f)) for f in files))
        return graph

    def _column(self, entry: ColumnEntry) -> FeatureStore:
        if entry.file is None:  # adopted: it lies elsewhere, and store.json knows nothing of its contents
            path = str(entry.path(self.path))
            return FeatureStore(path, self._cache, _share=self._share_of(path))
        path = os.path.join(self.path, entry.file)
        with self._folder.opened(entry.file) as fd:
            share = self._share_of(entry.file)
            column = FeatureStore(path, self._cache, _share=share, _opened=fd)
        self._check_version(entry.file, column)
        if entry.hot is not None and (held := self._held(entry.hot.rows)):
            tiers = [self._hot_file(f) for f in entry.hot.rows]
            column._use_hot(self._hot_file(entry.hot.ids), tiers, held)
        return column

    def _held(self, rows: list[str]) -> int:
        """How many files of hot rows memory has a place for, from the first on."""
        fits = [share is not None and share.held for share in map(self._share_of, rows)]
        return fits.index(False) if False in fits else len(rows)

    def _hot_file(self, file: str, share: Share | None = None) -> FeatureStore:
        with self._folder.opened(file) as fd:
            column = FeatureStore(os.path.join(self.path, file), 0, _share=share or Share(), _opened=fd)
        self._check_version(file, column)
        return column

    def _check_version(self, file: str, found: Graph | FeatureStore) -> None:
        """Files copied over others keep their names: their contents tell."""
        expected = self.manifest.files.get(file)
        if expected is not None and found.version != expected:
            self.refresh()
            raise _engine.FormatError(
                f"{found.path}: is not the file that store.json names: its header has the checksum "
                f"{found.version}, not {expected}"
            )

    def _parts(self) -> list[Part]:
        """The files that compete for memory. One that is missing is an error when it is opened, not here."""
        m = self.manifest
        files = [f for e in m.edges for f in (e.in_file, e.out_file) if f]
        parts = [Part(f, self._folder.size(f)) for f in files]
        for e in m.edges:
            # Original ids are read of the topology for each edge that is sampled.
            if self.copies and e.hot is not None and e.in_file is not None and e.edge_ids == "position":
                parts += [Part(f, self._folder.size(f), 0, e.in_file) for f in (e.hot.starts, e.hot.lists)]
        groups = [(n.columns, n.num_nodes) for n in m.nodes.values()]
        groups += [(e.columns, e.num_edges) for e in m.edges]
        for columns, rows in groups:
            for c in columns.values():
                key = c.file or str(c.path(self.path))
                size = self._folder.size(key)
                width = max(1, size // max(1, rows))
                parts.append(Part(key, size, width))
                if c.hot is not None:
                    parts += [Part(f, self._folder.size(f), width, key) for f in c.hot.rows]
        return parts

    def _share_of(self, key: str) -> Share | None:
        if self._shares is None:
            self._shares = self.shares()
        return self._shares.get(key)
