"""Small files of /proc and /sys, which may be missing, unreadable or shaped otherwise: then there is None."""

from __future__ import annotations

import os


def text(path: str, root: str = "/") -> str | None:
    """All of a small file. `root` stands before the path: a folder with the same names, for tests."""
    try:
        with open(os.path.join(root, path.lstrip("/")), encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return None


def first_line(path: str, root: str = "/") -> str | None:
    found = (text(path, root) or "").strip().splitlines()
    return found[0].strip() if found else None


def number(path: str, root: str = "/") -> int | None:
    """A file that holds one number; None where it says "max"."""
    found = first_line(path, root)
    return int(found) if found is not None and found.lstrip("-").isdigit() else None


def field(path: str, name: str, root: str = "/") -> str | None:
    """What stands behind "name" and a colon or a space at the start of a line."""
    return field_in(text(path, root) or "", name)


def size(path: str, name: str, root: str = "/") -> int | None:
    """Such a field in bytes: "VmRSS:  1234 kB", "read_bytes: 4096"."""
    return size_in(text(path, root) or "", name)


def field_in(lines: str, name: str) -> str | None:
    for line in lines.splitlines():
        rest = line.removeprefix(name)
        if rest != line and rest[:1] in (":", " ", "\t"):
            return rest.lstrip(": \t").strip()
    return None


def size_in(lines: str, name: str) -> int | None:
    words = (field_in(lines, name) or "").split()
    if not words or not words[0].isdigit():
        return None
    return int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
