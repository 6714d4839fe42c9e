"""--overwrite replaces a store by a store, an export by an export, a file of gz by one, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import gz
from gz import cli
from gz._base import replace
from gz.exporter import export

EDGES = np.array([[0, 1, 2], [1, 2, 0]])


def snapshot(folder: Path) -> dict[str, bytes | str]:
    """All that lies in a folder, links as what they say."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def by_command(*args: str) -> None:
    if cli.main(list(args)):
        raise FileExistsError


def save_pyg(source: Path, out: Path) -> None:
    import torch
    from torch_geometric.data import Data

    import gz_pyg

    gz_pyg.save(Data(x=torch.zeros(3, 2), edge_index=torch.from_numpy(EDGES)), out, overwrite=True)


def save_dgl(source: Path, out: Path) -> None:
    import dgl

    import gz_dgl

    gz_dgl.save(dgl.graph((EDGES[0], EDGES[1])), out, overwrite=True)


STORE_MAKERS = {
    "gz.ingest": lambda source, out: gz.ingest(out, edges=EDGES, overwrite=True),
    "gz ingest": lambda source, out: by_command(
        "ingest", str(out), "--edges", str(source / "e.npy"), "--overwrite"
    ),
    "gz_pyg.save": save_pyg,
    "gz_dgl.save": save_dgl,
}
EXPORT_MAKERS = {
    "gz.export": lambda source, out: export(source / "store", out, overwrite=True),
    "gz export": lambda source, out: by_command("export", str(source / "store"), str(out), "--overwrite"),
}
MAKERS = STORE_MAKERS | EXPORT_MAKERS


def make_store(path: Path) -> None:
    gz.ingest(path, edges=EDGES, features={"old": np.arange(3)}, edge_features={"w": np.ones(3)})
    gz.open(path).add_feature("late", np.arange(3.0))


OLD: dict[str, Path] = {}  # a store and an export, made once


