"""Ctrl-C in the middle of a long call: it ends well before its time, leaves nothing behind, and the engine is
as it was. Samples and walks: tests/engine/test_limits.py; ingests by phase: tests/ingest/plan/test_resume.py.
"""

from __future__ import annotations

import os
import struct

import forge
import numpy as np
import pytest
from waits import PATIENCE, script

import gz

# Does the work to know how long it takes, then again with Ctrl-C on the way. The timer stands for a finger:
# it fires inside of the call, wherever that is. Both go by the time of the processor, which other programs
# change least; on a busy virtual machine it still varies by a factor of five for the same work, so the finger
# is early, and what is asked for is half of the time, in one of three tries. An engine that did not look for
# it would take all of the time, in each.
SCRIPT = """
import os, shutil, signal, sys, time
import numpy as np
import gz
from gz.verify import verify

call, threads, folder = sys.argv[1:]
gz.set_num_threads(int(threads))
os.chdir(folder)

calls = {
    "gather": lambda: gz.FeatureStore("x.npy", 0).gather(ids),
    "verify": lambda: list(verify("zeros.gd")),  # whose checksum is wrong, which is seen at the end
    "convert": lambda: gz.convert_csv_to_gl("e.csv", "out.gl"),
    "ingest": lambda: gz.ingest("out", edges="e.csv", num_nodes=50_000),
    "arrays": lambda: gz.ingest("out", edges=(edges[0], edges[1]), memory="64MB", num_nodes=50_000),
}
edges = np.load("e.npy", mmap_mode="r")
ids = np.random.default_rng(0).integers(0, 1 << 22, 4_000_000)

def clean():
    for name in ("out", "out.gl"):
        if os.path.isdir(name):
            shutil.rmtree(name)
        elif os.path.exists(name):
            os.unlink(name)
    for name in ("x.npy", "zeros.gd"):  # the next run finds no more of them in memory than the last one
        descriptor = os.open(name, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)

def attempt():
    clean()
    begin = time.process_time()
    calls[call]()
    whole = time.process_time() - begin
    clean()
    before = sorted(os.listdir())
    signal.signal(signal.SIGPROF, signal.default_int_handler)
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, whole / 20)
    try:
        calls[call]()
    except KeyboardInterrupt:
        took = time.process_time() - begin
        left = sorted(set(os.listdir()) - set(before))
        assert all(".partial-" in name for name in left), left  # finished phases: the next run goes on
        for name in left:
            shutil.rmtree(name)
        return "cut" if took < whole / 2 else f"took {took:.2f} s, the whole {whole:.2f} s"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "ran to its end"

for _ in range(3):
    said = attempt()
    if said == "cut":
        break
print(said)
"""
EDGES = 12_000_000  # a second of work: the engine looks for Ctrl-C five times a second


def sparse_column(path, rows: int) -> None:
    """Zeros that take no room on the disk, with a header that is right."""
    writer = gz._engine.ColumnWriter(str(path), "float32", [256])
    writer.append(np.zeros((1, 256), np.float32).view(np.uint8))
    writer.finish()
    head = bytearray(path.read_bytes()[:4096])
    struct.pack_into("<Q", head, 24, 4096 + rows * 1024)
    struct.pack_into("<Q", head, 64 + 8, rows * 1024)
    struct.pack_into("<Q", head, 328, rows)
    path.write_bytes(forge.sealed(head))
    os.truncate(path, 4096 + rows * 1024)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("interrupts")
    with open(here / "x.npy", "wb") as f:  # read past the page cache, row by row, and taking no room either
        header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 22, 32)}
        np.lib.format.write_array_header_1_0(f, header)
        f.truncate(f.tell() + (1 << 22) * 128)
    sparse_column(here / "zeros.gd", 3_000_000)
    edges = np.random.default_rng(0).integers(0, 50_000, (2, EDGES))
    np.save(here / "e.npy", edges)
    import pyarrow as pa
    from pyarrow import csv

    csv.write_csv(pa.table({"src": edges[0], "dst": edges[1]}), here / "e.csv")
    return here


@pytest.mark.slow
@pytest.mark.parametrize("call", ["gather", "verify", "convert", "ingest", "arrays"])
def test_a_long_call_is_cut_short_by_ctrl_c_and_leaves_nothing(call, folder):
    with script(SCRIPT, call, 1, folder) as process:
        out, _ = process.communicate(timeout=PATIENCE)
    assert out == "cut\n"
    assert process.returncode == 0
