"""Charts as SVG: lines over time, and bars. Colours are CSS variables, which a page or `standalone` sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from gz._report.units import SECONDS, Unit, fitting, short, ticks, told

WIDTH, HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 34, 44
_LETTER = 6.6  # width of a letter at 12 px, a generous mean
_LINE = 18

# Blue, orange, green, purple: told apart by most eyes, on white and on near-black.
COLOURS = {
    "light": ("#1f6feb", "#c2410c", "#15803d", "#7e22ce"),
    "dark": ("#6cb0ff", "#ff9a5c", "#5fd38d", "#d2a8ff"),
}
INK = {
    "light": ("#1b1f24", "#667085", "#e3e6ea", "#ffffff"),
    "dark": ("#e6e8eb", "#9aa4b2", "#2c323a", "#14171b"),
}


@dataclass(frozen=True)
class Series:
    """A line: (x, y) by ascending x; a y of None is a gap. `end`: what happened at its end, told there."""

    name: str
    points: Sequence[tuple[float, float | None]]
    end: str | None = None


@dataclass(frozen=True)
class Level:
    """A dashed line across: a limit."""

    name: str
    value: float


def lines(
    series: Sequence[Series],
    units: Sequence[Unit],
    *,
    what: str,
    level: Level | None = None,
    x_units: Sequence[Unit] = SECONDS,
    x_name: str = "time",
) -> str:
    """A chart of lines from 0 upwards. `what` is on the y axis; its unit is added."""
    values = [y for s in series for _, y in s.points if y is not None]
    most = max([*values, level.value if level else 0.0], default=0.0)
    unit, x_unit = fitting(units, most), fitting(x_units, 0.0)
    last = max((x for s in series for x, _ in s.points), default=0.0)
    names = [s.name for s in series] if len(series) > 1 else []  # one line is what the axis says
    frame = _Frame(ticks(last / x_unit.scale, 8), ticks(most / unit.scale), _legend_rows(names))
    parts = [frame.grid(f"{x_name} ({x_unit.name})", f"{what} ({unit.name})")]
    parts.append(_legend(names))
    if level:
        parts.append(frame.level(level.name, level.value / unit.scale))
    ends: list[float] = []
    for number, s in enumerate(series):
        scaled = [(x / x_unit.scale, None if y is None else y / unit.scale) for x, y in s.points]
        parts.append(frame.line(scaled, number))
        if s.end and any(y is not None for _, y in scaled):
            parts.append(frame.end_mark(scaled, s.end, number, ends))
    label = f"{what} over {x_name}: " + ", ".join(s.name for s in series)
    return _svg(label, parts, frame.height)


def bars(counts: Sequence[float], names: Sequence[str], *, what: str, x_name: str) -> str:
    """Bars on a logarithmic scale; one of count 0 is left out."""
    most = max([1.0, *counts])
    powers = math.ceil(math.log10(most) - 1e-9) or 1
    frame = _Frame([], [], 0, log_top=powers)
    width = (WIDTH - _LEFT - _RIGHT) / max(1, len(counts))
    every = max(1, math.ceil((max(map(len, names), default=0) + 1) * _LETTER / width))
    parts = [frame.log_grid(x_name, what)]
    for i, (count, name) in enumerate(zip(counts, names, strict=True)):
        x = _LEFT + i * width
        if count > 0:
            y = frame.log_y(count)
            title = f"<title>{escape(name)}: {count:,.0f}</title>"
            parts.append(
                f'<rect class="f0" x="{x + 1:.1f}" y="{y:.1f}" width="{max(1.0, width - 2):.1f}" '
                f'height="{max(1.0, frame.bottom - y):.1f}">{title}</rect>'
            )
        if i % every == 0:
            parts.append(_text(x + width / 2, frame.bottom + 16, name, "tick", "middle"))
    return _svg(f"{what} by {x_name}", parts, frame.height)


def standalone(svg: str) -> str:
    """The chart as a file of its own, which follows the reader's light or dark."""
    both = {mode: _variables(mode) for mode in ("light", "dark")}
    style = (
        f":root{{{both['light']}}}@media (prefers-color-scheme:dark){{:root{{{both['dark']}}}}}"
        f".paper{{fill:var(--paper)}}{CHART_CSS}"
    )
    head, body = svg.split(">", 1)
    return (
        f'{head} xmlns="http://www.w3.org/2000/svg"><style>{style}</style>'
        f'<rect class="paper" width="100%" height="100%"/>{body}\n'
    )


def _variables(mode: str) -> str:
    ink, soft, grid, paper = INK[mode]
    named = [f"--c{i}:{c}" for i, c in enumerate(COLOURS[mode])]
    return ";".join([f"--ink:{ink}", f"--soft:{soft}", f"--grid:{grid}", f"--paper:{paper}", *named])


def variables() -> dict[str, str]:
    """The CSS variables of light and of dark."""
    return {mode: _variables(mode) for mode in ("light", "dark")}


CHART_CSS = (
    "svg text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif;fill:var(--ink)}"
    "svg .tick,svg .axis{fill:var(--soft)}"
    "svg .grid{stroke:var(--grid);stroke-width:1}"
    "svg .level{stroke:var(--soft);stroke-width:1.5;stroke-dasharray:6 4}"
    "svg .line{fill:none;stroke-width:2;stroke-linejoin:round}"
    + "".join(f"svg .s{i}{{stroke:var(--c{i})}}svg .f{i}{{fill:var(--c{i})}}" for i in range(4))
)


