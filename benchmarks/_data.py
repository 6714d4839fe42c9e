"""The benchmarks' data, made once per scale and kept in the --data folder. It appears by rename, complete.

edges.npy      [2, E], int64; where it is there, the others are made from it
edges.csv      "dst,src" lines; every converter groups by the first column
graphzero.gl   made from edges.csv by GraphZero
gz.gl          made from edges.csv by gz
lists.npz      the same lists as indptr and indices, for DGL
graph-store    a gz store: the lists, features and labels
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import generate
import numpy as np
from _process import run_python, warm


def graphzero_code(csv: Path, out: Path) -> str:
    """GraphZero's converter. `directed`: one list entry a line, as everywhere here."""
    return f"graphzero.convert_csv_to_gl({str(csv)!r}, {str(out)!r}, directed=True)"


def gz_code(csv: Path, out: Path, memory: str) -> str:
    return f"gz.convert_csv_to_gl({str(csv)!r}, {str(out)!r}, directed=True, memory={memory!r})"


class Data:
    def __init__(self, folder: Path, scale: float):
        self.graph = generate.Graph.scaled(scale)
        self.folder = folder / f"scale-{scale:g}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def room_for(self, size: float) -> None:
        """End with advice unless `size` bytes fit on the disk, with a little to spare."""
        free = shutil.disk_usage(self.folder).free
        if free < size * 1.1 + (1 << 30):
            raise SystemExit(
                f"{self.folder} has {free / 1e9:.1f} GB free and {size / 1e9:.1f} GB (and some) are needed: "
                "give another folder with --data, or a smaller --scale"
            )

    def _make(self, name: str, size: float, write: Callable[[Path], object]) -> Path:
        path = self.folder / name
        if path.exists():
            return path
        self.room_for(size)
        print(f"   preparing {path}, about {size / 1e9:.2f} GB")
        # The suffix stays last: np.savez and converters look at it.
        partial = path.with_name(f"partial-{os.getpid()}-{name}")
        try:
            write(partial)
            partial.rename(path)
        finally:
            shutil.rmtree(partial) if partial.is_dir() else partial.unlink(missing_ok=True)
        return path

    def keep(self, made: Path, name: str) -> None:
        """Takes what a benchmark has made as the file of this name, if there is none yet."""
        if not (self.folder / name).exists():
            made.rename(self.folder / name)

    def npy(self) -> Path:
        """The edges as PyG and OGB keep them."""

        def write(path: Path) -> None:
            out = np.lib.format.open_memmap(path, "w+", np.int64, (2, self.graph.num_edges))
            at = 0
            for src, dst in generate.edge_chunks(self.graph):
                out[0, at : at + len(src)], out[1, at : at + len(src)] = src, dst
                at += len(src)

        return self._make("edges.npy", self.graph.num_edges * 16, write)

    def edge_chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """generate.edge_chunks, or edges.npy where it has been made: to read them is quicker."""
        if not (self.folder / "edges.npy").exists():
            yield from generate.edge_chunks(self.graph)
            return
        edges = np.load(self.npy(), mmap_mode="r")
        for at in range(0, edges.shape[1], generate.EDGE_CHUNK):
            src, dst = np.array(edges[:, at : at + generate.EDGE_CHUNK])
            yield src, dst

    def csv(self) -> Path:
        digits = len(str(self.graph.num_nodes)) + 1
        size = self.graph.num_edges * 2 * digits
        return self._make("edges.csv", size, lambda p: generate.write_csv(self.edge_chunks(), p))

    def graphzero(self) -> Path:
        csv = self.csv()
        size = self.graph.num_edges * 12 + self.graph.num_nodes * 8
        return self._make(
            "graphzero.gl", size, lambda p: run_python(graphzero_code(csv, p), setup="import graphzero")
        )

    def gz(self) -> Path:
        csv = self.csv()
        size = self.graph.num_edges * 4 + self.graph.num_nodes * 8
        return self._make("gz.gl", size, lambda p: run_python(gz_code(csv, p, "2GB"), setup="import gz"))

    @functools.cache  # noqa: B019 - there is one of these, and who needs the lists needs them to the end
    def lists(self) -> tuple[np.ndarray, np.ndarray]:
        """indptr and indices, int64, of the lists in edges.csv. Grouped by DGL, whose graph they become."""
        size = self.graph.num_edges * 8 + self.graph.num_nodes * 8
        with np.load(self._make("lists.npz", size, self._write_lists)) as z:
            return z["indptr"], z["indices"]

    def _write_lists(self, path: Path) -> None:
        import dgl
        import torch

        src, dst = (torch.empty(self.graph.num_edges, dtype=torch.int64) for _ in range(2))
        at = 0
        for s, d in self.edge_chunks():
            src[at : at + len(s)] = torch.from_numpy(s)
            dst[at : at + len(d)] = torch.from_numpy(d)
            at += len(s)
        graph = dgl.graph((src, dst), num_nodes=self.graph.num_nodes)
        indptr, indices, _ = graph.adj_tensors("csc")
        np.savez(path, indptr=indptr.numpy(), indices=indices.numpy())

    def store(self) -> Path:
        """A gz store of the graph, with its features "x" and labels "y"."""
        g = self.graph

        def write(path: Path) -> None:
            import gz

            features = {"x": generate.feature_chunks(g), "y": generate.labels(g)}
            gz.ingest(
                path,
                edges=self.edge_chunks(),
                features=features,
                num_nodes=g.num_nodes,
                progress=False,
            )

        size = 4.0 * g.num_nodes * (g.num_features + 4) + 4.0 * g.num_edges
        return self._make("graph-store", size, write)

    def warm_store(self) -> None:
        """Puts the store into the page cache. To be called when all contestants have their data: a peer's
        copy in memory may have pushed the files out, and gz would then be timed while it reads them again."""
        warm(*(p for p in self.store().rglob("*") if p.is_file()))
