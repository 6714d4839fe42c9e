"""What `gz_pyg.load` returns: a (FeatureStore, GraphStore) pair that reads like a Data or HeteroData."""

from __future__ import annotations

import base64
import io
import os
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

import gz
from gz._ram import check_fits
from gz_pyg.feature_store import FeatureStore
from gz_pyg.graph_store import GraphStore
from gz_pyg.views import MASKS, EdgeView, NodeView

META = "pyg"  # store.json's meta entry with what is neither a node's nor an edge's


class StoreData(tuple):  # type: ignore[type-arg]
    """A store as PyG sees it: a pair for the loaders, attributes for the script.

    Nothing is read before it is asked for: ``x`` is a tensor over the mapped file. Pickles by path.
    """

    feature_store: FeatureStore
    graph_store: GraphStore

    def __new__(cls, feature_store: FeatureStore, graph_store: GraphStore) -> StoreData:
        self = super().__new__(cls, (feature_store, graph_store))
        self.feature_store, self.graph_store = feature_store, graph_store
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return StoreData, (self.feature_store, self.graph_store)

    @property
    def store(self) -> gz.Store:
        return self.feature_store.store

    def _key(self, t: Any) -> Any:
        """A type as PyG names it: None where there is only one."""
        return None if self.store.is_homogeneous else t

    # ---- counts and types ----

    @property
    def is_hetero(self) -> bool:
        return not self.store.is_homogeneous

    @property
    def node_types(self) -> list[str]:
        return self.store.node_types

    @property
    def edge_types(self) -> list[tuple[str, str, str]]:
        return self.store.edge_types

    @property
    def _types(self) -> list[Any]:
        return [*self.node_types, *self.edge_types]

    def metadata(self) -> tuple[list[str], list[tuple[str, str, str]]]:
        return self.node_types, self.edge_types

    @property
    def num_nodes(self) -> int:
        return self.store.num_nodes()

    @property
    def num_edges(self) -> int:
        return self.store.num_edges()

    @property
    def num_node_types(self) -> int:
        return len(self.node_types)

    @property
    def num_edge_types(self) -> int:
        return len(self.edge_types)

    @property
    def num_nodes_dict(self) -> dict[str, int]:
        return {t: self.store.num_nodes(t) for t in self.node_types}

    @property
    def num_node_features(self) -> Any:
        if self.is_hetero:
            return {t: self[t].num_features for t in self.node_types}
        return self._only_node.num_features

    num_features = num_node_features

    @property
    def num_edge_features(self) -> Any:
        if self.is_hetero:
            return {t: self[t].num_edge_features for t in self.edge_types}
        return self[self.edge_types[0]].num_edge_features

    @property
    def num_classes(self) -> int:
        """One more than the largest label. Reads ``y``."""
        if not self.is_hetero:
            return self._only_node.num_classes
        found = [self[t].num_classes for t in self.node_types if "y" in self[t]]
        if len(found) != 1:
            raise AttributeError(f"{len(found)} node types have labels; ask data[node_type].num_classes")
        return found[0]

    # ---- contents ----

    @property
    def _only_node(self) -> NodeView:
        return NodeView(self, self.node_types[0])

    def _extras(self) -> dict[str, Any]:
        if "_extra" not in self.__dict__:
            text = self.store.manifest.meta.get(META)
            self._extra = decode_extras(text) if text else {}
        return self._extra

    def _counts_nodes(self, t: str) -> bool:
        """Whether the graph that was saved had ``num_nodes`` among its attributes."""
        return ((t, "num_nodes") if self.is_hetero else "num_nodes") in self._extras()

    def keys(self) -> list[str]:
        """Names of what the store holds."""
        names: dict[str, None] = {}
        for t in self._types:
            names |= dict.fromkeys(self[t].keys())
        return [*names, *(k for k in self._extras() if isinstance(k, str))]

    def __contains__(self, name: object) -> bool:
        return name in self.keys() or (isinstance(name, str) and name in MASKS and self._has_split(name))

    def _has_split(self, mask: str) -> bool:
        return not self.is_hetero and self._only_node._split_of(mask) is not None

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, slice)):
            return super().__getitem__(key)
        if isinstance(key, tuple):
            return EdgeView(self, self._edge_type(key))
        if key in self.node_types and (self.is_hetero or key not in self._only_node):
            return NodeView(self, key)
        try:
            return getattr(self, key)
        except AttributeError as e:
            raise KeyError(str(e)) from None

    def _edge_type(self, key: tuple[str, ...]) -> tuple[str, str, str]:
        if len(key) == 3:
            fits = [t for t in self.edge_types if t == key]
        else:
            fits = [t for t in self.edge_types if (t[0], t[2]) == key or key == (t[1],)]
        if len(fits) != 1:
            raise KeyError(f"{key} names {len(fits)} edge types; there are {self.edge_types}")
        return fits[0]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._extras():
            return self._extras()[name]
        if not self.is_hetero:
            for view in (self._only_node, EdgeView(self, self.edge_types[0])):
                if name in view or name == "edge_index":
                    return (
                        getattr(view, name) if name != "edge_index" else self[self.edge_types[0]].edge_index
                    )
            return getattr(self._only_node, name)
        if name.endswith("_dict"):
            found = {t: getattr(self[t], name[:-5]) for t in self._types if name[:-5] in self[t]}
            if name == "edge_index_dict":
                found = {t: self[t].edge_index for t in self.edge_types}
            if found:
                return found
        if name.startswith("to_") or name in ("coalesce", "subgraph"):
            raise AttributeError(
                f"a store is not changed in place; `gz ingest` offers what {name!r} would do, offline"
            )
        raise AttributeError(
            f"no {name!r}; the store has {self.keys()}, and data[node_type].{name} may exist"
        )

    def collect(self, name: str) -> dict[Any, Tensor]:
        return {t: getattr(self[t], name) for t in self._types if name in self[t]}

    def get_idx_split(self, node_type: str | None = None) -> dict[str, Any]:
        """Node ids by split, ``train``, ``valid`` and ``test`` as OGB names them; by node type if several."""
        if self.is_hetero and node_type is None:
            by_type = {t: self[t].get_idx_split() for t in self.node_types}
            names = dict.fromkeys(n for splits in by_type.values() for n in splits)
            return {n: {t: s[n] for t, s in by_type.items() if n in s} for n in names}
        return NodeView(self, node_type or self.node_types[0]).get_idx_split()

    def get_edge_split(self) -> dict[str, dict[str, Any]]:
        """Edges by split as OGB's link-prediction datasets give them.

        ``{"valid": {"edge": ..., "edge_neg": ...}}``, or whatever the dataset calls them. Tensors lie over
        the mapped files; a column of names (``head_type``) is a list.
        """
        if not self.store.edge_splits:
            raise AttributeError(
                f"{self.store.path}: the store has no edge splits; `gz ingest --ogb` keeps those of a "
                "link-prediction dataset, and PyG's RandomLinkSplit makes some"
            )
        return {
            name: {
                k: v if isinstance(v, list) else torch.from_numpy(v)
                for k, v in self.store.edge_split(name).items()
            }
            for name in self.store.edge_splits
        }

    def validate(self, raise_on_error: bool = True) -> bool:
        """Opens every file and checks that the counts agree. `gz verify` reads all of it."""
        try:
            for t in self.edge_types:
                self.store.graph(t)
            for t in self._types:
                for name in self.feature_store._names(t):
                    self.feature_store._column(t, name)
        except (ValueError, OSError):
            if raise_on_error:
                raise
            return False
        return True

    def to_data(self) -> Data | HeteroData:
        """All of it in memory, as an ordinary PyG object. The splits of a store become masks.

        Raises:
            MemoryError: it would not fit into the memory that is free.
        """
        edges = [self.store.num_edges(t) for t in self.edge_types]
        columns = [self.store.feature(n, t) for t in self._types for n in self.feature_store._names(t)]
        check_fits(
            sum(c.nbytes for c in columns)
            + 16 * sum(edges)
            + 4 * 8 * max(edges, default=0),  # while the edges of a type are put in order
            f"{self.store.path}: the whole graph",
            "use it where it lies, with gz_pyg's loaders",
        )
        if self.is_hetero:
            out: Any = HeteroData()
            for t in self.node_types:
                out[t].num_nodes = self.store.num_nodes(t)
        else:
            out = Data(num_nodes=self.num_nodes)
        for t in self._types:
            part = out[t] if self.is_hetero else out
            if isinstance(t, tuple):
                part.edge_index = self[t].edge_index
            for name in self.feature_store._names(t):
                part[name] = getattr(self[t], name).clone()
            if not isinstance(t, tuple):
                for mask in MASKS:
                    if mask not in part and self[t]._split_of(mask) is not None:
                        part[mask] = getattr(self[t], mask)
        for key, value in self._extras().items():
            if isinstance(key, tuple):
                out[key[0] if self.is_hetero else None][key[1]] = value
            else:
                out[key] = value
        return out

    to_memory = to_data

    def __repr__(self) -> str:
        if not self.is_hetero:
            parts = [f"num_nodes={self.num_nodes}", f"num_edges={self.num_edges}"]
            parts += [
                f"{n}={_size(self.feature_store._column(t, n))}"
                for t in self._types
                for n in self.feature_store._names(t)
            ]
            return f"StoreData({self.store.path!r}, {', '.join(parts)})"
        lines = [f"StoreData({self.store.path!r},"]
        for t in self._types:
            count = (
                f"num_edges={self.store.num_edges(t)}"
                if isinstance(t, tuple)
                else f"num_nodes={self.store.num_nodes(t)}"
            )
            parts = [
                count,
                *(f"{n}={_size(self.feature_store._column(t, n))}" for n in self.feature_store._names(t)),
            ]
            lines.append(f"  {t}={{ {', '.join(parts)} }},")
        return "\n".join([*lines, ")"])


