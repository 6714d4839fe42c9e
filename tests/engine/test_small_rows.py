"""Rows that are stored as float16, bfloat16 or int8 and read as float32, or as narrow whole numbers and read
as int64: against numpy and torch, and the same whichever way they come, from the mapping, by deep queues,
from the row cache, from the rows in front."""

from __future__ import annotations

import os
import pickle
import struct
import time

import forge
import numpy as np
import pytest
import torch
from waits import PATIENCE

import gz
from gz import _engine
from gz._base import memory_plan
from gz._base.dtypes import Column, asked_for, to_dtype
from gz._base.memory_plan import Share

SMALL = ["float16", "bfloat16", "int8"]
NARROW = ["uint8", "int8", "int16", "int32"]  # whole numbers, read as int64
N = 3000


def evict(path) -> None:
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def values(width: int = 130, rows: int = N) -> np.ndarray:
    rng = np.random.default_rng(5)
    return (rng.standard_normal((rows, width)) * 10.0 ** rng.integers(-3, 4, (rows, 1))).astype(np.float32)


def whole(stored: str, shape: tuple[int, ...] = (), rows: int = N) -> np.ndarray:
    """int64, from the least that fits to the most."""
    info = np.iinfo(stored)
    x = np.random.default_rng(6).integers(info.min, info.max, (rows, *shape), np.int64, endpoint=True)
    x.reshape(rows, -1)[:2, :1] = [[info.min], [info.max]]
    return x


def write(path, x: np.ndarray, stored: str) -> str:
    column = asked_for(Column("x", x.dtype.name, x.shape[1:]), stored, "x")
    writer = column.writer(path)
    writer.append(to_dtype(x, column, x.dtype.name))
    writer.finish(len(x))
    return str(path)


def reference(x: np.ndarray, stored: str) -> np.ndarray:
    """What float32 becomes, by numpy, by torch, or as docs/format.md words it."""
    if stored == "float16":
        return x.astype(np.float16).astype(np.float32)
    if stored == "bfloat16":
        return torch.from_numpy(x).bfloat16().float().numpy()
    scale = np.abs(x).max(axis=tuple(range(1, x.ndim)), keepdims=True) / np.float32(127)
    return scale * np.rint(x.astype(np.float64) / scale).astype(np.float32)


# ---- decoding ----


@pytest.mark.parametrize("vector", [True, False])
@pytest.mark.parametrize("values", [1, 7, 8, 64, 128, 130])
def test_every_float16_is_read_as_numpy_reads_it(vector, values):
    every = np.arange(1 << 16, dtype=np.uint16)
    rows = np.resize(every, (1 << 16) // values * values + values)
    got = _engine.decode_rows(rows.view(np.uint8), "float16", values, vector).view(np.uint32)
    want = rows.view(np.float16).astype(np.float32)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(got[number], want.view(np.uint32)[number])
    assert np.isnan(got[~number].view(np.float32)).all()
    assert ((got ^ want.view(np.uint32)) & 0x80000000 == 0).all()


@pytest.mark.parametrize("vector", [True, False])
def test_every_bfloat16_is_read_as_torch_reads_it(vector):
    every = np.arange(1 << 16, dtype=np.uint16)
    got = _engine.decode_rows(every.view(np.uint8), "bfloat16", 32, vector).view(np.uint32)
    want = torch.from_numpy(every.view(np.int16)).view(torch.bfloat16).float().numpy().view(np.uint32)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("values", [1, 5, 8, 19, 64, 128, 256])
@pytest.mark.parametrize("dtype", SMALL)
def test_plain_code_and_that_for_this_processor_give_the_same_bits(dtype, values):
    """Of any bytes at all, NaN and scales that no file should have included."""
    row = values + 4 if dtype == "int8" else 2 * values
    rows = np.random.default_rng(values).integers(0, 256, 700 * row).astype(np.uint8)
    by = [_engine.decode_rows(rows, dtype, values, vector).view(np.uint32) for vector in (True, False)]
    nan = np.isnan(by[0].view(np.float32))
    np.testing.assert_array_equal(nan, np.isnan(by[1].view(np.float32)))
    np.testing.assert_array_equal(by[0][~nan], by[1][~nan])


# ---- int8 ----


def test_int8_is_within_half_a_step_of_each_value():
    x = values(37)
    found = _engine.encode_int8(x.reshape(-1), 37)
    assert found.wrong is None
    got = _engine.decode_rows(found.rows, "int8", 37).view(np.float32).reshape(x.shape)
    step = np.abs(x).max(1, keepdims=True) / 127
    assert (np.abs(got - x) <= step * 0.500001).all()
    np.testing.assert_array_equal(got, reference(x, "int8"))


@pytest.mark.parametrize(
    "row",
    [
        [0.0] * 5,
        [1.0, 0.0, 0.0, 1.0, 1.0],
        [-127.0, 127.0, 3.0, 0.0, -1.0],
        [5.0] * 5,
        [-0.0, 2.0, 0.0, 0.0, 0.0],
    ],
)
def test_rows_of_small_whole_numbers_come_back_as_they_were(row):
    x = np.array([row], np.float32)
    found = _engine.encode_int8(x.reshape(-1), 5)
    np.testing.assert_array_equal(_engine.decode_rows(found.rows, "int8", 5).view(np.float32), x[0])


def test_a_constant_row_comes_back_to_the_last_bit_or_two():
    x = np.repeat(np.array([0.1, -3.7, 1e-30, 1e30], np.float32)[:, None], 6, 1)
    got = _engine.decode_rows(_engine.encode_int8(x.reshape(-1), 6).rows, "int8", 6).view(np.float32)
    np.testing.assert_allclose(got, x.reshape(-1), rtol=3e-7)


@pytest.mark.parametrize("largest", [3.4028235e38, 3.4e38, 1e-36, 1e-38, 1e-44])
def test_the_largest_and_the_smallest_rows_stay_finite_and_near(largest):
    x = np.array([[largest, -largest, largest / 2, 0]], np.float32)
    got = _engine.decode_rows(_engine.encode_int8(x.reshape(-1), 4).rows, "int8", 4).view(np.float32)
    assert np.isfinite(got).all()
    step = max(float(largest) / 127, np.finfo(np.float32).tiny)
    assert (np.abs(got.astype(np.float64) - x[0]) <= step * 0.5001).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_row_that_nothing_stands_for_is_named(bad):
    x = values(20, 5000)
    x[[4000, 777], 3] = bad
    assert _engine.encode_int8(x.reshape(-1), 20).wrong == 777


# ---- one column, every way ----


@pytest.mark.parametrize("shape", [(130,), (64,), (128,), (3, 50), (1,)])
@pytest.mark.parametrize("stored", SMALL)
def test_a_column_is_one_of_float32_to_whoever_reads_it(stored, shape, tmp_path):
    x = values(int(np.prod(shape))).reshape(N, *shape)
    column = gz.FeatureStore(write(tmp_path / "x.gd", x, stored))
    want = reference(x, stored)
    assert (column.dtype, column.stored, column.shape) == ("float32", stored, x.shape)
    width = int(np.prod(shape))
    assert column.nbytes == N * (width + 4 if stored == "int8" else 2 * width)
    np.testing.assert_array_equal(column.get_tensor(), want)
    np.testing.assert_array_equal(np.asarray(column), want)
    ids = np.random.default_rng(0).integers(0, N, 5000)
    for out in (None, np.zeros((5000, *shape), np.float32), torch.zeros(5000, *shape)):
        np.testing.assert_array_equal(np.asarray(column.gather(ids, out)), want[ids])
    np.testing.assert_array_equal(column[3], want[3])
    np.testing.assert_array_equal(column[10:50:7], want[10:50:7])
    np.testing.assert_array_equal(column[np.arange(N) % 3 == 0], want[::3])
    np.testing.assert_array_equal(np.stack(list(column)), want)
    assert column.gather([]).shape == (0, *shape)
    with pytest.raises(IndexError):
        column.gather([0, N])
    with pytest.raises(ValueError, match="these rows need"):
        column.gather([1], np.zeros((1, *shape), np.float16))
    again = pickle.loads(pickle.dumps(column))
    np.testing.assert_array_equal(again.gather(ids), want[ids])
    assert [e for _, e in gz.verify(column.path)] == [None]
    assert stored in repr(column)


@pytest.mark.parametrize("offset", [0, 4, 1])
@pytest.mark.parametrize("stored", SMALL)
def test_rows_go_to_memory_of_any_alignment(stored, offset, tmp_path):
    x = values(128)
    column = gz.FeatureStore(write(tmp_path / "x.gd", x, stored))
    ids = np.random.default_rng(0).integers(0, N, 4000)
    room = np.zeros(4000 * 512 + 64, np.uint8)
    start = -room.ctypes.data % 32 + offset
    out = room[start : start + 4000 * 512].view(np.float32).reshape(4000, 128)
    column.gather(ids, out)
    np.testing.assert_array_equal(out, reference(x, stored)[ids])
    assert not room[:start].any()
    assert not room[start + 4000 * 512 :].any()


@pytest.mark.parametrize("stored", SMALL)
def test_rows_may_be_written_over_their_ids(stored, tmp_path):
    x = values(2)
    column = gz.FeatureStore(write(tmp_path / "x.gd", x, stored))
    room = np.random.default_rng(0).integers(0, N, 2000)
    want = reference(x, stored)[room.copy()]
    np.testing.assert_array_equal(column.gather(room, room.view(np.float32).reshape(2000, 2)), want)


@pytest.mark.parametrize("cache", [0, 1 << 20, 100 << 20])
@pytest.mark.parametrize("stored", SMALL)
def test_cold_and_cached_rows_are_those_of_the_mapping(stored, cache, tmp_path):
    x = values(rows=20_000)
    path = write(tmp_path / "x.gd", x, stored)
    want = reference(x, stored)
    column = gz.FeatureStore(path, cache, _share=Share(cache=cache))
    evict(path)
    if column._file.resident_bytes() > column.nbytes // 2:
        pytest.skip(f"{tmp_path} keeps files in memory")
    ids = np.random.default_rng(1).permutation(20_000)[:3000]
    for _ in range(3):
        np.testing.assert_array_equal(column.gather(ids), want[ids])
        evict(path)
    stats = column.stats()
    assert stats["misses"] >= 3000
    if cache > 1 << 20:
        assert stats["hits"] == 6000


def test_the_cache_holds_rows_as_small_as_they_are_stored(tmp_path):
    fits = {}
    for stored in ("float32", "float16", "int8"):
        path = write(tmp_path / f"{stored}.gd", values(256, 20_000), stored)
        column = gz.FeatureStore(path, 4 << 20, _share=Share(cache=4 << 20))
        evict(path)
        if column._file.resident_bytes() > column.nbytes // 2:
            pytest.skip(f"{tmp_path} keeps files in memory")
        for _ in range(3):
            column.gather(np.arange(20_000))
            evict(path)
        stats = column.stats()
        assert stats["cached_rows"] == stats["cache_rows"] > 0
        fits[stored] = stats["cache_rows"] / stats["cache_bytes"]  # whatever size memory allowed
    assert fits["float16"] > 1.7 * fits["float32"]
    assert fits["int8"] > 3 * fits["float32"]


@pytest.mark.parametrize("stored", SMALL)
def test_rows_in_front_are_small_too_and_are_decoded(stored, tmp_path, monkeypatch):
    x = values()
    src = np.random.default_rng(0).integers(0, 200, 9000)
    gz.ingest(
        tmp_path / "s",
        edges=(src, np.arange(9000) % N),
        features={"x": x},
        splits={"train": np.arange(0, N, 5)},
        dtype={"x": stored},
    )
    gz.reorder(tmp_path / "s", share=0.1)
    assert [e for _, e in gz.verify(tmp_path / "s") if e is not None] == []
    file = tmp_path / "s/nodes/node/x.gd"
    topology = (tmp_path / "s/edges/node__to__node/in.gl").stat().st_size
    # Room for the topology and what is in front, not for all of the column.
    monkeypatch.setattr(memory_plan, "free_ram", lambda: int((topology + file.stat().st_size / 2) / 0.65))
    column = gz.open(tmp_path / "s", cache=0).feature("x")
    evict(file)
    if column._file.resident_bytes() > column.nbytes // 2:
        pytest.skip(f"{tmp_path} keeps files in memory")
    _, tier = column._hot
    assert (tier.stored, tier.dtype) == (stored, "float32")
    assert 0 < tier.nbytes <= x.nbytes / 10  # as many bytes as a tenth of what it shows
    want, end = reference(x, stored), time.monotonic() + PATIENCE
    while column.stats()["hot"] == 0:  # they are read in the background
        assert time.monotonic() < end
        np.testing.assert_array_equal(column.gather(np.arange(N)), want)
        evict(file)


@pytest.mark.parametrize("stored", ["float16", "bfloat16"])
def test_halves_are_kept_or_decoded_as_asked(stored, tmp_path):
    x = values(16)
    small = asked_for(Column("x", "float32", (16,)), stored, "x")
    raw = to_dtype(x, small, "float32")
    for name, kind in (("shown", stored), ("kept", stored + ":keep")):
        column = asked_for(Column("x", "float32", (16,)), kind, "x")
        writer = column.writer(tmp_path / f"{name}.gd")
        writer.append(to_dtype(x, column, "float32"))
        writer.finish()
    shown, kept = gz.FeatureStore(tmp_path / "shown.gd"), gz.FeatureStore(tmp_path / "kept.gd")
    assert (shown.dtype, kept.dtype, kept.stored) == ("float32", stored, stored)
    want = reference(x, stored)
    for column in (shown, kept):
        np.testing.assert_array_equal(column.gather([5, 9], dtype="float32"), want[[5, 9]])
        np.testing.assert_array_equal(column.gather([5, 9], dtype=stored), raw[[5, 9]])
        np.testing.assert_array_equal(
            column.gather([1], np.zeros((1, 16), np.float32), dtype="float32"), want[[1]]
        )
        with pytest.raises(ValueError, match="are not read as int64"):
            column.gather([1], dtype="int64")
    np.testing.assert_array_equal(kept.get_tensor(), raw)


def test_of_int8_there_is_nothing_but_float32(tmp_path):
    column = gz.FeatureStore(write(tmp_path / "x.gd", values(), "int8"))
    assert column.gather([1], dtype=torch.float32).dtype == np.float32
    with pytest.raises(ValueError, match="are not read as int8"):
        column.gather([1], dtype="int8")


def test_all_of_a_column_is_refused_where_memory_has_no_room(tmp_path, monkeypatch):
    column = gz.FeatureStore(write(tmp_path / "x.gd", values(), "int8"))
    monkeypatch.setattr(memory_plan, "free_ram", lambda: N * 130 * 4 - 1)
    with pytest.raises(MemoryError, match=r"stored as int8.*gather the rows"):
        column.get_tensor()
    assert column.gather([1]).shape == (1, 130)


# ---- whole numbers ----


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 50)])
@pytest.mark.parametrize("stored", NARROW)
def test_whole_numbers_are_read_as_int64(stored, shape, tmp_path):
    x = whole(stored, shape)
    column = gz.FeatureStore(write(tmp_path / "x.gd", x, f"{stored}:int64"))
    assert (column.dtype, column.stored, column.shape) == ("int64", stored, x.shape)
    assert column.nbytes == x.size * np.dtype(stored).itemsize
    np.testing.assert_array_equal(column.get_tensor(), x)
    assert column.get_tensor().dtype == np.int64
    ids = np.random.default_rng(0).integers(0, N, 5000)
    for out in (None, np.zeros((5000, *shape), np.int64), torch.zeros(5000, *shape, dtype=torch.int64)):
        np.testing.assert_array_equal(np.asarray(column.gather(ids, out)), x[ids])
    kept = column.gather(ids, dtype=stored)
    assert kept.dtype == stored
    np.testing.assert_array_equal(kept, x[ids])
    np.testing.assert_array_equal(column[10:50:7], x[10:50:7])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(column)).gather(ids), x[ids])
    with pytest.raises(ValueError, match="are not read as float32"):
        column.gather([1], dtype="float32")
    with pytest.raises(IndexError):
        column.gather([0, N])
    assert [e for _, e in gz.verify(column.path)] == [None]
    assert f"stored={stored}" in repr(column)


