"""Training on a graph of papers100M's size under a memory limit, beside what the processor alone would allow.

    python benchmarks/papers100m.py generate --scale 1 --profile papers100m-directed --out /data/papers
    gz reorder /data/papers
    python benchmarks/papers_train.py --store /data/papers --limit 8 --batches 300
    python benchmarks/papers_train.py --store /data/tenth --limit 0 --batches 100

GraphSAGE, batches of 1,024 training nodes, fanouts [15, 10, 5] (_train.py), in a cgroup in which page cache
counts (root only), begun with an empty page cache. `--limit 0` is the processor's own limit: a store of a
tenth of the size, read into memory before; rows a second are compared, for its batches have fewer rows.
Before a run under a limit the store is read through once, past the page cache: the host of a virtual disk may
have it in its memory then, or not, and a run would meet a disk that changes under it (docs/papers100m.md).
The device is measured before and after the run.

Each run is added to benchmarks/results/papers_train.json as it is done (of those in memory the fastest stays:
it is a limit); tables.py makes a table of all. Sessions get other hosts, some slower than others, which
can be told by the build of the kernel: a run is compared with the limit of its own host, if that was
measured. The law beside them, GraphBolt's: batches/s = reads/s of the device / (rows of a batch x share
missed).
"""

from __future__ import annotations

import json
import mmap
import os
import platform
import time
from pathlib import Path

import _common
from _process import drop_caches, warm
from out_of_core import best_device_rate, run

RESULT = _common.RESULTS / "papers_train.json"
COLUMNS = (
    "profile, features", "limit", "batches/s", "of the processor's, rows/s", "rows a batch", "in front",
    "row cache", "read", "reads a batch", "of lists", "device, reads/s", "busy", "the law, batches/s",
    "peak of the group", "others", "host",
)  # fmt: skip


def read_through(store: Path) -> float:
    """Reads every file of it past the page cache. Returns seconds."""
    start = time.monotonic()
    with mmap.mmap(-1, 8 << 20) as buffer:
        for path in (p for p in store.rglob("*") if p.is_file()):
            file = os.open(path, os.O_RDONLY | os.O_DIRECT)
            try:
                at = 0
                while count := os.preadv(file, [buffer], at):
                    at += count
                    if count % 4096:
                        break  # the end
            finally:
                os.close(file)
    return time.monotonic() - start


def describe(store: Path) -> dict:
    import gz

    opened = gz.open(store, cache=0)
    meta = opened.manifest.meta
    entry = opened.manifest.nodes["node"].columns["x"]
    x = opened.feature("x")
    return {
        "profile": meta["profile"],
        "scale": meta["scale"],
        "dtype": x.stored,
        "labels": opened.feature("y").stored,
        "order": "plain" if entry.hot is None else "hot first",
        "in_front": len(gz.FeatureStore(store / entry.hot.ids, 0)) / len(x) if entry.hot else 0,
    }


def column_of(store: Path) -> Path:
    """The file of the features."""
    import gz

    return Path(gz.open(store, cache=0).feature("x").path)


def name_of(about: dict, args) -> str:
    parts = [
        about["profile"],
        about["dtype"],
        about["order"],
        f"{args.limit:g} GiB" if args.limit else "none",
    ]
    if args.look_ahead:
        parts.append(f"look_ahead {args.look_ahead}")
    if not args.limit:
        parts.append(host(platform.release()))
    return ", ".join([*parts, f"scale {about['scale']:g}"])


def host(kernel: str) -> str:
    """What is last in the name of its kernel."""
    return kernel.rsplit("-", 1)[-1]


def measure(args, report) -> dict:
    store, device = Path(args.store), 0.0
    features = column_of(store)
    found: dict = {"batches": args.batches, "warm_up": args.warm_up}
    if args.limit:
        found["read_through_s"] = read_through(store) if args.read_through else 0.0
        device = best_device_rate(features, report)
        drop_caches()
    else:
        warm(*(p for p in store.rglob("*") if p.is_file()))
    command = ["_train.py", "gz", "--store", str(store), "--split", "train", "--cache", args.cache]
    command += ["--warm-up", str(args.warm_up), "--batches", str(args.batches)]
    if args.look_ahead:
        command += ["--look-ahead", str(args.look_ahead)]
    bystanders = _common.Bystanders()
    done = run(command, int(args.limit * 2**30) if args.limit else None)
    found |= {"others": round(bystanders.share(), 2), "date": time.strftime("%Y-%m-%d %H:%M")}
    found["host"] = host(platform.release())
    if args.limit:
        found["device"] = [device, best_device_rate(features, report)]  # a virtual disk's rate drifts
    losses = done.pop("losses", [])
    return found | done | {"first_losses": losses[:3], "last_losses": losses[-3:]}


