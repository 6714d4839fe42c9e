"""FeatureStore: one column of rows in a mapped file."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gz import _engine
from gz._base.arrays import as_ids, as_integer, npy_layout, numpy_dtype, view
from gz._base.dtypes import dtype_name
from gz._base.files import as_path, replaced
from gz._base.memory_plan import AUTO, Part, Share, check_fits, divide, parse_cache

_READ = 1 << 22  # bytes that iterating reads at a time
_SMALL_ROW = 128  # bytes; smaller rows are fetched by the page (csrc/read/row_source.cpp)
_LINE = 64  # bytes: where one result of several begins


class FeatureStore:
    """Rows of one dtype and shape in a ``.gd`` file, or in a ``.npy`` file used where it lies.

    Opening maps the file and reads one page of it. Pickles by path.

    Args:
        path: the file.
        cache: the most memory for rows that are read again and again, where the file does not fit into it:
            bytes, text such as ``"4GB"``, 0 for none, or ``"auto"`` for what the script leaves. All who open
            the file in this process share one cache; processes that read it divide what was asked for.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        cache: str | int = "auto",
        *,
        _share: Share | None = None,
        _opened: int = -1,
    ):
        self._path = as_path(path)
        self._cache = cache
        if self._path.endswith(".npy"):
            self._identity = _npy_version(self._path)
            self._file = _engine.Feature.adopt(self._path, *npy_layout(self._path))
        else:
            self._file = _engine.Feature.open(self._path, _opened)
            self._identity = f"{self._file.checksum:016x}"
        self._shape = tuple(self._file.shape)
        self._numpy_dtype = numpy_dtype(self._file.dtype)
        self._row_bytes = self._file.row_bytes  # in the file
        if _share is None:
            part = Part("", self.nbytes, max(1, self._row_bytes))
            _share = divide([part], parse_cache(cache))[""]
        self._file.configure(_share.cache, _share.held)
        self._share = _share
        self._hot: list[FeatureStore] = []
        self._hot_held = 0

    def _use_hot(self, ids: FeatureStore, tiers: list[FeatureStore], held: int) -> None:
        """Rows that are read most are taken from ``tiers``, which hold rows ``ids`` one after the other; the
        first ``held`` are held in memory. Before the first gather; a store does it for its columns
        (``gz.reorder``)."""
        self._file.use_hot(ids._file, [t._file for t in tiers], held)
        self._hot, self._hot_held = [ids, *tiers], held

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows first."""
        return self._shape

    @property
    def dtype(self) -> str:
        """numpy's name of the dtype, or ``"bfloat16"``, which numpy lacks and shows as uint16."""
        return self._file.dtype

    @property
    def stored(self) -> str:
        """The dtype in the file: ``dtype``, or one that is smaller, which rows are decoded from as they are
        read: ``"float16"``, ``"bfloat16"``, or ``"int8"`` with a scale for each row, as float32; and whole
        numbers of up to 32 bits, as int64."""
        return self._file.stored

    @property
    def offset(self) -> int:
        """The byte of the file at which the rows begin, for whoever maps it by other means."""
        return self._file.offset

    @property
    def nbytes(self) -> int:
        """Of the rows in the file."""
        return self._shape[0] * self._row_bytes

    @property
    def _read_bytes(self) -> int:
        """Of the rows as they are read."""
        return math.prod(self._shape) * self._numpy_dtype.itemsize

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        stored = "" if self.stored == self.dtype else f", stored={self.stored}"
        return f"FeatureStore({self._path!r}, shape={self._shape}, dtype={self.dtype}{stored})"

    @property
    def version(self) -> str:
        """Differs between files of different contents: the header's checksum, or size and time of an .npy."""
        return self._identity

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_again, (
            self._path,
            self._cache,
            self._identity,
            [(h.path, h.version) for h in self._hot],
            self._hot_held,
        )

    def stats(self) -> dict[str, Any]:
        """How rows were found so far.

        ``mapped``: copied from memory the file is mapped to, ``hot`` of them from the copy of those that are
        read most; ``hits``: found in the row cache; ``misses``:
        read, by ``reads`` reads of ``bytes_read`` bytes with ``queue_depth`` of them in flight on average.
        ``plan`` says what the column was given, ``io`` how it reads. The row cache of the file has
        ``cache_bytes`` now and at most ``cache_most`` (None: what there is room for); ``cache_why``: why it
        changed last. ``memory``: what all of gz holds in this process and what the governor goes by.
        """
        io = _engine.read_path()
        stats = {"plan": str(self._share), "io": io.path, "io_why": io.why, **self._file.stats()}
        if stats["cache_most"] == AUTO:
            stats["cache_most"] = None
        return stats | {"memory": _engine.memory_stats()}

    def set_cache(self, cache: int) -> None:
        """Gives the file's row cache at most so many bytes from now on."""
        self._share = Share(self._share.held, cache)
        self._file.configure(cache, self._share.held)

    def get_tensor(self) -> NDArray[Any]:
        """The whole column as an array over the mapped file: nothing is read or copied until it is touched.

        Writing to it changes this process's copy of the touched pages, never the file. The mapping lives as
        long as the array does. Where the disk fails or the file is cut short, reading the array is SIGBUS, as
        with any mapping; ``gather`` raises OSError.

        A column that is ``stored`` in another dtype is decoded into memory, all of it, each time.

        Raises:
            MemoryError: the decoded column would not fit.
        """
        if self.stored != self.dtype:
            return self._decoded()
        return view(self._file.bytes(), self.dtype, self._shape, self._file.writable)

    def _decoded(self) -> NDArray[Any]:
        instead = "gather the rows that are needed, or store the column as it is read"
        check_fits(self._read_bytes, f"{self._path}: all of a column stored as {self.stored}", instead)
        out = np.empty(self._shape, self._numpy_dtype)
        step = max(1, _READ // max(1, self._row_bytes))
        for begin in range(0, len(self), step):
            end = min(begin + step, len(self))
            self.gather(np.arange(begin, end), out[begin:end])
        return out

    def _stored_rows(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Rows as they lie in the file, ``[rows, bytes]``: for whoever copies them."""
        return self._file.gather(np.arange(begin, end), self.stored).reshape(end - begin, self._row_bytes)

    def _writer(self, path: str | os.PathLike[str]) -> _engine.ColumnWriter:
        """Of a column like this one; it takes ``_stored_rows``."""
        shown = None if self.stored == self.dtype else self.dtype
        return _engine.ColumnWriter(os.fspath(path), self.stored, list(self._shape[1:]), shown)

    def gather(self, ids: ArrayLike, out: Any = None, dtype: str | None = None) -> NDArray[Any]:
        """Copies rows ``ids``, in parallel, without the GIL: what the file holds, from memory or from disk.

        Args:
            ids: integers of any width, shape ``[n]``.
            out: a C-contiguous array or CPU tensor of shape ``[n, ...]`` and this dtype to write into; it may
                lie over ``ids``. By default memory comes from a pool that it returns to when the result dies.
            dtype: of the rows: ``"float32"`` where float16 or bfloat16 are stored, or those or whole numbers
                as they are stored. By default the column's ``dtype``.

        Raises:
            IndexError: an id is negative or too large; nothing has been written.
            OSError: the file cannot be read, with its name and the byte.
        """
        rows = as_ids(ids, "row ids")
        shape = (len(rows), *self._shape[1:])
        kind = self.dtype if dtype is None else self._readable(dtype)
        if out is None:
            return view(self._file.gather(rows, kind), kind, shape)
        if not hasattr(out, "__dlpack__"):
            raise TypeError(f"out must be an array or a CPU tensor; a {type(out).__name__} cannot be filled")
        target = _as_array(out)
        wanted = numpy_dtype(kind)
        if target.shape != shape or target.dtype != wanted:
            raise ValueError(
                f"out has shape {target.shape} and dtype {target.dtype}; these rows need {shape} and {wanted}"
            )
        if not target.flags.c_contiguous or not target.flags.writeable:
            raise ValueError("out must be C-contiguous and writable")
        # As bytes: a dtype that every consumer of arrays knows.
        self._file.gather_into(rows, target.reshape(-1).view(np.uint8), kind)
        return out

    @property
    def _is_read_by_row(self) -> bool:
        """Whether rows are read one by one: the file is not held in memory, and they are not small."""
        return not self._share.held and self._row_bytes >= _SMALL_ROW

    def _gather_together(self, ids: Sequence[NDArray[np.int64]]) -> list[NDArray[np.uint8]]:
        """The bytes of ``gather`` for several results by one call: a row that several of them want is read
        once, neighbours are read together. They are parts of one block, which is free when none is left."""
        row_bytes = math.prod(self._shape[1:]) * self._numpy_dtype.itemsize
        step = _LINE // math.gcd(_LINE, row_bytes)  # rows
        starts = [0, *accumulate(-(-len(some) // step) * step for some in ids)]
        rows = np.empty(starts[-1], np.int64)
        block = _engine.empty(max(1, len(rows) * row_bytes))
        parts = []
        for some, start, end in zip(ids, starts, starts[1:], strict=False):
            rows[start : start + len(some)] = some
            rows[start + len(some) : end] = some[-1:]  # what lies between two is read anyway
            parts.append(block[start * row_bytes : (start + len(some)) * row_bytes])
        if len(rows):
            self._file.gather_into(rows, block)
        return parts

    def _readable(self, dtype: Any) -> str:
        """gz's name of a dtype that rows can be read as."""
        halves = self.stored in ("float16", "bfloat16")
        known = {self.dtype, *((self.stored, "float32") if halves else ())}
        if self.dtype == "int64":
            known.add(self.stored)
        kind = dtype_name(dtype)
        if kind not in known:
            others = " or ".join(sorted(known))
            raise ValueError(f"{self._path}: rows of {self.dtype} are not read as {kind}; choose {others}")
        return kind

    def __getitem__(self, which: Any) -> NDArray[Any]:
        """Rows, copied: of an integer one, of a slice, a mask or integers an array of them."""
        if isinstance(which, slice):
            return self.gather(np.arange(*which.indices(len(self))))
        if isinstance(which, int | np.integer) and not isinstance(which, bool):
            row = as_integer(which, "a row")
            if not -len(self) <= row < len(self):
                raise IndexError(f"{self._path}: row {row} is out of range: there are {len(self)} rows")
            return self.gather(np.array([row % len(self)]))[0]
        if _is_mask(which):
            picked = np.asarray(which)
            if picked.shape != (len(self),):
                raise IndexError(f"{self._path}: a mask of shape {picked.shape} for {len(self)} rows")
            return self.gather(np.flatnonzero(picked))
        return self.gather(which)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """The rows one by one; read many at a time."""
        step = max(1, _READ // max(1, self._row_bytes))
        for begin in range(0, len(self), step):
            yield from self.gather(np.arange(begin, min(begin + step, len(self))))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The whole column, over the mapped file, for whatever takes arrays."""
        array = self.get_tensor()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"{self._path}: {array.dtype} cannot become {dtype} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array


def _is_mask(which: Any) -> bool:
    """Of booleans: an array, a CPU tensor, a list."""
    if isinstance(which, list):
        return len(which) > 0 and all(isinstance(v, bool | np.bool_) for v in which)
    on_cpu = str(getattr(which, "device", "cpu")) == "cpu"
    return on_cpu and str(getattr(which, "dtype", "")) in ("bool", "torch.bool")


def _as_array(out: Any) -> NDArray[Any]:
    """What is to be filled, as an array over its memory; bfloat16, which numpy lacks, as uint16."""
    if str(getattr(out, "dtype", "")) == "torch.bfloat16":
        import torch  # there is one: `out` is its tensor

        out = out.view(torch.uint16) if out.device.type == "cpu" else out
    return np.asarray(out)


def _npy_version(path: str) -> str:
    found = os.stat(path)
    return f"{found.st_size}-{found.st_mtime_ns}"


def _open_again(
    path: str, cache: str | int, version: str, hot: Sequence[tuple[str, str]] = (), held: int = 0
) -> FeatureStore:
    column = FeatureStore(path, cache)
    if column.version != version:
        raise replaced(path, "since it was pickled")
    with suppress(FileNotFoundError):  # put in front anew, or no longer: it goes without
        files = [FeatureStore(file, 0, _share=Share()) for file, _ in hot]
        if files and [f.version for f in files] == [v for _, v in hot]:
            column._use_hot(files[0], files[1:], held)
    return column
