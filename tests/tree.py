"""Prints how the code is layered, and fails where it is not: `python tests/tree.py`, part of `make lint`.

C++: which folder of csrc includes which; an include may point to an earlier folder of FOLDERS or to its own.
Python: which room of ROOMS imports which; an import may only point to an earlier room or to its own.
Imports inside functions count, those for type checking alone do not. Neither graph has a cycle between files.
Files and folders keep to a size that can be read.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

# The path of the data, first things first.
FOLDERS = (
    *("base", "memory", "cache", "file", "read", "column", "hot", "assign"),
    *("query", "pick", "walk", "sample", "build", "csv", "python"),
)
# A module belongs to the room that claims the longest beginning of its name.
ROOMS = {
    "engine": ("gz._engine",),
    "base": ("gz._base",),
    "watch": ("gz._watch",),
    "report": ("gz._report",),
    "parts": ("gz.manifest", "gz.feature", "gz.graph", "gz.hetero", "gz.id_map", "gz.files", "gz.output"),
    "read": ("gz._ingest.read",),
    "plan": ("gz._ingest.plan",),
    "layout": ("gz._ingest.layout",),
    "write": ("gz._ingest.write",),
    "ingest": ("gz._ingest",),
    "edit": ("gz.edit",),
    "store": ("gz.store",),
    "tools": ("gz.convert", "gz.exporter", "gz._hot", "gz.verify"),
    "partitioner": ("gz.partitioner",),
    "gz": ("gz",),
    "measure": ("gz._measure",),
    "adapter": ("gz.adapter",),
    "gz_pyg": ("gz_pyg",),
    "gz_dgl": ("gz_dgl",),
    "cli": ("gz.cli", "gz.__main__"),  # the last: `gz partition` hands a store to gz_dgl, when it is run
}
ADAPTERS = ("gz_pyg", "gz_dgl")  # they do not know each other
PACKAGES = ("gz", "gz_pyg", "gz_dgl")
MAX_LINES = 400
MAX_FILES = 16

Graph = dict[str, set[str]]  # file or module -> what it needs
LEVEL = {room: level for level, room in enumerate(ROOMS)}
CLAIMS = {claim: room for room, claims in ROOMS.items() for claim in claims}


def includes(root: Path) -> Graph:
    graph: Graph = {}
    for path in sorted([*root.glob("csrc/*/*.h"), *root.glob("csrc/*/*.cpp")]):
        graph[str(path.relative_to(root / "csrc"))] = set(
            re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE)
        )
    return graph


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(tree: ast.Module, module: str, is_package: bool) -> Iterator[str]:
    """Every name the module may import: of `from a import b` both a and a.b; the caller knows which exist."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def imports(root: Path) -> Graph:
    paths = {module_name(p, root): p for package in PACKAGES for p in sorted(root.glob(f"{package}/**/*.py"))}
    known = {*paths, "gz._engine"}
    graph: Graph = {}
    for module, path in paths.items():
        tree = ast.parse(path.read_text())
        needed = {n for n in imported_names(tree, module, path.name == "__init__.py") if n in known}
        # `from a import b` names a too; where b is a module of its own, a's __init__ is not what is wanted.
        graph[module] = {n for n in needed if not any(m.startswith(n + ".") for m in needed)} - {module}
    return graph


def room_of(module: str) -> str:
    return CLAIMS[max((c for c in CLAIMS if f"{module}.".startswith(f"{c}.")), key=len)]


def rooms(graph: Graph, room) -> Graph:
    result: defaultdict[str, set[str]] = defaultdict(set)
    for user, needed in graph.items():
        result[room(user)] |= {room(n) for n in needed} - {room(user)}
    return dict(result)


def cycle(graph: Graph) -> list[str] | None:
    """The names along one cycle, its first again at the end; None where there is none."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str] | None:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return None
        for needed in sorted(graph.get(name, ())):
            if found := visit(needed, [*path, name]):
                return found
        done.add(name)
        return None

    for name in sorted(graph):
        if found := visit(name, []):
            return found
    return None


def upward_includes(graph: Graph) -> Iterator[str]:
    for user, needed in graph.items():
        for header in sorted(needed):
            folder = header.split("/")[0]
            if header not in graph:
                yield f"csrc/{user} includes {header}, which is not in csrc: name the folder, or use <>"
            elif FOLDERS.index(folder) > FOLDERS.index(user.split("/")[0]):
                yield f"csrc/{user} includes {header}: {folder} stands after it in {' < '.join(FOLDERS)}"


def upward_imports(graph: Graph) -> Iterator[str]:
    for user, needed in graph.items():
        mine = room_of(user)
        for module in sorted(needed):
            theirs = room_of(module)
            if LEVEL[theirs] > LEVEL[mine] or (mine != theirs and {mine, theirs} <= {*ADAPTERS}):
                yield f"{user} imports {module}: {theirs} does not stand before {mine} (tests/tree.py)"
            if mine in ADAPTERS and mine != theirs and re.search(r"\._(?!_)", module):
                yield f"{user} imports {module}: adapters use gz.adapter and the public names of gz"


def too_large(root: Path) -> Iterator[str]:
    files = [p for folder in ("csrc", *PACKAGES) for p in sorted((root / folder).rglob("*.*"))]
    sources = [p for p in files if p.suffix in (".py", ".h", ".cpp")]
    per_folder: defaultdict[Path, int] = defaultdict(int)
    for path in sources:
        per_folder[path.parent] += 1
        lines = path.read_text().count("\n")
        if lines > MAX_LINES:
            yield f"{path.relative_to(root)} has {lines} lines; {MAX_LINES} are the most"
    for folder, count in per_folder.items():
        if count > MAX_FILES:
            yield f"{folder.relative_to(root)} has {count} files; {MAX_FILES} are the most"


def problems(root: Path) -> list[str]:
    headers, modules = includes(root), imports(root)
    found = [*upward_includes(headers), *upward_imports(modules), *too_large(root)]
    for graph in (headers, modules):
        if names := cycle(graph):
            found.append("a cycle: " + " -> ".join(names))
    return found


def show(title: str, graph: Graph, order: list[str]) -> None:
    print(title)
    for name in order:
        needed = sorted(graph.get(name, ()), key=order.index)
        print(f"  {name:<8} {'<- ' + ', '.join(needed) if needed else ''}".rstrip())


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    show("csrc, a folder and what it includes", rooms(includes(root), lambda f: f.split("/")[0]), [*FOLDERS])
    show("Python, a room and what it imports", rooms(imports(root), room_of), [*LEVEL])
    found = problems(root)
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
