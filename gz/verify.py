"""Checks whole stores: every checksum and every structural rule of every file. What `gz verify` runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial

from gz import _engine
from gz.feature import FeatureStore
from gz.store import Store, open_store

Check = tuple[str, Callable[[], object]]


def verify(path: str | os.PathLike[str]) -> Iterator[tuple[str, Exception | None]]:
    """Checks a store, or one .gl or .gd file: yields each file's path and what is wrong with it, or None.

    Goes on after a damaged file, so that one run shows all the damage. Reads every byte.
    """
    checks = [_file(os.fspath(path))] if os.path.isfile(path) else list(_store(open_store(path)))
    for name, check in checks:
        try:
            check()
        except (OSError, ValueError) as e:
            yield name, e
        else:
            yield name, None


def _file(path: str) -> Check:
    if path.endswith(".npy"):  # foreign: it has no checksum, only a shape to hold to
        return path, partial(FeatureStore, path)
    return path, partial(_engine.verify_topology if path.endswith(".gl") else _engine.verify_feature, path)


def _store(store: Store) -> Iterator[Check]:
    for t, node in store.manifest.nodes.items():
        for name, column in node.columns.items():
            path = str(column.path(store.path))
            yield path, partial(_all, partial(store.feature, name, t), _file(path)[1])
        for name, column in node.splits.items():
            path = str(column.path(store.path))
            yield path, partial(_all, _file(path)[1], partial(_split, store, name, t))
        if node.id_map is not None:
            for file in sorted(v for v in node.id_map.values() if str(v).endswith(".gd")):
                yield _file(os.path.join(store.path, file))
            yield f"{store.path} (ids of {t!r})", partial(_id_map, store, t)
    for edge in store.manifest.edges:
        for direction, file in (("in", edge.in_file), ("out", edge.out_file)):
            if file is not None:
                path = os.path.join(store.path, file)
                yield path, partial(_all, partial(store.graph, edge.type, direction), _file(path)[1])
        for name, column in edge.columns.items():
            path = str(column.path(store.path))
            yield path, partial(_all, partial(store.edge_feature, name, edge.type), _file(path)[1])
    for split, columns in store.manifest.edge_splits.items():
        for column in columns.values():
            path = str(column.path(store.path))
            yield path, partial(_all, _file(path)[1], partial(store.edge_split, split))


def _all(*checks: Callable[[], object]) -> None:
    for check in checks:
        check()


def _split(store: Store, name: str, t: str) -> None:
    ids, limit = store.split(name, t), store.num_nodes(t)
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < limit:
        raise _engine.FormatError(
            f"{store.path}: split {name!r} of {t!r} names a node outside 0 to {limit - 1}"
        )


def _id_map(store: Store, t: str) -> None:
    """Every original id must lead back to the node it came from; in pieces, so that memory stays bounded."""
    import numpy as np

    ids, n, step = store.id_map(t), store.num_nodes(t), 1 << 20
    for begin in range(0, n, step):
        dense = np.arange(begin, min(n, begin + step))
        wrong = np.flatnonzero(ids.to_dense(ids.to_original(dense)) != dense)
        if len(wrong):
            raise _engine.FormatError(
                f"{store.path}: the id map of {t!r} does not lead back to node {begin + int(wrong[0])}"
            )
