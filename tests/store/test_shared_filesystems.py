"""Stores where many machines read them: what a network filesystem may lack, as far as one machine can tell.

A read-only bind mount takes root. Filesystems without locks or without O_DIRECT are played by a library that
stands before libc's calls in a process of its own, and says what NFS and Lustre say.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from waits import PATIENCE

import gz
from gz.verify import verify

N = 3000
RNG = np.random.default_rng(0)
SRC, DST = RNG.integers(0, N, (2, 10 * N))
X = RNG.standard_normal((N, 128)).astype(np.float32)


def make(path):
    gz.ingest(
        path, edges=(SRC, DST), num_nodes=N, features={"x": X}, splits={"train": [1, 2]}, progress=False
    )


@pytest.fixture
def read_only(tmp_path):
    """A store, seen through a read-only mount."""
    if os.geteuid() != 0:
        pytest.skip("a bind mount takes root")
    make(tmp_path / "s")
    seen = tmp_path / "seen"
    seen.mkdir()
    for command in (["--bind", tmp_path / "s", seen], ["-o", "remount,ro,bind", seen]):
        done = subprocess.run(["mount", *map(str, command)], capture_output=True, text=True)
        if done.returncode:
            subprocess.run(["umount", str(seen)], capture_output=True)
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    yield seen
    subprocess.run(["umount", "--lazy", str(seen)], check=True)


def test_a_read_only_mount_is_read_like_any_store(read_only):
    store = gz.open(read_only)
    sample = store.graph().sample(np.arange(100), [5, 5])
    assert len(sample.nodes) > 100
    assert np.array_equal(store.feature("x").gather(sample.nodes), X[sample.nodes])
    tensor = store.feature("x").get_tensor()
    tensor[0] = 7  # this process's own copy
    assert np.array_equal(gz.open(read_only).feature("x").gather([0])[0], X[0])
    assert all(error is None for _, error in verify(read_only))


def test_a_read_only_mount_cannot_be_changed_and_the_error_says_why(read_only):
    store = gz.open(read_only)
    with pytest.raises(OSError, match=r"Read-only file system") as error:
        store.add_feature("y", np.zeros(N))
    assert error.value.errno == errno.EROFS
    with pytest.raises(OSError, match=r"Read-only file system"):
        store.remove_feature("x")
    with pytest.raises(OSError, match=r"Read-only file system"):
        gz.ingest(read_only / "inner", edges=(SRC, DST), progress=False)


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

static int refused(const char* what, int code) {
  const char* log = getenv("GZ_TEST_LOG");
  FILE* f = log ? fopen(log, "a") : NULL;
  if (f) { fprintf(f, "%s\n", what); fclose(f); }
  errno = code;
  return -1;
}
static int missing(const char* what) {
  const char* all = getenv("GZ_TEST_MISSING");
  return all && strstr(all, what);
}
int flock(int fd, int operation) {
  if (missing("flock")) return refused("flock", ENOLCK);
  return ((int (*)(int, int))dlsym(RTLD_NEXT, "flock"))(fd, operation);
}
#define OPEN(name)                                                              \
  int name(const char* path, int flags, ...) {                                  \
    va_list args; va_start(args, flags); const int mode = va_arg(args, int); va_end(args); \
    if ((flags & O_DIRECT) && missing("direct")) return refused("direct", EINVAL); \
    return ((int (*)(const char*, int, ...))dlsym(RTLD_NEXT, #name))(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)
"""

PROGRAM = """
import json, os, sys, warnings
import numpy as np
import gz
from gz.verify import verify

warnings.simplefilter("always")
out, n = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
src, dst = rng.integers(0, n, (2, 10 * n))
x = rng.standard_normal((n, 128)).astype(np.float32)
with warnings.catch_warnings(record=True) as told:
    gz.ingest(out, edges=(src, dst), num_nodes=n, features={"x": x}, progress=False)
    store = gz.open(out)
    store.add_feature("y", np.arange(n))
    path = store.feature("x").path
with open(path, "rb") as f:  # cold: rows are read, and not copied from the mapping
    os.fsync(f.fileno())
    os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
column = gz.FeatureStore(path, cache=0)
column.set_cache(0)
ids = rng.integers(0, n, 500)
print(json.dumps({
    "rows": bool(np.array_equal(column.gather(ids), x[ids])),
    "y": bool(np.array_equal(gz.open(out).feature("y").gather(ids), ids)),
    "reads": column.stats()["reads"],
    "sound": all(error is None for _, error in verify(out)),
    "warnings": [str(w.message) for w in told],
}))
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in for libc's calls with")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    command = [compiler, "-shared", "-fPIC", "-o", "shim.so", "shim.c", "-ldl"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "shim.so"


@pytest.mark.parametrize("missing", ["flock", "direct", "flock direct"])
def test_a_filesystem_without_locks_or_direct_reads_holds_stores_all_the_same(shim, tmp_path, missing):
    log = tmp_path / "log"
    environment = {
        **os.environ,
        "LD_PRELOAD": str(shim),
        "GZ_TEST_MISSING": missing,
        "GZ_TEST_LOG": str(log),
        "PYTHONWARNINGS": "default",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "s"), str(N)],
        env=environment,
        capture_output=True,
        text=True,
        cwd="/",
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["rows"]
    assert told["y"]
    assert told["sound"]
    asked = set(log.read_text().split()) if log.exists() else set()
    if "flock" in missing:
        assert "flock" in asked  # or nothing was tested
        assert any("has no locks; nobody else may change the store meanwhile" in w for w in told["warnings"])
    else:
        assert told["warnings"] == []
    if "direct" in missing:
        if told["reads"] == 0:
            pytest.skip(
                "this filesystem keeps what it was told to drop: nothing was read past the page cache"
            )
        assert "direct" in asked
