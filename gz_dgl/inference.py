"""Layer by layer over the whole graph, with every layer's output in a mapped file.

Scripts that evaluate on all nodes compute one layer for every node before the next, and keep the results in a
tensor of N rows: 114 GB for 111 M nodes and 256 float32. Here the rows go to a .npy file, which the next
layer reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from gz.adapter import LayerRows, NpyOutput, Output, Progress, from_numpy, host_ids, host_rows, take_rows
from gz.output import new_npy
from gz_dgl._dgl import NID
from gz_dgl.graph import StoreGraph

Layer = Callable[[Any, Any], Any]


def empty_column(
    path: str | os.PathLike[str], shape: Sequence[int], dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """A new .npy file as a tensor of zeros, ``shape`` and ``dtype``: what is written to it goes to the file.

    Takes disk, not memory, and can replace ``torch.empty(g.num_nodes(), ...)`` in a script's own loop. Read
    it later with ``gz.FeatureStore(path)`` or ``np.load(path, mmap_mode="r")``. For a column of the store
    itself there is ``g.store.new_column``.
    """
    if not os.fspath(path).endswith(".npy"):
        raise ValueError(f"{os.fspath(path)}: the name of a column must end in .npy")
    _check_dtype(str(dtype))
    return torch.from_numpy(new_npy(path, shape, str(dtype).removeprefix("torch.")))


def _check_dtype(dtype: str) -> None:
    if dtype.endswith("bfloat16"):
        raise ValueError("a .npy file cannot hold bfloat16; use float16 or float32")


def inference(
    g: StoreGraph,
    layers: Sequence[Layer],
    out: str | os.PathLike[str],
    feature: str = "feat",
    *,
    column: str | None = None,
    batch_size: int = 4096,
    device: Any = "cpu",
    progress: bool | None = None,
) -> Any:
    """Applies ``layers`` one after the other to all nodes, each with all of its neighbours.

    Args:
        g: the graph.
        layers: functions ``layer(block, h) -> h``, from the inputs to the outputs. ``h`` has a row per source
            node of the block, the result a row per destination node; on a heterogeneous graph both are dicts
            by node type.
        out: the .npy file to write; a folder for a heterogeneous graph, with a file for each node type.
        feature: the input column.
        column: publish the output as this column of the store, replacing one of that name, instead of
            leaving it in ``out``, which then is only where the inner layers' files lie.
        batch_size: nodes computed at a time; they and all their neighbours' rows are in memory.
        device: where layers run.
        progress: show it; by default when stderr is a terminal.

    Returns:
        The output as a tensor over the file, ``[num_nodes, ...]``; a dict of them by node type.

    The files of inner layers lie beside ``out`` and are removed; ``out`` appears when it is complete.
    """
    hetero = len(g.ntypes) > 1 or len(g.etypes) > 1
    final = os.fspath(out)
    if hetero:
        os.makedirs(final, exist_ok=True)
    elif not final.endswith(".npy"):
        raise ValueError(f"{final}: the name of a column must end in .npy")
    if not layers:
        raise ValueError("there are no layers")
    inputs: dict[str, torch.Tensor] = {
        t: g.nodes[t].data[feature] for t in g.ntypes if feature in g.nodes[t].data
    }
    show, made = Progress(progress), []
    try:
        for number, layer in enumerate(layers):
            last = number + 1 == len(layers)
            rows = LayerRows(_places(g, final, hetero, None if last else number, column))
            made.append(rows)
            show.phase(f"layer {number + 1} of {len(layers)}")
            with torch.no_grad():
                for ntype, seeds, block, h in _batches(g, inputs, batch_size, device):
                    result = layer(block, h if hetero else h[ntype])
                    got = result.get(ntype) if isinstance(result, Mapping) else result
                    if got is not None:
                        rows.write(ntype, int(seeds[0]), *host_rows(got), g.num_nodes(ntype))
                    show.update(int(seeds[-1]) + 1, g.num_nodes(ntype), " nodes")
            inputs = {t: from_numpy(o.array, rows.dtypes[t]) for t, o in rows.outputs.items()}
        published = made[-1].publish()
        out_rows = {t: from_numpy(c.get_tensor(), c.dtype) for t, c in published.items()}
        return out_rows if hetero else out_rows[g.ntypes[0]]
    finally:
        show.close()
        for rows in made:
            rows.abort()


def _places(g: StoreGraph, final: str, hetero: bool, inner: int | None, column: str | None) -> Any:
    """Where the rows of a layer go: beside `final`, into it, or to a column of the store."""

    def place(ntype: str, shape: tuple[int, ...], dtype: str) -> Output:
        if inner is None and column is not None:
            t = g._graph.ntypes[g.get_ntype_id(ntype)]
            return g.store.new_column(column, shape[1:], dtype, t, overwrite=True)
        layer = "" if inner is None else f".layer{inner}"
        path = f"{_base(final, ntype, hetero)}{layer}.npy"
        _check_dtype(dtype)
        return NpyOutput(path, shape, dtype)

    return place


def _base(final: str, ntype: str, hetero: bool) -> str:
    return os.path.join(final, ntype) if hetero else final.removesuffix(".npy")


def _batches(g: StoreGraph, inputs: dict[str, torch.Tensor], size: int, device: Any) -> Iterator[Any]:
    """Every node once, in order: (type, seeds, block, input rows). One batch is read ahead."""

    def load(ntype: str, begin: int) -> Any:
        seeds = torch.arange(begin, min(begin + size, g.num_nodes(ntype)), dtype=g.idtype)
        block = g.sample_neighbors_fused({ntype: seeds}, -1)
        rows = {t: take_rows(x, host_ids(block.srcnodes[t].data[NID])).to(device) for t, x in inputs.items()}
        return ntype, seeds, block.to(device), rows

    jobs = [(t, begin) for t in g.ntypes for begin in range(0, g.num_nodes(t), size)]
    with ThreadPoolExecutor(1, thread_name_prefix="gz-infer") as reader:
        ahead: Future[Any] | None = reader.submit(load, *jobs[0]) if jobs else None
        for number in range(len(jobs)):
            assert ahead is not None
            batch = ahead.result()
            ahead = reader.submit(load, *jobs[number + 1]) if number + 1 < len(jobs) else None
            yield batch