def limit_of(record: dict, found: dict) -> float | None:
    """Rows a second of the same profile with everything in memory, on the same host and of the same dtype;
    any where that was not run. Rows, since the batches of a smaller graph have fewer."""
    runs = [r for r in record["runs"].values() if not r["limit"] and r["profile"] == found["profile"]]
    for key in ("host", "dtype"):
        runs = [r for r in runs if r.get(key) == found.get(key)] or runs
    return max((r["batches_per_s"] * r["rows_per_batch"] for r in runs if "batches_per_s" in r), default=None)


def table(record: dict) -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for r in record["runs"].values():
        label = f"`{r['profile']}`, {r['dtype']}" + (", hot first" if r["order"] != "plain" else "")
        label += f" ({r['in_front']:.0%} of the rows)" if r.get("in_front") else ""
        label += "" if r["scale"] == 1 else f", {r['scale']:.0%} of the size"
        label += f", `look_ahead={r['look_ahead']}`" if r.get("look_ahead") else ""
        limit = f"{r['limit']:g} GiB" if r["limit"] else "none, in memory"
        if "ended" in r:
            lines.append(f"| {label} | {limit} | {r['ended']} |" + " |" * (len(COLUMNS) - 3))
            continue
        processor, reads = limit_of(record, r), r["reads_per_batch"] + r["topology_reads_per_batch"]
        rate = sum(r.get("device", [0])) / len(r.get("device", [0]))
        cells = [
            label,
            limit,
            f"**{r['batches_per_s']:.2f}**",
            f"{r['batches_per_s'] * r['rows_per_batch'] / processor:.0%}" if processor and r["limit"] else "",
            f"{r['rows_per_batch']:,.0f}",
            f"{r['hot_rate']:.1%}" if r["order"] != "plain" else "",
            f"{r['hit_rate']:.1%}",
            f"{r['miss_rate']:.1%}",
            f"{r['reads_per_batch']:,.0f}",
            f"{r['topology_reads_per_batch']:,.0f}",
            f"{r.get('device_reads_per_s', 0):,.0f}",
            f"{r.get('device_busy', 0):.0%}",
            f"{rate / reads:.2f}" if reads and rate else "",
            f"{r['peak_cgroup'] / 1e9:.1f} GB" if r.get("peak_cgroup") else "",
            f"{r['others']:.2f}",
            r.get("host", ""),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    args = _common.options(
        __doc__,
        store=("", "a store of papers100m.py"),
        limit=(8.0, "GiB; 0: none, everything in memory"),
        batches=(300, "that are timed"),
        warm_up=(20, "batches before the clock starts"),
        cache=("auto", "of the loader"),
        look_ahead=(0, "batches whose rows are read together"),
        read_through=(1, "0: not before the run"),
    )
    about = describe(Path(args.store))
    args.scale = about["scale"]
    report = _common.Report("papers_train", args, **about, limit=args.limit)
    found = about | {"limit": args.limit, "look_ahead": args.look_ahead} | measure(args, report)
    for key, value in found.items():
        print(f"   {key:<26} {value:,.3f}" if isinstance(value, float) else f"   {key:<26} {value}")
    record = json.loads(RESULT.read_text()) if RESULT.exists() else {"benchmark": "papers_train", "runs": {}}
    record |= {"machine": report.machine}
    before = record["runs"].get(name_of(about, args), {})
    if args.limit or before.get("batches_per_s", 0) <= found.get("batches_per_s", 0):
        record["runs"][name_of(about, args)] = found
    if not args.no_save:
        RESULT.write_text(json.dumps(record, indent=1, default=str) + "\n")
    print("\n" + table(record))


if __name__ == "__main__":
    main()
