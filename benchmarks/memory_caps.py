"""Who survives under a memory limit: whatever does with cache=0 and prefetch=0 must with the defaults.

    python benchmarks/memory_caps.py --scale 1 --caps 1.5,2,2.5,3,4,6       the whole matrix: hours
    python benchmarks/memory_caps.py --scale 1 --caps 2,3 --workers 0 --loaders 1 --frameworks pyg

A run is a training script (_memory_script.py) in a cgroup in which page cache counts (root only). For each
limit, hidden size, number of workers and of loaders, and framework: bare (cache=0, prefetch=0) and with the
defaults, in turn. Wanted: no default run is killed where the bare one lives, and the defaults give at least
0.95 of its batches a second; and the same with a script that takes 1 GiB more in mid-epoch.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path

import _common
from _process import drop_caches, memory_capped

HERE = Path(__file__).resolve().parent
BARE = {"cache": "0", "prefetch": "0"}


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
        out, err = child.communicate()
        cap.end()
        peak = cap.peak()
    if child.returncode:
        code = child.returncode
        ended = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return {"ended": ended, "said": err.strip().splitlines()[-1:], "peak": peak}
    return json.loads(out.strip().splitlines()[-1]) | {"peak": peak}


def told(done: dict) -> str:
    if "ended" in done:
        return f"{done['ended']} {done['said']}"
    text = f"{done['batches_per_s']:.3f} batches/s, peak {done['peak'] / 2**20:,.0f} MiB"
    if done["cache"] or done["hits"]:
        text += f", cache {done['cache'] / 2**20:,.0f} MiB with {done['hits']:.0%} hits"
    return text


def survived(done: dict) -> bool:
    # A worker that was killed ends its script with an error that says so.
    return "ended" not in done


def compare(report, name: str, limit: float, options: dict, turns: int) -> tuple[bool, float | None]:
    """Whether the defaults live where the bare script does, and their speed against it, best of each."""
    bare, full = [], []
    for _ in range(turns):
        bare.append(run(limit, **options, **BARE))
        report.note(f"{name}: bare     {told(bare[-1])}")
        full.append(run(limit, **options))
        report.note(f"{name}: defaults {told(full[-1])}")
    lives = not all(map(survived, bare)) or all(map(survived, full))
    rates = [max((d["batches_per_s"] for d in done if survived(d)), default=0.0) for done in (full, bare)]
    return lives, rates[0] / rates[1] if all(rates) else None


def main() -> None:
    args = _common.options(
        __doc__,
        caps=("1.5,2,2.5,3,4,6", "GiB"),
        hidden=("64,256", "sizes"),
        prefetch=("2", "depths of the default runs"),
        workers=("0,2,8", "numbers"),
        loaders=("1,3", "numbers"),
        frameworks=("pyg,dgl", "names"),
        batches=(12, "of a run"),
        grow=(0, "MiB that the script takes in mid-epoch"),
        store=("", "use this one"),
    )
    report = _common.Report("memory_caps", args)
    store = args.store
    if not store:
        from _data import Data

        store = str(Data(args.data, args.scale).store())
    numbers = {k: [int(v) for v in getattr(args, k).split(",")] for k in ("hidden", "workers", "loaders")}
    killed, slow = [], []
    for limit, hidden, workers, loaders, framework in itertools.product(
        map(float, args.caps.split(",")), *numbers.values(), args.frameworks.split(",")
    ):
        name = f"{limit:g} GiB, {framework}, hidden {hidden}, {workers} workers, {loaders} loaders"
        options = {"store": store, "framework": framework, "hidden": hidden, "workers": workers}
        options |= {"loaders": loaders, "batches": args.batches, "grow": args.grow}
        lives, ratio = compare(report, name, limit, options, args.repeat)
        if not lives:
            killed.append(name)
        elif ratio is not None and ratio < 0.95:
            slow.append(f"{name}: {ratio:.2f}")
    report.note(f"killed with the defaults alone: {killed or 'none'}")
    report.note(f"slower than 0.95 of the bare script: {slow or 'none'}")
    report.limits("killed with the defaults alone", _common.Limit("killed", len(killed), 0, ""))
    report.limits("slower than 0.95", _common.Limit("slower", len(slow), 0, ""))
    report.finish()


if __name__ == "__main__":
    main()
