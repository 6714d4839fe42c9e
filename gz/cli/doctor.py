"""gz doctor: the machine, the disk, the frameworks; for a store what training from it will be like."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gz
from gz import _engine
from gz._base.memory_plan import parse_cache
from gz._base.sizes import amount, parse_memory, rounded
from gz._measure import disk
from gz._measure.advice import advise
from gz._measure.predict import Speeds, divide_room, predict, try_out
from gz._measure.workload import Workload
from gz._watch import machine, software, storage, usage
from gz.cli.output import Output, common_flags
from gz.cli.work_flags import request_of, work_flags

_VERDICTS = {
    "fits": "fits: all of it lies in memory after the first batches",
    "pages": "pages: some rows are read, and the CPU takes longer than the disk",
    "disk-bound": "disk-bound: reading takes most of the time",
}


def register(commands: Any) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser(
        "doctor",
        help="the machine, its disk, and how fast a store will be",
        epilog="examples:\n  gz doctor\n  gz doctor papers --fanouts 15,10,5 --batch-size 1024\n"
        "  gz doctor papers --cache 4GB --cache 16GB --json\n\n"
        "Reads the store at random for ten seconds, past the page cache, and samples\n"
        "some batches. Without a store a file of 268 MB is written to --dir and removed.",
        formatter_class=raw,
    )
    parser.add_argument("store", metavar="STORE", nargs="?", help="a store to predict for")
    parser.add_argument("--dir", default=".", help="the disk to measure where no store is given")
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        metavar="S",
        help="how long to read (default: %(default)s; 0: not)",
    )
    parser.add_argument(
        "--script",
        default="300MB",
        metavar="SIZE",
        help="what your script takes by itself: torch and a small model 300MB (the default)",
    )
    parser.add_argument(
        "--cache",
        action="append",
        metavar="SIZE",
        help="predict for this row cache; several times for several (default: auto)",
    )
    parser.add_argument("--no-frameworks", action="store_true", help="do not try whether PyG and DGL work")
    work_flags(parser)
    common_flags(parser)
    parser.set_defaults(run=_doctor)


def _doctor(args: argparse.Namespace, out: Output) -> int:
    request = request_of(args)
    caches = [(text, parse_cache(text)) for text in args.cache or ["auto"]]
    script = parse_memory(args.script, least=0)
    work = Workload(gz.open(args.store), request) if args.store else None  # before anything that takes long
    place = args.store if args.store else args.dir
    found: dict[str, Any] = {"machine": machine.describe(), "storage": storage.describe(place)}
    versions = software.versions()
    found["versions"] = versions
    out.progress_line("trying PyG and DGL")
    found["frameworks"] = {} if args.no_frameworks else software.works(versions)
    with _file_to_read(work, args.dir) as file:
        direct, why = storage.direct_reads(file)
        found["storage"] |= {"direct": direct, "direct_why": why}
        found["disk"] = disk.measure(file, args.seconds, out.progress_line) if args.seconds > 0 else None
    out.say("\n".join(_machine_lines(found)))
    if work is not None:
        if found["disk"] is None:
            out.warn("without a measurement of the disk (--seconds 0) nothing can be predicted")
        else:
            found["prediction"] = _prediction(work, caches, script, found, out)
            out.say("\n".join(["", *_prediction_lines(found["prediction"])]))
    out.tell(found)
    return 0


@contextmanager
def _file_to_read(work: Workload | None, folder: str) -> Iterator[str]:
    if work is None:
        with disk.scratch_file(folder) as file:
            yield file
        return
    yield work.largest_file


def _prediction(
    work: Workload, caches: list[tuple[str, int | None]], script: int, facts: dict[str, Any], out: Output
) -> dict[str, Any]:
    out.progress_line("sampling some batches")
    stream = try_out(work, 8.0)
    speeds = Speeds.measured(work, stream, facts["disk"])
    # What this process holds by now is free when the script begins.
    free = max(0, _engine.free_memory() + (usage.of_process()["anonymous"] or 0) - script)
    limit = _engine.memory_limit()
    cases = []
    out.progress_line("predicting")
    for text, cache in caches:
        room = divide_room(work, stream, cache, free, limit)
        cases.append((text, room, predict(work, stream, speeds, room)))
    _, room, first = cases[0]
    out.progress_line("")
    return {
        "workload": work.describe(),
        "batches_tried": stream.batches,
        "nodes_per_batch": stream.nodes,
        "edges_per_batch": stream.edges,
        "free": free,
        "script": script,
        "held": sorted(room.held),
        "cases": [{"asked": text, "ahead": room.ahead, **p.as_json()} for text, room, p in cases],
        "advice": advise(work, stream, speeds, room, first, facts | {"limit": limit}),
    }


# ---- as text ----


def _machine_lines(found: dict[str, Any]) -> list[str]:
    m, s = found["machine"], found["storage"]
    limit = f"{amount(m['limit'])} by {m['limit_of']}" if m["limit"] else "none"
    disk_name = ", ".join(filter(None, [s["disk"] or "no block device", s["model"]]))
    kind = {True: ", rotates", False: ", does not rotate", None: ""}[s["rotates"]]
    lines = [
        f"CPU         {m['cpu']}, {m['cores']} cores, load {m['load']:.1f}",
        f"memory      {amount(m['ram'] or 0)}, {amount(m['free'])} free; cgroup limit: {limit}",
        f"swap        {amount(m['swap'] or 0)}; /dev/shm {amount((m['shm'] or {}).get('size', 0))}",
        f"kernel      {m['kernel']}, {m['architecture']}; huge pages: {m['huge_pages']}; "
        f"overcommit: {m['overcommit']}",
        f"limits      memlock {_limit(m['memlock'])}, open files {m['open_files']}",
        f"place       {s['path']}",
        f"filesystem  {s['filesystem']} on {s['source']}, mounted at {s['mount']} ({s['options']}); "
        f"{amount(s['free'])} of {amount(s['size'])} free",
        f"disk        {disk_name}{kind}, read-ahead "
        f"{_limit(s['read_ahead'], 'unknown')}, scheduler {s['scheduler']}",
        f"O_DIRECT    {s['direct_why']}",
        f"reads by    {m['reads']} ({m['reads_why']})",
        "versions    " + ", ".join(f"{k} {v}" for k, v in found["versions"].items() if v),
        *(f"{name:<11} {how}" for name, how in found["frameworks"].items()),
    ]
    if found["disk"]:
        lines += ["", "random reads   in flight     reads/s       MB/s    latency"]
        for r in found["disk"]["reads"]:
            rate, size = r["per_second"], r["size"]
            lines.append(
                f"  {size // 1024:>3} KiB {r['in_flight']:>14} {rate:>14,.0f} {rate * size / 1e6:>10,.0f} "
                f"{1e3 * (r['latency'] or 0):>7.2f} ms"
            )
    return lines


def _limit(value: int | None, none: str = "unlimited") -> str:
    return none if value is None else amount(value)


def _prediction_lines(p: dict[str, Any]) -> list[str]:
    w = p["workload"]
    lines = [
        f"batches of {w['batch_size']:,} seeds ({w['seeds']}), fanouts {w['fanouts']}: "
        f"{p['nodes_per_batch']:,.0f} nodes and {p['edges_per_batch']:,.0f} edges on average",
        f"with {amount(p['free'])} free beside a script of {amount(p['script'])}; held in memory: "
        f"{', '.join(p['held']) or 'nothing'}",
        "",
        "cache          rows/batch    missed     read/batch   batches/s",
    ]
    for c in p["cases"]:
        lines.append(
            f"  {c['asked']:<6} {amount(c['cache']):>9} {c['rows']:>10,.0f} {100 * c['miss_rate']:>7.1f} % "
            f"{amount(c['bytes_read']):>12} {rounded(c['batches_per_second'], 2):>11}   {c['verdict']}"
        )
    seconds = p["cases"][0]["seconds"]
    shares = ", ".join(f"{name} {1e3 * s:.0f} ms" for name, s in seconds.items())
    lines += ["", _VERDICTS[p["cases"][0]["verdict"]], f"a batch: {shares}"]
    return [*lines, *(f"- {a}" for a in p["advice"])]
