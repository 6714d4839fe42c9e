"""An ingest of a dataset folder that is killed goes on from its last finished phase."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("gz._ingest.journal", reason="this build of gz does not resume")
pytest.importorskip("torch", reason="splits of these folders are .pt files")
pytest.importorskip("pandas", reason="pandas writes the folders, as it wrote OGB's")
pytest.importorskip("ogb", reason="OGB's DatasetSaver writes the binary folders")

import ogb_folders as folders
import test_igb_layout
import test_lsc_layout

import gz

# Dies by SIGKILL after the n-th finished phase.
SCRIPT = """
import os, signal, sys
import gz
from gz._ingest import journal
finish, count = journal.Journal.finish, 0
def counted(self, *a):
    global count
    finish(self, *a)
    count += 1
    if count == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
journal.Journal.finish = counted
gz.ingest(sys.argv[1], **{sys.argv[2]: sys.argv[3]})
"""


def make(kind, folder):
    """The option of gz.ingest and the folder."""
    match kind:
        case "text":
            folders.text_node(folder / "tiny")
        case "several types":
            folders.text_types(folder / "tiny")
        case "link":
            folders.text_link(folder / "tiny", "collab")
        case "binary":
            return "ogb", folders.binary_node(folder / "tiny")[0]
        case "lsc" | "lsc before the challenge":
            test_lsc_layout.write(folder, released=kind == "lsc")
            return "lsc", str(folder)
        case "igb":
            test_igb_layout.write(folder, test_igb_layout.RELATIONS)
            return "igb", str(folder / "tiny")
    return "ogb", str(folder / "tiny")


def contents(store):
    return {str(p.relative_to(store)): p.read_bytes() for p in sorted(store.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("moment", ["1", "3"])
@pytest.mark.parametrize(
    "kind", ["text", "several types", "link", "binary", "lsc", "lsc before the challenge", "igb"]
)
def test_goes_on_after_a_kill(tmp_path, kind, moment):
    option, folder = make(kind, tmp_path / "data")
    whole, out = tmp_path / "whole", tmp_path / "s"
    gz.ingest(whole, **{option: folder})
    killed = subprocess.run([sys.executable, "-c", SCRIPT, str(out), option, folder, moment], cwd="/")
    assert killed.returncode == -9
    with pytest.warns(RuntimeWarning, match=f"goes on after its {moment} finished phases"):
        gz.ingest(out, **{option: folder})
    assert contents(out) == contents(whole)
