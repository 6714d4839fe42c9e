"""Scripts with loaders, workers and spawned processes end in silence; nothing of the engine outlives them."""

import os
import subprocess
import sys

import pytest
import ready
import torch
from torch_geometric.data import Data

import gz_pyg

LOADER = """
import sys, torch, gz_pyg
def loader(**options):
    return gz_pyg.NeighborLoader(sys.argv[1], [3, 2], input_nodes=torch.arange(40), batch_size=4, **options)
"""
ENDS = """
from gz import _engine
_engine.set_leak_warnings(True)
for batch in loader():
    pass
iterator = iter(loader(prefetch=3))
first = next(iterator)
def train():
    for batch in loader():
        raise ValueError
try:
    train()
except ValueError as e:
    kept = e
def leave():
    for batch in loader():
        sys.exit()
leave()
"""
# Held by torch's own C++ objects when the interpreter ends: of these it never frees the Python objects.
TENSORS = """
from gz import _engine
_engine.set_leak_warnings(True)
import held_by_a_module
data = gz_pyg.load(sys.argv[1])
x = data.x
part, exchanged = data.x[3:5], torch.from_dlpack(gz_pyg.load(sys.argv[1]).x)
graph = gz_pyg.load(sys.argv[1]).x @ torch.rand(4, 2, requires_grad=True)
model = torch.nn.Module()
model.register_buffer("x", gz_pyg.load(sys.argv[1]).x)
del data, x
out = gz_pyg.inference([lambda x, e: x], sys.argv[1], sys.argv[1] + ".npy", memory=0)
sys.exit(0)
"""
MODULE = """
import sys, gz_pyg
data = gz_pyg.load(sys.argv[1])
x, rows, edges = data.x, data.x[3:5], data.edge_index
"""
TESTS = """
import os, sys
from gz import _engine
_engine.set_leak_warnings(True)
sys.argv = ["", os.environ["STORE"]]
import held_by_a_module, gz_pyg
loader = gz_pyg.NeighborLoader(held_by_a_module.data, [3, 2], batch_size=4)
iterator = iter(loader)
def test_fails():
    for batch in loader:
        assert batch.x.sum() < 0
def test_waits():
    assert next(iterator).x is not None
"""
LEFT = """
def leave():
    for batch in loader(num_workers=2, persistent_workers=True):
        sys.exit()
if __name__ == "__main__":
    leave()
"""
WORKERS = """
if __name__ == "__main__":
    for batch in loader(num_workers=1, multiprocessing_context=sys.argv[2]):
        pass
"""
SPAWNED = """
def train(rank, data):
    for batch in gz_pyg.NeighborLoader(data, [3, 2], input_nodes=torch.arange(40), batch_size=4):
        pass
if __name__ == "__main__":
    torch.multiprocessing.spawn(train, (gz_pyg.load(sys.argv[1]),), nprocs=1)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("exit") / "store"
    data = Data(x=torch.rand(50, 4), edge_index=torch.randint(0, 50, (2, 400)))
    return gz_pyg.save(data, path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "args"),
    [(ENDS, []), (TENSORS, []), (WORKERS, ["fork"]), (WORKERS, ["spawn"]), (LEFT, []), (SPAWNED, [])],
    ids=["loaders", "tensors", "forked workers", "spawned workers", "workers left alone", "spawned process"],
)
def test_a_script_ends_in_silence(store, tmp_path, script, args):
    (tmp_path / "held_by_a_module.py").write_text(MODULE)
    file = tmp_path / "script.py"
    file.write_text(LOADER + script)
    result = ready.run([file, store, *args], ready.PYG, ignore_warnings=True)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.slow
def test_pytest_ends_in_silence(store, tmp_path):
    (tmp_path / "held_by_a_module.py").write_text(MODULE)
    (tmp_path / "test_them.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_them.py"]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=600, cwd=tmp_path, env={**os.environ, "STORE": store}
    )
    assert "1 failed, 1 passed" in result.stdout
    assert "nanobind" not in result.stdout + result.stderr
    assert result.stderr == ""
