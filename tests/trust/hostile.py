"""Stores broken in every way a seed can name: headers, data, store.json, whole files; mostly with every
checksum made right again, so that only a rule of the format is left to find it.

    python tests/trust/hostile.py OUT --cases 500 --seed 0     that many, for a program that reads files
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import resource
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forge
import numpy as np

import gz

Rng = np.random.Generator
N, E = 40, 160
EDGES = [0, 1, 2, 3, 7, 8, N - 1, N, N + 1, E - 1, E, E + 1, 255, 256, 4095, 4096, 4097, 8192, 12288]
EDGES += [2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**40, 2**61, 2**62 - 1, 2**62]
EDGES += [2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1]
KEYS = ["", "\0", "..", "a/b", "é", "x" * 300, "node", "x", "\ud800"]


# ---- what they are made of ----


def make_sound(folder: Path) -> dict[str, Path]:
    """Four stores that between them have every section, kind of column and kind of id."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, N, (2, E))
    columns = {
        "x": rng.random((N, 5), dtype=np.float32),
        "wide": rng.random((N, 70)).astype(np.float16),
        "flag": rng.random(N) < 0.5,
        "none": np.zeros((N, 0), np.int16),
        "half": rng.random((N, 3)),
        "brain": rng.random((N, 2, 2)),
        "bytes": rng.standard_normal((N, 131)),
    }
    gz.ingest(
        folder / "one",
        edges=(src, dst),
        features=columns,
        edge_features={"w": rng.integers(0, 4, E).astype(np.float32), "time": rng.integers(0, 9, E)},
        weight="w",
        splits={"train": np.arange(0, N, 2)},
        directions="both",
        keep_edge_ids=True,
        undirected=True,
        dtype={"half": "float16", "brain": "bfloat16", "bytes": "int8"},
    )
    np.save(folder / "far.npy", rng.random((N, 3)))
    gz.add(folder / "one", {"far": folder / "far.npy"}, adopt=True)
    assert set(gz.reorder(folder / "one", share=0.5, fanouts=[2, 2])) == {
        "node/wide",
        "node/bytes",
        ("node", "to", "node"),
    }
    names = np.array([f"key {i}" for i in range(N)])
    gz.ingest(folder / "text", edges=(names[src], names[dst]), ids="map", directions="out")
    np.save(folder / "edge.npy", np.stack([src, dst], 1)[:9])
    np.save(folder / "head.npy", np.arange(9) % 2)
    head = {"file": str(folder / "head.npy"), "names": ["a", "b"]}
    typed = {
        "nodes": {
            "a": {"features": {"x": columns["x"], "kind": np.arange(N) % 3}},
            "b": {"num_nodes": N + 5},
        },
        "edges": {("a", "to", "b"): (src, dst), ("b", "back", "a"): (dst, src), ("a", "on", "a"): (src, dst)},
        "edge_splits": {"valid": {"edge": str(folder / "edge.npy"), "head_type": head}},
    }
    gz.ingest(folder / "typed", spec=typed)
    forge.edit_json(
        folder / "typed", lambda d: d["nodes"]["a"]["columns"]["kind"].update(names=["p", "q", "r"])
    )
    gz.ingest(folder / "int", edges=(src * 1000 - 7, dst * 1000 - 7), ids="map", neighbor_order="input")
    return {name: folder / name for name in ("one", "text", "typed", "int")}


