"""The report: of a run's record, or of what `gz bench` found. States where the data lies, on which disk and
filesystem, how much memory there is, that memory stays small, and with which batch and fanouts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from gz._base.sizes import amount, rounded
from gz._report.page import facts, figure, listed, page, paragraph, section, table, tiles
from gz._report.series import over_time, peak, smooth_rates
from gz._report.svg import Level, Series, bars, lines
from gz._report.units import BATCH_RATE, BYTE_RATE, BYTES, LATENCY, PERCENT, PLAIN, short


def of_run(
    about: dict[str, Any], samples: list[dict[str, Any]], logs: list[dict[str, Any]], ended: bool
) -> str:
    """A page about a run that gz_pyg.monitor recorded."""
    name = about.get("name") or "a run"
    rates = smooth_rates(samples)
    last = samples[-1] if samples else {"t": 0.0}
    first = samples[0] if samples else {}
    batches = (last.get("batches") or 0) - (first.get("batches") or 0)
    seconds = max(last["t"], 1e-9)
    shown = [
        ("batches", f"{batches:,}"),
        ("batches/s, mean", rounded(batches / seconds, 3)),
        ("peak memory, own", amount(peak(samples, "anonymous"))),
        ("store on disk", amount((about.get("store") or {}).get("bytes", 0))),
    ]
    parts = [tiles(shown)]
    if not ended:
        parts.append(paragraph("The record has no end: the run was killed, or still goes on."))
    parts.append(section("How it went", *_plots({"": samples}, {"": rates}, about), *_log_plots(logs)))
    parts.append(section("What was run", facts(_run_facts(about))))
    parts.append(
        section("Where", facts(_place_facts(about.get("machine"), about.get("storage"), about.get("store"))))
    )
    return page(f"gz: {name}", _when(about.get("started")), parts)


def of_bench(found: dict[str, Any]) -> str:
    """A page about what `gz bench` measured."""
    name = found["store"]["path"].rstrip("/").rsplit("/", 1)[-1]
    phases = found["phases"]
    loading = [p for p in phases if p["task"] == "loading"] or [p for p in phases if p["task"] == "gathering"]
    own = [p for p in phases if p["who"].startswith("gz")]
    shown = [
        ("store on disk", amount(found["store"]["bytes"])),
        ("most memory of its own", amount(max((peak(p["samples"], "anonymous") for p in own), default=0))),
        *((f"batches/s, {p['task']}, warm", rounded(p["warm"]["batches_per_second"], 3)) for p in own),
    ]
    parts = [tiles(shown), section("Measured", _bench_table(phases), *_skipped(found["skipped"]))]
    if loading:
        samples = {"": loading[0]["samples"]}
        rates = {"": smooth_rates(loading[0]["samples"])}
        title = f"{loading[0]['task'].capitalize()} over time: {loading[0]['who']}"
        note = paragraph("It begins cold: the kernel was asked to drop the store's pages first.")
        parts.append(section(title, note, *_plots(samples, rates, found)))
    parts.append(section("The graph", *(_degree_figure(t, d) for t, d in found["degrees"].items())))
    parts.append(section("The disk", _disk_table(found["disk"])))
    parts.append(section("What was run", facts(_bench_facts(found))))
    parts.append(section("Where", facts(_place_facts(found["machine"], found["storage"], found["store"]))))
    return page(f"gz bench: {name}", _when(found.get("started")), parts)


# ---- plots ----


def _plots(
    samples: dict[str, list[dict[str, Any]]], rates: dict[str, list[dict[str, Any]]], about: dict[str, Any]
) -> list[str]:
    """`samples` and `rates` by the name of a line; "" where there is one."""
    first = next(iter(samples.values()))
    memory = [
        Series("of the process's own", over_time(first, "anonymous")),
        Series("with pages of files", over_time(first, "rss")),
        Series("row cache", over_time(first, "cache_bytes")),
    ]
    memory = [s for s in memory if any(y for _, y in s.points)]
    limit = (about.get("machine") or {}).get("limit")
    store = (about.get("store") or {}).get("bytes")
    level = (
        Level(f"limit {amount(limit)}", limit)
        if limit
        else Level(f"store {amount(store)}", store)
        if store
        else None
    )
    caption = (
        "Pages of files can be dropped by the kernel at any time; what counts is the process's own. The row "
        "cache is a part of it, and can be taken back, too."
    )
    found = [figure("Memory", lines(memory, BYTES, what="memory", level=level), caption)]
    charts = (
        ("Batches", "batches_per_second", BATCH_RATE, "rate", ""),
        (
            "Rows that were not in memory",
            "miss_rate",
            PERCENT,
            "missed rows",
            "Of the rows asked for, the share read.",
        ),
        ("Reading", "bytes_per_second", BYTE_RATE, "read", ""),
        (
            "Latency of a read",
            "read_latency",
            LATENCY,
            "latency",
            "With many in flight: from its start to its end.",
        ),
    )
    for title, key, units, what, caption in charts:
        drawn = [Series(name or what, over_time(r, key)) for name, r in rates.items()]
        if any(y is not None for s in drawn for _, y in s.points):
            found.append(figure(title, lines(drawn, units, what=what), caption))
    return found


def _log_plots(logs: Sequence[dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(
        k for log in logs for k, v in log.items() if k != "t" and isinstance(v, int | float)
    )
    found = []
    for name in list(names)[:8]:
        drawn = [
            Series(name, [(log["t"], log[name]) for log in logs if isinstance(log.get(name), int | float)])
        ]
        if min(y for _, y in drawn[0].points if y is not None) >= 0:
            found.append(figure(name, lines(drawn, PLAIN, what=name)))
    return found


def _degree_figure(edge_type: str, degrees: dict[str, Any]) -> str:
    counts = degrees["counts"]
    names = ["0", *(short(2**i) for i in range(len(counts) - 1))]
    seen = (
        ""
        if degrees["looked_at"] == degrees["nodes"]
        else f" {degrees['looked_at']:,} of them were looked at."
    )
    caption = (
        f"{degrees['nodes']:,} nodes, {degrees['average']:.1f} neighbours on average, at most "
        f"{degrees['largest']:,}."
        f"{seen} A bar holds the nodes from its number of neighbours up to the next."
    )
    return figure(
        f"Degrees: {edge_type}",
        bars(counts, names, what="nodes (count)", x_name="neighbours (count)"),
        caption,
    )


# ---- tables ----


def _bench_table(phases: Sequence[dict[str, Any]]) -> str:
    head = ("what", "by", "cold, batches/s", "warm, batches/s", "missed, warm", "read, cold", "memory")
    rows = []
    for p in phases:
        missed = p["warm"].get("miss_rate")
        rows.append(
            (
                p["task"],
                p["who"],
                rounded(p["cold"]["batches_per_second"], 3),
                rounded(p["warm"]["batches_per_second"], 3),
                "–" if missed is None else f"{100 * missed:.1f} %",
                f"{amount(p['cold']['bytes_per_second'])}/s",
                amount(peak(p["samples"], "anonymous")),
            )
        )
    return table(head, rows, numbers=(2, 3, 4, 5, 6))


def _skipped(skipped: Sequence[dict[str, Any]]) -> list[str]:
    if not skipped:
        return []
    return [paragraph("Not run:"), listed([f"{s['task']}, {s['who']}: {s['why']}" for s in skipped])]


def _disk_table(disk: dict[str, Any]) -> str:
    rows = [
        (
            f"{r['size'] // 1024} KiB",
            f"{r['in_flight']}",
            f"{r['per_second']:,.0f}",
            f"{amount(r['per_second'] * r['size'])}/s",
            "–" if r["latency"] is None else f"{1e3 * r['latency']:.2f} ms",
        )
        for r in disk["reads"]
    ]
    return table(
        ("random reads of", "in flight", "reads/s", "bytes/s", "latency"), rows, numbers=(1, 2, 3, 4)
    )


def _run_facts(about: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    for loader in about.get("loaders") or []:
        ahead = "workers" if loader["workers"] else "prefetch"
        more = f", look_ahead {loader['look_ahead']}" if loader.get("look_ahead") else ""
        rows.append(
            (
                loader["loader"],
                f"batch size {loader['batch_size']}, fanouts {loader['fanouts']}, {ahead} "
                f"{loader['workers'] or loader['prefetch']}{more}, {loader['batches']:,} batches an epoch",
            )
        )
    return [*rows, *((str(k), str(v)) for k, v in (about.get("about") or {}).items())]


def _bench_facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    w = found["workload"]
    return [
        ("batch size", f"{w['batch_size']:,} seeds, from {w['seeds']} ({w['num_seeds']:,})"),
        ("fanouts", ", ".join(map(str, w["fanouts"]))),
        ("row cache", str(w["cache"])),
        ("each measured for", f"{w['seconds']:g} s cold, then, once it has settled, {w['seconds']:g} s warm"),
        ("versions", ", ".join(f"{k} {v}" for k, v in found["versions"].items() if v)),
    ]


def _place_facts(
    machine: dict[str, Any] | None, storage: dict[str, Any] | None, store: dict[str, Any] | None
) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    if store:
        nodes = sum(store["nodes"].values())
        edges = sum(e["num_edges"] for e in store["edges"])
        rows.append(
            ("data", f"{nodes:,} nodes, {edges:,} edges, {amount(store['bytes'])} at {store['path']}")
        )
        rows += [(f["file"], f"{amount(f['bytes'])}; {f['plan']}") for f in store["files"]]
    if storage:
        kind = {True: ", rotates", False: ", does not rotate", None: ""}[storage["rotates"]]
        disk = ", ".join(filter(None, [storage["disk"] or "no block device", storage["model"]]))
        ahead = "unknown" if storage["read_ahead"] is None else amount(storage["read_ahead"])
        rows.append(("filesystem", f"{storage['filesystem']} on {storage['source']}, {storage['options']}"))
        rows.append(("disk", f"{disk}{kind}, read-ahead {ahead}, scheduler {storage['scheduler']}"))
    if machine:
        limit = f"{amount(machine['limit'])} by {machine['limit_of']}" if machine["limit"] else "none"
        rows += [
            ("memory", f"{amount(machine['ram'] or 0)}, {amount(machine['free'])} free at the start"),
            ("memory limit (cgroup)", limit),
            ("CPU", f"{machine['cpu']}, {machine['cores']} cores, load {machine['load']:.1f} at the start"),
            ("kernel", f"{machine['kernel']}, {machine['architecture']}"),
            ("reads by", f"{machine['reads']}: {machine['reads_why']}"),
        ]
    return rows


def _when(started: float | None) -> str:
    if started is None:
        return "written by gz"
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(started))
