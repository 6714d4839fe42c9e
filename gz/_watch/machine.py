"""The machine: processors, memory and its limit, kernel, what reading may use of it."""

from __future__ import annotations

import os
import platform
import resource
import shutil
from typing import Any

from gz import _engine
from gz._watch import procfs

_NO_LIMIT = 1 << 60  # cgroup v1 writes a huge number where there is none


def describe(root: str = "/") -> dict[str, Any]:
    """Plain values, for people and for JSON; sizes in bytes, None where it is not told."""
    limit = memory_limit(root)
    io = _engine.read_path()
    return {
        "cpu": procfs.field("/proc/cpuinfo", "model name", root) or platform.processor() or "unknown",
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": _engine.num_threads(),
        "load": os.getloadavg()[0],
        "ram": procfs.size("/proc/meminfo", "MemTotal", root),
        "available": procfs.size("/proc/meminfo", "MemAvailable", root),
        "swap": procfs.size("/proc/meminfo", "SwapTotal", root),
        "limit": None if limit is None else limit[0],
        "limit_of": None if limit is None else limit[1],
        "free": _engine.free_memory(),
        "kernel": platform.release(),
        "overcommit": procfs.number("/proc/sys/vm/overcommit_memory", root),
        "huge_pages": _chosen(procfs.first_line("/sys/kernel/mm/transparent_hugepage/enabled", root)),
        "shm": _space("/dev/shm", root),
        "memlock": _soft(resource.RLIMIT_MEMLOCK),
        "open_files": _soft(resource.RLIMIT_NOFILE),
        "reads": io.path,
        "reads_why": io.why,
    }


def memory_limit(root: str = "/") -> tuple[int, str] | None:
    """The tightest cgroup limit above this process, v1 or v2, and the folder that has it."""
    found = []
    for line in (procfs.text("/proc/self/cgroup", root) or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers == "":
            top, name = "/sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            top, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        parts = [p for p in group.split("/") if p]
        for depth in range(len(parts), -1, -1):
            folder = "/".join([top, *parts[:depth]])
            limit = procfs.number(f"{folder}/{name}", root)
            if limit is not None and limit < _NO_LIMIT:
                found.append((limit, folder))
    return min(found, default=None)


def _chosen(line: str | None) -> str | None:
    """The one in brackets of "always [madvise] never"."""
    return next((w[1:-1] for w in (line or "").split() if w.startswith("[")), None)


def _space(folder: str, root: str) -> dict[str, int] | None:
    try:
        usage = shutil.disk_usage(os.path.join(root, folder.lstrip("/")))
    except OSError:
        return None
    return {"size": usage.total, "free": usage.free}


def _soft(which: int) -> int | None:
    """A limit of this process; None where there is none."""
    soft = resource.getrlimit(which)[0]
    return None if soft == resource.RLIM_INFINITY else soft
