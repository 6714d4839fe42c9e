"""ids="map": edges named by arbitrary keys, turned into dense ids on disk (csrc/id_map.h says how)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from gz import _engine
from gz._engine import InputError

from .arrays import as_numpy, is_array
from .columns import open_column
from .csv_table import ID_NAMES, CsvTable
from .edge_input import expand, is_path
from .edges import EdgeJob
from .parquet import ParquetTable
from .progress import Progress
from .spec import Spec
from .text import Text

Keys = np.ndarray | Text


def as_keys(values: Any, where: str, first_row: int = 0) -> Keys:
    """int64, or Text. Floats and missing values cannot name a node."""
    if isinstance(values, Text):
        return values
    a, _ = as_numpy(values)
    a = a.ravel()
    if a.dtype.kind in "iu":
        if a.dtype == np.uint64 and len(a) and a.max() > np.iinfo(np.int64).max:
            i = int((a > np.iinfo(np.int64).max).argmax())
            raise InputError(f"{where}, row {first_row + i}: id {a[i]} does not fit a signed 64-bit integer")
        return np.ascontiguousarray(a, np.int64)
    if a.dtype.kind == "U":
        return Text.of(a.tolist())
    if a.dtype.kind == "S":
        return Text.of_bytes(a.tolist())
    if a.dtype.kind == "O":
        for i, v in enumerate(a):
            if not isinstance(v, (str, bytes)):
                raise InputError(
                    f"{where}, row {first_row + i}: id {v!r} is a {type(v).__name__}; ids are "
                    "integers or text"
                )
        return Text.of(a.tolist())
    bad = f" (row {first_row} is {a[0]!r})" if len(a) else ""
    raise InputError(f"{where}: ids have dtype {a.dtype}{bad}; ids are integers or text")


def key_chunks(value: Any, what: str, base: str) -> Iterator[Keys]:
    """The keys of a node table or a split: an array, a list, a file (its id column), an iterator."""
    options: dict[str, Any] = {}
    if isinstance(value, dict):
        options = dict(value)
        value = options.pop("file")
    column = options.get("column")
    if is_path(value) and not str(value).endswith((".npy", ".npz")) and ".npz:" not in str(value):
        for path in expand(value, base):
            if path.endswith((".parquet", ".pq")):
                names = [c.name for c in ParquetTable(path).columns]
                named = [n for n in names if n.lower() in ID_NAMES]
                table: Any = ParquetTable(path, [column or (named[0] if named else names[0])])
            else:
                probe = CsvTable(path, text_keys=None, any_integer=True, values=[])
                named = [n for n in probe.layout.names if n.lower() in ID_NAMES]
                key = column if column is not None else (named[0] if named else 0)
                table = CsvTable(path, keys=[key], values=[], text_keys=None, any_integer=True)
            for chunk in table.chunks(1 << 18):
                yield as_keys(next(iter(chunk.columns.values())), chunk.where, chunk.first_row)
        return
    if isinstance(value, (list, tuple)) and not any(is_array(v) for v in value):
        yield as_keys(np.asarray(value, dtype=object if value and isinstance(value[0], str) else None), what)
        return
    for chunk in open_column(what, value, base).chunks(1 << 18):
        yield as_keys(next(iter(chunk.columns.values())), chunk.where, chunk.first_row)


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
    def __init__(self, plan: Spec, root: Path, folders: dict[str, str], memory: int, progress: Progress):
        self.plan, self.root, self.folders, self.progress = plan, root, folders, progress
        self.memory = memory // 2 // max(1, len(plan.nodes))
        self.types = {n: _Type(n) for n in plan.nodes}

    def _add(self, t: _Type, keys: Keys, where: str) -> None:
        text = isinstance(keys, Text)
        if t.assigner is None:
            t.text = text
            t.assigner = _engine.IdAssigner(str(self.root), text, max(self.memory, 1 << 20))
        if t.text != text:
            kinds = ("integers", "text")
            raise InputError(
                f"{where}: ids of {t.name!r} are {kinds[text]} here, but {kinds[not text]} "
                "before; make them all text (quote them, or cast)"
            )
        if isinstance(keys, Text):
            t.assigner.add_text(
                np.ascontiguousarray(keys.offsets, np.uint64), np.ascontiguousarray(keys.bytes, np.uint8)
            )
        else:
            t.assigner.add_integers(keys)

    def read(self, jobs: list[EdgeJob]) -> list[Spool]:
        for name, node in self.plan.nodes.items():
            if node.ids is None:
                continue
            t = self.types[name]
            for keys in key_chunks(node.ids, f"nodes of {name!r}", self.plan.base):
                self._add(t, keys, f"nodes of {name!r}")
            if t.assigner is not None:
                t.closed = t.assigner.num_added
                t.assigner.close_keys()
        return [self._read_edges(job) for job in jobs]

    def _read_edges(self, job: EdgeJob) -> Spool:
        a, b = self.types[job.spec.type[0]], self.types[job.spec.type[2]]
        spool = Spool(same_type=a is b)
        spool.src_start = a.assigner.num_added if a.assigner else 0
        spool.dst_start = b.assigner.num_added if b.assigner else 0
        a.uses.append((job, spool, "source"))
        if a is not b:
            b.uses.append((job, spool, "destination"))
        if job.record.itemsize:
            spool.payload = tempfile.TemporaryFile(dir=self.root)  # noqa: SIM115 - closed in edges()
        self.progress.phase("reading edges")
        for chunk in job.chunks():
            src = as_keys(chunk.columns[job.keys[0]], chunk.where, chunk.first_row)
            dst = as_keys(chunk.columns[job.keys[1]], chunk.where, chunk.first_row)
            if a is b:
                self._add(a, _interleave(src, dst, chunk.where), chunk.where)
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
            if t.assigner is None:
                t.text = False
                t.assigner = _engine.IdAssigner(str(self.root), False, 1 << 20)
            prefix = f"{self.folders[name]}/id-"
            t.assigner.begin(str(self.root / prefix))
            self.progress.phase(f"numbering {name!r}")
            while t.assigner.step():
                self.progress.update(t.assigner.num_ids, None, " ids")
            if t.assigner.offender is not None:
                raise self._offence(t, *t.assigner.offender)
            files = ("offsets", "bytes", "hash", "dense") if t.text else ("keys", "hash", "dense")
            entry: dict[str, Any] = {"kind": "text" if t.text else "int"} | {
                f: f"{prefix}{f}.gd" for f in files
            }
            result[name] = (t.assigner.num_ids, entry)
        return result

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
                    f"{job.table.name}, edge {row}: its {end} {shown} is not among the nodes of {t.name!r}"
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


def _interleave(src: Keys, dst: Keys, where: str) -> Keys:
    if isinstance(src, Text) and isinstance(dst, Text):
        return Text.interleave(src, dst)
    if isinstance(src, Text) or isinstance(dst, Text):
        raise InputError(
            f"{where}: sources and destinations are of one node type, but one is text and the other integers"
        )
    out = np.empty(2 * len(src), np.int64)
    out[0::2], out[1::2] = src, dst
    return out
