"""gz's own readers beside those of pyarrow, numpy, zipfile and torch: seconds, CPU seconds and peak memory.

Reading: text edges (integers, text, gzip), .npz members (an edge_index is read in two places at once), a
pickled array in a .pt file, a folder of Parquet partitions. Every reader goes through all rows and keeps
none. To a store: text edges by gz.ingest, parsed by itself and by pyarrow. Each run is a process of its own,
a fork of one that has imported everybody's modules, with the input in the page cache.

What ours must do better than what would take its place: TARGETS, in speed or in memory. Readers that hold the
whole input are shown beside them; they cannot take its place.
"""

from __future__ import annotations

import os
from pathlib import Path

import _common

EDGES = 20_000_000  # at --scale 1
MB = 1e6
# By input: the peer, and how many times as fast, or as thrifty, ours must be.
TARGETS = {
    "CSV to a store": ("pyarrow, streamed", 1.3, "speed"),
    "stored edge_index": ("zipfile, streamed", 1.4, "bytes read"),  # from a disk, that is time
    "pickled array": ("torch, whole", 3.0, "memory"),
    "partitions": ("pyarrow.dataset", 1.5, "memory"),
}


def main() -> None:
    args = _common.options(__doc__, only=("", "a part of the names of inputs to try"))
    from _process import Forks, warm

    edges = int(EDGES * args.scale)
    folder = args.data / f"parsers-{args.scale:g}"
    inputs = {name: make(folder, name, edges) for name in MAKERS if args.only in name}
    report = _common.Report("parsers", args, rows=edges, **{k: size(v) for k, v in inputs.items()})
    forks = Forks(IMPORTS)
    bystanders = _common.Bystanders()
    for name, path in inputs.items():
        runs = {k: v for k, v in readers(name, str(path)).items() if not (args.peers_only and k == "gz")}
        seconds: dict[str, list[float]] = {k: [] for k in runs}
        cpu: dict[str, list[float]] = {k: [] for k in runs}
        memory, read = dict.fromkeys(runs, 0), dict.fromkeys(runs, 0)
        for _ in range(args.repeat):
            for who, (setup, code) in runs.items():
                warm(*(path.rglob("*.parquet") if path.is_dir() else [path]))
                usage = forks.run(
                    f"{code}\nassert n == {edges}, n", setup=f"{SETUP.format(args.threads)}\n{setup}"
                )
                seconds[who].append(usage.seconds)
                cpu[who].append(usage.cpu)
                read[who] = usage.read
                memory[who] = max(memory[who], usage.peak_rss - usage.rss_before)
        best = report.rates(name, seconds, unit="M rows/s", work=edges / 1e6)
        for who, held in memory.items():
            told = f"{min(cpu[who]):.2f} CPU s, {held / MB:,.0f} MB above where it began"
            report.note(f"{who}: {told}, {read[who] / MB:,.0f} MB read")
        if name in TARGETS and "gz" in best:
            peer, ratio, of = TARGETS[name]
            cost = {"speed": best, "memory": memory, "bytes read": read}[of]
            limit = _common.Limit(
                f"{of}: gz's cost in parts of {peer}'s", cost["gz"] / cost[peer], 1 / ratio, ""
            )
            report.limits(f"{name}: ours is needed", limit)
    forks.close()
    report.others = bystanders.share()
    report.finish()


def size(path: Path) -> int:
    return sum(f.stat().st_size for f in (path.rglob("*") if path.is_dir() else [path]) if f.is_file())


# ---- the files ----


def make(folder: Path, name: str, edges: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    suffix, write = MAKERS[name]
    path = folder / f"{SAME.get(name, name).replace(' ', '-')}{suffix}"
    if not path.exists():
        partial = folder / f"partial{suffix}"
        write(partial, edges)
        partial.rename(path)
    return path


def _table(edges: int, text: bool = False):
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(0)
    ends = {n: rng.integers(0, max(2, edges // 10), edges) for n in ("src", "dst")}
    if text:
        ends = {n: pa.array(a).cast(pa.string()) for n, a in ends.items()}
    return pa.table(ends | {"w": rng.random(edges, dtype=np.float32).astype(np.float64)})


def _csv(path: Path, edges: int, text: bool = False) -> None:
    import pyarrow as pa
    import pyarrow.csv

    with (
        pa.CompressedOutputStream(str(path), "gzip")
        if path.suffix == ".gz"
        else pa.OSFile(str(path), "wb") as f
    ):
        pyarrow.csv.write_csv(_table(edges, text), f)


def _npz(path: Path, edges: int) -> None:
    import numpy as np

    np.savez_compressed(path, a=np.random.default_rng(0).integers(0, 1 << 20, (edges, 2)))


def _index(path: Path, edges: int, stored: bool = False) -> None:
    import numpy as np

    (np.savez if stored else np.savez_compressed)(
        path, edge_index=np.random.default_rng(0).integers(0, 1 << 20, (2, edges))
    )


def _pt(path: Path, edges: int) -> None:
    import numpy as np
    import torch

    torch.save({"train": np.random.default_rng(0).integers(0, 1 << 20, edges)}, path)


def _lake(path: Path, edges: int) -> None:
    import pyarrow.parquet as pq

    table, parts = _table(edges), 20
    for i in range(parts):
        (path / f"year={2000 + i}").mkdir(parents=True)
        rows = range(edges * i // parts, edges * (i + 1) // parts)
        pq.write_table(table.slice(rows.start, len(rows)), path / f"year={2000 + i}" / "part.parquet")


MAKERS = {
    "CSV of integers": (".csv", _csv),
    "CSV of text ids": (".csv", lambda p, n: _csv(p, n, text=True)),
    "gzipped CSV": (".csv.gz", _csv),
    "CSV to a store": (".csv", _csv),
    "text ids to a store": (".csv", lambda p, n: _csv(p, n, text=True)),
    "npz member": (".npz", _npz),
    "deflated edge_index": (".npz", _index),
    "stored edge_index": (".npz", lambda p, n: _index(p, n, stored=True)),
    "pickled array": (".pt", _pt),
    "partitions": ("", _lake),
}
SAME = {"CSV to a store": "CSV of integers", "text ids to a store": "CSV of text ids"}

# ---- the readers ----

IMPORTS = """
import gz, numpy as np, pyarrow as pa, pyarrow.csv, pyarrow.parquet, pyarrow.dataset, torch
from gz._ingest.read import csv_table, npy, pt, pickled
from gz._ingest.plan import edge_input
"""
SETUP = """
gz.set_num_threads({0}); pa.set_cpu_count({0})
from gz._ingest.read.files import Files
files, n = Files(), 0
"""
_OURS = "for c in table.chunks(1 << 20): n += c.rows"
_CSV = "from gz._ingest.read.csv_table import CsvTable, Ends"
_PYARROW_CSV = (
    "for b in pa.csv.open_csv(source, pa.csv.ReadOptions(block_size=8 << 20){more}): n += b.num_rows"
)


def readers(name: str, path: str) -> dict[str, tuple[str, str]]:
    """By reader: set-up, and what is timed."""
    if name.endswith("to a store"):
        ids = "text" if "text" in name else "dense"
        types = "pa.csv.ConvertOptions(column_types={'src': pa.string(), 'dst': pa.string()})"
        more = f", convert_options={types}" if ids == "text" else ""
        read = f"pa.csv.open_csv({path!r}, pa.csv.ReadOptions(block_size=8 << 20){more})"
        call = "with tempfile.TemporaryDirectory(dir={0!r}) as d: r = gz.ingest(d + '/s', {1}, ids={2!r})\n"
        call += "n = sum(r.num_edges.values())"
        folder = os.path.dirname(path)
        return {
            "gz": ("import tempfile", call.format(folder, repr(path), ids)),
            "pyarrow, streamed": ("import tempfile", call.format(folder, read, ids)),
        }
    if "CSV" in name:
        text = "text" in name
        ids = "text" if text else "dense"
        ours = f"table = CsvTable(files.get({path!r}), keys=Ends(), ids={ids!r})\n{_OURS}"
        types = "pa.csv.ConvertOptions(column_types={'src': pa.string(), 'dst': pa.string()})"
        more = f", convert_options={types}" if text else ""
        return {
            "gz": (_CSV, ours),
            "pyarrow, streamed": ("", f"source = {path!r}\n{_PYARROW_CSV.format(more=more)}"),
            "pyarrow, whole": ("", f"n = pa.csv.read_csv({path!r}{more}).num_rows"),
        }
    if name == "npz member":
        ours = f"for a in open_array({path!r}, files).chunks(1 << 18): n += len(a)"
        streamed = (
            f"z = zipfile.ZipFile({path!r}); f = z.open('a.npy'); np.lib.format.read_magic(f)\n"
            "shape, _, dtype = np.lib.format.read_array_header_1_0(f)\n"
            "while block := f.read(4 << 20): n += len(block)\n"
            "n //= 16"
        )
        return {
            "gz": ("from gz._ingest.read.npy import open_array", ours),
            "zipfile, streamed": ("import zipfile", streamed),
            "numpy, whole": ("", f"n = len(np.load({path!r})['a'])"),
        }
    if name.endswith("edge_index"):
        ours = f"for c in NpyEdgeIndex(open_array({path!r}, files)).chunks(1 << 18): n += c.rows"
        two = (
            f"z = zipfile.ZipFile({path!r}); a, b = (z.open('edge_index.npy') for _ in range(2))\n"
            "np.lib.format.read_magic(a); shape = np.lib.format.read_array_header_1_0(a)[0]\n"
            "at = a.tell() + shape[1] * 8\n"
            "while at: at -= len(b.read(min(at, 4 << 20)))\n"
            "while block := b.read(2 << 20): a.read(2 << 20); n += len(block) // 8"
        )
        imports = (
            "from gz._ingest.read.npy import open_array; from gz._ingest.read.tables import NpyEdgeIndex"
        )
        return {"gz": (imports, ours), "zipfile, streamed": ("import zipfile", two)}
    if name == "pickled array":
        ours = f"for a in load(files.get({path!r}))['train'].chunks(1 << 20): n += len(a)"
        safe = "torch.serialization.safe_globals(_numpy_globals())"
        whole = f"with {safe}: n = len(torch.load({path!r}, weights_only=True)['train'])"
        return {
            "gz": ("from gz._ingest.read.pickled import load", ours),
            "torch, whole, unsafe": (
                "import torch",
                f"n = len(torch.load({path!r}, weights_only=False)['train'])",
            ),
            "torch, whole": ("import torch; from gz._ingest.read.pt import _numpy_globals", whole),
        }
    ours = (
        f"table = EdgeInput(EdgeSpec(('a', 'to', 'a'), {path!r}), files, 'dense').table\n{_OURS}"
    )  # fmt: skip
    theirs = f"for b in pa.dataset.dataset({path!r}, partitioning='hive').to_batches(): n += b.num_rows"
    imports = "from gz._ingest.plan.edge_input import EdgeInput; from gz._ingest.plan.spec import EdgeSpec"
    return {"gz": (imports, ours), "pyarrow.dataset": ("", theirs)}


if __name__ == "__main__":
    main()
