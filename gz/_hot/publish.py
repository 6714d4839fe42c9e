"""Makes what was copied a part of the store: rows of a column, lists of an edge type. All at once, under the
lock of edit.py, or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gz import manifest
from gz._base.files import FileNames, replaced
from gz._base.journal import sync
from gz.edit import Draft, Editable, Target, Type, editing
from gz.manifest import EdgeType, HotEntry, HotListsEntry


def draft(store: Editable, name: str, t: Type = None) -> Draft:
    """A ``folder`` for files that are to become part of a column, or none."""
    return Draft(Target(store, name, t, overwrite=True, must_exist=True))


def lists_draft(store: Editable, t: EdgeType) -> Draft:
    """A ``folder`` for files that are to become part of an edge type, or none."""
    return Draft(Target(store, "lists", t, overwrite=True))


def set_hot(
    store: Editable, name: str, t: Type, version: str, written: Draft | None, files: Sequence[str] = ()
) -> None:
    """Gives a column the rows of it that are read most, in files of `written`: their ids, then the rows. None
    of them: the column has none from then on. `version`: of the column they were taken from."""
    target = Target(store, name, t, overwrite=True, must_exist=True)
    with editing(target.root) as m:
        store.check_current()
        target.check(m)
        entry = target.columns(m)[target.name]
        if m.files.get(entry.file or "", version) != version:
            raise replaced(str(entry.path(target.root)), "while its rows were read")
        published = _take_over(target, FileNames().get("", name), written, files)
        entry.hot = HotEntry(published[0], published[1:]) if published else None
        manifest.write(m, target.root)
        sync(target.root)
    store._reload(target.name, target.type)


def set_hot_lists(store: Editable, t: EdgeType, version: str, written: Draft, files: Sequence[str]) -> None:
    """Gives an edge type the lists of it that are sampled most, in files of `written`: whose they are, where
    they begin, and the lists. `version`: of the topology they were taken from."""
    target = Target(store, "lists", t, overwrite=True)
    with editing(target.root) as m:
        store.check_current()
        entry = m.edge(t)
        if m.files.get(entry.in_file or "", version) != version:
            raise replaced(str(target.root / (entry.in_file or "")), "while its lists were read")
        entry.hot = HotListsEntry(*_take_over(target, "lists", written, files))
        manifest.write(m, target.root)
        sync(target.root)
    store._reload(None, t)


def remove_hot_lists(store: Editable, t: EdgeType) -> None:
    root = Path(store.path)
    with editing(root) as m:
        store.check_current()
        m.edge(t).hot = None
        manifest.write(m, root)
        sync(root)
    store._reload(None, t)


def _take_over(target: Target, name: str, written: Draft | None, files: Sequence[str]) -> list[str]:
    """Moves files of a draft to where they stay; returns their paths in the store."""
    published = []
    for file in files if written is not None else ():
        assert written is not None
        token = written.folder.name.removesuffix(".new")[-8:]
        final = target.folder / f"{name}-{Path(file).stem}~{token}.gd"
        os.rename(written.folder / file, final)
        published.append(str(final.relative_to(target.root)))
    sync(target.folder)
    return published
