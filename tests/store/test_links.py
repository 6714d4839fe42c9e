"""Symbolic links in a store: no file is read, written, made or removed through one. Adoption is the one way
out, and is shown."""

from __future__ import annotations

import os
from pathlib import Path

import forge
import numpy as np
import pytest

import gz
from gz.cli import main
from gz.verify import verify

N, E = 30, 90
RNG = np.random.default_rng(0)
IN, OUT, X = "edges/node__to__node/in.gl", "edges/node__to__node/out.gl", "nodes/node/x.gd"


@pytest.fixture
def store(tmp_path) -> Path:
    src, dst = RNG.integers(0, N, (2, E))
    keys = np.array([f"k{i}" for i in range(N)])
    gz.ingest(
        tmp_path / "s",
        edges=(keys[src], keys[dst]),
        nodes=keys.tolist(),
        ids="map",
        features={"x": RNG.random((N, 2)), "y": np.arange(N)},
        directions="both",
    )
    return tmp_path / "s"


def link_away(path: Path, outside: Path) -> None:
    """The same bytes, elsewhere: everything matches but the place."""
    outside.parent.mkdir(exist_ok=True)
    os.rename(path, outside)
    path.symlink_to(outside)


READS = {
    IN: lambda s: s.graph(),
    OUT: lambda s: s.graph(direction="out"),
    X: lambda s: s.feature("x"),
    "nodes/node/id-hash.gd": lambda s: s.id_map(),
}


@pytest.mark.parametrize("file", READS)
@pytest.mark.parametrize("what", ["the file", "its folder", "the folder above", "a link inside"])
def test_a_file_is_not_read_through_a_link(file, what, store, tmp_path):
    path = store / file
    if what == "a link inside":
        os.rename(path, path.with_name("moved"))
        path.symlink_to("moved")
    else:
        up = {"the file": path, "its folder": path.parent, "the folder above": path.parent.parent}[what]
        link_away(up, tmp_path / "outside" / up.name)
    with pytest.raises(OSError, match="symbolic link") as error:
        READS[file](gz.open(store))
    assert os.path.dirname(error.value.filename) == str(path.parent)
    found = {os.path.relpath(name, store): str(e) for name, e in verify(store) if e is not None}
    assert "symbolic link" in found[file]


def test_store_json_is_not_read_through_a_link_and_a_store_may_be_reached_by_one(store, tmp_path):
    (tmp_path / "name").symlink_to(store)
    assert gz.open(tmp_path / "name").num_nodes() == N
    assert all(error is None for _, error in verify(tmp_path / "name"))
    link_away(store / "store.json", tmp_path / "outside.json")
    with pytest.raises(OSError, match="symbolic link"):
        gz.open(store)


def test_an_out_file_on_its_own_does_not_follow_a_link_beside_it(store, tmp_path):
    link_away(store / IN, tmp_path / "outside" / "in.gl")
    with pytest.raises(OSError, match="symbolic link"):
        gz.Graph(store / OUT)


# ---- writing ----


def tree(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_a_column_is_not_added_or_removed_through_a_link(store, tmp_path):
    outside = tmp_path / "outside"
    link_away(store / "nodes/node", outside / "node")
    (outside / "node" / "old~01234567.gd").write_bytes(b"no column of any store")
    before = tree(outside)
    for add in (
        lambda: gz.add(store, {"z": np.zeros(N)}),
        lambda: gz.open(store).new_column("z"),
        lambda: gz.add(store, {"x": np.zeros((N, 2))}, overwrite=True),
    ):
        with pytest.raises(OSError, match="symbolic link"):
            add()
    gz.open(store).remove_feature("x")
    assert tree(outside) == before


@pytest.mark.parametrize("name", ["store.json.new", ".lock"])
def test_store_json_is_not_written_through_a_link(name, store, tmp_path):
    victim = tmp_path / "precious"
    victim.write_text("mine")
    (store / name).unlink(missing_ok=True)
    (store / name).symlink_to(victim)
    try:
        gz.add(store, {"z": np.zeros(N)})
    except OSError as e:
        assert name == ".lock", e  # noqa: PT017
    assert victim.read_text() == "mine"


def test_an_unknown_part_of_an_id_map_leads_nowhere(store, tmp_path):
    def edit(d):
        node = d["nodes"]["node"]
        node["id_map"] = {"extra": "../outside/x.gd", **node["id_map"]}
        node["columns"], node["splits"] = {}, {}

    forge.edit_json(store, edit)
    gz.add(store, {"z": np.zeros(N)})
    assert sorted(os.listdir(tmp_path)) == ["s"]


# ---- adoption ----


def test_what_is_adopted_is_shown_wherever_it_is(store, tmp_path, capsys):
    np.save(tmp_path / "far.npy", np.arange(N))
    far = {"npy": str(tmp_path / "far.npy")}

    def edit(d):
        d["nodes"]["node"]["columns"]["far"] = far
        d["nodes"]["node"]["splits"]["train"] = far
        d["edges"][0]["columns"]["w"] = {"npy": "../w.npy"}
        d["edge_splits"] = {"valid": {"edge": far}}

    np.save(tmp_path / "w.npy", np.zeros(E))
    forge.edit_json(store, edit)
    assert main(["info", str(store)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count(f"adopted: {tmp_path / 'far.npy'}") == 3
    assert "w.npy" in out
    assert out.count("adopted: ") == 4


@pytest.mark.parametrize("path", ["/etc/passwd", "far.gd", "../s/nodes/node/x.gd", "", "a\0.npy", None, 3])
def test_only_an_npy_can_be_adopted(path, store):
    forge.edit_json(store, lambda d: d["nodes"]["node"]["columns"].update(far={"npy": path}))
    with pytest.raises(gz.FormatError, match=r"store.json: .*'far': npy is"):
        gz.open(store)
