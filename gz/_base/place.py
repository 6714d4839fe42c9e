"""A store appears complete, by a rename, or not at all; a killed ingest is gone on with, or cleaned up after.

While it is made, OUT lies in OUT.partial-XXXXXXXX:
  lock      held by the living ingest; the kernel gives it back when the process dies, so a partial folder
            whose lock is free belongs to nobody
  journal   the phases finished (journal.py)
  store     what becomes OUT, by one rename
  old       the store OUT was before, for a moment, on kernels that cannot swap two names
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gz._base.files import as_path
from gz._base.journal import FILE_NAME, Journal, Keys, sync
from gz._base.lock import Lock, holder, try_lock
from gz._base.replace import STORE, Kind, file_to_replace, folder_to_replace, remove_replaced

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_PARTIAL = re.compile(r"\.partial-[0-9a-f]{8}")
_PARTS = {"lock", FILE_NAME, FILE_NAME + ".new", "store", "old"}


@dataclass
class Workspace:
    folder: Path
    journal: Journal
    lock: Lock

    @property
    def root(self) -> Path:
        return self.folder / "store"


@contextmanager
def new_store(
    out: str | os.PathLike[str], overwrite: bool, keys: Keys | None = None, kind: Kind = STORE
) -> Iterator[Workspace]:
    """Gives a folder to write a store in; on success it becomes OUT. After an error or an interrupt finished
    phases stay, for a rerun once its cause is mended; without any the folder is removed."""
    if Path(out).suffix == ".gz":
        raise ValueError(
            f"{out}: a store is a directory; a name that ends in .gz would be taken for a gzip file"
        )
    given = Path(as_path(out))
    if not given.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "the folder to put the store in does not exist", str(given.parent)
        )
    _finish_publishing(Path(os.path.realpath(given)) if given.is_symlink() else given, kind)
    target = folder_to_replace(given, overwrite, kind)
    work = _claim(target, keys, kind)
    try:
        yield work
        sync_tree(work.root)
        publish(work, target, overwrite, kind)
    except BaseException as e:
        if any(work.journal.phases[p]["files"] for p in work.journal.usable()):
            _keep(work, e)
        else:
            _discard(work.folder, kind)
        raise
    finally:
        work.lock.release()


def temporary_folder(given: str | os.PathLike[str] | None) -> Path | None:
    """Where temporary files are to go, which must be there."""
    if given is not None and not os.path.isdir(given):
        raise NotADirectoryError(
            errno.ENOTDIR, "the folder for temporary files is not there", os.fspath(given)
        )
    return None if given is None else Path(given)


def _keep(work: Workspace, e: BaseException) -> None:
    with contextlib.suppress(OSError):
        work.journal.trust_the_disk()  # what is half done only takes room, on a disk that may be full
    e.add_note(
        f"finished phases are kept in {work.folder}; run the same command again to go on, or delete it"
    )


@contextmanager
def new_file(out: str | os.PathLike[str], overwrite: bool) -> Iterator[Path]:
    """The same for a single file: gives the path to write, which is renamed to OUT on success."""
    target = file_to_replace(out, overwrite)
    for folder in _leftovers(target):
        lock = try_lock(folder / "lock")
        if lock is not None:
            _discard(folder, STORE)
            lock.release()
    folder, lock = _new_folder(target)
    try:
        (folder / "store").mkdir()
        yield folder / "store" / target.name
        file_to_replace(target, overwrite)
        os.replace(folder / "store" / target.name, target)
        sync(target.parent)
    finally:
        _discard(folder, STORE)
        lock.release()


# ---- what killed ingests left ----


def _leftovers(target: Path, say: bool = False) -> list[Path]:
    """Folders named and filled as ours are. Others of such a name are somebody else's."""
    if not target.parent.is_dir():
        return []
    found = []
    with os.scandir(target.parent) as entries:
        for e in entries:
            if e.name.startswith(target.name) and _PARTIAL.fullmatch(e.name[len(target.name) :]):
                if e.is_dir(follow_symlinks=False) and set(os.listdir(e.path)) <= _PARTS:
                    found.append(Path(e.path))
                elif say:
                    _say(f"{e.path} is there, with files that gz did not make; it is left alone")
    return sorted(found)


def _discard(folder: Path, kind: Kind) -> None:
    """Removes a partial folder. The store that was replaced may lie in it, as `old` or as `store`."""
    journal = Journal.read(folder / FILE_NAME, folder / "store")
    if journal is not None and journal.publishing not in (None, _inode(folder / "store")):
        remove_replaced(folder / "store", kind)
    else:
        shutil.rmtree(folder / "store", ignore_errors=True)
    remove_replaced(folder / "old", kind)
    for name in (FILE_NAME, FILE_NAME + ".new", "lock"):
        (folder / name).unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        _say(f"{folder} keeps files that were put into the old store at the last moment")


def _finish_publishing(target: Path, kind: Kind) -> None:
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
                _discard(folder, kind)
        lock.release()


def _claim(target: Path, keys: Keys | None, kind: Kind) -> Workspace:
    """The dead partial folder this ingest can go on with, or a new one; other dead ones are removed."""
    found: list[Workspace] = []
    for folder in _leftovers(target, say=True):
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
        journal = Journal.read(folder / FILE_NAME, folder / "store", keys)
        swapped = journal and journal.publishing and _inode(folder / "store") != journal.publishing
        if journal is None or swapped:  # nothing begun; or what lies there is the store that was replaced
            journal = Journal(folder / FILE_NAME, folder / "store", keys)
        found.append(Workspace(folder, journal, lock))
    begun = {phase for work in found for phase in work.journal.phases}
    best: Workspace | None = None
    for work in found:
        if work.journal.usable():
            work.journal.trust_the_disk()
            if work.journal.phases and (best is None or len(work.journal.phases) > len(best.journal.phases)):
                best = work
    if found:
        _tell(target, best, begun, keys, kind)
    for work in found:
        if work is not best:
            _discard(work.folder, kind)
            work.lock.release()
    if best is not None:
        return best
    folder, lock = _new_folder(target)
    (folder / "store").mkdir()
    return Workspace(folder, Journal.start(folder / FILE_NAME, folder / "store", keys), lock)


def _tell(target: Path, best: Workspace | None, begun: set[str], keys: Keys | None, kind: Kind) -> None:
    if best is not None:
        done = list(best.journal.phases)
        again = sorted(begun - set(done))
        _say(
            f"{target}: {kind.work} did not finish; this one goes on after its {len(done)} finished phases: "
            f"{', '.join(done)}"
            + (f". Done again, because what they read has changed: {', '.join(again)}" if again else "")
        )
        return
    if not begun:
        why = "none of its phases was finished"
    elif keys is None or keys.in_memory:
        why = "large arrays and iterators cannot be compared with those it read"
    else:
        why = "its inputs or options were others"
    _say(f"{target}: {kind.work} did not finish; this one starts anew, because {why}")


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


def publish(work: Workspace, target: Path, overwrite: bool, kind: Kind) -> None:
    folder_to_replace(target, overwrite, kind)  # much may have happened since it was asked first
    work.journal.publish()
    if os.path.lexists(target):
        if not _exchange(work.root, target):
            os.rename(target, work.folder / "old")
            os.rename(work.root, target)
    else:
        os.rename(work.root, target)
    sync(target.parent)
    _discard(work.folder, kind)  # with the old store, if there was one


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
