"""An HTML page in one file: headings, tables, figures. Nothing is fetched, nothing is run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from gz._report.svg import CHART_CSS, variables

_CSS = """
*{box-sizing:border-box}
body{margin:0 auto;padding:32px 20px 64px;max-width:780px;background:var(--paper);color:var(--ink);
 font:16px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif}
h1{font-size:28px;line-height:1.2;margin:0 0 4px}
h2{font-size:20px;margin:40px 0 8px;padding-top:16px;border-top:1px solid var(--grid)}
p{margin:8px 0}
.soft,figcaption{color:var(--soft);font-size:14px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px;margin:8px 0}
th,td{text-align:left;vertical-align:top;padding:5px 12px 5px 0;border-bottom:1px solid var(--grid)}
td.number,th.number{text-align:right}
td.number{font-variant-numeric:tabular-nums;white-space:nowrap}
th{font-weight:600}
th{vertical-align:bottom}
.facts td:first-child{color:var(--soft);width:34%}
.facts td{overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:16px 0}
.tile{border:1px solid var(--grid);border-radius:8px;padding:10px 14px}
.tile b{display:block;font-size:22px;line-height:1.3}
.tile span{color:var(--soft);font-size:13px}
figure{margin:20px 0}
figure svg{width:100%;height:auto;display:block}
figure h3{font-size:16px;margin:0 0 4px}
"""


def page(title: str, subtitle: str, body: Iterable[str]) -> str:
    both = variables()
    style = (
        f":root{{color-scheme:light dark;{both['light']}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{both['dark']}}}}}{_CSS}{CHART_CSS}"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<h1>{escape(title)}</h1>\n<p class="soft">{escape(subtitle)}</p>\n'
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def section(title: str, *parts: str) -> str:
    return "\n".join([f"<h2>{escape(title)}</h2>", *parts])


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def listed(texts: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(t)}</li>" for t in texts) + "</ul>"


def tiles(values: Sequence[tuple[str, str]]) -> str:
    """(name, value) pairs as large figures."""
    shown = (
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in values
    )
    return f'<div class="tiles">{"".join(shown)}</div>'


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """What is what, a line each."""
    lines = (f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    return f'<table class="facts">{"".join(lines)}</table>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """`numbers`: which columns are set to the right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kind = (' class="number"' if i in numbers else "" for i in range(len(row)))
        return "".join(f"<{tag}{k}>{escape(cell)}</{tag}>" for k, cell in zip(kind, row, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{cells("th", head)}</tr>{body}</table></div>'


def figure(title: str, svg: str, caption: str = "") -> str:
    note = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure><h3>{escape(title)}</h3>{svg}{note}</figure>"
