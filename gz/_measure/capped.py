"""A command under a memory limit, and its memory over time.

By a cgroup where one may be made (root, or a container that allows it): the kernel counts everything, page
cache too, and kills. Elsewhere by watching: whoever takes more memory of its own than the limit is killed by
this process, which looks twenty times a second. `Limit.how` says which it was.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gz._watch import procfs, usage

_LOOK = 0.05  # seconds
_NOTE = 0.2


@dataclass
class Limit:
    """A limit for one command after the other; ``close()`` removes its cgroup."""

    bytes: int
    folder: str | None = None  # of the cgroup
    how: str = ""

    @classmethod
    def of(cls, size: int) -> Limit:
        try:
            folder = _make_group(size)
        except OSError as e:
            why = e.strerror or str(e)
            return cls(
                size, None, f"no cgroup can be made here ({why}): memory of the process's own is watched"
            )
        return cls(size, folder, "a cgroup: the kernel counts page cache, too, and kills")

    def wrapped(self, command: Sequence[str]) -> list[str]:
        if self.folder is None:
            return list(command)
        enter = 'echo $$ > "$0" && exec "$@"'
        return ["sh", "-c", enter, f"{self.folder}/cgroup.procs", *command]

    def close(self) -> None:
        if self.folder is None:
            return
        for pid in (procfs.text(f"{self.folder}/cgroup.procs") or "").split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        for _ in range(100):
            try:
                os.rmdir(self.folder)
                return
            except FileNotFoundError:
                return
            except OSError:  # what was killed takes a moment to go
                time.sleep(0.02)


def _make_group(size: int) -> str:
    v1 = "/sys/fs/cgroup/memory"
    if os.path.exists(f"{v1}/memory.limit_in_bytes"):
        top, name, more = v1, "memory.limit_in_bytes", ("memory.swappiness",)
    elif "memory" in (procfs.text("/sys/fs/cgroup/cgroup.controllers") or "").split():
        top, name, more = "/sys/fs/cgroup", "memory.max", ("memory.swap.max",)
        if "memory" not in (procfs.text(f"{top}/cgroup.subtree_control") or "").split():
            _write(f"{top}/cgroup.subtree_control", "+memory")
    else:
        raise OSError(2, "no memory controller under /sys/fs/cgroup")
    folder = f"{top}/gz-demo-{os.getpid()}"
    os.mkdir(folder)
    try:
        _write(f"{folder}/{name}", str(size))
        for file in more:
            with suppress(OSError):
                _write(f"{folder}/{file}", "0")
        enter = ["sh", "-c", 'echo $$ > "$0"', f"{folder}/cgroup.procs"]
        if procfs.number(f"{folder}/{name}") is None or subprocess.run(enter, capture_output=True).returncode:
            raise OSError(22, "it takes no limit or no process")
    except OSError:
        os.rmdir(folder)
        raise
    return folder


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


@dataclass
class Ran:
    """What became of a command."""

    code: int = 0
    killed: bool = False  # for want of memory
    seconds: float = 0.0
    memory: list[tuple[float, float]] = field(default_factory=list)  # (seconds, bytes of its own)
    lines: list[str] = field(default_factory=list)  # of its stderr, the last ones

    @property
    def peak(self) -> float:
        return max((m for _, m in self.memory), default=0.0)


def run(
    command: Sequence[str], limit: Limit, out: str, each: Callable[[float, float], None], env: dict[str, str]
) -> Ran:
    """Runs it to its end. `out`: a file for its stdout and stderr; `each` is called some times a second with
    the seconds that have passed and its memory."""
    ran, start = Ran(), time.monotonic()
    with open(out, "w", encoding="utf-8") as sink:
        process = subprocess.Popen(limit.wrapped(command), stdout=sink, stderr=subprocess.STDOUT, env=env)
    try:
        noted = -_NOTE
        while process.poll() is None:
            passed, own = time.monotonic() - start, _own(process.pid)
            if own is not None and passed - noted >= _NOTE:
                noted = passed
                ran.memory.append((passed, own))
                each(passed, own)
            if limit.folder is None and own is not None and own > limit.bytes:
                ran.memory.append((passed, own))
                ran.killed = True
                process.kill()
            time.sleep(_LOOK)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
    ran.code, ran.seconds = process.returncode, time.monotonic() - start
    ran.killed = ran.killed or ran.code in (-signal.SIGKILL, 128 + signal.SIGKILL)
    with open(out, encoding="utf-8", errors="replace") as f:
        ran.lines = f.read().splitlines()[-20:]
    return ran


def _own(pid: int) -> float | None:
    """Bytes that are the process's own. Between two readings a process can fill what is left of a limit: what
    is drawn is what was seen."""
    found: dict[str, Any] = usage.of_process(pid)
    return None if found["anonymous"] is None else found["anonymous"] + (found["shared"] or 0)
