"""Where a file lies: filesystem, mount, disk, and whether it can be read past the page cache."""

from __future__ import annotations

import mmap
import os
import shutil
from typing import Any, NamedTuple

from gz._watch import procfs

NETWORK = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "9p",
    "ceph",
    "glusterfs",
    "lustre",
    "fuse.sshfs",
    "afs",
    "virtiofs",
)
IN_MEMORY = ("tmpfs", "ramfs")
_BLOCK = 4096


class Mount(NamedTuple):
    device: str  # "253:0"
    point: str
    options: str
    filesystem: str
    source: str


def describe(path: str, root: str = "/") -> dict[str, Any]:
    """Plain values about the place of a file or folder, which must exist; None where it is not told."""
    path = os.path.realpath(path)
    mount = mount_of(path, os.stat(path).st_dev, root)
    space = shutil.disk_usage(path)
    kind = None if mount is None else mount.filesystem
    return {
        "path": path,
        "filesystem": kind,
        "source": None if mount is None else mount.source,
        "mount": None if mount is None else mount.point,
        "options": None if mount is None else mount.options,
        "network": kind in NETWORK,
        "in_memory": kind in IN_MEMORY,
        "size": space.total,
        "free": space.free,
        **_disk(None if mount is None else mount.device, root),
    }


def mount_of(path: str, device: int, root: str = "/") -> Mount | None:
    """The mount a path lies on: the longest that leads to it; of those mounted over each other, the last."""
    number = f"{os.major(device)}:{os.minor(device)}"
    best: tuple[int, int, Mount] | None = None
    for order, line in enumerate((procfs.text("/proc/self/mountinfo", root) or "").splitlines()):
        words = line.split()
        if "-" not in words or len(words) < words.index("-") + 3:
            continue
        after = words.index("-")
        found = Mount(
            words[2], _unescaped(words[4]), words[5], words[after + 1], _unescaped(words[after + 2])
        )
        leads = path == found.point or path.startswith(found.point.rstrip("/") + "/")
        if leads and (best is None or (len(found.point), order) > best[:2]):
            best = (len(found.point), order, found)
    if best is None:
        return None
    # btrfs and overlayfs give files device numbers of their own; a plain filesystem's is the mount's.
    return best[2]._replace(device=number) if best[2].device.startswith("0:") else best[2]


def _unescaped(text: str) -> str:
    """mountinfo writes a space as \\040."""
    for code in ("040", "011", "012", "134"):
        text = text.replace("\\" + code, chr(int(code, 8)))
    return text


def _disk(device: str | None, root: str) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(("disk", "model", "rotates", "read_ahead", "scheduler"))
    if device is None:
        return nothing
    link = os.path.join(root, f"sys/dev/block/{device}")
    if not os.path.exists(link):  # no disk of its own: overlay, network, memory
        return nothing
    folder = os.path.realpath(link)
    if not os.path.isdir(os.path.join(folder, "queue")):  # a partition: its disk is the folder above
        folder = os.path.dirname(folder)
    rotates = procfs.number(f"{folder}/queue/rotational")
    ahead = procfs.number(f"{folder}/queue/read_ahead_kb")
    scheduler = procfs.first_line(f"{folder}/queue/scheduler") or ""
    return {
        "disk": os.path.basename(folder),
        "model": procfs.first_line(f"{folder}/device/model"),
        "rotates": None if rotates is None else bool(rotates),
        "read_ahead": None if ahead is None else ahead * 1024,
        "scheduler": next((w[1:-1] for w in scheduler.split() if w.startswith("[")), scheduler or None),
    }


def direct_reads(path: str) -> tuple[bool, str]:
    """Whether a file can be read past the page cache (O_DIRECT), and if not, why."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
    except OSError as e:
        return False, f"opening with O_DIRECT: {e.strerror}"
    try:
        with mmap.mmap(-1, _BLOCK) as buffer:  # page-aligned
            os.preadv(fd, [buffer], 0)
    except OSError as e:
        return False, f"reading with O_DIRECT: {e.strerror}"
    finally:
        os.close(fd)
    return True, "O_DIRECT works"


def forget(path: str) -> None:
    """Asks the kernel to drop a file's pages; those that a process has mapped, or that were never written
    to the disk, stay."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
