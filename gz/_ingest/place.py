"""A store appears complete, by a rename, or not at all; a killed ingest is gone on with, or cleaned up after.

While it is made, OUT lies in OUT.partial-XXXXXXXX:
  lock      held by the living ingest; the kernel gives it back when the process dies, so a partial folder
            whose lock is free belongs to nobody
  journal   the phases finished (journal.py)
  store     what becomes OUT, by one rename
  old       the store OUT was before, for a moment, on kernels that cannot swap two names
"""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import secrets
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gz._lock import Lock, holder, try_lock

from .journal import FILE_NAME, Journal, sync

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@dataclass
class Workspace:
    folder: Path
    journal: Journal
    lock: Lock
    resumed: bool = False
    keep: bool = False  # whatever happens: what is here is worth more than the space it takes

    @property
    def root(self) -> Path:
        return self.folder / "store"


@contextmanager
def new_store(
    out: str | os.PathLike[str], overwrite: bool, fingerprint: str | None = None
) -> Iterator[Workspace]:
    """Gives a folder to write a store in; on success it becomes OUT, on an exception it is removed. After an
    interrupt it stays if the same ingest could go on with it."""
    target = Path(os.path.abspath(out))
    if target.suffix == ".gz":
        raise ValueError(
            f"{target}: a store is a directory; a name that ends in .gz would be taken for a gzip file"
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "the folder to put the store in does not exist", str(target.parent)
        )
    _finish_publishing(target)
    check_free(target, overwrite, "store")
    work = _claim(target, fingerprint)
    try:
        yield work
        sync_tree(work.root)
        publish(work, target, overwrite)
    except BaseException as e:
        worth_keeping = work.journal.fingerprint is not None and work.journal.phases
        if work.keep or (isinstance(e, KeyboardInterrupt) and worth_keeping):
            e.add_note(f"the same command goes on where this one stopped; {work.folder} holds what it did")
        else:
            shutil.rmtree(work.folder, ignore_errors=True)
        raise
    finally:
        work.lock.release()


@contextmanager
def new_file(out: str | os.PathLike[str], overwrite: bool) -> Iterator[Path]:
    """The same for a single file: gives the path to write, which is renamed to OUT on success."""
    target = Path(os.path.abspath(out))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a directory; give the name of a file", str(target))
    check_free(target, overwrite, "file")
    for folder in _leftovers(target):
        lock = try_lock(folder / "lock")
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            lock.release()
    folder, lock = _new_folder(target)
    try:
        yield folder / target.name
        os.replace(folder / target.name, target)
        sync(target.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def check_free(target: Path, overwrite: bool, what: str) -> None:
    if os.path.lexists(target) and not overwrite:
        raise FileExistsError(
            errno.EEXIST, f"this {what} exists; pass overwrite=True (--overwrite) to replace it", str(target)
        )


# ---- what killed ingests left ----


def _leftovers(target: Path) -> list[Path]:
    return [Path(p) for p in sorted(glob.glob(glob.escape(str(target)) + ".partial-*"))]


def _finish_publishing(target: Path) -> None:
    """A store that was complete when its ingest was killed is put in its place, or is there already."""
    for folder in _leftovers(target):
        lock = try_lock(folder / "lock")
        if lock is None:
            continue
        journal = Journal.read(folder / FILE_NAME, folder / "store")
        if journal is not None and journal.publishing is not None:
            if (folder / "old").exists() and not os.path.lexists(target):
                os.rename(folder / "store", target)
                sync(target.parent)
            if _inode(target) == journal.publishing:
                shutil.rmtree(folder)
        lock.release()


def _claim(target: Path, fingerprint: str | None) -> Workspace:
    """The dead partial folder this ingest can go on with, or a new one; other dead ones are removed."""
    found: list[Workspace] = []
    for folder in _leftovers(target):
        if not (folder / "lock").exists():
            _say(f"{folder} is there, with no lock to show whose it is; delete it unless you know")
            continue
        lock = try_lock(folder / "lock")
        if lock is None:
            for work in found:
                work.lock.release()
            raise BlockingIOError(
                errno.EAGAIN,
                f"{holder(folder / 'lock')} is writing this store; wait for it, or stop it (if it is gone, "
                f"delete {folder})",
                str(target),
            )
        journal = Journal.read(folder / FILE_NAME, folder / "store")
        swapped = journal and journal.publishing and _inode(folder / "store") != journal.publishing
        if journal is None or swapped:  # nothing begun; or what lies there is the store that was replaced
            journal = Journal(folder / FILE_NAME, folder / "store", None)
        found.append(Workspace(folder, journal, lock))
    best: Workspace | None = None
    for work in found:
        if fingerprint is not None and work.journal.fingerprint == fingerprint:
            work.journal.trust_the_disk()
            if work.journal.phases and (best is None or len(work.journal.phases) > len(best.journal.phases)):
                best = work
    if found:
        _tell(target, best, found, fingerprint)
    for work in found:
        if work is not best:
            shutil.rmtree(work.folder, ignore_errors=True)
            work.lock.release()
    if best is not None:
        best.resumed = True
        return best
    folder, lock = _new_folder(target)
    (folder / "store").mkdir()
    return Workspace(folder, Journal.start(folder / FILE_NAME, folder / "store", fingerprint), lock)


def _tell(target: Path, best: Workspace | None, found: list[Workspace], fingerprint: str | None) -> None:
    if best is not None:
        done = list(best.journal.phases)
        _say(
            f"{target}: an ingest was killed; this one goes on after its {len(done)} finished phases: "
            f"{', '.join(done)}"
        )
        return
    if fingerprint is None:
        why = "large arrays and iterators cannot be compared with those it read"
    elif all(w.journal.fingerprint == fingerprint for w in found):
        why = "none of its phases was finished"
    else:
        why = "its inputs or options were others"
    _say(f"{target}: an ingest was killed; this one starts anew, because {why}")


def _say(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=6)


def _new_folder(target: Path) -> tuple[Path, Lock]:
    while True:
        folder = target.with_name(f"{target.name}.partial-{secrets.token_hex(4)}")
        folder.mkdir()
        lock = try_lock(folder / "lock", create=True)
        if lock is not None:  # else another ingest took the empty folder for a dead one's
            return folder, lock


# ---- into place ----


def publish(work: Workspace, target: Path, overwrite: bool) -> None:
    work.journal.publish()
    if os.path.lexists(target):
        check_free(target, overwrite, "store")
        if not _exchange(work.root, target):
            os.rename(target, work.folder / "old")
            os.rename(work.root, target)
    else:
        os.rename(work.root, target)
    sync(target.parent)
    shutil.rmtree(work.folder, ignore_errors=True)  # with the old store, if there was one


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _exchange(a: Path, b: Path) -> bool:
    """Swaps two names in one step, where the kernel and the filesystem can."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    result = renameat2(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), ctypes.c_uint(_RENAME_EXCHANGE))
    return result == 0


def sync_tree(root: Path) -> None:
    """The files sync themselves; the directories that name them have to be synced too."""
    for directory, _, _ in os.walk(root):
        sync(Path(directory))
