"""What every benchmark shares: options, the machine, timing turn and turn about, ratios against targets.

A contestant is a function of the round number; all contestants of a round get the same work. Rounds are
interleaved, so that a machine that slows down slows everybody down, and the best round counts: it is the
least disturbed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

# OpenMP's threads spin for some milliseconds after their work, on cores the next contestant needs.
PAUSE = 0.05
RESULTS = Path(__file__).resolve().parent / "results"


def options(description: str | None, **extra) -> argparse.Namespace:
    """The options all benchmarks take; `extra` are more of them: name=(default, help)."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--scale", type=float, default=0.1, help="size of the graph; 1 = 11.1 M nodes, 155 M edges"
    )
    parser.add_argument(
        "--data", type=Path, default=Path("/tmp/gz-bench"), help="folder for generated data; kept"
    )
    parser.add_argument("--repeat", type=int, default=5, help="rounds; the best one counts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peers-only", action="store_true", help="leave gz out: checks the peers' half")
    parser.add_argument(
        "--no-save", action="store_true", help="print only; write nothing to benchmarks/results"
    )
    for name, (default, text) in extra.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, help=text)
    args = parser.parse_args()
    # Before numpy, torch or DGL start their threads. Benchmarks import them inside functions for this reason.
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(args.threads)
    os.environ.setdefault("DGLBACKEND", "pytorch")
    args.data.mkdir(parents=True, exist_ok=True)
    return args


def _first_line(path: str, default: str = "") -> str:
    try:
        return Path(path).read_text().splitlines()[0].strip()
    except (OSError, IndexError):
        return default


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "unknown")


def memory_limit() -> str:
    """The tightest cgroup limit on this process, v2 or v1."""
    limits = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            root, name = Path("/sys/fs/cgroup"), "memory.max"
        elif "memory" in controllers.split(","):
            root, name = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"
        else:
            continue
        folder = root / group.lstrip("/")
        for place in [folder, *folder.parents]:
            value = _first_line(str(place / name))
            if value.isdigit() and int(value) < 1 << 60:
                limits.append(int(value))
            if place == root:
                break
    return f"{min(limits) / 2**30:.1f} GiB" if limits else "none"


