"""Writes the tables of measured figures into the pages from benchmarks/results: what is there was measured.

    python benchmarks/tables.py            after a benchmark was run
    python benchmarks/tables.py --check    fails when a table is not what the results give

A table lies between two comments, <!-- measured: NAME --> and <!-- end -->. Results of a run that was not
quiet (others took more than a tenth of a processor) are not used in the table of what is warm. Runs under a
memory limit, which wait for the disk and take hours, are shown all the same and marked; the table of memory
limits, which is about who lives, says for each run what others took.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import layout
import look_ahead
import memory_caps
import papers_train
import small_accuracy

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (
    ROOT / "README.md",
    *(ROOT / "docs" / name for name in ("reliability.md", "papers100m.md", "howto.md")),
)


@dataclass(frozen=True)
class Row:
    """A contest of a result file: `ours` beside the fastest of `peers`, both by their best round."""

    label: str
    result: str
    title: str
    ours: str
    peers: tuple[str, ...] = ()
    shown_as: str = ""  # the peers' name in the table

    def cells(self, quiet: bool = True) -> tuple[str, str, str, str, dict] | None:
        """Label, ours, peer, ratio and the record; None where it was not measured (on a quiet machine)."""
        record = _record(self.result)
        if not record or (quiet and not record.get("quiet")):
            return None
        table = next(t for t in record["tables"] if t.get("title") == self.title)
        best = {name: min(seconds) for name, seconds in table["seconds"].items()}
        spread = {name: max(s) / min(s) for name, s in table["seconds"].items()}

        def rate(name: str) -> str:
            worst = f" (worst round {spread[name]:.1f}x)" if len(table["seconds"][name]) > 1 else ""
            return f"{_short(table['work'] / best[name])} {table['unit']}{worst}"

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


@dataclass(frozen=True)
class Trained:
    """A run of benchmarks/papers_train.py, which has no peer."""

    label: str
    run: str

    def cells(self, quiet: bool = True) -> tuple[str, str, str, str, dict] | None:
        record = _record("papers_train")
        found = record.get("runs", {}).get(self.run)
        if found is None or "batches_per_s" not in found:
            return None
        calm = found["others"] <= 0.1
        if quiet and not calm:
            return None
        about = {"machine": record["machine"], "date": found["date"].split()[0], "quiet": calm}
        return self.label, f"{_short(found['batches_per_s'])} batches/s", "", "", about


@dataclass(frozen=True)
class Killed:
    """How scripts with the graph in memory ended under the limit."""

    label: str
    result: str

    def cells(self, quiet: bool = True) -> tuple[str, str, str, str, dict] | None:
        record = _record(self.result)
        ended = {
            t["title"].partition("-memory")[0].replace("pyg", "PyG").replace("dgl", "DGL"): t["limits"][0]
            for t in record.get("tables", ())
            if t.get("title", "").endswith("-memory: finished")
        }
        if not ended or (quiet and not record.get("quiet")):
            return None
        how = ", ".join(f"{who}: {'finished' if at['value'] else 'killed'}" for who, at in ended.items())
        return self.label, "", how, "", record


def _record(result: str) -> dict:
    path = RESULTS / f"{result}.json"
    return json.loads(path.read_text()) if path.exists() else {}


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
            "gz_pyg", ("dgl DataLoader, int64", "dgl DataLoader, int32")),
        Row("the same beside PyG's own with pyg-lib", "pyg_loader-pyg-scale1", "loader: sample and gather",
            "gz_pyg", ("PyG NeighborLoader",)),
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
    "cold": (
        Row("100 k rows of 512 bytes, none in memory, limit 1 GiB", "out_of_core-gather-scale1",
            "cold gather, 1 GiB limit", "gz gather", ("torch memmap[ids], MADV_RANDOM",),
            "torch on `np.memmap`, `MADV_RANDOM`"),
        Row("GraphSAGE, 11.1 M nodes, 155 M edges, limit 2 GiB", "out_of_core-train-scale1",
            "training, 2 GiB limit", "gz", ("dgl-mapped",), "DGL on mapped arrays"),
        Killed("the same with the graph in memory", "out_of_core-killed-scale1"),
        Trained("GraphSAGE, 111 M nodes, 1.6 B edges, 57 GB of features, hot rows in front, limit 8 GiB",
                "papers100m-directed, float32, hot first, 8 GiB, scale 1"),
        Trained("the same, limit 16 GiB", "papers100m-directed, float32, hot first, 16 GiB, scale 1"),
        Trained("the same as int8, limit 8 GiB", "papers100m-directed, int8, hot first, 8 GiB, scale 1"),
        Row("46.5 M edges, CSV to a store, budget 2 GB", "edge_ingest-scale0.3", "CSV to a store", "gz, CSV",
            ("graphzero",)),
    ),
}  # fmt: skip
# Tables of counts, which others on the machine do not change, and that of memory limits: a result each.
COUNTED = {
    "memory": ("memory_caps-scale1", memory_caps.table),
    "papers": ("papers_train", papers_train.table),
    "look_ahead": ("look_ahead-scale0.004", look_ahead.table),
    "layout": ("layout-scale0.01", layout.table),
    "accuracy": ("small_accuracy-scale0.004", small_accuracy.table),
}
MARK = "\u2020"


def table(name: str) -> str:
    """The rows that were measured, and under them where and when."""
    if name in COUNTED:
        result, of = COUNTED[name]
        return of(record) if (record := _record(result)) else "Not measured yet."
    if name == "cold":
        return _cold()
    rows = [cells for row in TABLES[name] if (cells := row.cells()) is not None]
    if not rows:
        return "Not measured on a quiet machine yet."
    records = [cells[4] for cells in rows]
    others = max(r["others"] for r in records)
    rounds = min(r["setting"]["repeat"] for r in records)
    return _lines(rows) + (
        f"; best of {rounds} rounds or more, contestants in turn in one process; others took at most"
        f" {others:.0%} of a processor."
    )


def _cold() -> str:
    """Every run there is; a mark at those of which nobody can say that the machine was quiet."""
    rows = []
    for row in TABLES["cold"]:
        if (cells := row.cells(quiet=False)) is not None:
            mark = "" if cells[4].get("quiet") else f" {MARK}"
            rows.append((cells[0] + mark, *cells[1:]))
    if not rows:
        return "Not measured yet."
    loads = [cells[4]["machine"]["load"] for cells in rows if cells[0].endswith(MARK)]
    if not loads:
        return _lines(rows) + "."
    return _lines(rows) + (
        f". {MARK} The machine may have had other work: its load was up to {max(loads):.1f} as the run began."
    )


def _lines(rows: list[tuple[str, str, str, str, dict]]) -> str:
    """A table, and the begin of the sentence below it: where and when."""
    lines = ["| | gz | peer | ratio |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(cells[:4]) + " |" for cells in rows]
    records = [cells[4] for cells in rows]
    machine = records[0]["machine"]
    dates = sorted({r["date"] for r in records})
    where = f"{machine['cpu']}, {machine['threads']} threads, {machine['ram']}, {' and '.join(dates)}"
    return "\n".join([*lines, "", where])


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
