"""The finished phases of an ingest, one JSON line each, so that one that was killed or failed can go on.

A line is written when the files of its phase are on the disk: engine files sync themselves, here their
folders are synced and then the line. A half-written last line counts for nothing. Each phase has the key of
what it was made from: an ingest whose own key for it is another makes it again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

FILE_NAME = "journal"
_FORMAT = 2


class Keys(Protocol):
    """What says from what each phase is made."""

    @property
    def in_memory(self) -> bool:
        """Whether some phase has no key, because it reads what lies in memory."""

    def of(self, phase: str) -> str | None: ...


class Journal:
    """`root` is the folder that phases write to; file names in the journal are relative to it."""

    def __init__(self, path: Path, root: Path, keys: Keys | None = None):
        self.path, self.root, self.keys = path, root, keys
        self.phases: dict[str, dict[str, Any]] = {}
        self.publishing: int | None = None

    @classmethod
    def start(cls, path: Path, root: Path, keys: Keys | None) -> Journal:
        journal = cls(path, root, keys)
        journal._rewrite()
        return journal

    @classmethod
    def read(cls, path: Path, root: Path, keys: Keys | None = None) -> Journal | None:
        """None when there is none, or none that can be read: its ingest had not begun."""
        try:
            lines = path.read_text(encoding="utf-8").split("\n")[:-1]
            known = json.loads(lines[0]).get("journal") == _FORMAT
            journal = cls(path, root, keys)
            for line in lines[1:]:
                entry = json.loads(line)
                if "publishing" in entry:
                    journal.publishing = entry["publishing"]
                elif known:
                    journal.phases[entry["phase"]] = {
                        k: entry[k] for k in ("phase", "key", "files", "result")
                    }
        except (OSError, ValueError, IndexError, KeyError, TypeError):
            return None
        return journal

    def _key(self, phase: str) -> str | None:
        return None if self.keys is None else self.keys.of(phase)

    def usable(self) -> list[str]:
        """Finished phases that this ingest would make from the same."""
        return [p for p, e in self.phases.items() if e["key"] is not None and e["key"] == self._key(p)]

    def trust_the_disk(self) -> None:
        """Drops phases that are not usable, or whose files are not there in full; then removes every file
        that no phase vouches for."""
        usable = set(self.usable())
        self.phases = {
            name: entry
            for name, entry in self.phases.items()
            if name in usable and all(_size(self.root / f) == n for f, n in entry["files"].items())
        }
        kept = {str(self.root / f) for e in self.phases.values() for f in e["files"]}
        for folder, _, files in os.walk(self.root, topdown=False):
            for f in files:
                if (path := os.path.join(folder, f)) not in kept:
                    os.unlink(path)
            if folder != str(self.root) and not os.listdir(folder):
                os.rmdir(folder)
        self._rewrite()

    def result(self, phase: str, files: Iterable[str] | None = None) -> dict[str, Any] | None:
        """What a finished phase found out, or None: it has to run. `files`: what it has to have made."""
        entry = self.phases.get(phase)
        if entry is not None and files is not None and set(entry["files"]) != set(files):
            self.forget(phase)  # its files have other names now
            return None
        return None if entry is None else entry["result"]

    def finish(self, phase: str, files: Iterable[str], result: dict[str, Any]) -> None:
        sizes = {f: _size(self.root / f) for f in files}
        for folder in {p for f in sizes for p in _folders(f)}:
            sync(self.root / folder)
        key = self._key(phase)
        self.phases[phase] = {"phase": phase, "key": key, "files": sizes, "result": result}
        if key is not None:
            self._append(self.phases[phase])

    def forget(self, phase: str) -> None:
        """Undoes a phase, so that it can run again."""
        entry = self.phases.pop(phase, None)
        if entry is not None:
            for f in entry["files"]:
                (self.root / f).unlink(missing_ok=True)
            self._rewrite()

    def finished_bytes(self) -> int:
        return sum(n for e in self.phases.values() for n in e["files"].values())

    def publish(self) -> None:
        """The store is complete, and on its way to its place."""
        self.publishing = os.stat(self.root).st_ino
        self._append({"publishing": self.publishing})

    def _append(self, entry: dict[str, Any]) -> None:
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps(entry) + "\n")
            f.flush()
            os.fsync(f.fileno())

    def _rewrite(self) -> None:
        new = self.path.with_name(FILE_NAME + ".new")
        with open(new, "w", encoding="utf-8") as f:
            for entry in ({"journal": _FORMAT}, *self.phases.values()):
                f.write(json.dumps(entry) + "\n")
            f.flush()
            os.fsync(f.fileno())
        os.replace(new, self.path)
        sync(self.path.parent)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _folders(file: str) -> list[str]:
    parts = Path(file).parts[:-1]
    return ["", *("/".join(parts[: i + 1]) for i in range(len(parts)))]


def sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
