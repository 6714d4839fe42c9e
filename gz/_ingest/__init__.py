"""gz.ingest: from the files and arrays people have to a store."""

from __future__ import annotations

import os
import time
from typing import Any

from gz._sizes import parse_memory

from . import preflight
from .fingerprint import fingerprint
from .place import new_store
from .progress import Progress
from .report import IngestReport
from .spec import Spec, load, simple
from .store_writer import StoreWriter

__all__ = ["IngestReport", "ingest"]


def ingest(
    out: str | os.PathLike[str],
    edges: Any = None,
    features: Any = None,
    num_nodes: int | None = None,
    ids: str = "dense",
    undirected: bool = False,
    directions: str = "in",
    keep_edge_ids: bool | None = None,
    memory: str | int = "2GB",
    *,
    nodes: Any = None,
    edge_features: Any = None,
    splits: Any = None,
    weight: str | None = None,
    self_loops: str = "keep",
    coalesce: bool = False,
    neighbor_order: str = "id",
    delimiter: str | None = None,
    header: bool | None = None,
    columns: Any = None,
    edge_columns: Any = None,
    on_bad_line: str = "error",
    spec: Any = None,
    adopt: bool = False,
    overwrite: bool = False,
    progress: bool | None = None,
    check_disk: bool = True,
    meta: dict[str, Any] | None = None,
    ogb: str | os.PathLike[str] | None = None,
    lsc: str | os.PathLike[str] | None = None,
    igb: str | os.PathLike[str] | None = None,
    split_type: str | None = None,
) -> IngestReport:
    """Writes a store to OUT from edges and features given as arrays, files or iterators of chunks.

    After a kill the same call goes on from the last finished phase, if all inputs are files that have not
    changed; otherwise it starts anew. A RuntimeWarning says which.

    Args:
        out: the store to make, a directory that does not exist yet.
        edges: ``(src, dst)`` arrays; one array ``[2, E]`` or ``[E, 2]`` (``[2, 2]`` is read as ``[2, E]``);
            a CSV/TSV (plain, .gz, .zst), Parquet, .npy or .npz file; a folder or a list of files; an
            iterator of ``(src, dst)`` chunks or of dicts of columns. Further columns become edge columns.
        features: ``{name: array | file | iterator}``, aligned with node ids; or a table file, each column
            on its own.
        num_nodes: found from features and edges when not given. An id at or past it is an error.
        ids: ``"dense"``: ids are 0 to N-1. ``"map"``: ids are any 64-bit integers or text; dense ids are
            assigned in the order of `nodes` if given, else as first seen, and the mapping is stored.
        undirected: add the reverse of an edge unless it is an input edge itself; it has its edge's id and
            columns.
        directions: ``"in"``, or ``"both"`` to store the topology grouped by source as well.
        keep_edge_ids: keep the original edge ids; by default when there are edge columns.
        memory: what the ingest may take, as "2GB" or bytes. Larger edge lists are partitioned on disk.
        nodes: the original node ids in row order, for ``ids="map"``.
        edge_features: ``{name: array | file | iterator}`` aligned with the original order of the edges.
        splits: ``{name: node ids or mask}``.
        weight: the edge column that holds edge weights; weighted sampling and walks follow it.
        self_loops: ``"keep"``, ``"remove"``, or ``"add"`` (one for every node that has none).
        coalesce: of several edges with the same ends keep the first.
        neighbor_order: neighbours by ``"id"``, or in the order of the ``"input"``.
        delimiter, header, columns, edge_columns: for tables, found out when not given; `columns` names the
            two id columns (or gives their positions from 0), `edge_columns` those to keep, as names or
            ``{name: dtype}``.
        on_bad_line: ``"error"``, or ``"skip"`` to leave bad lines out and count them.
        spec: a TOML file or a dict for heterogeneous graphs and many files (docs/ingest.md).
        adopt: use .npy features where they lie instead of copying them.
        overwrite: replace OUT if it exists. The old store stays until the new one is complete.
        progress: show progress; by default when stderr is a terminal.
        check_disk: refuse, before anything is written, when the disk has not the room this will need.
        meta: anything that JSON can hold; kept in store.json under the key "meta".
        ogb, lsc, igb: a dataset folder as downloaded, instead of edges and features: of OGB's node- and
            link-prediction datasets, of MAG240M, of IGB (docs/datasets.md). Between two node types
            `undirected` adds an edge type ``(destination, "rev_...", source)``.
        split_type: which folder of an OGB dataset's ``split/`` to take; by default the one that OGB takes.

    Returns:
        A report that prints as a summary and can be used as the store's path.

    Raises:
        gz.InputError: the input is wrong; the message names the file, the line or row, and the value.
    """
    start = time.monotonic()
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
        "columns": columns,
        "edge_columns": edge_columns,
        "on_bad_line": on_bad_line,
    }
    budget = parse_memory(memory)
    plan: Spec
    sources = {"spec": spec, "ogb": ogb, "lsc": lsc, "igb": igb}
    named = [name for name, value in sources.items() if value is not None]
    given = edges is not None or features is not None or num_nodes is not None or nodes is not None
    if len(named) > 1 or (named and (given or splits or edge_features)):
        raise ValueError(f"give either {named[0]}= or {(named[1:] or ['edges', 'features'])[0]}=, not both")
    if split_type is not None and ogb is None:
        raise ValueError("split_type= goes with ogb=, the folder of an OGB dataset")
    if named and named != ["spec"] and ids != "dense":
        raise ValueError(f"ids={ids!r} does not go with {named[0]}=: ids of dataset folders are dense")
    if spec is not None:
        plan = load(spec, options, ids)
    elif ogb is not None:
        from . import ogb as ogb_layout

        plan = ogb_layout.plan(ogb, options, split_type, budget)
    elif lsc is not None:
        from . import lsc as lsc_layout

        plan = lsc_layout.plan(lsc, options, budget)
    elif igb is not None:
        from . import igb as igb_layout

        plan = igb_layout.plan(igb, options)
    else:
        plan = simple(edges, features, num_nodes, splits, nodes, ids, options)
    plan.meta |= meta or {}
    plan.check()
    show = Progress(progress)
    try:
        with new_store(out, overwrite, fingerprint(plan, adopt)) as work:
            if check_disk:
                work.keep = work.resumed  # no reason to lose what is done
                preflight.check_disk(plan, budget, adopt, work.folder.parent, work.journal.finished_bytes())
                work.keep = False
            report = StoreWriter(plan, work.journal, budget, adopt, show).run()
    finally:
        show.close()
    report.path = os.path.abspath(out)
    report.seconds = time.monotonic() - start
    return report
