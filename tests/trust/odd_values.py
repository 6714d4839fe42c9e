"""Hypothesis strategies for what callers hand in: ids of every form, right and wrong, and odd arrays.

`odd_ids(limit)` gives (what is handed in, what it means): an int64 array where numpy reads one-dimensional
integers below `limit` in it, else None, and then a typed error is the only right answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
HUGE = [-1, -(2**31), -(2**63), 2**31, 2**32, 2**62, 2**63 - 1]


def _torch() -> Any:
    import torch

    return torch


FORMS = {
    "as it is": lambda a: a,
    "list": lambda a: a.tolist(),
    "tuple": lambda a: tuple(a.tolist()),
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "every other": lambda a: np.repeat(a, 2)[::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "a column": lambda a: np.stack([a, a], axis=1)[:, 0],
    "read-only": lambda a: _read_only(a.copy()),
    "unaligned": lambda a: _unaligned(a),
    "tensor": lambda a: _torch().from_numpy(a.astype(np.int64)),
    "tensor with gaps": lambda a: _torch().from_numpy(np.repeat(a.astype(np.int64), 2))[::2],
    "tensor, int32": lambda a: _torch().from_numpy(a.astype(np.int32)),
}
WRONG = {
    "0-d": lambda a: np.array(3),
    "a number": lambda a: 3,
    "2-d": lambda a: a.reshape(1, -1),
    "floats": lambda a: a.astype(float),
    "bool": lambda a: a.astype(bool),
    "object": lambda a: a.astype(object),
    "complex": lambda a: a.astype(complex),
    "text": lambda a: np.array(["a", "b"]),
    "a text": lambda a: "abc",
    "bytes": lambda a: b"abc",
    "dates": lambda a: np.array(["2020-01-01"], "M8[D]"),
    "records": lambda a: np.zeros(3, [("a", "i8")]),
    "none": lambda a: None,
    "a set": lambda a: {1, 2},
    "ragged": lambda a: [[1], [2, 3]],
    "beyond 64 bits": lambda a: [2**70],
    "NaN": lambda a: [float("nan")],
    "a meta tensor": lambda a: _torch().zeros(3, dtype=_torch().int64, device="meta"),
    "a float tensor": lambda a: _torch().zeros(3),
    "a sparse tensor": lambda a: _torch().eye(3).to_sparse(),
    "a tensor with a gradient": lambda a: _torch().zeros(3, requires_grad=True),
}


def _read_only(a: np.ndarray) -> np.ndarray:
    a.flags.writeable = False
    return a


def _unaligned(a: np.ndarray) -> np.ndarray:
    raw = np.zeros(a.nbytes + 1, np.uint8)
    out = raw[1:].view(a.dtype) if a.nbytes else a
    out[...] = a
    return out


@st.composite
def odd_ids(draw: Any, limit: int) -> tuple[Any, np.ndarray | None]:
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(sorted(WRONG)))
        return WRONG[name](np.arange(min(3, limit))), None
    dtype = np.dtype(draw(st.sampled_from(INTEGERS)))
    info = np.iinfo(dtype)
    inside = st.integers(0, min(limit - 1, int(info.max))) if limit else st.nothing()
    outside = st.sampled_from(
        [v for v in (limit, limit + 1, *HUGE) if info.min <= v <= info.max and not 0 <= v < limit] or [limit]
    )
    values = draw(st.lists(inside, max_size=30)) if limit else []
    if draw(st.integers(0, 3)) == 0:
        bad = draw(outside)
        if info.min <= bad <= info.max:
            values.insert(draw(st.integers(0, len(values))), bad)
    array = np.array(values, dtype)
    form = draw(st.sampled_from(sorted(FORMS)))
    if form == "tensor, int32" and any(not -(2**31) <= v < 2**31 for v in values):
        form = "tensor"
    if form.startswith("tensor") and dtype == np.uint64:
        array = array.astype(np.int64)
        values = array.tolist()
    meant = np.array(values, object)
    good = all(0 <= v < limit for v in meant)
    return FORMS[form](array), np.array(values, np.int64) if good else None


def odd_numbers(limit: int | None) -> st.SearchStrategy[tuple[Any, Any]]:
    """(what is handed in, the integer it means). `limit` None: any integer is right."""
    right = st.integers() if limit is None else st.integers(0, limit - 1)
    good = right.map(lambda v: (v, v))
    if limit is None or limit <= 2**31:
        small = st.integers(0, 40).map(lambda v: (np.int32(v), v))
        good = st.one_of(good, small, small.map(lambda g: (np.uint8(g[1]), g[1])))
    wrong: Any = [None, "3", b"3", [], [1], (), {}, np.arange(3), np.array([], int), 1j, object()]
    if limit is not None:
        wrong += [-1, -(2**63), -(2**70), limit, 2**63, 2**64, 2**70, float("nan"), float("inf")]
    return st.one_of(good, st.sampled_from(wrong).map(lambda v: (v, None)))


def odd_arrays(rows: int = 4) -> st.SearchStrategy[Any]:
    """Arrays, right and wrong, for results, weights and columns of so many rows."""
    right = np.ones((rows, 3), np.float32)
    flat = np.linspace(0, 1, rows)
    arrays = [
        lambda: right.copy(),
        lambda: flat.copy(),
        lambda: flat.astype(np.float32),
        lambda: flat.astype(np.float16),
        lambda: flat.astype(int),
        lambda: flat.astype(bool),
        lambda: flat.astype(complex),
        lambda: flat.astype(object),
        lambda: flat.astype(">f8"),
        lambda: flat.astype(str),
        lambda: flat.tolist(),
        lambda: -flat,
        lambda: flat * np.nan,
        lambda: flat + np.inf,
        lambda: np.repeat(flat, 2)[::2],
        lambda: np.broadcast_to(np.float64(1), rows),
        lambda: np.broadcast_to(np.float32(1), (rows, 3)),
        lambda: _read_only(right.copy()),
        lambda: np.asfortranarray(right),
        lambda: np.ones((3, rows), np.float32).T,
        lambda: np.ones((rows + 1, 3), np.float32),
        lambda: np.ones((rows, 3)),
        lambda: np.ones((rows, 0), np.float32),
        lambda: np.ones((rows, 2, 2, 2), np.int8),
        lambda: np.ones((0, 3), np.float32),
        lambda: np.float32(3),
        lambda: np.zeros(rows, [("a", "f4"), ("b", "f4")]),
        lambda: np.zeros(rows, "M8[s]"),
        lambda: np.zeros(rows, "V4"),
        lambda: None,
        lambda: "text",
        lambda: 7,
        lambda: [[1], [2, 3]],
        dict,
        lambda: _torch().ones(rows, 3, device="meta"),
        lambda: _torch().ones(rows, 3).to_sparse(),
        lambda: _torch().ones(3, rows).T,
        lambda: memoryview(b"abc"),
    ]
    return st.sampled_from(arrays).map(lambda make: make())
