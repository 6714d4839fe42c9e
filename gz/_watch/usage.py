"""What this process, or another, takes now: memory by kind, and bytes that came from disks."""

from __future__ import annotations

from typing import Any

from gz._watch import procfs


def of_process(pid: int | str = "self", root: str = "/") -> dict[str, Any]:
    """Bytes; None where it is not told.

    ``anonymous`` is memory of the process's own, ``file_pages`` pages of files that others may use too and
    that the kernel takes back when it needs them; ``rss`` is both, ``peak`` the most there was.
    ``read``: bytes that disks delivered for this process, whoever asked for them, since it began.
    """
    status, io = f"/proc/{pid}/status", f"/proc/{pid}/io"
    return {
        "rss": procfs.size(status, "VmRSS", root),
        "anonymous": procfs.size(status, "RssAnon", root),
        "file_pages": procfs.size(status, "RssFile", root),
        "shared": procfs.size(status, "RssShmem", root),
        "peak": procfs.size(status, "VmHWM", root),
        "read": procfs.size(io, "read_bytes", root),
    }
