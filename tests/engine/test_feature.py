"""FeatureStore: zero copy, private writes, lifetimes, gathering."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import threading
import warnings

import numpy as np
import pytest
import torch

import gz
from gz import _engine

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def column(folder, array, name="x") -> gz.FeatureStore:
    """A column written by the engine's own writer."""
    path = folder / f"{name}.gd"
    writer = _engine.ColumnWriter(str(path), array.dtype.name, list(array.shape[1:]))
    writer.append(array.reshape(-1).view(np.uint8))
    writer.finish()
    return gz.FeatureStore(path)


def some_rows(dtype: str, shape) -> np.ndarray:
    values = np.random.default_rng(0).integers(0, 100, shape)
    return values.astype(dtype)


def resident_bytes() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(50,), (50, 7), (50, 2, 3), (0, 4), (50, 0)])
def test_rows_come_back_as_they_were(dtype, shape, tmp_path):
    if 0 in shape:
        path = tmp_path / "x.npy"
        np.save(path, some_rows(dtype, shape))
        fs = gz.FeatureStore(path)
    else:
        fs = column(tmp_path, some_rows(dtype, shape))
    array = some_rows(dtype, shape)
    assert fs.shape == shape
    assert fs.dtype == dtype
    np.testing.assert_array_equal(fs.get_tensor(), array)
    ids = np.array([], np.int64) if shape[0] == 0 else np.array([3, 0, 49, 3])
    np.testing.assert_array_equal(fs.gather(ids), array[ids])
    np.testing.assert_array_equal(fs[ids], array[ids])


