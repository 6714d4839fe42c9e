"""`.npy` files and `.npz` members, read front to back without mapping or loading them whole."""

from __future__ import annotations

import os
import zipfile
from typing import IO

import numpy as np
from numpy.lib import format as npy_format

from gz._engine import InputError

from . import remote
from .zip_member import Checksum, Member


class NpyArray:
    """One array on disk: shape, dtype, order, and streams over its bytes."""

    def __init__(self, path: str, member: str | None = None):
        self.path = path
        self.member = member
        self.name = f"{path}:{member}" if member else path
        self._info: zipfile.ZipInfo | None = None
        try:
            if member is not None:
                with zipfile.ZipFile(path) as z:
                    self._info = z.getinfo(member)
                self._checksum = Checksum(self._info)
            with self._open() as f:
                version = npy_format.read_magic(f)
                if version == (1, 0):
                    header = npy_format.read_array_header_1_0(f)
                elif version == (2, 0):
                    header = npy_format.read_array_header_2_0(f)
                else:
                    raise ValueError(f"npy version {version} is not supported")
                self.data_offset = f.tell()
        except (ValueError, zipfile.BadZipFile, EOFError) as e:
            raise InputError(f"{self.name}: is not a readable .npy array: {e}") from None
        self.shape, self.fortran, self.dtype = header
        if self.dtype.hasobject:
            raise InputError(f"{self.name}: holds Python objects; save it as plain numbers")
        if len(self.shape) < 2:
            self.fortran = False
        need = self.data_offset + int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize
        if self._info is not None:
            have = self._info.file_size
        else:
            have = remote.size(path) if remote.is_remote(path) else os.path.getsize(path)
        if have < need:
            raise InputError(f"{self.name}: is {have} bytes long, but its header promises {need}: truncated")

    def _open(self) -> IO[bytes]:
        if self._info is None and remote.is_remote(self.path):
            return remote.open_file(self.path)
        if self._info is None:
            return open(self.path, "rb", buffering=0)
        return Member(self.path, self._info, self._checksum)  # type: ignore[return-value]

    def stream(self, first_item: int = 0) -> NpyStream:
        f = self._open()
        f.seek(self.data_offset + first_item * self.dtype.itemsize)
        return NpyStream(f, self)

    @property
    def rows(self) -> int:
        return int(self.shape[0]) if self.shape else 0


class RawArray(NpyArray):
    """An array without an .npy header: its shape and place in the file come from elsewhere."""

    def __init__(self, path: str, dtype: str, shape: tuple[int, ...], data_offset: int = 0):
        self.path = self.name = path
        self.member = self._info = None
        self.dtype, self.shape, self.data_offset, self.fortran = np.dtype(dtype), shape, data_offset, False
        need = data_offset + int(np.prod(shape, dtype=object)) * self.dtype.itemsize
        have = os.path.getsize(path)
        if have < need:
            raise InputError(f"{path}: is {have} bytes long, but its shape {shape} needs {need}: truncated")


class NpyStream:
    """Items one after the other."""

    def __init__(self, file: IO[bytes], array: NpyArray):
        self._file = file
        self._array = array

    def take(self, items: int) -> np.ndarray:
        out = np.empty(items, self._array.dtype)
        view = memoryview(out.view(np.uint8).reshape(-1)) if out.nbytes else memoryview(b"")  # type: ignore[arg-type]
        at = 0
        while at < len(view):
            try:
                n = self._file.readinto(view[at : at + (1 << 26)])  # type: ignore[attr-defined]
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


def members(path: str) -> list[str]:
    try:
        if remote.is_remote(path):
            raise InputError(f"{path}: .npz archives are read from local files only; copy it here first")
        with zipfile.ZipFile(path) as z:
            return [n for n in z.namelist() if n.endswith(".npy")]
    except zipfile.BadZipFile as e:
        raise InputError(f"{path}: is not a readable .npz archive: {e}") from None


def open_array(path: str, member: str | None = None) -> NpyArray:
    """The array of an .npy file, or a member of an .npz (which must be named unless there is only one)."""
    if member is None:
        path, member = split_member(path)
    if not path.endswith(".npz"):
        return NpyArray(path)
    names = members(path)
    if member is None:
        if len(names) != 1:
            listed = ", ".join(n[:-4] for n in names)
            raise InputError(f'{path}: holds several arrays ({listed}); name one as "{path}:{names[0][:-4]}"')
        return NpyArray(path, names[0])
    full = member if member in names else member + ".npy"
    if full not in names:
        raise InputError(f"{path}: has no array {member!r}; it has {', '.join(n[:-4] for n in names)}")
    return NpyArray(path, full)
