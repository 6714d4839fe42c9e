"""Arrays inside a pickle, streamed: for `.pt` files of OGB that hold gigabytes of NumPy arrays.

A pickle is a small program. This runs the part of it that describes dicts, lists, numbers, text and NumPy
arrays, and nothing else: no function that a pickle names is ever called. Long strings are not read but
remembered by their place in the file, so that an array costs no memory before its rows are asked for. Pickles
of torch.save write bytes as text (latin-1, in UTF-8), newer ones as bytes; both are read.
"""

from __future__ import annotations

import codecs
import os
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gz._engine import InputError
from gz._ingest.read.files import InputFile, Reader
from gz._ingest.read.npy import DiskArray

_LONG = 1 << 16  # bytes from which on a string stays in the file
_READ = 1 << 20
_MARK = object()
_LEGACY_PICKLES = 3  # before the data: a magic number, the version, the machine


_MALFORMED = (
    *(struct.error, ValueError, IndexError, KeyError, TypeError, EOFError, AttributeError, StopIteration),
    *(OverflowError, SyntaxError, RecursionError, zipfile.BadZipFile),
)


class Unsupported(Exception):
    """The pickle holds something else, or an array that cannot be streamed."""


@dataclass(frozen=True)
class Span:
    """A long string where it lies."""

    file: InputFile
    offset: int
    size: int
    text: bool  # bytes as latin-1 text in UTF-8

    def pieces(self) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder("utf-8")()
        with Reader(self.file, self.offset) as f:
            left = self.size
            while left:
                raw = f.read(min(_READ, left))
                left -= len(raw)
                try:
                    if not raw:
                        raise ValueError("it ends too early")
                    data = decoder.decode(raw, final=not left).encode("latin-1") if self.text else raw
                except ValueError as e:
                    raise InputError(f"{self.file.path}: its pickle is damaged: {e}") from None
                yield data


class PickledArray(DiskArray):
    """An array whose bytes are still in the file."""

    def __init__(self) -> None:
        self.name, self.shape, self.dtype = "the pickle", (), np.dtype("u1")
        self.data: Span | bytes = b""

    def set(self, shape: Any, dtype: Any, fortran: Any, data: Any) -> None:
        if fortran and len(shape) > 1:
            raise Unsupported("holds an array in Fortran order")
        if not isinstance(dtype, np.dtype) or dtype.hasobject or not isinstance(data, (Span, bytes)):
            raise Unsupported("holds an array of Python objects")
        if not shape or min(shape) < 0:
            raise Unsupported(f"holds an array of shape {shape}")
        self.shape, self.dtype, self.data = tuple(int(n) for n in shape), dtype, data
        if isinstance(data, Span):
            self.name = data.file.path

    def chunks(self, rows: int) -> Iterator[np.ndarray]:
        row = int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize
        have, done = b"", 0
        for piece in self.data.pieces() if isinstance(self.data, Span) else [self.data]:
            have += piece
            while row and len(have) >= row and (n := min(len(have) // row, rows)):
                yield np.frombuffer(have[: n * row], self.dtype).reshape((n, *self.shape[1:]))
                have, done = have[n * row :], done + n
        if row and (have or done != self.shape[0]):
            raise InputError(f"{self.name}: holds an array of {done} rows that says it has {self.shape[0]}")


def load(file: InputFile) -> Any:
    """What torch.save wrote, arrays of more than a few pages as PickledArray. Raises Unsupported."""
    try:
        with file.reader() as f:
            if zipfile.is_zipfile(f):
                f.seek(_pickle_in_zip(f))
            else:
                f.seek(0)
                for _ in range(_LEGACY_PICKLES):
                    _Machine(file, f).run()
            return _whole(_Machine(file, f).run(), {})
    except _MALFORMED as e:
        raise Unsupported(f"is not a pickle that can be streamed: {e}") from None


def _pickle_in_zip(f: Any) -> int:
    with zipfile.ZipFile(f) as z:
        info = next(i for i in z.infolist() if i.filename.endswith("data.pkl"))
    if info.compress_type != zipfile.ZIP_STORED:
        raise Unsupported("its pickle is compressed")
    f.seek(info.header_offset + 26)
    return info.header_offset + 30 + sum(struct.unpack("<HH", f.read(4)))


def _whole(value: Any, done: dict[int, dict[Any, Any]]) -> Any:
    """Short arrays as NumPy arrays, long ones as they are. `done`: dicts by identity, each met once."""
    if isinstance(value, dict):
        if id(value) not in done:
            out = done[id(value)] = {}
            out |= {k: _whole(v, done) for k, v in value.items()}
        return done[id(value)]
    if isinstance(value, PickledArray) and isinstance(value.data, bytes):
        return np.frombuffer(value.data, value.dtype).reshape(value.shape)
    if isinstance(value, (Span, _Global)):
        raise Unsupported("holds something else than dicts, lists, numbers, text and arrays")
    return value


@dataclass(frozen=True)
class _Global:
    name: str


class _Machine:
    """The stack and the memo of a pickle."""

    def __init__(self, source: InputFile, file: Any):
        self.source, self.file = source, file
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        while True:
            code = self.file.read(1)
            if not code:
                raise EOFError("it ends too early")
            if code == b".":
                return self.stack.pop()
            if code not in _CODES:
                raise Unsupported(f"uses the pickle code {code!r}")
            _CODES[code](self)

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.file.read(struct.calcsize(form)))[0])

    def line(self) -> str:
        return str(self.file.readline().decode("ascii").rstrip("\n"))

    def string(self, form: str, text: bool) -> None:
        n = self.number(form)
        if n >= _LONG:
            at = self.file.tell()
            if at + n > self.source.size:
                raise EOFError("it ends too early")
            self.stack.append(Span(self.source, at, n, text))
            self.file.seek(n, os.SEEK_CUR)
        else:
            raw = self.file.read(n)
            if len(raw) != n:
                raise EOFError("it ends too early")
            self.stack.append(raw.decode("utf-8", "surrogatepass") if text else raw)

    def until_mark(self) -> list[Any]:
        at = len(self.stack) - 1 - next(i for i, v in enumerate(reversed(self.stack)) if v is _MARK)
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def last(self, n: int) -> tuple[Any, ...]:
        items = tuple(self.stack[len(self.stack) - n :])
        del self.stack[len(self.stack) - n :]
        return items

    def set_items(self, items: list[Any] | tuple[Any, ...]) -> None:
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def stack_global(self) -> None:
        module, name = self.last(2)
        self.stack.append(_Global(f"{module}.{name}"))

    def reduce(self) -> None:
        """The few calls that arrays are described with, each done here."""
        what, args = self.last(2)
        name = what.name if isinstance(what, _Global) else ""
        if name in ("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"):
            self.stack.append(PickledArray())
        elif name in ("numpy.core.numeric._frombuffer", "numpy._core.numeric._frombuffer"):
            array = PickledArray()
            array.set(args[2], args[1], args[3] != "C", args[0])
            self.stack.append(array)
        elif name == "numpy.dtype":
            self.stack.append(np.dtype(args[0]))
        elif name == "_codecs.encode" and args[1:] == ("latin1",):
            text = args[0]
            self.stack.append(text if isinstance(text, Span) else text.encode("latin-1"))
        elif name in ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"):
            self.stack.append(np.frombuffer(args[1], args[0])[0])
        elif name in ("__builtin__.bytes", "builtins.bytes") and not args:  # of an empty array
            self.stack.append(b"")
        elif name == "collections.OrderedDict" and not args:
            self.stack.append({})
        else:
            raise Unsupported(f"holds {name or type(what).__name__}, which is neither a number nor an array")

    def build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, PickledArray):
            target.set(*state[1:5])
        elif isinstance(target, np.dtype):
            built = target.newbyteorder(state[1])
            self.stack[-1] = built
            for k, v in self.memo.items():  # the memo has the dtype from before
                if v is target:
                    self.memo[k] = built
        else:
            raise Unsupported(f"holds a {type(target).__name__} with a state of its own")


