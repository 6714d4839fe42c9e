"""Writes the tables of measured figures into the pages from benchmarks/results: what is there was measured.

    python benchmarks/tables.py            after a benchmark was run
    python benchmarks/tables.py --check    fails when a table is not what the results give

A table lies between two comments, <!-- measured: NAME --> and <!-- end -->. Results of a run that was not
quiet (others took more than a tenth of a processor) are not used; the table of memory limits, which is about
who lives, says for each run what others took.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import memory_caps

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "reliability.md")


@dataclass(frozen=True)
class Row:
    """A contest of a result file: `ours` beside the fastest of `peers`, both by their best round."""

    label: str
    result: str
    title: str
    ours: str
    peers: tuple[str, ...] = ()
    shown_as: str = ""  # the peers' name in the table

    def cells(self) -> tuple[str, str, str, str, dict] | None:
        """Label, ours, peer, ratio and the record; None where it was not measured on a quiet machine."""
        path = RESULTS / f"{self.result}.json"
        record = json.loads(path.read_text()) if path.exists() else {}
        if not record.get("quiet"):
            return None
        table = next(t for t in record["tables"] if t.get("title") == self.title)
        best = {name: min(seconds) for name, seconds in table["seconds"].items()}
        spread = {name: max(s) / min(s) for name, s in table["seconds"].items()}

        def rate(name: str) -> str:
            return f"{_short(table['work'] / best[name])} {table['unit']} (worst round {spread[name]:.1f}x)"

        peers = [p for p in self.peers if p in best]
        if not peers:
            return self.label, rate(self.ours), "", "", record
        peer = min(peers, key=best.__getitem__)
        name = self.shown_as or peer
        return (
            self.label,
            rate(self.ours),
            f"{name}, {rate(peer)}",
            f"{best[peer] / best[self.ours]:.1f}x",
            record,
        )


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


DGL_SAMPLERS = tuple(
    f"dgl {how}, {width}" for how in ("fused", "sample_neighbors + to_block") for width in ("int64", "int32")
)
TABLES = {
    "warm": (
        Row("`Graph.sample`, 1024 seeds, [15, 10, 5]", "sample-scale1", "sampling", "gz",
            DGL_SAMPLERS[::2], "DGL, int64"),
        Row("the same, 32-bit ids for DGL", "sample-scale1", "sampling", "gz",
            DGL_SAMPLERS[1::2], "DGL, int32"),
        Row("the same beside pyg-lib", "sample-scale1", "sampling", "gz", ("pyg-lib",)),
        Row("by time, lists of up to 100,000, 4096 seeds, [10, 5]", "temporal-scale1", "by time", "gz_pyg",
            ("pyg-lib",)),
        Row("`gz_pyg.NeighborLoader` with features", "pyg_loader-scale1", "loader: sample and gather",
            "gz_pyg", ("PyG NeighborLoader", "dgl DataLoader, int64", "dgl DataLoader, int32")),
        Row("gz_dgl in DGL's DataLoader with features", "dgl_loader-scale1",
            "batches of 1024 with 128 float32 features", "gz_dgl, int64",
            ("DGL in memory, int64", "DGL in memory, int32")),
        Row("uniform walks of 20 steps", "walk-scale1", "uniform walk", "gz", ("graphzero",)),
        Row("node2vec walks of 20 steps", "walk-scale1", "node2vec walk", "gz", ("graphzero",)),
        Row("gather, 300 k rows of 512 bytes", "gather-scale1", "gather", "gz gather",
            ("torch x[ids]", "torch index_select")),
        Row("the same into a given buffer", "gather-scale1", "gather", "gz gather(out=)",
            ("torch index_select(out=)",)),
        Row("CSV to `.gl`", "convert-scale1", "CSV to .gl", "gz", ("graphzero",)),
    ),
}  # fmt: skip


def table(name: str) -> str:
    """The rows that were measured, and under them where and when."""
    if name == "memory":
        path = RESULTS / "memory_caps-scale1.json"
        return memory_caps.table(json.loads(path.read_text())) if path.exists() else "Not measured yet."
    rows = [cells for row in TABLES[name] if (cells := row.cells()) is not None]
    if not rows:
        return "Not measured on a quiet machine yet."
    lines = ["| | gz | peer | ratio |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(cells[:4]) + " |" for cells in rows]
    records = [cells[4] for cells in rows]
    machine = records[0]["machine"]
    dates = sorted({r["date"] for r in records})
    others = max(r["others"] for r in records)
    lines += [
        "",
        f"{machine['cpu']}, {machine['threads']} threads, {machine['ram']}, {' and '.join(dates)}; best of "
        f"{min(r['setting']['repeat'] for r in records)} rounds or more, contestants in turn in one process; "
        f"others took at most {others:.0%} of a processor.",
    ]
    return "\n".join(lines)


def filled(text: str) -> str:
    """A page with its tables as the results give them."""

    def replaced(match: re.Match[str]) -> str:
        return f"{match[1]}\n{table(match[2])}\n<!-- end -->"

    return re.sub(r"(<!-- measured: (\w+) -->)\n.*?<!-- end -->", replaced, text, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    texts = {page: page.read_text() for page in PAGES}
    if args.check:
        old = [page.name for page, text in texts.items() if filled(text) != text]
        sys.exit(f"{', '.join(old)}: run python benchmarks/tables.py" if old else 0)
    for page, text in texts.items():
        page.write_text(filled(text))


if __name__ == "__main__":
    main()
