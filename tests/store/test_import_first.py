"""Every module of gz can be the first that is imported: none waits for another to have run before it."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A package's __init__ imports what lies below it in an order that works; so a bare package takes its place.
# gz.adapter is left out: it is for programs that have torch, and nothing in gz imports it.
FIRST = """
import importlib, pkgutil, sys, traceback, types
import gz, gz._engine as engine
found = [(m.name, m.ispkg) for m in pkgutil.walk_packages(gz.__path__, "gz.")]
found = [m for m in found if m[0] not in ("gz.__main__", "gz.adapter")]
packages = {n: importlib.import_module(n).__path__ for n, is_package in [("gz", True), *found] if is_package}
failed = []
for name, _ in found:
    for loaded in [m for m in sys.modules if m.partition(".")[0] == "gz" and m != "gz._engine"]:
        del sys.modules[loaded]
    parent = name
    while parent := parent.rpartition(".")[0]:
        sys.modules[parent] = types.ModuleType(parent)
        sys.modules[parent].__path__ = packages[parent]
    sys.modules["gz"]._engine = engine
    try:
        importlib.import_module(name)
    except Exception:
        failed.append(name + ": " + traceback.format_exc().strip().splitlines()[-1])
print(len(found), *failed, sep="\\n")
print("torch" in sys.modules, "pyarrow" in sys.modules)
"""


@pytest.mark.slow
def test_every_module_can_be_imported_first():
    done = subprocess.run(
        [sys.executable, "-c", FIRST], capture_output=True, text=True, check=True, cwd="/", timeout=300
    )
    count, *failed, heavy = done.stdout.splitlines()
    assert failed == []
    assert int(count) > 50
    assert heavy == "False False"  # neither is needed to start
