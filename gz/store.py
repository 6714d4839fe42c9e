"""Store: a directory of topologies and columns, described by store.json."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from gz import _engine, edit
from gz._base.arrays import Ids, as_ids, first_outside
from gz._base.deprecated import Names, overwrite_or
from gz._base.files import as_path
from gz._base.memory_plan import parse_cache
from gz.feature import FeatureStore
from gz.files import StoreFiles
from gz.graph import Graph
from gz.hetero import Columns, Fanouts, HeteroSample, HeteroSampler, Ready
from gz.id_map import IdMap
from gz.manifest import FILE_NAME, ColumnEntry, EdgeEntry, EdgeType, Manifest, NodeEntry


class Store:
    """A graph in files: ``gz.open(path, cache)`` opens one. Files are mapped when they are first asked for.

    Pickles by path, so that a worker process opens the files itself. An open store is one version: where
    another ingest has replaced it, files it has not opened yet are an OSError (ESTALE), and so is unpickling.
    """

    def __init__(
        self, path: str | os.PathLike[str], cache: str | int = "auto", *, _generation: str | None = None
    ):
        parse_cache(cache)  # a bad value is an error here, not at the first gather
        self._cache = cache
        self._path = as_path(path)
        if not os.path.isdir(self._path):
            what = "is a file, not a store" if os.path.exists(self._path) else "there is no such store"
            raise FileNotFoundError(f"{self._path}: {what}; `gz ingest {path} --edges ...` makes one")
        if not os.path.exists(os.path.join(self._path, FILE_NAME)):
            raise FileNotFoundError(f"{self._path}: not a gz store (it holds no {FILE_NAME})")
        self._files = StoreFiles(self._path, cache, _generation)
        self._ready: Ready = {}  # for samples

    @property
    def path(self) -> str:
        """The folder."""
        return self._path

    @property
    def manifest(self) -> Manifest:
        """What ``store.json`` says."""
        return self._files.manifest

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one node type, ``node``, and one edge type, without names."""
        return self.manifest.homogeneous

    @property
    def node_types(self) -> list[str]:
        """Their names."""
        return list(self.manifest.nodes)

    @property
    def edge_types(self) -> list[EdgeType]:
        """``(source type, name, destination type)`` of each."""
        return [e.type for e in self.manifest.edges]

    def num_nodes(self, t: str | None = None) -> int:
        """Nodes of type ``t``, or of all types."""
        if t is None:
            return sum(n.num_nodes for n in self.manifest.nodes.values())
        return self._node(t).num_nodes

    def num_edges(self, t: EdgeType | None = None) -> int:
        """Edges of type ``t``, or of all types."""
        if t is None:
            return sum(e.num_edges for e in self.manifest.edges)
        return self.manifest.edge(t).num_edges

    def node_columns(self, t: str | None = None) -> list[str]:
        """Names of the columns of a node type."""
        return list(self._node(t).columns)

    def categories(self, name: str, t: str | EdgeType | None = None) -> list[str] | None:
        """What the codes of a column stand for; None where its numbers are numbers."""
        return self.manifest.column(name, t).names

    def unit(self, name: str, t: str | EdgeType | None = None) -> str | None:
        """What the integers of a column of times count: ``timestamp[us]``, ``date32[day]``, ..."""
        return self.manifest.column(name, t).unit

    def edge_columns(self, t: EdgeType | None = None) -> list[str]:
        """Names of the columns of an edge type."""
        return list(self._edge(t).columns)

    def __repr__(self) -> str:
        nodes = ", ".join(f"{t}={n.num_nodes}" for t, n in self.manifest.nodes.items())
        edges = ", ".join(f"{'/'.join(e.type)}={e.num_edges}" for e in self.manifest.edges)
        return f"Store({self._path!r}, nodes: {nodes}; edges: {edges})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_again, (self._path, self._cache, self.manifest.generation)

    def graph(self, t: EdgeType | None = None, direction: str = "in") -> Graph:
        """The topology of edge type ``t`` (may be left out when there is one), grouped for ``direction``."""
        if direction not in ("in", "out"):
            raise ValueError(f"direction is {direction!r}; choose 'in' or 'out'")
        entry = self._edge(t)
        file = entry.in_file if direction == "in" else entry.out_file
        if file is None:
            raise ValueError(
                f"{self._path}: edge type {entry.type} is not stored in direction {direction!r}; ingest it "
                f"with directions='both' (gz ingest ... --directions both)"
            )
        in_graph = self.graph(entry.type) if direction == "out" and entry.in_file else None
        return self._files.graph(entry, direction, in_graph)

    def _ordering(self, t: EdgeType | None = None) -> Graph:
        """The topology whose order the edge columns have: ``in``, or ``out`` where only that is stored."""
        return self.graph(t, "in" if self._edge(t).in_file else "out")

    def feature(self, name: str, t: str | EdgeType | None = None) -> FeatureStore:
        """Column ``name`` of a node type or, when ``t`` is an edge type, of an edge type.

        ``t`` may be left out when there is one node type. Edge columns lie in the order of the topology.
        """
        if isinstance(t, tuple):
            return self.edge_feature(name, t)
        entry = self._node(t)
        where = "the nodes" if t is None else f"node type {t!r}"
        return self._column(name, entry.columns, entry.num_nodes, where, ("node", t or self.node_types[0]))

    def edge_feature(self, name: str, t: EdgeType | None = None) -> FeatureStore:
        """Column ``name`` of an edge type; its rows lie in the order of the topology."""
        entry = self._edge(t)
        return self._column(name, entry.columns, entry.num_edges, f"edge type {entry.type}", entry.type)

    def add_feature(
        self,
        name: str,
        value: Any,
        t: str | EdgeType | None = None,
        *,
        overwrite: bool = False,
        dtype: str | None = None,
        order: str = "original",
        adopt: bool = False,
        by: Any = None,
        memory: str | int = "2GB",
        tmp: str | os.PathLike[str] | None = None,
        replace: bool | None = None,
    ) -> FeatureStore:
        """Adds a column to the store, for all who open it from now on.

        Args:
            name: of the column.
            value: an array, a file or an iterator of chunks, as for ``gz.ingest``.
            t: a node type, which may be left out when there is one, or an edge type.
            overwrite: take the place of a column of that name. Who has the old one open keeps it.
            dtype: to store it as.
            order: of the rows of an edge column: ``"original"``, that of the edges given to the ingest
                (needs kept edge ids), or ``"stored"``, that of the topology.
            adopt: use an .npy where it lies instead of copying it.
            by: the node or edge that each row belongs to, where rows come in another order: an array of ids,
                an .npy, or a folder that ``gz partition`` made, for rows in the order of DGL's new ids.
            memory, tmp: what it may take, and a folder for temporary files.
            replace: the old name of ``overwrite``.
        """
        return edit.add_feature(
            self,
            name,
            value,
            t,
            overwrite=overwrite_or(replace, overwrite),
            dtype=dtype,
            order=order,
            adopt=adopt,
            by=by,
            memory=memory,
            tmp=tmp,
        )

    def remove_feature(self, name: str, t: str | EdgeType | None = None) -> None:
        """Removes a column from the store and the disk. Who has it open keeps it; an adopted .npy stays."""
        edit.remove_feature(self, name, t)

    def new_column(
        self,
        name: str,
        row_shape: int | Sequence[int] = (),
        dtype: Any = "float32",
        t: str | EdgeType | None = None,
        *,
        overwrite: bool = False,
        replace: bool | None = None,
    ) -> edit.OutputColumn:
        """A column to fill in place, from any number of threads and processes, and then to publish.

        >>> with store.new_column("emb", 128) as column:
        ...     for batch in loader:
        ...         column.array[batch.n_id] = model(batch)

        ``array`` is ``[nodes, *row_shape]``, zeros at first, on the disk and not in memory. Rows of an edge
        column are in the order of the topology (``edge_rows`` of a sample). ``t``, ``dtype``, ``replace``: as
        in ``add_feature``. The end of the block makes it a column of the store, in the place of one of that
        name with ``overwrite``; an exception, or the death of the process, leaves the store as it was.
        """
        return edit.new_column(self, name, row_shape, dtype, t, overwrite=overwrite_or(replace, overwrite))

    def splits(self, t: str | None = None) -> list[str]:
        """Names of the splits of a node type (``"train"``, ...)."""
        return list(self._node(t).splits)

    def split(self, name: str, t: str | None = None) -> Ids:
        """The node ids of a split (``"train"``, ...), over the mapped file where they are int64."""
        entry = self._node(t)
        key = ("split", t or self.node_types[0])
        column = self._column(name, entry.splits, None, f"the splits of {t or 'the nodes'}", key)
        ids = column.get_tensor()
        if ids.dtype.kind not in "iu" or ids.ndim != 1:
            raise _engine.FormatError(
                f"{column.path}: a split is a list of node ids, not {column.dtype} of shape {column.shape}"
            )
        return as_ids(ids, f"split {name!r}")

    @property
    def edge_splits(self) -> Names:
        """``edge_splits()``: the splits of a link-prediction dataset (``"train"``, ...), if any."""
        return Names(self.manifest.edge_splits, "Store.edge_splits")

    def edge_split(self, name: str) -> dict[str, Any]:
        """The arrays of an edge split by the dataset's names: ``edge``, ``edge_neg``, ``source_node``, ...

        Each lies over its mapped file. A column of names (``head_type``) comes as a list of names.
        """
        out: dict[str, Any] = {}
        for key, (rows, names) in self._edge_split_columns(name).items():
            if names is not None and (rows.dtype.kind not in "iu" or rows.ndim != 1):
                raise _engine.FormatError(
                    f"{self._path}: edge split {name!r}: {key!r} is {rows.dtype} of shape {rows.shape}, not "
                    "a list of positions among its names"
                )
            if names is not None and (i := first_outside(rows, len(names))) is not None:
                raise _engine.FormatError(
                    f"{self._path}: edge split {name!r}: {key!r}: row {i} is {rows[i]}, but there are "
                    f"{len(names)} names"
                )
            out[key] = rows if names is None else [names[i] for i in rows.tolist()]
        return out

    def _edge_split_columns(self, name: str) -> dict[str, tuple[Any, list[str] | None]]:
        """As `edge_split`, but each array with the names its numbers stand for (None: they are numbers)."""
        splits = self.manifest.edge_splits
        if name not in splits:
            raise KeyError(f"{self._path}: no edge split {name!r}; there are {sorted(splits)}")
        out: dict[str, tuple[Any, list[str] | None]] = {}
        for key, entry in splits[name].items():
            out[key] = self.edge_split_column(name, key).get_tensor(), entry.names
        return out

    def edge_split_column(self, name: str, key: str) -> FeatureStore:
        """The array ``key`` of an edge split, as it is stored: a column of names as numbers."""
        columns = self.manifest.edge_splits[name]
        return self._column(key, columns, None, f"edge split {name!r}", ("edge split", name))

    def id_map(self, t: str | None = None) -> IdMap:
        """Translates original ids to dense ones and back; for stores ingested with ``ids="map"``."""
        entry = self._node(t)
        if entry.id_map is None:
            raise KeyError(f"{self._path}: node ids are dense; the store was not ingested with ids='map'")
        return self._files.id_map(t or self.node_types[0], entry)

    def sample(
        self,
        seeds: Mapping[str, ArrayLike],
        fanouts: Fanouts,
        replace: bool = False,
        rng_seed: int = 0,
        disjoint: bool = False,
        direction: str = "in",
        weights: Columns = None,
        node_time: Columns = None,
        edge_time: Columns = None,
        seed_time: Mapping[str, ArrayLike] | None = None,
        last: bool = False,
    ) -> HeteroSample:
        """Samples over several edge types, as ``Graph.sample`` does over one.

        Args:
            seeds: global ids by node type.
            fanouts: neighbours per node, one entry per hop from the seeds outward; for all edge types, or by
                edge type (types that are not named are left out). -1 takes all.
            replace, rng_seed, disjoint: as for ``Graph.sample``.
            direction: which way edges are followed.
            weights: the edge column to sample by; one name for all edge types that have it, or by edge type a
                name or an array with a weight for each edge in the order of the topology.
            node_time, edge_time: times as columns or arrays likewise, by node type or by edge type: a seed
                sees no node or edge later than itself. Samples by time are disjoint.
            seed_time: of the seeds, by node type; by default their own ``node_time``.
            last: take the latest neighbours instead of any.
        """
        options = {"replace": replace, "rng_seed": rng_seed, "disjoint": disjoint, "last": last}
        columns = {"weights": weights, "node_time": node_time, "edge_time": edge_time}
        return HeteroSampler(self, self._ready).sample(seeds, fanouts, direction, columns, seed_time, options)

    def stats(self) -> dict[str, dict[str, Any]]:
        """``stats()`` of every topology and column opened so far, by file."""
        return {os.path.relpath(f.path, self._path): f.stats() for f in self._files.opened()}

    def memory_plan(self) -> dict[str, str]:
        """What each file is given of the memory that is free now, by file."""
        shares = self._files.shares().items()
        return {os.path.relpath(os.path.join(self._path, key), self._path): str(s) for key, s in shares}

    def check_current(self) -> None:
        """Raises OSError (ESTALE) where another store has taken this one's place since it was opened."""
        self._files.check_current()

    # ---- inside ----

    def _node(self, t: str | None) -> NodeEntry:
        nodes = self.manifest.nodes
        if t is None:
            if len(nodes) != 1:
                raise ValueError(f"{self._path}: name one of the node types {self.node_types}")
            return next(iter(nodes.values()))
        if t not in nodes:
            raise KeyError(f"no node type {t!r}; the store has {self.node_types}")
        return nodes[t]

    def _edge(self, t: EdgeType | None) -> EdgeEntry:
        if t is None:
            if len(self.manifest.edges) != 1:
                raise ValueError(f"{self._path}: name one of the edge types {self.edge_types}")
            return self.manifest.edges[0]
        return self.manifest.edge(t)

    def _column(
        self, name: str, columns: Mapping[str, ColumnEntry], rows: int | None, where: str, key: Any
    ) -> FeatureStore:
        if name not in columns:
            raise KeyError(f"no column {name!r} for {where}; there are {sorted(columns)}")
        try:
            return self._files.column(("column", key, name), columns[name], rows)
        except FileNotFoundError:
            if not self._files.refresh() or key[0] in ("split", "edge split"):
                raise
        return self.feature(name, key if len(key) == 3 else key[1])  # it was replaced or removed

    def _reload(self, name: str | None, t: Any) -> None:
        """After a change of column `name` of type `t`, or (None) of what belongs to its topology."""
        self._ready.clear()
        of = t if isinstance(t, tuple) else ("node", t)
        self._files.forget(("column", of, name) if name is not None else ("graph", t, "in"))


