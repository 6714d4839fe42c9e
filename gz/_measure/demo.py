"""gz demo: one training script twice under one memory limit, on a graph whose files are several times larger.

With the graph in files it trains; with the graph in memory it is killed. Then a picture of both.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gz._base.sizes import amount
from gz._ingest import ingest
from gz._measure.capped import Limit, Ran, run
from gz._measure.demo_graph import CLASSES, DemoGraph
from gz._report.svg import Level, Series, lines, standalone
from gz._report.units import BYTES
from gz._watch import storage

_MARK = "made-by-gz-demo.json"
_PHASES = {"train": "training begins", "test": "testing", "done": "ending"}


@dataclass(frozen=True)
class Options:
    folder: str = "gz-demo"
    picture: str = "gz-demo.svg"
    size: int = 3_000_000_000  # of the files
    limit: int = 1_000_000_000
    seconds: float = 40.0  # of training
    keep: bool = False


@dataclass
class Found:
    graph: DemoGraph
    store_bytes: int
    limit: Limit
    generated: float  # seconds
    files: Ran
    memory: Ran
    result: dict[str, Any]  # what the script told at its end


def demonstrate(options: Options, say: Callable[[str], None], live: Callable[[str], None]) -> Found:
    """`say` takes lines that stay, `live` one that changes."""
    folder = prepare(options)
    os.makedirs(folder, exist_ok=True)
    limit = Limit.of(options.limit)
    try:
        begun = time.monotonic()
        graph, store = _generate(options, folder, say)
        generated = time.monotonic() - begun
        size = _bytes_below(store)
        say(f"limit       {amount(options.limit)} for each run: {limit.how}")
        say("page cache  the files' pages are dropped before each run")
        say("")
        say("1. the graph in files:   data = gz_pyg.load(path)")
        files = _train("files", options, limit, folder, store, live)
        live("")
        result = _last(folder, "files")
        say(_told(files, result))
        say("2. the graph in memory:  data = Data(x=..., edge_index=..., y=...)")
        memory = _train("memory", options, limit, folder, store, live)
        live("")
        say(_told(memory, _last(folder, "memory")))
        found = Found(graph, size, limit, generated, files, memory, result)
        with open(options.picture, "w", encoding="utf-8") as f:
            f.write(picture(found))
        return found
    finally:
        limit.close()
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


def prepare(options: Options) -> str:
    """The folder to work in, where there is room. What an interrupted demo left is used again."""
    folder = os.path.abspath(options.folder)
    if os.path.lexists(folder) and not os.path.isfile(os.path.join(folder, _MARK)):
        raise FileExistsError(17, "exists and is not of gz demo; name another with --dir", folder)
    needed = int(options.size * 1.4) + 500_000_000 * (options.size > 10**8)
    above = folder if os.path.isdir(folder) else os.path.dirname(folder)
    if not os.path.isdir(above):
        raise FileNotFoundError(2, "there is no such folder", above)
    free = shutil.disk_usage(above).free + (_bytes_below(folder) if os.path.isdir(folder) else 0)
    if free < needed:
        raise OSError(
            28,
            f"{amount(needed)} of disk are needed, {amount(free)} are free; give --dir or a smaller --size",
            above,
        )
    return folder


def _generate(options: Options, folder: str, say: Callable[[str], None]) -> tuple[DemoGraph, str]:
    graph, store = DemoGraph.of_size(options.size), os.path.join(folder, "store")
    mark = os.path.join(folder, _MARK)
    wanted = {"num_nodes": graph.num_nodes, "num_edges": graph.num_edges}
    if os.path.isdir(store) and _read(mark) == wanted:
        say(f"graph       {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, of an earlier run")
        return graph, store
    with open(mark, "w", encoding="utf-8") as f:
        f.write("{}")
    ingest(
        store,
        edges=graph.edges(),
        features={"x": graph.features(), "y": graph.labels()},
        num_nodes=graph.num_nodes,
        splits=graph.splits(),
        memory="500MB",
        overwrite=True,
    )
    with open(mark, "w", encoding="utf-8") as f:
        json.dump(wanted, f)
    say(f"graph       {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {graph.num_features} features")
    say(f"files       {amount(_bytes_below(store))} in {store}")
    return graph, store


def _read(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def _forget(store: str) -> None:
    """Drops what the page cache has of the files: pages that another process brought in are not counted
    against the limit, and would make it look as if nothing had to be read."""
    for folder, _, files in os.walk(store):
        for file in files:
            storage.forget(os.path.join(folder, file))


def _bytes_below(folder: str) -> int:
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(folder) for f in files)


def _train(
    data: str, options: Options, limit: Limit, folder: str, store: str, live: Callable[[str], None]
) -> Ran:
    command = [
        sys.executable,
        "-m",
        "gz_pyg._tools.train",
        store,
        "--data",
        data,
        "--seconds",
        f"{options.seconds:g}",
    ]
    if limit.folder is None:
        # The governor sees the machine's memory, not the watched limit: a row cache of a quarter of it.
        command += ["--cache", str(options.limit // 4)]
    out = os.path.join(folder, f"{data}.txt")

    def each(seconds: float, memory: float) -> None:
        line = _last(folder, data)
        begins = "reading the graph" if data == "memory" else "starting"
        what = line.get("postfix") or _PHASES.get(line.get("phase", ""), begins)
        live(f"{seconds:4.0f} s  {what}  memory {amount(memory)} of {amount(limit.bytes)}")

    _forget(store)
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return run(command, limit, out, each, env)


def _last(folder: str, data: str) -> dict[str, Any]:
    """The last whole line that the script told."""
    try:
        with open(os.path.join(folder, f"{data}.txt"), "rb") as f:
            f.seek(max(0, os.path.getsize(f.name) - 8192))
            told = f.read().decode(errors="replace").split("\n")[:-1]
    except OSError:
        return {}
    for line in reversed(told):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except ValueError:
                continue
    return {}


def _told(ran: Ran, result: dict[str, Any]) -> str:
    if ran.killed:
        return f"   KILLED after {ran.seconds:.0f} s for want of memory, last seen with {amount(ran.peak)}"
    if ran.code != 0:
        reason = next((line for line in reversed(ran.lines) if line.strip()), "")
        return f"   FAILED after {ran.seconds:.0f} s: {reason.strip()[:300]}"
    stats = result.get("stats", {})
    asked = stats.get("mapped", 0) + stats.get("hits", 0) + stats.get("misses", 0)
    missed = f", {100 * stats['misses'] / asked:.0f} % of the rows read from disk" if asked else ""
    return (
        f"   done: {result['batches']:,} batches in {result['seconds']:.0f} s, "
        f"{result['batches'] / result['seconds']:.1f} batches/s{missed}; "
        f"test accuracy {result['accuracy']:.3f} of {CLASSES} classes; peak memory {amount(ran.peak)}"
    )


def picture(found: Found) -> str:
    """Memory over time of both, as a file of its own."""
    killed = found.memory.killed
    drawn = [
        Series(
            "graph in files (gz)",
            found.files.memory,
            "trains to the end" if found.files.code == 0 else "failed",
        ),
        Series("graph in memory (PyG)", found.memory.memory, "killed" if killed else "ends"),
    ]
    level = Level(f"limit {amount(found.limit.bytes)}; files {amount(found.store_bytes)}", found.limit.bytes)
    return standalone(lines(drawn, BYTES, what="memory of its own", level=level))
