"""Edge splits that lie in .npy files, as gz export writes them and a spec names them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from gz._engine import InputError


@dataclass(frozen=True)
class SplitFiles:
    """One split: {name: a .npy file, or {"file": ..., "names": [...]} where the file counts in `names`}."""

    split: str
    columns: dict[str, Any]
    base: str

    def __post_init__(self) -> None:
        for key, value in self.columns.items():
            known = isinstance(value, dict) and set(value) <= {"file", "names"} and "file" in value
            if not (known or isinstance(value, (str, os.PathLike))):
                raise ValueError(
                    f"edge split {self.split!r}: {key!r} is {value!r}; give a .npy file, or "
                    '{file = "x.npy", names = [...]}'
                )

    @property
    def input_files(self) -> list[str]:
        return [self._file(value) for value in self.columns.values()]

    def __call__(self) -> dict[str, Any]:
        return {key: self._read(key, value) for key, value in self.columns.items()}

    def _file(self, value: Any) -> str:
        name = value["file"] if isinstance(value, dict) else value
        return os.path.join(self.base, os.path.expanduser(os.fspath(name)))

    def _read(self, key: str, value: Any) -> Any:
        file = self._file(value)
        try:
            rows = np.load(file, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as e:
            raise InputError(f"{file}: is not a whole .npy file: {e}") from None
        names = value.get("names") if isinstance(value, dict) else None
        if names is None:
            return rows
        bad = rows.ndim != 1 or rows.dtype.kind not in "iu" or ((rows < 0) | (rows >= len(names))).any()
        if bad:
            raise InputError(
                f"{file}: {key!r} of edge split {self.split!r} must hold places in its {len(names)} names"
            )
        return [names[i] for i in rows.tolist()]
