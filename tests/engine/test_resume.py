"""A killed ingest goes on, or says that it starts anew; the store that was there before survives it all."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import gz
from gz._ingest import place
from gz._ingest.fingerprint import fingerprint

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
KILLS = 20 if SOAK else 4
NODES, EDGES = 30_000, 400_000
PHASES = 4  # feature x, feature y, edges in, edges out


def write_inputs(folder: Path, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    np.save(folder / "e.npy", rng.integers(0, NODES, (2, EDGES)))
    np.save(folder / "w.npy", rng.random(EDGES, dtype=np.float32))
    np.save(folder / "x.npy", rng.random((NODES, 32), dtype=np.float32))
    np.save(folder / "y.npy", rng.integers(0, 9, NODES))


def arguments(folder: Path) -> dict:
    return {
        "edges": str(folder / "e.npy"),
        "features": {"x": str(folder / "x.npy"), "y": str(folder / "y.npy")},
        "edge_features": {"w": str(folder / "w.npy")},
        "directions": "both",
        "memory": "4MB",
        "splits": {"train": str(folder / "y.npy")},
    }


def contents(store: Path) -> dict[str, bytes]:
    return {str(p.relative_to(store)): p.read_bytes() for p in sorted(store.rglob("*")) if p.is_file()}


def partials(folder: Path) -> list[Path]:
    return sorted(folder.glob("s.partial-*"))


# Runs an ingest and kills itself: at the n-th finished phase, or at a named step of the move into place.
SCRIPT = """
import json, os, signal, sys
import gz
from gz._ingest import journal, place
out, arguments, moment = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
def die(): os.kill(os.getpid(), signal.SIGKILL)
finish = journal.Journal.finish
count = 0
def counted(self, *a):
    global count
    finish(self, *a)
    count += 1
    if moment == str(count): die()
journal.Journal.finish = counted
publish, exchange, rename = journal.Journal.publish, place._exchange, os.rename
def noted(self):
    publish(self)
    if moment == "noted": die()
journal.Journal.publish = noted
def swapped(a, b):
    if moment in ("aside", "placed"): return False
    done = exchange(a, b)
    if moment == "swapped": die()
    return done
place._exchange = swapped
def renamed(a, b):
    rename(a, b)
    if moment == "aside" and str(b).endswith("old"): die()
    if moment == "placed" and str(a).endswith("store"): die()
os.rename = renamed
if moment == "0":
    StoreWriter = gz._ingest.StoreWriter.run
    gz._ingest.StoreWriter.run = lambda self: die()
