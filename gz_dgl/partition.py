"""partition: a store as DGL's partitions, for dgl.distributed, in memory that does not grow with the graph.

What dgl.distributed.partition_graph writes, by DGL's own functions and one part at a time: a folder with
GRAPH.json, and for each part graph.dgl (its nodes, those one hop beyond, and all edges at its nodes),
node_feat.dgl and edge_feat.dgl. Everything up to the arrays of a part is gz.partitioner's.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gz
from gz.adapter import amount, check_fits, from_numpy, parse_memory
from gz.partitioner import METHODS, Options, Part, Report, Rows, Whole
from gz.partitioner import partition as make_parts
from gz.partitioner.number import Numbers
from gz.partitioner.whole import blocks
from gz_dgl._dgl import EID, NID, DGLError, DGLGraph, dgl, heterograph_index
from gz_dgl.store import load

_METIS_BYTES = 160  # an edge while DGL makes the graph symmetric and METIS coarsens it, measured
_AUTO = "auto"


@dataclass
class Partition:
    """What ``partition`` made.

    Attributes:
        config: the path of DGL's JSON, which ``dgl.distributed.load_partition`` and servers take.
        report: sizes, balance and edge cut.
    """

    config: str
    report: Report

    @property
    def orig_nids(self) -> Any:
        """Old node ids in the order of DGL's new ones, over their file; by type if there are several."""
        return self._ids(self.report.orig_nids, self.report.ntypes)

    @property
    def orig_eids(self) -> Any:
        """Old edge ids in the order of DGL's new ones, over their file; by type if there are several."""
        return self._ids(self.report.orig_eids, self.report.etypes)

    def _ids(self, files: dict[str, str], types: list[Any]) -> Any:
        folder = os.path.dirname(self.config)
        keys = [t if isinstance(t, str) else ":".join(t) for t in types]
        ids = [from_numpy(np.load(os.path.join(folder, files[k]), mmap_mode="c")) for k in keys]
        whole = len(self.report.ntypes) == 1 and len(self.report.etypes) == 1
        return ids[0] if whole else dict(zip(types, ids, strict=True))


def partition(
    store: str | os.PathLike[str] | gz.Store,
    out: str | os.PathLike[str],
    parts: int,
    *,
    method: str = _AUTO,
    assignment: Any = None,
    graph_name: str | None = None,
    balance: str | None = "train",
    balance_edges: bool = True,
    passes: int = 8,
    graph_formats: Any = None,
    rng_seed: int = 0,
    memory: str | int = "2GB",
    tmp: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    check_disk: bool = True,
    progress: bool | None = None,
) -> Partition:
    """Writes a store as ``parts`` partitions for ``dgl.distributed``.

    Args:
        store: its directory, or the store itself.
        out: the folder to make; it appears complete. A run that was killed is gone on with by the same call.
        parts: how many.
        method: ``"metis"``, DGL's, where the graph fits into ``memory``; ``"fennel"``, which streams it;
            ``"random"``; ``"range"``, by id; ``"file"``, by ``assignment``. ``"auto"`` is METIS where it
            fits, else Fennel.
        assignment: the part of each node: an array or an .npy; several node types by a dict, or one array for
            all, type after type in DGL's order.
        graph_name: what ``DistGraph`` calls it, and the JSON's name; by default that of the store's folder.
        balance: a split, or a column ``NAME_mask``, of which every part gets its share, as DGL's
            ``balance_ntypes``; None for none. Node types are balanced in any case. For METIS and Fennel.
        balance_edges: spread edges evenly too.
        passes: sweeps of Fennel.
        graph_formats: what graph.dgl holds: ``"coo"``, ``"csc"``, ``"csr"`` or several; by default COO.
        rng_seed: names the shuffle of ``"random"``.
        memory: what it may take besides what one part needs.
        tmp: a folder for temporary files, some 20 bytes an edge; by default they lie beside OUT, and a run
            that was stopped goes on with them.
        overwrite: replace OUT where it is a partitioned graph.
        check_disk: refuse to begin where the disk has too little room.
        progress: show it; by default when stderr is a terminal.

    Splits become the masks ``train_mask``, ``val_mask``, ``test_mask`` that DGL's scripts split nodes by,
    unless there are columns of that name. Edge splits of link-prediction datasets are no columns and stay in
    the store.
    """
    g = load(store)
    index = g._graph
    whole = Whole(g.store, index.ntypes, index.etypes)
    budget = parse_memory(memory)
    if assignment is not None and method == _AUTO:
        method = "file"
    if method == _AUTO:
        method = "metis" if _metis_bytes(whole) <= budget else "fennel"
    if method == "metis":
        check_fits(
            _metis_bytes(whole),
            f"{g.store.path}: the graph for METIS",
            "use method='fennel', which streams it",
        )
    name = graph_name if graph_name is not None else os.path.basename(g.store.path)
    if not name or re.search(r"[/\0]", name) or name == "gz-partition":
        raise ValueError(f"graph_name is {name!r}; it becomes the name of a file")
    options = Options(
        parts=int(parts),
        method=method,
        assignment=None if assignment is None else _as_given(assignment),
        balance=balance,
        balance_edges=balance_edges,
        passes=int(passes),
        rng_seed=int(rng_seed),
        memory=budget,
        tmp=tmp,
        overwrite=overwrite,
        check_disk=check_disk,
        progress=progress,
    )
    if method not in METHODS:
        raise ValueError(f"method={method!r}: choose 'auto' or one of {', '.join(METHODS)}")
    writer = _Writer(whole, g.ntypes, g.canonical_etypes, name, method, graph_formats)
    report = make_parts(whole, out, options, writer, _metis)
    return Partition(os.path.join(os.path.abspath(out), report.config), report)


