"""What gz info draws: how many nodes have how many edges, and which files the bytes are in."""

from __future__ import annotations

import numpy as np

from gz._base.progress import WIDTH
from gz._base.sizes import amount
from gz.graph import Graph

_MOST_LINES = 12
_NODES = 1 << 20  # looked at together


def degree_histogram(graph: Graph) -> list[dict[str, int]]:
    """Nodes by degree: 0, 1, 2 to 3, 4 to 7, ... up to the largest."""
    counts = np.zeros(65, np.int64)
    indptr = graph.indptr
    for first in range(0, max(len(indptr) - 1, 0), _NODES):
        degrees = np.diff(indptr[first : first + _NODES + 1])
        counts += np.bincount(np.frexp(degrees.astype(np.float64))[1], minlength=65)  # 2^(e-1) <= d < 2^e
    used = int(np.flatnonzero(counts).max(initial=-1)) + 1
    return [{"from": (1 << e) >> 1, "to": max((1 << e) - 1, 0), "nodes": int(counts[e])} for e in range(used)]


def degree_lines(histogram: list[dict[str, int]]) -> list[str]:
    """As bars, wider steps where there are too many."""
    while len(histogram) > _MOST_LINES:
        zero, rest = histogram[0], histogram[1:]
        pairs = [rest[i : i + 2] for i in range(0, len(rest), 2)]
        histogram = [zero] + [
            {"from": p[0]["from"], "to": p[-1]["to"], "nodes": sum(b["nodes"] for b in p)} for p in pairs
        ]
    spans = [f"{b['from']:,}" + (f" to {b['to']:,}" if b["to"] > b["from"] else "") for b in histogram]
    counts = [f"{b['nodes']:,}" for b in histogram]
    return _bars(spans, counts, [b["nodes"] for b in histogram])


def size_lines(files: dict[str, int]) -> list[str]:
    """The largest files, as bars, and the others together."""
    names = sorted(files, key=lambda f: (-files[f], f))
    sizes = {f: files[f] for f in names[:_MOST_LINES]}
    if len(names) > _MOST_LINES:
        sizes[f"{len(names) - _MOST_LINES} others"] = sum(files[f] for f in names[_MOST_LINES:])
    return _bars(list(sizes), [amount(n) for n in sizes.values()], list(sizes.values()))


def _bars(names: list[str], told: list[str], values: list[int]) -> list[str]:
    """name  what is told  share  bar: in the columns of a terminal; a name that is too long keeps its end."""
    wide = max((len(t) for t in told), default=0)
    left = min(max((len(n) for n in names), default=0), WIDTH - wide - 24)
    room = WIDTH - 2 - left - 2 - wide - 2 - 5 - 2  # at least ten
    total, most = max(sum(values), 1), max([*values, 1])
    lines = []
    for name, text, value in zip(names, told, values, strict=True):
        shown = name if len(name) <= left else "..." + name[3 - left :]
        bar = "#" * (-(-value * room // most))  # something, where there is something
        lines.append(f"  {shown:<{left}}  {text:>{wide}}  {100 * value / total:3.0f} %  {bar}".rstrip())
    return lines
