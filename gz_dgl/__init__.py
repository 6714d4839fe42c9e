"""gz_dgl: graphs far larger than RAM in dgl.dataloading.DataLoader, with DGL's own samplers.

    g = gz_dgl.load("papers100M")     # instead of dgl.load_graphs(...)

The rest of the script stays as it is.
"""

from gz import __version__
from gz_dgl._dispatch import install as _install
from gz_dgl._functions.whole import InMemoryWarning
from gz_dgl._prefetch import prefetch
from gz_dgl.graph import StoreGraph
from gz_dgl.inference import empty_column, inference
from gz_dgl.partition import Partition, partition
from gz_dgl.store import load, save

_install()

__all__ = [
    "InMemoryWarning",
    "Partition",
    "StoreGraph",
    "__version__",
    "empty_column",
    "inference",
    "load",
    "partition",
    "prefetch",
    "save",
]
