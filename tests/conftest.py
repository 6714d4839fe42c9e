"""What every test shares. Its helpers, graphs.py and reference.py, are imported by their plain names.

The test folders have no __init__.py: tests/dgl must never become importable as `dgl`. So test files need
names that are unique in the whole tree.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# DGL writes a settings file under $HOME and prints a notice unless it is told its backend.
os.environ.setdefault("DGLBACKEND", "pytorch")

SEED = int(os.environ.get("GZ_TEST_SEED", "0"))
REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_configure(config):
    for folder in ("pyg", "dgl"):
        if (REPOSITORY / "tests" / folder / "__init__.py").exists():
            raise pytest.UsageError(
                f"tests/{folder}/__init__.py would shadow the package it tests: remove it"
            )


# No deadline: the machine may be busy. The same examples every time, unless `make soak` asks for new ones.
settings.register_profile("test", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


def pytest_report_header():
    return f"rng seed of the tests: {SEED}"


@pytest.fixture
def rng_seed() -> int:
    """For tests that hold whatever the seed is: 0, or another in every round of `make soak`."""
    return SEED


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY
