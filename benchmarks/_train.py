"""GraphSAGE on a store or on its peers' data, one process, one JSON line at the end. Run by out_of_core.py.

    python benchmarks/_train.py WHO --store STORE [--lists DIR] --batches N ...

WHO:
  gz           gz_pyg.NeighborLoader as it comes
  gz-map       the same with everything through page faults: no queue, no row cache, nothing made ahead
  dgl-mapped   what a DGL user can write today: indptr, indices and features mapped with numpy and advised
               random (without that every fault reads ahead, megabytes on some disks), DGL's sampler
  dgl-memory   DGL with graph and features in memory
  pyg-memory   the arrays of a PyG Data in memory (PyG cannot sample without pyg-lib: it only has to load)
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import sys
import time
from pathlib import Path

FANOUTS, BATCH, HIDDEN = [15, 10, 5], 1024, 64


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("who", choices=("gz", "gz-map", "dgl-mapped", "dgl-memory", "pyg-memory"))
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--lists", type=Path, help="indptr.npy and indices.npy, int64; for DGL")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=5, help="batches before the clock starts")
    parser.add_argument("--cache", default="auto")
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--look-ahead", type=int, default=0, help="batches whose rows are read together")
    parser.add_argument("--split", default=None, help="of the store; all nodes when not given")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    os.environ.setdefault("DGLBACKEND", "pytorch")
    if args.who == "gz-map":
        os.environ["GZ_IO"], args.cache, args.prefetch = "map", "0", 0
    return args


class Clock:
    """Runs the loop for warm-up and measured batches and remembers the losses."""

    def __init__(self, args: argparse.Namespace, step):
        self.args, self.step = args, step
        self.losses: list[float] = []
        self.rows = 0

    def run(self, batches, on_start=lambda: None) -> dict:
        a = self.args
        start = None
        for number, batch in enumerate(batches):
            if number == a.warm_up:
                start = time.perf_counter()
                self.rows = 0
                on_start()
            loss, rows = self.step(batch)
            self.losses.append(loss)
            self.rows += rows
            if number + 1 == a.warm_up + a.batches:
                break
        seconds = time.perf_counter() - (start or time.perf_counter())
        return {
            "who": a.who,
            "batches_per_s": a.batches / seconds,
            "ms_per_batch": seconds / a.batches * 1e3,
            "rows_per_batch": self.rows / a.batches,
            "losses": self.losses,
        }


def memory() -> dict:
    with open("/proc/self/status") as f:
        fields = dict(line.split(":", 1) for line in f if line.startswith(("VmHWM", "RssAnon", "RssFile")))
    out = {k: int(v.split()[0]) * 1024 for k, v in fields.items()}
    return {"peak_rss": out["VmHWM"], "anonymous": out["RssAnon"]}


def disk_ticks(store: Path) -> tuple[int, int] | None:
    """(ms the device under `store` was busy, reads it made), from /proc/diskstats."""
    device = os.stat(store).st_dev
    for line in Path("/proc/diskstats").read_text().splitlines():
        f = line.split()
        if (int(f[0]), int(f[1])) == (os.major(device), os.minor(device)):
            return int(f[12]), int(f[3])
    return None


def train_gz(args: argparse.Namespace) -> dict:
    import torch
    from torch_geometric.nn import SAGEConv
    from torch_geometric.utils import trim_to_layer

    import gz
    import gz_pyg

    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    gz.set_num_threads(args.threads)
    opening = time.perf_counter()
    data = gz_pyg.load(args.store, cache=int(args.cache) if args.cache.isdigit() else args.cache)
    opening = time.perf_counter() - opening
    classes, width = 172, data.num_features
    convs = torch.nn.ModuleList(
        SAGEConv(a, b) for a, b in ((width, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, classes))
    )
    optimizer = torch.optim.Adam(convs.parameters(), lr=0.003)
    seeds = data.get_idx_split()[args.split] if args.split else None
    options = {"look_ahead": args.look_ahead} if args.look_ahead else {}
    loader = gz_pyg.NeighborLoader(
        data, FANOUTS, seeds, batch_size=BATCH, shuffle=True, prefetch=args.prefetch, **options
    )

    def step(batch):
        x, edges = batch.x.float(), batch.edge_index
        for i, conv in enumerate(convs):
            x, edges, _ = trim_to_layer(i, batch.num_sampled_nodes, batch.num_sampled_edges, x, edges)
            x = conv(x, edges)
            x = x.relu() if i + 1 < len(convs) else x
        loss = torch.nn.functional.cross_entropy(x[: batch.batch_size], batch.y[: batch.batch_size].view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach()), batch.x.shape[0]

    at_start: dict = {}

    def note() -> None:
        at_start["stats"], at_start["disk"] = data.store.stats(), disk_ticks(args.store)
        at_start["time"], at_start["cpu"] = time.perf_counter(), time.process_time()

    result = Clock(args, step).run(loader, note)
    stats, disk = data.store.stats(), disk_ticks(args.store)
    wall, cpu = time.perf_counter() - at_start["time"], time.process_time() - at_start["cpu"]
    x = os.path.relpath(data.store.feature("x").path, data.store.path)
    counts = ("hits", "misses", "mapped", "hot", "reads", "bytes_read")
    delta = {k: stats[x][k] - at_start["stats"][x][k] for k in counts}
    asked = delta["hits"] + delta["misses"] + delta["mapped"]

    def since_start(count: str) -> int:
        """Of the topology."""
        lists = [f for f in stats if f.endswith(".gl")]
        return sum(stats[f][count] - at_start["stats"].get(f, {}).get(count, 0) for f in lists)

    result |= {
        "open_ms": opening * 1e3,
        "plan": {f: s["plan"] for f, s in stats.items()},
        "io": stats[x]["io"],
        "cpu_s_per_batch": cpu / args.batches,
        "cache_bytes": stats[x]["cache_bytes"],
        "cache_why": stats[x]["cache_why"],
        "miss_rate": delta["misses"] / max(1, asked),
        "hit_rate": delta["hits"] / max(1, asked),
        "hot_rate": delta["hot"] / max(1, asked),
        "mapped_rate": delta["mapped"] / max(1, asked),
        "mb_read_per_batch": delta["bytes_read"] / args.batches / 1e6,
        "reads_per_batch": delta["reads"] / args.batches,
        "queue_depth": stats[x]["queue_depth"],
        "topology_reads_per_batch": since_start("reads") / args.batches,
        "topology_mb_read_per_batch": since_start("bytes_read") / args.batches / 1e6,
    }
    if disk and at_start["disk"]:
        result["device_busy"] = (disk[0] - at_start["disk"][0]) / 1e3 / wall
        result["device_reads_per_s"] = (disk[1] - at_start["disk"][1]) / wall
    return result


def train_dgl(args: argparse.Namespace, mapped: bool) -> dict:
    import warnings

    warnings.simplefilter("ignore")
    import dgl
    import numpy as np
    import torch
    from dgl.nn import SAGEConv

    torch.manual_seed(0)
    dgl.seed(0)
    torch.set_num_threads(args.threads)
    mode = "c" if mapped else None
    indptr, indices = (np.load(args.lists / f"{n}.npy", mmap_mode=mode) for n in ("indptr", "indices"))
    n = len(indptr) - 1
    where = args.store / "nodes" / "node"
    if mapped:
        x = np.memmap(where / "x.gd", np.float32, "c", offset=4096, shape=(n, 128))
        for a in (indptr, indices, x):
            a._mmap.madvise(mmap.MADV_RANDOM)
    else:
        x = np.fromfile(where / "x.gd", np.float32, offset=4096).reshape(n, 128)
    y = torch.from_numpy(np.fromfile(where / "y.gd", np.int16, offset=4096)[:n].astype(np.int64))
    x = torch.from_numpy(x)
    g = dgl.graph(
        ("csc", (torch.from_numpy(indptr), torch.from_numpy(indices), torch.zeros(0, dtype=torch.int64)))
    )
    if not mapped:
        g.ndata["x"] = x
    convs = torch.nn.ModuleList(
        SAGEConv(a, b, "mean") for a, b in ((128, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 172))
    )
    optimizer = torch.optim.Adam(convs.parameters(), lr=0.003)
    sampler = dgl.dataloading.NeighborSampler(FANOUTS[::-1])
    loader = dgl.dataloading.DataLoader(g, torch.randperm(n), sampler, batch_size=BATCH)

    def step(batch):
        inputs, outputs, blocks = batch
        h = x[inputs]
        for i, (conv, block) in enumerate(zip(convs, blocks, strict=True)):
            h = conv(block, h)
            h = h.relu() if i + 1 < len(convs) else h
        loss = torch.nn.functional.cross_entropy(h, y[outputs])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach()), len(inputs)

    return Clock(args, step).run(loader)


def load_pyg(args: argparse.Namespace) -> dict:
    import numpy as np
    import torch
    from torch_geometric.data import Data

    indptr, indices = (np.load(args.lists / f"{n}.npy") for n in ("indptr", "indices"))
    dst = torch.repeat_interleave(torch.arange(len(indptr) - 1), torch.from_numpy(np.diff(indptr)))
    x = np.fromfile(args.store / "nodes" / "node" / "x.gd", np.float32, offset=4096).reshape(
        len(indptr) - 1, 128
    )
    data = Data(x=torch.from_numpy(x), edge_index=torch.stack([torch.from_numpy(indices), dst]))
    return {"who": args.who, "loaded": str(data)}


def main() -> None:
    args = options()
    if args.who.startswith("gz"):
        result = train_gz(args)
    elif args.who.startswith("dgl"):
        result = train_dgl(args, args.who == "dgl-mapped")
    else:
        result = load_pyg(args)
    print(json.dumps(result | memory()), file=sys.stdout, flush=True)


if __name__ == "__main__":
    main()