gz.ingest(out, overwrite=True, **arguments)
print("done")
"""


def run_until(moment: str, out: Path, inputs: Path) -> subprocess.CompletedProcess:
    import json

    command = [sys.executable, "-c", SCRIPT, str(out), json.dumps(arguments(inputs)), moment]
    return subprocess.run(command, cwd="/", capture_output=True, text=True)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs") / "in"
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def expected(inputs, tmp_path_factory):
    out = tmp_path_factory.mktemp("expected") / "s"
    gz.ingest(out, **arguments(inputs))
    return contents(out)


@pytest.fixture
def old(tmp_path):
    """A store that is to be replaced."""
    gz.ingest(tmp_path / "s", edges=([0, 1], [1, 2]), features={"old": np.arange(3)})
    return contents(tmp_path / "s")


@pytest.mark.parametrize("finished", range(1, PHASES + 1))
def test_a_rerun_goes_on_after_the_last_finished_phase(tmp_path, inputs, expected, old, finished):
    killed = run_until(str(finished), tmp_path / "s", inputs)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert contents(tmp_path / "s") == old
    (left,) = partials(tmp_path)
    kept = {p.name: p.stat().st_mtime_ns for p in (left / "store").rglob("*.gd")}
    with pytest.warns(RuntimeWarning, match=f"goes on after its {finished} finished phases"):
        gz.ingest(tmp_path / "s", overwrite=True, **arguments(inputs))
    assert contents(tmp_path / "s") == expected
    assert partials(tmp_path) == []
    written = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "s").rglob("*.gd")}
    assert kept.items() <= written.items()  # none of them was written a second time


@pytest.mark.parametrize("moment", ["noted", "swapped", "aside", "placed"])
def test_a_kill_while_the_store_moves_into_place_loses_neither_store(tmp_path, inputs, expected, old, moment):
    killed = run_until(moment, tmp_path / "s", inputs)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    if moment == "noted":
        assert contents(tmp_path / "s") == old
    elif moment in ("swapped", "placed"):
        assert contents(tmp_path / "s") == expected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if moment == "noted":
            gz.ingest(tmp_path / "s", overwrite=True, **arguments(inputs))
        else:  # it was complete: the next ingest puts it in its place before it asks to overwrite it
            with pytest.raises(FileExistsError):
                gz.ingest(tmp_path / "s", **arguments(inputs))
    assert contents(tmp_path / "s") == expected
    assert partials(tmp_path) == []


def test_a_store_that_was_swapped_out_is_never_taken_for_a_finished_one(tmp_path, inputs, expected, old):
    gz.ingest(tmp_path / "s", overwrite=True, **arguments(inputs))
    killed = run_until("swapped", tmp_path / "s", inputs)  # old and new store are alike to the byte counts
    assert killed.returncode == -signal.SIGKILL
    shutil.rmtree(tmp_path / "s")
    (left,) = partials(tmp_path)
    (left / "store" / "nodes" / "node" / "y.gd").write_bytes(
        bytes(os.path.getsize(left / "store" / "nodes" / "node" / "y.gd"))
    )
    with pytest.warns(RuntimeWarning, match="starts anew"):
        gz.ingest(tmp_path / "s", **arguments(inputs))
    assert contents(tmp_path / "s") == expected


def test_changed_inputs_start_anew_and_say_so(tmp_path, inputs, expected):
    write_inputs(tmp_path / "in", seed=1)
    assert run_until("2", tmp_path / "s", tmp_path / "in").returncode == -signal.SIGKILL
    for file in ("e", "w", "x", "y"):
        shutil.copy(inputs / f"{file}.npy", tmp_path / "in" / f"{file}.npy")
    with pytest.warns(RuntimeWarning, match="starts anew, because its inputs or options were others"):
        gz.ingest(tmp_path / "s", **arguments(tmp_path / "in"))
    assert contents(tmp_path / "s") == expected
    assert partials(tmp_path) == []


def test_changed_options_start_anew(tmp_path, inputs):
    assert run_until("2", tmp_path / "s", inputs).returncode == -signal.SIGKILL
    with pytest.warns(RuntimeWarning, match="starts anew, because its inputs or options were others"):
        gz.ingest(tmp_path / "s", coalesce=True, **arguments(inputs))
    assert partials(tmp_path) == []


def test_iterators_start_anew_and_say_why(tmp_path, inputs):
    assert run_until("2", tmp_path / "s", inputs).returncode == -signal.SIGKILL
    with pytest.warns(RuntimeWarning, match="starts anew, because large arrays and iterators cannot be"):
        gz.ingest(tmp_path / "s", edges=iter([([0], [1])]))
    assert partials(tmp_path) == []


def test_small_arrays_count_by_their_content(inputs):
    def of(ids, **options):
        given = arguments(inputs) | {"splits": {"train": ids}} | options
        return fingerprint(simple_plan(given), False)

    one = of(np.arange(5))
    assert one is not None
    assert one == of(np.arange(5))
    assert one != of(np.arange(1, 6))
    assert one != of(np.arange(5, dtype=np.int32))
    assert one != of(range(5))
    assert of(range(5)) == of(range(5)) != of(range(6))
    assert of(iter([1])) is None


def simple_plan(given: dict) -> object:
    from gz._ingest.spec import simple

    options = {k: given[k] for k in ("edge_features", "directions")}
    return simple(given["edges"], given["features"], None, given["splits"], None, "dense", options)


def test_a_kill_before_any_phase_starts_anew(tmp_path, inputs, expected):
    assert run_until("0", tmp_path / "s", inputs).returncode == -signal.SIGKILL
    with pytest.warns(RuntimeWarning, match="starts anew, because none of its phases was finished"):
        gz.ingest(tmp_path / "s", **arguments(inputs))
    assert contents(tmp_path / "s") == expected


def test_a_file_that_was_cut_short_is_made_again(tmp_path, inputs, expected):
    assert run_until("2", tmp_path / "s", inputs).returncode == -signal.SIGKILL
    (left,) = partials(tmp_path)
    os.truncate(left / "store" / "nodes" / "node" / "y.gd", 5000)
    with pytest.warns(RuntimeWarning, match="goes on after its 1 finished phases"):
        gz.ingest(tmp_path / "s", **arguments(inputs))
    assert contents(tmp_path / "s") == expected


def test_ids_that_are_mapped_go_on_too(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"n{a},n{b}" for a, b in rng.integers(0, 500, (4000, 2))]
    (tmp_path / "e.csv").write_text("\n".join(["src,dst", *lines, "bad", ""]))
    options = {"edges": str(tmp_path / "e.csv"), "ids": "map", "directions": "both", "on_bad_line": "skip"}
    report = gz.ingest(tmp_path / "whole", **options)
    assert report.skipped_lines == 1
    import json

    for moment in ("1", "2", "3"):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "s"), json.dumps(options), moment]
        assert subprocess.run(command, cwd="/", capture_output=True).returncode == -signal.SIGKILL
        with pytest.warns(RuntimeWarning, match="goes on"):
            report = gz.ingest(tmp_path / "s", overwrite=True, **options)
        assert report.skipped_lines == 1
        assert contents(tmp_path / "s") == contents(tmp_path / "whole")


def test_numbers_of_nodes_found_in_the_edges_are_kept(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", rng.integers(0, 300, (2, 2000)))
    np.save(tmp_path / "b.npy", rng.integers(0, 500, (2, 2000)))
    spec = {
        "edges": [
            {"type": ["u", "a", "v"], "file": str(tmp_path / "a.npy")},
            {"type": ["v", "b", "u"], "file": str(tmp_path / "b.npy")},
        ]
    }
    gz.ingest(tmp_path / "whole", spec=spec)
    import json

    for moment in ("1", "2"):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "s"), json.dumps({"spec": spec}), moment]
        assert subprocess.run(command, cwd="/", capture_output=True).returncode == -signal.SIGKILL
        with pytest.warns(RuntimeWarning, match="goes on"):
            gz.ingest(tmp_path / "s", overwrite=True, spec=spec)
        assert contents(tmp_path / "s") == contents(tmp_path / "whole")


def test_the_folder_of_a_living_ingest_is_left_alone(tmp_path, inputs):
    with place.new_store(tmp_path / "s", False) as work:
        (work.root / "file").write_text("mine")
        with pytest.raises(BlockingIOError, match=f"process {os.getpid()} is writing this store"):
            gz.ingest(tmp_path / "s", **arguments(inputs))
        assert (work.root / "file").read_text() == "mine"
    assert contents(tmp_path / "s") == {"file": b"mine"}


def test_an_interrupt_keeps_finished_phases_and_says_so(tmp_path, inputs, expected, monkeypatch):
    from gz._ingest.edges import EdgeJob

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EdgeJob, "read", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            gz.ingest(tmp_path / "s", **arguments(inputs))
    assert "goes on where this one stopped" in caught.value.__notes__[0]
    with pytest.warns(RuntimeWarning, match="goes on after its 2 finished phases"):
        gz.ingest(tmp_path / "s", **arguments(inputs))
    assert contents(tmp_path / "s") == expected


def test_a_failure_leaves_nothing_behind(tmp_path, inputs):
    write_inputs(tmp_path / "in")
    np.save(tmp_path / "in" / "e.npy", np.array([[0, 1], [1, NODES]]))
    with pytest.raises(gz.InputError, match=f"destination id {NODES} is out of range"):
        gz.ingest(tmp_path / "s", **arguments(tmp_path / "in"))
    assert os.listdir(tmp_path) == ["in"]


COMMAND = [sys.executable, "-m", "gz", "ingest"]


def command(out: Path, inputs: Path) -> list[str]:
    named = [f"--features={n}={inputs / n}.npy" for n in ("x", "y")]
    return [
        *COMMAND, str(out), "--edges", str(inputs / "e.npy"), *named, f"--edge-features=w={inputs / 'w.npy'}",
        "--directions=both", "--memory=4MB", f"--split=train={inputs / 'y.npy'}", "--overwrite",
    ]  # fmt: skip


def test_the_command_says_that_it_goes_on(tmp_path, inputs, expected):
    assert run_until("2", tmp_path / "s", inputs).returncode == -signal.SIGKILL
    done = subprocess.run(command(tmp_path / "s", inputs), capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    assert "gz: " in done.stderr
    assert "goes on after its 2 finished phases: feature 'x' of 'node', feature 'y' of 'node'" in done.stderr
    assert contents(tmp_path / "s") == expected


def test_kills_at_random_moments(tmp_path, inputs, expected, old, rng_seed):
    start = time.monotonic()
    subprocess.run(command(tmp_path / "timed", inputs), check=True, capture_output=True, cwd="/")
    whole = time.monotonic() - start
    chance = random.Random(rng_seed)
    hit = 0
    for _ in range(KILLS):
        before = contents(tmp_path / "s")
        process = subprocess.Popen(
            command(tmp_path / "s", inputs), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
        )
        time.sleep(chance.uniform(0.1, 1) * whole)
        process.kill()
        process.wait()
        hit += bool(partials(tmp_path))
        assert contents(tmp_path / "s") in (before, expected)
        if chance.random() < 0.5:  # else the next one is killed too, on top of what this one left
            done = subprocess.run(command(tmp_path / "s", inputs), capture_output=True, text=True, cwd="/")
            assert done.returncode == 0, done.stderr
            assert contents(tmp_path / "s") == expected
            assert partials(tmp_path) == []
            shutil.rmtree(tmp_path / "s")
            gz.ingest(tmp_path / "s", edges=([0, 1], [1, 2]), features={"old": np.arange(3)})
    done = subprocess.run(command(tmp_path / "s", inputs), capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "s") == expected
    assert partials(tmp_path) == []
    print(f"{hit} of {KILLS} kills left something to go on with")


@pytest.mark.parametrize("share", [0.2, 0.55, 0.9], ids=["in the features", "in the edges", "near the end"])
def test_a_full_disk_leaves_the_old_store_and_the_rerun_succeeds(small_disk, inputs, expected, share):
    total = sum(len(b) for b in expected.values())
    disk = small_disk(int(total * share) + (1 << 16))
    gz.ingest(disk / "s", edges=([0, 1], [1, 2]), features={"old": np.arange(3)})
    old = contents(disk / "s")
    with pytest.raises(OSError, match="No space left") as caught:
        gz.ingest(disk / "s", overwrite=True, check_disk=False, **arguments(inputs))
    assert caught.value.errno == 28
    assert contents(disk / "s") == old
    assert partials(disk) == []
    subprocess.run(["mount", "-o", f"remount,size={4 * total}", str(disk)], check=True)
    gz.ingest(disk / "s", overwrite=True, **arguments(inputs))
    assert contents(disk / "s") == expected


def test_the_disk_is_checked_before_anything_is_written(small_disk, inputs):
    disk = small_disk(2_000_000)
    with pytest.raises(OSError, match=r"needs about .* MB here .* but only 2\.0 MB are free") as caught:
        gz.ingest(disk / "s", **arguments(inputs))
    assert "--no-disk-check" in str(caught.value)
    assert os.listdir(disk) == []
