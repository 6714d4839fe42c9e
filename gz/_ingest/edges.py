"""One edge type: its edges through the builder into topologies and edge columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gz import _engine, manifest
from gz._engine import InputError

from .ahead import ahead
from .arrays import Column, check_ids, to_dtype
from .columns import combined, open_column, rows_of
from .csv_table import CsvTable
from .edge_input import EdgeOptions, open_edges
from .journal import Journal
from .progress import Progress
from .spec import EdgeSpec, FileNames
from .tables import Chunk, Table, stored_column

_WEIGHT = "\0weight"  # the float32 copy of a weight column that is stored in another dtype
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

    def __init__(self, name: str, value: Any, base: str):
        self.table = open_column(name, value, base)
        dtype = value.get("dtype") if isinstance(value, dict) else None
        self.column = combined(name, self.table, dtype)
        self._rows = rows_of(self.table, self.column)
        self._rest = np.empty((0, *self.column.shape), self.column.numpy)
        self.taken = 0

    def take(self, n: int) -> np.ndarray:
        parts, have = [self._rest], len(self._rest)
        while have < n:
            rows = next(self._rows, None)
            if rows is None:
                raise InputError(
                    f"{self.table.name}: has {self.taken + have} rows, but there are more edges "
                    f"(at least {self.taken + n})"
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
            raise InputError(
                f"{self.table.name}: has {self.taken + more} rows, but there are {self.taken} edges"
            )


class EdgeJob:
    """Reads the edges of one type into a builder; then build() writes the files."""

    def __init__(self, spec: EdgeSpec, base: str, memory: int, mapped: bool = False):
        self.spec = spec
        self.memory = memory
        o = EdgeOptions(
            tuple(spec.columns) if spec.columns is not None else None,
            spec.edge_columns,
            spec.weight,
            spec.delimiter,
            spec.header,
            spec.on_bad_line,
            mapped,
            None,
            memory,
            base,
        )
        self.table: Table = open_edges(spec.edges, o)
        self.keys = o.key_names
        self.notes = o.notes
        self.feeds = {name: Feed(name, v, base) for name, v in spec.features.items()}
        kept = None if spec.edge_columns is None else set(spec.edge_columns)
        self.own = [
            stored_column(c, self.table.name)
            for c in self.table.columns
            if c.name not in self.keys and (kept is None or c.name in kept)
        ]
        for name in self.feeds:
            if name in {c.name for c in self.own}:
                raise InputError(f"edge column {name!r} is both in {self.table.name} and given separately")
        self.columns: list[Column] = [*self.own, *(f.column for f in self.feeds.values())]
        self._check_weight()
        fields = [(c.name, c.numpy, c.shape) for c in self.columns]
        if spec.weight is not None and self._weight_column().dtype != "float32":
            fields.append((_WEIGHT, np.dtype("float32"), ()))
        self.record = np.dtype(fields)
        self.keep_ids = bool(self.columns) if spec.keep_edge_ids is None else bool(spec.keep_edge_ids)
        self.builder: Any = None
        self.entry = manifest.EdgeEntry(spec.type, 0)

    def _weight_column(self) -> Column:
        return next(c for c in self.columns if c.name == self.spec.weight)

    def _check_weight(self) -> None:
        w = self.spec.weight
        if w is None:
            return
        names = [c.name for c in self.columns]
        if w not in names:
            raise InputError(
                f"{self.table.name}: there is no edge column {w!r} to take the weight from; "
                f"there are {', '.join(names) or 'none'}"
            )
        if self._weight_column().shape not in ((), (1,)):
            raise InputError(
                f"edge column {w!r} cannot be the weight: it has shape {self._weight_column().shape} per edge"
            )

    def make_builder(self, directory: Path, expected_nodes: int) -> None:
        s = self.spec
        weight_field = _WEIGHT if self.record.fields and _WEIGHT in self.record.fields else s.weight
        loop = np.zeros(1, self.record)
        if s.weight is not None:
            loop[s.weight] = 1
            loop[weight_field] = 1
        self.builder = _engine.Builder(
            str(directory),
            payload=self.record.itemsize,
            keep_ids=self.keep_ids,
            positions=self.keep_ids,
            sort_by_id=s.neighbor_order == "id",
            coalesce=s.coalesce,
            undirected=s.undirected,
            self_loops=s.self_loops,
            loop_payload=loop.tobytes(),
            weight_offset=self.record.fields[weight_field][1]
            if weight_field and self.record.fields
            else None,
            memory=self.memory,
            expected_nodes=expected_nodes,
        )

    def _offset(self, name: str) -> int:
        fields: Any = self.record.fields
        return int(fields[name][1])

    # --- input

    def read(self, limits: tuple[int | None, int | None], progress: Progress) -> None:
        """All edges into the builder. `limits`: the numbers of nodes at the two ends, where known."""
        tables = getattr(self.table, "_tables", [self.table])
        for t in tables:
            if isinstance(t, CsvTable):
                t.limits = [limit or 0 for limit in limits]
        progress.phase("reading edges")
        if (
            all(isinstance(t, CsvTable) for t in tables)
            and not self.feeds
            and _WEIGHT not in (self.record.names or ())
            and 0 not in limits
        ):
            for t in tables:
                t.to_builder(
                    self.builder, self.record, lambda t=t: progress.update(t.bytes_done, t.bytes_total, "B")
                )
                self._skipped(t)
            return
        for batch in self._batches():
            self._add(batch, limits)
            progress.update(self.builder.num_input_edges, self.table.rows, " edges")

    def _skipped(self, t: Table) -> None:
        if t is not self.table:
            self.table.skipped += t.skipped
            self.table.first_skipped = self.table.first_skipped or t.first_skipped

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
            held.append(
                Part(chunk, _flat(chunk, self.keys[0]), _flat(chunk, self.keys[1]), self.payload(chunk))
            )
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
        for c in self.own:
            a = chunk.columns[c.name]
            out[c.name] = to_dtype(a, c, chunk.dtypes.get(c.name, a.dtype.name))
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
            if _WEIGHT in (self.record.names or ()):
                out[_WEIGHT] = narrow
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
            in_file,
            out_file if s.directions != "in" else None,
            "original" if self.keep_ids else "position",
        )
        for c in self.columns:
            self.entry.columns[c.name] = manifest.ColumnEntry(names.get(folder, c.name, ".gd"))

    def restore(self, journal: Journal) -> bool:
        """True when an earlier ingest has finished the topology and the columns."""
        done = journal.result(self._phase("in"))
        if done is None:
            return False
        self.entry.num_edges = done["edges"]
        self.table.skipped, self.table.first_skipped = done["skipped"], done["first_skipped"]
        return True

    def _phase(self, direction: str) -> str:
        return f"edges {'/'.join(self.spec.type)}, {direction}"

    def build(
        self, root: Path, num_src: int, num_dst: int, progress: Progress, journal: Journal
    ) -> manifest.EdgeEntry:
        entry = self.entry
        assert entry.in_file is not None
        if self.builder is not None:
            files = [entry.in_file]
            columns = []
            for c in self.columns:
                file = str(entry.columns[c.name].file)
                files.append(file)
                columns.append(
                    _engine.EdgeColumn(str(root / file), c.dtype, list(c.shape), self._offset(c.name))
                )
            self.builder.begin(str(root / entry.in_file), num_dst, num_src, columns)
            run(self.builder, progress, "sorting edges")
            entry.num_edges = self.builder.num_edges
            self.builder = None
            skipped = {"skipped": self.table.skipped, "first_skipped": self.table.first_skipped}
            journal.finish(self._phase("in"), files, {"edges": entry.num_edges} | skipped)
        if entry.out_file is not None and journal.result(self._phase("out")) is None:
            self._build_out(root, entry.in_file, entry.out_file, num_src, num_dst, progress)
            journal.finish(self._phase("out"), [entry.out_file], {})
        return entry

    def _build_out(
        self, root: Path, in_file: str, out_file: str, num_src: int, num_dst: int, progress: Progress
    ) -> None:
        weighted = self.spec.weight is not None
        out = _engine.Builder(
            str(root),
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
    a = np.asarray(chunk.columns[key])
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
