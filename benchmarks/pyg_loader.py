"""The loader, warm, without a model: gz_pyg.NeighborLoader against DGL's DataLoader and, with pyg-lib, PyG's.

Batches of 1024 seeds, fanouts [15, 10, 5], features gathered, no workers, the same graph for everybody.
Wanted: 5x DGL, 8x PyG, and a heterogeneous sample at no more than 1.5x a homogeneous one's cost per edge.

DGL runs as its users run it: the graph in memory, features in `ndata`, which its DataLoader gathers; with
64-bit ids, its default, and with 32-bit ids, judged on their own. gz reads a store through the page cache.
The heterogeneous graph has the same edges, dealt out to four types between two node types.
"""

from __future__ import annotations

import functools

import _common

FANOUTS = [15, 10, 5]
BATCH = 1024
TARGET_DGL, TARGET_PYG, HETERO_COST = 5.0, 8.0, 1.5


def gz_contestant(data, seeds, threads):
    import torch

    import gz
    import gz_pyg

    gz.set_num_threads(threads)
    loader = gz_pyg.NeighborLoader(data.store(), FANOUTS, torch.from_numpy(seeds), batch_size=BATCH)

    def run(turn):
        for batch in loader:
            assert batch.x.shape[0] == batch.n_id.shape[0]

    return run


@functools.cache
def features(data):
    """In RAM, once for all who keep them there."""
    import torch

    import gz

    return torch.from_numpy(gz.open(data.store()).feature("x").get_tensor().copy())


def dgl_contestants(data, seeds, threads):
    import dgl
    import torch

    torch.set_num_threads(threads)
    dgl.utils.set_num_threads(threads)
    indptr, indices = (torch.from_numpy(a) for a in data.lists())
    wide = dgl.graph(("csc", (indptr, indices, torch.empty(0, dtype=torch.int64))), num_nodes=len(indptr) - 1)
    x = features(data)
    out = {}
    for width, graph in (("int64", wide), ("int32", wide.int())):
        graph.ndata["x"] = x
        # DGL's fused sampler is wrong for int32 here: it gives a fraction of the nodes.
        fused = graph.idtype == torch.int64
        sampler = dgl.dataloading.NeighborSampler(FANOUTS[::-1], prefetch_node_feats=["x"], fused=fused)
        ids = torch.from_numpy(seeds).to(graph.idtype)
        loader = dgl.dataloading.DataLoader(graph, ids, sampler, batch_size=BATCH, num_workers=0)

        def run(turn, loader=loader):
            for _, _, blocks in loader:
                assert blocks[0].srcdata["x"].shape[0] == blocks[0].num_src_nodes()

        out[f"dgl DataLoader, {width}"] = run
    return out


def pyg_contestant(data, seeds):
    """PyG's own loader on arrays in memory; None where pyg-lib is not installed."""
    import torch_geometric.typing

    if not torch_geometric.typing.WITH_PYG_LIB:
        return None
    import torch
    from torch_geometric.data import Data as PyGData
    from torch_geometric.loader import NeighborLoader

    indptr, indices = (torch.from_numpy(a) for a in data.lists())
    col = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())
    x = features(data)
    graph = PyGData(x=x, edge_index=torch.stack([indices, col]))
    loader = NeighborLoader(graph, FANOUTS, torch.from_numpy(seeds), batch_size=BATCH, is_sorted=True)

    def run(turn):
        for batch in loader:
            assert batch.x.shape[0] == batch.n_id.shape[0]

    return run


def hetero_cost(data, seeds, report) -> None:
    """Seconds per sampled edge, heterogeneous against homogeneous: the sampler alone, in memory."""
    import time

    import torch
    from torch_geometric.data import Data as PyGData
    from torch_geometric.data import HeteroData
    from torch_geometric.sampler import NodeSamplerInput

    import gz_pyg

    indptr, indices = (torch.from_numpy(a) for a in data.lists())
    n = (len(indptr) - 1) // 2 * 2
    col = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())
    keep = (indices < n) & (col < n)
    row, col = indices[keep], col[keep]
    homogeneous = gz_pyg.NeighborSampler(
        PyGData(edge_index=torch.stack([row, col]), num_nodes=n), FANOUTS, is_sorted=True
    )
    graph = HeteroData()
    graph["even"].num_nodes = graph["odd"].num_nodes = n // 2
    names = ("even", "odd")
    for a in (0, 1):
        for b in (0, 1):
            mine = (row % 2 == a) & (col % 2 == b)
            edge_index = torch.stack([row[mine] // 2, col[mine] // 2])
            graph[names[a], "to", names[b]].edge_index = edge_index
    # Half the fanout of each type: about as many edges.
    heterogeneous = gz_pyg.NeighborSampler(graph, [(k + 1) // 2 for k in FANOUTS], is_sorted=True)
    best = {}
    for _ in range(report.args.repeat):
        for name, sampler in (("homogeneous", homogeneous), ("heterogeneous", heterogeneous)):
            start, edges = time.perf_counter(), 0
            for i in range(0, len(seeds), BATCH):
                nodes = torch.from_numpy(seeds[i : i + BATCH])
                if name == "homogeneous":
                    out = sampler.sample_from_nodes(NodeSamplerInput(None, nodes % n))
                    edges += out.row.numel()
                else:
                    out = sampler.sample_from_nodes(NodeSamplerInput(None, nodes % (n // 2), None, "even"))
                    edges += sum(r.numel() for r in out.row.values())
            cost = (time.perf_counter() - start) / edges
            best[name] = min(best.get(name, cost), cost)
    report.note(", ".join(f"{k}: {v * 1e9:.1f} ns per sampled edge" for k, v in best.items()))
    ratio = best["heterogeneous"] / best["homogeneous"]
    limit = _common.Limit("heterogeneous / homogeneous", ratio, HETERO_COST, "x per edge")
    report.limits("heterogeneous sampling", limit)


def main() -> None:
    args = _common.options(
        __doc__,
        batches=(20, "batches in a round"),
        peer=(
            "both",
            "dgl or pyg: the other is left out, where both do not fit into memory beside the files",
        ),
    )
    import numpy as np
    from _data import Data

    data = Data(args.data, args.scale)
    report = _common.Report(
        "pyg_loader" if args.peer != "pyg" else "pyg_loader-pyg",
        args,
        batch=BATCH,
        fanouts=FANOUTS,
        workers=0,
        data_in="RAM (DGL, PyG), page cache (gz)",
    )
    count = min(args.batches * BATCH, data.graph.num_nodes)
    seeds = np.random.default_rng(1).choice(data.graph.num_nodes, count, replace=False)
    contestants = {}
    if not args.peers_only:
        contestants["gz_pyg"] = gz_contestant(data, seeds, args.threads)
    peers = dgl_contestants(data, seeds, args.threads) if args.peer != "pyg" else {}
    contestants |= peers
    pyg = pyg_contestant(data, seeds) if args.peer != "dgl" else None
    if pyg is not None:
        contestants["PyG NeighborLoader"] = pyg
    elif args.peer != "dgl":
        report.note("pyg-lib is not installed here: PyG's own loader cannot sample, and is not judged")
    data.warm_store()
    report.contest(
        "loader: sample and gather",
        contestants,
        unit="batches/s",
        work=-(-count // BATCH),
        targets=(
            *(_common.Target("gz_pyg", (name,), TARGET_DGL, scale=1) for name in peers),
            *(
                _common.Target("gz_pyg", (name,), TARGET_PYG, scale=1)
                for name in ("PyG NeighborLoader",)
                if pyg
            ),
        ),
    )
    if not args.peers_only and args.peer != "pyg":
        del contestants, peers, pyg  # what they hold would leave no room for the graphs in memory here
        features.cache_clear()
        hetero_cost(data, seeds, report)
    report.finish()


if __name__ == "__main__":
    main()
