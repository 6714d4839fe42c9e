"""What it costs to ingest with the hot rows in front and with smaller rows, beside the plain ingest.

    python benchmarks/order_ingest.py --scale 0.03 --profile papers100m-directed --data /data

`gz ingest` of the same .npy files in a process of its own, turn and turn about, within the same memory
budget. Judged is the processor time of the process, with all its threads, which depends less on who else uses
the machine than time does. All stores have to hold the same edges.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _common import Bystanders, Limit, Report, options
from _process import memory_capped

WAYS = {
    "plain": [],
    "hot in front": ["--order", "hot"],
    "int8": ["--dtype", "x=int8"],
    "hot in front, int8": ["--order", "hot", "--dtype", "x=int8"],
}
MEMORY = "1GB"
MOST_BYTES = 1_300_000_000  # the budget and what a process needs besides
MOST = 3.0  # times the plain ingest


def write_inputs(papers: Any, folder: Path) -> list[str]:
    """The files of a profile, and the options that name them."""
    import generate

    g = papers.graph
    edges = np.lib.format.open_memmap(folder / "edges.npy", "w+", np.int64, (2, g.num_edges))
    at = 0
    for i in range(papers.num_edge_chunks):
        chunk = np.stack(papers.edge_chunk(i))
        edges[:, at : at + chunk.shape[1]] = chunk
        at += chunk.shape[1]
    del edges
    rows = (papers.feature_chunk(i, "float32") for i in range(papers.num_row_chunks))
    generate.write_npy(folder / "x.npy", rows, (g.num_nodes, papers.num_features), np.float32)
    np.save(folder / "train.npy", papers.splits["train"])
    options = ["--edges", folder / "edges.npy", "--features", f"x={folder / 'x.npy'}"]
    options += ["--split", f"train={folder / 'train.npy'}", "--memory", MEMORY]
    return [*map(str, options), *(["--undirected"] if papers.symmetric else [])]


def ingest(out: Path, options: list[str], threads: int, limit: int | None = None) -> dict[str, float]:
    """Processor seconds, seconds and the peaks of a process that makes the store: all of its memory, what of
    it no file has, and under a limit all that counts against it, page cache too. Seen every 10 ms: what
    getrusage tells would include this process, which it was forked from."""
    start, peak, own = time.monotonic(), 0, 0
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryFile() as said, memory_capped(limit) as cap:
        child = subprocess.Popen(
            [sys.executable, "-m", "gz", "ingest", str(out), *options],
            stdout=said, stderr=subprocess.STDOUT, env=environment, preexec_fn=cap.enter,
        )  # fmt: skip
        while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            told = Path(f"/proc/{child.pid}/status").read_text()
            peak, own = max(peak, _bytes("VmHWM", told)), max(own, _bytes("RssAnon", told))
            time.sleep(0.01)
        held = cap.peak()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said.seek(0)
            raise SystemExit(f"gz ingest ended with {child.returncode}:\n{said.read().decode()[-3000:]}")
    seconds = time.monotonic() - start
    return {
        "cpu": used.ru_utime + used.ru_stime, "system": used.ru_stime, "seconds": seconds,
        "peak_rss": peak, "peak_own": own, "peak_capped": held or 0,
    }  # fmt: skip


def _bytes(name: str, status: str) -> int:
    found = re.search(rf"{name}:\s*(\d+)", status)  # a process that is ending has none
    return int(found[1]) * 1024 if found else 0


def main() -> None:
    args = options(__doc__, profile=("papers100m-directed", "of papers100m.py"))
    import papers100m

    import gz

    papers = papers100m.Papers(args.scale, profile=args.profile)
    report = Report(f"order_ingest-{args.profile}", args, memory=MEMORY, nodes=papers.graph.num_nodes)
    with tempfile.TemporaryDirectory(dir=args.data) as place:
        folder = Path(place)
        given = write_inputs(papers, folder)
        used: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
        versions = set()
        bystanders = Bystanders()
        for _ in range(args.repeat):
            for name, more in WAYS.items():
                used[name].append(ingest(folder / "store", [*given, *more], args.threads))
                store = gz.open(folder / "store")
                versions.add(store.graph().version)
                del store
                shutil.rmtree(folder / "store")
        report.others = bystanders.share()
        capped = {}
        if os.geteuid() == 0:
            for name in (n for n, more in WAYS.items() if "hot" in more):
                capped[name] = ingest(folder / "store", [*given, *WAYS[name]], args.threads, MOST_BYTES)
                shutil.rmtree(folder / "store")
    if len(versions) != 1:
        raise SystemExit("the stores differ in their edges")
    best = {name: min(u["cpu"] for u in runs) for name, runs in used.items()}
    for name, runs in used.items():
        seconds, peak = min(u["seconds"] for u in runs), max(u["peak_rss"] for u in runs)
        ratio = seconds / min(u["seconds"] for u in used["plain"])
        report.note(
            f"{name}: {best[name]:.1f} s of processor time ({best[name] / best['plain']:.2f}x),"
            f" {seconds:.1f} s ({ratio:.2f}x), peak {peak / 1e9:.2f} GB,"
            f" its own {max(u['peak_own'] for u in runs) / 1e9:.2f} GB"
        )
    report.tables.append({"title": "ingest", "used": used, "capped": capped})
    peaks = {name: max(u["peak_rss"] for u in runs) for name, runs in used.items()}
    report.limits("peak memory", *(Limit(n, v / 1e9, MOST_BYTES / 1e9, "GB") for n, v in peaks.items()))
    for name, u in capped.items():
        report.note(
            f"{name}: done under a limit of {MOST_BYTES / 1e9:.1f} GB with page cache, {u['seconds']:.1f} s"
        )
    ratios = [Limit(name, best[name] / best["plain"], MOST, "x the plain one") for name in [*WAYS][1:]]
    report.limits("processor time", *ratios)
    report.finish()


if __name__ == "__main__":
    main()
