"""Whether the disk has room for what is about to be written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from gz._base.sizes import amount


def check_room(folder: Path, needed: int, tmp: Path, temporary: int, what: str) -> None:
    """Raises OSError (ENOSPC) where `folder` has no room for `needed` bytes or `tmp` none for `temporary`
    ones, which may be the same disk."""
    both = needed + temporary if os.stat(folder).st_dev == os.stat(tmp).st_dev else 0
    for where, bytes_ in ((folder, both or needed), (tmp, both or temporary)):
        found = os.statvfs(where)
        free = found.f_bavail * found.f_frsize
        if bytes_ > free:
            raise OSError(
                errno.ENOSPC,
                f"needs about {amount(bytes_)} here for {what}, but only {amount(free)} are free; make "
                "room, give a smaller share (--share), or pass check_disk=False (--no-disk-check) to try",
                str(where),
            )