class _Frame:
    """The plane of a chart: where its values lie."""

    def __init__(self, x_ticks: list[float], y_ticks: list[float], legend_rows: int, log_top: int = 0):
        self.x_ticks, self.y_ticks, self.log_top = x_ticks, y_ticks, log_top
        self.top = _TOP + max(0, legend_rows - 1) * _LINE
        self.bottom = self.top + HEIGHT - _TOP - _BOTTOM
        self.height = self.bottom + _BOTTOM

    def x(self, value: float) -> float:
        return _LEFT + value / self.x_ticks[-1] * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return self.bottom - value / self.y_ticks[-1] * (self.bottom - self.top)

    def log_y(self, value: float) -> float:
        """1 stands a little above the axis, so that it is seen."""
        part = (math.log10(max(1.0, value)) + 0.15) / (self.log_top + 0.15)
        return self.bottom - part * (self.bottom - self.top)

    def grid(self, x_name: str, y_name: str) -> str:
        parts = [self._y_tick(self.y(v), told(v)) for v in self.y_ticks]
        parts += [_text(self.x(v), self.bottom + 16, told(v), "tick", "middle") for v in self.x_ticks]
        return "".join([*parts, self._names(x_name, y_name)])

    def log_grid(self, x_name: str, y_name: str) -> str:
        step = math.ceil((self.log_top + 1) / 6)
        values = [10.0**p for p in range(0, self.log_top + 1, step)]
        parts = [self._y_tick(self.log_y(v), short(v)) for v in values]
        return "".join([*parts, self._names(x_name, y_name)])

    def _y_tick(self, y: float, label: str) -> str:
        line = f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        return line + _text(_LEFT - 8, y + 4, label, "tick", "end")

    def _names(self, x_name: str, y_name: str) -> str:
        middle = (_LEFT + WIDTH - _RIGHT) / 2
        height = (self.top + self.bottom) / 2
        turned = (
            f'<text class="axis" text-anchor="middle" transform="translate(14 {height:.0f}) rotate(-90)">'
        )
        return _text(middle, self.bottom + 36, x_name, "axis", "middle") + f"{turned}{escape(y_name)}</text>"

    def line(self, points: Sequence[tuple[float, float | None]], number: int) -> str:
        """Through the points; one without a neighbour, of which no line can be drawn, is a dot."""
        path, dots, known = [], [], [False, *(y is not None for _, y in points), False]
        for i, (x, y) in enumerate(points):
            if y is None:
                continue
            at = f"{self.x(x):.1f}", f"{self.y(y):.1f}"
            if known[i] or known[i + 2]:
                path.append(f"{'L' if known[i] else 'M'}{at[0]} {at[1]}")
            else:
                dots.append(f'<circle class="f{number % 4}" cx="{at[0]}" cy="{at[1]}" r="3"/>')
        drawn = f'<path class="line s{number % 4}" d="{" ".join(path)}"/>' if path else ""
        return drawn + "".join(dots)

    def level(self, name: str, value: float) -> str:
        y = self.y(value)
        line = f'<line class="level" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        return line + _text(WIDTH - _RIGHT - 4, y - 6, name, "axis", "end")

    def end_mark(
        self, points: Sequence[tuple[float, float | None]], text: str, number: int, taken: list[float]
    ) -> str:
        """A dot and a text at the end of a line, below all of it; `taken`: heights of other such texts."""
        at = [(u, v) for u, v in points if v is not None][-1]
        x, y = self.x(at[0]), self.y(at[1])
        width = len(text) * _LETTER
        anchor = "end" if x + width + 8 > WIDTH - _RIGHT else "start"
        under = x - width - 12 if anchor == "end" else x
        passed = [self.y(v) for u, v in points if v is not None and self.x(u) > under]
        below = max([y, *passed]) + 18
        while any(abs(below - t) < 15 for t in taken):
            below += 15
        taken.append(below)
        shift = -8 if anchor == "end" else 8
        return f'<circle class="f{number % 4}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' + _text(
            x + shift, below, text, f"f{number % 4}", anchor
        )


def _legend_rows(names: Sequence[str]) -> int:
    return 1 + max((row for row, _ in _legend_places(names)), default=0)


def _legend_places(names: Sequence[str]) -> list[tuple[int, float]]:
    """Row and x of each entry; a new row where the next would not fit."""
    places, row, x = [], 0, float(_LEFT)
    for name in names:
        width = 22 + len(name) * _LETTER + 14
        if x > _LEFT and x + width > WIDTH - _RIGHT:
            row, x = row + 1, float(_LEFT)
        places.append((row, x))
        x += width
    return places


def _legend(names: Sequence[str]) -> str:
    parts = []
    for number, (name, (row, x)) in enumerate(zip(names, _legend_places(names), strict=True)):
        y = 16 + row * _LINE
        parts.append(
            f'<line class="line s{number % 4}" x1="{x:.0f}" x2="{x + 16:.0f}" y1="{y - 4}" y2="{y - 4}"/>'
        )
        parts.append(_text(x + 22, y, name, "name", "start"))
    return "".join(parts)


def _text(x: float, y: float, text: str, kind: str, anchor: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(label: str, parts: Sequence[str], height: float) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label, quote=True)}">'
        + "".join(parts)
        + "</svg>"
    )
