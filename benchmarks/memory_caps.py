"""Who survives under a memory limit: whatever does with cache=0 and prefetch=0 must with the defaults.

    python benchmarks/memory_caps.py --scale 1                   the whole matrix, 288 cells: a day
    python benchmarks/memory_caps.py --scale 1 --cover pairs     each two values of two factors meet: an hour
    python benchmarks/memory_caps.py --scale 1 --caps 2,3 --workers 0 --loaders 1 --frameworks pyg

A run is a training script (_memory_script.py) in a cgroup in which page cache counts (root only). A cell is
a limit, a hidden size, a depth of prefetching, a number of workers and of loaders, and a framework; in each
the script runs bare (cache=0, prefetch=0) and, where that lives, with the defaults, in turn. Wanted: no
default run is killed where the bare one lives, and the defaults give at least 0.95 of its batches a second;
and the same with a script that takes 1 GiB more in mid-epoch (--grow 1024).

A script that needs all but a hundredth of its limit lives or dies by chance: where the defaults are killed
both are run up to four times, and it counts as gz's fault only where the bare one lived every time. They
are where the defaults were slower than wanted, too; then the best of each counts.
Each cell is written to benchmarks/results as it is done, low limits first, and a run that was stopped goes
on where it was: what was run with as many batches is not run again, unless --again 1 asks for it. Survival
counts on any machine; a ratio of speeds only where others took little of it, which is written down beside it,
and where the batches before those that are timed were enough to have some ahead: what is made ahead of the
last one is timed, too. The CPU time of a batch (without that of workers) says more where others were busy.
tables.py makes a table of all cells.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import _common
from _process import drop_caches, memory_capped

HERE = Path(__file__).resolve().parent
BARE = {"cache": "0", "prefetch": "0"}
LEAST_RATIO = 0.95
PATIENCE = 1200  # seconds: a script that has not ended by then tells nothing
MOST_TRIES = 4
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass(frozen=True)
class Cell:
    """What a script is run with."""

    limit: float  # GiB
    framework: str
    hidden: int
    prefetch: int
    workers: int
    loaders: int
    grow: int = 0  # MiB that it takes in mid-epoch

    def __str__(self) -> str:
        text = f"{self.limit:g} GiB, {self.framework}, hidden {self.hidden}, prefetch {self.prefetch}, "
        text += f"{self.workers} workers, {self.loaders} loaders"
        return text + (f", {self.grow} MiB more in mid-epoch" if self.grow else "")


def covering(factors: dict[str, list]) -> list[dict]:
    """Few combinations in which each value of a factor meets each of every other: of all that there are, the
    best next one, again and again."""
    pairs = {
        ((a, x), (b, y))
        for a, b in itertools.combinations(factors, 2)
        for x, y in itertools.product(factors[a], factors[b])
    }
    every = [tuple(zip(factors, values, strict=True)) for values in itertools.product(*factors.values())]
    met = {combination: set(itertools.combinations(combination, 2)) for combination in every}
    chosen = []
    while pairs:
        best = max(every, key=lambda combination: len(met[combination] & pairs))
        pairs -= met[best]
        chosen.append(best)
    return [dict(combination) for combination in sorted(chosen, key=every.index)]


def adopt() -> None:
    """Makes this process the parent of what its children leave behind: workers of a script that has ended.
    Once they are waited for, their time is no longer that of others."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def run(limit: float, **options: object) -> dict:
    """What the script printed, or how it ended; with the most its group held."""
    command = [sys.executable, str(HERE / "_memory_script.py")]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    drop_caches()
    with memory_capped(int(limit * 2**30)) as cap:
        # A session of its own: what a killed script leaves behind must be gone before its group can be.
        child = subprocess.Popen(
            command, cwd=HERE, preexec_fn=cap.enter, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            out, err = child.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            cap.end()
            child.communicate()
            return {"ended": f"not done after {PATIENCE} s", "said": "", "peak": cap.peak()}
        cap.end()
        peak = cap.peak()
        reap()
    if child.returncode:
        code = child.returncode
        ended = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return {"ended": ended, "said": "".join(err.strip().splitlines()[-1:]), "peak": peak}
    done = json.loads(out.strip().splitlines()[-1])
    told = {key: done[key] for key in ("batches_per_s", "cpu_s", "hits", "cache", "cache_why")}
    return told | {"change": done["memory"].get("change", ""), "peak": peak}


def survived(done: dict) -> bool:
    # A worker that was killed ends its script with an error that says so.
    return "ended" not in done


def told(done: dict) -> str:
    if not survived(done):
        return f"{done['ended']} {done['said']}"
    text = f"{done['batches_per_s']:.3f} batches/s, {done['cpu_s']:.1f} CPU s each, "
    text += f"peak {done['peak'] / 2**20:,.0f} MiB"
    if done["cache"] or done["hits"]:
        text += f", cache {done['cache'] / 2**20:,.0f} MiB with {done['hits']:.0%} hits"
    return text


def measure(cell: Cell, store: str, args) -> dict:
    """Both runs of a cell, in turn, and what others took of the processors meanwhile. Where the defaults are
    killed, both run again: a bare script that itself needs all of the limit dies in one of its next runs. So
    they do where the defaults were slower than they may be, for a disk that others use has its hours."""
    options = asdict(cell) | {"store": store, "batches": args.batches, "warm_up": args.warm_up}
    limit = options.pop("limit")
    bystanders = _common.Bystanders()
    found: dict = {**asdict(cell), "batches": args.batches, "warm_up": args.warm_up}
    found |= {"bare": [], "defaults": []}
    while len(found["bare"]) < (args.repeat if as_wanted(found) else max(args.repeat, MOST_TRIES)):
        for kind, changes in (("bare", BARE), ("defaults", {})):
            if kind == "defaults" and not survived(found["bare"][-1]):
                continue  # they may be killed, too
            found[kind].append(run(limit, **options | changes))
            print(f"   {cell}: {kind:<8} {told(found[kind][-1])}", flush=True)
    return found | {"others": round(bystanders.share(), 2), "date": time.strftime("%Y-%m-%d %H:%M")}


def lives(found: dict) -> bool:
    """Whether the defaults live wherever the bare script does."""
    return not all(map(survived, found["bare"])) or all(map(survived, found["defaults"]))


def ratio(found: dict) -> float | None:
    """The speed of the defaults against the bare script's, best of each; None where one was killed."""
    best = [
        max((d["batches_per_s"] for d in found[kind] if survived(d)), default=0.0)
        for kind in ("defaults", "bare")
    ]
    return best[0] / best[1] if all(best) else None


def as_wanted(found: dict) -> bool:
    speed = ratio(found)
    return bool(found["bare"]) and lives(found) and (speed is None or speed >= LEAST_RATIO)


def quiet(found: dict) -> bool:
    return found["others"] <= _common.Bystanders.MOST


def table(record: dict) -> str:
    """All cells of a result file."""
    head = ("limit", "script", "batches", "bare, batches/s", "defaults", "ratio", "CPU", "others, processors")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]

    def rate(runs: list[dict]) -> str:
        if not all(map(survived, runs)):
            return "killed"
        return f"{max(d['batches_per_s'] for d in runs):.3f}" if runs else "not run"

    def least_cpu(runs: list[dict]) -> float:
        return min((d["cpu_s"] for d in runs if d.get("cpu_s")), default=0.0)

    for found in sorted(record["cells"].values(), key=lambda c: (c["limit"], c["grow"])):
        speed, cell = ratio(found), Cell(**{k: found[k] for k in Cell.__dataclass_fields__})
        cpu = [least_cpu(found[kind]) for kind in ("defaults", "bare")]
        columns = (
            f"{cell.limit:g} GiB",
            str(cell).split(", ", 1)[1],
            f"{found['warm_up']} + {found['batches']}",
            rate(found["bare"]),
            rate(found["defaults"]),
            "" if speed is None else f"{speed:.2f}",
            f"{cpu[0] / cpu[1]:.2f}" if all(cpu) else "",
            f"{found['others']:.1f}",
        )
        lines.append("| " + " | ".join(columns) + " |")
    return "\n".join(lines)


def summary(cells: dict[str, dict]) -> tuple[list[str], list[str]]:
    """Cells in which the defaults alone were killed, and those in which they were slower than they may be."""
    killed = [name for name, found in cells.items() if not lives(found)]
    rates = {name: ratio(found) for name, found in cells.items()}
    slow = [
        f"{name}: {rate:.2f}{'' if quiet(cells[name]) else ', beside others'}"
        for name, rate in rates.items()
        if rate is not None and rate < LEAST_RATIO
    ]
    return killed, slow


class Results:
    """The result file: a record that is whole on disk after each cell."""

    def __init__(self, args):
        self.path = _common.RESULTS / f"memory_caps-scale{args.scale:g}.json"
        self.saved = not args.no_save
        self.record: dict = {"benchmark": "memory_caps", "scale": args.scale, "cells": {}}
        self.machine = _common.machine(args)
        self._read()

    def _read(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.record = json.loads(self.path.read_text())

    def add(self, cell: Cell, found: dict) -> None:
        if self.saved:
            self._read()  # another run may have added to it
        self.record["machine"] = self.machine
        self.record["cells"][str(cell)] = found
        if self.saved:
            partial = self.path.with_suffix(".partial")
            partial.write_text(json.dumps(self.record, indent=1, default=str) + "\n")
            os.replace(partial, self.path)


def as_long(found: dict, args) -> bool:
    """Whether a cell was run with as many batches as are asked for now."""
    return found["batches"] >= args.batches and found["warm_up"] >= args.warm_up


def cells_of(args) -> list[Cell]:
    numbers = ("hidden", "prefetch", "workers", "loaders")
    factors: dict[str, list] = {"limit": [float(v) for v in args.caps.split(",")]}
    factors |= {name: [int(v) for v in getattr(args, name).split(",")] for name in numbers}
    factors["framework"] = args.frameworks.split(",")
    if args.cover == "pairs":
        chosen = covering(factors)
    elif args.cover == "all":
        chosen = [dict(zip(factors, v, strict=True)) for v in itertools.product(*factors.values())]
    else:
        raise SystemExit(f"--cover is {args.cover!r}; give all or pairs")
    return sorted((Cell(**c, grow=args.grow) for c in chosen), key=lambda c: c.limit)


def main() -> None:
    args = _common.options(
        __doc__,
        caps=("1.5,2,2.5,3,4,6", "GiB"),
        hidden=("64,256", "sizes"),
        prefetch=("2,0", "depths of the default runs"),
        workers=("0,2,8", "numbers"),
        loaders=("1,3", "numbers"),
        frameworks=("pyg,dgl", "names"),
        cover=("all", "all cells, or so many that all pairs of values are there"),
        batches=(12, "of a run"),
        warm_up=(4, "batches before that"),
        grow=(0, "MiB that the script takes in mid-epoch"),
        again=(0, "1: cells that are in the result file, too"),
        store=("", "use this one"),
    )
    adopt()
    todo, results = cells_of(args), Results(args)
    known = set() if args.again else {n for n, c in results.record["cells"].items() if as_long(c, args)}
    print(f"== memory_caps: {len(todo)} cells, {sum(str(c) in known for c in todo)} of them done before")
    store = args.store
    if not store:
        from _data import Data

        store = str(Data(args.data, args.scale).store())
    done = {}
    for cell in todo:
        if str(cell) not in known:
            results.add(cell, measure(cell, store, args))
        done[str(cell)] = results.record["cells"][str(cell)]
    print("\n" + table({"cells": done}) + "\n")
    killed, slow = summary(done)
    print(f"   {'FAIL' if killed else 'PASS'} killed with the defaults alone: {killed or 'none'}")
    print(f"   {'FAIL' if slow else 'PASS'} slower than {LEAST_RATIO} of the bare script: {slow or 'none'}")
    sys.exit(1 if killed or slow else 0)


if __name__ == "__main__":
    main()
