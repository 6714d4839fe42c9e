"""What every test shares. Its helpers, graphs.py and reference.py, are imported by their plain names.

The test folders have no __init__.py: tests/dgl must never become importable as `dgl`. So test files need
names that are unique in the whole tree.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest
import ready
import waits
from hypothesis import HealthCheck, settings

# DGL writes a settings file under $HOME and prints a notice unless it is told its backend.
os.environ.setdefault("DGLBACKEND", "pytorch")
# Here and in every process that a test starts, torch and DGL compute on one thread unless told otherwise:
# over arrays this small a team only spins, and where the machine is busy it does so for minutes.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ready.preload()

SEED = int(os.environ.get("GZ_TEST_SEED", "0"))
REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_configure(config):
    for folder in ("pyg", "dgl"):
        if (REPOSITORY / "tests" / folder / "__init__.py").exists():
            raise pytest.UsageError(
                f"tests/{folder}/__init__.py would shadow the package it tests: remove it"
            )


# No deadline, no complaint of slow examples: the machine may be busy. The same examples every time, unless
# `make soak` asks for new ones.
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("test", derandomize=True, **PATIENT)
settings.register_profile("soak", max_examples=1000, print_blob=True, **PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


def pytest_addoption(parser):
    parser.addoption("--one-case", action="store_true", help="of a test with several cases run one")


@pytest.hookimpl(trylast=True)  # of those that -m and -k leave
def pytest_collection_modifyitems(config, items):
    if not config.getoption("one_case"):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    # Which one is told by the name: always the same, and not the first of every test.
    kept = {of[zlib.crc32(name.encode()) % len(of)] for name, of in cases.items()}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


COMPILING = pytest.StashKey[subprocess.Popen]()


def pytest_collection_finish(session):
    """Where the engine will be tested under sanitizers, a process begins to compile it."""
    wanted = any(item.path.name == "test_sanitizers.py" for item in session.items)
    if wanted and not session.config.option.collectonly:
        script = REPOSITORY / "tests" / "engine" / "test_sanitizers.py"
        session.config.stash[COMPILING] = subprocess.Popen(
            [sys.executable, str(script), str(REPOSITORY)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, preexec_fn=lambda: os.nice(19),
        )  # fmt: skip


def pytest_unconfigure(config):
    if (process := config.stash.get(COMPILING, None)) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the compiler too
        process.wait()


@pytest.fixture
def compiled(pytestconfig):
    """Waits for what was begun. Whether it went well is seen by whoever builds again."""
    process = pytestconfig.stash.get(COMPILING, None)
    return lambda: None if process is None else process.wait()


def pytest_report_header():
    return f"rng seed of the tests: {SEED}"


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    item.stash[FAILED] = report.failed or item.stash.get(FAILED, False)
    return report


@pytest.fixture(autouse=True)
def no_thread_is_left(request):
    """A thread of gz that outlives its test fails that test, and no other."""
    waits.forget_what_others_left()
    yield
    if request.node.stash[FAILED]:  # its traceback may well hold an iterator
        return
    for thread in waits.background():  # most are ending already
        thread.join(1)
    if waits.background():
        gc.collect()
        waits.ended(waits.background())


@pytest.fixture
def room_ahead(monkeypatch):
    """The governor finds room for every batch: on a machine that is full, none would be made ahead."""
    from gz._base import batches_ahead

    governor = SimpleNamespace(room_ahead=lambda *_: True, change_ahead=batches_ahead._engine.change_ahead)
    monkeypatch.setattr(batches_ahead, "_engine", governor)


@pytest.fixture
def rng_seed() -> int:
    """For tests that hold whatever the seed is: 0, or another in every round of `make soak`."""
    return SEED


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY
