"""An edge list in CSV to a .gl file and to a store: wall time and peak memory, against GraphZero's converter.

Wanted: 5x as fast, 4x to a store, and a peak RSS of at most the memory budget (1 GB) + 300 MB. Each
conversion is a process of its own, start-up not counted; the CSV is in the page cache, as far as it fits.
pyarrow reading the CSV and doing nothing else is shown beside them.
"""

from __future__ import annotations

import shutil

import _common

TARGET, TARGET_STORE = 5.0, 4.0
BUDGET, SPARE = 1e9, 300e6
MADE = {"gz": "gz.gl", "graphzero": "graphzero.gl"}


def main() -> None:
    args = _common.options(__doc__)
    from _data import Data, graphzero_code, gz_code
    from _process import Forks, warm

    data = Data(args.data, args.scale)
    csv = data.csv()
    size = csv.stat().st_size
    report = _common.Report("convert", args, csv_bytes=size, edges=data.graph.num_edges, memory="1GB")
    data.room_for(data.graph.num_edges * 12 + data.graph.num_nodes * 8)
    out = data.folder / "converted.gl"
    threads, nodes = f"gz.set_num_threads({args.threads})", data.graph.num_nodes
    ingest = f"gz.ingest({str(out)!r}, edges={str(csv)!r}, num_nodes={nodes}, memory='1GB', progress=False)"
    runs = {
        "graphzero": (graphzero_code(csv, out), "import graphzero"),
        "pyarrow, reading only": (
            f"for batch in pyarrow.csv.open_csv({str(csv)!r}, read_options=options): pass",
            "options = pyarrow.csv.ReadOptions(column_names=['dst', 'src'])",
        ),
    }
    if not args.peers_only:
        runs = {"gz": (gz_code(csv, out, "1GB"), threads), "gz, to a store": (ingest, threads)} | runs
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    peak = dict.fromkeys(runs, 0)
    forks = Forks("import gz, numpy, pyarrow.csv")
    bystanders = _common.Bystanders()
    for _ in range(args.repeat):
        for name, (code, setup) in runs.items():
            warm(csv)
            usage = forks.run(code, setup=setup)
            if name in MADE:  # what walk.py and sample.py would make once more
                data.keep(out, MADE[name])
            shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
            seconds[name].append(usage.seconds)
            peak[name] = max(peak[name], usage.peak_rss)
    forks.close()
    report.others = bystanders.share()
    report.rates(
        "CSV to .gl",
        seconds,
        unit="M edges/s",
        work=data.graph.num_edges / 1e6,
        targets=(
            _common.Target("gz", ("graphzero",), TARGET, scale=1),
            _common.Target("gz, to a store", ("graphzero",), TARGET_STORE, scale=1),
        ),
    )
    for name, value in peak.items():
        report.note(f"peak RSS of {name}: {value / 1e6:,.0f} MB")
    ours = [name for name in runs if name.startswith("gz")]
    if ours:
        bound = (BUDGET + SPARE) / 1e6
        limits = (_common.Limit(f"peak RSS of {n}", peak[n] / 1e6, bound, "MB") for n in ours)
        report.limits("memory", *limits)
    report.finish()


if __name__ == "__main__":
    main()
