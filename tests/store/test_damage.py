"""Damaged stores: whatever a file holds, a reader gets right data or FormatError; `gz verify` names it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import struct
from pathlib import Path

import forge
import numpy as np
import pytest
from forge import ALIAS, DATA, EDGE_IDS, EDGE_POSITIONS, INDICES, INDPTR, WEIGHTS

import gz
from gz.cli import main
from gz.verify import verify

N, E = 60, 500
RNG = np.random.default_rng(0)
SRC, DST = RNG.integers(0, N, (2, E))
KEYS = np.array([f"key {i}" for i in range(N)])
IN, OUT = "edges/node__to__node/in.gl", "edges/node__to__node/out.gl"


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    gz.ingest(
        folder / "s",
        edges=(SRC, DST),
        features={"x": RNG.random((N, 4)), "flag": RNG.random(N) < 0.5},
        edge_features={"w": RNG.integers(0, 4, E).astype(np.float32)},
        weight="w",
        splits={"train": np.arange(0, N, 2)},
        directions="both",
        keep_edge_ids=True,
    )
    return folder / "s"


@pytest.fixture
def store(sound, tmp_path) -> Path:
    shutil.copytree(sound, tmp_path / "s")
    return tmp_path / "s"


@pytest.fixture
def mapped(tmp_path) -> Path:
    gz.ingest(tmp_path / "m", edges=(KEYS[SRC], KEYS[DST]), ids="map")
    return tmp_path / "m"


def wrong(path) -> dict[str, str]:
    return {os.path.relpath(name, path): str(error) for name, error in verify(path) if error is not None}


def read_everything(path) -> None:
    """Every public reading function of a store, over all of it."""
    store = gz.open(path)
    nodes = np.arange(N)
    for direction in ("in", "out"):
        graph = store.graph(direction=direction)
        w = np.ones(E)
        graph.sample(nodes, [-1, 3])
        graph.sample(nodes, [2, 2], replace=True, disjoint=True, weights=w)
        graph.sample(nodes, [2], weights=w)
        graph.batch_random_fanout(nodes, 5)
        for q in (1.0, 0.5, 100.0):
            graph.batch_random_walk(nodes, 20, q=q)
        graph.degree(nodes)
        for v in range(N):
            graph.neighbors(v)
        store.sample({"node": nodes}, [3, 3], direction=direction)
    for name in store.node_columns():
        store.feature(name).gather(nodes)
    store.edge_feature("w").gather(np.arange(E))
    store.split("train")


def test_a_sound_store_is_sound(store, mapped):
    assert wrong(store) == {}
    read_everything(store)
    assert wrong(mapped) == {}


@pytest.mark.parametrize(
    "options",
    [
        {"undirected": True},
        {"undirected": True, "coalesce": True},
        {"coalesce": True},
        {"self_loops": "remove"},
        {"self_loops": "add"},
        {"self_loops": "add", "undirected": True, "coalesce": True, "neighbor_order": "input"},
    ],
    ids=str,
)
def test_every_kind_of_ingest_is_sound(options, tmp_path):
    weights = {"w": RNG.random(E).astype(np.float32)}
    for directions in ("both", "out"):
        gz.ingest(
            tmp_path / directions,
            edges=(SRC, DST),
            num_nodes=N,
            edge_features=weights,
            weight="w",
            keep_edge_ids=True,
            directions=directions,
            **options,
        )
        assert wrong(tmp_path / directions) == {}


def set_at(i, value):
    def edit(a):
        a[i] = value

    return edit


def swap(i, j):
    def edit(a):
        a[[i, j]] = a[[j, i]]

    return edit


def descend(a):
    a[10] = a[11] + 1


# What is changed in which file, and what verify says of it. The checksums are right.
FORGERIES = {
    "wild edge id, in": (IN, EDGE_IDS, set_at(7, 2**30), "edge id must be below .* position 7"),
    "wild edge id, out": (OUT, EDGE_IDS, set_at(7, E), "edge id must be below .* position 7"),
    "row twice": (OUT, EDGE_IDS, set_at(7, 8), "row of the 'in' topology must occur once"),
    "rows swapped": (OUT, EDGE_IDS, swap(0, E - 1), "does not hold the edges of"),
    "ids swapped": (IN, EDGE_IDS, swap(3, 4), "position of an edge id is not where"),
    "positions swapped": (IN, EDGE_POSITIONS, swap(3, 4), "position of an edge id is not where"),
    "wild position": (IN, EDGE_POSITIONS, set_at(9, E), "edge position must be below .* edge id 9"),
    "no position": (IN, EDGE_POSITIONS, set_at(9, 2**32 - 1), "position of an edge id is not where"),
    "wild neighbour": (IN, INDICES, set_at(5, N), "neighbour must be below .* position 5"),
    "another neighbour": (OUT, INDICES, lambda a: a.sort(), "does not ascend|does not hold the edges"),
    "indptr descends": (OUT, INDPTR, descend, "indptr must not descend .* node 10"),
    "wild partner": (IN, ALIAS, set_at(1, 2**31), "alias entry must point into its own list"),
    "other thresholds": (IN, ALIAS, lambda a: a[::2].fill(2**31), "alias table must draw in proportion"),
    "other weights": (OUT, WEIGHTS, lambda a: a.fill(1), "alias table must draw in proportion"),
    "weight of nothing": (IN, WEIGHTS, set_at(3, np.nan), "weights must be finite .* position 3"),
    "wild split": ("nodes/node/split-train.gd", DATA, set_at(4, N), "row 4 is 60, but there are 60 nodes"),
}


@pytest.mark.parametrize("case", FORGERIES)
def test_data_that_breaks_a_rule_is_found_and_never_followed(case, store):
    file, section, edit, message = FORGERIES[case]
    forge.change(store / file, section, edit)
    found = wrong(store)
    assert list(found) == [file]
    assert re.search(message, found[file]), found[file]
    try:
        read_everything(store)
    except gz.FormatError as e:
        assert file in str(e)  # noqa: PT017


HEADERS = {
    "2^32 edge ids in out": (OUT, [(344, "Q", 2**32)], "4294967296 edge ids for 500 edges"),
    "rows without ids": (OUT, [(64 + 32 * EDGE_IDS, "QQQII", 0, 0, 0, 0, 0)], "but there are none"),
    "rows in an in file": (IN, [(40, "Q", 3)], "flagged as rows of the 'in' topology, but it is one"),
    "ids without positions": (
        IN,
        [(64 + 32 * EDGE_POSITIONS, "QQQII", 0, 0, 0, 0, 0)],
        "'edge_positions' must be there exactly where",
    ),
    "rows flag away": (OUT, [(40, "Q", 1)], "'edge_positions' must be there exactly where"),
    "other direction": (OUT, [(352, "I", 0), (40, "Q", 1), (64 + 32 * EDGE_IDS, "QQQII", *[0] * 5)], "'in'"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_that_contradict_themselves_are_refused_at_open(case, store):
    file, changes, message = HEADERS[case]
    for change in changes:
        forge.put(store / file, *change)
    direction = "in" if file == IN else "out"
    with pytest.raises(gz.FormatError, match=message):
        gz.open(store).graph(direction=direction)
    found = wrong(store)
    assert file in found
    assert set(found) <= {IN, OUT}
    if case != "other direction":
        with pytest.raises(gz.FormatError, match=message):
            gz.Graph(store / file)


def test_a_flipped_bit_is_an_error_or_no_matter_in_every_place_of_the_edge_ids(store):
    """No checksum is looked at while sampling: what is read is compared with its bound."""
    for file in (IN, OUT):
        good = (store / file).read_bytes()
        offset, size = struct.unpack_from("<QQ", good, 64 + 32 * EDGE_IDS)
        for at in (*range(offset, offset + 40), offset + size - 1):
            for bit in (0, 7):
                bad = bytearray(good)
                bad[at] ^= 1 << bit
                (store / file).write_bytes(bad)
                for direction in ("in", "out"):
                    graph = gz.open(store).graph(direction=direction)
                    try:
                        got = graph.sample(np.arange(N), [-1])
                    except gz.FormatError as e:
                        assert f"{file}: the edge id at position" in str(e)  # noqa: PT017
                    else:
                        assert got.edge_ids.max() < E
                        assert got.edge_rows.max() < E
        (store / file).write_bytes(good)


# ---- files in each other's place ----


@pytest.mark.parametrize(("source", "target"), [(OUT, IN), (IN, OUT)])
def test_a_topology_in_the_place_of_the_other_is_refused(source, target, store):
    shutil.copy(store / source, store / target)
    direction = "in" if target == IN else "out"
    with pytest.raises(gz.FormatError, match="is not the file that store.json names"):
        gz.open(store).graph(direction=direction)
    assert target in wrong(store)
    forge.edit_json(store, lambda d: d.pop("files"))  # a store of before
    with pytest.raises(gz.FormatError, match=f"store.json calls it the '{direction}' topology"):
        gz.open(store).graph(direction=direction)
    assert target in wrong(store)


def test_an_out_file_beside_another_is_refused_on_its_own_too(store):
    shutil.copy(store / OUT, store / IN)
    with pytest.raises(gz.FormatError, match="is not the 'in' topology of"):
        gz.Graph(store / OUT)
    assert gz.Graph(store / IN).direction == "out"


def test_files_of_another_store_are_found(store, tmp_path):
    gz.ingest(tmp_path / "other", edges=(DST, SRC), num_nodes=N, directions="both", keep_edge_ids=True)
    shutil.copy(tmp_path / "other" / OUT, store / OUT)
    with pytest.raises(gz.FormatError, match="is not the file that store.json names"):
        gz.open(store).graph(direction="out")
    forge.edit_json(store, lambda d: d.pop("files"))
    assert "does not hold the edges of" in wrong(store)[OUT]


def test_columns_in_each_others_place_are_found(tmp_path):
    columns = {"a": np.arange(N), "b": np.arange(N) * 2}
    gz.ingest(tmp_path / "s", edges=(SRC, DST), features=columns)
    folder = tmp_path / "s/nodes/node"
    os.rename(folder / "a.gd", folder / "c.gd")
    shutil.copy(folder / "b.gd", folder / "a.gd")
    with pytest.raises(gz.FormatError, match="is not the file that store.json names"):
        gz.open(tmp_path / "s").feature("a")
    assert list(wrong(tmp_path / "s")) == ["nodes/node/a.gd"]


# ---- verify goes on ----


def test_verify_reports_every_damaged_file(mapped):
    for part in ("hash", "dense", "bytes"):
        path = mapped / f"nodes/node/id-{part}.gd"
        data = bytearray(path.read_bytes())
        data[4096 + 17] ^= 1
        path.write_bytes(data)
    forge.change(mapped / IN, INDICES, set_at(0, N))
    found = wrong(mapped)
    parts = {f"nodes/node/id-{part}.gd" for part in ("hash", "dense", "bytes")}
    assert parts | {IN} <= set(found)
    assert len(found) == len(parts) + 2  # and the map as a whole


ID_MAP = {
    "dense out of range": ("dense", set_at(5, 10**9), "names node 1000000000 of 60"),
    "dense twice": ("dense", set_at(5, 0), "does not lead back"),
    "hash descends": ("hash", swap(0, N - 1), "descends after row"),
    "offsets descend": ("offsets", set_at(5, 10**6), "descends after row 5"),
    "offsets end early": ("offsets", set_at(N, 3), "do not run from 0 to|descends"),
    "another text": ("bytes", set_at(3, 0x41), "does not lead back"),
}


@pytest.mark.parametrize("case", ID_MAP)
def test_id_maps_that_break_a_rule_are_found_and_never_followed(case, mapped):
    part, edit, message = ID_MAP[case]
    forge.change(mapped / f"nodes/node/id-{part}.gd", DATA, edit)
    (found,) = wrong(mapped).values()
    assert re.search(message, found), found
    ids = gz.open(mapped).id_map()
    with contextlib.suppress(gz.FormatError, KeyError):
        ids.to_dense(KEYS)
    for i in range(N):
        try:
            ids.to_original([i])
        except gz.FormatError as e:
            assert "id-offsets.gd" in str(e)  # noqa: PT017


def test_an_id_map_of_another_size_is_refused(mapped):
    gz.ingest(mapped.parent / "few", edges=(KEYS[:3], KEYS[1:4]), ids="map")
    shutil.copy(mapped.parent / "few/nodes/node/id-hash.gd", mapped / "nodes/node/id-hash.gd")
    forge.edit_json(mapped, lambda d: d.pop("files"))
    with pytest.raises(gz.FormatError, match=r"id-hash.gd: is int64 of shape \(4,\)"):
        gz.open(mapped).id_map()


def test_verify_looks_at_the_files_of_a_store_it_cannot_open(store, capsys):
    forge.change(store / IN, INDICES, set_at(0, N))
    (store / "store.json").write_text("{")
    found = wrong(store)
    assert set(found) == {"store.json", IN}
    assert main(["verify", str(store)]) == 1
    out, err = capsys.readouterr()
    assert re.search(rf"FAILED {store}/store.json: .*not valid JSON", " ".join(err.split())), err
    assert f"ok      {store}/nodes/node/x.gd" in out.splitlines()


# ---- store.json ----


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside/hash.gd", "", 7, None, "a\0b"])
def test_no_path_of_store_json_leads_out_of_the_store(path, mapped, store):
    def id_map(d):
        d["nodes"]["node"]["id_map"]["hash"] = path

    forge.edit_json(mapped, id_map)
    with pytest.raises(gz.FormatError, match=r"store.json: node type 'node': id_map: hash is .* inside the"):
        gz.open(mapped)
    with pytest.raises(gz.FormatError, match="store.json"):
        gz.add(mapped, {"y": np.zeros(N)})
    assert sorted(os.listdir(mapped.parent)) == ["m", "s"]

    def column(d):
        d["nodes"]["node"]["columns"]["x"]["file"] = path

    forge.edit_json(store, column)
    with pytest.raises(gz.FormatError, match=r"store.json: .*'x'"):
        gz.open(store)


def test_an_adopted_file_is_shown(store, tmp_path, capsys):
    np.save(tmp_path / "out.npy", np.zeros(N))
    gz.add(store, {"far": tmp_path / "out.npy"}, adopt=True)
    assert main(["info", str(store)]) == 0
    assert f"adopted: {tmp_path / 'out.npy'}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 100_000, "1" * 10_000, '{"format": "gz-store", "version": 1e400}', "\xff\xfe"],
    ids=["lists", "objects", "digits", "infinite", "bytes"],
)
def test_a_store_json_of_any_text_is_refused_by_name(text, store):
    (store / "store.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(gz.FormatError, match="store.json"):
        gz.open(store)


def test_splits_may_have_any_name(tmp_path):
    """Names are keys of store.json, never paths."""
    gz.ingest(tmp_path / "s", edges=(np.array([0, 1]), np.array([1, 2])), splits={"../../x/y": [0, 1]})
    assert gz.open(tmp_path / "s").split("../../x/y").tolist() == [0, 1]
    assert sorted(os.listdir(tmp_path)) == ["s"]
    assert wrong(tmp_path / "s") == {}


def test_a_split_that_counts_beyond_its_names_is_refused(store):
    def add(d):
        d["edge_splits"] = {"valid": {"kind": {"file": "nodes/node/split-train.gd", "names": ["a", "b"]}}}

    forge.edit_json(store, add)
    with pytest.raises(gz.FormatError, match="edge split 'valid': 'kind': row 1 is 2, but there are 2 names"):
        gz.open(store).edge_split("valid")
    assert "row 1 is 2, but there are 2 names" in "".join(wrong(store).values())
