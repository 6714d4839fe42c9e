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
    status = procfs.text(f"/proc/{pid}/status", root) or ""  # once, so that the parts add up
    return {
        "rss": procfs.size_in(status, "VmRSS"),
        "anonymous": procfs.size_in(status, "RssAnon"),
        "file_pages": procfs.size_in(status, "RssFile"),
        "shared": procfs.size_in(status, "RssShmem"),
        "peak": procfs.size_in(status, "VmHWM"),
        "read": procfs.size(f"/proc/{pid}/io", "read_bytes", root),
    }