@pytest.mark.parametrize("shape", [(), (200,)])
@pytest.mark.parametrize("stored", NARROW)
def test_whole_numbers_that_are_not_in_memory_are_the_same(stored, shape, tmp_path):
    """Single ones are read by the page, rows of 200 one by one and through the row cache."""
    rows = 20_000 if shape else 400_000
    x = whole(stored, shape, rows)
    path = write(tmp_path / "x.gd", x, f"{stored}:int64")
    column = gz.FeatureStore(path, 1 << 20, _share=Share(cache=1 << 20))
    evict(path)
    if column._file.resident_bytes() > column.nbytes // 2:
        pytest.skip(f"{tmp_path} keeps files in memory")
    ids = np.random.default_rng(1).permutation(rows)[:3000]
    for _ in range(3):
        np.testing.assert_array_equal(column.gather(ids), x[ids])
        evict(path)
    assert column.stats()["reads"] > 0


@pytest.mark.parametrize("stored", NARROW)
def test_a_whole_number_that_does_not_fit_is_refused(stored, tmp_path):
    info = np.iinfo(stored)
    column = asked_for(Column("y", "int64"), f"{stored}:int64", "y")
    for bad in (info.min - 1, info.max + 1):
        with pytest.raises(gz.InputError, match=f"'y': {bad} is no {stored}; choose another dtype"):
            to_dtype(np.array([0, bad, 1]), column, "int64")
    for bad in (0.5, np.nan):
        with pytest.raises(gz.InputError, match=f"{bad} is no {stored}"):
            to_dtype(np.array([0, bad]), column, "float64")
    assert to_dtype(np.array([0.0, 5.0]), column, "float64").tolist() == [0, 5]


