"""The two-way mapping between original node ids (any 64-bit integers, or text) and dense ids."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from gz import _engine
from gz._ingest.text import Text
from gz.feature import FeatureStore

_SHOWN = 5  # unknown keys named in an error


class IdMap:
    """Looks ids up in mapped files: nothing is loaded, a lookup of one key costs O(log N) page reads.

    >>> m = IdMap("store", entry.id_map)
    >>> m.to_dense(["alice", "bob"])
    array([0, 7])
    >>> m.to_original([0, 7])
    ['alice', 'bob']
    """

    def __init__(self, root: str | os.PathLike[str], entry: dict[str, Any]):
        self._root, self._entry = os.fspath(root), dict(entry)
        kind = entry.get("kind")
        if kind not in ("int", "text"):
            raise _engine.FormatError(f"{root}: id_map kind is {kind!r}, neither 'int' nor 'text'")
        self.kind: str = kind
        self._hash = self._open("hash").view(np.uint64)
        self._dense = self._open("dense")
        if kind == "int":
            self._keys = self._open("keys")
        else:
            self._offsets = self._open("offsets")
            self._bytes = self._open("bytes")

    def _open(self, name: str) -> np.ndarray:
        return FeatureStore(Path(self._root) / str(self._entry[name])).get_tensor()

    def __reduce__(self) -> Any:
        return IdMap, (self._root, self._entry)

    def __len__(self) -> int:
        return len(self._dense)

    def to_dense(self, keys: Any) -> np.ndarray:
        """Dense ids (int64) of original ids. Unknown ones are a KeyError that names them."""
        dense, known = self._find(keys)
        if not known.all():
            values = list(keys) if not isinstance(keys, np.ndarray) else keys.ravel()
            missing = np.flatnonzero(~known)
            named = ", ".join(
                repr(values[i].item() if hasattr(values[i], "item") else values[i]) for i in missing[:_SHOWN]
            )
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            raise KeyError(f"no node has the original id {named}{more}")
        return dense

    def contains(self, keys: Any) -> np.ndarray:
        """Which of the original ids exist."""
        return self._find(keys)[1]

    def to_original(self, ids: Any) -> Any:
        """Original ids of dense ids: an int64 array, or a list of str."""
        ids = np.asarray(ids).ravel()
        if ids.dtype.kind not in "iu" and len(ids):
            raise TypeError(f"dense ids are integers, not {ids.dtype}")
        ids = ids.astype(np.int64)
        outside = (ids < 0) | (ids >= len(self))
        if outside.any():
            raise IndexError(f"node {ids[outside.argmax()]} is out of range: there are {len(self)} nodes")
        if self.kind == "int":
            return self._keys[ids]
        return [self._text(i).decode("utf-8", "replace") for i in ids.tolist()]

    def _text(self, i: int) -> bytes:
        return self._bytes[int(self._offsets[i]) : int(self._offsets[i + 1])].tobytes()

    def _find(self, keys: Any) -> tuple[np.ndarray, np.ndarray]:
        if self.kind == "int":
            given = np.asarray(keys).ravel()
            if given.dtype.kind not in "iu" and len(given):
                raise KeyError(f"original ids are integers in this store; {given.flat[0]!r} is not")
            given = given.astype(np.int64)
            hashes = _engine.hash_integers(given)
        else:
            encoded = [
                str(k).encode() for k in (keys.ravel().tolist() if isinstance(keys, np.ndarray) else keys)
            ]
            text = Text.of_bytes(encoded)
            hashes = _engine.hash_text(text.offsets, text.bytes)
        at = np.searchsorted(self._hash, hashes)
        dense = np.full(len(hashes), -1, np.int64)
        open_ = np.flatnonzero(at < len(self._hash))
        # Keys may share a hash: try the next entry for as long as the hash is the same and the key is not.
        while len(open_):
            open_ = open_[self._hash[at[open_]] == hashes[open_]]
            candidates = self._dense[at[open_]]
            if self.kind == "int":
                same = self._keys[candidates] == given[open_]
            else:
                same = np.array(
                    [
                        self._text(c) == encoded[i]
                        for c, i in zip(candidates.tolist(), open_.tolist(), strict=True)
                    ],
                    bool,
                )
            dense[open_[same]] = candidates[same]
            open_ = open_[~same]
            at[open_] += 1
            open_ = open_[at[open_] < len(self._hash)]
        return dense, dense >= 0
