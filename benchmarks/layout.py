"""Whether rows that are not held in memory are read in fewer pieces when they lie in another order: counts.

    python benchmarks/layout.py --scale 0.01

For each profile of papers100m.py, as in look_ahead.py: an epoch is sampled, which ranks the rows; the rows
most read are held, a small SIEVE serves the rest, and what is missed is read, neighbours together as
csrc/read/extents.cpp does it. The same misses are counted in each order of _layouts.py.

An order by community is about nodes that are near each other, not about shares of the graph. So a community
has as many nodes here as at full size, and there are `scale` times 172 of them, at least 2.

The profiles have nothing finer than these communities: edges inside of one end anywhere in it. `cora` and
`citeseer` are the other end: copies of the real graph, each a component of its own, ids shuffled over all.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import deque
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from _common import Report, options

PROFILES = ("papers100m-directed", "papers100m-symmetric", "friendster", "igb", "cora", "citeseer")
SIZES = (0.05, 0.10, 0.20)
FANOUTS = (15, 10, 5)
ROW_BYTES = 512
# Where the real graphs lie.
DATA = Path(os.environ.get("GZ_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@dataclass
class Input:
    graph: Any
    seeds: np.ndarray
    truth: np.ndarray  # the community of each node


def generated(profile: str, scale: float, folder: Path) -> Input:
    import look_ahead
    import papers100m

    papers = papers100m.Papers(scale, profile=profile, classes=max(2, round(172 * scale)))
    truth = papers.labels(np.arange(papers.graph.num_nodes))
    return Input(look_ahead.topology(papers, folder), papers.splits["train"], truth)


def copies(name: str, scale: float, folder: Path) -> Input:
    """As many nodes as papers100M has at this scale; 1 % of them are seeds."""
    import gz

    found = np.load(DATA / f"{name}.npz", allow_pickle=False)
    indptr, src = found["adj_indptr"].astype(np.int64), found["adj_indices"].astype(np.int64)
    n = len(indptr) - 1
    dst = np.repeat(np.arange(n), np.diff(indptr))
    times = max(2, round(111_059_956 * scale / n))
    ids = np.random.default_rng(0).permutation(n * times)
    edges = ((ids[src + i * n], ids[dst + i * n]) for i in range(times))
    gz.ingest(folder, edges=edges, num_nodes=n * times, undirected=True, coalesce=True)
    truth = np.empty(n * times, np.int64)
    truth[ids] = np.arange(n * times) // n
    return Input(gz.open(folder).graph(), np.arange(n * times // 100), truth)  # ids are shuffled


def measure(given: Input, batch: int, most: int) -> dict[str, Any]:
    import _curves
    import _layouts
    import _policies

    graph, n = given.graph, len(given.truth)
    count = np.zeros(n, np.int64)
    last: deque[np.ndarray] = deque(maxlen=200)
    for nodes in _curves.epoch(graph, given.seeds, batch, FANOUTS, 0):
        count[nodes] += 1
        last.append(nodes)
    order = np.argsort(-count, kind="stable")
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    when, label = _layouts.breadth(graph, given.seeds), _layouts.labels(graph)
    orders = {
        "ids": np.arange(n),
        "tiers": _layouts.tiers(rank),
        "tiers, labels": _layouts.tiers(rank, label, when),
        "frequency": order,
        "labels": _layouts.touched_first(count, label, when),
        "breadth": _layouts.touched_first(count, when),
        "seeds": _layouts.touched_first(count, _layouts.by_seed(graph, given.seeds, list(FANOUTS)), rank),
        "truth": _layouts.touched_first(count, given.truth, rank),
    }
    served = list(islice(_curves.epoch(graph, given.seeds, batch, FANOUTS, 1), most))
    rows = sum(map(len, served)) / len(served)
    out: dict[str, Any] = {
        "nodes": n, "seeds": batch, "batches": len(served), "rows": rows,
        "touched": float((count > 0).mean()), "sizes": {},
    }  # fmt: skip
    for size in SIZES:
        missed = list(_policies.prefix(served, last, rank, round(size * n)))
        of = out["sizes"][f"{size:g}"] = {}
        for name, each in orders.items():
            place = np.empty(n, np.int64)
            place[each] = np.arange(n)
            total = _policies.Count()
            for some in missed:
                total.add(place[some], ROW_BYTES)
            of[name] = {
                "misses": total.rows / len(served),
                "reads": total.reads / len(served),
                "bytes": total.bytes / len(served),
            }
    return out


def table(record: dict[str, Any]) -> str:
    """Of a result file, for docs/papers100m.md: reads for each row that is missed."""
    names = {"ids": "ids", "tiers": "tiers", "tiers, labels": "tiers by community", "frequency": "frequency"}
    names |= {"labels": "label propagation", "breadth": "breadth first", "seeds": "by seed"}
    names |= {"truth": "true communities"}
    lines = ["| profile, memory | misses | " + " | ".join(names.values()) + " |"]
    lines.append("|---" * (len(names) + 2) + "|")
    measured = {t["title"]: t for t in record["tables"] if "sizes" in t}
    for found in (measured[profile] for profile in PROFILES if profile in measured):
        for size, of in found["sizes"].items():
            misses = of["ids"]["misses"]
            cells = [f"{of[name]['reads'] / max(1, misses):.2f}" for name in names]
            share = f"{misses / found['rows']:.1%}"
            lines.append(f"| `{found['title']}`, {float(size):.0%} | {share} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def shown(found: dict[str, Any]) -> None:
    rows = found["rows"]
    print(f"   {found['nodes']:,} nodes, {rows:,.0f} rows a batch, {found['touched']:.1%} touched")
    for size, orders in found["sizes"].items():
        misses = orders["ids"]["misses"]
        reads = ", ".join(f"{name} {at['reads'] / max(1, misses):.3f}" for name, at in orders.items())
        megabytes = ", ".join(f"{at['bytes'] / 1e6:.2f}" for at in orders.values())
        print(f"   {float(size):>4.0%} misses {misses / rows:6.2%}; reads a miss: {reads}; MB: {megabytes}")


def main() -> None:
    args: argparse.Namespace = options(
        __doc__,
        profiles=(",".join(PROFILES), "which; others stay as they are in the result"),
        most=(300, "batches that are served"),
    )
    report = Report("layout", args, fanouts=list(FANOUTS), row_bytes=ROW_BYTES)
    report.keep(set(args.profiles.split(",")))
    batch = max(1, round(1024 * args.scale))
    for profile in args.profiles.split(","):
        make = copies if profile in ("cora", "citeseer") else generated
        if make is copies and not (DATA / f"{profile}.npz").exists():
            report.note(f"{profile}: not there")
            continue
        with tempfile.TemporaryDirectory(dir=args.data) as folder:
            found = measure(make(profile, args.scale, Path(folder) / "store"), batch, args.most)
        print(f"\n{profile}")
        shown(found)
        report.tables.append({"title": profile, **found})
        report.save()
    report.finish()


if __name__ == "__main__":
    main()