def filesystem(path: Path) -> str:
    """The mount a path lies on: device, filesystem, and whether its disk says it rotates."""
    path = path.resolve()
    best = ("", "unknown", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        device, point, kind = line.split()[:3]
        if (path == Path(point) or Path(point) in path.parents) and len(point) >= len(best[0]):
            best = (point, device, kind)
    device = Path(best[1]).name
    disk = next(
        (d for d in sorted(os.listdir("/sys/block"), key=len, reverse=True) if device.startswith(d)), None
    )
    model = _first_line(f"/sys/block/{disk}/device/model", "no model name") if disk else "no block device"
    ahead = _first_line(f"/sys/block/{disk}/queue/read_ahead_kb", "?") if disk else "?"
    return f"{best[2]} on {best[1]} ({model}, read-ahead {ahead} KiB), mounted at {best[0]}"


def versions(*packages: str) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in packages or ("gz", "numpy", "pyarrow", "torch", "torch_geometric", "dgl", "graphzero"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def machine(args: argparse.Namespace) -> dict:
    ram = int(_field("/proc/meminfo", "MemTotal").split()[0]) * 1024
    return {
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "ram": f"{ram / 2**30:.1f} GiB",
        "cgroup_limit": memory_limit(),
        "kernel": platform.release(),
        "data": filesystem(args.data),
        "threads": args.threads,
        "versions": versions(),
    }


class Bystanders:
    """How much of the processors others take while a benchmark runs: that flatters whoever needs least.

    Processes of one's own count as others until they have been waited for.
    """

    MOST = 0.1  # of one processor

    def __init__(self) -> None:
        self._wall, self._busy, self._own = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        # user nice system idle iowait irq softirq steal; guests are in user and nice already.
        ticks = [int(t) for t in _first_line("/proc/stat").split()[1:9]]
        busy = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), busy, sum(os.times()[:4])

    def share(self) -> float:
        """Since the last call, as a share of one processor."""
        then = self._wall, self._busy, self._own
        self._wall, self._busy, self._own = self._now()
        passed = max(self._wall - then[0], 1e-9)
        return max(0.0, (self._busy - then[1]) - (self._own - then[2])) / passed


@dataclass(frozen=True)
class Target:
    """`ours` must be at least `ratio` times as fast as the fastest of `peers`.

    It was set for graphs of a --scale, and is judged from there on: on a small one, which the processor's
    cache holds half of, the ratio is another. There it is printed and missed by nobody.
    """

    ours: str
    peers: tuple[str, ...]
    ratio: float
    scale: float = 0.0


@dataclass(frozen=True)
class Limit:
    """A measured value that must stay below a bound."""

    name: str
    value: float
    bound: float
    unit: str


class Report:
    """Collects what a benchmark measured, prints it, saves it, and knows whether the targets were met."""

    def __init__(self, name: str, args: argparse.Namespace, **setting):
        self.name, self.args = name, args
        self.setting = {"scale": args.scale, "repeat": args.repeat, **setting}
        self.machine = machine(args)
        self.tables: list[dict] = []
        self.met = True
        self.others = 0.0  # the most that others took during a contest, of one processor
        print(f"== {name}")
        for key, value in {**self.machine, **self.setting}.items():
            text = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
            print(f"   {key:<14} {text}")

    def contest(
        self,
        title: str,
        contestants: Mapping[str, Callable[[int], object]],
        *,
        unit: str,
        work: float = 1.0,
        targets: tuple[Target, ...] = (),
        parts: Mapping[str, int] | None = None,
    ) -> dict[str, float]:
        """Time `contestants` turn and turn about, after a warm-up round. `work` is units done per call.

        `parts`: who does only one part in so many of that; its seconds are those of all of it.
        """
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        bystanders = Bystanders()
        for turn in range(-1, self.args.repeat):
            for name, run in contestants.items():
                time.sleep(PAUSE)
                start = time.perf_counter()
                run(turn)
                if turn >= 0:
                    seconds[name].append((time.perf_counter() - start) * (parts or {}).get(name, 1))
        self.others = max(self.others, bystanders.share())
        return self.rates(title, seconds, unit=unit, work=work, targets=targets)

    def rates(self, title, seconds, *, unit, work=1.0, targets=()) -> dict[str, float]:
        """Report rounds that were timed elsewhere."""
        best = {name: min(times) for name, times in seconds.items()}
        print(f"\n{title}, best of {self.args.repeat}")
        for name, s in sorted(best.items(), key=lambda item: item[1]):
            spread = max(seconds[name]) / s
            print(f"   {name:<34} {work / s:>14,.2f} {unit}   {s * 1e3:>10,.2f} ms   worst/best {spread:.2f}")
        judged = []
        for target in targets:
            peers = [p for p in target.peers if p in best]
            if target.ours not in best or not peers:
                print(f"   not judged: {target.ours} against {', '.join(target.peers)} (not run)")
                continue
            peer = min(peers, key=best.__getitem__)
            ratio = best[peer] / best[target.ours]
            met, small = ratio >= target.ratio, self.args.scale < target.scale
            found = {"best_peer": peer, "measured": ratio, "met": met, "judged": not small}
            judged.append({**asdict(target), **found})
            verdict = "not judged at this scale:" if small else self._judge(met)
            at = f" at --scale {target.scale:g}" if small else ""
            print(f"   {verdict} {target.ours} is {ratio:.2f}x {peer}; at least {target.ratio:g}x wanted{at}")
        self.tables.append(
            {"title": title, "unit": unit, "work": work, "seconds": seconds, "targets": judged}
        )
        return best

    def limits(self, title: str, *limits: Limit) -> None:
        print(f"\n{title}")
        for limit in limits:
            verdict = self._judge(limit.value <= limit.bound)
            print(
                f"   {verdict} {limit.name}: {limit.value:,.2f} {limit.unit}; at most {limit.bound:g} wanted"
            )
        self.tables.append({"title": title, "limits": [asdict(v) for v in limits]})

    def note(self, text: str) -> None:
        print(f"   {text}")
        self.tables.append({"note": text})

    def _judge(self, met: bool) -> str:
        self.met &= met
        return "PASS" if met else "FAIL"

    def finish(self) -> None:
        """Write benchmarks/results/<name>-<scale>.json and end the process: 0 when every target was met.

        A run beside others is saved as such, and no table takes its figures (tables.py).
        """
        quiet = self.others <= Bystanders.MOST
        load = f"load {self.machine['load']:.2f} before, {os.getloadavg()[0]:.2f} after"
        print(f"\n   others took up to {self.others:.0%} of a processor; {load}")
        if not quiet:
            print("   NOT QUIET: these figures are no evidence")
        self.save()
        print()
        sys.exit(0 if self.met else 1)

    @property
    def _path(self) -> Path:
        return RESULTS / f"{self.name}-scale{self.args.scale:g}.json"

    def keep(self, but: set[str]) -> None:
        """Takes over the tables of an earlier result, but for those of these titles, to be made again."""
        if self._path.exists():
            tables = json.loads(self._path.read_text())["tables"]
            self.tables = [t for t in tables if t.get("title") not in but]

    def save(self) -> None:
        """What there is so far: of a long run, the parts that are done."""
        if self.args.no_save or self.args.peers_only:
            return
        RESULTS.mkdir(exist_ok=True)
        record = {"benchmark": self.name, "date": time.strftime("%Y-%m-%d"), "machine": self.machine}
        record |= {"setting": self.setting, "met": self.met, "tables": self.tables}
        quiet = self.others <= Bystanders.MOST
        record |= {"load_after": os.getloadavg()[0], "others": self.others, "quiet": quiet}
        self._path.write_text(json.dumps(record, indent=1, default=str) + "\n")
