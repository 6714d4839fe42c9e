"""Everything an ingest will read, opened: what the spec names, with what was found out about it.

Preflight and the writer ask these; nothing is opened or guessed a second time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from gz._engine import InputError
from gz._ingest.plan.column_input import (
    ColumnInput,
    adoptable,
    kept_columns,
    open_column,
    open_table,
    open_text,
    split_table,
)
from gz._ingest.plan.edge_input import EdgeInput
from gz._ingest.plan.keys import NodeKeys
from gz._ingest.plan.spec import NodeSpec, Spec
from gz._ingest.read.arrow import is_table, reusable
from gz._ingest.read.csv_table import CsvTable, IdColumn
from gz._ingest.read.ends import find_id
from gz._ingest.read.graphzero import GraphZeroEdges
from gz._ingest.read.npy import NpyArray
from gz._ingest.read.parquet import ParquetTable
from gz._ingest.read.paths import as_paths


@dataclass
class NodeInput:
    """One node type and its columns: to be written, or an array that stays where it lies."""

    spec: NodeSpec
    num_nodes: int | None  # if somebody said so
    columns: dict[str, ColumnInput | NpyArray] = field(default_factory=dict)
    keys: NodeKeys | None = None  # original ids, in row order
    original: NodeKeys | None = None  # the same, only to be kept
    left_out: list[str] = field(default_factory=list)

    def estimated_nodes(self) -> int | None:
        """None where nothing but edges can tell."""
        if self.num_nodes is not None:
            return self.num_nodes
        for c in self.columns.values():
            if rows := c.rows if isinstance(c, NpyArray) else c.table.estimated_rows():
                return rows
        return (self.keys.estimated_rows() or None) if self.keys is not None else None


@dataclass
class Inputs:
    spec: Spec
    nodes: dict[str, NodeInput]
    edges: list[EdgeInput]


def open_inputs(spec: Spec, adopt: bool = False) -> Inputs:
    files = spec.files
    nodes = {}
    for name, node in spec.nodes.items():
        found = nodes[name] = NodeInput(node, node.num_nodes)
        features = split_table(node.features, files)
        if node.file is not None:
            _open_table(found, spec, given=features)
        elif node.ids is not None:
            found.keys = NodeKeys(node.ids, f"nodes of {name!r}", files, spec.ids)
        if node.original_ids is not None:
            found.original = NodeKeys(node.original_ids, f"original ids of {name!r}", files)
        for column, value in features.items():
            asked = spec.dtype_of(column, name)
            npy = adoptable(value, files) if adopt and asked is None else None
            found.columns[column] = open_column(column, value, files, asked) if npy is None else npy
    edges = [EdgeInput(e, files, spec.ids, spec.dtypes) for e in spec.edges]
    if spec.ids == "map":
        _settle(nodes, edges)
    _check_names(nodes, edges, spec.dtypes)
    if spec.homogeneous and spec.ids == "dense":
        only = next(iter(nodes.values()))
        table = edges[0].table if edges else None
        if isinstance(table, GraphZeroEdges) and only.num_nodes is None and not only.columns:
            only.num_nodes = table.num_nodes  # other edges do not know it
    return Inputs(spec, nodes, edges)


def _open_table(found: NodeInput, spec: Spec, given: Collection[str]) -> None:
    """A table of nodes: one column has their ids, the others are columns, unless they are given apart."""
    node, files, what = found.spec, spec.files, f"nodes of {found.spec.name!r}"
    table = reusable(node.file) if is_table(node.file) else node.file
    text: dict[str, Any] = {}
    places: dict[str, Any] = {}  # of a column in a table: its name, or its place where there is no header
    paths: list[str] = []
    if is_table(table):
        names: list[str] = table.schema.names
    else:
        paths = [p for path in as_paths(table) or [table] for p in files.expand(path)]
        first = files.get(paths[0])
        if first.path.endswith((".parquet", ".pq")):
            names = ParquetTable(first, choose=lambda _: []).names
        else:
            sniffed = CsvTable(
                first,
                keys=IdColumn(node.id),
                values=[],
                ids=spec.ids,
                delimiter=node.delimiter,
                header=node.header,
            )
            lay = sniffed.layout
            text = {"delimiter": lay.delimiter, "header": bool(lay.names)}
            names = [lay.name(i) for i in range(lay.num_fields)]
            places = {} if lay.names else {n: i for i, n in enumerate(names)}
            names = [n for n in names if n]
    key = names[find_id(names, node.id, what)]
    found.keys = NodeKeys({"file": table, "id": places.get(key, key)}, what, files, spec.ids, **text)
    asked = None if node.columns is None else list(node.columns)
    chosen = kept_columns(names, asked, node.drop, what, node.shared)
    kept = [n for n in chosen if n != key and n not in given]
    found.left_out = [n for n in names if n not in (key, *kept, *given)]
    dtypes = dict(node.columns) if isinstance(node.columns, dict) else {}
    dtypes |= {n: kind for n in kept if (kind := spec.dtype_of(n, node.name)) is not None}
    parts: dict[str, Any] = {n: {"file": table, "columns": [n], "nulls": node.nulls} for n in kept}
    if text:
        parts = dict(
            open_text(paths, [places.get(n, n) for n in kept], dtypes, files, fill=node.nulls, **text)
        )
    for n in kept:
        opened = open_table(n, parts[n], files)
        found.columns[n] = ColumnInput(n, opened, dtypes.get(n), node.categories.get(n), node.units.get(n))


def _check_names(nodes: dict[str, NodeInput], edges: list[EdgeInput], asked: Collection[str]) -> None:
    """A column to be left out or kept that no table has, or one to be described that is not kept, is a
    mistake."""
    parts: list[NodeInput | EdgeInput] = [*nodes.values(), *edges]
    left_out = {n for part in parts for n in part.left_out}
    stored = {n for node in nodes.values() for n in node.columns} | {c.name for e in edges for c in e.columns}
    ends = {k for e in edges for k in e.keys}
    known = stored | {f"{t}/{n}" for t, node in nodes.items() for n in node.columns}
    for name in asked:
        if name not in known:
            raise InputError(f"dtype: there is no column {name!r}; there are {_listed(stored)}")
    for part in parts:
        for name in part.spec.drop:
            if name not in left_out:
                raise InputError(
                    f"drop: {name!r} holds the ends of edges; ends= (--ends) chooses others"
                    if name in ends
                    else f"drop: no table has a column {name!r}"
                )
        for name in part.spec.nulls:
            if name not in left_out | stored | ends:
                raise InputError(f"nulls: no table has a column {name!r}; there are {_listed(stored)}")
        for name in part.spec.columns or () if part.spec.shared else ():
            if name not in stored:
                raise InputError(f"columns: no table has a column {name!r}, or it holds ids")
        own = part.columns if isinstance(part, NodeInput) else [c.name for c in part.own]
        for key in ("categories", "units"):
            for name in getattr(part.spec, key):
                if name not in own:
                    raise InputError(
                        f"{key}: there is no column {name!r}; there are {', '.join(own) or 'none'}"
                    )


def _settle(nodes: dict[str, NodeInput], edges: list[EdgeInput]) -> None:
    """ids="map": a node type whose ids are text in one table has text in all text tables."""
    kinds: dict[str, set[str]] = {n: node.keys.kinds() if node.keys else set() for n, node in nodes.items()}
    for e in edges:
        for t, found in zip((e.spec.type[0], e.spec.type[2]), e.key_kinds(), strict=True):
            kinds[t] |= found
    settled = {t: "text" if "text" in k else "int" for t, k in kinds.items()}
    for n, node in nodes.items():
        if node.keys is not None:
            node.keys.settle(settled[n])
    for e in edges:
        e.settle([settled[e.spec.type[0]], settled[e.spec.type[2]]])


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