def test_get_tensor_is_the_mapping_itself(tmp_path):
    fs = column(tmp_path, some_rows("float32", (1000, 16)))
    first, second = fs.get_tensor(), fs.get_tensor()
    address = first.__array_interface__["data"][0]
    assert address == second.__array_interface__["data"][0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = torch.from_numpy(first)
    assert tensor.data_ptr() == address
    with open("/proc/self/maps") as f:
        lines = [line.split() for line in f if line.rstrip().endswith(fs.path)]
    spans = [tuple(int(x, 16) for x in line[0].split("-")) for line in lines]
    assert any(low <= address < high for low, high in spans)


def test_get_tensor_costs_no_memory(tmp_path):
    path = tmp_path / "large.npy"
    rows = 1_000_000
    with open(path, "wb") as f:
        np.lib.format.write_array_header_1_0(
            f, {"descr": "<f4", "fortran_order": False, "shape": (rows, 128)}
        )
        f.truncate(f.tell() + rows * 512)
    before = resident_bytes()
    tensor = torch.from_numpy(gz.FeatureStore(path).get_tensor())
    assert tensor.shape == (rows, 128)
    assert resident_bytes() - before < 4 << 20


def test_writing_changes_only_this_process(tmp_path):
    array = some_rows("float32", (100, 8))
    fs = column(tmp_path, array)
    on_disk = open(fs.path, "rb").read()
    tensor = torch.from_numpy(fs.get_tensor())
    tensor[3] = -1
    tensor *= 2
    assert (tensor[3] == -2).all()
    assert open(fs.path, "rb").read() == on_disk
    np.testing.assert_array_equal(gz.FeatureStore(fs.path).get_tensor(), array)


def test_the_mapping_outlives_its_owner(tmp_path):
    array = some_rows("int64", (5000, 4))
    tensor = torch.from_numpy(column(tmp_path, array).get_tensor()[17:])
    os.unlink(tmp_path / "x.gd")
    gc.collect()
    np.testing.assert_array_equal(tensor.numpy(), array[17:])


def test_the_mapping_goes_away_with_its_last_array(tmp_path):
    path = column(tmp_path, some_rows("int64", (5000, 4))).path
    gc.collect()
    assert path not in open("/proc/self/maps").read()


@pytest.mark.parametrize("ids_dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
def test_gather_takes_ids_of_any_integer_width(ids_dtype, tmp_path):
    array = some_rows("float32", (100, 5))
    ids = np.array([99, 0, 7, 7], ids_dtype)
    np.testing.assert_array_equal(column(tmp_path, array).gather(ids), array[ids])


def test_gather_takes_torch_ids_and_lists(tmp_path):
    array = some_rows("float32", (100, 5))
    fs = column(tmp_path, array)
    np.testing.assert_array_equal(fs.gather(torch.tensor([5, 6])), array[[5, 6]])
    np.testing.assert_array_equal(fs.gather([5, 6]), array[[5, 6]])


@pytest.mark.slow
@pytest.mark.parametrize("row", [1, 3, 16, 24, 128, 1000])
def test_large_gathers_agree_with_numpy(row, tmp_path):
    array = np.random.default_rng(1).random((20_000, row), np.float32)
    ids = np.random.default_rng(2).integers(0, 20_000, 50_000)
    np.testing.assert_array_equal(column(tmp_path, array).gather(ids), array[ids])


def test_gather_into_an_array_or_a_tensor(tmp_path):
    array = some_rows("float32", (100, 5))
    fs = column(tmp_path, array)
    out = np.empty((2, 5), np.float32)
    assert fs.gather([1, 2], out=out) is out
    np.testing.assert_array_equal(out, array[[1, 2]])
    tensor = torch.empty(2, 5)
    fs.gather([3, 4], out=tensor)
    np.testing.assert_array_equal(tensor.numpy(), array[[3, 4]])


def test_an_out_that_does_not_fit_is_refused(tmp_path):
    fs = column(tmp_path, some_rows("float32", (100, 5)))
    for out, message in [
        (np.empty((3, 5), np.float32), "shape"),
        (np.empty((2, 5), np.float64), "dtype"),
        (np.empty((5, 2), np.float32).T, "C-contiguous"),
        (np.broadcast_to(np.float32(0), (2, 5)), "writable"),
    ]:
        with pytest.raises(ValueError, match=message):
            fs.gather([1, 2], out=out)


@pytest.mark.parametrize("out", [[0, 0, 0], (0, 0, 0), range(3), "abc", 7, b"abc", memoryview(b"abc")])
def test_an_out_that_cannot_be_filled_is_refused(out, tmp_path):
    fs = column(tmp_path, some_rows("int64", (10,)))
    with pytest.raises(TypeError, match="array or a CPU tensor"):
        fs.gather([1, 2, 3], out=out)


def test_the_engine_fills_the_array_it_was_given_or_none(tmp_path):
    array = some_rows("float32", (10, 4))
    fs = column(tmp_path, array)
    wide = np.zeros((3, 32), np.uint8)
    for out in (wide[:, ::2], np.zeros((4, 12), np.uint8).T):
        with pytest.raises(TypeError):
            fs._file.gather_into(np.arange(3), out)
        with pytest.raises(TypeError):
            _engine.gather_array(array.view(np.uint8), np.arange(3), out)
    assert not wide.any()
    for gather in (
        fs._file.gather_into,
        lambda ids, out: _engine.gather_array(array.view(np.uint8), ids, out),
    ):
        out = np.zeros((3, 16), np.uint8)
        out.flags.writeable = False
        with pytest.raises(TypeError):
            gather(np.arange(3), out)


@pytest.mark.parametrize("row_bytes", [8, 16, 64, 512])
@pytest.mark.parametrize("shift", [0, 8, -8, 4])
def test_rows_may_be_written_over_their_ids(row_bytes, shift, tmp_path):
    n = 5000
    array = np.random.default_rng(0).integers(0, 2**62, (n, row_bytes // 8))
    fs = column(tmp_path, array)
    ids = np.random.default_rng(1).permutation(n)
    for evicted in (False, True):
        memory = np.zeros(n * (row_bytes + 8) + 64, np.uint8)
        at = 32
        over = memory[at : at + 8 * n].view(np.int64)
        over[:] = ids
        out = memory[at + shift : at + shift + n * row_bytes].view(np.int64).reshape(array.shape)
        if evicted:
            with open(fs.path, "rb") as f:
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        fs.gather(over, out=out)
        np.testing.assert_array_equal(out, array[ids])


def test_rows_of_an_array_may_be_written_over_it():
    array = np.random.default_rng(0).integers(0, 255, (4000, 64)).astype(np.uint8)
    before = array.copy()
    ids = np.random.default_rng(1).integers(0, 4000, 3000)
    _engine.gather_array(array, ids, array[500:3500])
    np.testing.assert_array_equal(array[500:3500], before[ids])
    np.testing.assert_array_equal(array[:500], before[:500])


@pytest.mark.parametrize("width", [0, 1, 4, 128])
@pytest.mark.parametrize("bad", [-1, 50, 2**62])
def test_ids_are_checked_whatever_the_width(width, bad, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((50, width), np.float32))
    fs = gz.FeatureStore(tmp_path / "x.npy")
    for out in (None, np.zeros((2, width), np.float32)):
        with pytest.raises(IndexError, match=str(bad)):
            fs.gather([0, bad], out=out)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 128])
@pytest.mark.parametrize("cache", [0, "1MB"])
def test_ids_that_change_meanwhile_are_never_followed(width, cache, tmp_path):
    """Every row is the file's or the call fails. Which id of the two is used is the caller's bargain."""
    column(tmp_path, np.repeat(np.arange(20_000, dtype=np.float32)[:, None], width, axis=1))
    fs = gz.FeatureStore(tmp_path / "x.gd", cache)
    good = np.random.default_rng(0).integers(0, 20_000, 20_000)
    ids = good.copy()
    done = threading.Event()

    def change():
        while not done.wait(0.0002):  # so that most calls find all in order when they begin
            ids[::7] = 10**11
            ids[::7] = good[::7]

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for turn in range(60):
            if turn % 20 == 0:
                with open(fs.path, "rb") as f:
                    os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            try:
                rows = fs.gather(ids)
            except IndexError:
                continue
            np.testing.assert_array_equal(rows, np.repeat(good[:, None].astype(np.float32), width, axis=1))
    finally:
        done.set()
        changer.join()


@pytest.mark.parametrize("bad", [-1, 100, -(2**63)])
def test_a_row_outside_is_named_and_nothing_is_written(bad, tmp_path):
    fs = column(tmp_path, some_rows("float32", (100, 5)))
    out = np.full((3, 5), 7, np.float32)
    with pytest.raises(IndexError, match=rf"row {bad} \(at index 2\) is out of range"):
        fs.gather([0, 1, bad], out=out)
    assert (out == 7).all()
    with pytest.raises(IndexError, match="18446744073709551615"):
        fs.gather(np.array([2**64 - 1], np.uint64))


def test_bfloat16_shows_as_bits_that_torch_can_read(tmp_path):
    values = torch.randn(40, 3).to(torch.bfloat16)
    writer = _engine.ColumnWriter(str(tmp_path / "b.gd"), "bfloat16", [3])
    writer.append(values.view(torch.uint16).numpy().reshape(-1).view(np.uint8))
    writer.finish()
    fs = gz.FeatureStore(tmp_path / "b.gd")
    assert fs.dtype == "bfloat16"
    assert torch.equal(torch.from_numpy(fs.get_tensor()).view(torch.bfloat16), values)
    assert torch.equal(torch.from_numpy(fs.gather([5, 1])).view(torch.bfloat16), values[[5, 1]])


def test_results_do_not_share_memory_and_the_pool_reuses_it(tmp_path):
    array = np.random.default_rng(1).random((5000, 128), np.float32)
    fs = column(tmp_path, array)
    a, b = fs.gather(np.arange(5000)), fs.gather(np.arange(5000)[::-1])
    np.testing.assert_array_equal(a, array)
    np.testing.assert_array_equal(b, array[::-1])
    address = b.__array_interface__["data"][0]
    view = b[10:]
    del b
    c = fs.gather(np.arange(5000))
    assert not np.shares_memory(c, view)
    np.testing.assert_array_equal(view, array[::-1][10:])
    del view
    assert fs.gather(np.arange(5000)).__array_interface__["data"][0] == address


def test_pickles_by_path(tmp_path):
    array = np.random.default_rng(1).random((50_000, 16), np.float32)
    fs = column(tmp_path, array)
    data = pickle.dumps(fs)
    assert len(data) < 1000
    np.testing.assert_array_equal(pickle.loads(data).gather([7]), array[[7]])


def _sum_of(fs, ids):
    return float(fs.gather(ids).sum())


@pytest.mark.slow
def test_a_spawned_process_opens_the_file_itself(tmp_path):
    array = some_rows("float32", (100, 5))
    fs = column(tmp_path, array)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_sum_of, (fs, [1, 2])) == array[[1, 2]].sum()


def test_an_npy_file_is_used_where_it_lies(tmp_path):
    array = some_rows("float32", (100, 5))
    np.save(tmp_path / "a.npy", array)
    fs = gz.FeatureStore(tmp_path / "a.npy")
    np.testing.assert_array_equal(fs.gather([3, 98]), array[[3, 98]])
    with open(tmp_path / "a.npy", "r+b") as f:
        f.truncate(os.path.getsize(tmp_path / "a.npy") - 1)
    with pytest.raises(gz.FormatError, match=r"a\.npy.*truncated"):
        gz.FeatureStore(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.asfortranarray(np.ones((3, 4))), "Fortran"),
        (np.ones(3, ">f4"), "little-endian"),
        (np.ones(3, np.complex64), "complex64"),
        (np.array(["a", "b"]), "str"),
        (np.float32(3), "single number"),
    ],
)
def test_an_npy_file_that_cannot_be_mapped_is_refused(array, message, tmp_path):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match=message):
        gz.FeatureStore(tmp_path / "a.npy")


