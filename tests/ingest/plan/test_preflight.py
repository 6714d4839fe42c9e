"""What an ingest says it will need on the disk, against what it then takes."""

from __future__ import annotations

import os

import numpy as np
import pytest

import gz
from gz._ingest.plan import preflight
from gz._ingest.plan.inputs import open_inputs
from gz._ingest.plan.spec import simple
from gz._ingest.read.files import Files


def size_of(store) -> int:
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(store) for f in files)


def plan(edges, features=None, **options):
    defaults = {"undirected": False, "directions": "in", "keep_edge_ids": None, "edge_features": None}
    nodes, ids = options.pop("num_nodes", None), options.pop("ids", "dense")
    return open_inputs(simple(edges, features, nodes, None, None, ids, defaults | options, Files()))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["npy", "parquet", "csv", "csv.gz", "arrays"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"undirected": True, "keep_edge_ids": True},
        {"directions": "both", "keep_edge_ids": True, "num_nodes": 20_000},
    ],
)
def test_the_estimate_is_near_and_not_below(tmp_path, form, options):
    rng = np.random.default_rng(0)
    n, e = 20_000, 160_000
    edges = rng.integers(0, n, (2, e))
    edges[0, 0] = n - 1
    if form == "npy":
        np.save(tmp_path / "e.npy", edges)
    elif form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"src": edges[0], "dst": edges[1]}), tmp_path / "e.parquet")
    elif form.startswith("csv"):
        np.savetxt(tmp_path / f"e.{form}", edges.T, "%d", ",")
    given = tuple(edges) if form == "arrays" else str(tmp_path / f"e.{form}")
    x = rng.random((n, 16), dtype=np.float32)
    need = preflight.estimate(plan(given, {"x": x}, **options), 1 << 30)
    gz.ingest(tmp_path / "s", edges=given, features={"x": x}, **options)
    real = size_of(tmp_path / "s")
    most = 6.0 if form == "csv.gz" else 1.5  # how far gzip shrinks a text is not known beforehand
    assert real * 0.97 <= need.columns + need.topology <= real * most


CASES = {
    "plain": {},
    "edge ids": {"keep_edge_ids": True},
    "both ways": {"keep_edge_ids": True, "directions": "both"},
    "undirected": {"undirected": True, "keep_edge_ids": True, "directions": "both"},
    "coalesced, loops": {"coalesce": True, "self_loops": "add"},
    "weighted": {"weight": "w", "directions": "both"},
    "mapped": {"ids": "map"},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_disk_of_the_estimated_size_is_large_enough(tmp_path, small_disk, case):
    """With so small a budget that edges go through the disk, it takes at its peak what it said, or less."""
    rng = np.random.default_rng(0)
    n, e = 20_000, 400_000
    np.save(tmp_path / "e.npy", rng.integers(0, n, (2, e)))
    options = dict(CASES[case])
    if "weight" in options:
        np.save(tmp_path / "w.npy", rng.random(e, dtype=np.float32))
        options["edge_features"] = {"w": str(tmp_path / "w.npy")}
    ids = options.pop("ids", "dense")
    given = plan(str(tmp_path / "e.npy"), num_nodes=None if ids == "map" else n, ids=ids, **options)
    need = preflight.estimate(given, 2_000_000)
    assert need.temporary > 0
    disk = small_disk(need.total + (1 << 19))  # the journal, folders, tmpfs's own pages
    gz.ingest(
        disk / "s", edges=str(tmp_path / "e.npy"), num_nodes=None if ids == "map" else n, ids=ids,
        memory=2_000_000, **options,
    )  # fmt: skip
    assert size_of(disk / "s") < need.total < (16 if ids == "map" else 4) * size_of(disk / "s")


def test_temporary_space_is_counted_when_edges_do_not_fit_the_budget(tmp_path):
    np.save(tmp_path / "e.npy", np.zeros((2, 100_000), np.int64))
    small = preflight.estimate(plan(str(tmp_path / "e.npy")), 1 << 20 >> 2)
    large = preflight.estimate(plan(str(tmp_path / "e.npy")), 1 << 30)
    assert large.temporary == 0
    assert small.temporary >= 100_000 * 6


def test_too_little_room_is_an_error_that_names_both_sizes(tmp_path, monkeypatch):
    class Full:
        f_bavail, f_frsize = 10, 100_000

    monkeypatch.setattr(preflight.os, "statvfs", lambda _: Full)
    x = np.zeros((1000, 4096), np.float32)
    with pytest.raises(OSError, match=r"needs about 16\.4 MB .*, but only 1\.0 MB are free"):
        gz.ingest(tmp_path / "s", edges=([0], [1]), features={"x": x})
    assert os.listdir(tmp_path) == []
    gz.ingest(tmp_path / "s", edges=([0], [1]), features={"x": x}, check_disk=False)


def test_an_iterator_keeps_its_first_chunk(tmp_path):
    chunks = ((np.array([i]), np.array([i + 1])) for i in range(3))
    gz.ingest(tmp_path / "s", edges=chunks)
    assert gz.open(tmp_path / "s").num_edges() == 3
