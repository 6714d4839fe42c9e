"""How often files are opened: the kernel says so (inotify), not the code under test."""

from __future__ import annotations

import ctypes
import os
import struct
from collections import Counter

import pytest

# linux/inotify.h
_ACCESS, _CLOSE, _OPEN, _OVERFLOW, _FOLDER = 0x1, 0x10, 0x20, 0x4000, 0x40000000
_EVENT = struct.Struct("iIII")


class Opens:
    """Counts how often files of a folder, and of all below it, are opened, by whatever code of this machine.

    Equal events that follow each other are told as one, so reads are listened to as well: they lie between.
    """

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._folders = {}
        for place, _, _ in os.walk(folder):
            watch = libc.inotify_add_watch(self._fd, os.fsencode(place), _OPEN | _ACCESS | _CLOSE)
            if watch < 0:
                pytest.skip(f"inotify: {os.strerror(ctypes.get_errno())}")
            self._folders[watch] = os.path.relpath(place, folder)
        if (
            self._fd < 0
            or libc.inotify_add_watch(self._fd, os.fsencode(folder), _OPEN | _ACCESS | _CLOSE) < 0
        ):
            pytest.skip(f"inotify: {os.strerror(ctypes.get_errno())}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._fd)

    def counts(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        while True:
            try:
                raw = os.read(self._fd, 1 << 20)
            except BlockingIOError:
                return dict(found)
            at = 0
            while at < len(raw):
                watch, mask, _, length = _EVENT.unpack_from(raw, at)
                at += _EVENT.size
                name = raw[at : at + length].rstrip(b"\0").decode()
                at += length
                assert not mask & _OVERFLOW
                if mask & _OPEN and not mask & _FOLDER:
                    found[os.path.normpath(os.path.join(self._folders[watch], name))] += 1
