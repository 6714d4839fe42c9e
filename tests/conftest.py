"""What every test shares. Helpers live beside this file (graphs.py, reference.py), imported by their plain names.

The test folders have no __init__.py: tests/dgl must never become importable as `dgl`. So test files need names
that are unique in the whole tree.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# DGL writes a settings file under $HOME and prints a notice unless it is told its backend.
os.environ.setdefault("DGLBACKEND", "pytorch")

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_configure(config):
    for folder in ("pyg", "dgl"):
        if (REPOSITORY / "tests" / folder / "__init__.py").exists():
            raise pytest.UsageError(
                f"tests/{folder}/__init__.py would shadow the package it tests: remove it"
            )


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY
