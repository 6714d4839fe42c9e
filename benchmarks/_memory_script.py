"""A training script as people write it, for memory_caps.py: GraphSAGE on a store, one JSON line at the end.

    python benchmarks/_memory_script.py --store STORE --framework pyg|dgl [--cache auto] [--prefetch 2] ...

With several loaders (training, validation, test, all given the same path) a step takes a batch of each.
`--grow` has the script take that many MiB more from the middle of the run on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
import warnings


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--framework", choices=("pyg", "dgl"), default="pyg")
    parser.add_argument("--cache", default="auto")
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--loaders", type=int, default=1)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--fanouts", default="15,10,5")
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--warm-up", type=int, default=4)
    parser.add_argument("--grow", type=int, default=0)
    args = parser.parse_args()
    args.cache = int(args.cache) if args.cache.isdigit() else args.cache
    args.fanouts = [int(k) for k in args.fanouts.split(",")]
    os.environ.setdefault("DGLBACKEND", "pytorch")
    warnings.simplefilter("ignore")
    return args


def pyg(args: argparse.Namespace):
    """The loaders, the layers, and what a layer stack makes of a batch."""
    from torch_geometric.nn import SAGEConv
    from torch_geometric.utils import trim_to_layer

    import gz_pyg

    def loader():
        data = gz_pyg.load(args.store, cache=args.cache)
        options = {"batch_size": args.batch, "shuffle": True, "num_workers": args.workers}
        return gz_pyg.NeighborLoader(data, args.fanouts, None, prefetch=args.prefetch, **options)

    def forward(convs, batch):
        x, edges = batch.x.float(), batch.edge_index
        for i, conv in enumerate(convs):
            x, edges, _ = trim_to_layer(i, batch.num_sampled_nodes, batch.num_sampled_edges, x, edges)
            x = conv(x, edges)
            x = x.relu() if i + 1 < len(convs) else x
        return x[: batch.batch_size], batch.y[: batch.batch_size].view(-1)

    loaders = [loader() for _ in range(args.loaders)]
    return loaders, SAGEConv, forward, lambda: loaders[0].data.store.stats()


def dgl(args: argparse.Namespace):
    import torch
    from dgl.dataloading import DataLoader, MultiLayerNeighborSampler
    from dgl.nn import SAGEConv

    import gz_dgl

    graphs = [gz_dgl.load(args.store, cache=args.cache) for _ in range(args.loaders)]

    def loader(g):
        sampler = MultiLayerNeighborSampler(
            args.fanouts[::-1], prefetch_node_feats=["x"], prefetch_labels=["y"]
        )
        seeds = torch.randperm(g.num_nodes())
        plain = DataLoader(g, seeds, sampler, batch_size=args.batch, num_workers=args.workers)
        return gz_dgl.prefetch(plain, args.prefetch) if args.prefetch else plain

    def forward(convs, batch):
        h = batch[2][0].srcdata["x"].float()
        for i, (conv, block) in enumerate(zip(convs, batch[2], strict=True)):
            h = conv(block, h)
            h = h.relu() if i + 1 < len(convs) else h
        return h, batch[2][-1].dstdata["y"].view(-1)

    return (
        [loader(g) for g in graphs],
        lambda a, b: SAGEConv(a, b, "mean"),
        forward,
        lambda: graphs[0].store.stats(),
    )


def endless(loader):
    while True:
        yield from loader


def main() -> None:
    args = options()
    import torch

    import gz

    torch.manual_seed(0)
    loaders, layer, forward, stats = {"pyg": pyg, "dgl": dgl}[args.framework](args)
    store = gz.open(args.store, cache=0)
    classes, width = int(store.feature("y").gather([0, 1]).max()) + 172, store.feature("x").shape[1]
    widths = [width, *[args.hidden] * (len(args.fanouts) - 1), classes]
    convs = torch.nn.ModuleList(layer(a, b) for a, b in itertools.pairwise(widths))
    optimizer = torch.optim.Adam(convs.parameters(), lr=0.003)
    batches = [endless(loader) for loader in loaders]
    taken, losses, start, cpu = [], [], time.perf_counter(), time.process_time()
    for number in range(args.warm_up + args.batches):
        if number == args.warm_up:
            start, cpu = time.perf_counter(), time.process_time()
        if args.grow and number == args.warm_up + args.batches // 2:
            taken.append(torch.ones(args.grow << 18))
        for which, it in enumerate(batches):
            with torch.set_grad_enabled(which == 0):  # the others validate
                out, y = forward(convs, next(it))
                loss = torch.nn.functional.cross_entropy(out, y)
            if which == 0:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            losses.append(float(loss.detach()))
            del out, y, loss
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    found = next((s for f, s in stats().items() if f.endswith("x.gd")), {})
    result = {
        "batches_per_s": args.batches / seconds,
        "cpu_s": cpu / args.batches,  # of a batch, without what workers take
        "hits": found.get("hits", 0) / max(1, found.get("hits", 0) + found.get("misses", 0)),
        "cache": found.get("cache_bytes", 0),
        "cache_why": found.get("cache_why", ""),
        "memory": found.get("memory", {}),
        "losses": losses,
    }
    print(json.dumps(result), file=sys.stdout, flush=True)
    sys.stdout.flush()
    os._exit(0)  # workers and their queues need not be waited for


if __name__ == "__main__":
    main()
