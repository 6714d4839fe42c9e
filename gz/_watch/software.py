"""Which versions are installed, and whether they work together: tried in processes of their own."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
from typing import Any

_PACKAGES = (
    "gz",
    "numpy",
    "pyarrow",
    "torch",
    "torch_geometric",
    "dgl",
    "pyg_lib",
    "torch_sparse",
    "pytorch-lightning",
)
_TRIES = {
    "PyG": """
import numpy, gz, gz_pyg
ring = numpy.array([0, 1, 2]), numpy.array([1, 2, 0])
gz.ingest("s", edges=ring, features={"x": numpy.eye(3, dtype="float32")})
batch = next(iter(gz_pyg.NeighborLoader("s", num_neighbors=[2], batch_size=3)))
assert batch.x.shape == (3, 3)
""",
    "DGL": """
import numpy, gz, gz_dgl, dgl
ring = numpy.array([0, 1, 2]), numpy.array([1, 2, 0])
gz.ingest("s", edges=ring, features={"x": numpy.eye(3, dtype="float32")})
assert gz_dgl.load("s").num_nodes() == 3
""",
}
_NEEDS = {"PyG": ("torch", "torch_geometric"), "DGL": ("torch", "dgl")}
_PATIENCE = 180.0  # seconds for an import on a busy machine


def versions() -> dict[str, str | None]:
    """By package; None where it is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def works(found: dict[str, str | None]) -> dict[str, str]:
    """By framework: "works", "not installed (...)", or the error."""
    return {name: _tried(name, found) for name in _TRIES}


def _tried(name: str, found: dict[str, str | None]) -> str:
    missing = [p for p in _NEEDS[name] if found.get(p) is None]
    if missing:
        return f"not installed ({', '.join(missing)})"
    with tempfile.TemporaryDirectory(prefix="gz-doctor-") as folder:
        env: dict[str, Any] = {**os.environ, "DGLBACKEND": "pytorch"}
        try:
            done = subprocess.run(
                [sys.executable, "-c", _TRIES[name]],
                cwd=folder,
                env=env,
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
            )
        except subprocess.TimeoutExpired:
            return f"did not end within {_PATIENCE:.0f} s"
    if done.returncode == 0:
        return "works"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"ended with {done.returncode}"