# ---- the file ----


def test_a_file_written_by_hand_is_read_as_the_page_says(tmp_path):
    rows = b"".join(
        struct.pack("<f3b", scale, *steps) for scale, steps in ((0.5, (1, -2, 127)), (2, (0, 3, -127)))
    )
    head = bytearray(4096)
    head[:8] = b"\x89GZF\r\n\x1a\n"
    struct.pack_into("<4I", head, 8, 1, 0x01020304, 2, 4096)
    struct.pack_into("<Q", head, 24, 4096 + len(rows))
    struct.pack_into("<QQQI", head, 64, 4096, len(rows), forge.tree_hash(rows), 3)
    struct.pack_into("<II2Q", head, 320, 2, 9, 2, 3)
    path = tmp_path / "x.gd"
    path.write_bytes(forge.sealed(head) + rows)
    assert gz.FeatureStore(path).get_tensor().tolist() == [[0.5, -1, 63.5], [0, 6, -254]]
    assert [e for _, e in gz.verify(path)] == [None]


def test_a_file_of_whole_numbers_written_by_hand_is_read_as_the_page_says(tmp_path):
    rows = struct.pack("<3h", -1, 300, -32768)
    head = bytearray(4096)
    head[:8] = b"\x89GZF\r\n\x1a\n"
    struct.pack_into("<4I", head, 8, 1, 0x01020304, 2, 4096)
    struct.pack_into("<Q", head, 24, 4096 + len(rows))
    struct.pack_into("<QQQI", head, 64, 4096, len(rows), forge.tree_hash(rows), 4)
    struct.pack_into("<IIQ", head, 320, 1, 6, 3)
    path = tmp_path / "y.gd"
    path.write_bytes(forge.sealed(head) + rows)
    column = gz.FeatureStore(path)
    assert (column.get_tensor().tolist(), column.dtype) == ([-1, 300, -32768], "int64")
    assert [e for _, e in gz.verify(path)] == [None]


