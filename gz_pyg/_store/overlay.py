"""Overlay: the attributes of one type of a store, with what this process wrote over them.

The mapping behind a PyG storage. Its values are those of the store, `Stored`, until one is replaced or
deleted; reading a `Stored` gives its tensor. A copy has its own attributes and shares the tensors, as that of
a dict does. A pickle names the store by its path and holds what was written by value.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, MutableMapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data.storage import N_KEYS

import gz
from gz_pyg._store.changes import changed
from gz_pyg._store.stored import EdgeType, Stored, StoredColumn, StoredEdgeColumn, StoredEdgeIndex

# Splits go by several names; scripts ask for the masks.
MASKS = {"train_mask": ("train",), "val_mask": ("valid", "val"), "test_mask": ("test",)}
_AS_MADE = 1  # the version of a mask that was made of a split: zeros, then written to once


class Overlay(MutableMapping[str, Any]):
    """Attributes by name.

    Args:
        store: the store.
        node_type: whose columns these are; None for those of an edge type.
        edge_type: whose edges and columns these are; of a homogeneous graph, with those of the nodes.
        extras: what else the graph had when it was saved.
    """

    def __init__(
        self,
        store: gz.Store,
        node_type: str | None,
        edge_type: EdgeType | None,
        extras: dict[str, Any],
    ):
        self.store, self.node_type, self.edge_type, self._extras = store, node_type, edge_type, extras
        self.checked = True  # whether a write of a wrong length is refused at once; see StoredPart
        self.renumbered = False  # whether its nodes are some of the store's, or in another order
        self._masks: dict[str, Tensor] = {}  # made of splits, when asked for; not in batches
        self._hidden: set[str] = set()  # masks that were deleted
        self._read()
        self._kept = dict(self._stored)

    # ---- what the store says ----

    def _read(self) -> None:
        self._manifest = self.store.manifest
        self._entries: dict[str, Any] = {}  # store.json's entry by attribute: another one is another column
        self._stored: dict[str, Any] = {}
        if self.node_type is not None:
            for name, entry in self._manifest.nodes[self.node_type].columns.items():
                self._entries[name] = entry
                self._stored[name] = StoredColumn(self.store, self.node_type, name)
        if self.edge_type is not None:
            self._stored["edge_index"] = StoredEdgeIndex(self.store, self.edge_type)
            for name, entry in self._manifest.edge(self.edge_type).columns.items():
                shown = f"edge_{name}" if name in self._stored else name  # a Data has one attribute of a name
                self._entries[shown] = entry
                self._stored[shown] = StoredEdgeColumn(self.store, self.edge_type, name)
        if self.node_type is not None and N_KEYS.isdisjoint(self._stored):
            self._stored["num_nodes"] = self.num_nodes
        self._stored.update(self._extras)

    def kept(self) -> dict[str, Any]:
        """The attributes, ``Stored`` or written, after a look at whether the store's columns have changed.

        Only to be read: ``keep`` and the mapping's own methods change them.
        """
        if self.store.manifest is not self._manifest:
            entries, stored = self._entries, self._stored
            self._read()
            for name, value in self._stored.items():
                if self._entries.get(name) != entries.get(name):
                    self._kept[name] = value
                elif name in stored:
                    self._stored[name] = stored[name]
            for name in entries.keys() - self._entries.keys():
                if self._kept.get(name) is stored[name]:
                    del self._kept[name]
        if self._masks:
            for name in [n for n, mask in self._masks.items() if mask._version > _AS_MADE]:
                self._kept[name] = self._masks.pop(name)  # written to in place
        return self._kept

    @property
    def num_nodes(self) -> int:
        """Nodes of the type in the store, whatever was written."""
        return self.store.num_nodes(self.node_type)

    def entry(self, name: str) -> Any:
        """What store.json says of a column of the store; None where there is none of that name."""
        return self._entries.get(name)

    def node_column(self, name: str) -> bool:
        """Whether the store has such a column of nodes, deleted here or not."""
        return name in self._entries and not self._stored[name].of_edges

    def edge_column(self, name: str) -> bool:
        return name in self._entries and self._stored[name].of_edges

    def _split_of(self, name: str) -> str | None:
        if self.node_type is None or name not in MASKS or name in self._hidden or self.renumbered:
            return None
        splits = self.store.splits(self.node_type)
        return next((s for s in MASKS[name] if s in splits), None)

    def splits(self) -> dict[str, Any]:
        """Node ids of the stored splits, save those whose mask was written or deleted."""
        if self.node_type is None or self.renumbered:
            return {}
        changed = {s for mask in MASKS if mask in self.kept() or mask in self._hidden for s in MASKS[mask]}
        names = [s for s in self.store.splits(self.node_type) if s not in changed]
        return {s: self.store.split(s, self.node_type) for s in names}

    def masks(self) -> dict[str, Tensor]:
        """Of the stored splits, where no attribute has the name."""
        return {name: self[name] for name in MASKS if name not in self.kept() and name in self}

    # ---- a mapping ----

    def raw(self, name: str) -> Any:
        """The value as it is kept, ``Stored`` or written; None where there is none."""
        return self.kept().get(name)

    def given_masks(self) -> list[Tensor]:
        """Masks of splits that somebody has, and may write to: then they are attributes."""
        return [*self._masks.values()]

    def raw_items(self) -> list[tuple[str, Any]]:
        return list(self.kept().items())

    def keep(self, name: str, value: Any) -> None:
        """Puts a value in the place of another, as it is."""
        self.kept()[name] = value
        changed()

    def __getitem__(self, name: str) -> Any:
        kept = self.kept()
        if name in kept:
            value = kept[name]
            return value.value() if isinstance(value, Stored) else value
        split = self._split_of(name)
        if split is None:
            raise KeyError(f"no {name!r}; there are {[*kept]}")
        if name not in self._masks:
            mask = torch.zeros(self.num_nodes, dtype=torch.bool)
            mask[torch.from_numpy(self.store.split(split, self.node_type))] = True
            self._masks[name] = mask
            changed()
        return self._masks[name]

    def __setitem__(self, name: str, value: Any) -> None:
        kept = self.kept()
        before = kept.get(name)
        kept[name] = before.after(value) if isinstance(before, Stored) else value
        changed()

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self.kept().pop(name, None)
        if name in MASKS:
            self._hidden.add(name)
        changed()

    def __contains__(self, name: object) -> bool:
        return name in self.kept() or (isinstance(name, str) and self._split_of(name) is not None)

    def __iter__(self) -> Iterator[str]:
        return iter([*self.kept()])

    def __len__(self) -> int:
        return len(self.kept())

    # ---- copies ----

    def __copy__(self) -> Overlay:
        other = self.__class__.__new__(self.__class__)
        other.__dict__.update(self.__dict__)
        other._kept, other._masks, other._hidden = dict(self.kept()), dict(self._masks), set(self._hidden)
        other.checked = False  # PyG's methods and transforms change sizes in a copy, attribute by attribute
        return other

    def __deepcopy__(self, memo: Any) -> Overlay:
        store = copy.deepcopy(self.store, memo)
        other = Overlay(store, self.node_type, self.edge_type, copy.deepcopy(self._extras, memo))
        other.checked, other.renumbered, other._hidden = self.checked, self.renumbered, set(self._hidden)
        other._masks = {name: mask.clone() for name, mask in self._masks.items()}
        other._kept = {
            name: value.fresh(store) if isinstance(value, Stored) else copy.deepcopy(value, memo)
            for name, value in self.raw_items()
        }
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        kept = self.kept()
        written = {}
        for name, value in kept.items():
            if isinstance(value, Stored) and value.version:
                written[name] = value.whole()
            elif not isinstance(value, Stored) or value is not self._stored.get(name):
                written[name] = value
        gone = [name for name in self._stored if name not in kept]
        what = (self.store, self.node_type, self.edge_type, self._extras)
        return _opened, (*what, self.checked, self.renumbered, written, gone, self._hidden)


def raw(storage: Any, name: str) -> Any:
    """A value of any PyG storage as it is kept, so that nothing is read; None where there is none."""
    mapping = storage._mapping
    return mapping.raw(name) if isinstance(mapping, Overlay) else mapping.get(name)


def raw_items(storage: Any) -> list[tuple[str, Any]]:
    """All values of any PyG storage as they are kept."""
    mapping = storage._mapping
    return mapping.raw_items() if isinstance(mapping, Overlay) else list(mapping.items())


def _opened(
    store: gz.Store,
    node_type: str | None,
    edge_type: EdgeType | None,
    extras: dict[str, Any],
    checked: bool,
    renumbered: bool,
    written: dict[str, Any],
    gone: list[str],
    hidden: set[str],
) -> Overlay:
    overlay = Overlay(store, node_type, edge_type, extras)
    for name in gone:
        overlay._kept.pop(name, None)
    overlay._kept.update(written)
    overlay.checked, overlay.renumbered, overlay._hidden = checked, renumbered, hidden
    return overlay
