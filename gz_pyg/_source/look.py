"""Look: a quick way to see that nothing was done to a loaded graph since.

It is asked for every batch in the thread that trains, after everything else has been through the caches of
the processor: what counts is how little is touched. So it does not list the attributes; it compares the
clock that every change moves on (`_store.changes`), and what could change without it.
"""

from __future__ import annotations

from operator import attrgetter, is_

from torch_geometric.data import Data, HeteroData

from gz_pyg._store.changes import CLOCK
from gz_pyg._store.overlay import Overlay

_MAPPING, _VERSION = attrgetter("_mapping"), attrgetter("_version")


class Look:
    """At a graph whose attributes lie in one store, or were written over it."""

    def __init__(self, clock: int, data: Data | HeteroData, overlays: list[Overlay]):
        self._clock = clock
        self._one = data._store if isinstance(data, Data) else None
        self._storages = data.stores
        self._mappings = [*map(_MAPPING, self._storages)]
        self._bare = [m for m in self._mappings if not isinstance(m, Overlay)]  # nothing is in them
        self._store = overlays[0].store
        self._manifest = self._store.manifest
        self._masks = [mask for overlay in overlays for mask in overlay.given_masks()]
        self._seen = [*map(_VERSION, self._masks)]

    @staticmethod
    def at(data: Data | HeteroData) -> Look | None:
        """None where a change might not be seen: attributes in memory have no clock."""
        clock = CLOCK.now  # before anything else: what changes from now on is seen
        mappings = [*map(_MAPPING, data.stores)]
        overlays = [m for m in mappings if isinstance(m, Overlay)]
        if not overlays or any(m for m in mappings if not isinstance(m, Overlay)):
            return None
        return Look(clock, data, overlays) if len({id(o.store) for o in overlays}) == 1 else None

    def still(self, data: Data | HeteroData) -> bool:
        """Whether nothing has happened; what was written into tensors that were given out is not seen."""
        if self._clock != CLOCK.now or self._store.manifest is not self._manifest:
            return False
        if self._one is not None:
            same = data._store is self._one and self._one._mapping is self._mappings[0]
        else:
            storages = data.stores
            same = (
                len(storages) == len(self._storages)
                and all(map(is_, storages, self._storages))
                and all(map(is_, map(_MAPPING, storages), self._mappings))
                and not any(self._bare)
            )
        return same and (not self._masks or [*map(_VERSION, self._masks)] == self._seen)