def _codes() -> dict[bytes, Any]:
    push = lambda value: lambda m: m.stack.append(value() if callable(value) else value)  # noqa: E731
    return {
        b"\x80": lambda m: m.number("<B"),
        b"\x95": lambda m: m.number("<Q"),
        b"}": push(dict),
        b"]": push(list),
        b")": push(()),
        b"(": push(_MARK),
        b"N": push(None),
        b"\x88": push(True),
        b"\x89": push(False),
        b"K": lambda m: m.stack.append(m.number("<B")),
        b"M": lambda m: m.stack.append(m.number("<H")),
        b"J": lambda m: m.stack.append(m.number("<i")),
        b"\x8a": lambda m: m.stack.append(int.from_bytes(m.file.read(m.number("<B")), "little", signed=True)),
        b"G": lambda m: m.stack.append(struct.unpack(">d", m.file.read(8))[0]),
        b"X": lambda m: m.string("<I", True),
        b"\x8c": lambda m: m.string("<B", True),
        b"\x8d": lambda m: m.string("<Q", True),
        b"B": lambda m: m.string("<I", False),
        b"C": lambda m: m.string("<B", False),
        b"\x8e": lambda m: m.string("<Q", False),
        b"\x96": lambda m: m.string("<Q", False),
        b"c": lambda m: m.stack.append(_Global(f"{m.line()}.{m.line()}")),
        b"\x93": _Machine.stack_global,
        b"q": lambda m: m.memo.__setitem__(m.number("<B"), m.stack[-1]),
        b"r": lambda m: m.memo.__setitem__(m.number("<I"), m.stack[-1]),
        b"\x94": lambda m: m.memo.__setitem__(len(m.memo), m.stack[-1]),
        b"h": lambda m: m.stack.append(m.memo[m.number("<B")]),
        b"j": lambda m: m.stack.append(m.memo[m.number("<I")]),
        b"t": lambda m: m.stack.append(tuple(m.until_mark())),
        b"\x85": lambda m: m.stack.append(m.last(1)),
        b"\x86": lambda m: m.stack.append(m.last(2)),
        b"\x87": lambda m: m.stack.append(m.last(3)),
        b"a": lambda m: _extend(m, m.last(1)),
        b"e": lambda m: _extend(m, m.until_mark()),
        b"s": lambda m: m.set_items(m.last(2)),
        b"u": lambda m: m.set_items(m.until_mark()),
        b"R": _Machine.reduce,
        b"b": _Machine.build,
    }


def _extend(m: _Machine, items: list[Any] | tuple[Any, ...]) -> None:
    m.stack[-1].extend(items)


_CODES = _codes()