def _as_given(assignment: Any) -> Mapping[str | None, Any]:
    def one(value: Any) -> Any:
        return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value

    if isinstance(assignment, Mapping):
        return {t: one(v) for t, v in assignment.items()}
    return {None: one(assignment)}


# ---- METIS ----


def _metis_bytes(whole: Whole) -> int:
    return _METIS_BYTES * whole.num_edges + 64 * whole.num_nodes


def _metis(whole: Whole, parts: int, classes: Any, balance_edges: bool) -> Any:
    """DGL's own call of METIS, on the store's graph in memory."""
    if parts == 1:
        return np.zeros(whole.num_nodes, np.uint16)
    src, dst = (np.empty(whole.num_edges, np.int64) for _ in range(2))
    at = 0
    for e, edge_type in enumerate(whole.etypes):
        s, d = (int(whole.offsets[t]) for t in whole.ends(e))
        for block in blocks(whole.store.graph(edge_type), 1 << 22):
            end = at + len(block.src)
            src[at:end], dst[at:end] = block.src + s, block.dst + d
            at = end
    g = _homogeneous(src, dst, whole.num_nodes)
    weights = None if classes is None else torch.from_numpy(classes.astype(np.int64))
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its timings
        found = dgl.metis_partition_assignment(g, parts, weights, balance_edges)
    if found is None:
        raise ValueError(
            f"METIS could not make {parts} parts of {whole.num_nodes} nodes; use method='fennel'"
        )
    return found.numpy()


def _homogeneous(src: Any, dst: Any, num_nodes: int) -> Any:
    unit = heterograph_index.create_unitgraph_from_coo(
        1, num_nodes, num_nodes, torch.from_numpy(src), torch.from_numpy(dst), ["coo", "csr", "csc"]
    )
    return DGLGraph(unit, ["_N"], ["_E"])


# ---- what DGL reads ----


