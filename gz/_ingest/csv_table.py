"""Text tables: finding out how a file is laid out, then parsing it with the engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from gz import _engine
from gz._engine import InputError

from . import remote
from .arrays import Column
from .tables import Chunk, Table
from .text import Text

_SNIFF = 1 << 18
_BOM = b"\xef\xbb\xbf"
_DELIMITERS = (",", "\t", ";", "|")
SOURCE_NAMES = {
    "src",
    "source",
    "src_id",
    "source_id",
    "from",
    "from_id",
    "u",
    "head",
    "start",
    "node1",
    "node_1",
    "citing",
}
TARGET_NAMES = {
    "dst",
    "dest",
    "destination",
    "target",
    "dst_id",
    "target_id",
    "to",
    "to_id",
    "v",
    "tail",
    "end",
    "node2",
    "node_2",
    "cited",
}
ID_NAMES = {"id", "node", "node_id", "nodeid", "name"}


@dataclass
class Layout:
    """How the text is laid out, from its first lines."""

    delimiter: str
    names: list[str]  # empty without a header
    num_fields: int
    data_offset: int  # where the first line after the header starts
    lines_before: int
    sample: list[list[str]]  # fields of the first data lines

    def field(self, which: str | int, path: str) -> int:
        if isinstance(which, (int, np.integer)):
            if not 0 <= which < self.num_fields:
                raise InputError(
                    f"{path}: there is no column {which}: lines have {self.num_fields} fields, counted from 0"
                )
            return int(which)
        if which in self.names:
            return self.names.index(which)
        if not self.names:
            raise InputError(
                f"{path}: has no header, so column {which!r} cannot be found; give its position, from 0"
            )
        raise InputError(f"{path}: there is no column {which!r}; the header has {', '.join(self.names)}")

    def name(self, field: int) -> str:
        return self.names[field] if self.names else f"column{field}"


def is_compressed(path: str) -> bool:
    return path.endswith((".gz", ".zst", ".bz2"))


def is_stream(path: str) -> bool:
    """Whether the text has to be read front to back: compressed, or elsewhere."""
    return is_compressed(path) or remote.is_remote(path)


def open_text(path: str) -> IO[bytes]:
    if remote.is_remote(path):
        file, kinds = remote.open_file(path), {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
        kind = kinds.get(os.path.splitext(path)[1])
        return _compressed(file, kind) if kind else file
    if path.endswith(".gz"):
        import gzip

        return gzip.open(path, "rb")  # type: ignore[return-value]
    if path.endswith(".bz2"):
        import bz2

        return bz2.open(path, "rb")  # type: ignore[return-value]
    if path.endswith(".zst"):
        import pyarrow as pa

        return _compressed(pa.OSFile(path, "rb"), "zstd")
    return open(path, "rb")


def _compressed(file: Any, kind: str) -> IO[bytes]:
    import pyarrow as pa

    return pa.CompressedInputStream(file, kind)  # type: ignore[return-value]


def _number(s: str) -> bool:
    try:
        float(s)
    except ValueError:
        return False
    return True


def _find_delimiter(lines: list[str]) -> str:
    """The first candidate that cuts every line seen into two fields or more; else blanks; else a comma."""
    for d in _DELIMITERS:
        counts = {len(_engine.CsvFormat(d).split(line)) for line in lines[:20]}
        if min(counts, default=0) > 1:
            return d
    if lines and all(len(line.split()) > 1 for line in lines[:20]):
        return " "
    for d in _DELIMITERS:  # ragged lines: the parser will name the one that is wrong
        if lines and d in lines[0]:
            return d
    return ","


def _is_header(fields: list[str], following: list[list[str]], text_keys: bool) -> bool:
    if any(_number(f) for f in fields) or any(f.lower() in ("true", "false", "") for f in fields):
        return False
    if not text_keys:
        return True
    known = SOURCE_NAMES | TARGET_NAMES | ID_NAMES
    if any(f.lower() in known for f in fields):
        return True
    # Text over numbers is a header; text over text is taken for data.
    return bool(following) and any(_number(f) for f in following[0])


def sniff(path: str, delimiter: str | None, header: bool | None, text_keys: bool) -> Layout:
    try:
        with open_text(path) as f:
            head = f.read(_SNIFF)
    except (EOFError, OSError) as e:
        if isinstance(e, (FileNotFoundError, IsADirectoryError, PermissionError)):
            raise
        raise InputError(f"{path}: cannot be decompressed: {e}") from None
    start = len(_BOM) if head.startswith(_BOM) else 0
    if delimiter is not None and len(delimiter.encode()) != 1:
        raise ValueError(f"delimiter={delimiter!r} must be one character")
    raw = head[start:].split(b"\n")
    if len(head) >= _SNIFF and len(raw) > 1:
        raw.pop()  # cut off in the middle
    offset = start
    lines: list[tuple[int, int, str]] = []  # (line number from 0, offset after it, text)
    for i, line in enumerate(raw):
        offset += len(line) + 1
        text = line.rstrip(b"\r").decode("utf-8", "replace").strip(" " if delimiter == "\t" else " \t")
        if text and not text.startswith("#"):
            lines.append((i, offset, text))
    texts = [t for _, _, t in lines[:100]]
    d = delimiter if delimiter is not None else _find_delimiter(texts)
    split = _engine.CsvFormat(d).split
    sample = [split(t) for t in texts]
    if not sample:
        return Layout(d, [], 2, start, 0, [])
    has_header = header if header is not None else _is_header(sample[0], sample[1:], text_keys)
    if has_header:
        number, after, _ = lines[0]
        return Layout(d, sample[0], len(sample[0]), min(after, len(head)), number + 1, sample[1:])
    return Layout(d, [], len(sample[0]), start, 0, sample)


def guess_dtype(values: list[str], path: str, name: str) -> str:
    """int64, float32 or bool, from the first lines."""
    if values and all(v.lower() in ("true", "false") for v in values):
        return "bool"
    if values and not _number(values[0]):
        raise InputError(
            f"{path}: column {name!r} holds text ({values[0]!r}), which cannot be stored; choose "
            "the columns to keep"
        )
    # A value that is no number further down is the parser's to report, with its line.
    return "int64" if all(_is_integer(v) for v in values if _number(v)) else "float32"


class CsvTable(Table):
    """A text file with up to two id columns and any number of value columns."""

    def __init__(
        self,
        path: str,
        *,
        keys: Sequence[str | int] | None = (),
        values: Sequence[str | int] | None = None,
        dtypes: dict[str, str] | None = None,
        dtype: str | None = None,
        weight: str | None = None,
        text_keys: bool | None = False,
        any_integer: bool = False,
        delimiter: str | None = None,
        header: bool | None = None,
        skip_bad: bool = False,
        piece_bytes: int = 8 << 20,
        empty_is_nan: bool = False,
    ):
        self.name = os.fspath(path)
        self.layout = sniff(self.name, delimiter, header, text_keys is not False)
        lay = self.layout
        self._key_fields = [
            lay.field(k, self.name) for k in (_default_keys(lay, self.name) if keys is None else keys)
        ]
        if text_keys is None:  # find out: integers stay integers
            first = lay.sample[0] if lay.sample else []
            text_keys = any(k < len(first) and not _is_integer(first[k]) for k in self._key_fields)
        self.text_keys = text_keys
        self._any_integer = any_integer
        self._skip_bad = skip_bad
        self._empty_is_nan = empty_is_nan
        self._piece_bytes = piece_bytes
        rest = [i for i in range(lay.num_fields) if i not in self._key_fields]
        self._value_fields = rest if values is None else [lay.field(v, self.name) for v in values]
        self.weight = weight
        self.columns = [Column(lay.name(k), "text" if text_keys else "int64") for k in self._key_fields]
        self.value_columns = []
        for f in self._value_fields:
            name = lay.name(f)
            chosen = "float32" if name == weight else (dtypes or {}).get(name) or dtype
            if chosen is None:
                chosen = guess_dtype([r[f] for r in lay.sample if f < len(r)], self.name, name)
            self.value_columns.append(Column(name, chosen))
        self.columns += self.value_columns
        self.limits: list[int] = [0] * len(self._key_fields)
        elsewhere = remote.is_remote(self.name)
        self.bytes_total = remote.size(self.name) if elsewhere else os.path.getsize(self.name)
        self.bytes_done = 0

    @property
    def key_names(self) -> list[str]:
        return [c.name for c in self.columns[: len(self._key_fields)]]

    def record(self) -> np.dtype:
        """One row of values as the parser packs it."""
        return np.dtype([(c.name, c.numpy) for c in self.value_columns])

    def _source(self, record: np.dtype) -> _engine.CsvSource:
        lay = self.layout
        names = lay.names or []
        f = _engine.CsvFormat(
            lay.delimiter,
            lay.num_fields,
            self._key_fields,
            self.text_keys,
            self._any_integer,
            self.limits,
            self._skip_bad,
            names,
        )
        fields: Any = record.fields or {}
        for field, c in zip(self._value_fields, self.value_columns, strict=True):
            at = int(fields[c.name][1])
            f.add_value(field, c.dtype, at, c.name == self.weight, self._empty_is_nan)
        f.set_payload(record.itemsize)
        return _engine.CsvSource(self.name, f, lay.lines_before, self._piece_bytes)

    def _run(
        self, source: _engine.CsvSource, from_file: Callable[[], Any], from_text: Callable[[bytes], Any]
    ) -> Iterator[Any]:
        """Drives the parser over the file or the decompressed text, one wave at a time."""
        if not is_stream(self.name):
            source.open_file(self.layout.data_offset)
            more = True
            while more:
                more, result = from_file()
                self.bytes_done = min(source.position, self.bytes_total)
                yield result
        else:
            for text in self._decompressed():
                yield from_text(text)
        self.skipped, self.first_skipped = source.skipped, source.first_skipped

    def _decompressed(self) -> Iterator[bytes]:
        wave = self._piece_bytes * 4
        with open_text(self.name) as f:
            f.read(self.layout.data_offset)
            rest = b""
            while True:
                try:
                    block = f.read(wave)
                except (EOFError, OSError) as e:
                    raise InputError(f"{self.name}: cannot be decompressed: {e}") from None
                if not block:
                    break
                block = rest + block
                cut = block.rfind(b"\n") + 1
                rest = block[cut:]
                if cut:
                    yield block[:cut]
            if rest:
                yield rest

    def to_builder(self, builder: _engine.Builder, record: np.dtype, tick: Callable[[], None]) -> None:
        """All edges straight into the builder; nothing passes through Python."""
        source = self._source(record)
        steps = self._run(
            source,
            lambda: (source.file_to_builder(builder), None),
            lambda text: source.text_to_builder(builder, text),
        )
        for _ in steps:
            tick()

    def chunks(self, rows: int) -> Iterator[Chunk]:
        record = self.record()
        source = self._source(record)
        row = 0
        for pieces in self._run(source, source.file_to_rows, source.text_to_rows):
            for count, keys, payload in pieces:
                part: dict[str, Any] = {}
                for c, k in zip(self.columns, keys, strict=False):
                    part[c.name] = Text(*k) if self.text_keys else k
                values = payload.view(record) if record.itemsize else None
                for c in self.value_columns:
                    part[c.name] = values[c.name] if values is not None else None
                yield Chunk(part, count, self.name, row)
                row += count


def _is_integer(s: str) -> bool:
    try:
        int(s)
    except ValueError:
        return False
    return True


def _default_keys(lay: Layout, path: str) -> list[int]:
    lower = [n.lower() for n in lay.names]
    src = [i for i, n in enumerate(lower) if n in SOURCE_NAMES]
    dst = [i for i, n in enumerate(lower) if n in TARGET_NAMES]
    if len(src) == 1 and len(dst) == 1:
        return [src[0], dst[0]]
    if lay.num_fields < 2:
        first = lay.names or (lay.sample[0] if lay.sample else [])
        raise InputError(
            f"{path}, line {max(lay.lines_before, 1)}: has 1 field "
            f"({first[0] if first else ''!r}), an edge needs two"
        )
    return [0, 1]
