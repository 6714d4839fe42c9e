"""Work in a process of its own: time, peak memory, a memory limit around it, an emptied page cache."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

# VmHWM belongs to the program that runs; getrusage's maxrss would include the parent it was forked from.
_WRAPPER = """
import json, sys, time
def _memory(name):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(name))
def _read():
    with open("/proc/self/io") as f:
        return int(f.readline().split()[1])
{setup}
_bytes = _read()
_before, _start, _cpu = _memory("VmRSS"), time.perf_counter(), time.process_time()
{code}
_seconds, _cpu = time.perf_counter() - _start, time.process_time() - _cpu
with open({out!r}, "w") as _f:
    json.dump(dict(seconds=_seconds, cpu=_cpu, read=_read() - _bytes, rss_before=_before,
                   rss_after=_memory("VmRSS"), peak_rss=_memory("VmHWM")), _f)
"""


@dataclass(frozen=True)
class Usage:
    seconds: float  # of the code, imports and set-up not counted
    cpu: float  # seconds on all cores, of the code
    read: int  # bytes, from files in the page cache too
    rss_before: int
    rss_after: int
    peak_rss: int  # of the whole process, what it mapped and touched included
    capped: int | None = None  # what a limited process held at most, page cache included


def run_python(code: str, *, setup: str = "", limit: int | None = None) -> Usage:
    """Run `code` in a fresh interpreter after `setup`, under a memory limit of `limit` bytes if given."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "usage.json")
        program = _WRAPPER.format(setup=setup, code=code, out=out)
        command = [sys.executable, "-c", program]
        with memory_capped(limit) as cap:
            done = subprocess.run(
                command,
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=cap.enter,
            )
            held = cap.peak()
        if done.returncode:
            raise RuntimeError(f"a benchmark process ended with {done.returncode}:\n{done.stdout[-4000:]}")
        return Usage(**json.loads(Path(out).read_text()), capped=held)


# Reads programs, a line of JSON each, runs each in a fork and answers with its exit code. pyarrow, OpenMP and
# gz start their threads with the first work, which is after the fork.
_SERVER = """
import json, os, sys, traceback
{imports}
for _line in sys.stdin:
    _pid = os.fork()
    if not _pid:
        try:
            os.chdir(json.loads(_line)["folder"])
            for _fd in (1, 2):
                os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT | os.O_APPEND), _fd)
            exec(json.loads(_line)["program"], {{**globals()}})
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(_pid, 0)[1])), flush=True)
"""


class Forks:
    """run_python without the wait for imports: every run is a process of its own all the same, a fork of one
    that has imported. What it shares with that counts in its memory as if it were its own."""

    def __init__(self, imports: str):
        server = _SERVER.format(imports=imports)
        self._server = subprocess.Popen(
            [sys.executable, "-c", server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, code: str, *, setup: str = "") -> Usage:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "usage.json")
            program = _WRAPPER.format(setup=setup, code=code, out=out)
            self._server.stdin.write(json.dumps({"program": program, "folder": folder}) + "\n")
            self._server.stdin.flush()
            if (ended := self._server.stdout.readline().strip()) != "0":
                said = Path(folder, "said").read_text(errors="replace") if ended else "its server is gone"
                raise RuntimeError(f"a benchmark process ended with {ended}:\n{said[-4000:]}")
            return Usage(**json.loads(Path(out).read_text()))

    def close(self) -> None:
        assert self._server.stdin
        self._server.stdin.close()
        self._server.wait()

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _groups() -> tuple[Path, str, str]:
    """Where a memory cgroup can be made, the file that takes its limit, the file that takes its processes."""
    v1 = Path("/sys/fs/cgroup/memory")
    if (v1 / "memory.limit_in_bytes").exists():
        return v1, "memory.limit_in_bytes", "cgroup.procs"
    v2 = Path("/sys/fs/cgroup")
    if "memory" in (v2 / "cgroup.controllers").read_text().split():
        control = v2 / "cgroup.subtree_control"
        if "memory" not in control.read_text().split():
            control.write_text("+memory")
        return v2, "memory.max", "cgroup.procs"
    raise OSError("no memory controller under /sys/fs/cgroup")


class Cap:
    """A memory cgroup, or none: `enter` is a preexec_fn, `peak()` what the group held at most."""

    def __init__(self, group: Path | None = None, members: str = ""):
        self._group, self._members = group, members

    def enter(self) -> None:
        if self._group:
            (self._group / self._members).write_text(str(os.getpid()))

    def end(self) -> None:
        """Ends what a killed script has left behind in the group: its workers."""
        while self._group and (left := (self._group / self._members).read_text().split()):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.05)

    def peak(self) -> int | None:
        """Bytes, page cache included. None without a limit, or where the kernel does not tell."""
        for name in ("memory.peak", "memory.max_usage_in_bytes") if self._group else ():
            if (self._group / name).exists():
                return int((self._group / name).read_text())
        return None


@contextmanager
def memory_capped(limit: int | None) -> Iterator[Cap]:
    """A limit for a child to enter; page cache it fills counts too. Needs root."""
    if limit is None:
        yield Cap()
        return
    if os.geteuid() != 0:
        raise PermissionError("a memory limit needs root: run the benchmark as root, or without one")
    root, limit_file, members = _groups()
    group = root / f"gz-bench-{os.getpid()}"
    group.mkdir()
    try:
        (group / limit_file).write_text(str(limit))
        for name in ("memory.swap.max", "memory.swappiness"):
            if (group / name).exists():
                (group / name).write_text("0")
        yield Cap(group, members)
    finally:
        group.rmdir()


def drop_caches() -> bool:
    """Empty the page cache, so that the next read comes from the disk. False where that is not allowed."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        return False
    return True


def warm(*paths: Path) -> None:
    """Read files through, so that they are in the page cache as far as it holds them."""
    buffer = bytearray(1 << 24)
    for path in paths:
        with open(path, "rb", buffering=0) as f:
            while f.readinto(buffer):
                pass
