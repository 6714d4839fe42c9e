"""Members of .npz archives as streams: what numpy loads from them, in any cut, and damage that is noticed."""

from __future__ import annotations

import gc
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waits import background

import gz
from gz._ingest.read.files import Files, _Descriptor
from gz._ingest.read.npy import open_array
from gz._ingest.read.tables import NpyEdgeIndex
from gz._ingest.read.zip_member import combine

SAVE = {"stored": np.savez, "deflated": np.savez_compressed}


@pytest.fixture(scope="module", params=list(SAVE))
def archive(request, tmp_path_factory):
    """A member larger than the blocks it is read in, between two others."""
    a = np.random.default_rng(2).integers(0, 1 << 20, (2, 700_000))
    path = tmp_path_factory.mktemp("archive") / "a.npz"
    SAVE[request.param](path, before=np.zeros(5), a=a, after=np.ones(3))
    return str(path), a


@pytest.mark.slow
@pytest.mark.parametrize("step", [1000, 123_457, 700_000])
def test_two_readers_take_half_a_member_each(archive, step):
    path, a = archive
    array = open_array(path, Files(), "a")
    first, second = array.stream(), array.stream(a.shape[1])
    for at in range(0, a.shape[1], step):
        n = min(step, a.shape[1] - at)
        np.testing.assert_array_equal(first.take(n), a[0, at : at + n])
        np.testing.assert_array_equal(second.take(n), a[1, at : at + n])
    first.close()
    second.close()
    assert not background()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_a_reader_that_stops_early_leaves_no_thread(archive, how):
    stream = open_array(archive[0], Files(), "a").stream()
    stream.take(10)
    if how == "closed":
        stream.close()
    gc.disable()  # it goes as soon as nobody holds it
    try:
        del stream
        assert not background()
    finally:
        gc.enable()


@pytest.mark.slow
def test_the_member_is_never_in_memory_as_a_whole(tmp_path):
    path = tmp_path / "z.npz"
    np.savez_compressed(path, a=np.zeros((2, 20_000_000), np.int64))  # 320 MB, compressed 1000 times
    array = open_array(str(path), Files(), "a")
    stream = array.stream(20_000_000)
    tracemalloc.start()
    for _ in range(20):
        assert not stream.take(1_000_000).any()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    stream.close()
    assert peak < 64 << 20


@pytest.mark.slow
@pytest.mark.parametrize("at", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("how", ["one reader", "two readers"])
def test_a_flipped_bit_is_noticed(archive, at, how, tmp_path):
    path, a = archive
    with zipfile.ZipFile(path) as z:
        info = z.getinfo("a.npy")
    raw = bytearray(open(path, "rb").read())
    raw[info.header_offset + 200 + int((info.compress_size - 200) * at)] ^= 16
    bad = str(tmp_path / "bad.npz")
    open(bad, "wb").write(raw)

    def read():
        array = open_array(bad, Files(), "a")
        if how == "one reader":
            array.stream().take(a.size)
        else:
            first, second = array.stream(), array.stream(a.shape[1])
            first.take(a.shape[1])
            second.take(a.shape[1])

    with pytest.raises(gz.InputError, match=r"bad.npz:a.npy: .*damaged"):
        read()


def test_a_member_that_reaches_past_the_end(tmp_path):
    """A directory that promises more than the file holds, as after a bad concatenation."""
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(1000))
    raw = bytearray(path.read_bytes())
    at = raw.rindex(b"PK\x01\x02") + 20
    for k in (0, 4):  # both sizes in the directory
        raw[at + k : at + k + 4] = (1 << 24).to_bytes(4, "little")
    path.write_bytes(raw)
    # Newer patch releases of Python see it themselves.
    with pytest.raises(gz.InputError, match="reaches past the end of the file: truncated|Overlapped entries"):
        open_array(str(path), Files(), "a")


@given(a=st.binary(max_size=300), b=st.binary(max_size=300))
def test_checksums_combine(a, b):
    assert combine(zlib.crc32(a), zlib.crc32(b), len(b)) == zlib.crc32(a + b)


def test_every_method_of_pythons_zipfile_is_read(tmp_path):
    a = np.arange(300_000).reshape(2, -1)
    np.save(tmp_path / "a.npy", a)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as z:
            z.write(tmp_path / "a.npy", "a.npy")
        np.testing.assert_array_equal(open_array(str(tmp_path / "a.npz"), Files()).load(), a)


def test_a_member_with_sizes_of_64_bits(tmp_path):
    """As Python writes it to a stream, and numpy always: the sizes stand in the extra field."""
    a = np.arange(1000)
    np.save(tmp_path / "a.npy", a)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as z, z.open("a.npy", "w", force_zip64=True) as f:
        f.write((tmp_path / "a.npy").read_bytes())
    np.testing.assert_array_equal(open_array(str(tmp_path / "a.npz"), Files()).load(), a)


def test_an_encrypted_member_is_named(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(10))
    raw = bytearray(path.read_bytes())
    raw[raw.rindex(b"PK\x01\x02") + 8] |= 1  # the flag, in the directory
    path.write_bytes(raw)
    with pytest.raises(gz.InputError, match=r"a.npz:a.npy: .*is encrypted"):
        open_array(str(path), Files(), "a")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_beginning_is_named(method, tmp_path):
    """Found while the header of the array is read."""
    np.save(tmp_path / "a.npy", np.random.default_rng(0).integers(0, 9, 2000))
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", method) as z:
        z.write(tmp_path / "a.npy", "a.npy")
    raw = bytearray(path.read_bytes())
    raw[35:75] = b"\xff" * 40
    path.write_bytes(raw)
    with pytest.raises(gz.InputError, match=r"a.npz:a.npy: "):
        open_array(str(path), Files(), "a").load()


def test_a_stored_edge_index_is_read_once(tmp_path, monkeypatch):
    """Both halves at the same time, and no byte of them twice; zipfile would read the first half twice."""
    a = np.arange(400_000).reshape(2, -1)
    np.savez(tmp_path / "a.npz", edge_index=a)
    read = []
    plain = _Descriptor.read_into
    monkeypatch.setattr(
        _Descriptor, "read_into", lambda self, view, at: read.append(n := plain(self, view, at)) or n
    )
    array = open_array(str(tmp_path / "a.npz"), Files())
    for chunk in NpyEdgeIndex(array).chunks(10_000):
        np.testing.assert_array_equal(chunk.columns["dst"] - chunk.columns["src"], 200_000)
    assert a.nbytes <= sum(read) < 1.3 * a.nbytes  # the directory and headers are read in blocks of 128 KiB