def files_of(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*.g[ld]") if p.is_file() and not p.is_symlink())


def pick(rng: Rng, things: Any) -> Any:
    return things[int(rng.integers(len(things)))]


# ---- one change each: what they did, in words ----

FIELDS = [
    (0, "Q"),
    (8, "I"),
    (12, "I"),
    (16, "I"),
    (20, "I"),
    (24, "Q"),
    (40, "Q"),
    (48, "Q"),
    (391, "B"),
    (4095, "B"),
]
FIELDS += [
    (64 + 32 * s + at, form)
    for s in range(8)
    for at, form in ((0, "Q"), (8, "Q"), (16, "Q"), (24, "I"), (28, "I"))
]
FIELDS += [(320 + 8 * i, "Q") for i in range(9)] + [(352, "I"), (356, "I"), (320, "I"), (324, "I")]


def header(rng: Rng, root: Path) -> str:
    path, (at, form) = pick(rng, files_of(root)), pick(rng, FIELDS)
    size = struct.calcsize(form)
    old = int.from_bytes(path.read_bytes()[at : at + size], "little")
    value = pick(rng, [pick(rng, EDGES), old + 1, old - 1, old ^ (1 << int(rng.integers(8 * size))), old * 2])
    value %= 1 << (8 * size)
    forge.put(path, at, form, value)
    return f"{path.name}: header at {at}: {old} -> {value}"


def data(rng: Rng, root: Path) -> str:
    path = pick(rng, files_of(root))
    there = [
        s for s in range(6) if struct.unpack_from("<I", path.read_bytes(), 64 + 32 * s + 24)[0] in forge.NUMPY
    ]
    section, said = pick(rng, there) if there else 0, []

    def edit(a: np.ndarray) -> None:
        if len(a) == 0:
            return said.append("nothing")
        i, j = rng.integers(len(a), size=2)
        change = int(rng.integers(7))
        with np.errstate(all="ignore"):
            if change == 0:
                a[i] = _value(rng, a.dtype)
            elif change == 1:
                a[[i, j]] = a[[j, i]]
            elif change == 2:
                a[min(i, j) : max(i, j)] = _value(rng, a.dtype)
            elif change == 3:
                a[i] = a[j]
            elif change == 4:
                a[:] = a[::-1].copy()
            elif change == 5:
                a[min(i, j) :] += a.dtype.type(1)
            else:
                a.view(np.uint8)[rng.integers(a.nbytes)] ^= np.uint8(1 << int(rng.integers(8)))
        said.append(f"change {change} at {i}, {j}")

    if there:
        forge.change(path, section, edit)
    return f"{path.name}: section {section}: {said}"


def _value(rng: Rng, dtype: np.dtype) -> Any:
    if dtype.kind == "b":
        return True
    if dtype.kind == "f":
        return pick(rng, [np.nan, np.inf, -1.0, 0.0, 1e30, 1e-45, -0.0, 2.0])
    return (
        np.array(pick(rng, EDGES) % (1 << (8 * dtype.itemsize)), np.uint64)
        .astype(f"u{dtype.itemsize}")
        .view(dtype)
    )


def flip(rng: Rng, root: Path) -> str:
    """A bit, with no checksum to match."""
    path = pick(rng, files_of(root))
    raw = bytearray(path.read_bytes())
    at = int(rng.integers(len(raw))) if rng.random() < 0.7 else int(rng.integers(400))
    raw[at] ^= 1 << int(rng.integers(8))
    path.write_bytes(raw)
    return f"{path.name}: a bit of byte {at}"


def length(rng: Rng, root: Path) -> str:
    path = pick(rng, files_of(root))
    old = path.stat().st_size
    new = pick(rng, [0, 7, 4095, 4096, old - 1, old + 1, old + 4096, int(rng.integers(old)), 1 << 24])
    os.truncate(path, new)
    if new >= 4096 and rng.random() < 0.5:
        with open(path, "r+b") as f:  # not by forge, which would read all of it
            head = bytearray(f.read(4096))
            struct.pack_into("<Q", head, 24, new)
            f.seek(0)
            f.write(forge.sealed(head))
    return f"{path.name}: {old} -> {new} bytes"


def swap(rng: Rng, root: Path) -> str:
    a, b = pick(rng, files_of(root)), pick(rng, files_of(root))
    shutil.copy(a, b)
    if rng.random() < 0.7:
        forge.edit_json(root, lambda d: d.pop("files", None))
    return f"{a.name} over {b.relative_to(root)}"


def instead(rng: Rng, root: Path) -> str:
    path = pick(rng, [*files_of(root), root / "store.json", pick(rng, files_of(root)).parent])
    what = pick(rng, ["gone", "folder", "fifo", "link out", "link in", "device"])
    kept = root.parent / "kept"
    shutil.rmtree(kept, ignore_errors=True)
    kept.unlink(missing_ok=True)
    os.rename(path, kept)
    if what == "folder":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "link out":
        path.symlink_to(kept)
    elif what == "link in":
        os.rename(kept, path.with_name("moved" + path.suffix))
        path.symlink_to("moved" + path.suffix)
    elif what == "device":
        path.symlink_to("/dev/zero")
    return f"{path.relative_to(root)}: {what}"


def grow(rng: Rng, root: Path) -> str:
    """A node type of another size, wherever no file has a row for each of them."""
    d = json.loads((root / "store.json").read_text())
    t, n = pick(rng, list(d["nodes"])), pick(rng, [x for x in EDGES if x < 2**62])
    d["nodes"][t]["num_nodes"] = n
    (root / "store.json").write_text(json.dumps(d))
    # Files are named by what was found in the folder, never by store.json: a change before this one may have
    # put any path there, and tests run as root.
    own = {str(p.relative_to(root)): p for p in files_of(root)}
    for e in d["edges"]:
        for way, end in (("in", 0), ("out", 2)):
            if e[way] in own and e["type"][end] == t and n <= 2**32:
                forge.put(own[e[way]], 328, "Q", n)
    return f"{n} nodes of type {t}"


# ---- store.json ----

ANY = [
    None,
    True,
    False,
    0,
    1,
    -1,
    1.5,
    10**30,
    2**62,
    2**61,
    "",
    "x",
    "../x.gd",
    "/nonexistent-gz/x.gd",
    "a\0b",
    [],
    {},
    [1],
    ["node"],
    {"file": "x.gd"},
]
ANY += [
    {"npy": "/nonexistent-gz/x.npy"},
    {"npy": "../far.npy"},
    {"npy": "nodes/node/x.gd"},
    "position",
    "text",
    "\ud800.gd",
    "nodes/node/x.gd",
    [[[[]]]],
]


def _places(value: Any, path: tuple = ()) -> list[tuple]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [p for k, v in inner for p in [(*path, k), *_places(v, (*path, k))]]


def manifest(rng: Rng, root: Path) -> str:
    file = root / "store.json"
    d = json.loads(file.read_text())
    d.pop("plan", None)
    place = pick(rng, _places(d))
    at = d
    for key in place[:-1]:
        at = at[key]
    how = int(rng.integers(5))
    value: Any = None
    if how == 0:
        del at[place[-1]]
    elif how == 1 and isinstance(at, dict):
        value = pick(rng, KEYS)
        at[value] = at.pop(place[-1])
    elif how == 2:
        value = pick(rng, _places(d))
        other = d
        for key in value:
            other = other[key]
        at[place[-1]] = copy.deepcopy(other)
    else:
        value = pick(rng, ANY)
        at[place[-1]] = value
    file.write_text(json.dumps(d))
    return f"store.json: {'/'.join(map(repr, place))}: {how} {value!r}"


def text(rng: Rng, root: Path) -> str:
    file = root / "store.json"
    raw = bytearray(file.read_bytes())
    i, j = sorted(rng.integers(len(raw), size=2).tolist())
    how = int(rng.integers(4))
    if how == 0:
        raw[i] ^= 1 << int(rng.integers(8))
    elif how == 1:
        del raw[i : min(j, i + 20)]
    elif how == 2:
        raw[i:i] = pick(
            rng, [b"[" * 5000, b'{"a":' * 5000, b"9" * 5000, b"\xff", b"\\ud800", b"NaN", b"1e999"]
        )
    else:
        del raw[i:]
    file.write_bytes(raw)
    return f"store.json: text {how} at {i}"


CHANGES: list[Callable[[Rng, Path], str]] = [
    header,
    header,
    data,
    data,
    data,
    flip,
    length,
    swap,
    instead,
    grow,
    manifest,
    manifest,
    text,
]


def make_hostile(sound: dict[str, Path], seed: int, target: Path) -> str:
    """Writes TARGET/s, the store that the seed names; returns what was done to it."""
    rng = np.random.default_rng(seed)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    name = pick(rng, sorted(sound))
    root = target / "s"
    shutil.copytree(sound[name], root)
    said = [name]
    for _ in range(pick(rng, [1, 1, 1, 2, 3])):
        if not (root / "store.json").is_file() or (root / "store.json").is_symlink():
            break
        try:
            said.append(pick(rng, CHANGES)(rng, root))
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            IndexError,
            struct.error,
            RecursionError,
        ) as e:
            said.append(f"(no further: {type(e).__name__})")  # the change before has left nothing to change
            break
    return "; ".join(said)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))
    originals = make_sound(a.out / "sound")
    for s in range(a.seed, a.seed + a.cases):
        print(s, make_hostile(originals, s, a.out / str(s)))
