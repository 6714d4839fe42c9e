"""Single files: a CSV edge list to .gl, a CSV of node features to .gd."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any

import numpy as np

from gz import _engine
from gz._base.dtypes import STORABLE, Column, asked_for, parsed_as, to_dtype
from gz._base.place import new_file
from gz._base.progress import Progress
from gz._base.sizes import parse_memory
from gz._engine import InputError
from gz._ingest.read.csv_table import Columns, CsvTable, Ends
from gz._ingest.read.files import Files
from gz._ingest.read.tables import Chunk
from gz._ingest.write.density import check_density
from gz._ingest.write.edges import run
from gz.output import PAGE

__all__ = ["convert_csv_to_gd", "convert_csv_to_gl"]


def convert_csv_to_gl(
    csv_path: str | os.PathLike[str],
    out_path: str | os.PathLike[str],
    directed: bool = True,
    *,
    memory: str | int = "2GB",
    num_nodes: int | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    on_bad_line: str = "error",
    overwrite: bool = True,
) -> None:
    """Converts an edge list (source, destination and perhaps a weight per line) to a topology by source.

    Args:
        csv_path: the edge list. A third column is the weight.
        out_path: the ``.gl`` file to make; it appears complete or not at all.
        directed: False adds the reverse of an edge unless it is there.
        memory: what it may take.
        num_nodes: one more than the largest id when not given.
        delimiter, header: found out when not given.
        on_bad_line: ``"error"``, or ``"skip"`` to leave bad lines out.
        overwrite: replace the file if it exists.
    """
    budget = parse_memory(memory)
    with Files() as files, closing(Progress()) as progress:
        file = files.get(os.fspath(csv_path))
        layout = CsvTable(file, keys=Ends(strict=False), values=[], delimiter=delimiter, header=header).layout
        if layout.num_fields > 3:
            raise InputError(
                f"{file.path}: lines have {layout.num_fields} fields; expected source, destination and "
                "perhaps a weight"
            )
        weight = layout.name(2) if layout.num_fields == 3 else None
        table = CsvTable(
            file,
            keys=Ends(strict=False),
            weight=weight,
            delimiter=layout.delimiter,
            header=bool(layout.names),
            skip_bad=on_bad_line == "skip",
        )
        table.fit(budget)
        table.limits = [num_nodes or 0, num_nodes or 0]
        with new_file(out_path, overwrite) as target:
            builder = _engine.Builder(
                str(target.parent),
                out=True,
                payload=4 if weight else 0,
                undirected=not directed,
                weight_offset=0 if weight else None,
                memory=budget,
                expected_nodes=num_nodes or 0,
            )
            progress.phase("reading edges")
            table.to_builder(builder, table.record(), progress)
            n = num_nodes if num_nodes is not None else max(builder.nodes_seen, builder.others_seen)
            if num_nodes is None:
                check_density(n, 2 * builder.num_input_edges, file.path)
            builder.begin(str(target), n, n, [])
            run(builder, progress, "sorting edges")


def _dtype_name(dtype: Any) -> str:
    """A dtype by name, a numpy or torch dtype, or an enum member such as GraphZero's DataType.FLOAT32."""
    if isinstance(dtype, str):
        name = dtype.lower()
    elif hasattr(dtype, "name") and not isinstance(dtype, (np.dtype, type)):
        name = str(dtype.name).lower()
    elif str(dtype).startswith("torch."):
        name = str(dtype)[6:]
    else:
        name = np.dtype(dtype).name
    if name.removesuffix(":keep") not in STORABLE:
        raise ValueError(f"dtype={dtype!r}: a CSV can be converted to {', '.join(STORABLE)}")
    return name


def convert_csv_to_gd(
    csv_path: str | os.PathLike[str],
    out_path: str | os.PathLike[str],
    dtype: Any = "float32",
    *,
    id_column: bool = True,
    delimiter: str | None = None,
    header: bool | None = None,
    overwrite: bool = True,
) -> None:
    """Converts a CSV of node features to a column of shape [num_nodes, values per line].

    Args:
        csv_path: the table; every node must have one line.
        out_path: the ``.gd`` file to make.
        dtype: to store, by name or as numpy's or torch's. float16 and bfloat16 are read as float32
            (``float16:keep``: as float16); int8 takes whole numbers.
        id_column: the first field of a line is its node's id, as GraphZero has it, and lines come in any
            order; False: there is no id, and line i belongs to node i.
        delimiter, header: found out when not given.
        overwrite: replace the file if it exists.
    """
    name = _dtype_name(dtype)
    parsed = parsed_as(name)
    with Files() as files:
        file = files.get(os.fspath(csv_path))
        keys = Columns([0] if id_column else [])
        table = CsvTable(file, keys=keys, dtype=parsed, delimiter=delimiter, header=header)
        width = len(table.value_columns)
        if width == 0:
            raise InputError(f"{table.name}: lines hold an id and nothing else")
        column = asked_for(Column("the rows", str(parsed), (width,)), name, table.name)
        with new_file(out_path, overwrite) as target:
            if id_column:
                _by_id(table, column, str(target))
            else:
                writer = column.writer(target)
                for chunk in table.chunks(1 << 16):
                    writer.append(_values(chunk, table, column))
                writer.finish()


def _by_id(table: CsvTable, column: Column, target: str) -> None:
    """Rows in any order: as edges (node, line) with the values as payload, they come out sorted by node."""
    folder = os.path.dirname(target)
    builder = _engine.Builder(folder, payload=column.row_bytes, sort_by_id=False)
    for chunk in table.chunks(1 << 16):
        ids = np.ascontiguousarray(chunk.columns[table.columns[0].name])
        builder.add(np.zeros_like(ids), ids, _values(chunk, table, column))
    n = builder.nodes_seen
    topology = os.path.join(folder, "rows.gl")
    builder.begin(topology, n, 1, [column.of_edges(target, 0)])
    while builder.step():
        pass
    for at in range(0, n, 1 << 20):
        take = min(n - at, 1 << 20)
        degrees = np.diff(np.fromfile(topology, "<u8", take + 1, offset=PAGE + at * 8))
        if (degrees != 1).any():
            i = int((degrees != 1).argmax())
            found = "no line" if degrees[i] == 0 else f"{degrees[i]} lines"
            raise InputError(
                f"{table.name}: node {at + i} has {found}; every node from 0 to {n - 1} needs one"
            )
    os.unlink(topology)


def _values(chunk: Chunk, table: CsvTable, column: Column) -> np.ndarray:
    rows = np.stack([chunk.columns[c.name] for c in table.value_columns], axis=1)
    return to_dtype(rows, column, rows.dtype.name, chunk.where, chunk.first_row)
