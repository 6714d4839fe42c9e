"""Stores broken at random, with right checksums: readers give right data or an error of gz, in bounded memory
and time, never a signal; and `gz verify` finds what format_rules.py finds, and nothing else.

The same cases every time, unless `make soak` asks for new ones. One of them again, in this process:

    python tests/trust/test_fuzz.py SEED
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path

import forge
import hostile
import numpy as np
import pytest
from budget import cases
from format_rules import Store
from reading import compare_with_rules, read_by_frameworks, read_everything
from waits import PATIENCE

import gz

ROOM = 1 << 30  # address space a child may take beyond what it starts with
BATCH = 25  # cases a child works through
FRAMEWORKS = 4  # every so manieth case is read by PyG and DGL too


def judge(sound: dict[str, Path], seed: int, folder: Path) -> str:
    """Makes the store that the seed names, reads all of it; returns what was done to it."""
    said = hostile.make_hostile(sound, seed, folder)
    root = folder / "s"
    try:
        seen = Store(root)
        compare_with_rules(root, seen)
        read_everything(root, seen, folder / "export")
        if seed % FRAMEWORKS == 0:
            read_by_frameworks(root)
    except Exception as error:
        error.add_note(f"case {seed}: {said}; rules: {getattr(locals().get('seen'), 'broken', None)}")
        raise
    return said


def work(sound: dict[str, Path], seeds: list[int], folder: Path, tell: int) -> None:
    """In a child: a line for each case as it begins."""
    gz.set_num_threads(2)
    with open("/proc/self/statm") as f:
        size = int(f.read().split()[0]) * os.sysconf("SC_PAGESIZE")
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, hard))
    for seed in seeds:
        os.write(tell, f"{seed} ".encode())
        judge(sound, seed, folder)


def in_child(sound: dict[str, Path], seeds: list[int], folder: Path) -> str | None:
    """What went wrong, with the case; None: nothing."""
    hear, tell = os.pipe()
    with tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.dup2(errors.fileno(), 2)
                work(sound, seeds, folder, tell)
                code = 0
            except BaseException:
                traceback.print_exc(file=sys.stderr)
                sys.stderr.flush()
            finally:
                os._exit(code)
        os.close(tell)
        begun, hangs = b"", False
        while select.select([hear], [], [], PATIENCE)[0]:
            if not (part := os.read(hear, 1 << 16)):
                break
            begun += part
        else:
            hangs = True
            os.kill(child, signal.SIGKILL)
        os.close(hear)
        status = os.waitpid(child, 0)[1]
        errors.seek(0)
        said = errors.read()[-6000:]
    last = begun.split()[-1].decode() if begun else "none"
    if hangs:
        return f"case {last} hangs\n{said}"
    if os.WIFSIGNALED(status):
        return f"case {last} ended by signal {os.WTERMSIG(status)}\n{said}"
    return None if status == 0 else f"case {last}:\n{said}"


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> dict[str, Path]:
    return hostile.make_sound(tmp_path_factory.mktemp("sound"))


def test_what_the_stores_are_made_of_is_sound(sound, tmp_path):
    """And the rules agree with gz on what is not broken."""
    for root in sound.values():
        seen = Store(root)
        assert seen.broken == {}
        compare_with_rules(root, seen)
        read_everything(root, seen, tmp_path / "export")
        read_by_frameworks(root)


def test_breaking_stores_touches_nothing_but_the_folder_it_is_given(sound, tmp_path):
    """The fuzzer itself: whatever a change has put into store.json, the next one does not write there."""
    others = next(iter(sound.values())).parent

    def contents() -> dict[str, tuple[int, bytes]]:
        return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in others.rglob("*") if p.is_file()}

    before = contents()
    for seed in range(150):
        hostile.make_hostile(sound, seed, tmp_path / "case")
    assert contents() == before
    assert os.listdir(tmp_path) == ["case"]
    # Of an absolute path of a file that is there, and of every change after it.
    victim = tmp_path / "victim.gl"
    shutil.copy(next(others.rglob("in.gl")), victim)
    kept = victim.read_bytes()
    for name, root in sound.items():
        for change in set(hostile.CHANGES):
            for seed in range(4):
                case = tmp_path / "aimed"
                shutil.rmtree(case, ignore_errors=True)
                shutil.copytree(root, case / "s")

                def aim(d):
                    for e in d["edges"]:
                        e.update({way: str(victim) for way in ("in", "out") if e[way]})

                forge.edit_json(case / "s", aim)
                with contextlib.suppress(Exception):
                    change(np.random.default_rng(seed), case / "s")
                assert victim.read_bytes() == kept, (name, change)


@pytest.mark.timeout(4 * 3600)  # 20,000 of them in `make soak`
def test_broken_stores_give_right_data_or_an_error(sound, tmp_path, rng_seed):
    pytest.importorskip("torch_geometric")
    read_by_frameworks(sound["one"])  # imported once, for all children
    count = cases(300, 20_000)
    seeds = [rng_seed * 1_000_000 + i for i in range(count)]
    for at in range(0, count, BATCH):
        if (wrong := in_child(sound, seeds[at : at + BATCH], tmp_path / "case")) is not None:
            pytest.fail(wrong, pytrace=False)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as here:
        made = hostile.make_sound(Path(here))
        for number in map(int, sys.argv[1:]):
            print(judge(made, number, Path(here) / "case"))
