"""dgl.dataloading.DataLoader with features, warm: gz_dgl over a store against DGL on a graph in memory.

The script is DGL's: NeighborSampler with its defaults, prefetched features, one line differs. At least 4x
DGL, with int64 and with int32 ids. Then the same script under a memory limit that a graph in memory does not
fit.
"""

from __future__ import annotations

import signal

import _common

BATCH, FANOUTS, BATCHES, RATIO = 1024, [5, 10, 15], 10, 4.0  # DGL lists fanouts from the inputs to the seeds
CAPPED_DATA = 4e8  # bytes in memory below which a limit would measure Python's own size

LOOP = """
def run(g, seeds):
    # DGL's fused sampler is wrong for int32 after its first batch (see sample.py). Results are compared.
    fused = g.idtype == torch.int64 or type(g) is not dgl.DGLGraph
    sampler = dgl.dataloading.NeighborSampler({fanouts}, prefetch_node_feats=["x"], fused=fused)
    loader = dgl.dataloading.DataLoader(g, seeds, sampler, batch_size={batch}, shuffle=False)
    rows = 0
    for input_nodes, output_nodes, blocks in loader:
        rows += len(blocks[0].srcdata["x"])
    return rows
"""

IN_MEMORY = """
import warnings; warnings.simplefilter("ignore")
import dgl, numpy as np, torch, gz_dgl
"""

CAPPED_GZ = "g = gz_dgl.load({store!r})\nrun(g, torch.randint(g.num_nodes(), ({seeds},)))"
CAPPED_DGL = """
with np.load({lists!r}) as z:
    indptr, indices = torch.from_numpy(z["indptr"]), torch.from_numpy(z["indices"])
g = dgl.graph(("csc", (indptr, indices, torch.zeros(0, dtype=torch.int64))))
g.ndata["x"] = torch.from_numpy(np.fromfile({features!r}, np.float32, offset=4096).reshape(g.num_nodes(), -1))
run(g, torch.randint(g.num_nodes(), ({seeds},)))
"""


def capped(report, data, store, in_memory_bytes):
    """Both scripts under a limit of half of what the graph and its features take in memory."""
    from _process import drop_caches, run_python

    if in_memory_bytes < CAPPED_DATA:
        report.note(
            f"memory limit: not judged, {in_memory_bytes / 1e9:.2f} GB of data is too little: --scale 0.1"
        )
        return
    lists = data.folder / "lists.npz"
    import gz

    values = {"store": str(store), "lists": str(lists), "seeds": BATCHES * 64}
    values["features"] = gz.open(store).feature("x").path
    setup = IN_MEMORY + LOOP.format(fanouts=FANOUTS, batch=64)
    base = run_python("pass", setup=setup).rss_after
    limit = int(base + in_memory_bytes / 2)
    report.note(
        f"limit {limit / 1e9:.2f} GB: imports {base / 1e9:.2f}, data in memory {in_memory_bytes / 1e9:.2f}"
    )
    try:
        drop_caches()  # pages that others have read would not count against the limit
        ours = run_python(CAPPED_GZ.format(**values), setup=setup, limit=limit)
    except PermissionError as e:
        report.note(f"memory limit: not judged, {e}")
        return
    report.note(
        f"gz_dgl under it: {BATCHES * 64 / ours.seconds:.0f} seeds/s, peak {ours.peak_rss / 1e9:.2f} GB"
    )
    try:
        run_python(CAPPED_DGL.format(**values), setup=setup, limit=limit)
        killed = 0.0
    except RuntimeError as e:
        killed = float(f"ended with {-signal.SIGKILL.value}" in str(e))
        report.note(f"DGL in memory under the limit: {str(e).splitlines()[0]}")
    report.limits(
        "the limit ends DGL in memory", _common.Limit("runs that were not killed", 1 - killed, 0, "")
    )


def main() -> None:
    args = _common.options(__doc__)
    import warnings

    warnings.simplefilter("ignore")
    import dgl
    import numpy as np
    import torch
    from _data import Data

    data = Data(args.data, args.scale)
    graph = data.graph
    report = _common.Report(
        "dgl_loader",
        args,
        nodes=graph.num_nodes,
        edges=graph.num_edges,
        features=graph.num_features,
        batch=BATCH,
        fanouts=FANOUTS,
        batches=BATCHES,
        workers=0,
        data_lies="page cache (gz), process memory (DGL)",
    )
    torch.set_num_threads(args.threads)
    indptr, indices = (torch.from_numpy(a) for a in data.lists())
    store = data.store()
    import gz

    x = torch.from_numpy(np.array(gz.open(store).feature("x").get_tensor()))
    scope = {"dgl": dgl, "torch": torch}
    exec(LOOP.format(fanouts=FANOUTS, batch=BATCH), scope)
    run = scope["run"]
    graphs = {}
    for name, dtype in (("DGL in memory, int64", torch.int64), ("DGL in memory, int32", torch.int32)):
        none = torch.zeros(0, dtype=dtype)
        graphs[name] = dgl.graph(("csc", (indptr.to(dtype), indices.to(dtype), none)))
        graphs[name].ndata["x"] = x
    if not args.peers_only:
        import gz_dgl

        gz.set_num_threads(args.threads)
        graphs["gz_dgl, int64"] = gz_dgl.load(store)
        graphs["gz_dgl, int32"] = gz_dgl.load(store, idtype=torch.int32)
    contestants = {}
    rng = np.random.default_rng(0)
    # Distinct seeds: DGL's fused sampler is wrong for others.
    seeds = [
        torch.from_numpy(rng.choice(graph.num_nodes, BATCHES * BATCH, replace=False))
        for _ in range(args.repeat + 1)
    ]
    for name, g in graphs.items():
        rounds = [ids.to(g.idtype) for ids in seeds]
        contestants[name] = lambda turn, g=g, rounds=rounds: run(g, rounds[turn + 1])
    data.warm_store()
    rows = {name: run(-1) for name, run in contestants.items()}
    if max(rows.values()) > 1.02 * min(rows.values()):
        raise SystemExit(f"the contestants do not do the same work: input nodes {rows}")
    peers = tuple(n for n in graphs if n.startswith("DGL"))
    ours = [n for n in graphs if n.startswith("gz")]
    report.contest(
        f"batches of {BATCH} with {graph.num_features} float32 features",
        contestants,
        unit="batches/s",
        work=BATCHES,
        targets=tuple(_common.Target(n, peers, RATIO, scale=1) for n in ours),
    )
    if not args.peers_only:
        in_memory = 8.0 * (graph.num_nodes + graph.num_edges) + 4.0 * graph.num_nodes * graph.num_features
        capped(report, data, store, in_memory)
    report.finish()


if __name__ == "__main__":
    main()
