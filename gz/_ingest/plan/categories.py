"""Text as codes: the names are kept, in the order they are first seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from gz._base.arrays import first_outside
from gz._base.text import Text
from gz._engine import InputError

MOST = 100_000  # names: they are listed in store.json


class Categories:
    """`names`: what the codes stand for, where that is settled beforehand: other texts are errors, and
    integers are taken for codes."""

    def __init__(self, name: str, names: list[str] | None = None):
        self.name = name
        self.names: list[str] = list(names or ())
        self._fixed = names is not None
        self._codes = {w: i for i, w in enumerate(self.names)}
        if len(self._codes) < len(self.names):
            raise InputError(f"categories of column {name!r}: a name occurs twice")

    def encode(self, values: Any, where: str, first_row: int = 0) -> np.ndarray:
        """int32 codes."""
        if not isinstance(values, Text):
            return self._checked(np.asarray(values), where, first_row)
        found = values.to_arrow().dictionary_encode()
        words = found.dictionary.to_pylist()
        for w in words:
            if w not in self._codes:
                if self._fixed:
                    raise InputError(
                        f"{where}: column {self.name!r} holds {w!r}, which is not among its categories"
                    )
                self._codes[w] = len(self.names)
                self.names.append(w)
        if len(self.names) > MOST:
            raise InputError(
                f"{where}: column {self.name!r} holds more than {MOST:,} different texts, which is too many "
                f"for categories; leave it out with drop=[{self.name!r}] (--drop {self.name}), or make it a "
                "node type"
            )
        place = np.array([self._codes[w] for w in words], np.int32)
        return place[found.indices.to_numpy(zero_copy_only=False)] if len(words) else np.zeros(0, np.int32)

    def _checked(self, codes: np.ndarray, where: str, first_row: int) -> np.ndarray:
        if codes.dtype.kind not in "iu" or codes.ndim != 1:
            raise InputError(f"{where}: column {self.name!r} has categories, so it holds text or their codes")
        if (i := first_outside(codes, len(self.names))) is not None:
            raise InputError(
                f"{where}, row {first_row + i}: column {self.name!r} has the code {codes[i]}, but there are "
                f"{len(self.names)} categories"
            )
        return codes.astype(np.int32)
