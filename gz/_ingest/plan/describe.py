"""How an ingest reads its inputs, said before the work: for the terminal, the report, and the store."""

from __future__ import annotations

from typing import Any

from gz._base.dtypes import Column
from gz._ingest.plan.column_input import ColumnInput
from gz._ingest.plan.edge_input import EdgeInput
from gz._ingest.plan.inputs import Inputs, NodeInput
from gz._ingest.read.csv_table import CsvTable
from gz._ingest.read.npy import NpyArray
from gz._ingest.read.parquet import ParquetTable
from gz._ingest.read.tables import Table

_ROWS = 3  # shown beside the plan
_IDS = {
    "dense": "node numbers from 0 on",
    "int": "any integers, numbered as they come",
    "text": "text, numbered as it comes",
}
_BLANKS = {"\t": "tab", " ": "blanks"}


def describe(inputs: Inputs) -> dict[str, Any]:
    """As JSON can hold it: what store.json keeps under "plan"."""
    nodes = {name: _node(inputs, node) for name, node in inputs.nodes.items()}
    return {"ids": inputs.spec.ids, "nodes": nodes, "edges": [_edge(e) for e in inputs.edges]}


def _node(inputs: Inputs, node: NodeInput) -> dict[str, Any]:
    told: dict[str, Any] = {"num_nodes": node.num_nodes, "columns": {}}
    if node.keys is not None:
        told |= {"file": node.keys.tables[0].name, **_format(node.keys.tables[0])}
        told["id"] = node.keys.tables[0].columns[0].name
        told["ids"] = "text" if inputs.spec.ids != "int" and "text" in node.keys.kinds() else "int"
    for name, c in node.columns.items():
        told["columns"][name] = _array(c) if isinstance(c, NpyArray) else _column(c)
    if node.left_out:
        told["left_out"] = node.left_out
    if node.spec.splits:
        told["splits"] = list(node.spec.splits)
    return told


def _array(a: NpyArray) -> dict[str, Any]:
    return {"dtype": a.dtype.name, "shape": list(a.shape[1:]), "from": a.name, "adopted": True}


def _column(c: ColumnInput) -> dict[str, Any]:
    return _stored(c.column, c.categories is not None) | {"from": c.table.name}


def _stored(c: Column, categories: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"dtype": c.dtype}
    if c.shape:
        told["shape"] = list(c.shape)
    if c.unit is not None:
        told["unit"] = c.unit
    if c.stored is not None:
        told["stored"] = c.stored
    if categories:
        told["categories"] = True
    return told


def _edge(e: EdgeInput) -> dict[str, Any]:
    spec, table = e.spec, e.table
    told: dict[str, Any] = {"type": list(spec.type), "file": table.name, **_format(table.parts[0])}
    told["ends"] = list(e.keys)
    told["ids"] = ["text" if "text" in kinds else "int" for kinds in e.key_kinds()]
    told["columns"] = {c.name: _stored(c, c.name in e.categories) for c in e.own}
    told["columns"] |= {n: _column(c) for n, c in e.separate.items()}
    if e.left_out:
        told["left_out"] = e.left_out
    told["directions"] = spec.directions
    for name in ("undirected", "coalesce", "weight"):
        if getattr(spec, name):
            told[name] = getattr(spec, name)
    if spec.self_loops != "keep":
        told["self_loops"] = spec.self_loops
    told["first_rows"] = table.head(_ROWS)
    return told


def _format(table: Table) -> dict[str, Any]:
    if isinstance(table, CsvTable):
        return {"format": "text", "delimiter": table.layout.delimiter, "header": bool(table.layout.names)}
    if isinstance(table, ParquetTable):
        return {"format": "parquet"}
    return {"format": "file" if table.reads_files else "memory"}


def plan_lines(plan: dict[str, Any], full: bool = False) -> list[str]:
    """A few lines for a person; in full, one for each column."""
    lines = []
    for t, n in plan["nodes"].items():
        lines.append(f"nodes {t}: " + ", ".join(_node_words(plan, n)))
        lines += _column_lines(n, full)
    for e in plan["edges"]:
        src, dst = e["ends"]
        lines.append(f"edges {' '.join(e['type'])}: {e['file']}{_text_words(e)}")
        kinds = ", ".join(sorted({_id_words(plan, k) for k in e["ids"]}))
        lines.append(f"  {src} -> {dst}; ids are {kinds}; {_options(e)}")
        lines += _column_lines(e, full)
        names = [src, dst, *e["columns"]]
        for row in e["first_rows"] if full else e["first_rows"][:1]:
            shown = [f"{n}={v}" for n, v in zip(names, row, strict=False)]
            lines.append("  row: " + ", ".join(shown)[:100])
    return lines


def _node_words(plan: dict[str, Any], n: dict[str, Any]) -> list[str]:
    words = []
    if "id" in n:
        words.append(f"{n['file']}{_text_words(n)}, ids in {n['id']} ({_id_words(plan, n['ids'])})")
    count = n["num_nodes"]
    words.append(f"{count} of them" if count is not None else "as many as the input has")
    if "splits" in n:
        words.append("splits " + " ".join(n["splits"]))
    return words


def _id_words(plan: dict[str, Any], kind: str) -> str:
    return _IDS["dense" if plan["ids"] == "dense" else plan["ids"] if plan["ids"] != "map" else kind]


def _text_words(t: dict[str, Any]) -> str:
    if t.get("format") != "text":
        return ""
    d = t["delimiter"]
    return f" ({'a header' if t['header'] else 'no header'}, fields cut by {_BLANKS.get(d, repr(d))})"


def _options(e: dict[str, Any]) -> str:
    words = ["undirected" if e.get("undirected") else "directed", f"grouped {e['directions']}"]
    words += ["coalesced"] if e.get("coalesce") else []
    words += [f"weight {e['weight']}"] if "weight" in e else []
    words += [f"self loops: {e['self_loops']}"] if "self_loops" in e else []
    return ", ".join(words)


def _column_lines(part: dict[str, Any], full: bool) -> list[str]:
    shown = {name: _column_words(c) for name, c in part["columns"].items()}
    lines = []
    if full:
        lines += [f"  column {name}: {words}" for name, words in shown.items()]
    elif shown:
        lines.append("  columns " + ", ".join(f"{n} ({w})" for n, w in shown.items()))
    if "left_out" in part:
        lines.append("  left out: " + ", ".join(part["left_out"]))
    return lines


def _column_words(c: dict[str, Any]) -> str:
    words = "codes of text" if c.get("categories") else c["dtype"]
    if c.get("shape"):
        words += " x ".join(["", *map(str, c["shape"])]).replace(" x ", " [", 1) + "]"
    words += f", stored as {c['stored']}" if "stored" in c else ""
    return words + (f", {c['unit']}" if "unit" in c else "")
