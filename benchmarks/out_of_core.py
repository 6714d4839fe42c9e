"""Data that does not fit into memory: cold gathers, warm ones, and training under a memory limit.

    python benchmarks/out_of_core.py --scale 1 --part gather|warm|train|killed|all

Limits are cgroups in which page cache counts (root only); page caches are dropped before what is to be cold.
Training on a graph of papers100M's size is papers_train.py.

gather   100,000 random rows of 512 bytes, nothing of the file in memory, under a limit far below its size.
         Wanted: 8x torch.from_numpy(np.memmap)[ids], 4x the same with MADV_RANDOM, 70 % of the device's own
         random 4 KiB reads at the best queue depth.
warm     the same file in the page cache: within 10 % of the plain mapped gather.
train    GraphSAGE, batch 1024, [15, 10, 5], under 2 GiB: 4x the best script with mapped arrays a DGL user can
         write; the losses are those of a run without a limit.
killed   PyG's and DGL's arrays in memory under the same limit.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import _common
from _process import drop_caches, memory_capped, warm

FEW_ROWS = 2_000  # for the peer whose every fault reads ahead; its time is scaled up
ROWS, GATHER_LIMIT, TRAIN_LIMIT = 100_000, 1 << 30, 2 << 30
HERE = Path(__file__).resolve().parent

COLD = """
import sys, time, json
import numpy as np
path, who, seed, rows = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
n = (__import__("os").path.getsize(path) - 4096) // 512
ids = np.random.default_rng(seed).integers(0, n, rows)
if who == "gz":
    import gz
    fs = gz.FeatureStore(path)
    run = lambda: fs.gather(ids)
else:
    import mmap, torch
    x = np.memmap(path, np.float32, "r", offset=4096, shape=(n, 128))
    if who == "random":
        x._mmap.madvise(mmap.MADV_RANDOM)
    import warnings; warnings.simplefilter("ignore")
    x, ids = torch.from_numpy(x), torch.from_numpy(ids)
    torch.set_num_threads(2)
    run = lambda: x[ids]
start = time.perf_counter()
out = run()
seconds = time.perf_counter() - start
print(json.dumps(dict(seconds=seconds, check=float(np.asarray(out[:1000], np.float64).sum()))))
"""

WARM = """
import sys, time, json
import numpy as np, gz
path, turns = sys.argv[1], int(sys.argv[2])
gz.set_num_threads(2)
fs = gz.FeatureStore(path)
out = np.empty((300_000, 128), np.float32)
times = []
for turn in range(turns + 6):
    ids = np.random.default_rng(turn).integers(0, len(fs), 300_000)
    start = time.perf_counter()
    fs.gather(ids, out=out)
    times.append(time.perf_counter() - start)
print(json.dumps(dict(seconds=min(times[6:]), mapped=fs.stats()["mapped"], misses=fs.stats()["misses"])))
"""


def kernel_says() -> list[str]:
    """The kernel's last line about a process it killed for memory, where its log may be read."""
    try:
        log = subprocess.run(["dmesg"], capture_output=True, text=True).stdout
    except FileNotFoundError:
        return []
    return [line for line in log.splitlines() if "out of memory: Killed" in line][-1:]


def run(command: list[str], limit: int | None = None, env: dict | None = None) -> dict:
    """The JSON a process prints last; or how it ended."""
    with memory_capped(limit) as cap:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=HERE,
            env=os.environ | (env or {}),
            capture_output=True,
            text=True,
            preexec_fn=cap.enter,
        )
        peak = cap.peak()
    if done.returncode:
        ended = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit {done.returncode}"
        said = kernel_says() if ended == "SIGKILL" else done.stderr.strip().splitlines()[-1:]
        return {"ended": ended, "message": said or ["no message"]}
    return json.loads(done.stdout.strip().splitlines()[-1]) | ({"peak_cgroup": peak} if peak else {})


def best_device_rate(path: Path, report) -> float:
    from gz import _engine

    # Other places every time: a virtual disk's host may have cached those of the last.
    rates, seed = {}, time.time_ns()
    for depth in (32, 64, 128, 256):
        for threads in (1, 2):
            for turn in range(2):
                seed += 1000
                rate = _engine.random_reads_per_second(str(path), 4096, depth, threads, 40_000, seed + turn)
                rates[depth, threads] = max(rates.get((depth, threads), 0), rate)
    (depth, threads), best = max(rates.items(), key=lambda item: item[1])
    report.note(f"device: {best:,.0f} random 4 KiB reads/s at depth {depth} in {threads} threads")
    return best


