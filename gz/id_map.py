"""The two-way mapping between original node ids (any 64-bit integers, or text) and dense ids."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from gz import _engine
from gz._base.arrays import first_outside
from gz._base.text import Text
from gz.feature import FeatureStore
from gz.manifest import ID_MAP_FILES

_SHOWN = 5  # unknown keys named in an error


class IdMap:
    """Original ids of nodes to dense ones and back, looked up in mapped files: nothing is loaded, a lookup of
    one key costs O(log N) page reads. Made by ``Store.id_map``.

    >>> m = gz.open("store").id_map()
    >>> m.to_dense(["alice", "bob"])
    array([0, 7])
    >>> m.to_original([0, 7])
    ['alice', 'bob']
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        entry: dict[str, Any],
        columns: dict[str, FeatureStore] | None = None,
    ):
        """The map in folder `root` that store.json describes by `entry`. `columns`: its files, where they are
        open already."""
        self.kind: str = entry["kind"]
        self._root, self._entry = os.fspath(root), dict(entry)
        self._columns = columns or {
            name: FeatureStore(os.path.join(self._root, entry[name])) for name in ID_MAP_FILES[self.kind]
        }
        rows = len(self._columns["dense"])
        for name, column in self._columns.items():  # a row a node
            expected = rows + 1 if name == "offsets" else len(column) if name == "bytes" else rows
            dtype = "uint8" if name == "bytes" else "int64"
            if (column.shape, column.dtype) != ((expected,), dtype):
                raise _engine.FormatError(
                    f"{column.path}: is {column.dtype} of shape {column.shape}; this part of an id map of "
                    f"{rows} nodes is {dtype} of shape {(expected,)}"
                )
        self._hash = self._part("hash").view(np.uint64)
        self._dense = self._part("dense")
        if self.kind == "int":
            self._keys = self._part("keys")
        else:
            self._offsets = self._part("offsets")
            self._bytes = self._part("bytes")

    @property
    def columns(self) -> dict[str, FeatureStore]:
        """Its files by the names of docs/format.md."""
        return self._columns

    def _part(self, name: str) -> np.ndarray:
        return self._columns[name].get_tensor()

    def __reduce__(self) -> Any:
        return IdMap, (self._root, self._entry, self._columns)

    def _damaged(self, name: str, what: str) -> Exception:
        return _engine.FormatError(f"{self._columns[name].path}: {what}; run `gz verify`")

    def __len__(self) -> int:
        return len(self._dense)

    def to_dense(self, keys: Any) -> np.ndarray:
        """Dense ids (int64) of ``keys``, a list or array of original ids. Unknown ones are a KeyError that
        names them."""
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
        """Which of ``keys``, a list or array of original ids, exist."""
        return self._find(keys)[1]

    def to_original(self, ids: Any) -> Any:
        """Original ids of dense ids: an int64 array, or a list of str."""
        ids = np.asarray(ids).ravel()
        if ids.dtype.kind not in "iu" and len(ids):
            raise TypeError(f"dense ids are integers, not {ids.dtype}")
        ids = ids.astype(np.int64)
        if (i := first_outside(ids, len(self))) is not None:
            raise IndexError(f"node {ids[i]} is out of range: there are {len(self)} nodes")
        with _engine.PageGuard():
            if self.kind == "int":
                return self._keys[ids]
            return [self._text(i).decode("utf-8", "replace") for i in ids.tolist()]

    def check(self) -> None:
        """Raises gz.FormatError unless the parts are in order and every id leads back to its node."""
        ascending = [("hash", self._hash)]
        if self.kind == "text":
            ascending.append(("offsets", self._offsets))
            if self._offsets[0] != 0 or self._offsets[-1] != len(self._bytes):
                raise self._damaged(
                    "offsets", f"do not run from 0 to {len(self._bytes)}, the end of the texts"
                )
        step = 1 << 20  # so that memory stays bounded
        for name, rows in ascending:
            for begin in range(0, len(rows), step):
                block = rows[begin : begin + step + 1]
                wrong = np.flatnonzero(block[1:] < block[:-1])
                if len(wrong):
                    raise self._damaged(name, f"descends after row {begin + int(wrong[0])}")
        for begin in range(0, len(self), step):
            nodes = np.arange(begin, min(len(self), begin + step))
            wrong = np.flatnonzero(self._find(self.to_original(nodes))[0] != nodes)
            if len(wrong):
                node = begin + int(wrong[0])
                raise self._damaged("dense", f"the original id of node {node} does not lead back to it")

    def _text(self, i: int) -> bytes:
        begin, end = int(self._offsets[i]), int(self._offsets[i + 1])
        if not 0 <= begin <= end <= len(self._bytes):
            raise self._damaged("offsets", f"the text of node {i} reaches from byte {begin} to {end}")
        return self._bytes[begin:end].tobytes()

    def _find(self, keys: Any) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(keys, (str, bytes)):
            raise TypeError(f"give a list of original ids: [{keys!r}] for this one")
        if self.kind == "int":
            given = np.asarray(keys).ravel()
            if given.dtype.kind not in "iu" and len(given):
                raise KeyError(f"original ids are integers in this store; {given.flat[0]!r} is not")
            beyond = given > np.iinfo(np.int64).max  # no original id is, and as int64 it would be another's
            given = np.where(beyond, 0, given).astype(np.int64)
            hashes = _engine.hash_integers(given)
        else:
            encoded = [
                str(k).encode() for k in (keys.ravel().tolist() if isinstance(keys, np.ndarray) else keys)
            ]
            text = Text.of_bytes(encoded)
            hashes = _engine.hash_text(text.offsets, text.bytes)
        with _engine.PageGuard():
            dense, known = self._places(hashes, given if self.kind == "int" else encoded)
        if self.kind == "int":
            dense[beyond], known[beyond] = -1, False
        return dense, known

    def _places(self, hashes: np.ndarray, given: Any) -> tuple[np.ndarray, np.ndarray]:
        at = np.searchsorted(self._hash, hashes)
        dense = np.full(len(hashes), -1, np.int64)
        open_ = np.flatnonzero(at < len(self._hash))
        # Keys may share a hash: try the next entry for as long as the hash is the same and the key is not.
        while len(open_):
            open_ = open_[self._hash[at[open_]] == hashes[open_]]
            candidates = self._dense[at[open_]]
            wild = (candidates < 0) | (candidates >= len(self))
            if wild.any():
                raise self._damaged("dense", f"names node {candidates[wild][0]} of {len(self)}")
            if self.kind == "int":
                same = self._keys[candidates] == given[open_]
            else:
                same = np.array(
                    [
                        self._text(c) == given[i]
                        for c, i in zip(candidates.tolist(), open_.tolist(), strict=True)
                    ],
                    bool,
                )
            dense[open_[same]] = candidates[same]
            open_ = open_[~same]
            at[open_] += 1
            open_ = open_[at[open_] < len(self._hash)]
        return dense, dense >= 0
