"""Whether knowing the next batches reads less than a cache that has seen the last ones: counts, no times.

    python benchmarks/look_ahead.py --scale 0.01

For each profile of papers100m.py: an epoch is sampled (gz, fanouts [15, 10, 5]), which ranks the rows and
fills the caches, and another is served by each policy of _policies.py, with memory for 5, 10 and 20 % of the
rows. A batch has 1,024 x scale seeds and so is as large a share of the graph as 1,024 are of all of it:
misses as a share of a batch's rows, neighbours that are joined into one read, and K batches as a share of
memory are those of the full size.

What batches that are sampled ahead take (4 bytes a node and 8 an edge, which is less than PyG's 8 and 16) is
taken off the memory of the policies that need them. Not counted against these: that the next group of
`unions` has to be read, beside the rows of this one, while this one is used.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import deque
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from _common import Report, options

PROFILES = ("papers100m-directed", "papers100m-symmetric", "friendster", "igb", "even")
SIZES = (0.05, 0.10, 0.20)
AHEAD = (4, 16, 64)
GAPS = (4096, 16384)
FANOUTS = (15, 10, 5)
ROW_BYTES = 512
WARM_UP = 1200  # batches of the first epoch, its last, that fill the caches


def topology(papers: Any, folder: Path) -> Any:
    """The graph of a profile, in a store without features."""
    import gz

    edges = (papers.edge_chunk(i) for i in range(papers.num_edge_chunks))
    gz.ingest(
        folder, edges=edges, num_nodes=papers.graph.num_nodes, undirected=papers.symmetric, memory="1GB"
    )
    return gz.open(folder).graph()


def counted(reads: Iterable[np.ndarray], batches: int) -> dict[str, float]:
    """Rows, reads and bytes a batch, for each gap that is read through rather than asked around."""
    from _policies import Count

    of = {gap: Count() for gap in GAPS}
    for rows in reads:
        for gap, count in of.items():
            count.add(rows, ROW_BYTES, gap)
    out = {"misses": of[GAPS[0]].rows / batches}
    for gap, count in of.items():
        out |= {f"reads_{gap}": count.reads / batches, f"bytes_{gap}": count.bytes / batches}
    return out


def measure(papers: Any, folder: Path, most: int) -> dict[str, Any]:
    import _curves
    import _policies

    graph = topology(papers, folder)
    n, seeds = papers.graph.num_nodes, papers.splits["train"]
    batch = max(1, round(1024 * papers.scale))
    count = np.zeros(n, np.int64)
    last: deque[np.ndarray] = deque(maxlen=WARM_UP)
    for nodes in _curves.epoch(graph, seeds, batch, FANOUTS, 0):
        count[nodes] += 1
        last.append(nodes)
    rank = np.empty(n, np.int64)
    rank[np.argsort(-count, kind="stable")] = np.arange(n)
    batches, edges = [], 0
    order = np.random.default_rng(1).permutation(seeds)
    for i, at in enumerate(range(0, len(order), batch)):
        found = graph.sample(order[at : at + batch], list(FANOUTS), rng_seed=1_000_003 + i)
        batches.append(found.nodes.astype(np.int32))
        edges += len(found.src)
    served = batches[:most]
    rows = sum(map(len, served)) / len(served)
    ahead = (4 * sum(map(len, batches)) + 8 * edges) / len(batches) / ROW_BYTES  # rows of memory
    uses = _policies.next_uses(batches, n)
    out: dict[str, Any] = {
        "nodes": n, "seeds": batch, "epoch": len(batches), "batches": len(served), "rows": rows,
        "edges": edges / len(batches), "ahead_rows": ahead, "sizes": {},
    }  # fmt: skip
    for size in SIZES:
        room = round(size * n)
        found = {
            "sieve": _policies.prefix(served, last, rank, room, share=0.0),
            "prefix": _policies.prefix(served, last, rank, room),
        }
        for k in AHEAD:
            less = room - round(k * ahead)
            if less < 2 * rows:
                continue
            found[f"look-ahead {k}"] = islice(_policies.look_ahead(batches, uses, k, rank, less), len(served))
            found[f"union {k}"] = _policies.unions(served, k, rank, less)
        found["belady"] = islice(_policies.look_ahead(batches, uses, len(batches), rank, room), len(served))
        out["sizes"][f"{size:g}"] = {name: counted(reads, len(served)) for name, reads in found.items()}
    return out


def table(record: dict[str, Any]) -> str:
    """Of a result file, for docs/papers100m.md: shares of a batch's rows."""
    names = ["sieve", "prefix", *(f"look-ahead {k}" for k in AHEAD), "belady"]
    head = ["SIEVE", "prefix + SIEVE", *(f"K = {k}" for k in AHEAD), "all known"]
    head += ["reads: prefix + SIEVE", *(f"union of {k}" for k in AHEAD)]
    lines = ["| profile, memory | " + " | ".join(head) + " |", "|---" * (len(head) + 1) + "|"]
    measured = {t["title"]: t for t in record["tables"]}
    for found in (measured[profile] for profile in PROFILES if profile in measured):
        for size, policies in found["sizes"].items():

            def cell(name: str, what: str, of: dict = policies, rows: float = found["rows"]) -> str:
                return f"{of[name][what] / rows:.1%}" if name in of else "-"

            cells = [cell(name, "misses") for name in names]
            cells += [cell(name, "reads_4096") for name in ("prefix", *(f"union {k}" for k in AHEAD))]
            lines.append(f"| `{found['title']}`, {float(size):.0%} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def shown(found: dict[str, Any]) -> None:
    rows = found["rows"]
    print(
        f"   {found['nodes']:,} nodes, {found['seeds']} seeds, {rows:,.0f} rows a batch"
        f" ({rows / found['nodes']:.2%} of the nodes), {found['batches']} batches"
    )
    for size, policies in found["sizes"].items():
        for name, at in policies.items():
            print(
                f"   {float(size):>4.0%} {name:<14} misses {at['misses'] / rows:7.2%}   reads"
                f" {at['reads_4096'] / rows:7.2%} {at['bytes_4096'] / 1e6:8.2f} MB   joined within 16 KiB"
                f" {at['reads_16384'] / rows:7.2%} {at['bytes_16384'] / 1e6:8.2f} MB"
            )


def main() -> None:
    args: argparse.Namespace = options(
        __doc__,
        profiles=(",".join(PROFILES), "which; others stay as they are in the result"),
        most=(400, "batches that are served; all of the epoch are known to Belady"),
    )
    import papers100m

    report = Report("look_ahead", args, fanouts=list(FANOUTS), row_bytes=ROW_BYTES)
    report.keep(set(args.profiles.split(",")))
    for profile in args.profiles.split(","):
        papers = papers100m.Papers(args.scale, profile=profile)
        with tempfile.TemporaryDirectory(dir=args.data) as folder:
            found = measure(papers, Path(folder) / "store", args.most)
        print(f"\n{profile}")
        shown(found)
        report.tables.append({"title": profile, **found})
        report.save()
    report.finish()


if __name__ == "__main__":
    main()
