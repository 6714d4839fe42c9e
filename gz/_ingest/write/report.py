"""What an ingest did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class IngestReport:
    """What an ingest did. Prints as a summary, and can be used as the path of the store.

    Attributes:
        path: the store.
        num_nodes, num_edges: by type.
        skipped_lines, first_skipped: lines left out by ``on_bad_line="skip"``: how many, and the first.
        seconds: that it took.
        notes: what the caller should know, as text.
        plan: how the inputs were read; ``store.json`` has it too.
    """

    path: str
    num_nodes: dict[str, int]
    num_edges: dict[tuple[str, str, str], int]
    skipped_lines: int = 0
    first_skipped: str = ""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    plan: dict[str, Any] = field(default_factory=dict)

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        nodes, edges = sum(self.num_nodes.values()), sum(self.num_edges.values())
        text = f"{self.path}: {nodes:,} nodes, {edges:,} edges in {self.seconds:.1f} s"
        if self.skipped_lines:
            text += f"\nskipped {self.skipped_lines:,} bad lines, the first: {self.first_skipped}"
        return text + "".join(f"\n{n}" for n in self.notes)

    def as_json(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        edges = [{"type": list(t), "num_edges": n} for t, n in self.num_edges.items()]
        return dict(vars(self)) | {"num_edges": edges}

    def as_dict(self) -> dict[str, Any]:
        """Counts over all types."""
        return {
            "num_nodes": sum(self.num_nodes.values()),
            "num_edges": sum(self.num_edges.values()),
            "skipped_lines": self.skipped_lines,
            "seconds": self.seconds,
        }
