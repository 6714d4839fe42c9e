"""gz_dgl.partition: what it is asked for, stores of all kinds, runs that are stopped, disks that are full."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch
from dgl_graphs import random_graph, random_relations
from dgl_parts import read
from waits import PATIENCE

import gz
import gz_dgl
from gz.cli import main

N, E = 300, 2000
RNG = np.random.default_rng(0)
SRC, DST = RNG.integers(0, N, (2, E))
X = RNG.standard_normal((N, 4)).astype(np.float32)
SPLITS = {"train": RNG.permutation(N)[:60], "valid": np.arange(10, 40), "test": np.arange(5)}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """As `gz ingest` makes one: lists sorted, in one direction, no edge ids; splits are lists of nodes."""
    out = tmp_path_factory.mktemp("ingested") / "store"
    gz.ingest(out, edges=(SRC, DST), num_nodes=N, features={"feat": X}, splits=SPLITS, progress=False)
    return out


def tensors(folder):
    """All that DGL reads in a folder of parts, and the original ids."""
    out = {}
    for file in sorted(Path(folder).rglob("*")):
        name = str(file.relative_to(folder))
        if file.name == "graph.dgl":
            g = dgl.load_graphs(str(file))[0][0]
            out |= {f"{name} {k}": v for k, v in (*g.ndata.items(), *g.edata.items())}
            out |= {f"{name} {i}": v for i, v in enumerate(g.edges())}
        elif file.suffix == ".dgl":
            out |= {f"{name} {k}": v for k, v in dgl.data.utils.load_tensors(str(file)).items()}
        elif file.suffix == ".npy":
            out[name] = torch.from_numpy(np.load(file))
    return out


def same(a, b):
    a, b = tensors(a), tensors(b)
    assert a.keys() == b.keys()
    assert all(torch.equal(v, b[k]) for k, v in a.items())


# ---- stores ----


def test_a_store_without_edge_ids_names_edges_by_their_position(path, tmp_path):
    made = gz_dgl.partition(path, tmp_path / "out", 3, method="random")
    order = np.lexsort((SRC, DST))
    found = {}
    for p in range(3):
        _, edges, columns = read(made.config, p, made.orig_nids, made.orig_eids)
        found |= {e: ends for e, ends in edges.items() if ends[-1]}
        for i, row in columns["_N/feat"][1].items():
            assert row == X[i].tolist()
    named = {i: (s, d) for (_, i), (_, s, _, d, _) in found.items()}
    assert named == {i: (SRC[e], DST[e]) for i, e in enumerate(order)}


def test_splits_become_the_masks_of_dgl(path, tmp_path):
    made = gz_dgl.partition(path, tmp_path / "out", 3, method="fennel")
    masks = {"train_mask": "train", "val_mask": "valid", "test_mask": "test"}
    rows = {m: {} for m in masks}
    for p in range(3):
        columns = read(made.config, p, made.orig_nids, made.orig_eids)[2]
        assert set(columns) == {"_N/feat", *(f"_N/{m}" for m in masks)}
        for m in masks:
            dtype, values = columns[f"_N/{m}"]
            assert dtype == torch.uint8  # what DGL makes of a mask
            rows[m] |= values
    for mask, split in masks.items():
        assert {i for i, value in rows[mask].items() if value} == set(SPLITS[split].tolist())
    assert sum(made.report.chosen) == 60


def test_every_dtype_that_a_store_holds_comes_through(tmp_path):
    kinds = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]
    columns = {k: RNG.integers(0, 2, (N, 3)).astype(k) for k in kinds}
    columns |= {
        "bfloat16": torch.randn(N, 2).bfloat16(),
        "flat": np.arange(N),
        "none": np.zeros((N, 0), np.float32),
    }
    gz.ingest(tmp_path / "s", edges=(SRC, DST), num_nodes=N, features=columns, progress=False)
    made = gz_dgl.partition(tmp_path / "s", tmp_path / "out", 2, method="range")
    feats = [dgl.distributed.load_partition(made.config, p)[1] for p in range(2)]
    for name, values in columns.items():
        expected = torch.as_tensor(values)
        got = torch.cat([f[f"_N/{name}"] for f in feats])[torch.argsort(made.orig_nids)]
        if name in ("bool", "bfloat16"):  # DGL's files know neither
            expected = expected.to(torch.uint8 if name == "bool" else torch.float32)
        assert got.dtype == expected.dtype, name
        assert torch.equal(got, expected), name


@pytest.mark.parametrize("method", ["metis", "fennel", "random"])
def test_types_without_edges_or_nodes(tmp_path, method):
    """In the order of an ingest, which is not DGL's."""
    spec = {
        "nodes": {
            "z": {"num_nodes": 6},
            "a": {"num_nodes": 4, "features": {"f": np.arange(4.0)}},
            "none": {"num_nodes": 0},
        },
        "edges": [
            {"type": ["z", "to", "a"], "edges": (np.array([0, 5, 5]), np.array([1, 1, 3]))},
            {"type": ["a", "empty", "z"], "edges": (np.zeros(0, np.int64), np.zeros(0, np.int64))},
        ],
    }
    gz.ingest(tmp_path / "s", spec=spec, progress=False)
    made = gz_dgl.partition(tmp_path / "s", tmp_path / "out", 2, method=method)
    found = [read(made.config, p, made.orig_nids, made.orig_eids) for p in range(2)]
    own = [n for nodes, _, _ in found for n, (inner, _) in nodes.items() if inner]
    assert sorted(own) == [("a", i) for i in range(4)] + [("z", i) for i in range(6)]
    edges = sorted(e[:4] for _, edges, _ in found for e in edges.values() if e[-1])
    assert edges == [("z", 0, "a", 1), ("z", 5, "a", 1), ("z", 5, "a", 3)]
    assert {i: v for *_, columns in found for i, v in columns["a/f"][1].items()} == {
        i: float(i) for i in range(4)
    }


