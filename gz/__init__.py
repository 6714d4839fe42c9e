"""gz: graphs and features far larger than RAM, in files, for PyTorch Geometric and DGL."""

from gz import _engine, _ram
from gz._engine import FormatError, InputError, num_threads, set_num_threads
from gz._ingest import ingest
from gz.convert import convert_csv_to_gd, convert_csv_to_gl
from gz.edit import OutputColumn, add
from gz.exporter import export
from gz.feature import FeatureStore
from gz.graph import Graph, Sample
from gz.id_map import IdMap
from gz.store import HeteroSample, Store
from gz.store import open_store as open

__version__ = "0.1.0"

_engine.set_pool_limit(min(_engine.pool_limit(), _ram.usable_ram() // 16))  # a container's memory, if in one

__all__ = [
    "FeatureStore",
    "FormatError",
    "Graph",
    "HeteroSample",
    "IdMap",
    "InputError",
    "OutputColumn",
    "Sample",
    "Store",
    "add",
    "convert_csv_to_gd",
    "convert_csv_to_gl",
    "export",
    "ingest",
    "num_threads",
    "open",
    "set_num_threads",
]
