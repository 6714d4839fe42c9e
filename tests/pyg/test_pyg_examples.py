"""Every example runs, at small size, and learns."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec

import pytest
import ready


def run(tmp_path, *command, modules=ready.PYG, env=None):
    """Runs a script as a user does; the last accuracy it prints."""
    result = ready.run(command, modules, cwd=tmp_path, env=env)
    assert result.returncode == 0, result.stdout + result.stderr
    return float(re.findall(r"accuracy +([0-9.]+)", result.stdout)[-1])


def with_pyg_lib(repository):
    """For the in-memory originals: PyG's own loaders need pyg-lib, or what stands in for it, when PyG is
    imported. So the script does that itself."""
    path = [str(repository / "tests/pyg/stand_in")] if find_spec("pyg_lib") is None else []
    path += os.environ.get("PYTHONPATH", "").split(os.pathsep)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    return {"modules": ready.TORCH, "env": environment}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "epochs", "least"),
    [("graphsage", 4, 0.6), ("hetero", 4, 0.6), ("link_prediction", 4, 0.6), ("temporal", 2, 0.55)],
)
@pytest.mark.parametrize("original", [False, True], ids=["store", "in_memory"])
def test_examples_learn(repository, tmp_path, name, epochs, least, original):
    script = str(repository / "examples" / f"{name}{'_in_memory' if original else ''}.py")
    options = with_pyg_lib(repository) if original else {}
    assert run(tmp_path, script, "--small", "--epochs", str(epochs), **options) > least


@pytest.mark.slow
def test_the_distributed_example_learns(repository, tmp_path):
    script = str(repository / "examples" / "ddp.py")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    assert run(tmp_path, *launch, script, "--small", "--epochs", "4", modules=ready.TORCH) > 0.6
