"""A killed ingest goes on, or says that it starts anew; the store that was there before survives it all."""

from __future__ import annotations

import contextlib
import json
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
from stores import contents
from waits import until

import gz
from gz._base import place
from gz._ingest.plan.fingerprint import PhaseKeys

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


def partials(folder: Path) -> list[Path]:
    return sorted(folder.glob("s.partial-*"))


# Runs an ingest and kills itself: at the n-th finished phase, or at a named step of the move into place.
SCRIPT = """
import json, os, signal, sys
import gz
from gz._base import journal
from gz._base import place
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_changed_inputs_start_anew_and_say_so(tmp_path, inputs):
    write_inputs(tmp_path / "in", seed=1)
    assert run_until("2", tmp_path / "s", tmp_path / "in").returncode == -signal.SIGKILL
    for file in ("e", "w", "x", "y"):
        shutil.copy(inputs / f"{file}.npy", tmp_path / "in" / f"{file}.npy")
    with pytest.warns(RuntimeWarning, match="starts anew, because its inputs or options were others"):
        gz.ingest(tmp_path / "s", **arguments(tmp_path / "in"))
    gz.ingest(tmp_path / "fresh", **arguments(tmp_path / "in"))
    assert contents(tmp_path / "s") == contents(tmp_path / "fresh")
    assert partials(tmp_path) == []


@pytest.mark.slow
def test_changed_options_do_what_they_concern_again(tmp_path, inputs):
    assert run_until("3", tmp_path / "s", inputs).returncode == -signal.SIGKILL
    again = "Done again, because what they read has changed: edges node/to/node, in"
    with pytest.warns(RuntimeWarning, match=f"goes on after its 2 finished phases.*{again}"):
        gz.ingest(tmp_path / "s", coalesce=True, **arguments(inputs))
    gz.ingest(tmp_path / "fresh", coalesce=True, **arguments(inputs))
    assert contents(tmp_path / "s") == contents(tmp_path / "fresh")
    assert partials(tmp_path) == []


@pytest.mark.slow
def test_iterators_start_anew_and_say_why(tmp_path, inputs):
    assert run_until("2", tmp_path / "s", inputs).returncode == -signal.SIGKILL
    with pytest.warns(RuntimeWarning, match="starts anew, because large arrays and iterators cannot be"):
        gz.ingest(tmp_path / "s", edges=iter([([0], [1])]))
    assert partials(tmp_path) == []


def test_small_arrays_count_by_their_content(inputs):
    def of(values):
        features = {"x": str(inputs / "x.npy"), "y": values}
        keys = PhaseKeys(simple_plan(arguments(inputs) | {"features": features}))
        assert keys.of("feature 'x' of 'node'") == known
        assert keys.in_memory == (keys.of("feature 'y' of 'node'") is None)
        return keys.of("feature 'y' of 'node'")

    known = PhaseKeys(simple_plan(arguments(inputs))).of("feature 'x' of 'node'")
    assert known is not None

    one = of(np.arange(5))
    assert one is not None
    assert one == of(np.arange(5))
    assert one != of(np.arange(1, 6))
    assert one != of(np.arange(5, dtype=np.int32))
    assert one != of(range(5))
    assert of(range(5)) == of(range(5)) != of(range(6))
    assert of(iter([1])) is None


def simple_plan(given: dict) -> object:
    from gz._ingest.plan.spec import simple
    from gz._ingest.read.files import Files

    options = {k: given[k] for k in ("edge_features", "directions")}
    return simple(given["edges"], given["features"], None, given["splits"], None, "dense", options, Files())


@pytest.mark.slow
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


@pytest.mark.slow
def test_ids_that_are_mapped_go_on_too(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"n{a},n{b}" for a, b in rng.integers(0, 500, (4000, 2))]
    (tmp_path / "e.csv").write_text("\n".join(["src,dst", *lines, "bad", ""]))
    options = {"edges": str(tmp_path / "e.csv"), "ids": "map", "directions": "both", "on_bad_line": "skip"}
    report = gz.ingest(tmp_path / "whole", **options)
    assert report.skipped_lines == 1
    for moment in ("1", "2", "3"):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "s"), json.dumps(options), moment]
        assert subprocess.run(command, cwd="/", capture_output=True).returncode == -signal.SIGKILL
        with pytest.warns(RuntimeWarning, match="goes on"):
            report = gz.ingest(tmp_path / "s", overwrite=True, **options)
        assert report.skipped_lines == 1
        assert contents(tmp_path / "s") == contents(tmp_path / "whole")


@pytest.mark.slow
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
    from gz._ingest.write.edges import EdgeJob

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EdgeJob, "read", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            gz.ingest(tmp_path / "s", **arguments(inputs))
    assert "run the same command again to go on" in caught.value.__notes__[0]
    with pytest.warns(RuntimeWarning, match="goes on after its 2 finished phases"):
        gz.ingest(tmp_path / "s", **arguments(inputs))
    assert contents(tmp_path / "s") == expected


def test_a_wrong_input_keeps_what_is_finished_and_its_mended_self_goes_on(tmp_path, inputs, expected):
    write_inputs(tmp_path / "in")
    wrong = np.load(tmp_path / "in" / "e.npy")
    wrong[1, -1] = NODES
    np.save(tmp_path / "in" / "e.npy", wrong)
    with pytest.raises(gz.InputError, match=f"destination id {NODES} is out of range") as caught:
        gz.ingest(tmp_path / "s", **arguments(tmp_path / "in"))
    (left,) = partials(tmp_path)
    assert f"finished phases are kept in {left}" in caught.value.__notes__[0]
    shutil.copy(inputs / "e.npy", tmp_path / "in" / "e.npy")
    with pytest.warns(RuntimeWarning, match="goes on after its 2 finished phases"):
        gz.ingest(tmp_path / "s", **arguments(tmp_path / "in"))
    assert partials(tmp_path) == []
    found = contents(tmp_path / "s")
    assert found.keys() == expected.keys()
    assert all(found[f] == expected[f] for f in found if f != "store.json")  # which names the inputs


COMMAND = [sys.executable, "-m", "gz", "ingest"]


def command(out: Path, inputs: Path) -> list[str]:
    named = [f"--features={n}={inputs / n}.npy" for n in ("x", "y")]
    return [
        *COMMAND, str(out), "--edges", str(inputs / "e.npy"), *named, f"--edge-features=w={inputs / 'w.npy'}",
        "--directions=both", "--memory=4MB", f"--split=train={inputs / 'y.npy'}", "--overwrite",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_command_says_that_it_goes_on(tmp_path, inputs, expected):
    assert run_until("2", tmp_path / "s", inputs).returncode == -signal.SIGKILL
    done = subprocess.run(command(tmp_path / "s", inputs), capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert said.startswith("gz: ")
    assert "goes on after its 2 finished phases: feature 'x' of 'node', feature 'y' of 'node'" in said
    assert contents(tmp_path / "s") == expected


def traces_of(folder: Path) -> set:
    """What unfinished ingests have written so far."""
    found = set()
    with contextlib.suppress(FileNotFoundError):  # they move into place at the end
        for path in folder.glob("s.partial-*/**/*"):
            found.add((path, path.stat().st_mtime_ns))
    return found


@pytest.mark.slow
def test_kills_at_random_moments(tmp_path, inputs, expected, old, rng_seed):
    chance = random.Random(rng_seed)
    longest = 0.4  # seconds from the first sign of life to the kill; the ingest itself takes about as long
    hit = 0
    while hit < KILLS:
        before = contents(tmp_path / "s")
        traces = traces_of(tmp_path)
        process = subprocess.Popen(
            command(tmp_path / "s", inputs), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
        )
        try:
            until(lambda t=traces: traces_of(tmp_path) != t, "the ingest to begin")
            time.sleep(chance.uniform(0, longest))
        finally:
            process.kill()
            process.wait()
        if partials(tmp_path):
            hit += 1
        else:  # too late: it had ended
            longest *= 0.5
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "finished"),
    [(0.2, 0), (0.55, 2), (1.15, 3)],
    ids=["in the features", "in the edges", "near the end"],
)
def test_a_full_disk_leaves_the_old_store_and_the_rerun_goes_on(
    small_disk, inputs, expected, share, finished
):
    total = sum(len(b) for b in expected.values())
    disk = small_disk(int(total * share) + (1 << 16))
    gz.ingest(disk / "s", edges=([0, 1], [1, 2]), features={"old": np.arange(3)})
    old = contents(disk / "s")
    with pytest.raises(OSError, match="No space left") as caught:
        gz.ingest(disk / "s", overwrite=True, check_disk=False, **arguments(inputs))
    assert caught.value.errno == 28
    assert contents(disk / "s") == old
    left = partials(disk)
    kept = {p.name: p.stat().st_mtime_ns for f in left for p in (f / "store").rglob("*") if p.is_file()}
    if finished:
        assert f"finished phases are kept in {left[0]}; run the same" in caught.value.__notes__[0]
    assert len(kept) >= finished
    assert len(left) == bool(finished)
    subprocess.run(["mount", "-o", f"remount,size={4 * total}", str(disk)], check=True)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        gz.ingest(disk / "s", overwrite=True, **arguments(inputs))
    assert [f"goes on after its {finished} finished" in str(w.message) for w in said] == [True] * len(left)
    assert contents(disk / "s") == expected
    assert partials(disk) == []
    written = {p.name: p.stat().st_mtime_ns for p in (disk / "s").rglob("*") if p.is_file()}
    assert kept.items() <= written.items()  # what was finished was not written again, what was not is gone


def test_the_disk_is_checked_before_anything_is_written(small_disk, inputs):
    disk = small_disk(2_000_000)
    with pytest.raises(OSError, match=r"needs about .* MB here .* but only 2\.0 MB are free") as caught:
        gz.ingest(disk / "s", **arguments(inputs))
    assert "--no-disk-check" in str(caught.value)
    assert os.listdir(disk) == []