class _Writer:
    """Args:
    ntypes, etypes: as DGL calls the types, in its order.
    """

    def __init__(
        self, whole: Whole, ntypes: list[str], etypes: list[Any], graph_name: str, method: str, formats: Any
    ):
        self._whole, self._ntypes, self._etypes = whole, ntypes, [tuple(t) for t in etypes]
        self._graph_name, self._method, self._formats = graph_name, method, formats
        self._typed = not (len(ntypes) == 1 and len(etypes) == 1)
        _check_names(whole, ntypes, self._etypes)

    @property
    def name(self) -> str:
        return f"dgl {dgl.__version__} {self._graph_name} {self._formats}"

    def write(self, part: Part, folder: Path) -> dict[str, Any]:
        halo = self._graph(part, folder / "graph.dgl")
        rows = self._rows(
            (f"{t}/{name}", r) for i, t in enumerate(self._ntypes) for name, r in part.node_rows(i)
        )
        _save(rows, folder / "node_feat.dgl")
        del rows
        rows = self._rows(
            (f"{':'.join(t)}/{name}", r) for i, t in enumerate(self._etypes) for name, r in part.edge_rows(i)
        )
        _save(rows, folder / "edge_feat.dgl")
        return {"halo": halo}

    def _graph(self, part: Part, path: Path) -> int:
        made = part.graph(self._typed)
        g = _homogeneous(made.src, made.dst, len(made.nid))
        size = made.src.nbytes + made.dst.nbytes + made.eid.nbytes + made.nid.nbytes
        g.ndata[NID], g.edata[EID] = torch.from_numpy(made.nid), torch.from_numpy(made.eid)
        g.ndata["part_id"] = torch.from_numpy(made.part_id)
        g.ndata["inner_node"] = _flags(len(made.nid), made.own_nodes)
        g.edata["inner_edge"] = _flags(len(made.eid), made.own_edges)
        if made.node_types is not None and made.edge_types is not None:
            g.ndata[dgl.NTYPE] = torch.from_numpy(made.node_types)
            g.edata[dgl.ETYPE] = torch.from_numpy(made.edge_types)
        halo = len(made.nid) - made.own_nodes
        del made
        formats = [self._formats] if isinstance(self._formats, str) else self._formats
        with _room(path, size if not formats or "coo" in formats else 0):
            # Its dtypes and its sorting by edge type are what servers rely on.
            dgl.distributed.partition._save_graphs(
                str(path), [g], formats=formats, sort_etypes=len(self._etypes) > 1
            )
        return halo

    def _rows(self, found: Iterator[tuple[str, Rows]]) -> dict[str, torch.Tensor]:
        return {name: _tensor(rows) for name, rows in found}

    def finish(self, numbers: Numbers, told: list[dict[str, Any]], root: Path) -> str:
        parts = range(len(told))
        names = [":".join(t) for t in self._etypes]
        config: dict[str, Any] = {
            "graph_name": self._graph_name,
            "num_nodes": self._whole.num_nodes,
            "num_edges": self._whole.num_edges,
            "part_method": self._method,
            "num_parts": len(told),
            "halo_hops": 1,
            "node_map": {
                t: [list(numbers.node_range(p, i)) for p in parts] for i, t in enumerate(self._ntypes)
            },
            "edge_map": {t: [list(numbers.edge_range(p, i)) for p in parts] for i, t in enumerate(names)},
            "ntypes": {t: i for i, t in enumerate(self._ntypes)},
            "etypes": {t: i for i, t in enumerate(names)},
        }
        for p in parts:
            files = {"node_feats": "node_feat.dgl", "edge_feats": "edge_feat.dgl", "part_graph": "graph.dgl"}
            config[f"part-{p}"] = {k: f"part{p}/{f}" for k, f in files.items()}
        name = f"{self._graph_name}.json"
        with open(root / name, "w", encoding="utf-8") as f:
            json.dump(config, f, indent=4)
            f.flush()
            os.fsync(f.fileno())
        return name


def _check_names(whole: Whole, ntypes: list[str], etypes: list[Any]) -> None:
    """DGL puts names together with these signs, and takes them apart by them."""
    columns = {c for t in whole.ntypes for c in whole.store.node_columns(t)}
    columns |= {c for t in whole.etypes for c in whole.store.edge_columns(t)}
    for what, names in (("type", {*ntypes, *(n for t in etypes for n in t)}), ("column", columns)):
        for name in sorted(names):
            if found := re.search(r"[/:~]", name):
                raise ValueError(
                    f"{whole.store.path}: the {what} {name!r} has a {found[0]!r} in its name, which DGL's "
                    "distributed graphs cannot hold; rename it"
                )


def _flags(total: int, own: int) -> torch.Tensor:
    out = torch.zeros(total, dtype=torch.uint8)
    out[:own] = 1
    return out


def _tensor(rows: Rows) -> torch.Tensor:
    tensor = from_numpy(rows.values, rows.dtype)
    # DGL's files know no bfloat16.
    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor


def _save(rows: dict[str, torch.Tensor], path: Path) -> None:
    with _room(path, sum(r.numel() * r.element_size() for r in rows.values())):
        dgl.data.utils.save_tensors(str(path), rows)


@contextlib.contextmanager
def _room(path: Path, size: int) -> Iterator[None]:
    """What DGL says of a disk that is full, as an OSError; and where it says nothing, too: a file that is
    smaller than what it should hold."""
    why: Exception | None = None
    try:
        yield
    except DGLError as e:
        why = e
    s = os.statvfs(path.parent)
    free = s.f_bavail * s.f_frsize
    written = path.stat().st_size if path.exists() else 0
    if why is None and written >= size:
        return
    if why is not None and free > size:
        raise why
    raise OSError(
        errno.ENOSPC, f"about {amount(size)} do not fit on this disk, {amount(free)} are free", str(path)
    ) from why
