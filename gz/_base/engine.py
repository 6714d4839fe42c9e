"""Finds the compiled engine, and checks that it was built from this source.

In a clone the folder gz/ comes first on the path (`python`, `python -m gz`, `python -m pytest`) and holds no
engine: that lies in the installed gz, which may have been built from another commit.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from pkgutil import extend_path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2] / "csrc"  # only in a clone


def find() -> Any:
    """``gz._engine``, or an ImportError that says what to do."""
    package = sys.modules["gz"]
    package.__path__ = extend_path(package.__path__, "gz")
    try:
        import gz._engine as found
    except ModuleNotFoundError:
        if not SOURCE.is_dir():
            raise
        raise ImportError(
            f"gz's engine is not installed for this Python ({sys.version.split()[0]}): "
            f"run `pip install .` in {SOURCE.parent}"
        ) from None
    if bindings_hash(SOURCE / "python") not in (None, getattr(found, "bindings_hash", "")):
        raise ImportError(
            f"{found.__file__} was built from another state of {SOURCE}: "
            f"run `pip install .` in {SOURCE.parent} again"
        )
    return found


def bindings_hash(folder: Path) -> str | None:
    """As CMakeLists.txt computes it for the engine; None where there is no source: an installed gz."""
    files = sorted(p for p in folder.glob("*") if p.suffix in (".cpp", ".h"))
    hashes = "".join(hashlib.sha256(p.read_bytes()).hexdigest() for p in files)
    return hashlib.sha256(hashes.encode()).hexdigest() if files else None


engine = find()
