"""gz.ingest: from the files and arrays people have to a store."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from gz._base.deprecated import deprecated
from gz._base.dtypes import dtype_name
from gz._base.place import new_store, temporary_folder
from gz._base.progress import Progress
from gz._base.sizes import parse_memory
from gz._ingest.layout import igb as igb_layout
from gz._ingest.layout import lsc as lsc_layout
from gz._ingest.layout import ogb as ogb_layout
from gz._ingest.plan import preflight
from gz._ingest.plan.describe import describe, plan_lines
from gz._ingest.plan.fingerprint import PhaseKeys
from gz._ingest.plan.inputs import open_inputs
from gz._ingest.plan.spec import Spec, load, simple
from gz._ingest.read.files import Files
from gz._ingest.write.report import IngestReport
from gz._ingest.write.store_writer import StoreWriter

__all__ = ["IngestReport", "ingest"]


def ingest(
    out: str | os.PathLike[str],
    edges: Any = None,
    features: Any = None,
    num_nodes: int | None = None,
    ids: str | None = None,
    undirected: bool = False,
    directions: str = "in",
    keep_edge_ids: bool | None = None,
    memory: str | int = "2GB",
    *,
    tmp: str | os.PathLike[str] | None = None,
    nodes: Any = None,
    edge_features: Any = None,
    splits: Any = None,
    weight: str | None = None,
    self_loops: str = "keep",
    coalesce: bool = False,
    neighbor_order: str = "id",
    delimiter: str | None = None,
    header: bool | None = None,
    ends: Any = None,
    columns: Any = None,
    edge_columns: Any = None,
    drop: Any = (),
    nulls: dict[str, Any] | None = None,
    on_bad_line: str = "error",
    dtype: Mapping[str, Any] | None = None,
    spec: Any = None,
    adopt: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    progress: bool | None = None,
    check_disk: bool = True,
    meta: dict[str, Any] | None = None,
    ogb: str | os.PathLike[str] | None = None,
    lsc: str | os.PathLike[str] | None = None,
    igb: str | os.PathLike[str] | None = None,
    split_type: str | None = None,
    _finish: Any = None,
) -> IngestReport:
    """Writes a store to OUT from edges and features given as arrays, files or iterators of chunks.

    After an error, a kill or a full disk the same call goes on with the finished phases (a column, the edges
    of a type, ...) whose inputs are files that have not changed. A RuntimeWarning says which.

    Args:
        out: the store to make, a directory that does not exist yet.
        edges: ``(src, dst)`` arrays; one array ``[2, E]`` or ``[E, 2]`` (``[2, 2]`` is read as ``[2, E]``);
            a CSV/TSV (plain, .gz, .zst), Parquet, .npy or .npz file; a folder or a list of files; a frame
            of pandas or polars, an Arrow table, anything with ``__arrow_c_stream__``; an iterator of
            ``(src, dst)`` chunks or of dicts of columns. Further columns become edge columns.
        features: ``{name: array | file | iterator}``, aligned with node ids; or a table file, each column
            on its own.
        num_nodes: found from features and edges when not given. An id at or past it is an error.
        ids: ``"dense"``: ids are 0 to N-1. ``"int"``: any 64-bit integers. ``"text"``: text as it stands,
            007 is not 7. ``"map"``: integers or text, as the input has them. All but the first are numbered
            in the order of `nodes` if given, else as first seen, and the mapping is stored. By default
            ``"map"`` if `nodes` is given, else ``"dense"``.
        undirected: add the reverse of an edge unless it is an input edge itself; it has its edge's id and
            columns. Between two node types (`spec`, `ogb`, `lsc`, `igb`) it adds an edge type
            ``(destination, "rev_...", source)`` instead.
        directions: the topologies to store: ``"in"``, edges grouped by destination, as loaders sample them;
            ``"out"``, by source, for walks and sampling along edges; ``"both"``.
        keep_edge_ids: keep the original edge ids; by default when there are edge columns.
        memory: what the ingest may take, as "2GB" or bytes. Larger edge lists are partitioned on disk.
        tmp: a folder for temporary files; by default they lie beside the store.
        nodes: the original node ids in row order; or a table of nodes (a file, ``"users.csv:id"``, a frame,
            ``{"file": ..., "id": ..., "columns": ...}``): one column has the ids, the others are columns.
        edge_features: ``{name: array | file | iterator}`` aligned with the original order of the edges.
        splits: ``{name: node ids or mask}``.
        weight: the edge column that holds edge weights; weighted sampling and walks follow it.
        self_loops: ``"keep"``, ``"remove"``, or ``"add"`` (one for every node that has none).
        coalesce: of several edges with the same ends keep the first.
        neighbor_order: neighbours by ``"id"``, or in the order of the ``"input"``.
        delimiter, header: of text tables, found out when not given.
        ends: the two columns of a table of edges that are the ends, by name or by position from 0, where
            their names do not tell.
        edge_columns: the old name of ``columns``.
        columns: the columns to keep, besides ids and ends, of the table of edges and of that of nodes: names,
            or ``{name: dtype}``; all when not given.
        drop: columns of tables to leave out.
        nulls: ``{column: value}``, what stands for a missing value; otherwise one is an error.
        on_bad_line: ``"error"``, or ``"skip"`` to leave bad lines out and count them.
        dtype: ``{column: dtype}``, or ``{"TYPE/COLUMN": dtype}``, what to store columns as. ``"float16"``,
            ``"bfloat16"`` and, of rows of fractions, ``"int8"`` (with a scale for each row) are smaller on
            the disk and in memory, and are read as float32; ``"float16:keep"`` is read as float16.
            ``"int16:int64"`` (``uint8``, ``int8``, ``int32``) is stored as the first and read as int64.
        spec: a TOML file or a dict for heterogeneous graphs and many files (docs/ingest.md).
        adopt: use .npy features where they lie instead of copying them.
        overwrite: replace OUT if it is a store that holds no other files. The old store stays until the new
            one is complete.
        dry_run: open and check the inputs, write nothing, and return a report with the plan.
        progress: show the plan and progress; by default when stderr is a terminal.
        check_disk: refuse, before anything is written, when the disk has not the room this will need.
        meta: anything that JSON can hold; kept in store.json under the key "meta".
        ogb, lsc, igb: a dataset folder as downloaded, instead of edges and features: of OGB's node- and
            link-prediction datasets, of MAG240M, of IGB (docs/datasets.md).
        split_type: which folder of an OGB dataset's ``split/`` to take; by default the one that OGB takes.

    Returns:
        A report that prints as a summary and can be used as the store's path.

    Raises:
        gz.InputError: the input is wrong; the message names the file, the line or row, and the value.
    """
    start = time.monotonic()
    if edge_columns is not None:
        deprecated("edge_columns=", "columns=, and what columns= was, ends=,")
        ends, columns = columns if ends is None else ends, edge_columns
    options = {
        "undirected": undirected,
        "directions": directions,
        "keep_edge_ids": keep_edge_ids,
        "edge_features": edge_features,
        "weight": weight,
        "self_loops": self_loops,
        "coalesce": coalesce,
        "neighbor_order": neighbor_order,
        "delimiter": delimiter,
        "header": header,
        "ends": ends,
        "columns": columns,
        "on_bad_line": on_bad_line,
        "drop": [drop] if isinstance(drop, str) else list(drop),
        "nulls": dict(nulls or {}),
    }
    budget = parse_memory(memory)
    tmp = temporary_folder(tmp)
    sources = {"spec": spec, "ogb": ogb, "lsc": lsc, "igb": igb}
    named = [name for name, value in sources.items() if value is not None]
    given = edges is not None or features is not None or num_nodes is not None or nodes is not None
    if len(named) > 1 or (named and (given or splits or edge_features)):
        raise ValueError(f"give either {named[0]}= or {(named[1:] or ['edges', 'features'])[0]}=, not both")
    if split_type is not None and ogb is None:
        raise ValueError("split_type= goes with ogb=, the folder of an OGB dataset")
    if named and named != ["spec"] and ids not in (None, "dense"):
        raise ValueError(f"ids={ids!r} does not go with {named[0]}=: ids of dataset folders are dense")
    with Files() as files, closing(Progress(progress)) as show:
        plan: Spec
        if spec is not None:
            plan = load(spec, options, ids, files)
        elif ogb is not None:
            plan = ogb_layout.plan(ogb, options, split_type, budget, files)
        elif lsc is not None:
            plan = lsc_layout.plan(lsc, options, budget, files)
        elif igb is not None:
            plan = igb_layout.plan(igb, options, files)
        else:
            plan = simple(edges, features, num_nodes, splits, nodes, ids, options, files)
        plan.meta |= meta or {}
        plan.finish = _finish
        plan.dtypes = _dtypes(dtype)
        plan.settle()
        plan.check()
        if dry_run:
            report = IngestReport(os.path.abspath(out), {}, {}, notes=plan.notes)
            report.plan = describe(open_inputs(plan, adopt))
            return report
        with new_store(out, overwrite, PhaseKeys(plan)) as work:
            inputs = open_inputs(plan, adopt)
            show.say(plan_lines(describe(inputs)))
            if check_disk:
                done = work.journal.finished_bytes()
                preflight.check_disk(inputs, budget, work.folder.parent, done, tmp)
            report = StoreWriter(inputs, work.journal, budget, show, tmp).run()
    report.path = os.path.abspath(out)
    report.seconds = time.monotonic() - start
    return report


def _dtypes(given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"dtype={given!r}: name the columns, as in dtype={{'x': 'float16'}}")
    return {str(name): dtype_name(kind) for name, kind in given.items() if kind is not None}