def cold_gather(path: Path, args, report) -> None:
    seconds: dict[str, list[float]] = {}
    checks = {}
    device = best_device_rate(path, report)
    names = {"gz": "gz gather", "random": "torch memmap[ids], MADV_RANDOM", "plain": "torch memmap[ids]"}
    for turn in range(args.repeat):
        for who in names:
            rows = FEW_ROWS if who == "plain" else ROWS
            drop_caches()
            done = run(["-c", COLD, str(path), who, str(turn), str(rows)], GATHER_LIMIT)
            if "ended" in done:
                report.note(f"{names[who]}: {done}")
                continue
            seconds.setdefault(names[who], []).append(done["seconds"] * ROWS / rows)
            assert checks.setdefault(turn, done["check"]) == done["check"], "the rows differ"
        device = max(device, best_device_rate(path, report)) if turn == args.repeat - 1 else device
    seconds["device, 4 KiB reads"] = [ROWS / device] * args.repeat
    report.rates(
        "cold gather, 1 GiB limit",
        seconds,
        unit="k rows/s",
        work=ROWS / 1e3,
        targets=(
            _common.Target("gz gather", (names["plain"],), 8.0),
            _common.Target("gz gather", (names["random"],), 4.0),
            _common.Target("gz gather", ("device, 4 KiB reads",), 0.7),
        ),
    )


def warm_gather(path: Path, args, report) -> None:
    warm(path)
    seconds: dict[str, list[float]] = {"gz gather": [], "gz gather, mapping only": []}
    for _ in range(args.repeat):
        for name, env in (("gz gather", {}), ("gz gather, mapping only", {"GZ_IO": "map"})):
            done = run(["-c", WARM, str(path), "10"], env=env)
            assert done["misses"] == 0, "the file is not in memory"
            seconds[name].append(done["seconds"])
    report.rates(
        "warm gather, 300,000 rows",
        seconds,
        unit="gathers/s",
        targets=(_common.Target("gz gather", ("gz gather, mapping only",), 0.9),),
    )


def lists_of(data) -> Path:
    """indptr.npy and indices.npy, which numpy can map; lists.npz cannot be."""
    import numpy as np

    folder = data.folder / "lists"
    if not folder.exists():
        indptr, indices = data.lists()
        partial = folder.with_name("lists.partial")
        partial.mkdir(exist_ok=True)
        np.save(partial / "indptr.npy", indptr)
        np.save(partial / "indices.npy", indices)
        partial.rename(folder)
    return folder


def show(report, done: dict) -> None:
    parts = [
        f"{k} {v:,.3f}" if isinstance(v, float) else f"{k} {v}" for k, v in done.items() if k != "losses"
    ]
    report.note("; ".join(parts))


def train(store: Path, lists: Path, args, report) -> None:
    seconds: dict[str, list[float]] = {}
    losses = {}
    plan = {"gz": (8, 20), "gz-map": (1, 2), "dgl-mapped": (1, 2)}
    for _ in range(min(2, args.repeat)):
        for who, (first, batches) in plan.items():
            drop_caches()
            command = ["_train.py", who, "--store", str(store), "--lists", str(lists)]
            command += ["--warm-up", str(first), "--batches", str(batches)]
            done = run(command, TRAIN_LIMIT)
            show(report, done)
            if "ended" not in done:
                seconds.setdefault(who, []).append(1 / done["batches_per_s"])
                losses[who] = done["losses"]
    report.rates(
        "training, 2 GiB limit",
        seconds,
        unit="batches/s",
        targets=(_common.Target("gz", ("dgl-mapped",), 4.0),),
    )
    free = run(["_train.py", "gz", "--store", str(store), "--warm-up", "8", "--batches", "20"])
    same = float(free["losses"] == losses.get("gz"))
    report.note(
        f"without a limit: {free['batches_per_s']:.2f} batches/s; losses {'equal' if same else 'DIFFER'}"
    )
    report.limits(
        "losses under the limit that differ from those without", _common.Limit("differ", 1 - same, 0, "")
    )


def killed(store: Path, lists: Path, report) -> None:
    for who in ("pyg-memory", "dgl-memory"):
        done = run(["_train.py", who, "--store", str(store), "--lists", str(lists)], TRAIN_LIMIT)
        report.note(f"{who} under 2 GiB: {done}")
        report.limits(f"{who}: finished", _common.Limit("finished", float("ended" not in done), 0, ""))


def main() -> None:
    args = _common.options(__doc__, part=("all", "gather, warm, train, killed, or all"))
    report = _common.Report("out_of_core" if args.part == "all" else f"out_of_core-{args.part}", args)
    from _data import Data

    data = Data(args.data, args.scale)
    store = data.store()
    features = store / "nodes" / "node" / "x.gd"
    if args.part in ("all", "gather"):
        cold_gather(features, args, report)
    if args.part in ("all", "warm"):
        warm_gather(features, args, report)
    if args.part in ("all", "train"):
        train(store, lists_of(data), args, report)
    if args.part in ("all", "killed"):
        killed(store, lists_of(data), report)
    report.finish()


if __name__ == "__main__":
    main()