@pytest.fixture(scope="module", autouse=True)
def old(tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    make_store(folder / "store")
    export(folder / "store", folder / "export", "npy")
    OLD.update(store=folder / "store", export=folder / "export")


def make(maker: str, path: Path) -> None:
    """What the maker may replace."""
    shutil.copytree(OLD["export" if maker in EXPORT_MAKERS else "store"], path)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    np.save(folder / "e.npy", EDGES)
    (folder / "e.csv").write_text("0,1\n1,2\n")
    gz.ingest(folder / "store", edges=EDGES, features={"x": np.zeros((3, 2))})
    return folder


def notes(maker: str, out: Path) -> None:
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")


def empty_folder(maker: str, out: Path) -> None:
    out.mkdir()


def a_file(maker: str, out: Path) -> None:
    out.write_text("text")


def fifo(maker: str, out: Path) -> None:
    os.mkfifo(out)


def link_to_notes(maker: str, out: Path) -> None:
    notes(maker, out.with_name("elsewhere"))
    out.symlink_to("elsewhere")


def link_to_a_file(maker: str, out: Path) -> None:
    a_file(maker, out.with_name("elsewhere"))
    out.symlink_to("elsewhere")


def link_to_nothing(maker: str, out: Path) -> None:
    out.symlink_to("nowhere")


def foreign_manifest(maker: str, out: Path) -> None:
    notes(maker, out)
    (out / "store.json").write_text('{"format": "somebody\'s"}')
    (out / "graph.toml").write_text("title = 'somebody''s'")


def broken_manifest(maker: str, out: Path) -> None:
    make(maker, out)
    (out / "store.json").write_text("{")
    (out / "graph.toml").write_text("{")


def store_with_notes(maker: str, out: Path) -> None:
    make(maker, out)
    (out / "nodes" / "notes.txt").write_text("not in store.json")


def store_with_an_array(maker: str, out: Path) -> None:
    """A file of a kind that gz makes too, beside its own."""
    make(maker, out)
    np.save(out / "nodes" / "mine.npy", np.arange(3))


def store_with_an_adopted_column(maker: str, out: Path) -> None:
    make(maker, out)
    np.save(out / "mine.npy", np.arange(3))
    if maker in STORE_MAKERS:
        gz.open(out).add_feature("mine", str(out / "mine.npy"), adopt=True)


def store_with_a_link(maker: str, out: Path) -> None:
    make(maker, out)
    notes(maker, out.with_name("elsewhere"))
    (out / "nodes" / "more").symlink_to(out.with_name("elsewhere"))


def current_directory(maker: str, out: Path) -> None:
    make(maker, out)
    os.chdir(out)


def parent_of_the_current_directory(maker: str, out: Path) -> None:
    make(maker, out)
    os.chdir(out / "nodes")


def the_other_kind(maker: str, out: Path) -> None:
    make(next(iter(EXPORT_MAKERS if maker in STORE_MAKERS else STORE_MAKERS)), out)


def home(maker: str, out: Path) -> None:
    make(maker, out)
    os.environ["HOME"] = str(out)


def parent_of_home(maker: str, out: Path) -> None:
    make(maker, out)
    os.environ["HOME"] = str(out / "nodes")


REFUSED = [
    notes, empty_folder, a_file, fifo, link_to_notes, link_to_a_file, link_to_nothing, foreign_manifest,
    broken_manifest, store_with_notes, store_with_an_array, store_with_an_adopted_column, store_with_a_link,
    current_directory, parent_of_the_current_directory, the_other_kind, home, parent_of_home,
]  # fmt: skip


@pytest.fixture
def where(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.chdir("/")
    return tmp_path


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("target", REFUSED, ids=lambda f: f.__name__)
def test_what_is_no_store_of_ours_stays_whatever_the_flags(where, source, maker, target):
    target(maker, where / "out")
    before = snapshot(where)
    with pytest.raises(FileExistsError):
        MAKERS[maker](source, where / "out")
    assert snapshot(where) == before


@pytest.mark.parametrize("maker", MAKERS)
def test_the_root_and_a_mount_point_are_refused(small_disk, source, maker, monkeypatch):
    monkeypatch.chdir("/tmp")
    with pytest.raises(FileExistsError):
        MAKERS[maker](source, Path("/"))
    disk = small_disk(1 << 20)
    make(maker, disk / "made")
    for path in list((disk / "made").iterdir()):  # a mount point that looks like a store
        path.rename(disk / path.name)
    (disk / "made").rmdir()
    before = snapshot(disk)
    with pytest.raises(FileExistsError):
        MAKERS[maker](source, disk)
    assert snapshot(disk) == before


@pytest.mark.parametrize("maker", MAKERS)
def test_a_parent_of_the_inputs_is_refused(where, source, maker):
    make(maker, where / "out")
    shutil.copytree(source, where / "out" / "inputs")
    before = snapshot(where)
    with pytest.raises(FileExistsError):
        MAKERS[maker](where / "out" / "inputs", where / "out")
    assert snapshot(where) == before


@pytest.mark.parametrize("maker", MAKERS)
def test_one_of_ours_is_replaced_and_nothing_of_it_stays(where, source, maker):
    make(maker, where / "out")
    old = snapshot(where)
    MAKERS[maker](source, where / "new")
    MAKERS[maker](source, where / "out")
    assert snapshot(where / "out").keys() == snapshot(where / "new").keys()
    assert snapshot(where / "out") != old
    assert sorted(os.listdir(where)) == ["new", "out"]


@pytest.mark.parametrize("maker", MAKERS)
def test_a_link_stays_and_the_store_it_leads_to_is_replaced(where, source, maker):
    (where / "disk").mkdir()
    make(maker, where / "disk" / "real")
    (where / "out").symlink_to("disk/real")
    MAKERS[maker](source, where / "new")
    MAKERS[maker](source, where / "out")
    assert os.readlink(where / "out") == "disk/real"
    assert snapshot(where / "disk" / "real").keys() == snapshot(where / "new").keys()
    assert os.listdir(where / "disk") == ["real"]


def test_the_advice_to_overwrite_is_given_for_a_store_only(where):
    notes("", where / "out")
    with pytest.raises(FileExistsError, match="is no store of gz.*choose another name") as caught:
        gz.ingest(where / "out", edges=EDGES)
    assert "--overwrite" not in str(caught.value)
    make_store(where / "store")
    with pytest.raises(FileExistsError, match="--overwrite"):
        gz.ingest(where / "store", edges=EDGES)
    (where / "store" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"did not make: notes.txt. Nothing is deleted that gz did not"):
        gz.ingest(where / "store", edges=EDGES, overwrite=True)


def test_notes_put_into_the_store_while_the_new_one_is_made_stay(where):
    make_store(where / "out")

    def chunks():
        yield EDGES[0], EDGES[1]
        (where / "out" / "notes.txt").write_text("mine")

    with pytest.raises(FileExistsError, match=r"notes\.txt"):
        gz.ingest(where / "out", edges=chunks(), overwrite=True)
    assert (where / "out" / "notes.txt").read_text() == "mine"
    assert gz.open(where / "out").feature("old").get_tensor().tolist() == [0, 1, 2]


def test_notes_put_there_at_the_very_last_moment_stay(where, monkeypatch):
    make_store(where / "out")
    asked = replace._not_replaceable

    def late(given, target, kind):
        why = asked(given, target, kind)
        (where / "out" / "notes.txt").write_text("mine")
        return why

    def chunks():
        yield EDGES[0], EDGES[1]
        monkeypatch.setattr(replace, "_not_replaceable", late)

    with pytest.warns(RuntimeWarning, match="keeps files that were put into the old store"):
        gz.ingest(where / "out", edges=chunks(), overwrite=True)
    (left,) = where.glob("out.partial-*/**/*.txt")
    assert left.read_text() == "mine"
    assert gz.open(where / "out").num_edges() == 3


@pytest.mark.parametrize("name", ["out.partial-mine", "out.partial-0123abcd", "out.partial-0123abcd-notes"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_folder_that_only_looks_like_a_killed_ingest_is_left_alone(where, source, name):
    (where / name).mkdir()
    (where / name / "lock").write_text("")
    (where / name / "notes.txt").write_text("mine")
    (where / "out.partial-89abcdef").symlink_to(name)
    before = snapshot(where)
    for make_one in (*MAKERS.values(), *CONVERTERS.values()):
        make_one(source, where / "out")
        shutil.rmtree(where / "out", ignore_errors=True)
        (where / "out").unlink(missing_ok=True)
    assert snapshot(where) == before


CONVERTERS = {
    "gl": lambda source, out: gz.convert_csv_to_gl(source / "e.csv", out),
    "gd": lambda source, out: gz.convert_csv_to_gd(source / "e.csv", out, "int64"),
}


@pytest.mark.parametrize("converter", CONVERTERS)
@pytest.mark.parametrize(
    "target", [notes, empty_folder, a_file, fifo, link_to_notes, link_to_a_file], ids=lambda f: f.__name__
)
def test_a_conversion_replaces_no_file_that_gz_did_not_make(where, source, converter, target):
    target("gz.ingest", where / "out")
    before = snapshot(where)
    with pytest.raises((FileExistsError, IsADirectoryError)):
        CONVERTERS[converter](source, where / "out")
    assert snapshot(where) == before


@pytest.mark.parametrize("converter", CONVERTERS)
def test_a_conversion_replaces_one_of_ours_through_a_link_and_never_its_input(where, source, converter):
    shutil.copy(source / "e.csv", where / "e.csv")
    with pytest.raises(FileExistsError):
        CONVERTERS[converter](where, where / "e.csv")
    assert (where / "e.csv").read_bytes() == (source / "e.csv").read_bytes()
    (where / "real").touch()  # as tempfile makes them
    (where / "out").symlink_to("real")
    for _ in range(2):
        CONVERTERS[converter](source, where / "out")
        assert os.readlink(where / "out") == "real"
        assert (where / "real").read_bytes()[1:4] == b"GZF"
    assert sorted(os.listdir(where)) == ["e.csv", "out", "real"]


def test_the_command_refuses_with_a_message_and_an_exit_code(where, source):
    notes("", where / "out")
    command = ["gz", "ingest", str(where / "out"), "--edges", str(source / "e.npy"), "--overwrite"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"gz: {where}/out: .*is no store of gz.*", " ".join(done.stderr.split())), (
        done.stderr
    )
