"""Everything that reads a store, while its files cannot be read: run by test_unreadable_files.py, in a
process of its own, so that a signal is seen and not suffered.

    python unreadable.py STORE SCRATCH cut|disk [IMAGE]

cut: the files of the open store are cut to three pages. disk: the disk image under it is cut, and what is in
memory of the files is dropped. Prints a line for each call: its name, and the error, or `no error`.
"""

from __future__ import annotations

import faulthandler
import glob
import os
import shutil
import sys
import warnings

import numpy as np
import torch

import gz
import gz_pyg
from gz.verify import verify


def evict(path: str) -> None:
    with open(path, "rb") as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def load(loader) -> None:
    for _ in loader:
        pass


def verified(path: str) -> None:
    for _, error in verify(path):
        if error is not None:
            raise error


def calls(path: str, scratch: str) -> dict:
    store = gz.open(path)
    g, back = store.graph(), store.graph(direction="out")
    wide, narrow, ids = store.feature("wide"), store.feature("narrow"), store.id_map()
    n = store.num_nodes()
    some = np.random.default_rng(0).integers(0, n, 3000)
    keys = [f"node-{i:06}" for i in range(n)]
    loaders = [
        gz_pyg.NeighborLoader(store, [5, 5], input_nodes=some[:1000], batch_size=250, **options)
        for options in ({}, {"prefetch": 0}, {"num_workers": 2})
    ]
    out = np.empty((3000, *wide.shape[1:]), wide.dtype)
    return {
        "sample": lambda: g.sample(some, [5, 5]),
        "sample out": lambda: back.sample(some, [5]),
        "sample all": lambda: g.sample(some, [-1]),
        "weighted": lambda: g.batch_random_walk(some, 5),
        "node2vec": lambda: g.batch_random_walk(some, 5, p=0.5, q=2.0),
        "fanout": lambda: g.batch_random_fanout(some, 4),
        "degree": lambda: g.degree(np.arange(n)),
        "one node": lambda: [g.neighbors(v) for v in range(0, n, 100)],
        "gather wide": lambda: wide.gather(some),
        "gather into": lambda: wide.gather(some, out=out),
        "gather narrow": lambda: narrow.gather(some),
        "gather a row": lambda: narrow.gather([n - 1]),
        "to dense": lambda: ids.to_dense(keys),
        "to original": lambda: ids.to_original(np.arange(n)),
        "loader": lambda: load(loaders[0]),
        "loader without threads": lambda: load(loaders[1]),
        "loader with workers": lambda: load(loaders[2]),
        "export": lambda: gz.export(path, os.path.join(scratch, "parquet")),
        "export npy": lambda: gz.export(path, os.path.join(scratch, "npy"), format="npy"),
        "verify": lambda: verified(path),
    }


def outcome(call) -> str:
    try:
        call()
    except (OSError, gz.FormatError) as e:
        return f"{type(e).__name__}: {' '.join(str(e).split())[-200:]}"
    return "no error"


def main(path: str, scratch: str, how: str, image: str = "") -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    todo = calls(path, scratch)
    files = glob.glob(path + "/**/*.g[ld]", recursive=True)
    if how == "cut":
        before = todo["sample"]()
        for name in todo:
            if name.startswith("loader"):
                todo[name]()  # its files are open from here on
        shutil.copytree(path, scratch + "/kept")
        for f in files:
            os.truncate(f, min(os.path.getsize(f), 3 * 4096))
    else:
        os.truncate(image, 8 << 20)
        for f in files:
            evict(f)
    faulthandler.enable()  # takes the signal after gz did
    for name, call in todo.items():
        print(f"{name}: {outcome(call)}", flush=True)
    if how == "cut":
        for f in files:
            with open(f.replace(path, scratch + "/kept"), "rb") as whole, open(f, "r+b") as cut:
                shutil.copyfileobj(whole, cut)
        again = todo["sample"]()
        same = np.array_equal(before.nodes, again.nodes) and np.array_equal(before.src, again.src)
        print("whole again:", "the same sample" if same else "another sample")


if __name__ == "__main__":
    main(*sys.argv[1:])
