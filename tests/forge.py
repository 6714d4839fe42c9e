"""Files damaged on purpose, with every checksum made right again: what only a rule of the format can find."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

CHUNK = 4 << 20
INDPTR, INDICES, EDGE_IDS, EDGE_POSITIONS, WEIGHTS, ALIAS = range(6)
DATA = 0
# By the number of a dtype; a bool as its byte, which may be neither 0 nor 1.
NUMPY = {1: "u1", 2: "u1", 3: "i1", 4: "<i2", 5: "<i4", 6: "<i8", 7: "<f2", 8: "<u2", 9: "<f4", 10: "<f8"}
NUMPY |= {11: "<u4", 12: "<u8"}


def tree_hash(data: bytes) -> int:
    """The checksum of a section as docs/format.md words it, on the reference implementation of XXH64."""
    chunks = [xxhash.xxh64_intdigest(data[i : i + CHUNK]) for i in range(0, len(data), CHUNK)]
    return xxhash.xxh64_intdigest(struct.pack(f"<{len(chunks)}Q", *chunks))


def change(path: str | os.PathLike[str], section: int, edit: Callable[[np.ndarray], Any]) -> None:
    """Lets `edit` write to a section of a .gl or .gd file, seen as an array of its dtype."""
    data = bytearray(Path(path).read_bytes())
    at = 64 + 32 * section
    offset, size, _, dtype = struct.unpack_from("<QQQI", data, at)
    array = np.frombuffer(data, NUMPY[dtype], size // np.dtype(NUMPY[dtype]).itemsize, offset).copy()
    edit(array)
    data[offset : offset + size] = array.tobytes()
    struct.pack_into("<Q", data, at + 16, tree_hash(array.tobytes()))
    _seal(path, data)


def put(path: str | os.PathLike[str], offset: int, form: str, *values: int) -> None:
    """Writes numbers into the header."""
    data = bytearray(Path(path).read_bytes())
    struct.pack_into("<" + form, data, offset, *values)
    _seal(path, data)


def sealed(head: bytes | bytearray) -> bytes:
    """A header with its checksum made right."""
    out = bytearray(head[:4096])
    struct.pack_into("<Q", out, 32, 0)
    struct.pack_into("<Q", out, 32, xxhash.xxh64_intdigest(bytes(out)))
    return bytes(out)


def _seal(path: str | os.PathLike[str], data: bytearray) -> None:
    data[:4096] = sealed(data)
    Path(path).write_bytes(data)
    root = next((p for p in Path(path).parents if (p / "store.json").exists()), None)
    if root is not None:
        checksum = f"{struct.unpack_from('<Q', data, 32)[0]:016x}"
        edit_json(root, lambda d: d["files"].update({str(Path(path).relative_to(root)): checksum}))


def edit_json(root: str | os.PathLike[str], edit: Callable[[dict[str, Any]], Any]) -> None:
    """Lets `edit` change store.json."""
    file = Path(root) / "store.json"
    data = json.loads(file.read_text())
    edit(data)
    file.write_text(json.dumps(data))
