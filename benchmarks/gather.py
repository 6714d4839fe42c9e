"""300,000 random rows of 512 bytes: gather from a file in page cache, against torch on the same rows in RAM.

Wanted: 4x `x[ids]`, and 1.7x `torch.index_select(..., out=preallocated)`. `gather` is measured with and
without `out=`: the first target is for the plain call, the second for the one given its output.
"""

from __future__ import annotations

import _common

ROWS = 300_000
TARGET_INDEX, TARGET_OUT = 4.0, 1.7


def torch_contestants(x, batches, threads):
    import torch

    torch.set_num_threads(threads)
    rows = torch.from_numpy(x)
    ids = [torch.from_numpy(b) for b in batches]
    out = torch.empty((ROWS, x.shape[1]), dtype=rows.dtype)
    return {
        "torch x[ids]": lambda turn: rows[ids[turn]],
        "torch index_select": lambda turn: torch.index_select(rows, 0, ids[turn]),
        "torch index_select(out=)": lambda turn: torch.index_select(rows, 0, ids[turn], out=out),
    }


def gz_contestants(fs, batches, threads):
    import torch

    import gz

    gz.set_num_threads(threads)
    out = torch.empty((ROWS, fs.shape[1]))  # the same kind of output as the peer's
    return {
        "gz gather": lambda turn: fs.gather(batches[turn]),
        "gz gather(out=)": lambda turn: fs.gather(batches[turn], out=out),
    }


def in_memory(data):
    """The matrix in RAM: the mapped file copied as it lies, and a part of it made again."""
    import generate
    import numpy as np

    import gz

    x = np.array(gz.open(data.store()).feature("x").get_tensor())
    np.testing.assert_array_equal(x[: generate.ROW_CHUNK], generate.feature_chunk(data.graph, 0))
    return x


def main() -> None:
    args = _common.options(__doc__)
    import numpy as np
    from _data import Data
    from _process import warm

    data = Data(args.data, args.scale)
    x = in_memory(data)
    rng = np.random.default_rng(1)
    # One batch more than rounds: the unmeasured round takes the last.
    batches = [rng.integers(0, data.graph.num_nodes, ROWS) for _ in range(args.repeat + 1)]
    report = _common.Report(
        "gather", args, rows=ROWS, row_bytes=x[0].nbytes, data_in="page cache (gz), RAM (torch)"
    )
    contestants = torch_contestants(x, batches, args.threads)
    if not args.peers_only:
        import gz

        store = data.store()
        warm(*(p for p in store.rglob("*") if p.is_file()))
        fs = gz.open(str(store)).feature("x")
        # All of them, and not only to see that they are right: every row of the matrix in memory was touched
        # when it was made, and of the file's as in a second epoch. A page's first touch costs 0.1 us.
        for batch in batches:
            np.testing.assert_array_equal(fs.gather(batch), x[batch])
        contestants |= gz_contestants(fs, batches, args.threads)
    report.contest(
        "gather",
        contestants,
        unit="GB/s",
        work=ROWS * x[0].nbytes / 1e9,
        targets=(
            _common.Target("gz gather", ("torch x[ids]",), TARGET_INDEX, scale=1),
            _common.Target("gz gather(out=)", ("torch index_select(out=)",), TARGET_OUT, scale=1),
        ),
    )
    report.finish()


if __name__ == "__main__":
    main()
