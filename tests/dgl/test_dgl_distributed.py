"""dgl.distributed on what `gz partition` wrote: servers and trainers as processes, over loopback sockets."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import dgl
import dgl.nn
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_dgl_examples import community
from waits import PATIENCE

import gz
import gz_dgl
from gz.cli import main

EPOCHS = 6
# DGL's processes look for a free port, let it go and take it again: another process may be faster.
TAKEN = re.compile("Address already in use|[Bb]ind|DistConnectError")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store and its two parts, by the command."""
    path = tmp_path_factory.mktemp("distributed")
    gz_dgl.save(community(), path / "papers")
    call = ["partition", path / "papers", path / "parts", "--parts", "2", "--method", "fennel", "--quiet"]
    assert main([str(a) for a in call]) == 0
    return path


def start(repository, folder, *options):
    command = [sys.executable, "-W", "ignore", str(repository / "examples" / "dgl_distributed.py")]
    command += [str(folder / "parts" / "papers.json"), "--batch-size", "128", "--classes", "5", *options]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        start_new_session=True,
    )


def end(process):
    """What it printed, however it ended; neither it nor its children outlive this."""
    try:
        return process.communicate(timeout=2 * PATIENCE)[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def trained(repository, folder, *options):
    for _ in range(3):
        process = start(repository, folder, *options)
        text = end(process)
        if process.returncode == 0 or not TAKEN.search(text):
            break
    assert process.returncode == 0, text[-4000:]
    return text


def by_one_process(g):
    """The same model and hyperparameters with DGL's ordinary loader, in memory: its test accuracy."""
    torch.manual_seed(0)
    dgl.seed(0)
    layers = torch.nn.ModuleList([dgl.nn.SAGEConv(16, 64, "mean"), dgl.nn.SAGEConv(64, 5, "mean")])

    def model(blocks, training):
        h = F.relu(layers[0](blocks[0], blocks[0].srcdata["feat"]))
        return layers[1](blocks[1], F.dropout(h, 0.5, training))

    optimizer = torch.optim.Adam(layers.parameters(), lr=0.01)
    sampler = dgl.dataloading.NeighborSampler([10, 10])
    train, test = (g.ndata[k].nonzero().squeeze(1) for k in ("train_mask", "test_mask"))
    for _ in range(EPOCHS):  # two trainers with batches of 128
        for _, _, blocks in dgl.dataloading.DataLoader(g, train, sampler, batch_size=256, shuffle=True):
            loss = F.cross_entropy(model(blocks, True), blocks[-1].dstdata["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    _, _, blocks = dgl.dataloading.MultiLayerFullNeighborSampler(2).sample(g, test)
    with torch.no_grad():
        return float((model(blocks, False).argmax(1) == g.ndata["label"][test]).float().mean())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_servers_and_two_trainers_learn_as_one_process_does(repository, folder):
    g = community()
    text = trained(repository, folder, "--epochs", str(EPOCHS), "--embeddings", "emb.npy")
    accuracy, nodes = re.search(r"test accuracy ([\d.]+) of (\d+) nodes", text).groups()
    assert int(nodes) == int(g.ndata["test_mask"].sum())  # node_split gave every one to one trainer
    assert float(accuracy) > 0.85
    assert abs(float(accuracy) - by_one_process(g)) < 0.06

    # Back into the store: what the model says of a node is at the node's own id again.
    call = ["add", folder / "papers", "--feature", f"emb={folder / 'emb.npy'}", "--by", folder / "parts"]
    assert main([str(a) for a in call]) == 0
    emb = gz.open(folder / "papers").feature("emb").get_tensor()
    test = g.ndata["test_mask"].numpy()
    right = emb.argmax(1)[test] == g.ndata["label"].numpy()[test]
    assert f"{right.mean():.4f}" == accuracy
    assert np.abs(emb).sum(1).min() > 0


def began_to_train(process):
    """(the process of trainer 1, what was printed) once an epoch is over; no trainer where none will be."""
    victim, said = None, []
    for line in process.stdout:  # ends with the process
        said.append(line)
        if found := re.search(r"trainer 1 is process (\d+)", line):
            victim = int(found[1])
        if line.startswith("epoch 1:"):
            return victim, "".join(said)
    return None, "".join(said)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_trainer_is_an_error_and_no_hang(repository, folder):
    for _ in range(3):
        process = start(repository, folder, "--epochs", "1000000")
        victim, said = began_to_train(process)
        if victim is not None:
            break
        end(process)
        assert TAKEN.search(said), said
    os.kill(victim, signal.SIGKILL)
    text = end(process)
    assert process.returncode == 1, text
    # Another may have noticed first, and failed: its peer is gone.
    assert re.search(r"\w+ \d (was killed by signal 9|ended with \d+); the others are stopped", text)
