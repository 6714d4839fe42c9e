"""Names that are kept for one version: they do what they did, and say what they are called now."""

from __future__ import annotations

import numpy as np
import pytest

import gz
from gz.cli import main


@pytest.fixture
def path(tmp_path):
    gz.ingest(tmp_path / "s", edges=([0, 1], [1, 0]), features={"x": np.zeros(2)})
    np.save(tmp_path / "x.npy", np.ones(2))
    return tmp_path / "s"


def test_replace_is_overwrite(path):
    store = gz.open(path)
    with pytest.warns(DeprecationWarning, match="replace= is called overwrite= now"):
        store.add_feature("x", np.ones(2), replace=True)
    with pytest.warns(DeprecationWarning, match="called"), pytest.raises(FileExistsError):
        store.add_feature("x", np.ones(2), replace=False)
    with pytest.warns(DeprecationWarning, match="called"):
        gz.add(path, {"x": np.full(2, 3.0)}, replace=True)
    with pytest.warns(DeprecationWarning, match="called"), store.new_column("x", replace=True) as column:
        column.array[:] = 4
    assert gz.open(path).feature("x").get_tensor().tolist() == [4, 4]


def test_edge_splits_without_a_call_are_a_list(path):
    names = gz.open(path).edge_splits
    assert names() == []
    with pytest.warns(DeprecationWarning, match=r"called Store.edge_splits\(\) now"):
        assert names == []
    with pytest.warns(DeprecationWarning, match="called"):
        assert not list(names)
    with pytest.warns(DeprecationWarning, match="called"):
        assert "train" not in names


def test_flags(path, capsys):
    assert main(["add", str(path), "--feature", f"x={path.parent / 'x.npy'}", "--replace"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "--feature is called --features now" in said
    assert "--replace is called --overwrite now" in said
    assert gz.open(path).feature("x").get_tensor().tolist() == [1, 1]
    assert main(["rm", str(path), "--feature", "x"]) == 0
    assert gz.open(path).node_columns() == []
    assert main(["rm", str(path)]) == 2
