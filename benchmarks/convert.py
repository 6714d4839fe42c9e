"""An edge list in CSV to a .gl file: wall time and peak memory, against GraphZero's converter.

Wanted: 5x as fast, and a peak RSS of at most the memory budget (1 GB) + 300 MB. Each conversion is a
process of its own, start-up not counted; the CSV is in the page cache, as far as it fits. pyarrow reading
the CSV and doing nothing else is shown beside them.
"""

from __future__ import annotations

import _common

TARGET = 5.0
BUDGET, SPARE = 1e9, 300e6


def main() -> None:
    args = _common.options(__doc__)
    from _data import Data, graphzero_code, gz_code
    from _process import run_python, warm

    data = Data(args.data, args.scale)
    csv = data.csv()
    size = csv.stat().st_size
    report = _common.Report("convert", args, csv_bytes=size, edges=data.graph.num_edges, memory="1GB")
    data.room_for(data.graph.num_edges * 12 + data.graph.num_nodes * 8)
    out = data.folder / "converted.gl"
    threads = f"gz.set_num_threads({args.threads})"
    runs = {
        "graphzero": (graphzero_code(csv, out), "import graphzero"),
        "pyarrow, reading only": (
            f"for batch in pyarrow.csv.open_csv({str(csv)!r}, read_options=options): pass",
            "import pyarrow.csv; options = pyarrow.csv.ReadOptions(column_names=['dst', 'src'])",
        ),
    }
    if not args.peers_only:
        runs = {"gz": (gz_code(csv, out, "1GB"), f"import gz; {threads}")} | runs
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    peak = dict.fromkeys(runs, 0)
    for _ in range(args.repeat):
        for name, (code, setup) in runs.items():
            warm(csv)
            usage = run_python(code, setup=setup)
            out.unlink(missing_ok=True)
            seconds[name].append(usage.seconds)
            peak[name] = max(peak[name], usage.peak_rss)
    report.rates(
        "CSV to .gl",
        seconds,
        unit="M edges/s",
        work=data.graph.num_edges / 1e6,
        targets=(_common.Target("gz", ("graphzero",), TARGET),),
    )
    for name, value in peak.items():
        report.note(f"peak RSS of {name}: {value / 1e6:,.0f} MB")
    if "gz" in peak:
        bound = (BUDGET + SPARE) / 1e6
        report.limits("memory", _common.Limit("peak RSS of gz", peak["gz"] / 1e6, bound, "MB"))
    report.finish()


if __name__ == "__main__":
    main()
