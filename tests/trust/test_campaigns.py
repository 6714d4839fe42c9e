"""Long campaigns, short in every run of the tests: many threads and forks at once, each answer exact; and
training under a memory limit in which nothing grows and no batch is lost.

`make soak` runs the first at length; `make soak CAPPED=3600` the second for an hour. The others: kills, full
disks, Ctrl-C, filters and limits are named in docs/reliability.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from budget import cases, seconds
from waits import ended, in_child

import gz

N, E, WIDTH = 30_000, 300_000, 64


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> gz.Store:
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("campaign") / "s"
    x = np.repeat(np.arange(N, dtype=np.float32)[:, None], WIDTH, axis=1)
    edges = tuple(rng.integers(0, N, (2, E)))
    weights = {"w": rng.random(E).astype(np.float32)}
    gz.ingest(
        path,
        edges=edges,
        num_nodes=N,
        features={"x": x},
        edge_features=weights,
        weight="w",
        directions="both",
    )
    return gz.open(path, cache="1MB")


def calls(store: gz.Store) -> list:
    """Each a function of its seed alone."""
    x, back, out = store.feature("x"), store.graph(), store.graph(direction="out")
    w = np.ones(E)

    def seeds(seed: int, n: int = 300) -> np.ndarray:
        return np.random.default_rng(seed).integers(0, N, n)

    def sample(graph, **options):
        return lambda s: np.concatenate(
            [(r := graph.sample(seeds(s), [4, 3], rng_seed=s, **options)).nodes, r.src, r.dst, r.edge_ids]
        )

    return [
        lambda s: x.gather(seeds(s, 2000))[:, 0],
        sample(back),
        sample(out, replace=True),
        sample(back, disjoint=True),
        sample(back, weights=w),
        lambda s: back.batch_random_walk(seeds(s), 10, rng_seed=s),
        lambda s: out.batch_random_walk(seeds(s), 10, q=0.5, rng_seed=s),
        lambda s: out.batch_random_fanout(seeds(s), 5, rng_seed=s),
        lambda s: back.degree(seeds(s)),
    ]


@pytest.mark.timeout(2 * 3600)
def test_threads_and_forks_at_once_get_what_one_thread_gets(store, rng_seed):
    todo = calls(store)
    plan = [(i, rng_seed * 1000 + s) for s in range(4) for i in range(len(todo))]
    expected = {(i, s): todo[i](s).tobytes() for i, s in plan}
    wrong: list = []
    stop = threading.Event()

    def work(turn: int, rounds: float) -> None:
        order = np.random.default_rng(turn).permutation(len(plan))
        while rounds > 0 and not stop.is_set():
            for at in order:
                i, s = plan[at]
                if todo[i](s).tobytes() != expected[i, s]:
                    wrong.append((i, s))
            rounds -= 1

    with open(store.feature("x").path, "rb") as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    threads = [threading.Thread(target=work, args=(t, cases(12, 1200))) for t in range(4)]
    for t in threads:
        t.start()
    try:
        for child in range(3):
            assert in_child(lambda child=child: (work(child, 1), wrong and os._exit(1)))
        ended(threads)
    finally:
        stop.set()
    assert wrong == []


# ---- under a limit ----

LIMIT = 640 << 20  # torch and PyG leave less of it than the column takes
TRAINING = """
import os, sys, time
import numpy as np, torch
import gz, gz_pyg

path, seconds = sys.argv[1], float(sys.argv[2])
torch.set_num_threads(1)

def held():  # what no kernel could take back; cached rows it can
    with open("/proc/self/status") as f:
        anon = next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon"))
    return anon - gz.FeatureStore(column).stats()["memory"]["caches"]

column = os.path.join(path, "nodes/node/x.gd")
some = torch.arange(0, 200_000, 20)
loader = gz_pyg.NeighborLoader(path, [5, 3], batch_size=512, input_nodes=some, shuffle=True)
begin, seen, epochs = time.monotonic(), [], 0
while time.monotonic() - begin < seconds or epochs < 6:
    batches = 0
    for batch in loader:
        assert (batch.x[:, 3] == batch.n_id).all(), "another node's row"
        batches += 1
    assert batches == len(loader), "a batch was lost"
    epochs += 1
    seen.append(held())
third = len(seen) // 3
print(epochs, max(seen[third:2 * third]), max(seen[-third:]))
"""


@pytest.fixture(scope="module")
def memory_capped(request):
    sys.path.insert(0, str(request.config.rootpath / "benchmarks"))
    try:
        import _process

        yield _process.memory_capped
    finally:
        sys.path.pop(0)


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
def test_training_under_a_limit_loses_no_batch_and_does_not_grow(tmp_path, memory_capped):
    pytest.importorskip("torch_geometric")
    nodes = 200_000
    edges = tuple(np.random.default_rng(0).integers(0, nodes, (2, 1_000_000)))
    x = np.repeat(np.arange(nodes, dtype=np.float32)[:, None], 256, axis=1)  # 205 MB
    gz.ingest(tmp_path / "s", edges=edges, features={"x": x})
    del x
    try:
        capped = memory_capped(LIMIT)
        cap = capped.__enter__()
    except OSError as error:
        pytest.skip(f"a memory limit cannot be set here: {error}")
    try:
        done = subprocess.run(
            [sys.executable, "-c", TRAINING, str(tmp_path / "s"), str(seconds(3))],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            preexec_fn=cap.enter,
        )
        cap.end()
    finally:
        capped.__exit__(None, None, None)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2000:]}"
    epochs, middle, last = map(int, done.stdout.split())
    print(f"{epochs} epochs; held at most {middle} bytes in the second third of them, {last} in the last")
    assert epochs >= 6
    assert last < middle + (24 << 20), f"grew from {middle} to {last} bytes in {epochs} epochs"
