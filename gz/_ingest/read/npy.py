"""`.npy` files and `.npz` members, read front to back without mapping or loading them whole."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from gz._base.arrays import check_shape
from gz._engine import InputError
from gz._ingest.read.files import Files, InputFile, Reader
from gz._ingest.read.zip_member import Checksum, open_member


class DiskArray:
    """An array in a file, given out by its rows."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    fortran = False

    def __len__(self) -> int:
        return self.rows

    @property
    def rows(self) -> int:
        return int(self.shape[0]) if self.shape else 0

    def check_order(self) -> None:
        if self.fortran:
            raise InputError(f"{self.name}: is stored in Fortran order; save it with np.ascontiguousarray")

    def chunks(self, rows: int) -> Iterator[np.ndarray]:
        """The rows in order, at most `rows` at a time."""
        raise NotImplementedError


class NpyArray(DiskArray):
    """An .npy file or a member of an .npz: shape, dtype, order, and streams over its bytes."""

    def __init__(self, file: InputFile, member: str | None = None):
        self.file = file
        self.name = f"{file.path}:{member}" if member else file.path
        self._info = None if member is None else directory(file)[member]
        self._checksum = Checksum(self._info) if self._info is not None else None
        try:
            with self._open() as f:
                version = npy_format.read_magic(f)
                if version == (1, 0):
                    header = npy_format.read_array_header_1_0(f)
                elif version == (2, 0):
                    header = npy_format.read_array_header_2_0(f)
                else:
                    raise ValueError(f"npy version {version} is not supported")
                self.data_offset = f.tell()
            check_shape(header[0])
        except (ValueError, zipfile.BadZipFile, EOFError) as e:
            raise InputError(f"{self.name}: is not a readable .npy array: {e}") from None
        self.shape, self.fortran, self.dtype = header
        if self.dtype.hasobject:
            raise InputError(f"{self.name}: holds Python objects; save it as plain numbers")
        if len(self.shape) < 2:
            self.fortran = False
        need = self.data_offset + int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize
        have = file.size if self._info is None else self._info.file_size
        if have < need:
            raise InputError(f"{self.name}: is {have} bytes long, but its header promises {need}: truncated")

    def _open(self) -> Any:
        if self._info is None or self._checksum is None:
            return Reader(self.file)
        return open_member(self.file, self._info, self._checksum)

    def stream(self, first_item: int = 0) -> NpyStream:
        f = self._open()
        f.seek(self.data_offset + first_item * self.dtype.itemsize)
        return NpyStream(f, self)

    def chunks(self, rows: int) -> Iterator[np.ndarray]:
        self.check_order()
        items = int(np.prod(self.shape[1:], dtype=np.int64))
        stream = self.stream()
        try:
            for at in range(0, self.rows, rows):
                n = min(rows, self.rows - at)
                yield stream.take(n * items).reshape((n, *self.shape[1:]))
        finally:
            stream.close()

    def load(self) -> np.ndarray:
        """The whole of it, in memory."""
        whole = self.stream().take(int(np.prod(self.shape, dtype=np.int64)))
        return whole.reshape(self.shape, order="F" if self.fortran else "C")


class RawArray(NpyArray):
    """An array without an .npy header: its shape and place in the file come from elsewhere."""

    def __init__(self, file: InputFile, dtype: str, shape: tuple[int, ...], data_offset: int = 0):
        self.file, self.name = file, file.path
        self._info = self._checksum = None
        self.dtype, self.shape, self.data_offset, self.fortran = np.dtype(dtype), shape, data_offset, False
        need = data_offset + int(np.prod(shape, dtype=object)) * self.dtype.itemsize
        if file.size < need:
            raise InputError(
                f"{self.name}: is {file.size} bytes long, but its shape {shape} needs {need}: truncated"
            )


class NpyStream:
    """Items one after the other."""

    def __init__(self, file: Any, array: NpyArray):
        self._file = file
        self._array = array

    def take(self, items: int) -> np.ndarray:
        out = np.empty(items, self._array.dtype)
        view = memoryview(out.view(np.uint8).reshape(-1)) if out.nbytes else memoryview(b"")  # type: ignore[arg-type]
        at = 0
        while at < len(view):
            try:
                n = self._file.readinto(view[at : at + (1 << 26)])
            except (zipfile.BadZipFile, EOFError, OSError) as e:
                raise InputError(f"{self._array.name}: cannot be read: {e}") from None
            if not n:
                raise InputError(f"{self._array.name}: ends too early: truncated")
            at += n
        return out

    def close(self) -> None:
        self._file.close()


def split_member(path: str) -> tuple[str, str | None]:
    """ "file.npz:name" -> (file.npz, name). A path that exists as it stands is taken as it stands."""
    head, colon, tail = path.rpartition(":")
    if colon and head.endswith(".npz") and not os.path.exists(path):
        return head, tail
    return path, None


def directory(file: InputFile) -> dict[str, zipfile.ZipInfo]:
    """The arrays of an .npz, by file name; read once."""
    if file.is_remote:
        raise InputError(f"{file.path}: .npz archives are read from local files only; copy it here first")
    if "zip" not in file.known:
        try:
            with file.reader() as f, zipfile.ZipFile(f) as z:
                file.known["zip"] = {i.filename: i for i in z.infolist() if i.filename.endswith(".npy")}
        except zipfile.BadZipFile as e:
            raise InputError(f"{file.path}: is not a readable .npz archive: {e}") from None
    return file.known["zip"]


def members(path: str, files: Files) -> list[str]:
    """Names of the arrays in an .npz."""
    return [n.removesuffix(".npy") for n in directory(files.get(path))]


def open_array(path: str, files: Files, member: str | None = None) -> NpyArray:
    """The array of an .npy file, or a member of an .npz (which must be named unless there is only one)."""
    if member is None:
        path, member = split_member(path)
    file = files.get(path)
    if not path.endswith(".npz"):
        return NpyArray(file)
    names = members(path, files)
    if member is None:
        if len(names) != 1:
            raise InputError(
                f'{path}: holds several arrays ({", ".join(names)}); name one as "{path}:{names[0]}"'
            )
        member = names[0]
    member = member.removesuffix(".npy")
    if member not in names:
        raise InputError(f"{path}: has no array {member!r}; it has {', '.join(names)}")
    return NpyArray(file, member + ".npy")
