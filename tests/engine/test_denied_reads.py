"""Rows while a container's filter denies io_uring, from the start or in the middle: always the file's.

The C++ test beside this one (ring_test.cpp) makes the same call fail in every other way.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from gz import _engine

# A seccomp filter for all threads that answers io_uring_enter (426 everywhere) with an errno.
DENY = """
import ctypes, platform
SECCOMP = {"x86_64": 317, "aarch64": 277}[platform.machine()]

class Step(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte)]
    _fields_ += [("k", ctypes.c_uint)]

class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("steps", ctypes.POINTER(Step))]

def deny(errno):
    steps = (Step * 4)(
        Step(0x20, 0, 0, 0),  # the number of the system call
        Step(0x15, 0, 1, 426),
        Step(0x06, 0, 0, 0x00050000 | errno),
        Step(0x06, 0, 0, 0x7FFF0000),
    )
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    if libc.syscall(SECCOMP, 1, 1, ctypes.byref(Program(4, steps))) != 0:  # for all threads
        print("no seccomp", ctypes.get_errno())
        raise SystemExit(77)
"""

GATHERS = """
import errno, os, sys
import numpy as np
import gz
from gz import _engine
from gz._base.memory_plan import Share

path, when, code = sys.argv[1:]
if when == "first":
    deny(getattr(errno, code))
fs = gz.FeatureStore(path, 0, _share=Share())
expected = np.arange(20_000 * 128, dtype=np.float32).reshape(-1, 128)
rng = np.random.default_rng(0)
for turn in range(30):
    if turn == 10 and when == "later":
        assert _engine.read_path().path == "ring"
        deny(getattr(errno, code))
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    ids = rng.integers(0, len(expected), 2000)
    assert np.array_equal(fs.gather(ids), expected[ids]), turn
assert fs.stats()["reads"] > 0
io = _engine.read_path()
print(io.path, io.why)
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the filter knows two machines")
@pytest.mark.skipif(_engine.read_path().path != "ring", reason=f"no io_uring: {_engine.read_path().why}")
@pytest.mark.parametrize("code", ["EPERM", "ENOSYS", "EAGAIN"])
@pytest.mark.parametrize("when", ["first", "later"])
def test_rows_are_right_when_a_filter_denies_io_uring(tmp_path, when, code):
    path = tmp_path / "x.gd"
    writer = _engine.ColumnWriter(str(path), "float32", [128])
    writer.append(np.arange(20_000 * 128, dtype=np.float32).view(np.uint8))
    writer.finish()
    script = textwrap.dedent(DENY) + GATHERS
    done = subprocess.run([sys.executable, "-c", script, path, when, code], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stderr
    # A lack of memory is no denial: it may pass, so the ring is tried again.
    expected = "ring" if (when, code) == ("later", "EAGAIN") else "threads"
    assert done.stdout.startswith(expected), done.stdout
