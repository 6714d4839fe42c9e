"""gz bench: sampling, gathering and loading, cold and warm, beside the peers that are installed.

Everything runs in a process of its own, one after the other: what one holds or breaks is its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gz._measure.about import degrees, describe_store
from gz._measure.disk import measure
from gz._measure.phase import Spec
from gz._measure.workload import Request, Workload
from gz._watch import machine, software, storage
from gz._watch.recorder import read_record
from gz.store import open_store

VERSION = 1


@dataclass(frozen=True)
class Contestant:
    task: str  # what is measured: sampling, gathering, loading
    who: str
    module: str
    name: str  # of the task, to the module
    needs: tuple[str, ...] = ()


CONTESTANTS = (
    Contestant("sampling", "gz", "gz._measure.child", "sample"),
    Contestant(
        "sampling", "pyg-lib, in memory", "gz_pyg._tools.peers", "sample pyg-lib", ("torch", "pyg_lib")
    ),
    Contestant("sampling", "DGL, in memory", "gz_dgl._peer", "sample dgl", ("torch", "dgl")),
    Contestant("gathering", "gz", "gz._measure.child", "gather"),
    Contestant(
        "gathering", "torch on np.memmap", "gz_pyg._tools.peers", "gather torch", ("torch", "torch_geometric")
    ),
    Contestant(
        "loading", "gz_pyg.NeighborLoader", "gz_pyg._tools.load", "load", ("torch", "torch_geometric")
    ),
)


TASKS = tuple(dict.fromkeys(c.task for c in CONTESTANTS))


@dataclass(frozen=True)
class Options:
    request: Request
    cache: str = "auto"
    seconds: float = 5.0
    peers: bool = True
    tasks: tuple[str, ...] = TASKS


def run(path: str, options: Options, scratch: str, say: Callable[[str], None]) -> dict[str, Any]:
    """All that was found, for JSON and for the report. `scratch`: a folder for records."""
    work = Workload(
        open_store(path, options.cache), options.request
    )  # what is wrong is said before anything runs
    asked = work.describe()
    largest = work.largest_file
    del work  # it holds the files open, and mapped pages stay in memory
    versions = software.versions()
    phases: list[dict[str, Any]] = []
    skipped: list[dict[str, Any]] = []
    for c in CONTESTANTS:
        if c.task not in options.tasks or (not options.peers and not c.who.startswith("gz")):
            continue
        missing = [p for p in c.needs if versions.get(p) is None]
        if missing:
            skipped.append({"task": c.task, "who": c.who, "why": f"not installed: {', '.join(missing)}"})
            continue
        say(f"{c.task}: {c.who}")
        found = _in_child(c, path, options, scratch)
        (skipped if "why" in found else phases).append({"task": c.task, "who": c.who, **found})
    say("the disk")
    disk = measure(largest, max(0.5, options.seconds / 2), say)
    store = open_store(path, options.cache)
    return {
        "kind": "bench",
        "version": VERSION,
        "started": time.time(),
        "machine": machine.describe(),
        "storage": storage.describe(path),
        "versions": versions,
        "store": describe_store(store),
        "degrees": {" ".join(t): degrees(store.graph(t)) for t in store.edge_types},
        "workload": asked | {"cache": options.cache, "seconds": options.seconds},
        "disk": disk,
        "phases": phases,
        "skipped": skipped,
    }


def _in_child(c: Contestant, path: str, options: Options, scratch: str) -> dict[str, Any]:
    """What came of it, or ``why`` nothing did."""
    r = options.request
    files = {name: os.path.join(scratch, f"{name}.json") for name in ("spec", "result", "record")}
    spec = Spec(
        c.name,
        os.path.abspath(path),
        options.cache,
        options.seconds,
        files["record"],
        files["result"],
        r.fanouts,
        r.batch_size,
        r.split,
        r.node_type,
    )
    spec.write(files["spec"])
    if os.path.exists(files["result"]):
        os.unlink(files["result"])
    command = [sys.executable, "-m", c.module, files["spec"]]
    env = {**os.environ, "DGLBACKEND": "pytorch"}
    done = subprocess.run(command, cwd=scratch, env=env, capture_output=True, text=True)
    if done.returncode != 0 or not os.path.exists(files["result"]):
        return {"why": _reason(done)}
    with open(files["result"], encoding="utf-8") as f:
        found: dict[str, Any] = json.load(f)
    if "skipped" in found:
        return {"why": found["skipped"]}
    return found | {"samples": read_record(files["record"]).samples}


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode == -9:
        return "killed, most likely for want of memory"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"ended with {done.returncode}"
