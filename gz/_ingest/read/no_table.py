"""Files that are given as text tables and are something else: known by how they begin, and named."""

from __future__ import annotations

import json

from gz._engine import InputError

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


def refuse_other_formats(head: bytes, path: str) -> None:
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
    """An array, or lines of objects or arrays. A field may begin with a brace; a line that is JSON is no row."""
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
