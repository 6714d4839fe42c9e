"""The phases of an ingest: node columns, then edges, then splits and the manifest.

What a finished phase made is noted in the journal; after a kill, a phase found there is not run again.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from gz import manifest
from gz._base.arrays import past_the_end
from gz._base.dtypes import as_numpy, is_array
from gz._base.files import FileNames
from gz._base.journal import Journal
from gz._base.progress import Progress
from gz._base.text import Text
from gz._engine import InputError
from gz._ingest.plan.column_input import ColumnInput
from gz._ingest.plan.describe import describe
from gz._ingest.plan.fingerprint import COUNTS, IDS, column_phase
from gz._ingest.plan.inputs import Inputs, NodeInput
from gz._ingest.plan.keys import NodeKeys
from gz._ingest.plan.splits import split_chunks
from gz._ingest.read.tables import IteratorTable
from gz._ingest.write.columns import write_column, write_columns
from gz._ingest.write.density import check_density
from gz._ingest.write.edge_splits import write_edge_splits
from gz._ingest.write.edges import EdgeJob
from gz._ingest.write.key_mapper import KeyMapper, Spool
from gz._ingest.write.report import IngestReport
from gz.id_map import IdMap


class StoreWriter:
    def __init__(
        self, inputs: Inputs, journal: Journal, memory: int, progress: Progress, tmp: Path | None = None
    ):
        self.inputs = inputs
        self.plan = inputs.spec
        self.journal = journal
        self.root: Path = journal.root
        self.tmp: Path = tmp or journal.root
        self.memory = memory
        self.progress = progress
        self.names = FileNames()
        self.counts: dict[str, int | None] = {}
        self.counted_by: dict[str, str] = {}  # node types: the feature that says how many there are
        self.entries: dict[str, manifest.NodeEntry] = {}
        self.report = IngestReport("", {}, {})

    def run(self) -> IngestReport:
        plan = self.plan
        folders = {n: self.names.get("nodes", n) for n in plan.nodes}
        for name, node in self.inputs.nodes.items():
            self.entries[name] = manifest.NodeEntry(0)
            (self.root / folders[name]).mkdir(parents=True, exist_ok=True)
            for part in ("keys", "offsets", "bytes", "hash", "dense"):  # the mapping's files come first
                self.names.get(folders[name], f"id-{part}", ".gd")
            self._node_columns(node, folders[name])
        # Wrong ids in them are found before the long work, where the numbers of nodes are known by now.
        early = None not in self.counts.values()
        edge_splits = self._edge_splits() if early else {}
        edges = self._mapped_edges(folders) if plan.mapped else self._dense_edges()
        self._original_ids(folders)
        if not early:
            edge_splits = self._edge_splits()
        for name, node in self.inputs.nodes.items():
            entry = self.entries[name]
            entry.num_nodes = self._count(name)
            self._splits(node, entry, folders[name])
            self.report.num_nodes[name] = entry.num_nodes
        for e in edges:
            self.report.num_edges[e.type] = e.num_edges
        meta = dict(plan.meta)
        if self.report.skipped_lines:
            meta["skipped_lines"] = self.report.skipped_lines
        self.report.notes += plan.notes
        told = self.report.plan = describe(self.inputs)
        written = manifest.Manifest(plan.homogeneous, self.entries, edges, meta, edge_splits, plan=told)
        if plan.finish is not None:
            plan.finish(self.root, folders, self.names, written)
        manifest.write(written, self.root)
        return self.report

    def _edge_splits(self) -> dict[str, dict[str, manifest.ColumnEntry]]:
        counts = {name: n for name, n in self.counts.items() if n is not None}
        return write_edge_splits(self.plan, self.root, self.names, counts)

    def _count(self, name: str) -> int:
        n, node = self.counts[name], self.inputs.nodes[name]
        if n is None or (n == 0 and node.num_nodes is None and not node.columns and node.spec.ids is None):
            raise InputError(f"node type {name!r}: no edges and no features; give num_nodes")
        return n

    # --- nodes

    def _node_columns(self, node: NodeInput, folder: str) -> None:
        kind, count, decided_by = node.spec.name, node.num_nodes, "num_nodes"
        self.progress.phase(f"writing features of {kind!r}")
        columns = self.entries[kind].columns
        written: dict[str, ColumnInput] = {}
        for name, source in node.columns.items():
            if isinstance(source, ColumnInput):
                columns[name] = manifest.ColumnEntry(
                    self.names.get(folder, name, ".gd"), unit=source.column.unit
                )
                written[name] = source
            else:
                columns[name] = manifest.ColumnEntry(npy=os.path.abspath(source.file.path))
        rows = self._columns(node, written)
        for name, source in node.columns.items():
            n = rows[name] if isinstance(source, ColumnInput) else source.rows
            label = source.label if isinstance(source, ColumnInput) else f"feature {name!r} ({source.name})"
            if count is not None and n != count:
                raise InputError(f"{label} of {kind!r}: has {n} rows, but {decided_by} says {count}")
            if count is None:
                count, decided_by = n, label
                self.counted_by[kind] = label
        if not self.plan.mapped and node.keys is not None:
            n = self._in_order(node.keys, kind)
            if count is not None and n != count:
                raise InputError(f"nodes of {kind!r}: there are {n} ids, but {decided_by} says {count}")
            count = n
        self.counts[kind] = count

    def _columns(self, node: NodeInput, sources: dict[str, ColumnInput]) -> dict[str, int]:
        """Writes columns; those of a table that is dear to read, together. Returns their numbers of rows."""
        entries, rows = self.entries[node.spec.name].columns, {}
        together: dict[int, list[str]] = {}
        for name, source in sources.items():
            done = self.journal.result(column_phase(node.spec.name, name), [str(entries[name].file)])
            if done is None:
                together.setdefault(id(source.table.whole), []).append(name)
            else:
                rows[name], entries[name].names = int(done["rows"]), done["names"]
        for names in together.values():
            files = {n: str(entries[n].file) for n in names}
            count = write_columns({self.root / files[n]: sources[n] for n in names}, node.num_nodes)
            for n in names:
                categories = sources[n].categories
                rows[n], entries[n].names = count, categories.names if categories else None
                result = {"rows": count, "names": entries[n].names}
                self.journal.finish(column_phase(node.spec.name, n), [files[n]], result)
        return rows

    def _in_order(self, keys: NodeKeys, kind: str) -> int:
        """ids="dense" with a table of nodes: row i must be node i."""
        row = 0
        for part in keys:
            expected = np.arange(row, row + len(part))
            if isinstance(part, Text) or not np.array_equal(part, expected):
                i = 0 if isinstance(part, Text) else int((part != expected).argmax())
                shown = part.value(i) if isinstance(part, Text) else int(part[i])
                raise InputError(
                    f'nodes of {kind!r}, row {row + i}: its id is {shown!r}, but with ids="dense" row i is '
                    'node i; ids="map" (--ids map) takes ids in any order'
                )
            row += len(part)
        return row

    def _splits(self, node: NodeInput, entry: manifest.NodeEntry, folder: str) -> None:
        for name, value in node.spec.splits.items():
            value = self._split_value(entry, name, value)
            ids = split_chunks(name, value, entry.num_nodes, self.plan.files)
            file = self.names.get(folder, f"split-{name}", ".gd")
            table = IteratorTable(ids, [name], f"split {name!r}")
            write_column(self.root / file, ColumnInput(name, table))
            entry.splits[name] = manifest.ColumnEntry(file)

    def _split_value(self, entry: manifest.NodeEntry, name: str, value: Any) -> Any:
        """With mapped ids a split names its nodes by their original ids; a mask stays a mask."""
        if not self.plan.mapped or entry.id_map is None or (is_array(value) and as_numpy(value)[1] == "bool"):
            return value
        ids = IdMap(self.root, entry.id_map)
        parts = []
        text = "text" if entry.id_map["kind"] == "text" else "int"
        for keys in NodeKeys(value, f"split {name!r}", self.plan.files, text):
            try:
                parts.append(
                    ids.to_dense(
                        [keys.value(i) for i in range(len(keys))] if isinstance(keys, Text) else keys
                    )
                )
            except KeyError as e:
                raise InputError(f"split {name!r}: {e.args[0]}") from None
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    # --- edges

    def _jobs(self) -> list[EdgeJob]:
        unknown = any(self.counts[t] is None for e in self.plan.edges for t in (e.type[0], e.type[2]))
        share = self.memory // max(1, len(self.plan.edges)) if unknown else self.memory
        return [EdgeJob(e, max(share, 1 << 20), self.tmp) for e in self.inputs.edges]

    def _dense_edges(self) -> list[manifest.EdgeEntry]:
        found = self.journal.result(COUNTS)
        if found is not None:
            self.counts |= found
        jobs = self._jobs()
        known = all(n is not None for n in self.counts.values())
        entries = []
        for job in jobs:
            job.name_files(self.root, self.names)
            if not self._restore(job):
                self._read(job)
            if known:
                entries.append(self._build(job))
        if known:
            return entries
        self._found(jobs)
        self.journal.finish(COUNTS, [], {t: n for t, n in self.counts.items() if n is not None})
        return [self._build(job) for job in jobs]

    def _read(self, job: EdgeJob) -> None:
        src, _, dst = job.spec.type
        job.make_builder(self.counts[src] or 0, self.counts[dst] or 0)
        try:
            job.read((self.counts[src], self.counts[dst]), self.progress)
        except InputError as e:
            raise self._too_short(e, src, dst) or e from None
        expected, found = job.spec.num_edges, job.builder.num_input_edges
        if expected is not None and found != expected:
            raise InputError(f"{job.table.name}: has {found} edges, but the dataset says {expected}")

    def _too_short(self, e: InputError, *ends: str) -> InputError | None:
        """An edge past the last node, where a feature said how many there are: that may be what is wrong."""
        for t in ends:
            count = self.counts[t]
            if t in self.counted_by and str(e).endswith(past_the_end(count or 0)):
                return InputError(
                    f"{self.counted_by[t]} of {t!r}: has {count} rows, but the edges name more nodes: {e}"
                )
        return None

    def _restore(self, job: EdgeJob) -> bool:
        """Whether an earlier ingest has finished this edge type, for as many nodes as there are now."""
        return job.restore(self.journal, [self.counts[job.spec.type[0]], self.counts[job.spec.type[2]]])

    def _build(self, job: EdgeJob) -> manifest.EdgeEntry:
        src, _, dst = job.spec.type
        entry = job.build(self.root, self._count(src), self._count(dst), self.progress, self.journal)
        self.report.notes += job.source.notes
        self.report.skipped_lines += job.table.skipped
        self.report.first_skipped = self.report.first_skipped or job.table.first_skipped
        return entry

    def _found(self, jobs: list[EdgeJob]) -> None:
        """Numbers of nodes nobody gave: one more than the largest id in any edge type."""
        seen: dict[str, int] = {}
        for job in jobs:
            src, _, dst = job.spec.type
            for end, n in zip((src, dst), job.seen(), strict=True):
                seen[end] = max(seen.get(end, 0), n)
        for name, n in seen.items():
            if self.counts[name] is None:
                ends = sum(j.builder.num_input_edges for j in jobs for t in j.spec.type[::2] if t == name)
                check_density(n, ends, f"node type {name!r}")
                self.counts[name] = n

    def _mapped_edges(self, folders: dict[str, str]) -> list[manifest.EdgeEntry]:
        jobs = [EdgeJob(e, self.memory // 2, self.tmp) for e in self.inputs.edges]
        for name, node in self.inputs.nodes.items():
            if node.columns and node.keys is None:
                raise InputError(
                    f"node type {name!r}: ids={self.plan.ids!r} with features needs nodes=, the original id "
                    "of every row"
                )
        for job in jobs:
            job.name_files(self.root, self.names)
        return self._closed_edges(jobs, folders) if self.plan.closed else self._open_edges(jobs, folders)

    def _original_ids(self, folders: dict[str, str]) -> None:
        """Ids that are only kept, of nodes that go by their numbers."""
        named = [name for name, node in self.inputs.nodes.items() if node.original is not None]
        if named:
            mapper = self._mapper(folders, named)
            mapper.read([])
            self._numbered(mapper.assign())

    def _mapper(self, folders: dict[str, str], types: Collection[str] | None = None) -> KeyMapper:
        return KeyMapper(self.inputs, self.root, self.tmp, folders, self.memory, self.progress, types)

    def _numbered(self, numbered: dict[str, Any]) -> None:
        for name, (count, entry) in numbered.items():
            given = self.counts[name]
            if given is not None and given != count:
                raise InputError(
                    f"node type {name!r}: there are {count} different ids, but "
                    f"{self.counted_by.get(name, 'num_nodes')} says {given}"
                )
            self.counts[name] = count
            self.entries[name].id_map = entry

    def _add_mapped(self, job: EdgeJob, mapper: KeyMapper, spool: Spool) -> None:
        job.make_builder(self._count(job.spec.type[0]), self._count(job.spec.type[2]))
        self.progress.phase("adding edges")
        for a, b, payload in mapper.edges(job, spool):
            job.builder.add(a, b, payload)
            self.progress.update(job.builder.num_input_edges, spool.edges, " edges")

    def _open_edges(self, jobs: list[EdgeJob], folders: dict[str, str]) -> list[manifest.EdgeEntry]:
        """Ids that edges bring: the mapping comes out of reading all of them, and is used again only when no
        edge is needed any more."""
        mapper = self._mapper(folders)
        restored = [job.restore(self.journal) for job in jobs]
        numbered, spools = self.journal.result(IDS), []
        if numbered is None or not all(restored):
            self.journal.forget(IDS)
            for job in jobs:
                job.table.skipped, job.table.first_skipped = 0, ""
            spools = mapper.read(jobs)
            numbered = mapper.assign()
            self.journal.finish(IDS, _files(numbered), numbered)
        self._numbered(numbered)
        entries = []
        for i, job in enumerate(jobs):
            if not restored[i]:
                self._add_mapped(job, mapper, spools[i])
            entries.append(self._build(job))
        return entries

    def _closed_edges(self, jobs: list[EdgeJob], folders: dict[str, str]) -> list[manifest.EdgeEntry]:
        """Ids that tables of nodes name: they are numbered once, and each edge type is a phase of its own."""
        numbered = self.journal.result(IDS)
        if numbered is None:
            mapper = self._mapper(folders)
            mapper.read([])
            numbered = mapper.assign()
            self.journal.finish(IDS, _files(numbered), numbered)
        self._numbered(numbered)
        entries = []
        for job in jobs:
            if not self._restore(job):
                mapper = self._mapper(folders, {job.spec.type[0], job.spec.type[2]})
                self._add_mapped(job, mapper, mapper.look_up(job, numbered))
            entries.append(self._build(job))
        return entries


def _files(numbered: dict[str, Any]) -> list[str]:
    return [f for _, e in numbered.values() for f in e.values() if f.endswith(".gd")]
