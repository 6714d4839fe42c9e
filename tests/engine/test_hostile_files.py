"""Files that are not what their names promise: refused at once, by name, never waited for."""

from __future__ import annotations

import io
import os
import socket

import numpy as np
import pytest

import gz
from gz import _engine


@pytest.fixture(params=["fifo", "socket", "directory", "device"])
def no_file(request, tmp_path):
    """Makes one under a given name."""

    def make(name):
        path = tmp_path / name
        if request.param == "fifo":
            os.mkfifo(path)
        elif request.param == "directory":
            path.mkdir()
        elif request.param == "device":
            path.symlink_to("/dev/zero")
        else:
            try:
                socket.socket(socket.AF_UNIX).bind(str(path))
            except OSError as e:
                pytest.skip(f"no socket here: {e}")
        return path

    return make


@pytest.mark.parametrize(
    "open_it",
    [gz.Graph, gz.FeatureStore, _engine.verify_topology, _engine.verify_feature],
)
def test_what_is_no_file_is_not_opened(open_it, no_file):
    path = no_file("x.gl")
    with pytest.raises(OSError, match="x.gl") as error:
        open_it(str(path))
    assert not isinstance(error.value, FileNotFoundError)


@pytest.mark.parametrize("name", ["e.csv", "e.csv.gz", "e.npy", "e.gl", "e.parquet", "e.pt"])
def test_what_is_no_file_is_not_ingested(name, no_file, tmp_path):
    path = no_file(name)
    with pytest.raises((OSError, gz.InputError), match="e"):
        gz.ingest(tmp_path / "g", edges=path)
    assert not (tmp_path / "g").exists()


def test_what_is_no_file_is_not_adopted_and_is_no_manifest(no_file, tmp_path):
    with pytest.raises(OSError, match="x.npy"):
        gz.FeatureStore(no_file("x.npy"))
    no_file("store.json")
    with pytest.raises(OSError, match="store.json"):
        gz.open(tmp_path)


@pytest.mark.parametrize("shape", [(-2, 2), (2, -2), (-2, -2), (-1,)])
def test_a_negative_shape_is_no_array(shape, tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (2, 2)})
    text = header.getvalue().replace(b"(2, 2)", str(shape).encode())
    text = text[:-1].rstrip(b" ")
    path = tmp_path / "x.npy"
    path.write_bytes(text.ljust(127) + b"\n" + bytes(64))
    with pytest.raises(ValueError, match=r"x.npy.*-"):
        gz.FeatureStore(path)
    with pytest.raises(gz.InputError, match=r"x.npy.*-"):
        gz.ingest(tmp_path / "g", edges=path)
    with pytest.raises(gz.InputError, match=r"x.npy.*-"):
        gz.ingest(tmp_path / "h", edges=np.array([[0, 1], [1, 0]]), features={"x": path})


@pytest.mark.parametrize("offsets", [[0, 5], [0, 2, 1, 3], [3, 2], [0, 2**63], [2**64 - 1, 2], [4, 4]])
def test_offsets_of_text_are_not_trusted(offsets, tmp_path):
    text = np.frombuffer(b"abc", np.uint8)
    array = np.array(offsets, np.uint64)
    with pytest.raises(ValueError, match="offsets"):
        _engine.hash_text(array, text)
    with pytest.raises(ValueError, match="offsets"):
        _engine.IdAssigner(str(tmp_path), True, 1 << 20).add_text(array, text)


def test_text_is_hashed_key_by_key(tmp_path):
    text = np.frombuffer(b"abcabc", np.uint8)
    a = _engine.hash_text(np.array([0, 3, 3, 6], np.uint64), text)
    assert a[0] == a[2] != a[1]
    assert len(_engine.hash_text(np.array([], np.uint64), text)) == 0
    assert len(_engine.hash_text(np.array([0], np.uint64), text)) == 0
