"""What making batches ahead is worth: an epoch with gz_pyg.NeighborLoader(prefetch=0, 1, 2, 4).

Three consumers of the same batches (1024 seeds, fanouts [10, 5], features gathered, no workers):

  model on the CPU     a small GraphSAGE that shares the cores with the loader: there is little to gain,
                       and nothing must be lost
  model elsewhere      waits as long as a batch takes to make, without using the CPU, as a script does whose
                       model is on a GPU; twice as fast would be perfect
  rows from the disk   the model on the CPU again, the page cache emptied before each epoch: while rows are on
                       their way, the CPU trains

Wanted of prefetch=2 against prefetch=0: no loss (0.95x, for noise), 1.6x, and a gain (1.1x).

Besides, what it costs the thread that trains to be handed a batch that is there: CPU time of that thread
alone (time.thread_time around next()), so that others on the machine count only by the caches they empty.
What the same takes with a list of finished batches, mostly the clock itself, is taken off. Wanted: below
0.1 ms.
"""

from __future__ import annotations

import statistics
import time

import _common
import _process
from pyg_loader import BATCH

DEPTHS = (0, 1, 2, 4)
HAND_OVER = 0.1  # ms
SETTLED = 4  # batches until the pipeline runs
FANOUTS = [10, 5]


def make_model(threads):
    import torch
    from torch_geometric.nn import SAGEConv

    torch.set_num_threads(threads)
    torch.manual_seed(0)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([SAGEConv(128, 64), SAGEConv(64, 172)])

        def forward(self, x, edge_index):
            for layer in self.layers[:-1]:
                x = torch.nn.functional.dropout(layer(x, edge_index).relu(), 0.5, self.training)
            return self.layers[-1](x, edge_index)

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

    def train(batch):
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size].long())
        loss.backward()
        optimizer.step()
        return loss.item()

    return train


def epochs(loader_of, consume):
    """Contestants: an epoch at each depth."""

    def run(depth):
        def epoch(turn):
            for batch in loader_of(depth):
                consume(batch)

        return epoch

    return {f"prefetch={d}": run(d) for d in DEPTHS}


def cold(report, loader_of, consume) -> dict[str, list[float]]:
    """Seconds of an epoch, the page cache emptied before it, which is not timed."""
    seconds: dict[str, list[float]] = {f"prefetch={d}": [] for d in DEPTHS}
    for _ in range(report.args.repeat):
        for depth in DEPTHS:
            if not _process.drop_caches():
                return {}
            start = time.perf_counter()
            for batch in loader_of(depth):
                consume(batch)
            seconds[f"prefetch={depth}"].append(time.perf_counter() - start)
    return seconds


def hand_over(batches, wait: float) -> float:
    """CPU seconds of this thread to get the next batch: the median, the first ones left out."""
    iterator, seconds = iter(batches), []
    for _ in range(len(batches)):
        start = time.thread_time()
        batch = next(iterator)
        seconds.append(time.thread_time() - start)
        del batch
        time.sleep(wait)  # until the next one is there
    return statistics.median(seconds[SETTLED:] or seconds)


def cost(report, loader_of, made: float) -> None:
    """The least disturbed round counts, of the loader and of the list alike."""
    loader = loader_of(0)
    ready = [next(iter(loader))] * len(loader)
    ahead, at_hand = [], []
    for _ in range(max(report.args.repeat, 3)):
        ahead.append(hand_over(loader_of(2), 2 * made))
        at_hand.append(hand_over(ready, 2 * made))
    each = ", ".join(f"{s * 1e3:.3f}" for s in ahead)
    report.note(f"CPU ms by round, median of its batches: {each}; from a list {min(at_hand) * 1e3:.3f}")
    report.limits(
        "what prefetch=2 costs the training thread, CPU time of a batch",
        _common.Limit("prefetch=2", (min(ahead) - min(at_hand)) * 1e3, HAND_OVER, "ms"),
    )


def main() -> None:
    args = _common.options(
        __doc__,
        batches=(20, "batches in an epoch"),
        disk=(1, "0 leaves out the part that empties the page cache, which everybody on the machine feels"),
    )
    import numpy as np
    import torch
    from _data import Data

    import gz
    import gz_pyg

    data = Data(args.data, args.scale)
    report = _common.Report("prefetch", args, batch=BATCH, fanouts=FANOUTS, workers=0)
    gz.set_num_threads(args.threads)
    count = min(args.batches * BATCH, data.graph.num_nodes)
    seeds = torch.from_numpy(np.random.default_rng(1).choice(data.graph.num_nodes, count, replace=False))
    path = data.store()
    batches = -(-count // BATCH)

    def loader_of(depth):
        return gz_pyg.NeighborLoader(path, FANOUTS, seeds, batch_size=BATCH, prefetch=depth)

    def target(ratio):
        return (_common.Target("prefetch=2", ("prefetch=0",), ratio),)

    _process.warm(*(p for p in path.rglob("*") if p.is_file()))
    train = make_model(args.threads)
    report.contest(
        "model on the CPU, rows in the page cache",
        epochs(loader_of, train),
        unit="batches/s",
        work=batches,
        targets=target(0.95),
    )

    made = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in loader_of(0):
            pass
        made.append((time.perf_counter() - start) / batches)
    report.note(f"a batch takes {min(made) * 1e3:.1f} ms to make; the model elsewhere takes as long")
    report.contest(
        "model elsewhere, rows in the page cache",
        epochs(loader_of, lambda batch: time.sleep(min(made))),
        unit="batches/s",
        work=batches,
        targets=target(1.6),
    )

    cost(report, loader_of, min(made))
    seconds = cold(report, loader_of, train) if args.disk else {}
    if seconds:
        title = "model on the CPU, rows from the disk"
        report.rates(title, seconds, unit="batches/s", work=batches, targets=target(1.1))
    else:
        report.note("rows from the disk are not measured: --disk 0, or not allowed to empty the page cache")
    report.finish()


if __name__ == "__main__":
    main()
