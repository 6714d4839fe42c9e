"""The files of an export: chunks of named columns into .npy files or into one Parquet file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gz._base.files import FileNames
from gz._engine import FormatError
from gz._ingest.read.arrow import arrow_type

# Units that Parquet gives back as it got them; others, such as seconds, go as integers.
_KEPT = re.compile(r"date32\[day\]|timestamp\[(ms|us|ns)(, tz=[^\]]+)?\]|duration\[(ms|us|ns)\]")

Chunks = Iterator[dict[str, Any]]  # arrays, or lists of str, of equal length, by part


@dataclass
class Part:
    """A column of the output."""

    name: str
    dtype: np.dtype[Any] | None  # None: text
    shape: tuple[int, ...] = ()
    names: list[str] | None = None  # what its codes stand for
    unit: str | None = None  # what its integers count, by Arrow's name

    def described(self, where: Any) -> Any:
        """Its place, for a spec: a file, or what names one."""
        told = {k: v for k, v in (("categories", self.names), ("unit", self.unit)) if v is not None}
        if not told:
            return where
        return (where if isinstance(where, dict) else {"file": where}) | told

    @property
    def row_bytes(self) -> int:
        if self.dtype is None:
            return 64  # a guess, for the size of chunks
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def write_npy(
    root: Path,
    base: str,
    rows: int,
    parts: list[Part],
    chunks: Chunks,
    ends: list[str] | None = None,
) -> dict[str, Any]:
    """A file for each part, with codes and times as the integers they are; the two ends of edges go to one,
    edge_index.npy, [2, rows]."""
    if not parts:
        return {}
    (root / base).mkdir(parents=True, exist_ok=True)
    names = FileNames()
    files: dict[str, Any] = {}
    places: list[tuple[Any, int]] = []  # by part: the file, and where in it the first row lies
    with ExitStack() as stack:
        for part in parts:
            if ends and part.name == ends[1]:
                f, at = places[0]
                places.append((f, at + rows * part.row_bytes))
                continue
            joined = bool(ends) and part.name == ends[0]  # type: ignore[index]
            key = "edge_index" if joined else part.name
            files[key] = names.get(base, key, ".npy")
            f = stack.enter_context(open(root / files[key], "wb"))
            shape = (2, rows) if joined else (rows, *part.shape)
            header = {"descr": np.dtype(part.dtype).str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(f, header)
            f.flush()
            places.append((f, f.tell()))
        at = 0
        for chunk in chunks:
            for part, (f, first) in zip(parts, places, strict=True):
                values = np.ascontiguousarray(chunk[part.name], part.dtype)
                _pwrite(f, first + at * part.row_bytes, values)
            at += len(chunk[parts[0].name])
        for f in {id(f): f for f, _ in places}.values():
            f.flush()
            os.fsync(f.fileno())
    return files


def _pwrite(f: Any, at: int, values: NDArray[Any]) -> None:
    view = memoryview(values.reshape(-1).view(np.uint8)) if values.nbytes else memoryview(b"")  # type: ignore[arg-type]
    while len(view):
        n = os.pwrite(f.fileno(), view[: 1 << 30], at)
        view, at = view[n:], at + n


def write_parquet(root: Path, base: str, parts: list[Part], chunks: Chunks) -> dict[str, Any]:
    """One file for all parts, a row group for each chunk."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = f"{base}.parquet"
    if not parts:
        return {}
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([(p.name, _arrow_type(p, pa)) for p in parts])
    with open(root / file, "wb") as f:
        # Ids and floats are too varied for a dictionary, and plain pages read fastest.
        coded = [p.name for p in parts if p.names is not None]
        with pq.ParquetWriter(f, schema, use_dictionary=coded or False) as writer:
            for chunk in chunks:
                typed = zip(parts, schema.types, strict=True)
                arrays = [_arrow_array(chunk[p.name], p, t, pa) for p, t in typed]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        f.flush()
        os.fsync(f.fileno())
    return {p.name: {"file": file, "columns": [p.name]} for p in parts}


def _arrow_type(p: Part, pa: Any) -> Any:
    if p.dtype is None:
        return pa.large_string()
    if len(p.shape) > 1 or (p.shape and not 0 < p.shape[0] < 1 << 31):  # pyarrow dies of lists of length 0
        raise ValueError(
            f"column {p.name!r} has rows of shape {p.shape}, which Parquet cannot hold; export to npy"
        )
    if p.names is not None:
        return pa.dictionary(pa.int32(), pa.string())
    if p.unit is not None and _KEPT.fullmatch(p.unit):
        return arrow_type(p.unit)
    inner = pa.from_numpy_dtype(p.dtype)
    return pa.list_(inner, p.shape[0]) if p.shape else inner


def _arrow_array(values: Any, p: Part, t: Any, pa: Any) -> Any:
    if p.dtype is None:
        return pa.array(values, t)
    flat = pa.array(np.ascontiguousarray(values, p.dtype).reshape(-1))
    if p.names is not None:
        _check_codes(flat.to_numpy(), p)
        return pa.DictionaryArray.from_arrays(flat.cast(pa.int32()), pa.array(p.names, pa.string()))
    if pa.types.is_temporal(t):
        return (flat.cast(pa.int32()) if t.bit_width == 32 else flat).cast(t)
    return pa.FixedSizeListArray.from_arrays(flat, type=t) if p.shape else flat


def _check_codes(codes: NDArray[Any], p: Part) -> None:
    assert p.names is not None
    wild = np.flatnonzero((codes < 0) | (codes >= len(p.names)))
    if len(wild):
        raise FormatError(
            f"column {p.name!r}: holds the code {codes[wild[0]]}, but there are {len(p.names)} names; "
            "run `gz verify`"
        )
