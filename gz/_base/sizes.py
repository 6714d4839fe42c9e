"""Sizes of memory and rates as people write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parse_memory(value: str | int | float, least: int = 10**6) -> int:
    """Bytes in "2GB", "512 MiB", "1.5g" or a plain number; an error below ``least``."""
    if isinstance(value, str):
        m = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?\s*", value.lower())
        if not m or (m[3] and not m[2]):
            raise ValueError(f'memory={value!r} is not a size; write "2GB", "512MiB" or a number of bytes')
        amount = int(float(m[1]) * (_BINARY[m[2]] if m[3] else _UNITS[m[2]]))
    else:
        amount = int(value)
    if amount < least:
        raise ValueError(f"memory={value!r} is too little to work in; give at least {least / 1e6:g}MB")
    return amount


def amount(n: float, unit: str = "B") -> str:
    """An amount as people read it: 950 B, 16.4 MB, 1.2 TB; or of something else, 16.4 M edges."""
    for prefix in ("", "k", "M", "G"):
        if n < 1000:
            return f"{n:.1f} {prefix}{unit}" if prefix else f"{n:.0f} {unit.lstrip()}"
        n /= 1000
    return f"{n:.1f} T{unit}"


def rounded(value: float, digits: int) -> str:
    """To so many digits, all of them written out: 360 and 12,000, where `g` has 3.6e+02 and 1.2e+04."""
    return f"{float(f'{value:.{digits}g}'):,.12g}"
