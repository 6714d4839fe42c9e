"""What the readers of dataset folders (OGB, LSC, IGB) share."""

from __future__ import annotations

import errno
import os
from typing import Any

from gz import manifest
from gz._engine import InputError
from gz._ingest.plan.spec import EdgeSpec, NodeSpec, Spec
from gz._ingest.read.files import Files
from gz._ingest.read.npy import NpyArray, open_array

# Options of gz.ingest that say how a file is laid out: a dataset folder leaves no choice in these.
_FIXED = (
    "edge_features",
    "delimiter",
    "header",
    "ends",
    "columns",
    "edge_columns",
    "on_bad_line",
    "drop",
    "nulls",
)


def edge_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options that go to every edge type; those that a dataset folder decides itself are errors."""
    given = [k for k in _FIXED if options.get(k) not in (None, "error", [], {})]
    if given:
        raise ValueError(f"{given[0]}= does not go with a dataset folder, whose layout is known")
    return {k: v for k, v in options.items() if k not in (*_FIXED, "weight")}


def required(*parts: str) -> str:
    """The path of a file the layout demands."""
    path = os.path.join(*parts)
    if not os.path.isfile(path):
        raise FileNotFoundError(errno.ENOENT, "a file of the dataset is missing", path)
    return path


def optional(*parts: str) -> str | None:
    path = os.path.join(*parts)
    return path if os.path.isfile(path) else None


def dataset_folder(folder: Any, holds: tuple[str, ...], what: str, inner: tuple[str, ...] = ()) -> str:
    """`folder`, or the one of `inner` inside it, that has one of the sub-folders `holds`."""
    root = os.path.abspath(os.path.expanduser(os.fspath(folder)))
    if os.path.isfile(root):
        raise InputError(f"{root}: is a file; unpack it and give the dataset's folder")
    if not os.path.isdir(root):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", root)
    for place in (root, *(os.path.join(root, i) for i in inner)):
        if any(os.path.isdir(os.path.join(place, h)) for h in holds):
            return place
    wanted = " or ".join(h + "/" for h in holds)
    hint = next((d for d in sorted(os.listdir(root)) if any(_holds(root, d, h) for h in holds)), None)
    more = f"; did you mean {os.path.join(root, hint)}?" if hint else ""
    raise InputError(f"{root}: is not {what}: it has no {wanted}{more}")


def _holds(root: str, d: str, h: str) -> bool:
    return os.path.isdir(os.path.join(root, d, h))


def array(
    path: str, files: Files, member: str | None = None, rows: int | None = None, what: str = "nodes"
) -> NpyArray:
    """An array whose number of rows is checked before anything is written."""
    a = open_array(path, files, member)
    if not a.shape:
        raise InputError(f"{a.name}: is a single number, not an array with a row for each of the {what}")
    if rows is not None and a.rows != rows:
        raise InputError(f"{a.name}: has {a.rows} rows (shape {tuple(a.shape)}), but there are {rows} {what}")
    return a


def edge_index(path: str, files: Files, member: str | None = None, edges: int | None = None) -> int:
    """Checks an edge_index [2, E] (or [E, 2]) and gives E."""
    a = open_array(path, files, member)
    if len(a.shape) != 2 or 2 not in a.shape:
        raise InputError(f"{a.name}: has shape {tuple(a.shape)}; an edge_index is [2, E]")
    if a.dtype.kind not in "iu":
        raise InputError(f"{a.name}: has dtype {a.dtype}; node ids are integers")
    found = int(a.shape[1] if a.shape[0] == 2 else a.shape[0])
    if edges is not None and found != edges:
        raise InputError(
            f"{a.name}: has {found} edges (shape {tuple(a.shape)}), but the dataset says {edges}"
        )
    return found


def homogeneous(node: NodeSpec, edge: EdgeSpec, files: Files) -> Spec:
    return Spec(True, {manifest.NODE_TYPE: node}, [edge], files=files)


def with_weight(edges: list[EdgeSpec], weight: str | None) -> None:
    """The weight goes to the edge types that have such a column; one must."""
    if weight is None:
        return
    having = [e for e in edges if weight in e.features]
    if not having:
        names = sorted({n for e in edges for n in e.features})
        raise ValueError(f"weight={weight!r}: there is no such edge column; there are {names or 'none'}")
    for e in having:
        e.weight = weight
