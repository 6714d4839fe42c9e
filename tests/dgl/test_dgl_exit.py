"""Scripts with DGL's DataLoader end in silence, and nothing of the engine outlives them."""

import dgl
import pytest
import ready
import torch

import gz_dgl

SCRIPT = """
import sys, torch, gz_dgl, dgl
from gz import _engine
_engine.set_leak_warnings(True)
if __name__ == "__main__":
    g = gz_dgl.load(sys.argv[1])
    sampler = dgl.dataloading.NeighborSampler([3, 2], prefetch_node_feats=["x"])
    loader = dgl.dataloading.DataLoader(
        g, torch.arange(40), sampler, batch_size=4, num_workers=int(sys.argv[2])
    )
    for batch in gz_dgl.prefetch(loader):
        pass
    iterator = iter(loader)
    first = next(iterator)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("exit") / "store"
    g = dgl.graph((torch.randint(0, 50, (400,)), torch.randint(0, 50, (400,))), num_nodes=50)
    g.ndata["x"] = torch.rand(50, 4)
    gz_dgl.save(g, path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_a_script_ends_in_silence(store, tmp_path, workers):
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    result = ready.run([file, store, workers], ready.DGL, ignore_warnings=True)
    assert (result.returncode, result.stderr) == (0, "")
