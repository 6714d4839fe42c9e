"""One edge type: its edges through the builder into topologies and edge columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gz import _engine, manifest
from gz._base.arrays import check_ids
from gz._base.background import ahead
from gz._base.dtypes import to_dtype
from gz._base.files import FileNames
from gz._base.journal import Journal
from gz._base.progress import Progress
from gz._base.text import Text
from gz._engine import InputError
from gz._ingest.plan.column_input import ColumnInput
from gz._ingest.plan.edge_input import WEIGHT, EdgeInput
from gz._ingest.plan.fingerprint import edge_phase
from gz._ingest.read.csv_table import CsvTable
from gz._ingest.read.tables import Chunk, JoinedTable

_ENGINE_IDS = tuple(np.dtype(t) for t in ("<i8", "<u8", "<i4", "<u4"))
_NO_LIMIT = 1 << 62
_WORTH_A_CALL = 1 << 18  # edges


@dataclass(frozen=True)
class Part:
    """The edges of a chunk, ids as they came."""

    chunk: Chunk
    src: np.ndarray
    dst: np.ndarray
    payload: np.ndarray | None


class Feed:
    """Rows of a separate edge feature, handed out in step with the edges."""

    def __init__(self, source: ColumnInput):
        self.label = source.label
        self._rows = source.rows()
        self._rest = np.empty((0, *source.column.row.shape), source.column.row.base)
        self.taken = 0

    def take(self, n: int) -> np.ndarray:
        parts, have = [self._rest], len(self._rest)
        while have < n:
            rows = next(self._rows, None)
            if rows is None:
                raise InputError(
                    f"{self.label}: has {self.taken + have} rows, but there are more edges (at least "
                    f"{self.taken + n})"
                )
            parts.append(rows)
            have += len(rows)
        rows = np.concatenate(parts) if len(parts) > 1 else parts[0]
        self._rest = rows[n:]
        self.taken += n
        return rows[:n]

    def finish(self) -> None:
        more = len(self._rest) + sum(len(r) for r in self._rows)
        if more:
            raise InputError(f"{self.label}: has {self.taken + more} rows, but there are {self.taken} edges")


class EdgeJob:
    """Reads the edges of one type into a builder; then build() writes the files."""

    def __init__(self, source: EdgeInput, memory: int, tmp: Path):
        self.source, self.spec, self.table, self.memory = source, source.spec, source.table, memory
        self._tmp = tmp
        for t in self._text():
            t.fit(memory)
        self.feeds = {name: Feed(c) for name, c in source.separate.items()}
        self.record, self.columns = source.record, source.columns
        self.builder: Any = None
        self.entry = manifest.EdgeEntry(source.spec.type, 0)

    @property
    def _out_only(self) -> bool:
        """Whether edges are grouped by source only: the builder's nodes are then the sources."""
        return self.spec.directions == "out"

    def make_builder(self, num_src: int, num_dst: int) -> None:
        """For as many nodes at the two ends; 0 where nobody knows."""
        s = self.spec
        weight_field = self.source.weight_field
        loop = np.zeros(1, self.record)
        if weight_field is not None:
            loop[s.weight] = loop[weight_field] = 1
        self.builder = _engine.Builder(
            str(self._tmp),
            out=self._out_only,
            payload=self.record.itemsize,
            keep_ids=self.source.keep_ids,
            positions=self.source.keep_ids,
            sort_by_id=s.neighbor_order == "id",
            coalesce=s.coalesce,
            undirected=s.undirected,
            self_loops=s.self_loops,
            loop_payload=loop.tobytes(),
            weight_offset=None if weight_field is None else self.source.offset(weight_field),
            memory=self.memory,
            expected_nodes=num_src if self._out_only else num_dst,
        )

    def seen(self) -> tuple[int, int]:
        """One more than the largest source and the largest destination so far."""
        of_nodes, of_others = self.builder.nodes_seen, self.builder.others_seen
        return (of_nodes, of_others) if self._out_only else (of_others, of_nodes)

    # --- input

    def _text(self) -> list[CsvTable]:
        return [t for t in self.table.parts if isinstance(t, CsvTable)]

    def read(self, limits: tuple[int | None, int | None], progress: Progress) -> None:
        """All edges into the builder. `limits`: the numbers of nodes at the two ends, where known."""
        text = self._text()
        for t in text:
            t.limits = [limit or 0 for limit in limits]
        progress.phase("reading edges")
        straight = len(text) == len(self.table.parts) and not self.feeds and 0 not in limits
        straight = straight and all(t.plain() for t in text) and not self.source.categories
        straight = straight and all(c.parsed for c in self.source.own)
        if straight and self.source.weight_field != WEIGHT:
            for t in text:
                t.to_builder(self.builder, self.record, progress)
                if isinstance(self.table, JoinedTable):
                    self.table.note_skipped(t)
            return
        for batch in self._batches():
            self._add(batch, limits)
            progress.update(self.builder.num_input_edges, self.table.rows, " edges")

    def chunk_rows(self) -> int:
        return max(1024, min(4 << 20, self.memory // 16 // (24 + self.record.itemsize)))

    def chunks(self) -> Iterator[Chunk]:
        """Chunks with ids still unchecked; small ones are kept as they are."""
        chunks = self.table.chunks(self.chunk_rows())
        # An iterator of the caller's stays on the caller's thread.
        yield from ahead(chunks) if self.table.reads_files else chunks

    def _batches(self) -> Iterator[list[Part]]:
        """Chunks, gathered into pieces large enough to be worth a call."""
        held: list[Part] = []
        count = 0
        for chunk in self.chunks():
            src, dst = (_flat(chunk, key) for key in self.source.keys)
            held.append(Part(chunk, src, dst, self.payload(chunk)))
            count += chunk.rows
            if count >= min(_WORTH_A_CALL, self.chunk_rows() // 2):
                yield held
                held, count = [], 0
        if held:
            yield held
        self.finish_feeds()

    def _add(self, parts: list[Part], limits: tuple[int | None, int | None]) -> None:
        """Hands edges to the builder, which checks ids on the way; what it refuses is looked at row by
        row."""
        t = _common_dtype(parts)
        bounds = [min(_NO_LIMIT if n is None else n, 1 << 31 if t == np.int32 else _NO_LIMIT) for n in limits]
        if t is not None:
            try:
                self.builder.add(*_join(parts, t), *bounds)
                return
            except IndexError:
                pass
        checked = [
            Part(
                p.chunk,
                check_ids(p.src, p.chunk.where, p.chunk.first_row, limits[0], "source"),
                check_ids(p.dst, p.chunk.where, p.chunk.first_row, limits[1], "destination"),
                p.payload,
            )
            for p in parts
        ]
        wide = any(a.dtype.itemsize == 8 for p in checked for a in (p.src, p.dst))
        self.builder.add(*_join(checked, np.dtype(np.int64 if wide else np.uint32)))

    def finish_feeds(self) -> None:
        if self.feeds and self.table.skipped:
            raise InputError(
                f"{self.table.first_skipped}: this line was skipped, so the separate edge "
                "features no longer line up with the edges"
            )
        for f in self.feeds.values():
            f.finish()

    def payload(self, chunk: Chunk) -> np.ndarray | None:
        if not self.record.itemsize:
            for f in self.feeds.values():
                f.take(chunk.rows)
            return None
        out = np.empty(chunk.rows, self.record)
        for c in self.source.own:
            a = chunk.columns[c.name]
            if c.name in self.source.categories:
                a = self.source.categories[c.name].encode(a, chunk.where, chunk.first_row)
            given = chunk.dtypes.get(c.name, a.dtype.name)
            out[c.name] = to_dtype(a, c, given, chunk.where, chunk.first_row)
        for name, f in self.feeds.items():
            out[name] = f.take(chunk.rows)
        if self.spec.weight is not None:
            w = out[self.spec.weight].reshape(chunk.rows)
            with np.errstate(over="ignore"):
                narrow = w.astype(np.float32)
            bad = ~(np.isfinite(narrow) & (narrow >= 0))
            if bad.any():
                i = int(bad.argmax())
                raise InputError(
                    f"{chunk.where}, row {chunk.first_row + i}: {w[i]} cannot be a weight: "
                    "weights are finite and not negative"
                )
            if self.source.weight_field == WEIGHT:
                out[WEIGHT] = narrow
        return out.view(np.uint8)

    # --- output

    def name_files(self, root: Path, names: FileNames) -> None:
        """Settles the names of the files this edge type will have."""
        s = self.spec
        folder = names.get("edges", "__".join(s.type))
        (root / folder).mkdir(parents=True, exist_ok=True)
        in_file, out_file = names.get(folder, "in.gl"), names.get(folder, "out.gl")
        self.entry = manifest.EdgeEntry(
            s.type,
            0,
            None if s.directions == "out" else in_file,
            None if s.directions == "in" else out_file,
            "original" if self.source.keep_ids else "position",
        )
        for c in self.columns:
            self.entry.columns[c.name] = manifest.ColumnEntry(names.get(folder, c.name, ".gd"), unit=c.unit)

    def restore(self, journal: Journal, nodes: list[int | None] | None = None) -> bool:
        """True when an earlier ingest has finished the topology and the columns, for as many `nodes` at its
        ends."""
        done = journal.result(self._phase(), self._files())
        if done is not None and nodes is not None and done["nodes"] != nodes:
            done = None
        if done is None:
            journal.forget(self._phase())
            journal.forget(self._turned())
            return False
        self.entry.num_edges = done["edges"]
        self.table.skipped, self.table.first_skipped = done["skipped"], done["first_skipped"]
        self._name_codes(done["names"])
        return True

    def _name_codes(self, names: dict[str, list[str]]) -> None:
        for column, of in names.items():
            self.entry.columns[column].names = of

    def _phase(self) -> str:
        return edge_phase(self.spec.type, "out only" if self._out_only else "in")

    def _turned(self) -> str:
        """The phase that groups by source what is stored grouped by destination."""
        return edge_phase(self.spec.type, "out")

    def _files(self) -> list[str]:
        """What the first phase makes: the topology whose order the columns have, and these."""
        first = self.entry.in_file or self.entry.out_file
        return [str(first), *(str(c.file) for c in self.entry.columns.values())]

    def build(
        self, root: Path, num_src: int, num_dst: int, progress: Progress, journal: Journal
    ) -> manifest.EdgeEntry:
        entry = self.entry
        if self.builder is not None:
            columns = []
            for c in self.columns:
                file = root / str(entry.columns[c.name].file)
                columns.append(c.of_edges(file, self.source.offset(c.name)))
            nodes, others = (num_src, num_dst) if self._out_only else (num_dst, num_src)
            self.builder.begin(str(root / self._files()[0]), nodes, others, columns)
            run(self.builder, progress, "sorting edges")
            entry.num_edges = self.builder.num_edges
            self.builder = None
            codes = {n: c.names for n, c in self.source.categories.items()}
            codes |= {n: c.categories.names for n, c in self.source.separate.items() if c.categories}
            self._name_codes(codes)
            result = {
                "edges": entry.num_edges,
                "nodes": [num_src, num_dst],
                "skipped": self.table.skipped,
                "first_skipped": self.table.first_skipped,
                "names": codes,
            }
            journal.finish(self._phase(), self._files(), result)
        if entry.in_file is None or entry.out_file is None:
            return entry
        if journal.result(self._turned(), [entry.out_file]) is None:
            self._build_out(root, entry.in_file, entry.out_file, num_src, num_dst, progress)
            journal.finish(self._turned(), [entry.out_file], {})
        return entry

    def _build_out(
        self, root: Path, in_file: str, out_file: str, num_src: int, num_dst: int, progress: Progress
    ) -> None:
        weighted = self.spec.weight is not None
        out = _engine.Builder(
            str(self._tmp),
            out=True,
            payload=4 if weighted else 0,
            keep_ids=True,
            ids_are_in_rows=True,
            arrives_sorted=True,
            sort_by_id=False,
            weight_offset=0 if weighted else None,
            memory=self.memory,
            expected_nodes=num_src,
        )
        progress.phase("reversing edges")
        at = 0
        while at < num_dst:
            at = _engine.add_transposed(out, str(root / in_file), at, self.memory)
            progress.update(at, num_dst, " nodes")
        out.begin(str(root / out_file), num_src, num_dst, [])
        run(out, progress, "sorting reversed edges")


def run(builder: Any, progress: Progress, what: str) -> None:
    progress.phase(what)
    while builder.step():
        progress.update(builder.progress * builder.num_input_edges, builder.num_input_edges, " edges")


def _flat(chunk: Chunk, key: str) -> np.ndarray:
    column = chunk.columns[key]
    if isinstance(column, Text):
        raise InputError(
            f"{chunk.where}, row {chunk.first_row}: column {key!r} holds text ({column.value(0)!r}); "
            "dense ids are numbers. ids='map' (--ids map) takes ids of any kind"
        )
    a = np.asarray(column)
    if a.ndim != 1:
        raise InputError(f"{chunk.where}: ids have shape {a.shape}, they must be one-dimensional")
    return a


def _common_dtype(parts: list[Part]) -> np.dtype | None:
    """The dtype of all ids if it is one the engine reads as it lies."""
    kinds = {a.dtype for p in parts for a in (p.src, p.dst)}
    t = kinds.pop()
    return t if not kinds and t in _ENGINE_IDS else None


def _join(parts: list[Part], t: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    if len(parts) == 1:
        p = parts[0]
        return np.ascontiguousarray(p.src, t), np.ascontiguousarray(p.dst, t), p.payload
    payloads = [p.payload for p in parts if p.payload is not None]
    return (
        np.concatenate([p.src for p in parts]).astype(t, copy=False),
        np.concatenate([p.dst for p in parts]).astype(t, copy=False),
        np.concatenate(payloads) if payloads else None,
    )
