"""The phases of a partitioning, one after the other, each of them journaled.

    assign     scratch/parts
    number     orig_nids/*, orig_eids/*      old ids by new ones; the second is filled part by part
    new ids    scratch/new_ids
    edges P    scratch/inner-P-*, outer-P-*
    part P     partP/*                       then what `edges P` put aside goes

A phase says which assignment it goes with: where nodes were assigned again, and otherwise, it is undone.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gz._base.files import FileNames
from gz._base.journal import Journal, sync
from gz._base.place import new_store, temporary_folder
from gz._base.progress import Progress
from gz._base.replace import PARTITION
from gz.output import new_npy
from gz.partitioner import room
from gz.partitioner.assign import Metis, Parts, fennel_parts, given_parts, random_parts, range_parts
from gz.partitioner.balance import balance_of, has_split
from gz.partitioner.edges import inner_file, outer_file, spread
from gz.partitioner.number import Numbers, count, number
from gz.partitioner.options import Keys, Options
from gz.partitioner.part import Part
from gz.partitioner.report import Report, write_report
from gz.partitioner.whole import Ids, Whole, new_array, open_array, steps

_SCRATCH = "scratch"


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
    options.check(whole)
    tmp = temporary_folder(options.tmp)
    progress = Progress(options.progress)
    with new_store(out, options.overwrite, Keys(whole, options, writer.name), PARTITION) as work:
        with _scratch(work.root, tmp) as scratch:
            try:
                report = _Run(whole, options, writer, metis, work.root, work.journal, scratch, progress).run()
            except OSError as e:
                if e.errno != errno.ENOSPC or e.filename is not None:
                    raise
                raise OSError(errno.ENOSPC, "the disk is full", str(scratch)) from e  # writes name no file
            finally:
                progress.close()
        write_report(report, work.root)
    report.path, report.seconds = os.fspath(out), time.monotonic() - begin
    return report


@contextmanager
def _scratch(root: Path, tmp: Path | None) -> Iterator[Path]:
    """For temporary files. Beside the parts they stay when a run is stopped, so that it can go on; elsewhere
    they go, and are made again."""
    if tmp is not None:
        with tempfile.TemporaryDirectory(dir=tmp, prefix="gz-partition-") as folder:
            yield Path(folder)
        return
    (root / _SCRATCH).mkdir(exist_ok=True)
    yield root / _SCRATCH
    shutil.rmtree(root / _SCRATCH)


class _Run:
    def __init__(
        self,
        whole: Whole,
        options: Options,
        writer: Writer,
        metis: Metis | None,
        root: Path,
        journal: Journal,
        scratch: Path,
        progress: Progress,
    ):
        self._whole, self._options, self._writer, self._metis = whole, options, writer, metis
        self._root, self._journal, self._scratch, self._progress = root, journal, scratch, progress
        names = FileNames()
        self._node_files = [names.get("orig_nids", t, ".npy") for t in whole.ntypes]
        self._edge_files = [names.get("orig_eids", "__".join(t), ".npy") for t in whole.etypes]

    def run(self) -> Report:
        options, whole = self._options, self._whole
        if options.check_disk:
            room.check_before(whole, self._root, self._journal.finished_bytes())
        parts, assigned = self._assign()
        numbers = self._number(parts, assigned)
        orig_nids, orig_eids = (self._open(files) for files in (self._node_files, self._edge_files))
        new_ids = self._new_ids(parts, numbers, orig_nids, assigned)
        todo = [p for p in range(options.parts) if self._result(f"part {p}", assigned) is None]
        between = self._divide(parts, new_ids, numbers, todo, assigned)
        if options.check_disk:
            room.check_parts(whole, numbers, between, todo, self._root)
        self._progress.phase("writing parts")
        for at, p in enumerate(todo):
            self._progress.update(at, len(todo), " parts")
            part = Part(whole, numbers, p, orig_nids, new_ids, self._scratch, options.memory)
            self._part(part, numbers, orig_eids, between, assigned)
        told = [self._journal.phases[f"part {p}"]["result"] for p in range(options.parts)]
        return Report(
            path=str(self._root),
            config=self._writer.finish(numbers, told, self._root),
            method=options.method,
            ntypes=whole.ntypes,
            etypes=whole.etypes,
            nodes=numbers.nodes.tolist(),
            edges=numbers.edges.tolist(),
            chosen=self._chosen(numbers, new_ids),
            cut=int(between.sum() - np.trace(between)),
            halo=[t["halo"] for t in told],
            orig_nids=dict(zip(whole.ntypes, self._node_files, strict=True)),
            orig_eids={":".join(t): f for t, f in zip(whole.etypes, self._edge_files, strict=True)},
        )

    # ---- phases ----

    def _assign(self) -> tuple[Parts, int]:
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
        elif options.assignment is not None:
            given_parts(whole, parts, options.parts, options.assignment)
        else:
            self._near_neighbours(parts)
        checksum, sizes = 0, np.zeros(options.parts, np.int64)
        for a, b in steps(len(parts), 1 << 20):
            checksum = zlib.crc32(parts[a:b].tobytes(), checksum)
            sizes += np.bincount(parts[a:b], minlength=options.parts)
        if (sizes == 0).any():
            what = f"part {sizes.argmin()} of {options.parts} would have no nodes"
            raise ValueError(f"{what}; assign some to it, or make fewer parts")
        self._finish("assign", [path], checksum)
        return parts, checksum

    def _near_neighbours(self, parts: Parts) -> None:
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

    def _number(self, parts: Parts, assigned: int) -> Numbers:
        """Counts, and makes room for the old ids."""
        done = self._result("number", assigned)
        if done is not None:
            return Numbers.from_json(done)
        whole = self._whole
        numbers = count(whole, parts, self._options.parts)
        sizes = [whole.store.num_nodes(t) for t in whole.ntypes] + [
            whole.store.num_edges(t) for t in whole.etypes
        ]
        files = [self._root / f for f in (*self._node_files, *self._edge_files)]
        for f, size in zip(files, sizes, strict=True):
            f.parent.mkdir(exist_ok=True)
            new_npy(f, (size,), np.int64)
        self._finish("number", files, assigned, **numbers.to_json())
        return numbers

    def _new_ids(
        self, parts: Parts, numbers: Numbers, orig_nids: list[NDArray[np.int64]], assigned: int
    ) -> NDArray[Any]:
        path, dtype = self._scratch / "new_ids", self._whole.id_dtype
        if self._result("new ids", assigned) is not None:
            return open_array(path, dtype)
        self._progress.phase("numbering nodes")
        new_ids = new_array(path, self._whole.num_nodes, dtype)
        number(self._whole, parts, numbers, new_ids, orig_nids, self._progress)
        for f in self._node_files:
            sync(self._root / f)
        self._finish("new ids", [path], assigned)
        return new_ids

    def _divide(
        self, parts: Parts, new_ids: NDArray[Any], numbers: Numbers, todo: list[int], assigned: int
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
            self._finish(f"edges {p}", self._spilled(p), assigned, between=between.tolist())
        return between

    def _part(
        self, part: Part, numbers: Numbers, orig_eids: list[NDArray[np.int64]], between: Ids, assigned: int
    ) -> None:
        p = part.number
        folder = self._root / f"part{p}"
        folder.mkdir(exist_ok=True)
        told = self._writer.write(part, folder)
        for e, ids in enumerate(orig_eids):
            part.write_edge_ids(e, ids[numbers.edge_rows(p, e)])
            sync(self._root / self._edge_files[e])
        self._finish(f"part {p}", sorted(folder.iterdir()), assigned, between=between.tolist(), **told)
        self._journal.forget(f"edges {p}")  # and its files
        for f in self._spilled(p):
            f.unlink(missing_ok=True)

    def _chosen(self, numbers: Numbers, new_ids: NDArray[Any]) -> list[int]:
        """Nodes of the balanced split in each part."""
        split = self._options.balance
        if not split or not has_split(self._whole, split):
            return []
        path = self._scratch / "classes"
        balance = balance_of(self._whole, path, split, False)
        chosen = np.array(balance.chosen)
        counts = np.zeros(len(numbers.nodes), np.int64)
        for a, b in steps(self._whole.num_nodes, 1 << 20):
            mine = new_ids[a:b][chosen[balance.classes[a:b]]]
            where = np.searchsorted(numbers.starts, mine, "right") - 1
            counts += np.bincount(where, minlength=len(counts))
        path.unlink()
        return counts.tolist()

    # ---- files and the journal ----

    def _open(self, files: list[str]) -> list[NDArray[np.int64]]:
        return [np.load(self._root / f, mmap_mode="r+") for f in files]

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

    def _finish(self, phase: str, files: list[Path], assigned: int, **result: Any) -> None:
        """The files are on the disk when the journal says so. What lies elsewhere goes with the process, and
        no journal is kept of it."""
        if all(f.is_relative_to(self._root) for f in files):
            for f in files:
                sync(f)
            names = [str(f.relative_to(self._root)) for f in files]
            self._journal.finish(phase, names, {"assigned": assigned, **result})