def test_blocks_of_a_few_edges_give_the_same_parts(path, tmp_path):
    """Also with temporary files elsewhere."""
    (tmp_path / "tmp").mkdir()
    gz_dgl.partition(path, tmp_path / "a", 3, method="fennel")
    gz_dgl.partition(path, tmp_path / "b", 3, method="fennel", memory=10**6, tmp=tmp_path / "tmp")
    same(tmp_path / "a", tmp_path / "b")
    assert os.listdir(tmp_path / "tmp") == []


def test_dgl_reads_graph_formats_as_asked_for(tmp_path):
    gz_dgl.save(random_relations(40, 200), tmp_path / "s")
    made = gz_dgl.partition(
        tmp_path / "s", tmp_path / "out", 2, method="random", graph_formats=["csc", "csr"]
    )
    g = dgl.distributed.load_partition(made.config, 0)[0]
    assert g.formats()["created"] == ["csr", "csc"]
    other = gz_dgl.partition(tmp_path / "s", tmp_path / "coo", 2, method="random")
    h = dgl.distributed.load_partition(other.config, 0)[0]
    assert all(torch.equal(a, b) for a, b in zip(g.edges(order="eid"), h.edges(order="eid"), strict=True))


# ---- assignments ----


@pytest.mark.parametrize("method", ["fennel", "metis"])
def test_communities_stay_together_and_parts_are_balanced(tmp_path, method):
    """Four groups with few edges between them: a good partition cuts these, and every part has its share."""
    n, k = 1200, 4
    group = RNG.integers(0, k, n)
    dst = RNG.integers(0, n, 20 * n)
    near = np.array([RNG.choice(np.flatnonzero(group == g)) for g in group[dst[: 19 * n]]])
    src = np.concatenate([near, RNG.integers(0, n, n)])
    train = RNG.permutation(n)[:100]
    gz.ingest(tmp_path / "s", edges=(src, dst), num_nodes=n, splits={"train": train}, progress=False)
    made = gz_dgl.partition(tmp_path / "s", tmp_path / "out", k, method=method)
    assert all(b < 1.1 for b in made.report.balance.values())
    random = gz_dgl.partition(tmp_path / "s", tmp_path / "random", k, method="random")
    assert made.report.cut < random.report.cut / 4


