"""How far `gz doctor` is from what `gz bench` then measures: misses, bytes, batches/s, under a memory limit.

    python benchmarks/prediction.py --scale 0.04 --limit 1.5GB --data /data

A store with the skew of papers100M (papers100m.py; 0.04: 4.4 M nodes, 2.3 GB of features), batches of 1,024
seeds. For each fanouts and each cache the doctor predicts and the bench measures inside a memory cgroup of
that size, one right after the other, so that both see the same machine; page caches are dropped. Root.
Passes where predictions are within a factor of two of the warm figures. batches/s mean something on a quiet
machine alone: beside other work both tools are stopped and resumed at moments of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import papers100m
from _process import drop_caches, memory_capped

FACTOR = 2.0


def capped(limit: int, *command: object) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
    drop_caches()
    with memory_capped(limit) as cap:
        done = subprocess.run(
            [sys.executable, "-m", "gz", *map(str, command)],
            env=env,
            capture_output=True,
            text=True,
            preexec_fn=cap.enter,
        )
    if done.returncode:
        raise SystemExit(f"gz {command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    OUT.write_text(done.stdout)


def predicted(store: Path, limit: int, fanouts: str, cache: str, seconds: float) -> dict[str, Any]:
    flags = ["--fanouts", fanouts, "--cache", cache, "--no-frameworks", "--seconds", seconds, "--json"]
    capped(limit, "doctor", store, *flags)
    found = json.loads(OUT.read_text())["prediction"]["cases"][0]
    return {
        "cache": found["cache"],
        "rows": found["rows"],
        "misses": found["misses"],
        "bytes": found["bytes_read"],
        "rate": found["batches_per_second"],
        "verdict": found["verdict"],
        "seconds": found["seconds"],
    }


def measured(store: Path, limit: int, fanouts: str, cache: str, seconds: float) -> dict[str, Any]:
    flags = ["--fanouts", fanouts, "--cache", cache, "--only", "loading", "--no-peers", "--seconds", seconds]
    capped(limit, "bench", store, *flags, "--json")
    found = json.loads(OUT.read_text())
    if not found["phases"]:
        raise SystemExit(f"not measured: {found['skipped']}")
    warm = found["phases"][0]["warm"]
    return {
        "misses": warm["misses_per_batch"],
        "bytes": warm["bytes_read_per_batch"],
        "rate": warm["batches_per_second"],
        "batches": warm["batches"],
        "cache": max(s.get("cache_bytes") or 0 for s in found["phases"][0]["samples"]),
    }


def off(ratios: dict[str, float], said: dict[str, Any], found: dict[str, Any]) -> float:
    """By how much a prediction is off, at worst. How many of the last hundredth of rows are missed says
    little, and depends on how long the bench has run."""
    few = max(said["misses"], found["misses"]) < 0.01 * said["rows"]
    judged = [ratios["rate"]] if few else list(ratios.values())
    return max(max(r, 1 / max(r, 1e-9)) for r in judged)


def main() -> None:
    global OUT
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=0.04)
    parser.add_argument("--profile", default="papers100m-directed")
    parser.add_argument("--data", type=Path, default=Path("/tmp/gz-bench"))
    parser.add_argument("--limit", default="1.5GB", help="of memory")
    parser.add_argument("--caches", default="0,100MB,400MB,auto")
    parser.add_argument("--fanouts", default="10,5;15,10,5", help="several, with ; between them")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--keep", action="store_true", help="keep the store")
    parser.add_argument("--save", type=Path, help="write what was found")
    args = parser.parse_args()
    from gz._base.sizes import parse_memory

    limit = parse_memory(args.limit)
    store = args.data / f"prediction-{args.profile}-{args.scale:g}"
    if not store.exists():
        args.data.mkdir(parents=True, exist_ok=True)
        papers = papers100m.Papers(args.scale, profile=args.profile)
        papers100m.generate_store(store, papers, "float32", "1GB", 2, quiet=True)
    rows, worst = [], 1.0
    with tempfile.TemporaryDirectory() as folder:
        OUT = Path(folder) / "out.json"
        print("fanouts   cache     misses a batch        MB a batch            batches/s")
        for fanouts in args.fanouts.split(";"):
            for cache in args.caches.split(","):
                load = os.getloadavg()[0]
                said = predicted(store, limit, fanouts, cache, args.seconds)
                found = measured(store, limit, fanouts, cache, args.seconds)
                ratios = {k: said[k] / max(found[k], 1e-9) for k in ("misses", "bytes", "rate")}
                worst = max(worst, off(ratios, said, found))
                rows.append({"fanouts": fanouts, "asked": cache, "said": said, "found": found, "load": load})
                cells = [
                    f"{said[k] / s:8,.{d}f} {found[k] / s:8,.{d}f} {ratios[k]:4.2f}"
                    for k, s, d in (("misses", 1, 0), ("bytes", 1e6, 0), ("rate", 1, 2))
                ]
                print(f"{fanouts:<9} {cache:<7} {'  '.join(cells)}  {said['verdict']}", flush=True)
    if args.save:
        told = {"scale": args.scale, "profile": args.profile, "limit": limit, "at": time.time()}
        args.save.write_text(json.dumps(told | {"worst": worst, "rows": rows}, indent=1) + "\n")
    if not args.keep:
        shutil.rmtree(store)
    print(f"{'PASS' if worst <= FACTOR else 'FAIL'}: at worst {worst:.2f} times off; {FACTOR:g} is allowed")
    raise SystemExit(worst > FACTOR)


if __name__ == "__main__":
    main()
