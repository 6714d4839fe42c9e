"""Arrays streamed out of .pt files: what torch.load reads, in every form torch writes, in little memory."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch writes the files")
pytest.importorskip("pandas", reason="pandas writes the folders, as it wrote OGB's")

import ogb_folders as folders  # noqa: E402
from stores import same  # noqa: E402

import gz  # noqa: E402
from gz._ingest.read import pickled, pt  # noqa: E402
from gz._ingest.read.files import Files  # noqa: E402

RNG = np.random.default_rng(3)
DATA = {
    "edge": RNG.integers(0, 1 << 40, (30_000, 2)),
    "bytes": RNG.integers(0, 256, 200_000).astype(np.uint8),
    "floats": RNG.standard_normal((9_000, 3, 2)).astype(np.float32),
    "big endian": RNG.integers(0, 1 << 30, 50_000).astype(">i4"),
    "short": RNG.integers(0, 9, (4, 2)),
    "empty": np.zeros((0, 5), np.int64),
    "flags": RNG.random(100_000) < 0.5,
    "names": ["drug", "gene", "drug"],
    "number": 7,
    "scalar": np.int64(12),
    "large number": 1 << 40,
    "real": 0.25,
    "nothing": None,
    "pair": (1, "x"),
    "inner": {"again": RNG.integers(0, 9, 20_000)},
}
FORMS = {
    "zip": {},
    "before torch 1.6": {"_use_new_zipfile_serialization": False},
    "protocol 4": {"pickle_protocol": 4},
    "protocol 5": {"pickle_protocol": 5},
}


def whole(value, rows=1000):
    if isinstance(value, dict):
        return {k: whole(v, rows) for k, v in value.items()}
    if isinstance(value, pickled.PickledArray):
        parts = list(value.chunks(rows))
        assert {p.dtype for p in parts} == {value.dtype}
        return np.concatenate(parts).astype(value.dtype)  # which concatenate would make native
    return value


@pytest.mark.parametrize("rows", [1, 777, 10**9])
@pytest.mark.parametrize("form", list(FORMS))
def test_every_array_is_what_was_saved(tmp_path, form, rows):
    data = {k: v for k, v in DATA.items() if rows > 1 or k in ("floats", "short")}
    torch.save(data, tmp_path / "a.pt", **FORMS[form])
    found = pickled.load(Files().get(str(tmp_path / "a.pt")))
    if rows > 1:
        assert isinstance(found["edge"], pickled.PickledArray)  # it is in the file
    found = whole(found, rows)
    assert list(found) == list(data)
    for key, value in data.items():
        if isinstance(value, np.ndarray):
            same(found[key], value)
        elif key == "inner":
            same(found[key]["again"], value["again"])
        else:
            assert found[key] == value


@pytest.mark.parametrize("form", list(FORMS))
def test_what_torch_reads_is_the_same(tmp_path, form):
    """With weights_only; of protocol 4 and 5, which torch does not read so, with everything allowed."""
    torch.save(DATA, tmp_path / "a.pt", **FORMS[form])
    ours, theirs = (
        whole(pickled.load(Files().get(str(tmp_path / "a.pt")))),
        whole(pt.load(Files().get(str(tmp_path / "a.pt")))),
    )
    trusted = torch.load(tmp_path / "a.pt", weights_only=False)
    assert list(ours) == list(theirs) == list(trusted)
    for key, value in trusted.items():
        if isinstance(value, np.ndarray):
            same(ours[key].astype(value.dtype), value)  # which NumPy makes native
            same(theirs[key].astype(value.dtype), value)


@pytest.mark.parametrize("form", list(FORMS))
def test_a_cut_file_is_refused(tmp_path, form):
    torch.save({"a": np.arange(50_000)}, tmp_path / "a.pt", **FORMS[form])
    raw = (tmp_path / "a.pt").read_bytes()
    for keep in (10, 200, len(raw) // 2):
        (tmp_path / "a.pt").write_bytes(raw[:keep])
        with pytest.raises(pickled.Unsupported):
            pickled.load(Files().get(str(tmp_path / "a.pt")))


@pytest.mark.slow
@given(flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=4))
@pytest.mark.parametrize("form", ["before torch 1.6", "protocol 4"])
def test_damage_is_refused_or_harmless(tmp_path_factory, form, flips):
    """Any few bytes changed: nothing but Unsupported, and rows only if they are as many as promised."""
    path = tmp_path_factory.mktemp("damaged") / "a.pt"
    options = {"_use_new_zipfile_serialization": False, **FORMS[form]}
    torch.save({"a": np.arange(300), "b": [1, "x"], "c": {"d": np.eye(3)}}, path, **options)
    raw = bytearray(path.read_bytes())
    for at, bits in flips:
        raw[at % len(raw)] ^= bits
    path.write_bytes(raw)
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(pickled.Unsupported, gz.InputError):
        patch.setattr(pickled, "_LONG", 64)  # else arrays as short as these are never left in the file
        found = pickled.load(Files().get(str(path)))
        for value in found.values() if isinstance(found, dict) else ():
            if isinstance(value, pickled.PickledArray) and 0 not in value.shape:
                assert sum(map(len, value.chunks(7))) == len(value)


class Call:
    def __init__(self, function, *args):
        self.what = function, args

    def __reduce__(self):
        return self.what


@pytest.mark.parametrize(
    "thing", [Call(print, "called"), Call(eval, "print('called')"), Call(np.load, "x"), object(), {1, 2}, 1j]
)
def test_nothing_that_a_pickle_names_is_called(tmp_path, thing, capsys):
    for protocol in range(2, 6):
        with open(tmp_path / "a.pt", "wb") as f:
            for value in (1, 2, 3, {"a": thing}):
                pickle.dump(value, f, protocol)
        with pytest.raises(pickled.Unsupported):
            pickled.load(Files().get(str(tmp_path / "a.pt")))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("form", ["numpy", "before torch 1.6"])
@pytest.mark.parametrize("kind", list(folders.LINK_SPLITS))
def test_link_splits_beyond_the_budget_are_the_same(tmp_path, kind, form, monkeypatch):
    """The splits of a dataset once read whole by torch, once streamed."""
    folders.text_link(tmp_path / "tiny", kind, form=form)
    read = gz.open(gz.ingest(tmp_path / "a", ogb=tmp_path / "tiny"))
    monkeypatch.setattr("gz._ingest.read.pt._PICKLE_FACTOR", 10**12)
    monkeypatch.setattr(pickled, "_LONG", 64)
    monkeypatch.setattr(pickled, "_READ", 50)
    monkeypatch.setattr(torch, "load", None)
    streamed = gz.open(gz.ingest(tmp_path / "b", ogb=tmp_path / "tiny"))
    assert streamed.edge_splits() == read.edge_splits() == list(folders.SPLITS)
    for name in folders.SPLITS:
        ours, theirs = streamed.edge_split(name), read.edge_split(name)
        assert list(ours) == list(theirs)
        for key in theirs:
            same(ours[key], theirs[key])


@pytest.mark.slow
def test_memory_stays_small(tmp_path):
    """160 MB of negatives, within a budget of 20 MB."""
    folders.text_link(tmp_path / "tiny", "citation")
    big = {"source_node": np.zeros(40_000, int), "target_node": np.zeros(40_000, int)}
    big["target_node_neg"] = np.full((40_000, 500), folders.NODES - 1)
    torch.save(big, tmp_path / "tiny/split/time/test.pt")
    script = """
import sys
import gz, gz._ingest, torch
def memory(name):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(name))
before = memory("VmRSS")
gz.ingest(sys.argv[1] + "/s", ogb=sys.argv[1] + "/tiny", memory="20MB")
print(memory("VmHWM") - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd="/", check=True, capture_output=True, text=True
    )
    assert int(done.stdout) < 100e6
    same(gz.open(tmp_path / "s").edge_split("test")["target_node_neg"], big["target_node_neg"])


def test_what_occurs_twice_at_every_level_is_read_once(tmp_path):
    value = {"rows": np.arange(3)}
    for _ in range(60):
        value = {"a": value, "b": value}
    torch.save(value, tmp_path / "n.pt")
    with Files() as files:
        for read in (pt.load, pickled.load):
            inner = read(files.get(str(tmp_path / "n.pt")))
            for _ in range(60):
                assert inner["a"] is inner["b"]
                inner = inner["a"]
            assert inner["rows"].tolist() == [0, 1, 2]
