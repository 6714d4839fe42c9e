"""gz: graphs and features far larger than RAM, in files, for PyTorch Geometric and DGL."""

from gz._engine import FormatError, InputError, num_threads, set_num_threads
from gz._ingest import ingest
from gz.feature import FeatureStore
from gz.graph import Graph, Sample
from gz.store import HeteroSample, Store
from gz.store import open_store as open

__version__ = "0.1.0"

__all__ = [
    "FeatureStore",
    "FormatError",
    "Graph",
    "HeteroSample",
    "InputError",
    "Sample",
    "Store",
    "ingest",
    "num_threads",
    "open",
    "set_num_threads",
]
