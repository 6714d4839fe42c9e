"""Imports DGL, whichever of 1.1 to 2.x is installed; everything else in gz_dgl takes it from here.

DGL 2.x imports GraphBolt, which needs a library built for the very torch that is installed and has none for
current ones, so `import dgl` itself fails. Nothing here uses GraphBolt: where its library is missing, an
empty module takes its place, and says so when it is used. Import gz_dgl before dgl for this to help.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from importlib import metadata
from pathlib import Path
from typing import Any

# DGL writes a settings file under $HOME and prints a notice unless it is told its backend.
os.environ.setdefault("DGLBACKEND", "pytorch")

_GRAPHBOLT = "dgl.graphbolt"


class _NoGraphBolt(types.ModuleType):
    """Stands in for dgl.graphbolt: any name in it is a class that cannot be used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*_: Any, **__: Any) -> Any:
            raise ImportError(
                f"dgl.graphbolt.{name}: DGL has no GraphBolt library for this torch. gz_dgl does not "
                "need it: use dgl.dataloading.DataLoader with gz_dgl.load"
            )

        return type(name, (), {"__init__": refuse, "__init_subclass__": classmethod(lambda cls, **_: None)})


def graphbolt_is_missing(package: Path, torch_version: str) -> bool:
    """Whether the DGL in folder `package` has GraphBolt but no library of it for this torch."""
    folder = package / "graphbolt"
    if not folder.is_dir():
        return False
    wanted = f"libgraphbolt_pytorch_{torch_version.split('+')[0]}.so"
    return not any((p / wanted).is_file() for p in (folder, package.parent / "dgl" / "graphbolt"))


def _import() -> types.ModuleType:
    if "dgl" in sys.modules:
        return sys.modules["dgl"]
    spec = importlib.util.find_spec("dgl")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("gz_dgl needs DGL: pip install 'dgl>=1.1.3' packaging", name="dgl")
    try:
        import torch
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "gz_dgl needs torch, which is not installed: pip install torch, or pip install 'gz[dgl]'",
            name="torch",
        ) from None

    if _GRAPHBOLT not in sys.modules and graphbolt_is_missing(Path(spec.origin).parent, torch.__version__):
        stand_in = _NoGraphBolt(_GRAPHBOLT, "GraphBolt has no library for this torch.")
        stand_in.__path__ = []
        sys.modules[_GRAPHBOLT] = stand_in
        import dgl

        dgl.graphbolt = stand_in
        return dgl
    import dgl

    return dgl


def dgl_version() -> tuple[int, ...]:
    text = getattr(dgl, "__version__", None) or metadata.version("dgl")
    return tuple(int(part) for part in text.split("+")[0].split(".")[:2] if part.isdigit())


dgl = _import()
if dgl_version() < (1, 1):
    raise ImportError(f"gz_dgl needs DGL 1.1 or later; this is {dgl.__version__}")

from dgl import backend as F  # noqa: E402
from dgl import graph_index, heterograph_index, utils  # noqa: E402
from dgl._ffi.object_generic import ObjectGeneric  # noqa: E402
from dgl.base import ALL, EID, NID, DGLError, is_all  # noqa: E402
from dgl.frame import Column, Frame  # noqa: E402
from dgl.heterograph import DGLBlock, DGLGraph  # noqa: E402

__all__ = [
    "ALL",
    "EID",
    "NID",
    "Column",
    "DGLBlock",
    "DGLError",
    "DGLGraph",
    "F",
    "Frame",
    "ObjectGeneric",
    "dgl",
    "graph_index",
    "heterograph_index",
    "is_all",
    "utils",
]
