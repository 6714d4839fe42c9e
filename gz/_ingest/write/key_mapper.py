"""ids="map": edges named by arbitrary keys, turned into dense ids on disk (csrc/build/id_map.h says how)."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from gz import _engine
from gz._base.progress import Progress
from gz._base.text import Text
from gz._engine import InputError
from gz._ingest.plan.inputs import Inputs
from gz._ingest.plan.keys import Keys, as_keys
from gz._ingest.write.edges import EdgeJob
from gz.feature import FeatureStore
from gz.manifest import ID_MAP_FILES


@dataclass
class Spool:
    """Where an edge type's keys stand in the sequences of its node types, and its payload rows in order."""

    src_start: int = 0
    dst_start: int = 0
    edges: int = 0
    same_type: bool = False
    payload: IO[bytes] | None = None


@dataclass
class _Type:
    name: str
    text: bool | None = None
    assigner: Any = None
    closed: int = 0
    uses: list[tuple[EdgeJob, Spool, str]] = field(default_factory=list)


class KeyMapper:
    """`tmp`: for temporary files. `types`: the node types that take part, by default all."""

    def __init__(
        self,
        inputs: Inputs,
        root: Path,
        tmp: Path,
        folders: dict[str, str],
        memory: int,
        progress: Progress,
        types: Collection[str] | None = None,
    ):
        self.inputs, self.root, self.folders, self.progress = inputs, root, folders, progress
        self.types = {n: _Type(n) for n in inputs.nodes if types is None or n in types}
        self.memory = memory // 2 // max(1, len(self.types))
        self._tmp = tmp

    def _add(self, t: _Type, keys: Keys, where: str) -> None:
        self._open(t, isinstance(keys, Text), where)
        if isinstance(keys, Text):
            t.assigner.add_text(*_arrays(keys))
        else:
            t.assigner.add_integers(keys)

    def _add_pairs(self, t: _Type, src: Keys, dst: Keys, where: str) -> None:
        """The keys of both ends of edges within one type."""
        if isinstance(src, Text) and isinstance(dst, Text):
            self._open(t, True, where)
            t.assigner.add_text_pairs(*_arrays(src), *_arrays(dst))
        elif isinstance(src, Text) or isinstance(dst, Text):
            raise InputError(
                f"{where}: sources and destinations are of one node type, but one is text and the other "
                'integers; ids="text" (--ids text) reads both as text, ids="int" (--ids int) as integers'
            )
        else:
            self._add(t, np.stack([src, dst], axis=1).reshape(-1), where)

    def _open(self, t: _Type, text: bool, where: str) -> None:
        if t.assigner is None:
            t.text = text
            t.assigner = _engine.IdAssigner(str(self._tmp), text, max(self.memory, 1 << 20))
        if t.text != text:
            kinds = ("integers", "text")
            raise InputError(
                f"{where}: ids of {t.name!r} are {kinds[text]} here, but {kinds[not text]} before. "
                'ids="text" (--ids text) reads all of them as text, ids="int" (--ids int) as integers'
            )

    def read(self, jobs: list[EdgeJob]) -> list[Spool]:
        for name, t in self.types.items():
            node = self.inputs.nodes[name]
            for keys in node.original or node.keys or ():
                self._add(t, keys, f"nodes of {name!r}")
            self._close(t)
        return [self._read_edges(job) for job in jobs]

    def look_up(self, job: EdgeJob, numbered: dict[str, Any]) -> Spool:
        """Reads the edges of one type and finds their ids in a mapping that was written before."""
        for name, t in self.types.items():
            for keys in _stored_keys(self.root, numbered[name][1]):
                self._add(t, keys, f"nodes of {name!r}")
            self._close(t)
        spool = self._read_edges(job)
        for t in self.types.values():
            if t.assigner is not None:
                t.assigner.begin_lookup()
                self._number(t, f"looking up ids of {t.name!r}")
        return spool

    def _close(self, t: _Type) -> None:
        if t.assigner is not None:
            t.closed = t.assigner.num_added
            t.assigner.close_keys()

    def _read_edges(self, job: EdgeJob) -> Spool:
        a, b = self.types[job.spec.type[0]], self.types[job.spec.type[2]]
        spool = Spool(same_type=a is b)
        spool.src_start = a.assigner.num_added if a.assigner else 0
        spool.dst_start = b.assigner.num_added if b.assigner else 0
        a.uses.append((job, spool, "source"))
        if a is not b:
            b.uses.append((job, spool, "destination"))
        if job.record.itemsize:
            spool.payload = tempfile.TemporaryFile(dir=self._tmp)  # noqa: SIM115 - closed in edges()
        self.progress.phase("reading edges")
        for chunk in job.chunks():
            ids, at = self.inputs.spec.ids, (chunk.where, chunk.first_row)
            src, dst = (as_keys(chunk.columns[k], *at, ids) for k in job.source.keys)
            if a is b:
                self._add_pairs(a, src, dst, chunk.where)
            else:
                self._add(a, src, chunk.where)
                self._add(b, dst, chunk.where)
            payload = job.payload(chunk)
            if payload is not None and spool.payload is not None:
                spool.payload.write(payload.data)
            spool.edges += chunk.rows
            self.progress.update(spool.edges, job.table.rows, " edges")
        job.finish_feeds()
        return spool

    def assign(self) -> dict[str, tuple[int, dict[str, Any]]]:
        """Gives out the ids. Returns each type's number of nodes and its entry in the manifest."""
        result = {}
        for name, t in self.types.items():
            prefix = f"{self.folders[name]}/id-"
            self._assign(t, str(self.root / prefix))
            kind = "text" if t.text else "int"
            entry: dict[str, Any] = {"kind": kind} | {f: f"{prefix}{f}.gd" for f in ID_MAP_FILES[kind]}
            result[name] = (t.assigner.num_ids, entry)
        return result

    def _assign(self, t: _Type, prefix: str) -> None:
        if t.assigner is None:
            t.text = False
            t.assigner = _engine.IdAssigner(str(self._tmp), False, 1 << 20)
        t.assigner.begin(prefix)
        self._number(t, f"numbering {t.name!r}")

    def _number(self, t: _Type, what: str) -> None:
        self.progress.phase(what)
        while t.assigner.step():
            self.progress.update(t.assigner.num_ids, None, " ids")
        if (bad := t.assigner.offender) is not None:
            raise self._offence(t, bad.place, bad.key)

    def _offence(self, t: _Type, place: int, key: str) -> InputError:
        shown = repr(key) if t.text else key
        if place < t.closed:
            return InputError(f"nodes of {t.name!r}, row {place}: id {shown} occurs twice")
        for job, spool, end in t.uses:
            start, step = (
                (spool.src_start, 2)
                if spool.same_type
                else (spool.src_start if end == "source" else spool.dst_start, 1)
            )
            if start <= place < start + step * spool.edges:
                if spool.same_type:
                    end = ("source", "destination")[(place - start) % 2]
                row = (place - start) // step
                return InputError(
                    f"{job.table.name}, edge {row}: its {end} {shown} is not among the nodes of {t.name!r}; "
                    "add it to their table, or take the edge away"
                )
        return InputError(f"id {shown} is not among the nodes of {t.name!r}")

    def edges(self, job: EdgeJob, spool: Spool) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
        """The edges again, by dense ids, with their payload rows."""
        a, b = (self.types[t].assigner for t in (job.spec.type[0], job.spec.type[2]))
        if spool.payload is not None:
            spool.payload.seek(0)
        rows, size = job.chunk_rows(), job.record.itemsize
        for at in range(0, spool.edges, rows):
            n = min(rows, spool.edges - at)
            if spool.same_type:
                both = a.read_ids(spool.src_start + 2 * at, 2 * n)
                src, dst = np.ascontiguousarray(both[0::2]), np.ascontiguousarray(both[1::2])
            else:
                src, dst = a.read_ids(spool.src_start + at, n), b.read_ids(spool.dst_start + at, n)
            payload = (
                np.frombuffer(spool.payload.read(n * size), np.uint8) if spool.payload is not None else None
            )
            yield src, dst, payload
        if spool.payload is not None:
            spool.payload.close()


def _stored_keys(root: Path, entry: dict[str, Any]) -> Iterator[Keys]:
    """The original ids of a mapping, in the order of the nodes."""
    parts = {f: FeatureStore(root / entry[f]).get_tensor() for f in ID_MAP_FILES[entry["kind"]]}
    step = 1 << 18
    if entry["kind"] == "int":
        for at in range(0, len(parts["keys"]), step):
            yield np.ascontiguousarray(parts["keys"][at : at + step])
        return
    offsets = parts["offsets"]
    for at in range(0, len(offsets) - 1, step):
        some = offsets[at : at + step + 1].astype(np.uint64)
        yield Text(some - some[0], parts["bytes"][int(some[0]) : int(some[-1])])


def _arrays(keys: Text) -> tuple[np.ndarray, np.ndarray]:
    return np.ascontiguousarray(keys.offsets, np.uint64), np.ascontiguousarray(keys.bytes, np.uint8)
