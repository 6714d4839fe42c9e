"""What the ingest tests share: a disk that is easily filled, and an ogb that imports without a network."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

# Importing ogb asks the network for a newer version, through a package that a current setuptools breaks.
sys.modules["outdated"] = types.ModuleType("outdated")
sys.modules["outdated"].warn_if_outdated = lambda *_: None  # type: ignore[attr-defined]


@pytest.fixture
def small_disk(tmp_path):
    """Mounts a tmpfs of a given size."""
    mounted = []

    def mount(size: int) -> Path:
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        options = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(options, capture_output=True).returncode:
            pytest.skip("a small disk needs root and the right to mount")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # a traceback may hold files
