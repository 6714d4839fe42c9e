"""gz bench and gz report."""

from __future__ import annotations

import argparse
import json
import tempfile
from typing import Any

from gz._base.memory_plan import parse_cache
from gz._base.sizes import amount, rounded
from gz._measure.bench import TASKS, VERSION, Options, run
from gz._report.build import of_bench, of_run
from gz._watch.recorder import read_record
from gz.cli.output import Output, UsageError, common_flags
from gz.cli.work_flags import request_of, work_flags


def register(commands: Any) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    bench = commands.add_parser(
        "bench",
        help="measure sampling, gathering and loading on your data",
        epilog="examples:\n  gz bench papers\n"
        "  gz bench papers --cache 4GB --html bench.html --save bench.json\n\n"
        "Cold, then warm, each in a process of its own, beside the peers that are\n"
        "installed: some two minutes. Writes nothing but --html and --save.",
        formatter_class=raw,
    )
    bench.add_argument("store", metavar="STORE")
    bench.add_argument(
        "--cache", default="auto", metavar="SIZE", help="of the row cache (default: %(default)s)"
    )
    bench.add_argument(
        "--seconds",
        type=float,
        default=5.0,
        metavar="S",
        help="for each, cold and warm (default: %(default)s)",
    )
    bench.add_argument(
        "--only", action="append", choices=TASKS, help="measure this; several times for several"
    )
    bench.add_argument("--no-peers", action="store_true", help="gz alone")
    bench.add_argument("--html", metavar="FILE", help="write a report with plots")
    bench.add_argument("--save", metavar="FILE", help="write all that was found, for gz report")
    work_flags(bench)
    common_flags(bench)
    bench.set_defaults(run=_bench)

    report = commands.add_parser(
        "report",
        help="a page with plots, of a run or a benchmark",
        epilog="examples:\n  gz report run.jsonl -o report.html      a run that gz_pyg.monitor recorded\n"
        "  gz report bench.json -o bench.html      what gz bench --save wrote",
        formatter_class=raw,
    )
    report.add_argument("file", metavar="FILE", help="the record of a run, or what gz bench --save wrote")
    report.add_argument("-o", "--html", required=True, metavar="OUT", help="where to write the page")
    common_flags(report)
    report.set_defaults(run=_report)


def _bench(args: argparse.Namespace, out: Output) -> int:
    if not args.seconds > 0:
        raise UsageError(f"--seconds is {args.seconds:g}; give more than 0")
    request = request_of(args)
    parse_cache(args.cache)
    options = Options(request, args.cache, args.seconds, not args.no_peers, tuple(args.only or TASKS))
    with tempfile.TemporaryDirectory(prefix="gz-bench-") as scratch:
        found = run(args.store, options, scratch, out.progress_line)
    out.progress_line("")
    if args.save:
        _write(args.save, json.dumps(found))
    if args.html:
        _write(args.html, of_bench(found))
    out.tell(found)
    out.say("\n".join(_lines(found, args)))
    return 0


def _report(args: argparse.Namespace, out: Output) -> int:
    with open(args.file, encoding="utf-8", errors="replace") as f:
        try:
            whole = json.loads(f.read())
        except ValueError:
            whole = None
    if isinstance(whole, dict) and whole.get("kind") == "bench":
        if whole.get("version") != VERSION:
            raise ValueError(f"{args.file}: is of version {whole.get('version')}; this gz reads {VERSION}")
        text = of_bench(whole)
    else:
        record = read_record(args.file)
        text = of_run(record.about, record.samples, record.logs, record.ended)
    _write(args.html, text)
    out.tell({"html": args.html, "bytes": len(text.encode())})
    out.say(f"{args.html}: {amount(len(text.encode()))}")
    return 0


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def _lines(found: dict[str, Any], args: argparse.Namespace) -> list[str]:
    w, m = found["workload"], found["machine"]
    lines = [
        f"{found['store']['path']}, {amount(found['store']['bytes'])}",
        f"{w['batch_size']:,} seeds a batch, fanouts {w['fanouts']}, cache {w['cache']}; "
        f"{m['cores']} cores, load {m['load']:.1f}, {amount(m['free'])} free",
        "",
        f"{'':<11} {'':<24} {'cold':>9} {'warm':>9} {'missed':>8} {'memory':>9}",
    ]
    for p in found["phases"]:
        rate = p["warm"].get("miss_rate")
        missed = "-" if rate is None else f"{100 * rate:.1f} %"
        memory = max((s.get("anonymous") or 0 for s in p["samples"]), default=0)
        lines.append(
            f"{p['task']:<11} {p['who']:<24} {rounded(p['cold']['batches_per_second'], 3):>9} "
            f"{rounded(p['warm']['batches_per_second'], 3):>9} {missed:>8} "
            f"{amount(memory):>9}"
        )
    lines.append("batches/s; rows missed when warm; most memory of the process's own")
    lines += [f"not run: {s['task']}, {s['who']}: {s['why']}" for s in found["skipped"]]
    lines += [f"{flag}: {file}" for flag, file in (("report", args.html), ("saved", args.save)) if file]
    return lines
