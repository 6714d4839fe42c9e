"""Where the rows of layers go: inner ones to memory or files for as long as they are needed, the last ones
to what the user asked for."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

import torch
from torch import Tensor

import gz
from gz.adapter import (
    ArrayOutput,
    LayerRows,
    NpyOutput,
    Output,
    check_fits,
    from_numpy,
    map_column,
    scratch,
    torch_dtype,
)


class InnerRows:
    """Makes room for the rows of inner layers: in memory as long as all together stay within ``memory``
    bytes, in files beyond that.

    Args:
        store: where the files go, if it can be written to; None: to the system's temporary folder.
        tmp: the folder for the files, if they are to be elsewhere.
    """

    def __init__(self, memory: int, store: gz.Store | None, tmp: str | os.PathLike[str] | None):
        self._memory, self._tmp = memory, tmp
        self._store = store if store is not None and os.access(store.path, os.W_OK) else None
        self._folder: str | None = None
        self._draft: Any = None
        self._arrays: list[ArrayOutput] = []
        self._made = 0

    def place(self, t: Any, shape: tuple[int, ...], dtype: str) -> Output:
        nbytes = torch.Size(shape).numel() * torch_dtype(dtype).itemsize
        if nbytes + sum(a.array.nbytes for a in self._arrays) <= self._memory:
            self._arrays.append(ArrayOutput(shape, dtype))
            return self._arrays[-1]
        self._made += 1
        return NpyOutput(os.path.join(self._in_folder(), f"{self._made}.npy"), shape, dtype)

    def _in_folder(self) -> str:
        if self._folder is None:
            if self._tmp is None and self._store is not None:
                self._draft = scratch(self._store)
                self._folder = str(self._draft.folder)
            else:
                self._folder = tempfile.mkdtemp(prefix="gz-inference-", dir=self._tmp)
        return self._folder

    def close(self) -> None:
        if self._draft is not None:
            self._draft.discard()
        elif self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def tensors(rows: LayerRows) -> dict[Any, Tensor]:
    """What a layer gave, as the next one takes it: over the files, or the memory, that hold it."""
    found = {}
    for t, output in rows.outputs.items():
        if isinstance(output, NpyOutput) and rows.dtypes[t] != "bfloat16":
            found[t] = map_column(output.readable())
        else:
            found[t] = from_numpy(output.array, rows.dtypes[t])
    return found


class Target:
    """What the user gave as ``out``: a column of the store, a file, a folder for several types, or None."""

    def __init__(self, out: Any, store: gz.Store | None, node_types: list[Any], overwrite: bool):
        self.column: str | None = None
        self._path: str | None = None
        self._store, self._overwrite, self._hetero = store, overwrite, node_types != [None]
        if out is None:
            return
        if not isinstance(out, (str, os.PathLike)):
            raise TypeError(f"out is a {type(out).__name__}; give a column's name, a file, or None")
        path = os.fspath(out)
        if isinstance(out, os.PathLike) or path.endswith(".npy") or os.sep in path:
            self._path = path
            if self._hetero and path.endswith(".npy"):
                raise ValueError(f"{path}: there are several node types; give a folder, pathlib.Path('out')")
            if not self._hetero and not path.endswith(".npy"):
                raise ValueError(f"{path}: the name of the file must end in .npy")
            return
        self.column = path
        if store is None:
            raise ValueError(
                f"out is {path!r}, the name of a column, but data lies in memory; give a file, 'out.npy', or "
                "None for a tensor"
            )
        types = [t for t in node_types if t is not None] or store.node_types[:1]
        there = [t for t in types if path in store.node_columns(t)]
        if there and not overwrite:
            raise FileExistsError(
                17, f"has a column {path!r}; pass overwrite=True to replace it", f"{store.path}: {there[0]}"
            )

    def place(self, t: Any, shape: tuple[int, ...], dtype: str) -> Output:
        if self.column is not None:
            assert self._store is not None
            return self._store.new_column(self.column, shape[1:], dtype, t, overwrite=self._overwrite)
        if self._path is not None:
            if dtype == "bfloat16":
                raise ValueError("a .npy file cannot hold bfloat16; give the name of a column of the store")
            if self._hetero:
                os.makedirs(self._path, exist_ok=True)
            return NpyOutput(
                os.path.join(self._path, f"{t}.npy") if self._hetero else self._path, shape, dtype
            )
        nbytes = torch.Size(shape).numel() * torch_dtype(dtype).itemsize
        check_fits(nbytes, "the output", "give out='out.npy', or the name of a column of the store")
        return ArrayOutput(shape, dtype)

    def publish(self, rows: LayerRows) -> dict[Any, Tensor]:
        published = rows.publish()
        if self.column is None and self._path is None:
            return {t: from_numpy(array, rows.dtypes[t]) for t, array in published.items()}
        return {t: map_column(column) for t, column in published.items()}