def test_auto_is_metis_where_it_fits(path, tmp_path):
    assert gz_dgl.partition(path, tmp_path / "a", 2).report.method == "metis"
    gz.ingest(tmp_path / "s", edges=RNG.integers(0, 900, (2, 7000)), num_nodes=900, progress=False)
    assert gz_dgl.partition(tmp_path / "s", tmp_path / "b", 2, memory=10**6).report.method == "fennel"


@pytest.mark.parametrize("form", ["array", "tensor", "file", "by type", "files by type"])
def test_an_assignment_in_any_form(tmp_path, form):
    g = random_relations(50, 200)
    gz_dgl.save(g, tmp_path / "s")
    parts = {t: RNG.integers(0, 3, 50) for t in g.ntypes}
    whole = np.concatenate([parts[t] for t in g.ntypes])
    np.save(tmp_path / "whole.npy", whole)
    for t in g.ntypes:
        np.save(tmp_path / f"{t}.npy", parts[t])
    given = {
        "array": whole,
        "tensor": torch.from_numpy(whole),
        "file": tmp_path / "whole.npy",
        "by type": parts,
        "files by type": {t: tmp_path / f"{t}.npy" for t in g.ntypes},
    }[form]
    made = gz_dgl.partition(tmp_path / "s", tmp_path / "out", 3, assignment=given)
    assert made.report.method == "file"
    book = dgl.distributed.load_partition_book(made.config, 0)[0]
    for t in g.ntypes:
        assert torch.equal(book.nid2partid(torch.arange(50), t)[torch.argsort(made.orig_nids[t])].long(),
                           torch.from_numpy(parts[t]))  # fmt: skip


def test_memory_is_that_of_one_part_and_not_of_the_graph(tmp_path):
    """Of numpy's arrays, which is where it would go: the graph's ends and rows are 17 MB here."""
    src, dst = RNG.integers(0, 30_000, (2, 600_000))
    x = {"x": np.zeros((30_000, 64), np.float32)}
    gz.ingest(tmp_path / "s", edges=(src, dst), num_nodes=30_000, features=x, progress=False)
    del src, dst, x
    tracemalloc.start()
    try:
        gz_dgl.partition(tmp_path / "s", tmp_path / "out", 8, method="fennel", passes=2, memory=10**6)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10e6


# ---- wrong input ----