def _size(column: Any) -> list[int]:
    return list(column.shape)


def encode_extras(extras: dict[Any, Any]) -> str:
    buffer = io.BytesIO()
    torch.save(extras, buffer)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def decode_extras(text: str) -> dict[Any, Any]:
    return torch.load(io.BytesIO(base64.b64decode(text)), weights_only=True)


def load(path: str | os.PathLike[str] | gz.Store, cache: str | int = "auto") -> StoreData:
    """Opens a store for PyG, at once, at any size.

    Args:
        path: the directory that ``gz.ingest`` or ``gz_pyg.save`` wrote, or a store opened already.
        cache: as in ``gz.open``: memory for rows of columns that do not fit into it.

    Returns:
        A tuple ``(FeatureStore, GraphStore)`` for the loaders, of PyG or of gz_pyg, which also answers what
        scripts ask of ``Data`` and ``HeteroData``: ``num_nodes``, ``x``, ``y``, ``train_mask``,
        ``data["paper"].x``, ``metadata()``, ``get_idx_split()``, ...
    """
    store = path if isinstance(path, gz.Store) else gz.open(path, cache)
    return StoreData(FeatureStore(store), GraphStore(store))


def resolve(data: Any) -> Any:
    """What a loader is given, as what it works on: paths are opened, a gz pair is made whole again."""
    if isinstance(data, (str, os.PathLike, gz.Store)):
        return load(data)
    if isinstance(data, (StoreData, Data, HeteroData)):
        return data
    if isinstance(data, (list, tuple)) and len(data) == 2:
        first, second = data
        if (
            isinstance(first, FeatureStore)
            and isinstance(second, GraphStore)
            and first.store.path == second.store.path
        ):
            return StoreData(first, second)
        return tuple(data)
    raise ValueError(
        f"data is a {type(data).__name__}; give the path of a store, gz_pyg.load(...), a Data, a HeteroData "
        f"or a (FeatureStore, GraphStore) pair"
    )
