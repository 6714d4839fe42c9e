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

from gz.edit import OutputColumn
from gz.output import new_npy
from gz_dgl._columns import gather_rows, host_ids
from gz_dgl._dgl import NID
from gz_dgl.graph import StoreGraph

Layer = Callable[[Any, Any], Any]


def empty_column(
    path: str | os.PathLike[str], shape: Sequence[int], dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """A new .npy file as a tensor of zeros: what is written to the tensor goes to the file.

    Takes disk, not memory, and can replace ``torch.empty(g.num_nodes(), ...)`` in a script's own loop. Read
    it later with ``gz.FeatureStore(path)`` or ``np.load(path, mmap_mode="r")``. For a column of the store
    itself there is ``g.store.new_column``.
    """
    if not os.fspath(path).endswith(".npy"):
        raise ValueError(f"{os.fspath(path)}: the name of a column must end in .npy")
    if dtype == torch.bfloat16:
        raise ValueError("a .npy file cannot hold bfloat16; use float16 or float32")
    return torch.from_numpy(new_npy(path, shape, str(dtype).removeprefix("torch.")))


def inference(
    g: StoreGraph,
    layers: Sequence[Layer],
    out: str | os.PathLike[str],
    feature: str = "feat",
    *,
    column: str | None = None,
    batch_size: int = 4096,
    device: Any = "cpu",
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
    made: list[_Files] = []
    try:
        for number, layer in enumerate(layers):
            last = number + 1 == len(layers)
            names = {t: f"{_base(final, t, hetero)}.layer{number}.npy" for t in g.ntypes}
            files = _Files(g, names, column if last else None)
            made.append(files)
            with torch.no_grad():
                for ntype, seeds, block, h in _batches(g, inputs, batch_size, device):
                    result = layer(block, h if hetero else h[ntype])
                    rows = result.get(ntype) if isinstance(result, Mapping) else result
                    if rows is not None:
                        files.write(ntype, seeds, rows)
            inputs = files.tensors
        made[-1].publish()
        inputs = made[-1].tensors
        for t, path in made[-1].paths.items():
            os.replace(path, f"{_base(final, t, hetero)}.npy")  # the mapping follows the file to its new name
        return inputs if hetero else inputs[g.ntypes[0]]
    finally:
        for files in made:
            files.abort()
            for path in files.paths.values():
                if os.path.exists(path):
                    os.unlink(path)


def _base(final: str, ntype: str, hetero: bool) -> str:
    return os.path.join(final, ntype) if hetero else final.removesuffix(".npy")


class _Files:
    """The output of one layer, by node type; made when the first rows show their shape. With a `column` it
    goes to the store instead."""

    def __init__(self, g: StoreGraph, names: dict[str, str], column: str | None):
        self._g, self._names, self._column = g, names, column
        self._drafts: dict[str, OutputColumn] = {}
        self.tensors: dict[str, torch.Tensor] = {}
        self.paths: dict[str, str] = {}

    def write(self, ntype: str, seeds: torch.Tensor, rows: torch.Tensor) -> None:
        if ntype not in self.tensors:
            self._make(ntype, rows)
        self.tensors[ntype][int(seeds[0]) : int(seeds[-1]) + 1] = rows.cpu()

    def _make(self, ntype: str, rows: torch.Tensor) -> None:
        if self._column is not None:
            t = self._g._graph.ntypes[self._g.get_ntype_id(ntype)]
            draft = self._g.store.new_column(self._column, rows.shape[1:], rows.dtype, t, replace=True)
            self._drafts[ntype] = draft
            self.tensors[ntype] = _tensor(draft.array, rows.dtype)
            return
        path = self._names[ntype]
        shape = (self._g.num_nodes(ntype), *rows.shape[1:])
        self.tensors[ntype] = empty_column(path, shape, rows.dtype)
        self.paths[ntype] = path

    def publish(self) -> None:
        for ntype, draft in self._drafts.items():
            dtype = self.tensors[ntype].dtype
            self.tensors[ntype] = _tensor(draft.publish().get_tensor(), dtype)

    def abort(self) -> None:
        for draft in self._drafts.values():
            draft.abort()


def _tensor(array: Any, dtype: torch.dtype) -> torch.Tensor:
    return (
        torch.from_numpy(array.view("int16")).view(dtype)
        if dtype == torch.bfloat16
        else torch.from_numpy(array)
    )


def _batches(g: StoreGraph, inputs: dict[str, torch.Tensor], size: int, device: Any) -> Iterator[Any]:
    """Every node once, in order: (type, seeds, block, input rows). One batch is read ahead."""

    def load(ntype: str, begin: int) -> Any:
        seeds = torch.arange(begin, min(begin + size, g.num_nodes(ntype)), dtype=g.idtype)
        block = g.sample_neighbors_fused({ntype: seeds}, -1)
        rows = {
            t: gather_rows(x, host_ids(block.srcnodes[t].data[NID])).to(device) for t, x in inputs.items()
        }
        return ntype, seeds, block.to(device), rows

    jobs = [(t, begin) for t in g.ntypes for begin in range(0, g.num_nodes(t), size)]
    with ThreadPoolExecutor(1, thread_name_prefix="gz-infer") as reader:
        ahead: Future[Any] | None = reader.submit(load, *jobs[0]) if jobs else None
        for number in range(len(jobs)):
            assert ahead is not None
            batch = ahead.result()
            ahead = reader.submit(load, *jobs[number + 1]) if number + 1 < len(jobs) else None
            yield batch
