"""A graph into 4 parts for dgl.distributed: gz_dgl.partition beside dgl.distributed.partition_graph, each in
a process of its own; seconds, CPU seconds and memory.

Both by the same method (--method random: both assign at once, so that what is measured is the dividing;
metis: DGL's METIS in both; fennel: gz alone). partition_graph begins with its graph in memory, which is not
counted. gz runs under a limit (root) of 2 GB and what one part takes in memory. --scale 1 is 11.1 M nodes
and 155 M edges, which is too much for partition_graph on a small machine: --peer-limit 18 gives it 18 GB, and
where it is killed it says so (and is not judged); --no-peer 1 leaves it out.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import _common

PARTS, FEATURES = 4, 128
MEMORY = 2_000_000_000
# A part in memory: ends and ids of its edges and of those that leave it, its nodes and theirs, its rows.
EDGE, NODE, HALO = 25, 25 + 4 * FEATURES + 8 + 1, 25

SETUP = """
import numpy as np, torch
import gz_dgl, gz, dgl
"""
THEIRS = """
store = gz.open({store!r})
lists = store.graph()
dst = np.repeat(np.arange(lists.num_nodes), np.diff(lists.indptr))
ends = torch.from_numpy(lists.indices.astype(np.int64)), torch.from_numpy(dst)
g = dgl.graph(ends, num_nodes=lists.num_nodes)
del dst, ends
for name in store.node_columns():
    g.ndata[name] = torch.from_numpy(np.array(store.feature(name).get_tensor()))
g.ndata["train_mask"] = torch.zeros(g.num_nodes(), dtype=torch.bool)
g.ndata["train_mask"][torch.from_numpy(np.array(store.split("train")))] = True
weights = dict(balance_ntypes=g.ndata["train_mask"].long(), balance_edges=True)
weights = weights if {method!r} == "metis" else dict()
"""


def main() -> None:
    args = _common.options(
        __doc__,
        method=("random", "random, metis or fennel"),
        no_peer=(0, "1: leave partition_graph out"),
        peer_limit=(0.0, "GB partition_graph may take, its graph included; 0: as many as there are"),
    )
    from _process import run_python

    store = make(args)
    out = args.data / f"parts-{args.scale:g}"
    limit = None
    if os.geteuid() == 0:
        cut = {"random": 0.75, "metis": 0.3, "fennel": 0.5}[args.method]
        limit = int(MEMORY + one_part(args.scale, cut) + 3e8)  # Python, torch and DGL take 0.3 GB
    report = _common.Report("partition", args, parts=PARTS, method=args.method, memory=MEMORY, limit=limit)
    bystanders = _common.Bystanders()
    seconds: dict[str, list[float]] = {}
    for _ in range(args.repeat):
        runs = {}
        if not args.peers_only:
            call = f"{str(store)!r}, {str(out)!r}, {PARTS}, method={args.method!r}, memory={MEMORY}"
            runs["gz"] = (f"gz_dgl.partition({call})", SETUP, limit)
        if args.method != "fennel" and not args.no_peer:
            call = f"g, 'g', {PARTS}, {str(out)!r}, part_method={args.method!r}, **weights"
            setup = SETUP + THEIRS.format(store=str(store), method=args.method)
            cap = int(args.peer_limit * 1e9) or None
            runs["partition_graph"] = (f"dgl.distributed.partition_graph({call})", setup, cap)
        for name, (code, setup, cap) in runs.items():
            start = time.perf_counter()
            try:
                usage = run_python(code, setup=setup, limit=cap)
            except RuntimeError as error:
                if name == "gz" or "ended with -9" not in str(error):
                    raise
                after = time.perf_counter() - start
                report.note(
                    f"{name}: killed under {args.peer_limit:g} GB, {after:.0f} s after its process began"
                )
                shutil.rmtree(out, ignore_errors=True)
                continue
            seconds.setdefault(name, []).append(usage.seconds)
            held = f"; the cgroup held {usage.capped / 1e9:.2f} GB" if usage.capped else ""
            before = f", {usage.rss_before / 1e9:.2f} GB before it began"
            report.note(
                f"{name}: {usage.cpu:.1f} CPU s, peak RSS {usage.peak_rss / 1e9:.2f} GB{before}{held}"
            )
            shutil.rmtree(out)
    report.others = bystanders.share()
    judged = "gz" in seconds and "partition_graph" in seconds
    targets = (_common.Target("gz", ("partition_graph",), 1.0),) if judged else ()
    report.rates("graphs into parts", seconds, unit="graphs/s", targets=targets)
    report.finish()


def one_part(scale: float, cut: float) -> float:
    edges, nodes = 155e6 * scale, 11.106e6 * scale
    return edges / PARTS * (1 + cut) * EDGE + nodes / PARTS * NODE + nodes * HALO


def make(args) -> Path:
    import generate
    import numpy as np

    import gz

    path = args.data / f"partition-{args.scale:g}"
    if not path.exists():
        g = generate.Graph.scaled(args.scale, num_features=FEATURES)
        train = np.sort(np.random.default_rng(0).choice(g.num_nodes, g.num_nodes // 100, replace=False))
        columns = {"feat": generate.feature_chunks(g), "label": generate.labels(g)}
        gz.ingest(
            path,
            edges=generate.edge_chunks(g),
            num_nodes=g.num_nodes,
            features=columns,
            splits={"train": train},
            progress=False,
        )
    return path


if __name__ == "__main__":
    main()
