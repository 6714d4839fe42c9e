"""What is said of the machine, the disk and a process: compared with Python's view, or drawn files."""

from __future__ import annotations

import os
import resource

import numpy as np
import pytest

from gz._watch import machine, procfs, storage, usage


def put(root, path, text):
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_field_is_found_by_its_whole_name(tmp_path):
    put(tmp_path, "/proc/x", "RssAnonHuge:  7 kB\nRssAnon:\t  12 kB\nread_bytes: 4096\n")
    assert procfs.size("/proc/x", "RssAnon", str(tmp_path)) == 12 * 1024
    assert procfs.size("/proc/x", "read_bytes", str(tmp_path)) == 4096
    assert procfs.size("/proc/x", "Rss", str(tmp_path)) is None
    assert procfs.size("/proc/missing", "RssAnon", str(tmp_path)) is None


@pytest.mark.parametrize(
    ("group", "files", "limit"),
    [
        ("0::/a/b\n", {"a/memory.max": "500", "a/b/memory.max": "max"}, (500, "/sys/fs/cgroup/a")),
        ("0::/a/b\n", {"a/memory.max": "500", "a/b/memory.max": "400"}, (400, "/sys/fs/cgroup/a/b")),
        ("0::/a\n", {"a/memory.max": "max"}, None),
        (
            "3:cpu:/x\n4:cpu,memory:/a\n0::/\n",
            {"memory/a/memory.limit_in_bytes": "700", "memory/memory.limit_in_bytes": str(2**63 - 4096)},
            (700, "/sys/fs/cgroup/memory/a"),
        ),
        ("", {}, None),
    ],
)
def test_the_tightest_limit_counts(tmp_path, group, files, limit):
    put(tmp_path, "/proc/self/cgroup", group)
    for name, text in files.items():
        put(tmp_path, f"/sys/fs/cgroup/{name}", text + "\n")
    assert machine.memory_limit(str(tmp_path)) == limit


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 8:17 / /data rw,noatime - xfs /dev/sdb1 rw
31 22 0:40 / /data/with\\040space rw - nfs4 server:/x rw
32 30 0:50 / /data rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "filesystem", "source"),
    [
        ("/home/x", "ext4", "/dev/sda1"),
        ("/database", "ext4", "/dev/sda1"),
        ("/data/store", "tmpfs", "tmpfs"),
        ("/data/with space/store", "nfs4", "server:/x"),
    ],
)
def test_the_mount_of_a_path_is_the_nearest_and_last(tmp_path, path, filesystem, source):
    put(tmp_path, "/proc/self/mountinfo", MOUNTS)
    found = storage.mount_of(path, os.makedev(8, 1), str(tmp_path))
    assert (found.filesystem, found.source) == (filesystem, source)


def test_the_machine_is_described_as_python_sees_it(tmp_path):
    found = machine.describe()
    assert found["cores"] == len(os.sched_getaffinity(0))
    # A container may be told of less than there is.
    assert 0 < found["ram"] <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert found["free"] > 0
    assert found["open_files"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    place = storage.describe(str(tmp_path))
    space = os.statvfs(tmp_path)
    assert place["size"] == space.f_blocks * space.f_frsize
    assert place["filesystem"]


def test_memory_of_a_process_grows_by_what_it_takes():
    before = usage.of_process()["anonymous"]
    taken = np.ones(8 << 20, np.int64)
    now = usage.of_process()
    assert now["anonymous"] - before > 0.8 * taken.nbytes
    assert now["rss"] == now["anonymous"] + now["file_pages"] + now["shared"]
    assert usage.of_process(2**22 + 1)["rss"] is None  # no such process


def test_whether_a_file_can_be_read_past_the_cache_is_tried(tmp_path):
    (tmp_path / "f").write_bytes(bytes(8192))
    works, why = storage.direct_reads(str(tmp_path / "f"))
    assert why
    assert storage.direct_reads(str(tmp_path / "missing"))[0] is False
    assert works in (True, False)  # by the filesystem under the tests
