"""gz_pyg: PyTorch Geometric's loaders on graphs in files."""

from gz_pyg.data import StoreData, load
from gz_pyg.feature_store import FeatureStore
from gz_pyg.graph_store import GraphStore
from gz_pyg.loader import LinkNeighborLoader, NeighborLoader
from gz_pyg.sampler import NeighborSampler
from gz_pyg.save import save
from gz_pyg.shadow import ShaDowKHopSampler

__all__ = [
    "FeatureStore",
    "GraphStore",
    "LinkNeighborLoader",
    "NeighborLoader",
    "NeighborSampler",
    "ShaDowKHopSampler",
    "StoreData",
    "load",
    "save",
]
