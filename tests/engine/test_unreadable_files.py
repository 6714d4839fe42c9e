"""A bad sector, or a file cut short while it is open: an OSError that names file and byte, never a signal."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import ready

import gz

SCRIPT = Path(__file__).parent / "unreadable.py"
NODES = 20_000


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("unreadable") / "store"
    rng = np.random.default_rng(0)
    names = np.array([f"node-{i:06}" for i in range(NODES)])
    src, dst = names[rng.integers(0, NODES, 200_000)], names[rng.integers(0, NODES, 200_000)]
    csv = Path(path).parent / "edges.csv"
    weights = rng.random(200_000)
    lines = (f"{a},{b},{w:.3f}" for a, b, w in zip(src, dst, weights, strict=True))
    csv.write_text("src,dst,w\n" + "\n".join(lines) + "\n")
    gz.ingest(
        path,
        edges=csv,
        ids="map",
        weight="w",
        directions="both",
        keep_edge_ids=True,
        features={
            "wide": rng.random((NODES, 128), dtype=np.float32),
            "narrow": rng.random((NODES, 4), dtype=np.float32),
        },
        nodes=names.tolist(),
    )
    return path


def run(*arguments, **environment) -> dict[str, str]:
    done = ready.run([SCRIPT, *arguments], ready.PYG, env=os.environ | environment)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Fatal Python error" not in done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def check(results: dict[str, str], why: str) -> None:
    assert len(results) >= 20
    for call, result in results.items():
        assert result != "no error", (call, results)
    for call in (
        "sample",
        "sample out",
        "weighted",
        "gather wide",
        "gather narrow",
        "gather a row",
        "to original",
    ):
        assert re.search(rf"OSError.*cannot read at byte \d+: .*{why}.*\.g[ld]", results[call]), results[call]


@pytest.mark.slow
def test_a_file_cut_short_while_it_is_open(store, tmp_path):
    shutil.copytree(store, tmp_path / "store")
    results = run(tmp_path / "store", tmp_path, "cut")
    assert results.pop("whole again") == "the same sample"
    check(results, "shorter")


@pytest.fixture
def failing_disk(store, tmp_path):
    """A mounted disk, read-only, of an image that can be cut short: a loop device fails what lies beyond."""
    image, mount = tmp_path / "image", tmp_path / "mount"
    mount.mkdir()

    def command(*arguments):
        program = shutil.which(arguments[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if program is None:
            pytest.skip(f"{arguments[0]} is not here")
        done = subprocess.run([program, *arguments[1:]], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout.strip()

    if os.geteuid() != 0:
        pytest.skip("a disk of one's own needs root")
    with open(image, "wb") as f:
        f.truncate(128 << 20)
    command("mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", str(image))
    device = command("losetup", "-f", "--show", str(image))
    try:
        command("mount", device, str(mount))
        try:
            shutil.copytree(store, mount / "store")
            command("sync")
            command("mount", "-o", "remount,ro,noatime", str(mount))
            yield image, mount
        finally:
            command("umount", str(mount))
    finally:
        command("losetup", "-d", device)


@pytest.mark.slow
@pytest.mark.parametrize("io", ["ring", "map"])
def test_a_disk_that_fails_under_an_open_store(io, failing_disk, tmp_path):
    """By reading, which is told of the error, and by mapping alone, where it is a signal."""
    image, mount = failing_disk
    check(run(mount / "store", tmp_path, "disk", image, GZ_IO=io), "Input/output error")


@pytest.mark.parametrize("options", [[], ["-X", "faulthandler"]])
def test_a_tensor_over_a_file_cut_short_is_memory_like_any_other(options, tmp_path):
    """The signal goes where it went without gz: to faulthandler, then to the end."""
    np.save(tmp_path / "x.npy", np.zeros((10_000, 16), np.float32))
    script = """
        import os, sys, gz
        fs = gz.FeatureStore(sys.argv[1])
        tensor, _ = fs.get_tensor(), fs.gather([9_999])
        os.truncate(sys.argv[1], 4096)
        try:
            fs.gather([9_999])
        except OSError as e:
            print(e, flush=True)
        tensor.sum()
    """
    command = [sys.executable, *options, "-c", textwrap.dedent(script), str(tmp_path / "x.npy")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == -signal.SIGBUS
    assert "cannot read at byte" in done.stdout
    assert ("Bus error" in done.stderr) == bool(options)


def test_every_call_into_the_engine_is_guarded(repository):
    """One place lets go of the GIL, and guards what follows."""
    found = {
        p.name for p in (repository / "csrc" / "python").iterdir() if "gil_scoped_release" in p.read_text()
    }
    assert found == {"bindings.h"}
