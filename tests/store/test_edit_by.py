"""Rows that come with the ids they belong to: `add_feature(by=...)`, `gz add --by`."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gz
from gz.cli import main
from gz.verify import verify

N, E = 200, 1500
RNG = np.random.default_rng(0)
SRC, DST = RNG.integers(0, N, (2, E))
EDGE = ("node", "to", "node")
X = RNG.standard_normal((N, 3)).astype(np.float32)
ORDER = RNG.permutation(N)


@pytest.fixture
def path(tmp_path):
    gz.ingest(tmp_path / "s", edges=(SRC, DST), num_nodes=N, progress=False)
    return tmp_path / "s"


@pytest.mark.parametrize("memory", ["1MB", "2GB"])
@pytest.mark.parametrize("by", ["array", "file", "folder"])
def test_rows_find_their_nodes(path, tmp_path, by, memory):
    np.save(tmp_path / "by.npy", ORDER)
    told = {"format": "gz-partition", "orig_nids": {"node": "by.npy"}, "orig_eids": {}}
    (tmp_path / "gz-partition.json").write_text(json.dumps(told))
    where = {"array": ORDER, "file": tmp_path / "by.npy", "folder": tmp_path}[by]
    column = gz.open(path).add_feature("x", X[ORDER], by=where, memory=memory)
    assert np.array_equal(column.get_tensor(), X)
    assert all(error is None for _, error in verify(path))


@pytest.mark.parametrize("kept", [False, True])
def test_rows_find_their_edges(tmp_path, kept):
    """By the ids they were ingested in where these are kept, else by position."""
    gz.ingest(tmp_path / "s", edges=(SRC, DST), num_nodes=N, keep_edge_ids=kept, progress=False)
    store, order = gz.open(tmp_path / "s"), RNG.permutation(E)
    store.add_feature("w", order * 10, EDGE, by=order)
    ids = store.graph().edge_ids if kept else np.arange(E)
    assert np.array_equal(store.edge_feature("w").get_tensor(), ids.astype(np.int64) * 10)


def test_the_command(path, tmp_path, capsys):
    np.save(tmp_path / "x.npy", X[ORDER])
    np.save(tmp_path / "by.npy", ORDER)
    call = ["add", str(path), "--feature", f"x={tmp_path / 'x.npy'}", "--by", str(tmp_path / "by.npy")]
    assert main(call) == 0
    assert np.array_equal(gz.open(path).feature("x").get_tensor(), X)
    assert main([*call[:3], f"y={tmp_path / 'x.npy'}", "--by", str(tmp_path)]) == 1
    assert "is no folder that `gz partition` made" in " ".join(capsys.readouterr().err.split())


TWICE = ORDER.copy()
TWICE[7] = TWICE[8]
WRONG = [
    ({"by": ORDER[:-1]}, "has 199 ids, but there are 200 nodes"),
    ({"by": TWICE}, f"some id comes twice, so that {ORDER[7]} has no row"),
    ({"by": np.where(ORDER == 3, N, ORDER)}, "is 200; ids are 0 to 199"),
    ({"by": np.where(ORDER == 3, -1, ORDER)}, "is -1; ids are 0 to 199"),
    ({"by": ORDER.astype(float)}, "is no list of ids"),
    ({"by": ORDER, "adopt": True}, "give neither an order nor adopt"),
    ({"by": ORDER, "order": "stored"}, "give neither an order nor adopt"),
    ({"by": "missing.npy"}, "missing.npy"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=[w[1][:24] for w in WRONG])
def test_wrong_ids_are_an_error_and_the_store_stays(path, options, message):
    store = gz.open(path)
    with pytest.raises((ValueError, OSError)) as error:
        store.add_feature("x", X, **options)
    assert message in str(error.value)
    assert gz.open(path).node_columns() == []
    with pytest.raises(ValueError, match="has 199 rows, but"):
        store.add_feature("x", X[1:], by=ORDER)
