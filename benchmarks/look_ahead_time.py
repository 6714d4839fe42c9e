"""What `look_ahead` of a loader is worth: reads, bytes and batches/s with and without, under a memory limit.

    python benchmarks/papers100m.py generate --profile friendster --scale 0.05 --out /data/friendster
    python benchmarks/look_ahead_time.py --store /data/friendster

Each run is a process of its own: gz_pyg.NeighborLoader on the store's training nodes, shuffled, in batches of
as large a share of the graph as 1,024 are of papers100M, fanouts [15, 10, 5], 2 threads; sampling and
gathering alone, or with `--hidden 64` a step of GraphSAGE each. The limit is as large a share as 8 GiB are of
papers100M, and `--beside` for torch, page cache included; caches are dropped before each run; root. One epoch
of `--batches` warms up, the next is measured as a whole, so that no read of a batch ahead is left out. Rounds
are interleaved, and of times the best counts; the rows of all runs are compared. Reads and bytes do not
depend on who else uses the machine, unless the governor sees less room.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from _common import machine
from _process import drop_caches
from out_of_core import run

ITERATE = """
import json, sys, time, zlib
import torch, gz, gz_pyg
path, o = sys.argv[1], json.loads(sys.argv[2])
gz.set_num_threads(2)
torch.set_num_threads(2)
data = gz_pyg.load(path, cache=o["cache"])
graph, x = data.store.graph(), data.store.feature("x")
torch.manual_seed(1)
train = torch.as_tensor(data.store.split("train"))
train = train[torch.randperm(len(train))][: o["batches"] * o["batch"]]
loader = gz_pyg.NeighborLoader(data, o["fanouts"], train, batch_size=o["batch"], shuffle=True,
                               look_ahead=o["look_ahead"])
step = lambda batch: None
if o["hidden"]:
    from torch_geometric.nn import GraphSAGE
    classes = int(data.y[train].max()) + 1
    model = GraphSAGE(x.shape[1], o["hidden"], len(o["fanouts"]), classes)
    optimizer = torch.optim.Adam(model.parameters())
    def step(batch):
        optimizer.zero_grad()
        n = batch.batch_size
        torch.nn.functional.cross_entropy(model(batch.x, batch.edge_index)[:n], batch.y[:n].long()).backward()
        optimizer.step()
def epoch():
    check = rows = 0
    for batch in loader:
        check = zlib.crc32(batch.x[:100].numpy().tobytes(), check)
        rows += batch.num_nodes
        step(batch)
    return check, rows
epoch()
before, lists, began, cpu = x.stats(), graph.stats(), time.perf_counter(), time.process_time()
check, rows = epoch()
seconds, cpu, after, n = time.perf_counter() - began, time.process_time() - cpu, x.stats(), len(loader)
found = {k: (after[k] - before[k]) / n for k in ("mapped", "hits", "misses", "reads", "bytes_read")}
print(json.dumps(dict(
    batches=n, rows=rows / n, **found, topology_reads=(graph.stats()["reads"] - lists["reads"]) / n,
    together=loader.stats().get("batches_together", 1.0), cache_bytes=after["cache_bytes"],
    batches_per_s=n / seconds, cpu_per_batch=cpu / n, check=check)))
"""


def table(runs: dict[str, list[dict]]) -> str:
    heads = ("look_ahead", "read together", "rows a batch", "misses", "reads", "MB", "topology reads")
    heads += ("batches/s", "CPU a batch", "most memory")
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for name, all_rounds in runs.items():
        rounds = [r for r in all_rounds if "ended" not in r]
        if not rounds:
            lines.append(f"| {name} | {all_rounds[0]['ended']} |" + " |" * (len(heads) - 2))
            continue
        best = max(rounds, key=lambda r: r["batches_per_s"])
        mean = {k: sum(r[k] for r in rounds) / len(rounds) for k in best if isinstance(best[k], int | float)}
        lines.append(
            f"| {name} | {mean['together']:.1f} | {mean['rows']:,.0f} | {mean['misses']:,.0f} | "
            f"{mean['reads']:,.0f} | {mean['bytes_read'] / 1e6:.1f} | {mean['topology_reads']:,.0f} | "
            f"{best['batches_per_s']:.2f} | {min(r['cpu_per_batch'] for r in rounds) * 1e3:.0f} ms | "
            f"{mean.get('peak_cgroup', 0) / 1e6:,.0f} MB |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--look-ahead", default="4,16", help="numbers of batches; without is always run")
    parser.add_argument("--batches", type=int, default=192, help="of an epoch; each is run twice")
    parser.add_argument("--batch-size", type=int, default=0, help="0: the share that 1,024 are of papers100M")
    parser.add_argument("--fanouts", default="15,10,5")
    parser.add_argument("--hidden", type=int, default=0, help="0: no model")
    parser.add_argument("--cache", default="auto", help="of gz_pyg.load")
    parser.add_argument("--limit", type=float, default=8.0, help="GiB, for a graph of papers100M's size")
    parser.add_argument("--beside", type=float, default=0.5, help="GiB, for torch; added to the limit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write all runs there")
    args = parser.parse_args()
    args.data = args.store

    import gz

    store = gz.open(args.store)
    share = store.num_nodes() / 111_059_956
    options = {
        "batch": args.batch_size or max(1, round(1024 * share)),
        "batches": args.batches,
        "fanouts": [int(f) for f in args.fanouts.split(",")],
        "hidden": args.hidden,
        "cache": args.cache,
    }
    limit = int((args.limit * share + args.beside) * 2**30)
    wanted: dict[str, int | None] = {"off": None} | {k: int(k) for k in args.look_ahead.split(",")}
    runs: dict[str, list[dict]] = {name: [] for name in wanted}
    for _ in range(args.rounds):
        for name, look_ahead in wanted.items():
            drop_caches()
            given = json.dumps(options | {"look_ahead": look_ahead})
            runs[name].append(run(["-c", ITERATE, str(args.store), given], limit))
            print(json.dumps({name: runs[name][-1]}), file=sys.stderr)
    about = {"machine": machine(args), "limit": limit, "options": options}
    print(f"{json.dumps(about)}\n\n{table(runs)}")
    if args.json:
        args.json.write_text(json.dumps(about | {"runs": runs}, indent=1))
    checks = {r["check"] for rounds in runs.values() for r in rounds if "check" in r}
    if len(checks) > 1:
        raise SystemExit("the rows differ")


if __name__ == "__main__":
    main()
