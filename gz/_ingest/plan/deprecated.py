"""Names that are kept for one version, and those that mean something else now."""

from __future__ import annotations

import warnings


def deprecated(old: str, new: str) -> None:
    warnings.warn(
        f"{old} is called {new} now; the old name goes with the next version", DeprecationWarning, 4
    )


def columns_were_ends(columns: list[str], ends: list[str], where: str) -> None:
    """Said of two columns that are kept, and that were taken for the ends of an edge before there was `ends`.
    Not a DeprecationWarning, which Python does not show to whoever calls a script of somebody else."""
    a, b = columns
    src, dst = ends
    keep = f'ends=["{src}", "{dst}"], columns=["{a}", "{b}"]  (--ends {src},{dst})'
    warnings.warn(
        f"{where}: columns={columns!r} keeps these two as columns of the edges; before there was ends= it "
        f"named their ends.\n"
        f"  {src} -> {dst}, keep {a} and {b}: {keep}\n"
        f'  {a} -> {b}: ends=["{a}", "{b}"]  (--ends {a},{b})',
        FutureWarning,
        4,
    )
