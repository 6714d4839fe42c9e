"""An edge list from .npy, Parquet and CSV to a store: edges per second and peak memory, GraphZero beside
them.

Wanted: 15 M edges/s from .npy and from Parquet on 2 cores, and 4x GraphZero on CSV. Each ingest is a process
of its own, start-up not counted, with a budget of 2 GB; the input is in the page cache, as far as it fits.
Reading the input and doing nothing else is shown beside them: numpy for .npy, pyarrow for Parquet.

GraphZero runs beside them from --scale 0.3 on. Below it convert.py has both, a store and GraphZero, on the
same file; twice would be a fifth of `make bench`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import _common

RATE = 15.0  # M edges/s
RATIO, BESIDE_GRAPHZERO = 4.0, 0.3  # and the --scale from which it runs here
MEMORY = "2GB"
GROUP = 1 << 20  # rows of a Parquet row group, pyarrow's default


def main() -> None:
    args = _common.options(__doc__)
    from _data import Data, graphzero_code
    from _process import Forks, warm

    data = Data(args.data, args.scale)
    edges = data.graph.num_edges
    inputs = {"npy": data.npy(), "Parquet": _parquet(data), "CSV": data.csv()}
    report = _common.Report(
        "edge_ingest", args, edges=edges, memory=MEMORY, **{k: v.stat().st_size for k, v in inputs.items()}
    )
    data.room_for(edges * 16 + data.graph.num_nodes * 8)
    out = data.folder / "ingested"

    def ours(name: str) -> tuple[str, str]:
        source, nodes = str(inputs[name]), data.graph.num_nodes
        code = f"gz.ingest({str(out)!r}, edges={source!r}, num_nodes={nodes}, memory={MEMORY!r})"
        return code, f"gz.set_num_threads({args.threads})"

    reading = (
        "for group in range(f.num_row_groups): f.read_row_group(group)",
        f"f = pyarrow.parquet.ParquetFile({str(inputs['Parquet'])!r})",
    )
    plain = (
        "while f.readinto(buffer): pass",
        f"f = open({str(inputs['npy'])!r}, 'rb', buffering=0); buffer = bytearray(1 << 26)",
    )
    groups = {
        "npy": {"gz, npy": ours("npy"), "reading the npy": plain},
        "Parquet": {"gz, Parquet": ours("Parquet"), "pyarrow, reading only": reading},
        "CSV": {"gz, CSV": ours("CSV")},
    }
    if args.scale >= BESIDE_GRAPHZERO or args.peers_only:
        groups["CSV"]["graphzero"] = (graphzero_code(inputs["CSV"], out), "import graphzero")
    forks = Forks("import gz, numpy, pyarrow.parquet")
    bystanders = _common.Bystanders()
    for form, runs in groups.items():
        if args.peers_only:
            runs = {k: v for k, v in runs.items() if not k.startswith("gz")}
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        peak = dict.fromkeys(runs, 0)
        for _ in range(args.repeat):
            for name, (code, setup) in runs.items():
                warm(inputs[form])
                usage = forks.run(code, setup=setup)
                shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
                seconds[name].append(usage.seconds)
                peak[name] = max(peak[name], usage.peak_rss)
        wanted = (
            (_common.Target("gz, CSV", ("graphzero",), RATIO, BESIDE_GRAPHZERO),) if form == "CSV" else ()
        )
        best = report.rates(f"{form} to a store", seconds, unit="M edges/s", work=edges / 1e6, targets=wanted)
        if form != "CSV" and f"gz, {form}" in best:
            took = best[f"gz, {form}"] / edges * 1e9
            report.limits(
                f"{RATE:g} M edges/s", _common.Limit(f"gz, {form}", took, 1e3 / RATE, "ms per million edges")
            )
        for name, value in peak.items():
            report.note(f"peak RSS, {name}: {value / 1e6:,.0f} MB")
    forks.close()
    report.others = bystanders.share()
    report.finish()


def _parquet(data) -> Path:
    """src and dst, int64, as pyarrow writes them by default (Snappy)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def write(path: Path) -> None:
        schema = pa.schema([("src", pa.int64()), ("dst", pa.int64())])
        with pq.ParquetWriter(path, schema) as writer:
            for src, dst in data.edge_chunks():
                writer.write_table(pa.table({"src": src, "dst": dst}, schema), row_group_size=GROUP)

    return data._make("edges.parquet", data.graph.num_edges * 12, write)


if __name__ == "__main__":
    main()
