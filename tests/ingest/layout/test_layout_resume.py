"""An ingest of a dataset folder that is killed goes on from its last finished phase."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="splits of these folders are .pt files")
pytest.importorskip("pandas", reason="pandas writes the folders, as it wrote OGB's")
pytest.importorskip("ogb", reason="OGB's DatasetSaver writes the binary folders")

import ogb_folders as folders
import ready
import test_igb_layout
import test_lsc_layout
from opens import Opens
from stores import contents

import gz

# Dies by SIGKILL after the n-th finished phase.
SCRIPT = """
import os, signal, sys
import gz
from gz._base import journal
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


KINDS = ["text", "several types", "link", "binary", "lsc", "lsc before the challenge", "igb"]


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["1", "3"])
@pytest.mark.parametrize("kind", KINDS)
def test_goes_on_after_a_kill(tmp_path, kind, moment):
    option, folder = make(kind, tmp_path / "data")
    whole, out = tmp_path / "whole", tmp_path / "s"
    gz.ingest(whole, **{option: folder})
    killed = ready.run(["-c", SCRIPT, out, option, folder, moment], ready.TORCH, cwd="/")
    assert killed.returncode == -9
    with pytest.warns(RuntimeWarning, match=f"goes on after its {moment} finished phases"):
        gz.ingest(out, **{option: folder})
    assert contents(out) == contents(whole)


@pytest.mark.slow
def test_goes_on_with_another_budget_of_memory(tmp_path):
    """How much memory reading a .pt file may take says nothing about what is in it."""
    option, folder = make("binary", tmp_path / "data")
    out = str(tmp_path / "s")
    killed = ready.run(["-c", SCRIPT, out, option, folder, "1"], ready.TORCH, cwd="/")
    assert killed.returncode == -9
    with pytest.warns(RuntimeWarning, match="goes on after its 1 finished phases"):
        gz.ingest(out, **{option: folder}, memory="100MB")


@pytest.mark.parametrize("kind", KINDS)
def test_each_file_of_a_dataset_is_opened_once(tmp_path, kind):
    """.pt files aside: torch opens those by name, once to look and once to map."""
    option, folder = make(kind, tmp_path / "data")
    with Opens(folder) as opens:
        gz.ingest(tmp_path / "s", **{option: folder})
        counts = opens.counts()
    assert len(counts) >= 3
    assert {file: n for file, n in counts.items() if n > (4 if file.endswith(".pt") else 1)} == {}
