"""Every example runs, at small size, and learns."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec

import pytest
import ready


def run(repository, tmp_path, *command):
    """Runs a script as a user does; the last accuracy it prints."""
    # The in-memory originals use PyG's own loaders, which need pyg-lib or what stands in for it.
    path = [str(repository / "tests/pyg/stand_in")] if find_spec("pyg_lib") is None else []
    path += os.environ.get("PYTHONPATH", "").split(os.pathsep)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    # PyG looks for pyg-lib when it is imported: that is done in the script.
    result = ready.run(command, ready.TORCH, cwd=tmp_path, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout, float(re.findall(r"accuracy +([0-9.]+)", result.stdout)[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "epochs", "least"),
    [("graphsage", 4, 0.6), ("hetero", 4, 0.6), ("link_prediction", 4, 0.6), ("temporal", 2, 0.55)],
)
@pytest.mark.parametrize("original", [False, True], ids=["store", "in_memory"])
def test_examples_learn(repository, tmp_path, name, epochs, least, original):
    script = str(repository / "examples" / f"{name}{'_in_memory' if original else ''}.py")
    _, accuracy = run(repository, tmp_path, script, "--small", "--epochs", str(epochs))
    assert accuracy > least


@pytest.mark.slow
def test_the_distributed_example_learns(repository, tmp_path):
    script = str(repository / "examples" / "ddp.py")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    _, accuracy = run(repository, tmp_path, *launch, script, "--small", "--epochs", "4")
    assert accuracy > 0.6
