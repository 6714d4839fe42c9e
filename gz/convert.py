"""Single files: a CSV edge list to .gl, a CSV of node features to .gd."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from gz import _engine
from gz._engine import InputError
from gz._ingest.arrays import STORABLE
from gz._ingest.csv_table import CsvTable, sniff
from gz._ingest.edges import run
from gz._ingest.place import new_file
from gz._ingest.progress import Progress
from gz._sizes import parse_memory

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

    A third column is the weight. With ``directed=False`` the reverse of an edge is added unless it is there.
    The file appears complete or not at all.
    """
    budget = parse_memory(memory)
    path = os.fspath(csv_path)
    layout = sniff(path, delimiter, header, False)
    if layout.num_fields > 3:
        raise InputError(
            f"{path}: lines have {layout.num_fields} fields; expected source, destination and "
            "perhaps a weight"
        )
    weight = layout.name(2) if layout.num_fields == 3 else None
    table = CsvTable(
        path,
        keys=None,
        weight=weight,
        delimiter=layout.delimiter,
        header=bool(layout.names),
        skip_bad=on_bad_line == "skip",
        piece_bytes=max(1 << 14, min(8 << 20, budget // 96)),
    )
    table.limits = [num_nodes or 0, num_nodes or 0]
    progress = Progress()
    try:
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
            table.to_builder(
                builder, table.record(), lambda: progress.update(table.bytes_done, table.bytes_total, "B")
            )
            n = num_nodes if num_nodes is not None else max(builder.nodes_seen, builder.others_seen)
            builder.begin(str(target), n, n, [])
            run(builder, progress, "sorting edges")
    finally:
        progress.close()


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
    if name not in STORABLE or name in ("float16", "bfloat16"):
        known = [s for s in STORABLE if s not in ("float16", "bfloat16")]
        raise ValueError(f"dtype={dtype!r}: a CSV can be converted to {', '.join(known)}")
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

    The first field of a line is its node's id, as GraphZero has it; every node must have one line, in any
    order.
    With ``id_column=False`` there is no id, and line i belongs to node i.
    """
    name = _dtype_name(dtype)
    table = CsvTable(
        os.fspath(csv_path), keys=[0] if id_column else [], dtype=name, delimiter=delimiter, header=header
    )
    width = len(table.value_columns)
    if width == 0:
        raise InputError(f"{table.name}: lines hold an id and nothing else")
    with new_file(out_path, overwrite) as target:
        if id_column:
            _by_id(table, name, width, str(target))
        else:
            writer = _engine.ColumnWriter(str(target), name, [width])
            for chunk in table.chunks(1 << 16):
                writer.append(np.stack([chunk.columns[c.name] for c in table.value_columns], axis=1))
            writer.finish()


def _by_id(table: CsvTable, dtype: str, width: int, target: str) -> None:
    """Rows in any order: as edges (node, line) with the values as payload, they come out sorted by node."""
    record = np.dtype((np.dtype(dtype), (width,)))
    folder = os.path.dirname(target)
    builder = _engine.Builder(folder, payload=record.itemsize, sort_by_id=False)
    fields = table.record()
    for chunk in table.chunks(1 << 16):
        ids = np.ascontiguousarray(chunk.columns[table.columns[0].name])
        rows = (
            np.stack([chunk.columns[c.name] for c in table.value_columns], axis=1)
            if fields.itemsize
            else None
        )
        builder.add(np.zeros_like(ids), ids, rows)
    n = builder.nodes_seen
    topology = os.path.join(folder, "rows.gl")
    builder.begin(topology, n, 1, [_engine.EdgeColumn(target, dtype, [width], 0)])
    while builder.step():
        pass
    with open(topology, "rb") as f:
        f.seek(4096)
        at = 0
        while at < n:
            take = min(n - at, 1 << 20)
            f.seek(4096 + at * 8)
            degrees = np.diff(np.fromfile(f, "<u8", take + 1))
            if (degrees != 1).any():
                i = at + int((degrees != 1).argmax())
                found = "no line" if degrees[i - at] == 0 else f"{degrees[i - at]} lines"
                raise InputError(
                    f"{table.name}: node {i} has {found}; every node from 0 to {n - 1} needs one"
                )
            at += take
    os.unlink(topology)
