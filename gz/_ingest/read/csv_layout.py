"""Text tables: how a file is laid out, from its first lines: delimiter, header, columns and their types."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

import numpy as np

from gz import _engine
from gz._engine import InputError
from gz._ingest.read.csv_header import has_header, is_integer, is_number
from gz._ingest.read.files import InputFile

SNIFF = 1 << 18
_LONGEST_START = 1 << 28  # comments and a header of millions of names; beyond it this is no text table
_BOM = b"\xef\xbb\xbf"
_DELIMITERS = (",", "\t", ";", "|")


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


_KINDS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


def is_stream(file: InputFile) -> bool:
    """Whether the text has to be read front to back: compressed, or elsewhere."""
    return file.is_remote or file.path.endswith(tuple(_KINDS))


def open_text(file: InputFile) -> IO[bytes]:
    kind = _KINDS.get(os.path.splitext(file.path)[1])
    if kind == "gzip":
        return gzip.GzipFile(fileobj=file.reader())  # type: ignore[return-value]
    if kind == "bz2":
        return bz2.BZ2File(file.reader())  # type: ignore[return-value]
    if kind == "zstd":
        import pyarrow as pa

        return pa.CompressedInputStream(file.reader(), kind)  # type: ignore[return-value]
    return file.reader()


def read_text(file: InputFile) -> bytes:
    """The first 256 KiB, and more until a line of the table is whole: half a header would become a row."""
    try:
        with open_text(file) as f:
            head = f.read(SNIFF)
            while not any(s and not s.startswith(b"#") for s in map(bytes.strip, head.split(b"\n")[:-1])):
                more = f.read(max(SNIFF, len(head)))
                if not more:
                    break
                head += more
                if len(head) > _LONGEST_START:
                    raise InputError(
                        f"{file.path}: its first {len(head)} bytes hold no whole line; is it a text table?"
                    )
            return head
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except (EOFError, OSError) as e:
        if os.path.splitext(file.path)[1] not in _KINDS:
            raise
        raise InputError(f"{file.path}: cannot be decompressed: {e}") from None


def _find_delimiter(lines: list[str], path: str) -> str:
    """The candidate that cuts every line seen into two fields or more, all alike if several do; else blanks;
    else a comma."""
    counts = {d: {len(_engine.CsvFormat(d).split(line)) for line in lines[:20]} for d in _DELIMITERS}
    fit = [d for d in _DELIMITERS if min(counts[d], default=0) > 1]
    even = [d for d in fit if len(counts[d]) == 1]
    if len(even) > 1:
        readings = (
            f"  delimiter={d!r}: {', '.join(_engine.CsvFormat(d).split(lines[0]))[:60]}" for d in even
        )
        raise InputError(
            "\n".join([f"{path}: what cuts its lines into fields? Say it (--delimiter):", *readings])
        )
    if fit:
        return (even or fit)[0]
    if lines and all(len(line.split()) > 1 for line in lines[:20]):
        return " "
    for d in _DELIMITERS:  # ragged lines: the parser will name the one that is wrong
        if lines and d in lines[0]:
            return d
    return ","


def sniff(
    file: InputFile,
    delimiter: str | None,
    header: bool | None,
    decide: Callable[[list[list[str]], str], bool] = has_header,
    comments: bool | None = True,
) -> Layout:
    """`decide` is asked whether there is a header, with the fields of the first lines and the path.
    `comments`: whether lines that start with # are left out; None where ids are text: such a line is refused
    if it might be a row.
    """
    head = read_text(file)
    _refuse_other_formats(head, file.path)
    start = len(_BOM) if head.startswith(_BOM) else 0
    if delimiter is not None and len(delimiter.encode()) != 1:
        raise ValueError(f"delimiter={delimiter!r} must be one character")
    raw = head[start:].split(b"\n")
    if len(head) >= SNIFF and len(raw) > 1:
        raw.pop()  # may be cut off in the middle
    offset = start
    for i, line in enumerate(raw):
        if b"\r" in line.rstrip(b"\r") and b'"' not in line:
            raise InputError(
                f"{file.path}, line {i + 1}: holds a carriage return that ends no line; where lines end in "
                "CR alone, convert the file (tr '\\r' '\\n')"
            )
    lines: list[tuple[int, int, int, str]] = []  # (line number from 0, its offset, offset after it, text)
    remarks: list[tuple[int, str]] = []
    for i, line in enumerate(raw):
        before, offset = offset, offset + len(line) + 1
        text = line.rstrip(b"\r").decode("utf-8", "replace").strip(" " if delimiter == "\t" else " \t")
        if text.startswith("#") and (comments or not lines):
            remarks.append((i, text))
        elif text:
            lines.append((i, before, offset, text))
    texts = [t for *_, t in lines[:100]]
    d = delimiter if delimiter is not None else _find_delimiter(texts, file.path)
    split = _engine.CsvFormat(d).split
    sample = [split(t) for t in texts]
    if not sample:
        return Layout(d, [], 2, start, 0, [])
    for i, text in remarks if comments is None else ():
        if len(split(text)) == len(sample[0]) and (d != " " or not text.startswith("# ")):
            raise InputError(
                f"{file.path}, line {i + 1}: {text[:60]!r} may be a comment or a row; take the line away, or "
                "put its first field in quotes"
            )
    number, before, after, _ = lines[0]
    if header if header is not None else decide(sample, file.path):
        twice = sorted({n for n in sample[0] if n and sample[0].count(n) > 1})
        if twice:
            raise InputError(f"{file.path}: its header has the column {twice[0]!r} twice; rename one")
        return Layout(d, sample[0], len(sample[0]), min(after, len(head)), number + 1, sample[1:])
    return Layout(d, [], len(sample[0]), before, number, sample)


_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?")
_COMMAS = re.compile(r"[+-]?(\d+,\d+|\d{1,3}(,\d{3})+(\.\d*)?|\d{1,3}(\.\d{3})+,\d+)")
_UNITS = ((0, "s"), (3, "ms"), (6, "us"), (9, "ns"))


def guess_dtype(values: list[str]) -> str:
    """bool, int64, float64, text, or the arrow type of a date or time, from the first lines."""
    values = [v for v in values if v != ""]
    if values and all(v.lower() in ("true", "false") for v in values):
        return "bool"
    if values and all(_DATE.fullmatch(v) for v in values):
        return "date32[day]"
    times = [_TIME.fullmatch(v) for v in values]
    if values and all(times):
        digits = max(len(t.group(2) or ".") - 1 for t in times if t)
        unit = next(u for most, u in _UNITS if digits <= most)
        zone = any(t.group(3) for t in times if t)
        return f"timestamp[{unit}, tz=UTC]" if zone else f"timestamp[{unit}]"
    numbers = [v for v in values if is_number(v)]
    if values and not numbers:
        return "text"
    # A value that is no number among numbers is the parser's to report, with its line.
    return "int64" if all(is_integer(v) for v in numbers) else "float64"


def commas_in_numbers(values: list[str]) -> str | None:
    """The first of them, where all look like 2,5 or 1,234.5: text here, and numbers to whoever wrote them."""
    values = [v for v in values if v != ""]
    return values[0] if values and all(_COMMAS.fullmatch(v) for v in values) else None


# ---- what is no text table, known by how it begins ----

_FRAME = "read it with pandas or pyarrow and give gz.ingest the frame"
_BEGINS: dict[bytes, tuple[str, str]] = {
    b"PAR1": ("a Parquet file", "give it the suffix .parquet"),
    b"\x1f\x8b": ("compressed by gzip", "give it the suffix .gz"),
    b"BZh": ("compressed by bzip2", "give it the suffix .bz2"),
    b"\x28\xb5\x2f\xfd": ("compressed by zstd", "give it the suffix .zst"),
    b"\xfd7zXZ": ("compressed by xz", "unpack it (unxz)"),
    b"\x04\x22\x4d\x18": ("compressed by lz4", "unpack it (unlz4)"),
    b"PK\x03\x04": ("a zip archive (also .xlsx, .ods)", f"unpack it, or {_FRAME}"),
    b"ARROW1": ("an Arrow or Feather file", f"{_FRAME}: pyarrow.feather.read_table"),
    b"FEA1": ("a Feather file", f"{_FRAME}: pyarrow.feather.read_table"),
    b"ORC": ("an ORC file", f"{_FRAME}: pyarrow.orc.read_table"),
    b"Obj\x01": ("an Avro file", _FRAME),
    b"\x89HDF": ("an HDF5 file", _FRAME),
    b"SQLite format 3": ("an SQLite database", f"{_FRAME}: pandas.read_sql"),
    b"\xd0\xcf\x11\xe0": ("an old Excel file", f"{_FRAME}: pandas.read_excel"),
    b"\x93NUMPY": ("an array of numpy", "give it the suffix .npy"),
    b"%%MatrixMarket": ("a Matrix Market file", "read it with scipy.io.mmread and give (m.row, m.col)"),
    b"\xff\xfe": ("text in UTF-16", "convert it (iconv -f UTF-16 -t UTF-8)"),
    b"\xfe\xff": ("text in UTF-16", "convert it (iconv -f UTF-16 -t UTF-8)"),
    b"%PDF": ("a PDF file", "give a table"),
}
_MARKUP = (b"<!doctype html", b"<html", b"<?xml")


def _refuse_other_formats(head: bytes, path: str) -> None:
    """`head`: the first bytes. Raises InputError."""
    for begins, (what, remedy) in _BEGINS.items():
        # Names may begin as some of these do ("ORC,b"): such a file has zero bytes or control characters too.
        if head.startswith(begins) and (not begins.isalnum() or not _is_text(head)):
            raise InputError(f"{path}: is {what}, not a text table; {remedy}")
    if head.lstrip()[:14].lower().startswith(_MARKUP):
        raise InputError(f"{path}: is a page of HTML or XML, not a text table; was the download refused?")
    if _is_json(head.lstrip()):
        raise InputError(f"{path}: is JSON, not a text table; {_FRAME}: pandas.read_json(..., lines=True)")
    if b"\0" in head:
        raise InputError(
            f"{path}: holds zero bytes, so it is no text table; a pickle, an archive, or text in UTF-16?"
        )


def _is_text(head: bytes) -> bool:
    return not any(b < 9 or 13 < b < 32 for b in head[:4096])


def _is_json(head: bytes) -> bool:
    """An array, or lines of objects or arrays. A field may begin with a brace; a whole line is no row."""
    if not head.startswith((b"{", b"[")):
        return False
    line = head.split(b"\n", 1)[0].strip()
    if line in (b"{", b"[", b"[{"):
        return True
    try:
        json.loads(line)
    except ValueError:
        return line.startswith((b'{"', b'[{"')) and b'":' in line  # a file of one line, longer than its head
    return True
