"""Original ids of nodes, in every form they come in: integers or text, from arrays, lists, files, tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gz._base.deprecated import deprecated
from gz._base.dtypes import as_numpy, is_array
from gz._base.text import Text
from gz._engine import InputError
from gz._ingest.plan.column_input import open_table
from gz._ingest.read.arrow import ArrowTable, is_series, is_table
from gz._ingest.read.csv_table import CsvTable, IdColumn, as_integers
from gz._ingest.read.ends import find_id
from gz._ingest.read.files import Files, InputFile
from gz._ingest.read.parquet import ParquetTable
from gz._ingest.read.paths import as_paths, is_path
from gz._ingest.read.tables import ArrayTable, Table

Keys = np.ndarray | Text


def as_keys(values: Any, where: str, first_row: int = 0, ids: str = "map") -> Keys:
    """int64, or Text. Floats and missing values cannot name a node. `ids`: "text" makes text of integers,
    "int" integers of text."""
    keys = values if isinstance(values, Text) else _keys(values, where, first_row)
    if ids == "text" and not isinstance(keys, Text):
        import pyarrow as pa

        return Text.from_arrow(pa.array(keys).cast(pa.large_string()))
    if ids == "int" and isinstance(keys, Text):
        return as_integers(keys, where, first_row, zeros=True)
    return keys


def _keys(values: Any, where: str, first_row: int) -> Keys:
    a, _ = as_numpy(values)
    a = a.ravel()
    if a.dtype.kind in "iu":
        if a.dtype == np.uint64 and len(a) and a.max() > np.iinfo(np.int64).max:
            i = int((a > np.iinfo(np.int64).max).argmax())
            raise InputError(
                f"{where}, row {first_row + i}: id {a[i]} does not fit a signed 64-bit "
                'integer; make text of them (.astype("str"))'
            )
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
    bad = f" (row {first_row} is {a[0]})" if len(a) else ""
    raise InputError(
        f'{where}: ids have dtype {a.dtype}{bad}; ids are integers or text: cast them (.astype("int64"))'
    )


def _is_array(path: Any) -> bool:
    return str(path).endswith((".npy", ".npz")) or ".npz:" in str(path)


class NodeKeys:
    """The original ids of a node type or of a split, opened: from an array, a list, an iterator, or the id
    column of a file or table."""

    def __init__(self, value: Any, what: str, files: Files, ids: str = "map", **text: Any):
        """`text`: how a text table is laid out (delimiter, header), where that was said."""
        self._ids = ids
        column, paths = None, [value] if is_path(value) else None  # a list of text is one of ids
        if isinstance(value, dict):
            if "column" in value:
                deprecated("column, of ids,", "id")
            value, column = value["file"], value.get("id", value.get("column"))
            paths = as_paths(value)
        self.tables: list[Table]
        if paths is not None and not any(_is_array(p) for p in paths):
            self.tables = [
                self._file(files.get(p), column, text) for path in paths for p in files.expand(path)
            ]
        elif is_table(value):
            self.tables = [ArrowTable(value, what, lambda names: [names[find_id(names, column, what)]])]
        elif isinstance(value, (list, tuple)) and not any(is_array(v) or is_series(v) for v in value):
            kind = object if value and isinstance(value[0], str) else None
            self.tables = [ArrayTable({"id": np.asarray(value, dtype=kind)}, what)]
        else:
            self.tables = [open_table(what, value, files)]

    def _file(self, file: InputFile, column: Any, text: dict[str, Any]) -> Table:
        if file.path.endswith((".parquet", ".pq")):
            return ParquetTable(file, choose=lambda names: [names[find_id(names, column, file.path)]])
        return CsvTable(file, keys=IdColumn(column), values=[], ids=self._ids, **text)

    def kinds(self) -> set[str]:
        """Of "int" and "text" those that occur, as far as the tables tell."""
        return {"text" if t.columns[0].dtype in ("text", "object") else "int" for t in self.tables}

    def settle(self, kind: str) -> None:
        """Text tables whose first ids look like integers, but which hold text elsewhere, are read as text."""
        for t in self.tables:
            if isinstance(t, CsvTable):
                t.key_kinds = [kind] * len(t.key_kinds)

    def estimated_rows(self) -> int:
        return sum(t.estimated_rows() for t in self.tables)

    def __iter__(self) -> Iterator[Keys]:
        for table in self.tables:
            for chunk in table.chunks(1 << 18):
                values = next(iter(chunk.columns.values()))
                yield as_keys(values, chunk.where, chunk.first_row, self._ids)