def _open_again(path: str, cache: str | int, generation: str | None) -> Store:
    return Store(path, cache, _generation=generation)


def open_store(path: str | os.PathLike[str], cache: str | int = "auto") -> Store:
    """Opens a store, at any size, at once: only ``store.json`` is read.

    Args:
        path: the directory that ``gz.ingest`` wrote.
        cache: the most memory for the rows of columns that do not fit into it: bytes, or text such as
            ``"4GB"``; 0 for none; ``"auto"`` for what topology, small columns and the training script leave,
            of the container if there is one. It grows while the script leaves room and is given back when
            the script needs it.
    """
    return Store(path, cache)


def add(
    path: str | os.PathLike[str] | Store,
    features: Mapping[str, Any],
    t: str | EdgeType | None = None,
    *,
    overwrite: bool = False,
    dtype: str | None = None,
    order: str = "original",
    adopt: bool = False,
    by: Any = None,
    memory: str | int = "2GB",
    tmp: str | os.PathLike[str] | None = None,
    replace: bool | None = None,
) -> Store:
    """Adds ``features`` to the store at ``path``, which it returns: ``gz.add("papers", {"emb": "emb.npy"})``.

    ``t``, ``overwrite``, ``dtype``, ``order``, ``adopt``, ``by``, ``memory``, ``tmp`` and ``replace``: as in
    ``Store.add_feature``.
    """
    overwrite = overwrite_or(replace, overwrite)
    options: dict[str, Any] = {"dtype": dtype, "order": order, "adopt": adopt, "by": by, "memory": memory}
    store = path if isinstance(path, Store) else open_store(path)
    for name, value in features.items():
        edit.add_feature(store, name, value, t, overwrite=overwrite, tmp=tmp, **options)
    return store
