"""Columns of text: node names on their way to dense ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Text:
    """`bytes[offsets[i]:offsets[i + 1]]` is value i, UTF-8."""

    offsets: np.ndarray  # uint64 [n + 1]
    bytes: np.ndarray  # uint8

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, part: slice) -> Text:
        start, stop, _ = part.indices(len(self))
        offsets = self.offsets[start : max(start, stop) + 1]
        return Text(offsets - offsets[0], self.bytes[int(offsets[0]) : int(offsets[-1])])

    def value(self, i: int) -> str:
        return bytes(self.bytes[int(self.offsets[i]) : int(self.offsets[i + 1])]).decode("utf-8", "replace")

    @staticmethod
    def of(values: Iterable[Any]) -> Text:
        return Text.of_bytes([v if isinstance(v, bytes) else str(v).encode() for v in values])

    @staticmethod
    def of_bytes(encoded: list[Any]) -> Text:
        offsets = np.zeros(len(encoded) + 1, np.uint64)
        np.cumsum([len(e) for e in encoded], out=offsets[1:], dtype=np.uint64)
        return Text(offsets, np.frombuffer(b"".join(encoded), np.uint8))

    @staticmethod
    def from_arrow(values: Any) -> Text:
        import pyarrow as pa

        values = values.cast(pa.large_binary())
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        _, offsets, data = values.buffers()
        first = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
        raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        return Text((first - first[0]).astype(np.uint64), raw[int(first[0]) : int(first[-1])])

    def to_arrow(self) -> Any:
        import pyarrow as pa

        offsets = np.ascontiguousarray(self.offsets, np.int64)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(self.bytes))]
        return pa.Array.from_buffers(pa.large_string(), len(self), buffers)
