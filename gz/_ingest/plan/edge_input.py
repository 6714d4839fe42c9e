"""Every form that edges can come in, as one table with two id columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from gz._base.deprecated import columns_were_ends
from gz._base.dtypes import Column, as_numpy, asked_for, is_array, parsed_as
from gz._engine import InputError
from gz._ingest.plan.categories import Categories
from gz._ingest.plan.column_input import ColumnInput, kept_columns, no_unit, open_column, with_unit
from gz._ingest.plan.spec import EdgeSpec
from gz._ingest.read.arrow import ArrowTable, is_table
from gz._ingest.read.csv_table import CsvTable, Ends
from gz._ingest.read.ends import EndsUnknown, find_ends
from gz._ingest.read.files import Files, InputFile
from gz._ingest.read.graphzero import GraphZeroEdges
from gz._ingest.read.npy import members, open_array, split_member
from gz._ingest.read.parquet import ParquetTable
from gz._ingest.read.paths import as_paths, is_path, partition_root, partitions
from gz._ingest.read.tables import (
    ArrayTable,
    IteratorTable,
    JoinedTable,
    NpyEdgeIndex,
    NpyTable,
    Table,
    stored_column,
)

_PARQUET = (".parquet", ".pq")
WEIGHT = "\0weight"  # the float32 copy of a weight column that is stored in another dtype


class EdgeInput:
    """The edges of one type: where they come from, which columns are their ends, and what goes with them.

    `ids`: what names their ends, as in Spec; `dtypes`: what columns are to be stored as.
    """

    def __init__(self, spec: EdgeSpec, files: Files, ids: str, dtypes: Mapping[str, str] | None = None):
        self.spec, self._files, self._ids = spec, files, ids
        self._asked = (dict(spec.columns) if isinstance(spec.columns, dict) else {}) | dict(dtypes or {})
        self.left_out: list[str] = []  # columns of the table that are not stored
        self.keys: list[str] = []  # the columns of the table that are the ends
        self.notes: list[str] = []  # for the report
        self.table = self._open(spec.edges)
        self._check_keys()
        kept = None if spec.columns is None else {self._name(c) for c in spec.columns}
        chosen = [
            c
            for c in self.table.columns
            if c.name not in (*self.keys, *spec.drop) and (kept is None or c.name in kept)
        ]
        self._warn_of_ends(chosen)
        self.categories = {
            c.name: Categories(c.name, spec.categories.get(c.name))
            for c in chosen
            if c.dtype == "text" or c.name in spec.categories
        }
        self.own = [self._stored(c, self._asked.get(c.name)) for c in chosen]
        self.left_out += [c.name for c in self.table.columns if c not in chosen and c.name not in self.keys]
        self.separate: dict[str, ColumnInput] = {}  # columns that do not lie in the table
        for name, value in spec.features.items():
            if name in {c.name for c in self.own}:
                raise InputError(f"edge column {name!r} is both in {self.table.name} and given separately")
            found = self.separate[name] = open_column(name, value, files, (dtypes or {}).get(name))
            rows, edges = found.table.rows, self.table.rows
            if rows is not None and edges is not None and rows != edges:
                raise InputError(
                    f"{found.label}: has {rows} rows, but there are {edges} edges in {self.table.name}"
                )
        self.columns: list[Column] = [*self.own, *(s.column for s in self.separate.values())]
        self.keep_ids = bool(self.columns) if spec.keep_edge_ids is None else bool(spec.keep_edge_ids)
        fields: list[Any] = [(c.name, c.row) for c in self.columns]
        self.weight_field = spec.weight
        if spec.weight is not None and self._weight_column(spec.weight).dtype != "float32":
            fields.append((WEIGHT, np.dtype("float32"), ()))
            self.weight_field = WEIGHT
        self.record = np.dtype(fields)  # what goes with an edge, as the builder carries it

    def _check_keys(self) -> None:
        for c in self.table.columns:
            if c.name in self.keys and (c.unit or c.shape):
                raise InputError(
                    f"{self.table.name}: column {c.name!r} is {c.unit or 'of lists'}, which cannot be an end "
                    "of an edge; cast it to integers or text, or choose others with ends= (--ends)"
                )

    def _warn_of_ends(self, chosen: list[Column]) -> None:
        """Where `columns` names two that could be ids: it named the ends once."""
        given = self.spec.columns
        if self.spec.ends is None and isinstance(given, (list, tuple)) and len(given) == len(chosen) == 2:
            kinds = [c.dtype == "text" or c.dtype.startswith(("int", "uint")) for c in chosen]
            if all(kinds) and not any(c.shape or c.unit for c in chosen) and not self.spec.turned:
                columns_were_ends([self._name(c) for c in given], self.keys, self.table.name)

    def _name(self, which: Any) -> str:
        """Of a column that may be given by its position in a table without names."""
        part = self.table.parts[0]
        return (
            part.layout.name(which) if isinstance(which, int) and isinstance(part, CsvTable) else str(which)
        )

    def _stored(self, column: Column, asked: str | None) -> Column:
        unit = self.spec.units.get(column.name)
        if column.name in self.categories:
            if unit is not None:
                raise no_unit(column.name, unit, self.table.name)
            return Column(column.name, "int32")
        stored = stored_column(column, self.table.name)
        if asked is not None and column.dtype != "text":
            stored = asked_for(stored, asked, f"edge column {column.name!r}")
        return with_unit(stored, unit, self.table.name)

    def key_kinds(self) -> list[set[str]]:
        """Of "int" and "text" those that name sources, and destinations, as far as the tables tell."""
        kinds: list[set[str]] = [set(), set()]
        for part in self.table.parts:
            dtypes = {c.name: c.dtype for c in part.columns}
            for found, key in zip(kinds, self.keys, strict=True):
                text = dtypes[key] == "text" or dtypes[key].startswith(("str", "object", "bytes"))
                found.add("text" if text else "int")
        return kinds

    def settle(self, kinds: list[str]) -> None:
        """What all tables together say the ends are; text tables that begin with integers follow."""
        for part in self.table.parts:
            if isinstance(part, CsvTable):
                part.key_kinds = list(kinds)

    def offset(self, field: str) -> int:
        fields: Any = self.record.fields
        return int(fields[field][1])

    def _weight_column(self, name: str) -> Column:
        found = next((c for c in self.columns if c.name == name), None)
        if found is None:
            raise InputError(
                f"{self.table.name}: there is no edge column {name!r} to take the weight from; "
                f"there are {', '.join(c.name for c in self.columns) or 'none'}"
            )
        if found.shape not in ((), (1,)):
            raise InputError(
                f"edge column {name!r} cannot be the weight: it has shape {found.shape} per edge"
            )
        if found.stored is not None:
            raise InputError(
                f"edge column {name!r} cannot be the weight and be stored as {found.stored}: weights are "
                "float32; leave its dtype out"
            )
        return found

    # --- the forms

    def _open(self, edges: Any) -> Table:
        self.keys = self._turned("src", "dst")
        if (paths := as_paths(edges)) is not None:
            return self._open_files(paths)
        if is_table(edges):
            return self._frame(edges, "edges")
        if isinstance(edges, (list, tuple)) and edges and all(is_table(e) for e in edges):
            parts = [self._frame(e, f"edges, table {i}") for i, e in enumerate(edges)]
            return JoinedTable(list(parts), self.keys)
        if is_array(edges):
            a, _ = as_numpy(edges)
            if a.ndim != 2 or 2 not in a.shape:
                raise InputError(f"edges: an array of shape {a.shape}; edges are [2, E] or [E, 2]")
            src, dst = (a[0], a[1]) if a.shape[0] == 2 else (a[:, 0], a[:, 1])
            return ArrayTable({"src": src, "dst": dst}, "edges")
        if isinstance(edges, dict):
            return self._named(ArrayTable(edges, "edges"))
        if isinstance(edges, (tuple, list)):
            if len(edges) == 2 and not is_path(edges[0]):
                return ArrayTable({"src": _ids(edges[0]), "dst": _ids(edges[1])}, "edges")
            raise InputError("edges as a tuple must be (src, dst) or a list of files")
        if isinstance(edges, Iterable):
            return self._named(IteratorTable(edges, ["src", "dst"], "edges"))
        raise TypeError(
            f"edges cannot be a {type(edges).__name__}; give arrays, a frame (a lazy one after "
            ".collect()), files or an iterator of chunks"
        )

    def _named(self, table: Table) -> Table:
        """Finds the id columns of a table that has names."""
        self._find_keys([c.name for c in table.columns], table.name)
        return table

    def _find_keys(self, names: list[str], where: str) -> None:
        keys: list[Any] = []
        if self.spec.ends is None:
            try:
                keys = [names[i] for i in find_ends(names, self._types, where)]
            except EndsUnknown:
                if not self.spec.columns_are_ends():
                    raise
        for c in self.spec.ends or ():
            k = names[c] if isinstance(c, int) and c < len(names) else c
            if k not in names:
                raise InputError(f"{where}: has no column {k!r}; it has {', '.join(names)}")
            keys.append(k)
        self.keys = self._turned(*(str(k) for k in keys))

    def _turned(self, *ends: str) -> list[str]:
        """The source and the destination of the input as this type has them."""
        return list(ends[::-1] if self.spec.turned else ends)

    @property
    def _types(self) -> tuple[str, str]:
        """Of the ends as the input has them."""
        source, _, destination = self.spec.type
        return (destination, source) if self.spec.turned else (source, destination)

    def _choose(self, where: str) -> Callable[[list[str]], list[str]]:
        """Of a table's columns the two ends and those that are to be stored."""

        def choose(names: list[str]) -> list[str]:
            self._find_keys(names, where)
            spec = self.spec
            asked = None if spec.columns is None else list(spec.columns)
            found = kept_columns(names, asked, spec.drop, where, spec.shared)
            kept = [n for n in found if n not in self.keys]
            self.left_out = [n for n in names if n not in (*self.keys, *kept)]
            return [*self.keys, *kept]

        return choose

    def _frame(self, frame: Any, where: str) -> Table:
        return ArrowTable(frame, where, self._choose(where), self.spec.nulls)

    def _open_files(self, paths: list[Any]) -> Table:
        tables = []
        for path in paths:
            found = self._files.expand(path)
            inside = partitions(found, partition_root(path, self._files.base))
            if inside[0] and not all(f.endswith(_PARQUET) for f in found):
                self.notes.append(
                    f"note: {os.fspath(path)}: the partitions {', '.join(inside[0])} were left out; only "
                    "those of Parquet files are read"
                )
            tables += [self._open_file(f, part) for f, part in zip(found, inside, strict=True)]
        csv = [t for t in tables if isinstance(t, CsvTable)]
        if any(t.text_keys for t in csv):  # as text in one file, as text in all
            ends = list(zip(*(t.key_kinds for t in csv), strict=True))
            for t in csv:
                t.key_kinds = ["text" if "text" in kinds else "int" for kinds in ends]
        return tables[0] if len(tables) == 1 else JoinedTable(tables, self.keys)

    def _open_file(self, path: str, partition: dict[str, Any]) -> Table:
        plain, member = split_member(path)
        files, spec = self._files, self.spec
        file = files.get(plain)
        if plain.endswith(_PARQUET):
            return ParquetTable(file, None, partition, self._choose(plain), spec.nulls)
        if not plain.endswith((".gl", ".npy", ".npz")):
            try:
                table = self._text_table(file)
            except EndsUnknown:
                if not spec.columns_are_ends():
                    raise
                table = self._text_table(file)
            self.keys = table.key_names
            self.left_out = table.left_out
            return table
        if plain.endswith(".npz") and member is None:
            names = members(plain, files)
            if "edge_index" in names:
                member = "edge_index"
            elif len(names) > 1:
                return self._named(NpyTable({n: open_array(plain, files, n) for n in names}, plain))
        swapped = spec.ends is not None and tuple(spec.ends) in ((1, 0), ("dst", "src"))
        self.keys = self._turned(*(("dst", "src") if swapped else ("src", "dst")))
        return (
            GraphZeroEdges(file) if plain.endswith(".gl") else NpyEdgeIndex(open_array(plain, files, member))
        )

    def _text_table(self, file: InputFile) -> CsvTable:
        spec = self.spec
        return CsvTable(
            file,
            keys=Ends(spec.ends, self._types, turned=spec.turned),
            values=list(spec.columns) if spec.columns is not None else None,
            some_values=spec.shared,
            drop=spec.drop,
            dtypes={n: k for n, dtype in self._asked.items() if (k := parsed_as(dtype)) is not None},
            weight=spec.weight,
            ids=self._ids,
            fill=spec.nulls,
            delimiter=spec.delimiter,
            header=spec.header,
            skip_bad=spec.on_bad_line == "skip",
        )


def _ids(values: Any) -> Any:
    if is_array(values):
        return values
    return np.asarray(values) if len(values) else np.zeros(0, np.int64)
