"""What came of a partitioning: sizes, balance and cut; and OUT/gz-partition.json, which has it and lists the
files that gz made there."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gz._base.replace import PARTITION
from gz.manifest import EdgeType


@dataclass
class Report:
    """Attributes:
    path: the folder.
    config: DGL's JSON in it.
    method: how nodes were assigned.
    nodes, edges: of each part, by type, in the order of ``ntypes`` and ``etypes``.
    chosen: nodes of the split that was balanced, of each part; empty without one.
    cut: edges whose ends are in two parts.
    halo: nodes of other parts that each part has a copy of.
    orig_nids, orig_eids: files of old ids in the order of new ones, by type.
    """

    path: str
    config: str
    method: str
    ntypes: list[str]
    etypes: list[EdgeType]
    nodes: list[list[int]]
    edges: list[list[int]]
    chosen: list[int]
    cut: int
    halo: list[int]
    orig_nids: dict[str, str]
    orig_eids: dict[str, str]
    seconds: float = field(default=0.0, compare=False)

    @property
    def num_edges(self) -> int:
        return sum(map(sum, self.edges))

    @property
    def balance(self) -> dict[str, float]:
        """The largest part as a multiple of the mean, of nodes, edges and the split."""
        sizes = {"nodes": [sum(n) for n in self.nodes], "edges": [sum(e) for e in self.edges]}
        if self.chosen:
            sizes["split"] = self.chosen
        return {k: max(v) * len(v) / sum(v) if sum(v) else 1.0 for k, v in sizes.items()}

    def lines(self) -> list[str]:
        share = self.cut / self.num_edges if self.num_edges else 0.0
        out = [
            f"{'part':>6} {'nodes':>14} {'halo':>14} {'edges':>16}"
            + (f" {'split':>12}" if self.chosen else "")
        ]
        for p, (n, h, e) in enumerate(zip(self.nodes, self.halo, self.edges, strict=True)):
            tail = f" {self.chosen[p]:>12,}" if self.chosen else ""
            out.append(f"{p:>6} {sum(n):>14,} {h:>14,} {sum(e):>16,}{tail}")
        told = ", ".join(f"{k} {v:.3f}" for k, v in self.balance.items())
        out.append(f"edge cut {self.cut:,} of {self.num_edges:,} ({share:.1%}); largest part / mean: {told}")
        return out

    def to_json(self) -> dict[str, Any]:
        return {
            "config": self.config,
            "method": self.method,
            "ntypes": self.ntypes,
            "etypes": [list(t) for t in self.etypes],
            "nodes": self.nodes,
            "edges": self.edges,
            "chosen": self.chosen,
            "cut": self.cut,
            "halo": self.halo,
            "orig_nids": self.orig_nids,
            "orig_eids": self.orig_eids,
        }


def write_report(report: Report, root: Path) -> None:
    files = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
    told = {"format": PARTITION.format, "files": [*files, PARTITION.marker], **report.to_json()}
    with open(root / PARTITION.marker, "w", encoding="utf-8") as f:
        json.dump(told, f, indent=1)
        f.flush()
        os.fsync(f.fileno())
