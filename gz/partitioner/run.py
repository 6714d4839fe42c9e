"""The phases of a partitioning, one after the other, each of them journaled."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import zlib
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gz._base.files import FileNames
from gz._base.journal import sync
from gz._base.place import Workspace, new_store
from gz._base.progress import Progress
from gz._base.replace import PARTITION
from gz.output import new_npy
from gz.partitioner import room
from gz.partitioner.assign import (
    MOST_PARTS,
    Metis,
    fennel_parts,
    given_parts,
    random_parts,
    range_parts,
)
from gz.partitioner.balance import balance_of, has_split
from gz.partitioner.edges import inner_file, outer_file, spread
from gz.partitioner.number import Numbers, count, number
from gz.partitioner.part import Part
from gz.partitioner.report import Report, write_report
from gz.partitioner.whole import Ids, Whole, new_array, open_array, steps, sync_array

METHODS = ("metis", "fennel", "random", "range", "file")
_SCRATCH = "scratch"


@dataclass(frozen=True)
class Options:
    """See gz_dgl.partition."""

    parts: int
    method: str = "fennel"
    assignment: Mapping[str | None, Any] | None = None
    balance: str | None = "train"
    balance_edges: bool = True
    passes: int = 3
    rng_seed: int = 0
    memory: int = 2 * 10**9
    overwrite: bool = False
    check_disk: bool = True
    progress: bool | None = None


class Writer(Protocol):
    """Writes parts in the format of a framework."""

    @property
    def name(self) -> str:
        """Says what is written, in what version: a run that was made for another is not gone on with."""

    def write(self, part: Part, folder: Path) -> dict[str, Any]:
        """Writes all files of a part; what it tells is handed to `finish`. It has ``halo``, the number of
        nodes that are not the part's own."""

    def finish(self, numbers: Numbers, told: list[dict[str, Any]], root: Path) -> str:
        """Writes what holds for all parts; the name of that file."""


def partition(
    whole: Whole, out: str | os.PathLike[str], options: Options, writer: Writer, metis: Metis | None = None
) -> Report:
    """Makes the folder OUT, complete or not at all; an unfinished run of the same is gone on with."""
    begin = time.monotonic()
    _check(whole, options)
    keys = _Keys(whole, options, writer.name)
    with new_store(out, options.overwrite, keys, PARTITION) as work:
        progress = Progress(options.progress)
        try:
            report = _Run(whole, options, writer, metis, work, progress).run()
        finally:
            progress.close()
    report.path, report.seconds = os.fspath(out), time.monotonic() - begin
    return report


def _check(whole: Whole, options: Options) -> None:
    k = options.parts
    if not 1 <= k <= MOST_PARTS:
        raise ValueError(f"parts is {k}; give 1 to {MOST_PARTS}")
    if k > whole.num_nodes:
        raise ValueError(f"{whole.store.path}: has {whole.num_nodes} nodes, which cannot make {k} parts")
    if options.method not in METHODS:
        raise ValueError(f"method={options.method!r}: choose one of {', '.join(METHODS)}")
    if (options.assignment is not None) != (options.method == "file"):
        raise ValueError("an assignment goes with method='file' (--assignment FILE), and that with one")
    if options.passes < 1:
        raise ValueError(f"passes is {options.passes}; give 1 or more")


class _Keys:
    """All phases are made from the same: the store, the options and the framework."""

    def __init__(self, whole: Whole, options: Options, writer: str):
        m = whole.store.manifest
        told: list[Any] = [
            writer,
            whole.store.path,
            m.generation,
            whole.ntypes,
            [list(t) for t in whole.etypes],
        ]
        told += [
            [whole.store.num_nodes(t) for t in whole.ntypes],
            sorted(map(str, m.nodes.items())),
            str(m.edges),
        ]
        told += [options.parts, options.method, options.balance, options.balance_edges]
        told += [options.passes, options.rng_seed, _given_key(options.assignment)]
        self._key = hashlib.sha256(json.dumps(told).encode()).hexdigest()

    @property
    def in_memory(self) -> bool:
        return False

    def of(self, phase: str) -> str | None:
        del phase
        return self._key


def _given_key(given: Mapping[str | None, Any] | None) -> list[Any]:
    out: list[Any] = []
    for t, value in (given or {}).items():
        if isinstance(value, str | os.PathLike):
            found = os.stat(value)
            out.append([t, os.path.abspath(value), found.st_size, found.st_mtime_ns])
        else:
            out.append([t, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()])
    return out