@pytest.mark.parametrize("scale", [np.nan, np.inf, -1.0])
def test_verify_finds_a_scale_that_is_none(scale, tmp_path):
    path = write(tmp_path / "x.gd", values(5), "int8")
    forge.change(path, 0, lambda a: a.view(np.uint8)[9 * 70 : 9 * 70 + 4].view(np.float32).fill(scale))
    ((_, error),) = gz.verify(path)
    assert "the scale of a row must be finite and not negative (first broken at row 70)" in str(error)


def test_verify_finds_a_value_below_the_steps(tmp_path):
    path = write(tmp_path / "x.gd", values(5), "int8")
    forge.change(path, 0, lambda a: a[9 * 33 + 6 : 9 * 33 + 7].fill(-128))
    ((_, error),) = gz.verify(path)
    assert "a stored value must not be -128 (first broken at row 33)" in str(error)


def test_rows_in_front_of_another_encoding_are_refused(tmp_path):
    x = values()
    paths = [write(tmp_path / f"{kind}.gd", x, kind) for kind in ("float16", "bfloat16")]
    writer = _engine.ColumnWriter(str(tmp_path / "ids.gd"), "int64", [])
    writer.append(np.arange(N))
    writer.finish()
    column, tier = (gz.FeatureStore(p) for p in paths)
    with pytest.raises(gz.FormatError, match="must have the dtype and shape of their column"):
        column._use_hot(gz.FeatureStore(tmp_path / "ids.gd"), [tier], 1)


def test_an_encoding_that_is_none_is_not_written(tmp_path):
    for stored, shown in (
        ("int16", "float32"), ("float16", "float64"), ("float32", "float32"),
        ("int64", "int64"), ("int16", "int32"), ("float16", "int64"), ("bool", "int64"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="cannot be read as"):
            _engine.ColumnWriter(str(tmp_path / f"{stored}-{shown}.gd"), stored, [3], shown)
