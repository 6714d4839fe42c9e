"""The phases of an ingest: node columns, then edges, then splits and the manifest.

What a finished phase made is noted in the journal; after a kill, a phase found there is not run again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gz import manifest
from gz._engine import InputError
from gz.id_map import IdMap

from .arrays import as_numpy, is_array
from .columns import adoptable, open_column, split_chunks, write_column
from .edge_splits import write_edge_splits
from .edges import EdgeJob
from .journal import Journal
from .key_mapper import KeyMapper, key_chunks
from .npy import open_array
from .progress import Progress
from .report import IngestReport
from .spec import FileNames, NodeSpec, Spec
from .tables import IteratorTable
from .text import Text

_COUNTS = "numbers of nodes"
_IDS = "id mapping"


class StoreWriter:
    def __init__(self, plan: Spec, journal: Journal, memory: int, adopt: bool, progress: Progress):
        self.plan = plan
        self.journal = journal
        self.root: Path = journal.root
        self.memory = memory
        self.adopt = adopt
        self.progress = progress
        self.names = FileNames()
        self.counts: dict[str, int | None] = {}
        self.entries: dict[str, manifest.NodeEntry] = {}
        self.report = IngestReport("", {}, {})

    def run(self) -> IngestReport:
        plan = self.plan
        folders = {n: self.names.get("nodes", n) for n in plan.nodes}
        for name, node in plan.nodes.items():
            self.entries[name] = manifest.NodeEntry(0)
            (self.root / folders[name]).mkdir(parents=True, exist_ok=True)
            for part in ("keys", "offsets", "bytes", "hash", "dense"):  # the mapping's files come first
                self.names.get(folders[name], f"id-{part}", ".gd")
            self._node_columns(node, folders[name])
        # Wrong ids in them are found before the long work, where the numbers of nodes are known by now.
        early = None not in self.counts.values()
        edge_splits = self._edge_splits() if early else {}
        edges = self._mapped_edges(folders) if plan.ids == "map" else self._dense_edges()
        if not early:
            edge_splits = self._edge_splits()
        for name, node in plan.nodes.items():
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
        manifest.write(manifest.Manifest(plan.homogeneous, self.entries, edges, meta, edge_splits), self.root)
        return self.report

    def _edge_splits(self) -> dict[str, dict[str, manifest.ColumnEntry]]:
        counts = {name: n for name, n in self.counts.items() if n is not None}
        return write_edge_splits(self.plan, self.root, self.names, counts)

    def _count(self, name: str) -> int:
        n = self.counts[name]
        if n is None:
            raise InputError(f"node type {name!r}: no edges and no features; give num_nodes")
        return n

    # --- nodes

    def _node_columns(self, node: NodeSpec, folder: str) -> None:
        count = node.num_nodes
        decided_by = "num_nodes"
        self.progress.phase(f"writing features of {node.name!r}")
        for name, value in node.features.items():
            adopted = adoptable(value, self.plan.base) if self.adopt else None
            if adopted is not None:
                rows = open_array(adopted).rows
                self.entries[node.name].columns[name] = manifest.ColumnEntry(npy=adopted)
            else:
                file = self.names.get(folder, name, ".gd")
                rows = self._column(node, name, value, file)
                self.entries[node.name].columns[name] = manifest.ColumnEntry(file)
            if count is not None and rows != count:
                raise InputError(
                    f"feature {name!r} of {node.name!r} has {rows} rows, but {decided_by} says {count}"
                )
            if count is None:
                count, decided_by = rows, f"feature {name!r}"
        self.counts[node.name] = count

    def _column(self, node: NodeSpec, name: str, value: Any, file: str) -> int:
        phase = f"feature {name!r} of {node.name!r}"
        done = self.journal.result(phase)
        if done is not None:
            return int(done["rows"])
        table = open_column(name, value, self.plan.base)
        dtype = value.get("dtype") if isinstance(value, dict) else None
        rows = write_column(self.root / file, name, table, dtype, node.num_nodes)
        self.journal.finish(phase, [file], {"rows": rows})
        return rows

    def _splits(self, node: NodeSpec, entry: manifest.NodeEntry, folder: str) -> None:
        for name, value in node.splits.items():
            value = self._split_value(node, name, value)
            ids = split_chunks(name, value, entry.num_nodes, self.plan.base)
            file = self.names.get(folder, f"split-{name}", ".gd")
            write_column(self.root / file, name, IteratorTable(ids, [name], f"split {name!r}"))
            entry.splits[name] = manifest.ColumnEntry(file)

    def _split_value(self, node: NodeSpec, name: str, value: Any) -> Any:
        """With mapped ids a split names its nodes by their original ids; a mask stays a mask."""
        entry = self.entries[node.name]
        if (
            self.plan.ids != "map"
            or entry.id_map is None
            or (is_array(value) and as_numpy(value)[1] == "bool")
        ):
            return value
        ids = IdMap(self.root, entry.id_map)
        parts = []
        for keys in key_chunks(value, f"split {name!r}", self.plan.base):
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
        return [
            EdgeJob(e, self.plan.base, max(share, 1 << 20), self.plan.ids == "map") for e in self.plan.edges
        ]

    def _dense_edges(self) -> list[manifest.EdgeEntry]:
        found = self.journal.result(_COUNTS)
        if found is not None:
            self.counts |= found
        jobs = self._jobs()
        known = all(n is not None for n in self.counts.values())
        entries = []
        for job in jobs:
            job.name_files(self.root, self.names)
            if not job.restore(self.journal):
                self._read(job)
            if known:
                entries.append(self._build(job))
        if known:
            return entries
        self._found(jobs)
        self.journal.finish(_COUNTS, [], {t: n for t, n in self.counts.items() if n is not None})
        return [self._build(job) for job in jobs]

    def _read(self, job: EdgeJob) -> None:
        src, _, dst = job.spec.type
        job.make_builder(self.root, self.counts[dst] or 0)
        job.read((self.counts[src], self.counts[dst]), self.progress)
        expected, found = job.spec.num_edges, job.builder.num_input_edges
        if expected is not None and found != expected:
            raise InputError(f"{job.table.name}: has {found} edges, but the dataset says {expected}")

    def _build(self, job: EdgeJob) -> manifest.EdgeEntry:
        src, _, dst = job.spec.type
        entry = job.build(self.root, self._count(src), self._count(dst), self.progress, self.journal)
        self.report.notes += job.notes
        self.report.skipped_lines += job.table.skipped
        self.report.first_skipped = self.report.first_skipped or job.table.first_skipped
        return entry

    def _found(self, jobs: list[EdgeJob]) -> None:
        """Numbers of nodes nobody gave: one more than the largest id in any edge type."""
        seen: dict[str, int] = {}
        for job in jobs:
            src, _, dst = job.spec.type
            seen[dst] = max(seen.get(dst, 0), job.builder.nodes_seen)
            seen[src] = max(seen.get(src, 0), job.builder.others_seen)
        for name, n in seen.items():
            if self.counts[name] is None:
                self.counts[name] = n

    def _mapped_edges(self, folders: dict[str, str]) -> list[manifest.EdgeEntry]:
        plan = self.plan
        jobs = [EdgeJob(e, plan.base, self.memory // 2, True) for e in plan.edges]
        mapper = KeyMapper(plan, self.root, folders, self.memory, self.progress)
        for node in plan.nodes.values():
            if node.features and node.ids is None:
                raise InputError(
                    f'node type {node.name!r}: ids="map" with features needs nodes=, the '
                    "original id of every row"
                )
        for job in jobs:
            job.name_files(self.root, self.names)
        # The mapping comes out of reading all edges: it is used again only when no edge is needed any more.
        restored = [job.restore(self.journal) for job in jobs]
        numbered = self.journal.result(_IDS)
        if numbered is None or not all(restored):
            self.journal.forget(_IDS)
            for job in jobs:
                job.table.skipped, job.table.first_skipped = 0, ""
            spools = mapper.read(jobs)
            numbered = mapper.assign()
            files = [f for _, e in numbered.values() for f in e.values() if f.endswith(".gd")]
            self.journal.finish(_IDS, files, numbered)
        else:
            spools = []
        for name, (count, entry) in numbered.items():
            given = self.counts[name]
            if given is not None and given != count:
                raise InputError(
                    f"node type {name!r}: there are {count} different ids, but {given} nodes are expected"
                )
            self.counts[name] = count
            self.entries[name].id_map = entry
        entries = []
        for i, job in enumerate(jobs):
            if not restored[i]:
                job.make_builder(self.root, self._count(job.spec.type[2]))
                self.progress.phase("adding edges")
                for a, b, payload in mapper.edges(job, spools[i]):
                    job.builder.add(a, b, payload)
                    self.progress.update(job.builder.num_input_edges, spools[i].edges, " edges")
            entries.append(self._build(job))
        return entries
