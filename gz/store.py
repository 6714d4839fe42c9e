"""Store: a directory of topologies and columns, described by store.json."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from gz import _engine
from gz import manifest as _manifest_file
from gz._arrays import Ids, as_ids
from gz._plan import Part, Share, divide, parse_cache
from gz.feature import FeatureStore
from gz.graph import _SEED_MASK, Graph
from gz.manifest import ColumnEntry, EdgeEntry, EdgeType, Manifest, NodeEntry

if TYPE_CHECKING:
    from gz.edit import OutputColumn

Fanouts = Sequence[int] | Mapping[EdgeType, Sequence[int]]


@dataclass(slots=True)
class HeteroSample:
    """A sampled neighbourhood of several types: as ``Sample``, with a dict by type in every field."""

    nodes: dict[str, Ids]
    src: dict[EdgeType, Ids]
    dst: dict[EdgeType, Ids]
    edge_ids: dict[EdgeType, Ids]
    nodes_per_hop: dict[str, list[int]]
    edges_per_hop: dict[EdgeType, list[int]]
    batch: dict[str, Ids] | None
    edge_rows: dict[EdgeType, Ids]


class Store:
    """A graph in files. Open it with ``gz.open``; files are mapped when they are first asked for.

    Pickles by path, so that a worker process opens the files itself.
    """

    def __init__(self, path: str | os.PathLike[str], cache: str | int = "auto"):
        parse_cache(cache)  # a bad value is an error here, not at the first gather
        self._cache = cache
        self._shares: dict[Any, Share] | None = None
        self._path = os.path.abspath(path)
        if not os.path.isdir(self._path):
            what = "is a file, not a store" if os.path.exists(self._path) else "there is no such store"
            raise FileNotFoundError(f"{self._path}: {what}; `gz ingest {path} --edges ...` makes one")
        if not os.path.exists(os.path.join(self._path, _manifest_file.FILE_NAME)):
            raise FileNotFoundError(f"{self._path}: not a gz store (it holds no {_manifest_file.FILE_NAME})")
        self._manifest = _manifest_file.read(self._path)
        self._open: dict[Any, Any] = {}

    @property
    def path(self) -> str:
        return self._path

    @property
    def manifest(self) -> Manifest:
        return self._manifest

    @property
    def is_homogeneous(self) -> bool:
        return self._manifest.homogeneous

    @property
    def node_types(self) -> list[str]:
        return list(self._manifest.nodes)

    @property
    def edge_types(self) -> list[EdgeType]:
        return [e.type for e in self._manifest.edges]

    def num_nodes(self, t: str | None = None) -> int:
        """Nodes of type ``t``, or of all types."""
        if t is None:
            return sum(n.num_nodes for n in self._manifest.nodes.values())
        return self._node(t).num_nodes

    def num_edges(self, t: EdgeType | None = None) -> int:
        """Edges of type ``t``, or of all types."""
        if t is None:
            return sum(e.num_edges for e in self._manifest.edges)
        return self._manifest.edge(t).num_edges

    def node_columns(self, t: str | None = None) -> list[str]:
        return list(self._node(t).columns)

    def edge_columns(self, t: EdgeType | None = None) -> list[str]:
        return list(self._edge(t).columns)

    def __repr__(self) -> str:
        nodes = ", ".join(f"{t}={n.num_nodes}" for t, n in self._manifest.nodes.items())
        edges = ", ".join(f"{'/'.join(e.type)}={e.num_edges}" for e in self._manifest.edges)
        return f"Store({self._path!r}, nodes: {nodes}; edges: {edges})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self._path, self._cache)

    def graph(self, t: EdgeType | None = None, direction: str = "in") -> Graph:
        """The topology of edge type ``t`` (may be left out when there is one), grouped for ``direction``."""
        if direction not in ("in", "out"):
            raise ValueError(f"direction is {direction!r}; choose 'in' or 'out'")
        entry = self._edge(t)
        file = entry.in_file if direction == "in" else entry.out_file
        if file is None:
            raise ValueError(
                f"{self._path}: edge type {entry.type} is not stored in direction {direction!r}; "
                f"ingest it with directions='both' (--directions both)"
            )
        in_graph = self.graph(entry.type) if direction == "out" and entry.in_file else None
        return self._once(
            ("graph", entry.type, direction), lambda: self._checked_graph(entry, file, in_graph)
        )

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
        entry = self._edge(t)
        return self._column(name, entry.columns, entry.num_edges, f"edge type {entry.type}", entry.type)

    def add_feature(
        self, name: str, value: Any, t: str | EdgeType | None = None, **options: Any
    ) -> FeatureStore:
        """Adds a column to the store, for all who open it from now on.

        Args:
            name: of the column.
            value: an array, a file or an iterator of chunks, as for ``gz.ingest``.
            t: a node type, which may be left out when there is one, or an edge type.
            replace: take the place of a column of that name. Who has the old one open keeps it.
            dtype: to store it as.
            order: of the rows of an edge column: ``"original"``, that of the edges given to the ingest
                (needs kept edge ids), or ``"stored"``, that of the topology.
            adopt: use an .npy where it lies instead of copying it.
            memory: what it may take.
        """
        from gz.edit import add_feature

        return add_feature(self, name, value, t, **options)

    def remove_feature(self, name: str, t: str | EdgeType | None = None) -> None:
        """Removes a column from the store and the disk. Who has it open keeps it; an adopted .npy stays."""
        from gz.edit import remove_feature

        remove_feature(self, name, t)

    def new_column(
        self,
        name: str,
        row_shape: int | Sequence[int] = (),
        dtype: Any = "float32",
        t: str | EdgeType | None = None,
        *,
        replace: bool = False,
    ) -> OutputColumn:
        """A column to fill in place, from any number of threads and processes, and then to publish.

        >>> with store.new_column("emb", 128) as column:
        ...     for batch in loader:
        ...         column.array[batch.n_id] = model(batch)

        ``array`` is ``[nodes, *row_shape]``, zeros at first, on the disk and not in memory. Rows of an edge
        column are in the order of the topology (``edge_rows`` of a sample). The end of the block makes it a
        column of the store; an exception, or the death of the process, leaves the store as it was.
        """
        from gz.edit import new_column

        return new_column(self, name, row_shape, dtype, t, replace=replace)

    def splits(self, t: str | None = None) -> list[str]:
        return list(self._node(t).splits)

    def split(self, name: str, t: str | None = None) -> Ids:
        """The node ids of a split (``"train"``, ...), over the mapped file where they are int64."""
        entry = self._node(t)
        key = ("split", t or self.node_types[0])
        column = self._column(name, entry.splits, None, f"the splits of {t or 'the nodes'}", key)
        return as_ids(column.get_tensor(), f"split {name!r}")

    @property
    def edge_splits(self) -> list[str]:
        """Names of the splits of a link-prediction dataset (``"train"``, ``"valid"``, ``"test"``), if any."""
        return list(self._manifest.edge_splits)

    def edge_split(self, name: str) -> dict[str, Any]:
        """The arrays of an edge split by the dataset's names: ``edge``, ``edge_neg``, ``source_node``, ...

        Each lies over its mapped file. A column of names (``head_type``) comes as a list of names.
        """
        columns = self._edge_split_columns(name).items()
        return {
            k: rows if names is None else [names[i] for i in rows.tolist()] for k, (rows, names) in columns
        }

    def _edge_split_columns(self, name: str) -> dict[str, tuple[Any, list[str] | None]]:
        """As `edge_split`, but each array with the names its numbers stand for (None: they are numbers)."""
        splits = self._manifest.edge_splits
        if name not in splits:
            raise KeyError(f"{self._path}: no edge split {name!r}; there are {sorted(splits)}")
        out: dict[str, tuple[Any, list[str] | None]] = {}
        for key, entry in splits[name].items():
            column = self._column(key, splits[name], None, f"edge split {name!r}", ("edge split", name))
            out[key] = column.get_tensor(), entry.names
        return out

    def id_map(self, t: str | None = None) -> Any:
        """Translates original ids to dense ones and back; for stores ingested with ``ids="map"``."""
        entry = self._node(t)
        if entry.id_map is None:
            raise KeyError(f"{self._path}: node ids are dense; the store was not ingested with ids='map'")
        from gz.id_map import IdMap

        spec = entry.id_map
        return self._once(("id_map", t or self.node_types[0]), lambda: IdMap(self._path, spec))

    def sample(
        self,
        seeds: Mapping[str, ArrayLike],
        fanouts: Fanouts,
        replace: bool = False,
        rng_seed: int = 0,
        disjoint: bool = False,
        direction: str = "in",
    ) -> HeteroSample:
        """Samples over several edge types: ``seeds`` by node type, ``fanouts`` for all or by edge type."""
        types = self.node_types
        by_edge = fanouts if isinstance(fanouts, Mapping) else dict.fromkeys(self.edge_types, fanouts)
        for edge_type in by_edge:
            self._edge(edge_type)
        graphs = {t: self.graph(t, direction) for t in self.edge_types if t in by_edge}
        order = list(graphs)
        edge_args = []
        for t, graph in graphs.items():
            frontier, neighbour = (t[2], t[0]) if direction == "in" else (t[0], t[2])
            ends = types.index(frontier), types.index(neighbour)
            args = (
                graph._topology,
                *ends,
                [int(k) for k in by_edge[t]],
                graph._ids_topology,
                None,
                None,
                None,
            )
            edge_args.append(args)
        for node_type in seeds:
            self._node(node_type)
        seed_args = [(types.index(t), as_ids(s, f"seeds of {t!r}"), None) for t, s in seeds.items()]
        nodes, edges = _engine.sample(
            [self.num_nodes(t) for t in types],
            edge_args,
            seed_args,
            replace=replace,
            disjoint=disjoint,
            rng_seed=rng_seed & _SEED_MASK,
        )
        near, far = (1, 0) if direction == "out" else (0, 1)
        return HeteroSample(
            nodes={t: n[0] for t, n in zip(types, nodes, strict=True)},
            src={t: e[near] for t, e in zip(order, edges, strict=True)},
            dst={t: e[far] for t, e in zip(order, edges, strict=True)},
            edge_ids={t: e[2] if e[3] is None else e[3] for t, e in zip(order, edges, strict=True)},
            nodes_per_hop={t: n[2] for t, n in zip(types, nodes, strict=True)},
            edges_per_hop={t: e[4] for t, e in zip(order, edges, strict=True)},
            batch={t: n[1] for t, n in zip(types, nodes, strict=True)} if disjoint else None,
            edge_rows={t: e[2] for t, e in zip(order, edges, strict=True)},
        )

    def stats(self) -> dict[str, dict[str, Any]]:
        """``stats()`` of every topology and column opened so far, by file."""
        files = [f for f in self._open.values() if isinstance(f, Graph | FeatureStore)]
        return {os.path.relpath(f.path, self._path): f.stats() for f in files}

    def memory_plan(self) -> dict[str, str]:
        """What each file is given of the memory that is free now, by file."""
        shares = divide(self._parts(), parse_cache(self._cache))
        return {os.path.relpath(key, self._path): str(share) for key, share in shares.items()}

    # ---- inside ----

    def _parts(self) -> list[Part]:
        """The files that compete for memory. One that is missing is an error when it is opened, not here."""
        parts = []
        for e in self._manifest.edges:
            for file in filter(None, (e.in_file, e.out_file)):
                path = os.path.join(self._path, file)
                parts.append(Part(path, _size(path)))
        groups = [(n.columns, n.num_nodes) for n in self._manifest.nodes.values()]
        groups += [(e.columns, e.num_edges) for e in self._manifest.edges]
        for columns, rows in groups:
            for c in columns.values():
                path = str(c.path(self._path))
                parts.append(Part(path, _size(path), max(1, _size(path) // max(1, rows))))
        return parts

    def _share_of(self, key: str) -> Share | None:
        if self._shares is None:
            self._shares = divide(self._parts(), parse_cache(self._cache))
        return self._shares.get(key)

    def _node(self, t: str | None) -> NodeEntry:
        nodes = self._manifest.nodes
        if t is None:
            if len(nodes) != 1:
                raise ValueError(f"{self._path}: name one of the node types {self.node_types}")
            return next(iter(nodes.values()))
        if t not in nodes:
            raise KeyError(f"no node type {t!r}; the store has {self.node_types}")
        return nodes[t]

    def _edge(self, t: EdgeType | None) -> EdgeEntry:
        if t is None:
            if len(self._manifest.edges) != 1:
                raise ValueError(f"{self._path}: name one of the edge types {self.edge_types}")
            return self._manifest.edges[0]
        return self._manifest.edge(t)

    def _once(self, key: Any, make: Any) -> Any:
        if key not in self._open:
            self._open[key] = make()
        return self._open[key]

    def _checked_graph(self, entry: EdgeEntry, file: str, in_graph: Graph | None) -> Graph:
        path = os.path.join(self._path, file)
        graph = Graph(path, _in_graph=in_graph, _share=self._share_of(path))
        expected = (self.num_nodes(entry.type[0]), self.num_nodes(entry.type[2]), entry.num_edges)
        found = (graph.num_src, graph.num_dst, graph.num_edges)
        if found != expected:
            raise _engine.FormatError(
                f"{graph.path}: has (sources, destinations, edges) {found}, but store.json says {expected}"
            )
        return graph

    def _column(
        self, name: str, columns: Mapping[str, ColumnEntry], rows: int | None, where: str, key: Any
    ) -> FeatureStore:
        if name not in columns:
            raise KeyError(f"no column {name!r} for {where}; there are {sorted(columns)}")
        try:
            return self._once(("column", key, name), lambda: self._checked_column(columns[name], rows))
        except FileNotFoundError:
            now = _manifest_file.read(self._path)
            if now == self._manifest or key[0] == "split":
                raise
            self._manifest = now  # the column was replaced or removed after this store was opened
        return self.feature(name, key if len(key) == 3 else key[1])

    def _reload(self, name: str, t: Any) -> None:
        """After a change of column `name` of type `t`."""
        self._manifest = _manifest_file.read(self._path)
        self._open.pop(("column", t if isinstance(t, tuple) else ("node", t), name), None)

    def _checked_column(self, entry: ColumnEntry, rows: int | None) -> FeatureStore:
        path = entry.path(self._path)
        column = FeatureStore(path, self._cache, _share=self._share_of(str(path)))
        if rows is not None and len(column) != rows:
            raise _engine.FormatError(f"{column.path}: has {len(column)} rows, but store.json says {rows}")
        return column


def open_store(path: str | os.PathLike[str], cache: str | int = "auto") -> Store:
    """Opens a store, at any size, at once: only ``store.json`` is read.

    Args:
        path: the directory that ``gz.ingest`` wrote.
        cache: memory for the rows of columns that do not fit into it: bytes, or text such as ``"4GB"``; 0 for
            none; ``"auto"`` for what topology, small columns and the training script leave of the memory that
            is free (in the container, if there is one) when the first file is opened.
    """
    return Store(path, cache)


def _size(path: str | os.PathLike[str]) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
