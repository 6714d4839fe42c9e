"""loader.stats(), loader.postfix() and gz_pyg.monitor: what they tell is what happened."""

from __future__ import annotations

import copy
import json
import pickle
import re

import numpy as np
import pytest
import torch
import waits
from torch_geometric.data import Data

import gz
import gz_pyg
from gz._watch.recorder import read_record
from gz.cli import main


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("stats") / "s"
    rng = np.random.default_rng(0)
    x = rng.random((400, 32), np.float32)
    gz.ingest(path, edges=tuple(rng.integers(0, 400, (2, 3000))), features={"x": x, "y": np.arange(400)})
    return path


def loader_of(store, **options):
    return gz_pyg.NeighborLoader(store, **{"num_neighbors": [4, 3], "batch_size": 50} | options)


@pytest.mark.parametrize("options", [{}, {"prefetch": 0}, {"filter_per_worker": False}, {"shuffle": True}])
def test_batches_and_rows_are_counted(store, options):
    loader = loader_of(gz.open(store), **options)
    assert loader.stats()["batches"] == 0
    nodes = sum(batch.num_nodes for _ in range(2) for batch in loader)
    stats = loader.stats()
    assert stats["batches"] == 16
    assert stats["mapped"] + stats["hits"] + stats["misses"] == 2 * nodes  # of two columns
    assert all(isinstance(v, int | float) for v in stats.values())
    json.dumps(stats)


def test_a_loop_that_is_left_counts_what_it_was_given(store):
    loader = loader_of(store)
    for i, _ in enumerate(loader):
        if i == 2:
            break
    assert loader.stats()["batches"] == 3


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}, {"filter_per_worker": False}])
def test_with_workers_batches_are_counted_and_their_rows_are_not(store, options):
    loader = loader_of(store, num_workers=2, **options)
    for _ in range(2):
        for batch in loader:
            assert batch.x.shape[0] == batch.num_nodes
    stats = loader.stats()
    assert stats["batches"] == 16
    assert "miss_rate" not in stats
    assert "read" not in loader.postfix()


def test_data_in_memory_has_batches_and_no_rows():
    data = Data(x=torch.zeros(10, 2), edge_index=torch.tensor([[0, 1], [1, 2]]))
    loader = gz_pyg.NeighborLoader(data, num_neighbors=[2], batch_size=5)
    assert len(list(loader)) == 2
    stats = loader.stats()
    assert stats["batches"] == 2
    assert "misses" not in stats
    assert loader.postfix().endswith("batches/s")


def test_a_copy_and_a_pickle_count_for_themselves(store):
    loader = loader_of(store)
    list(loader)
    for other in (copy.copy(loader), pickle.loads(pickle.dumps(loader))):
        list(other)
        assert other.stats()["batches"] == 8
    assert loader.stats()["batches"] == 8


def test_links_are_counted_too(store):
    loader = gz_pyg.LinkNeighborLoader(store, num_neighbors=[3], batch_size=1000)
    assert len(list(loader)) == loader.stats()["batches"] == 3


def test_the_line_for_a_progress_bar(store):
    tqdm = pytest.importorskip("tqdm")
    loader = loader_of(store)
    with open("/dev/null", "w") as nowhere, tqdm.tqdm(loader, file=nowhere) as bar:
        for _ in bar:
            bar.set_postfix_str(loader.postfix())
    waits.until(lambda: "miss " in loader.postfix(), "a line that knows of the last batches")
    assert re.fullmatch(
        r"[0-9.]+ batches/s, miss [0-9.]+ %, read [0-9.]+ \w+/s, cache [0-9.]+ \w+", loader.postfix()
    )


def test_a_monitored_run_has_a_record_and_a_report(store, tmp_path):
    loader = loader_of(store)
    with gz_pyg.monitor(tmp_path / "run.jsonl", loader, every=0.01, about={"model": "none"}) as run:
        for i, _ in enumerate(loader):
            run.log(loss=torch.tensor(1.0 / (i + 1)))
        waits.until(lambda: (tmp_path / "run.jsonl").read_text().count('"sample"') > 3, "samples")
    record = read_record(tmp_path / "run.jsonl")
    assert record.ended
    assert record.samples[0]["batches"] == 0
    assert record.samples[-1]["batches"] == 8
    assert record.samples[-1]["mapped"] > 0
    assert len(record.logs) == 8
    assert record.about["loaders"][0]["fanouts"] == "[4, 3]"
    assert record.about["store"]["nodes"] == {"node": 400}
    assert main(["report", str(tmp_path / "run.jsonl"), "-o", str(tmp_path / "r.html")]) == 0
    assert "batch size 50" in (tmp_path / "r.html").read_text()


def test_what_cannot_be_monitored_is_refused(store, tmp_path):
    with pytest.raises(TypeError, match="loaders of gz_pyg"):
        gz_pyg.monitor(tmp_path / "r", [1, 2])
    with pytest.raises(TypeError, match="name the loaders"):
        gz_pyg.monitor(tmp_path / "r")
    with pytest.raises(ValueError, match="every"):
        gz_pyg.monitor(tmp_path / "r", loader_of(store), every=0)