class _Run:
    def __init__(
        self,
        whole: Whole,
        options: Options,
        writer: Writer,
        metis: Metis | None,
        work: Workspace,
        progress: Progress,
    ):
        self._whole, self._options, self._writer, self._metis = whole, options, writer, metis
        self._root, self._journal, self._progress = work.root, work.journal, progress
        self._scratch = work.root / _SCRATCH
        self._scratch.mkdir(exist_ok=True)
        names = FileNames()
        self._node_files = [names.get("orig_nids", t, ".npy") for t in whole.ntypes]
        self._edge_files = [names.get("orig_eids", "__".join(t), ".npy") for t in whole.etypes]

    def run(self) -> Report:
        options, whole = self._options, self._whole
        if options.check_disk:
            room.check_before(whole, self._root, self._journal.finished_bytes())
        parts, assigned = self._assign()
        numbers, new_ids, orig_nids = self._number(parts, assigned)
        orig_eids = [np.load(self._root / f, mmap_mode="r+") for f in self._edge_files]
        todo = [p for p in range(options.parts) if self._result(f"part {p}", assigned) is None]
        between = self._divide(parts, new_ids, numbers, todo, assigned)
        if options.check_disk:
            room.check_parts(whole, numbers, between, todo, self._root)
        for p in todo:
            self._progress.phase(f"part {p}")
            part = Part(whole, numbers, p, orig_nids, new_ids, self._scratch, options.memory)
            self._part(part, numbers, orig_eids, between, assigned)
        told = [self._journal.phases[f"part {p}"]["result"] for p in range(options.parts)]
        between = np.array(told[0]["between"], np.int64)
        chosen = self._chosen(numbers, new_ids)
        config = self._writer.finish(numbers, told, self._root)
        del parts, new_ids, orig_nids, orig_eids
        shutil.rmtree(self._scratch)
        report = Report(
            path=str(self._root),
            config=config,
            method=options.method,
            ntypes=whole.ntypes,
            etypes=whole.etypes,
            nodes=numbers.nodes.tolist(),
            edges=numbers.edges.tolist(),
            chosen=chosen,
            cut=int(between.sum() - np.trace(between)),
            halo=[t["halo"] for t in told],
            orig_nids=dict(zip(whole.ntypes, self._node_files, strict=True)),
            orig_eids={":".join(t): f for t, f in zip(whole.etypes, self._edge_files, strict=True)},
        )
        write_report(report, self._root)
        return report

    # ---- phases ----

    def _assign(self) -> tuple[NDArray[np.uint16], int]:
        """The parts of all nodes, and a checksum of them that the later phases go with."""
        path = self._scratch / "parts"
        done = self._journal.result("assign")
        if done is not None:
            return open_array(path, np.uint16), done["assigned"]
        options, whole = self._options, self._whole
        self._progress.phase("assigning nodes")
        parts = new_array(path, whole.num_nodes, np.uint16)
        if options.method == "random":
            random_parts(whole, parts, options.parts, options.rng_seed)
        elif options.method == "range":
            range_parts(whole, parts, options.parts)
        elif options.method == "file":
            assert options.assignment is not None
            given_parts(whole, parts, options.parts, options.assignment)
        else:
            self._near_neighbours(parts)
        checksum = 0
        for a, b in steps(len(parts), 1 << 20):
            checksum = zlib.crc32(parts[a:b].tobytes(), checksum)
        sync_array(parts, path)
        self._finish("assign", [path], {"assigned": checksum})
        return parts, checksum

    def _near_neighbours(self, parts: NDArray[np.uint16]) -> None:
        options, whole = self._options, self._whole
        split = options.balance if options.balance and has_split(whole, options.balance) else None
        path = self._scratch / "classes"
        balance = balance_of(whole, path, split, options.balance_edges)
        if options.method == "fennel":
            fennel_parts(whole, parts, options.parts, balance, options.passes, options.memory, self._progress)
        elif self._metis is None:
            raise ValueError("method='metis' needs DGL")
        else:
            classes = balance.classes if len(balance.sizes) > 1 else None
            parts[:] = self._metis(whole, options.parts, classes, options.balance_edges)
        path.unlink()

    def _number(
        self, parts: NDArray[np.uint16], assigned: int
    ) -> tuple[Numbers, NDArray[Any], list[NDArray[np.int64]]]:
        whole, path = self._whole, self._scratch / "new_ids"
        files = [self._root / f for f in self._node_files]
        done = self._result("number", assigned)
        if done is not None:
            return (
                Numbers.from_json(done),
                open_array(path, whole.id_dtype),
                [np.load(f, mmap_mode="r") for f in files],
            )
        self._progress.phase("numbering nodes")
        numbers = count(whole, parts, self._options.parts)
        empty = np.flatnonzero(numbers.nodes.sum(1) == 0)
        if len(empty):
            raise ValueError(
                f"part {empty[0]} of {self._options.parts} would have no nodes; assign some to it, or make "
                "fewer parts"
            )
        new_ids = new_array(path, whole.num_nodes, whole.id_dtype)
        for folder in ("orig_nids", "orig_eids"):
            (self._root / folder).mkdir(exist_ok=True)
        orig = [
            new_npy(f, (whole.store.num_nodes(t),), np.int64)
            for f, t in zip(files, whole.ntypes, strict=True)
        ]
        number(whole, parts, numbers, new_ids, orig, self._progress)
        edge_files = [self._root / f for f in self._edge_files]
        for f, t in zip(edge_files, whole.etypes, strict=True):
            new_npy(f, (whole.store.num_edges(t),), np.int64)
        for f in (path, *files, *edge_files):
            sync(f)
        self._finish("number", [path, *files, *edge_files], {"assigned": assigned, **numbers.to_json()})
        return numbers, new_ids, [np.load(f, mmap_mode="r") for f in files]

    def _divide(
        self,
        parts: NDArray[np.uint16],
        new_ids: NDArray[Any],
        numbers: Numbers,
        todo: list[int],
        assigned: int,
    ) -> Ids:
        """Edges into files for each part that is to be made. Returns how many lead from part to part."""
        found = {p: self._result(f"edges {p}", assigned) for p in todo}
        wanted = [p for p, result in found.items() if result is None]
        if not wanted:
            known = next(iter(found.values()), None) or self._journal.phases["part 0"]["result"]
            return np.array(known["between"], np.int64)
        between = spread(
            self._whole, parts, new_ids, numbers, wanted, self._scratch, self._options.memory, self._progress
        )
        for p in wanted:
            self._finish(f"edges {p}", self._spilled(p), {"assigned": assigned, "between": between.tolist()})
        return between

    def _part(
        self, part: Part, numbers: Numbers, orig_eids: list[NDArray[np.int64]], between: Ids, assigned: int
    ) -> None:
        p = part.number
        folder = self._root / f"part{p}"
        folder.mkdir(exist_ok=True)
        with _no_half_part(folder):
            told = self._writer.write(part, folder)
        for e, ids in enumerate(orig_eids):
            part.write_edge_ids(e, ids[numbers.edge_rows(p, e)])
            sync(self._root / self._edge_files[e])
        made = sorted(f for f in folder.iterdir())
        for f in made:
            sync(f)
        self._finish(f"part {p}", made, {"assigned": assigned, "between": between.tolist(), **told})
        for f in self._spilled(p):
            f.unlink()

    def _chosen(self, numbers: Numbers, new_ids: NDArray[Any]) -> list[int]:
        """Nodes of the balanced split in each part."""
        split = self._options.balance
        if not split or not has_split(self._whole, split):
            return []
        path = self._scratch / "classes"
        balance = balance_of(self._whole, path, split, False)
        counts, even = np.zeros(len(numbers.nodes), np.int64), 0
        # A type without the split has one class, a type with it two, the second one of its nodes in it.
        chosen = np.zeros(len(balance.sizes), np.bool_)
        for t in range(len(self._whole.ntypes)):
            mine = balance.classes[self._whole.nodes(t)]
            if len(mine) and balance.sizes[even] < len(mine):
                chosen[even + 1] = True
                even += 1
            even += 1
        for a, b in steps(self._whole.num_nodes, 1 << 20):
            mine = new_ids[a:b][chosen[balance.classes[a:b]]]
            where = np.searchsorted(numbers.starts, mine, "right") - 1
            counts += np.bincount(where, minlength=len(counts))
        path.unlink()
        return counts.tolist()

    # ---- the journal ----

    def _spilled(self, p: int) -> list[Path]:
        relations = range(len(self._whole.etypes))
        return [f(self._scratch, p, e) for f in (inner_file, outer_file) for e in relations]

    def _result(self, phase: str, assigned: int) -> dict[str, Any] | None:
        """Of a finished phase; one that goes with another assignment is undone."""
        done = self._journal.result(phase)
        if done is not None and done["assigned"] != assigned:
            self._journal.forget(phase)
            return None
        return done

    def _finish(self, phase: str, files: list[Path], result: dict[str, Any]) -> None:
        self._journal.finish(phase, [str(f.relative_to(self._root)) for f in files], result)


@contextmanager
def _no_half_part(folder: Path) -> Any:
    """A part that could not be written takes no room."""
    try:
        yield
    except BaseException:
        for f in folder.iterdir():
            f.unlink()
        raise
