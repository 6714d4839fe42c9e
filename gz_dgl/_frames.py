"""The frames of a StoreGraph: the store's columns, under what the script wrote over them.

A frame is DGL's dict of columns, filled with mapped ones. A write puts another column in its place, a
deletion takes it out, and everything made from the graph (views, samplers, loaders, workers, saves) reads it.
What changes the store itself, through the object it was opened with (store.add_feature and its kin), is
followed at the next look; the latest change wins.
"""

from __future__ import annotations

from typing import Any

from gz_dgl._columns import MappedColumn, open_column
from gz_dgl._dgl import Frame
from gz_dgl._index import StoreIndex


class StoreFrame(Frame):
    """The columns of the nodes (`etype` None) or the edges of one type of a store."""

    def __init__(self, index: StoreIndex, type_: Any, etype: int | None = None):
        self._index, self._type, self._etype = index, type_, etype
        self._seen = index.store.manifest
        rows = index.store.num_nodes(type_) if etype is None else index.store.num_edges(type_)
        super().__init__({c: self._open(c) for c in self._stored(self._seen)}, rows)

    def _stored(self, manifest: Any) -> dict[str, Any]:
        """The store's columns of this type."""
        return (manifest.nodes[self._type] if self._etype is None else manifest.edge(self._type)).columns

    def _open(self, name: str) -> MappedColumn:
        order = None if self._etype is None else self._index.order(self._etype)
        return open_column(self._index.store.feature(name, self._type), order)

    @property
    def _columns(self) -> dict[str, Any]:  # what all of DGL's code looks into
        if self._index.store.manifest is not self._seen:
            self._follow()
        return self.__dict__["_columns"]

    @_columns.setter
    def _columns(self, columns: dict[str, Any]) -> None:
        self.__dict__["_columns"] = columns

    def _follow(self) -> None:
        before, now = self._stored(self._seen), self._stored(self._index.store.manifest)
        self._seen = self._index.store.manifest
        columns = self.__dict__["_columns"]
        for name in before:
            if name not in now and isinstance(columns.get(name), MappedColumn) and columns[name].file:
                del columns[name]
        for name, entry in now.items():
            if before.get(name) != entry:
                columns[name] = self._open(name)

    def plain(self) -> Any:
        """DGL's own frame with the same columns, which follows nothing."""
        frame = Frame.clone(self)
        assert type(frame) is Frame
        return frame

    def clone(self) -> StoreFrame:
        twin = StoreFrame.__new__(StoreFrame)
        twin.__dict__.update(self.__dict__)
        twin.__dict__.update(self.plain().__dict__)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_columns": self._columns, "_seen": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._seen = self._index.store.manifest  # of the store as opened in this process


def frames_of(index: StoreIndex) -> tuple[list[StoreFrame], list[StoreFrame]]:
    """The store's columns as DGL keeps them, by node type and by edge type."""
    nodes = [StoreFrame(index, t) for t in index.ntypes]
    return nodes, [StoreFrame(index, t, e) for e, t in enumerate(index.etypes)]