def test_files_that_are_not_there_or_not_ours(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.gd"):
        gz.FeatureStore(tmp_path / "nothing.gd")
    with pytest.raises(IsADirectoryError, match="not a file"):
        gz.FeatureStore(tmp_path)
    (tmp_path / "text.gd").write_text("1,2,3\n" * 2000)
    with pytest.raises(gz.FormatError, match=r"text\.gd: not a gz file"):
        gz.FeatureStore(tmp_path / "text.gd")
    (tmp_path / "bad.npy").write_text("1,2,3\n")
    with pytest.raises(ValueError, match=r"bad\.npy"):
        gz.FeatureStore(tmp_path / "bad.npy")


@pytest.mark.parametrize("off", [0, 1, 8, 16, 31])
@pytest.mark.parametrize("row_bytes", [1, 31, 32, 33, 100, 128, 160, 256, 400, 512, 1000, 1024, 4096, 4097])
def test_large_gathers_fill_their_output_and_nothing_beside_it(row_bytes, off):
    """Outputs of a megabyte and more are streamed, by loops for each size of row and each alignment."""
    rng = np.random.default_rng(row_bytes)
    rows = rng.integers(0, 255, (500, row_bytes), np.uint8)
    for count in (1, 63, (3 << 20) // row_bytes + 1):
        ids = rng.integers(0, 500, count)
        memory = np.zeros(count * row_bytes + 128, np.uint8)
        at = -memory.ctypes.data % 32 + off
        out = memory[at : at + count * row_bytes].reshape(count, row_bytes)
        _engine.gather_array(rows, ids, out)
        np.testing.assert_array_equal(out, rows[ids])
        assert not memory[:at].any()
        assert not memory[at + out.size :].any()


def test_a_column_is_indexed_as_an_array_is(tmp_path):
    rows = np.random.default_rng(0).random((50, 3), dtype=np.float32)
    np.save(tmp_path / "x.npy", rows)
    column = gz.FeatureStore(tmp_path / "x.npy")
    mask = rows[:, 0] > 0.5
    slices = [slice(None), slice(3, 40, 5), slice(None, None, -1), slice(60, 70)]
    lists = [mask, mask.tolist(), [1, 2, 2], np.array([4], np.uint8)]
    for which in [0, 49, -1, -50, np.int32(7), *slices, *lists]:
        assert np.array_equal(column[which], rows[which])
    assert column[[]].shape == (0, 3)
    assert np.array_equal(np.stack(list(column)), rows)
    assert np.array_equal(np.asarray(column), rows)
    assert np.array_equal(np.asarray(column, dtype=np.float64), rows.astype(np.float64))
    assert np.array_equal(np.mean(column, axis=0), rows.mean(axis=0))
    for bad in (50, -51, mask[:-1]):
        with pytest.raises(IndexError):
            column[bad]
    for odd in (1.5, "a"):
        with pytest.raises((TypeError, ValueError)):
            column[odd]


def test_rows_go_into_a_tensor_of_bfloat16(tmp_path):
    torch = pytest.importorskip("torch")
    rows = torch.randn(20, 4).to(torch.bfloat16)
    gz.ingest(tmp_path / "s", edges=([0], [1]), num_nodes=20, features={"x": rows})
    out = torch.empty(3, 4, dtype=torch.bfloat16)
    assert gz.open(tmp_path / "s").feature("x").gather([5, 0, 19], out=out) is out
    assert torch.equal(out, rows[[5, 0, 19]])
    with pytest.raises(ValueError, match="float32"):
        gz.open(tmp_path / "s").feature("x").gather([5], out=torch.empty(1, 4))
