"""FeatureStore: one column of rows in a mapped file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gz import _engine
from gz._arrays import as_ids, npy_layout, numpy_dtype, view
from gz._plan import Part, Share, divide, parse_cache


class FeatureStore:
    """Rows of one dtype and shape in a ``.gd`` file, or in a ``.npy`` file used where it lies.

    Opening maps the file and reads one page of it. Pickles by path.

    Args:
        path: the file.
        cache: memory for rows that are read again and again, where the file does not fit into memory: bytes,
            text such as ``"4GB"``, 0 for none, or ``"auto"``.
    """

    def __init__(
        self, path: str | os.PathLike[str], cache: str | int = "auto", *, _share: Share | None = None
    ):
        self._path = os.path.abspath(path)
        self._cache = cache
        if self._path.endswith(".npy"):
            self._file = _engine.Feature.adopt(self._path, *npy_layout(self._path))
        else:
            self._file = _engine.Feature.open(self._path)
        self._shape = tuple(self._file.shape)
        self._numpy_dtype = numpy_dtype(self._file.dtype)
        if _share is None:
            part = Part("", self.nbytes, max(1, self._file.row_bytes))
            _share = divide([part], parse_cache(cache))[""]
        self._file.configure(_share.cache, _share.held)
        self._share = _share

    @property
    def path(self) -> str:
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
    def nbytes(self) -> int:
        return self._shape[0] * self._file.row_bytes

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        return f"FeatureStore({self._path!r}, shape={self._shape}, dtype={self.dtype})"

    def __reduce__(self) -> tuple[Any, ...]:
        return FeatureStore, (self._path, self._cache)

    def stats(self) -> dict[str, Any]:
        """How rows were found so far.

        ``mapped``: copied from memory the file is mapped to; ``hits``: found in the row cache; ``misses``:
        read, by ``reads`` reads of ``bytes_read`` bytes with ``queue_depth`` of them in flight on average.
        ``plan`` says what the column was given, ``io`` how it reads.
        """
        path, why = _engine.read_path()
        return {"plan": str(self._share), "io": path, "io_why": why, **self._file.stats()}

    def set_cache(self, cache: int) -> None:
        """Gives the column a row cache of so many bytes from now on; it starts empty."""
        self._share = Share(self._share.held, cache)
        self._file.configure(cache, self._share.held)

    def get_tensor(self) -> NDArray[Any]:
        """The whole column as an array over the mapped file: nothing is read or copied until it is touched.

        Writing to it changes this process's copy of the touched pages, never the file. The mapping lives as
        long as the array does.
        """
        return view(self._file.bytes(), self.dtype, self._shape, self._file.writable)

    def gather(self, ids: ArrayLike, out: Any = None) -> NDArray[Any]:
        """Copies rows ``ids``, in parallel, without the GIL: what the file holds, from memory or from disk.

        Args:
            ids: integers of any width, shape ``[n]``.
            out: a C-contiguous array or CPU tensor of shape ``[n, ...]`` and this dtype to write into.
                By default memory comes from a pool that it returns to when the result dies.

        Raises:
            IndexError: an id is negative or too large; nothing has been written.
        """
        rows = as_ids(ids, "row ids")
        shape = (len(rows), *self._shape[1:])
        if out is None:
            return view(self._file.gather(rows), self.dtype, shape)
        target = np.asarray(out)
        if target.shape != shape or target.dtype != self._numpy_dtype:
            raise ValueError(
                f"out has shape {target.shape} and dtype {target.dtype}; "
                f"these rows need {shape} and {self._numpy_dtype}"
            )
        if not target.flags.c_contiguous or not target.flags.writeable:
            raise ValueError("out must be C-contiguous and writable")
        if target.size:
            # As bytes: a dtype that every consumer of arrays knows.
            self._file.gather_into(rows, target.reshape(-1).view(np.uint8))
        return out

    def __getitem__(self, ids: ArrayLike) -> NDArray[Any]:
        return self.gather(ids)
