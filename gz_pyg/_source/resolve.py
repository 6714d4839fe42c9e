"""as_source: what a user gives a sampler or a loader, as the Source it works on."""

from __future__ import annotations

import os
from typing import Any

from torch_geometric.data import Data, HeteroData

import gz
from gz_pyg._source.local import LocalSource
from gz_pyg._source.pair import PairSource
from gz_pyg._source.protocol import Source
from gz_pyg.data import load
from gz_pyg.feature_store import FeatureStore
from gz_pyg.graph_store import GraphStore


def as_source(data: Any) -> Source:
    """Paths and stores are opened; the two halves of one loaded store are made whole again."""
    if isinstance(data, (LocalSource, PairSource)):
        return data
    if isinstance(data, (str, os.PathLike, gz.Store)):
        data = load(data)
    if isinstance(data, (Data, HeteroData)):
        return LocalSource(data)
    if isinstance(data, (list, tuple)) and len(data) == 2:
        features, edges = data
        if (
            isinstance(features, FeatureStore)
            and isinstance(edges, GraphStore)
            and features.graph is edges.graph
        ):
            return LocalSource(features.graph)
        return PairSource(data)
    raise ValueError(
        f"data is a {type(data).__name__}; give the path of a store, gz_pyg.load(...), a Data, a HeteroData "
        f"or a (FeatureStore, GraphStore) pair"
    )
