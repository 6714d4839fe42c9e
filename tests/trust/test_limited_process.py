"""A process that may not have all it wants: address space, descriptors, threads, a folder to write to. Right
data or a typed error; afterwards everything is as it was."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from waits import in_child

import gz
from gz.verify import verify

N, E = 20_000, 200_000
RNG = np.random.default_rng(0)
SRC, DST = RNG.integers(0, N, (2, E))
X = RNG.random((N, 64), dtype=np.float32)
NOBODY = 65534


@pytest.fixture(scope="module")
def path():
    """Where other users may look."""
    folder = Path(tempfile.mkdtemp(prefix="gz-limits-"))
    folder.chmod(0o755)
    columns = {f"c{i}": np.full(N, i, np.int16) for i in range(20)}
    gz.ingest(folder / "s", edges=(SRC, DST), num_nodes=N, features={"x": X, **columns}, directions="both")
    yield folder / "s"
    shutil.rmtree(folder)


def answers(path: Path) -> dict[str, np.ndarray]:
    """Of calls whose answer is known; new objects each time."""
    store = gz.open(path)
    some = np.arange(0, N, 7)
    for _, error in verify(path):
        if error is not None:
            raise error
    sample = store.graph().sample(some, [5, 3], rng_seed=1)
    return {
        "gather": store.feature("x").gather(some),
        "nodes": sample.nodes,
        "edges": sample.edge_rows,
        "walk": store.graph(direction="out").batch_random_walk(some, 6, rng_seed=2),
        "degree": store.graph().degree(some),
    }


@pytest.fixture(scope="module")
def expected(path) -> dict[str, np.ndarray]:
    found = answers(path)
    np.testing.assert_array_equal(found["gather"], X[::7])
    return found


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def address_space() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[0]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("room", [0, 1 << 20, 4 << 20, 12 << 20, 40 << 20, 1 << 30])
def test_little_address_space_is_an_error_or_no_matter(room, path, expected):
    """RLIMIT_AS: what does not fit is a MemoryError or OSError, and what comes out is right."""

    def run():
        gz.set_num_threads(2)
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (address_space() + room, before[1]))
        try:
            same(answers(path), expected)
        except (MemoryError, OSError):
            assert room < 1 << 30
        resource.setrlimit(resource.RLIMIT_AS, before)
        same(answers(path), expected)

    assert in_child(run)


@pytest.mark.parametrize("more", [0, 1, 2, 3, 5, 8, 12, 64])
def test_few_descriptors_are_an_error_or_no_matter_and_none_is_lost(more, path, expected):
    """RLIMIT_NOFILE."""

    def run():
        same(answers(path), expected)
        held = set(os.listdir("/proc/self/fd"))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = max(map(int, held)) + 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + more, hard))
        store = None
        try:
            store = gz.open(path)
            for name in store.node_columns():
                assert len(store.feature(name).gather([1, 2])) == 2
            same(answers(path), expected)
        except OSError as e:
            assert e.errno == 24, e  # EMFILE  # noqa: PT017
            assert more < 64
        del store
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        same(answers(path), expected)
        assert len(os.listdir("/proc/self/fd")) <= len(held) + 1

    assert in_child(run)


def as_nobody() -> None:
    """Root is bound by neither limit nor permission."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


@pytest.mark.parametrize("io", ["ring", "threads"])
def test_without_a_thread_to_be_had_the_answers_are_the_same(io, path, expected):
    """RLIMIT_NPROC."""

    def run():
        os.environ["GZ_IO"] = io
        as_nobody()
        gz.set_num_threads(8)
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        with pytest.raises(RuntimeError, match="can't start new thread"):
            threading.Thread(target=int).start()
        same(answers(path), expected)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "e.csv").write_text("src,dst\n" + "1,2\n" * 5000)
            gz.ingest(folder + "/a", edges=(SRC, DST), num_nodes=N, directions="both", memory="4MB")
            gz.ingest(folder + "/b", edges=folder + "/e.csv")
            np.testing.assert_array_equal(
                gz.open(folder + "/a").graph().indices, gz.open(path).graph().indices
            )

    assert in_child(run)


def test_a_store_of_someone_else_can_be_read_and_not_changed(path, expected):
    """A read-only folder: nothing is written beside the data, and what must write says so."""
    before = sorted(p.name for p in path.rglob("*"))

    def run():
        as_nobody()
        os.chmod(path, 0o555) if os.geteuid() != NOBODY else None
        same(answers(path), expected)
        store = gz.open(path)
        for change in (
            lambda: store.add_feature("new", np.zeros(N)),
            lambda: store.new_column("new"),
            lambda: store.remove_feature("c0"),
            lambda: gz.ingest(path, edges=(SRC, DST), overwrite=True),
            lambda: gz.export(path, path.parent / "out"),
        ):
            with pytest.raises(PermissionError):
                change()

    assert in_child(run)
    assert sorted(p.name for p in path.rglob("*")) == before
    assert os.listdir(path.parent) == ["s"]
