"""gz_pyg: PyTorch Geometric's loaders on graphs in files.

data, feature_store, graph_store, save    what a script holds: a graph whose attributes lie in files
_store       what that is made of: columns, and what was written over them
_source      what samplers and loaders take from: one protocol for files, memory and any pair of stores
sampler, _sampler          NeighborSampler and the other samplers, over the engine (_edges, _random)
loader, shadow, _loader    PyG's loaders: inputs, batches, iteration; PyTorch Lightning's data modules
_inference   a model over all nodes, layer by layer
"""

from typing import TYPE_CHECKING, Any

from gz import __version__
from gz_pyg import _framework  # noqa: F401  first of all: what is missing is said plainly
from gz_pyg._inference.run import inference
from gz_pyg._loader.hgt import HGTLoader
from gz_pyg._loader.links import LinkLoader
from gz_pyg._loader.nodes import NodeLoader
from gz_pyg._loader.stats import monitor
from gz_pyg._sampler.both_ways import BidirectionalNeighborSampler
from gz_pyg._sampler.hgt import HGTSampler
from gz_pyg.data import StoreData, StoreHeteroData, load
from gz_pyg.feature_store import FeatureStore
from gz_pyg.graph_store import GraphStore
from gz_pyg.loader import LinkNeighborLoader, NeighborLoader
from gz_pyg.sampler import NeighborSampler
from gz_pyg.save import save
from gz_pyg.shadow import ShaDowKHopSampler

if TYPE_CHECKING:
    from gz_pyg._loader.lightning import LightningLinkData, LightningNodeData


def __getattr__(name: str) -> Any:
    if name in ("LightningLinkData", "LightningNodeData"):  # PyTorch Lightning takes seconds to import
        from gz_pyg._loader import lightning

        return getattr(lightning, name)
    raise AttributeError(f"module 'gz_pyg' has no attribute {name!r}")


__all__ = [
    "BidirectionalNeighborSampler",
    "FeatureStore",
    "GraphStore",
    "HGTLoader",
    "HGTSampler",
    "LightningLinkData",
    "LightningNodeData",
    "LinkLoader",
    "LinkNeighborLoader",
    "NeighborLoader",
    "NeighborSampler",
    "NodeLoader",
    "ShaDowKHopSampler",
    "StoreData",
    "StoreHeteroData",
    "__version__",
    "inference",
    "load",
    "monitor",
    "save",
]
