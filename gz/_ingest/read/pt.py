"""`.pt` files, in which OGB keeps splits and counts: read without running what a pickle may contain.

torch is imported here only, and only when there is such a file to read. Tensors of today's format stay
mapped; NumPy arrays, which OGB's own files hold, are part of the pickle, which torch reads whole. Where that
would not fit the memory budget, they are streamed (pickled.py).

These are the only inputs that are opened more than once: torch takes a name to map from, and what it makes of
a large pickle is not held from the check of a split until it is written.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gz._base.sizes import amount
from gz._engine import InputError
from gz._ingest.read import pickled as streamed
from gz._ingest.read.files import InputFile

# A pickled array of n bytes passes through text, bytes and an array before it is an array again.
_PICKLE_FACTOR = 3  # measured: 2.7
_HELD = 1 / 16  # of the memory budget: what is smaller is kept once it was read


@dataclass(frozen=True)
class FromPt:
    """A part of a .pt file, read when it is needed and not held in between."""

    file: InputFile
    keys: tuple[str, ...]
    memory: int = field(repr=False)  # what reading it may take
    fifths: tuple[int, ...] = ()  # of every five rows only these

    @property
    def input_files(self) -> list[str]:
        return [self.file.path]

    def __call__(self) -> Any:
        value = load(self.file, self.memory)
        for key in self.keys:
            value = value[key]
        if self.fifths:
            if isinstance(value, streamed.PickledArray):
                value = np.concatenate(list(value.chunks(1 << 20)))
            value = np.asarray(value)
            value = value[np.isin(np.arange(len(value)) % 5, self.fifths)]
        return value


def load(file: InputFile, memory: int | None = None) -> Any:
    """What torch.save wrote, with every tensor as a NumPy array. Refuses pickles of anything but data."""
    path = file.path
    if "pt" in file.known:
        return file.known["pt"]
    try:
        import torch
    except ImportError:
        raise InputError(f"{path}: reading a .pt file needs PyTorch; install it beside gz") from None
    if not hasattr(torch.serialization, "safe_globals"):
        raise InputError(f"{path}: reading a .pt file safely needs PyTorch 2.5 or newer")
    if not os.path.isfile(path):
        raise FileNotFoundError(2, "a file of the dataset is missing", path)
    mappable, pickled = _sizes(file)
    if memory is not None and pickled * _PICKLE_FACTOR > memory:
        try:
            return streamed.load(file)
        except streamed.Unsupported as e:
            need = pickled * _PICKLE_FACTOR
            raise InputError(
                f"{path}: {e}; read whole it takes about {amount(need)}, and the budget is "
                f"{amount(memory)}: pass memory='{int(need / 1e9) + 1}GB' (--memory)"
            ) from None
    try:
        with torch.serialization.safe_globals(_numpy_globals()):
            data = torch.load(path, map_location="cpu", weights_only=True, mmap=True if mappable else None)
    except FileNotFoundError:
        raise
    except Exception as e:
        try:
            return streamed.load(file)  # torch does not read every kind of pickle safely: protocol 4, for one
        except streamed.Unsupported:
            pass
        reason = str(e).strip().splitlines()[-1] if str(e).strip() else type(e).__name__
        if "Unsupported" in str(e) or "GLOBAL" in str(e):
            reason = "it holds Python objects besides tensors, arrays, numbers and text"
        raise InputError(f"{path}: is not a .pt file of plain data: {reason}") from None
    data = _as_numpy(data, path, {})
    if memory is not None and pickled * _PICKLE_FACTOR <= memory * _HELD:
        file.known["pt"] = data
    return data


def _sizes(file: InputFile) -> tuple[bool, int]:
    """Whether the file can be mapped, and how many bytes of it are pickle."""
    with file.reader() as f:
        if not zipfile.is_zipfile(f):
            return False, file.size  # the format before torch 1.6
        with zipfile.ZipFile(f) as z:
            return True, sum(i.file_size for i in z.infolist() if i.filename.endswith("data.pkl"))


def _numpy_globals() -> list[Any]:
    """What a pickled NumPy array is rebuilt with, under its names before and after NumPy 2."""
    import _codecs

    array = np.zeros(1)
    rebuild = array.__reduce__()[0]
    scalar = np.float64(0).__reduce__()[0]
    kinds = {type(np.dtype(c)) for c in "?bBhHiIlLqQefdSU"}
    known: list[Any] = [np.ndarray, np.dtype, _codecs.encode, *kinds]
    known += [(bytes, "__builtin__.bytes"), (bytes, "builtins.bytes")]  # of an empty array
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        known += [(rebuild, f"{module}._reconstruct"), (scalar, f"{module}.scalar")]
    return known


def _as_numpy(value: Any, path: str, done: dict[int, dict[Any, Any]]) -> Any:
    """`done`: dicts by identity. One that occurs twice at each of 30 levels is met once, not 2^30 times."""
    if isinstance(value, dict):
        if id(value) not in done:
            out = done[id(value)] = {}
            out |= {k: _as_numpy(v, path, done) for k, v in value.items()}
        return done[id(value)]
    if hasattr(value, "detach"):
        return value.detach().numpy()
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        raise InputError(f"{path}: holds an array of Python objects; save it as plain numbers")
    return value