WRONG = [
    ({"parts": 301}, "has 300 nodes, which cannot make 301 parts"),
    ({"parts": 0}, "parts is 0; give 1 to 65534"),
    ({"method": "best"}, "method='best': choose 'auto' or one of metis, fennel"),
    ({"passes": 0, "method": "fennel"}, "passes is 0"),
    ({"method": "file"}, "an assignment goes with method='file'"),
    ({"assignment": np.zeros(N - 1, int)}, "assigns 299 nodes, but there are 300 nodes"),
    ({"assignment": np.full(N, 2)}, "puts node 0 into part 2; parts are 0 to 1"),
    ({"assignment": np.arange(N) - 1}, "puts node 0 into part -1"),
    ({"assignment": np.zeros(N, int)}, "part 1 of 2 would have no nodes"),
    ({"assignment": np.zeros(N)}, "holds float64 of shape"),
    (
        {"assignment": {"paper": np.zeros(N, int)}},
        "is for ['paper'], but the store has the node types ['node']",
    ),
    ({"assignment": "missing.npy"}, "missing.npy"),
    ({"graph_name": "a/b"}, "graph_name is 'a/b'"),
    ({"memory": "lots"}, "is not a size"),
    ({"tmp": "nowhere"}, "the folder for temporary files is not there"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=[w[1][:30] for w in WRONG])
def test_wrong_input_is_an_error_that_says_so_and_leaves_nothing(
    path, tmp_path, monkeypatch, options, message
):
    monkeypatch.chdir(tmp_path)
    options = {"parts": 2, **options}
    with pytest.raises((ValueError, OSError)) as error:
        gz_dgl.partition(path, tmp_path / "out", options.pop("parts"), **options)
    assert message in str(error.value)
    assert os.listdir(tmp_path) == []


def test_names_that_dgl_cannot_hold_are_refused(tmp_path):
    gz.ingest(tmp_path / "s", edges=(SRC, DST), num_nodes=N, features={"a/b": X}, progress=False)
    with pytest.raises(ValueError, match=r"the column 'a/b' has a '/' in its name"):
        gz_dgl.partition(tmp_path / "s", tmp_path / "out", 2)


def test_nothing_is_replaced_but_a_partitioned_graph(path, tmp_path):
    out = tmp_path / "out"
    gz_dgl.partition(path, out, 2, method="random")
    with pytest.raises(FileExistsError, match="this partitioned graph exists; pass overwrite=True"):
        gz_dgl.partition(path, out, 3, method="random")
    made = gz_dgl.partition(path, out, 3, method="random", overwrite=True)
    assert sorted(p.name for p in out.iterdir() if p.is_dir()) == [
        "orig_eids",
        "orig_nids",
        "part0",
        "part1",
        "part2",
    ]
    assert json.loads(Path(made.config).read_text())["num_parts"] == 3
    (out / "mine").write_text("!")
    with pytest.raises(FileExistsError, match="holds files that gz did not make: mine"):
        gz_dgl.partition(path, out, 2, overwrite=True)
    with pytest.raises(FileExistsError, match="is no partitioned graph of gz"):
        gz_dgl.partition(path, path, 2, overwrite=True)
    assert (out / "mine").read_text() == "!"


def test_a_disk_that_is_too_small_is_told_before_anything_is_written(path, tmp_path, monkeypatch):
    small = os.statvfs_result((4096, 4096, 10, 10, 10, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: small)
    with pytest.raises(OSError, match=r"the parts need about .* but only 41.0 kB are free.*--no-disk-check"):
        gz_dgl.partition(path, tmp_path / "out", 2)
    assert os.listdir(tmp_path) == []


# ---- stopped ----


class Stop(KeyboardInterrupt):
    pass


PLACES = ["assign", "number", "new ids", "edges 1", "part 0", "part 2"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["one type", "types"])
def test_a_run_that_was_stopped_goes_on_and_gives_the_same(tmp_path, monkeypatch, place, kind):
    """Stopped after any phase, with half of the next one on the disk."""
    from gz._base.journal import Journal

    gz_dgl.save(random_graph(80, 500) if kind == "one type" else random_relations(40, 200), tmp_path / "s")
    whole = tmp_path / "whole"
    gz_dgl.partition(tmp_path / "s", whole, 3, method="fennel", graph_name="g")
    finish = Journal.finish
    seen = []

    def stop(journal, phase, *more):
        finish(journal, phase, *more)
        seen.append(phase)
        if phase == place:
            (journal.root / "half").write_text("of the next phase")
            raise Stop

    monkeypatch.setattr(Journal, "finish", stop)
    with pytest.raises(Stop) as error:
        gz_dgl.partition(tmp_path / "s", tmp_path / "out", 3, method="fennel", graph_name="g")
    assert "run the same command again to go on" in error.value.__notes__[0]
    before, seen[:] = list(seen), []
    monkeypatch.setattr(Journal, "finish", lambda j, p, *more: (seen.append(p), finish(j, p, *more)))
    with pytest.warns(RuntimeWarning, match="a partitioning did not finish; this one goes on after"):
        gz_dgl.partition(tmp_path / "s", tmp_path / "out", 3, method="fennel", graph_name="g")
    assert not set(before) & set(seen)  # nothing was done twice
    same(whole, tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["out", "s", "whole"]


def test_other_options_start_anew(path, tmp_path, monkeypatch):
    from gz.partitioner import run

    write = run._Run._part
    monkeypatch.setattr(run._Run, "_part", lambda *_: (_ for _ in ()).throw(Stop))
    with pytest.raises(Stop):
        gz_dgl.partition(path, tmp_path / "out", 2, method="random")
    monkeypatch.setattr(run._Run, "_part", write)
    with pytest.warns(RuntimeWarning, match="starts anew, because its inputs or options were others"):
        gz_dgl.partition(path, tmp_path / "out", 2, method="random", rng_seed=1)
    gz_dgl.partition(path, tmp_path / "other", 2, method="random", rng_seed=1, graph_name="store")
    same(tmp_path / "out", tmp_path / "other")


KILLED = """
import os, signal, sys
import gz_dgl
from gz.partitioner import run
def stop(self, part, *_):
    sys.stdout.write("here"); sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
original = run._Run._part
run._Run._part = lambda self, part, *more: (stop if part.number else original)(self, part, *more)
gz_dgl.partition(sys.argv[1], sys.argv[2], 2, method="random")
"""


@pytest.mark.slow
def test_a_killed_run_goes_on(path, tmp_path):
    command = [sys.executable, "-c", KILLED, str(path), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=PATIENCE)
    assert done.returncode != 0
    assert done.stdout == "here", done.stderr
    assert not (tmp_path / "out").exists()
    with pytest.warns(RuntimeWarning, match=r"goes on after its \d+ finished phases: .*part 0"):
        gz_dgl.partition(path, tmp_path / "out", 2, method="random")
    gz_dgl.partition(path, tmp_path / "whole", 2, method="random")
    same(tmp_path / "out", tmp_path / "whole")


# ---- a disk that fills up ----


@pytest.mark.parametrize("kilobytes", [40, 96])
def test_a_full_disk_is_an_error_with_its_name(path, tmp_path, kilobytes):
    """Where the disk check is off, or others write too."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("a small disk is a mounted tmpfs, which takes root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    try:
        with pytest.raises(OSError, match="disk is full|do not fit on this disk") as error:
            gz_dgl.partition(path, disk / "out", 2, method="random", check_disk=False)
        assert str(disk) in str(error.value)
        del error  # its frames hold files of the disk open
        assert not (disk / "out").exists()
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        gz_dgl.partition(path, disk / "out", 2, method="random")
        gz_dgl.partition(path, tmp_path / "whole", 2, method="random")
        same(disk / "out", tmp_path / "whole")
    finally:
        gc.collect()
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


# ---- the command ----


def test_the_command_prints_cut_and_balance(path, tmp_path, capsys):
    call = ["partition", str(path), str(tmp_path / "out"), "--parts", "2", "--method", "fennel"]
    assert main(call) == 0
    text = capsys.readouterr().out
    assert "edge cut" in text
    assert "largest part / mean: nodes 1.0" in text
    assert main([*call, "--overwrite", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["config"] == str(tmp_path / "out" / "store.json")
    assert sum(map(sum, told["edges"])) == E
    assert 0 < told["cut"] < E
    assert main([*call, "--overwrite", "--assignment", "x.npy"]) == 2
    assert main(["partition", str(path), str(tmp_path / "no"), "--parts", "999"]) == 1
    assert "cannot make 999 parts" in " ".join(capsys.readouterr().err.split())


def test_without_dgl_the_command_says_what_it_needs(path, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "gz_dgl", None)
    assert main(["partition", str(path), str(tmp_path / "out"), "--parts", "2"]) == 1
    assert "gz partition writes DGL's files and needs DGL" in capsys.readouterr().err
