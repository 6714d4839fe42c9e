"""Files elsewhere: s3://, gs://, hdfs://, abfs:// through pyarrow, any other scheme through fsspec.

Parquet, text and .npy are read straight from there, in pieces. Credentials and regions are what these
libraries take from the environment.
"""

from __future__ import annotations

import errno
import re
from typing import Any

from gz._engine import InputError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def is_remote(path: str) -> bool:
    return bool(_SCHEME.match(path)) and not path.startswith("file://")


def local(path: str) -> str:
    """file:///data/x is /data/x; everything else stays."""
    if not path.startswith("file://"):
        return path
    from urllib.parse import unquote, urlparse

    return unquote(urlparse(path).path)


def _filesystem(path: str) -> tuple[Any, str]:
    """A pyarrow filesystem and the path inside it."""
    import pyarrow as pa
    from pyarrow import fs

    try:
        return fs.FileSystem.from_uri(path)
    except pa.ArrowInvalid:
        pass  # a scheme that pyarrow itself does not know
    except OSError as e:
        raise InputError(f"{path}: cannot be reached: {e}") from None
    try:
        import fsspec
    except ImportError:
        raise InputError(f"{path}: this kind of address needs fsspec: pip install fsspec") from None
    try:
        found, inner = fsspec.core.url_to_fs(path)
    except (ValueError, ImportError) as e:
        raise InputError(f"{path}: cannot be reached: {e}") from None
    return fs.PyFileSystem(fs.FSSpecHandler(found)), inner


def expand(path: str) -> list[str]:
    """The file, or all files below a folder, sorted; names that start with . or _ are left out."""
    from pyarrow import fs

    where, inner = _filesystem(path)
    inner = inner.rstrip("/")
    info = where.get_file_info(inner)
    if info.type == fs.FileType.File:
        return [path]
    found = []
    if info.type == fs.FileType.Directory:
        for f in where.get_file_info(fs.FileSelector(inner, recursive=True)):
            below = f.path[len(inner) :].strip("/").split("/")
            hidden = any(p.startswith((".", "_")) and "=" not in p for p in below)
            if f.type == fs.FileType.File and not hidden:
                found.append(path.rstrip("/") + "/" + "/".join(below))
    if not found:
        raise FileNotFoundError(errno.ENOENT, "there is no such file or folder", path)
    return sorted(found)


def open_file(path: str) -> Any:
    """A readable, seekable binary file."""
    where, inner = _filesystem(path)
    return where.open_input_file(inner)


def size(path: str) -> int:
    where, inner = _filesystem(path)
    return int(where.get_file_info(inner).size)
