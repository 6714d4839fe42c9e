"""gz: graphs and features far larger than RAM, in files, for PyTorch Geometric and DGL."""

from gz._base import __version__
from gz._base.engine import engine as _engine  # noqa: F401  first of all: it finds the compiled module
from gz._engine import FormatError, InputError, num_threads, set_num_threads
from gz._hot import reorder
from gz._ingest import IngestReport, ingest
from gz.convert import convert_csv_to_gd, convert_csv_to_gl
from gz.edit import OutputColumn
from gz.exporter import export
from gz.feature import FeatureStore
from gz.graph import Graph, Sample
from gz.hetero import HeteroSample
from gz.id_map import IdMap
from gz.store import Store, add
from gz.store import open_store as open
from gz.verify import verify

__all__ = [
    "FeatureStore",
    "FormatError",
    "Graph",
    "HeteroSample",
    "IdMap",
    "IngestReport",
    "InputError",
    "OutputColumn",
    "Sample",
    "Store",
    "__version__",
    "add",
    "convert_csv_to_gd",
    "convert_csv_to_gl",
    "export",
    "ingest",
    "num_threads",
    "open",
    "reorder",
    "set_num_threads",
    "verify",
]
