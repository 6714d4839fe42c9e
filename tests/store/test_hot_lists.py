"""gz.reorder: the lists that training samples most lie together once more, and nothing that is sampled
changes."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

import forge
import numpy as np
import pytest
from waits import in_child

import gz
from gz._base import memory_plan
from gz._base.memory_plan import Part, divide
from gz._hot import lists, rank
from gz.verify import verify

N, E = 30_000, 300_000
TOPOLOGY = "edges/node__to__node/in.gl"


@pytest.fixture(scope="module")
def graph():
    """(src, dst, seeds): few nodes stand in most lists, and the lists of some are long."""
    rng = np.random.default_rng(3)
    order = rng.permutation(N)
    src = order[(rng.random(E) ** 4 * N).astype(np.int64)]
    dst = order[(rng.random(E) ** 2 * N).astype(np.int64)]
    return src, dst, rng.permutation(N)[: N // 50]


@pytest.fixture
def store(graph, tmp_path) -> Path:
    src, dst, seeds = graph
    x = np.zeros((N, 32), np.float32)
    gz.ingest(tmp_path / "s", edges=(src, dst), features={"x": x}, splits={"train": seeds}, num_nodes=N)
    return tmp_path / "s"


def entry(store: Path) -> dict:
    return json.loads((store / "store.json").read_text())["edges"][0]


def part(store: Path, name: str) -> np.ndarray:
    return gz.FeatureStore(store / entry(store)["hot"][name]).get_tensor()


def files(store: Path) -> set[str]:
    return {str(p.relative_to(store)) for p in store.rglob("*") if p.is_file() and p.name != ".lock"}


def evict(store: Path) -> None:
    for path in store.rglob("*.g?"):
        with open(path, "rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cramped(store: Path, monkeypatch, free: int = 1_000_000) -> gz.Store:
    """Opened where `free` bytes are said to be free, and nothing of it in memory: the topology has 1.4 MB."""
    monkeypatch.setattr(memory_plan, "free_ram", lambda: free)
    opened = gz.open(store, cache=0)
    with suppress(gz.FormatError):
        _ = [opened.graph(t) for t in opened.edge_types]  # opening reads ahead
    evict(store)
    return opened


FIELDS = ("nodes", "src", "dst", "edge_ids", "edge_rows", "nodes_per_hop", "edges_per_hop", "batch")


def same(a: gz.Sample, b: gz.Sample) -> None:
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field), err_msg=field)


# ---- which lists ----


def test_lists_in_front_are_those_that_are_sampled_most_for_their_bytes(graph, store, monkeypatch):
    """Each seed a batch, all neighbours of two hops: numpy counts in how many a node's list is read. Together
    they are 98 % of what is read, and no more than that needs."""
    src, dst, seeds = graph
    monkeypatch.setattr(rank, "_BATCH", 1)
    found = gz.reorder(store, share=1.0, fanouts=[-1, -1])
    count = np.zeros(N, np.int64)
    for seed in seeds:
        count[np.union1d(src[dst == seed], [seed])] += 1
    worth = count / (4 * np.bincount(dst, minlength=N) + 16)
    order = np.lexsort((np.arange(N), -worth))[: np.count_nonzero(count)]
    served = np.cumsum(count[order]) / count.sum()
    expected = order[: np.count_nonzero(served < 0.98) + 1]
    assert len(expected) < len(order)
    ids = part(store, "ids")
    assert found["node", "to", "node"] == len(ids) == len(expected)
    step = np.arange(len(ids)) * 64 // len(ids)  # in order of worth from step to step, of id inside of one
    for k in range(64):
        assert ids[step == k].tolist() == sorted(expected[step == k].tolist())


def test_their_bytes_are_at_most_twice_the_share_of_the_topology(graph, store):
    degree = np.bincount(graph[1], minlength=N)
    gz.reorder(store, share=0.02)
    few = part(store, "ids")
    size = len(part(store, "lists")) * 4 + len(few) * 16
    most = 2 * 0.02 * (E * 4 + N * 8)
    assert most - 4 * degree.max() - 16 < size <= most
    gz.reorder(store, share=0.04)
    assert set(few) < set(part(store, "ids"))


def test_without_seeds_they_are_those_of_nodes_that_stand_in_most_lists_for_their_bytes(graph, store):
    gz.reorder(store, share=0.05, seeds=None)
    worth = np.bincount(graph[0], minlength=N) / (4 * np.bincount(graph[1], minlength=N) + 16)
    ids = part(store, "ids")
    assert worth[ids].min() >= np.delete(worth, ids).max()


def test_no_more_nodes_are_ranked_than_the_budget_allows(store, monkeypatch):
    assert len(rank.most_read(np.ones(N, np.uint32), 1.0, 96 * 500, as_fit=True)) == 500


@pytest.mark.parametrize("memory", ["2GB", "40KB"])
def test_the_copy_is_what_the_topology_has_whatever_the_budget(store, memory, monkeypatch):
    if memory != "2GB":  # in many pieces
        monkeypatch.setattr(lists, "_NODES", 100)
    gz.reorder(store, share=0.01, memory="2GB")
    monkeypatch.setattr("gz._hot.parse_memory", lambda m: 1 << 18 if memory != "2GB" else 1 << 31)
    gz.reorder(store, share=0.01)
    g, ids, starts = gz.open(store).graph(), part(store, "ids"), part(store, "starts")
    copied = np.split(part(store, "lists"), starts[1:, 1])
    for node, start, found in zip(ids, starts, copied, strict=True):
        assert start[0] == g.indptr[node]
        assert found.tolist() == g.neighbors(node).tolist()
    assert [e for _, e in verify(store) if e is not None] == []


# ---- reading ----


CALLS = [
    {"fanouts": [15, 10, 5]},
    {"fanouts": [15, 10, 5], "replace": True},
    {"fanouts": [-1, 3]},
    {"fanouts": [40, 2], "disjoint": True},
    {"fanouts": [0, 4]},
]


@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize("share", [0.01, 0.5])
@pytest.mark.parametrize("keep", [False, True], ids=["positions", "edge ids"])
def test_samples_are_those_of_the_topology(graph, call, share, keep, tmp_path, monkeypatch):
    src, dst, seeds = graph
    gz.ingest(
        tmp_path / "s",
        edges=(src, dst),
        features={"x": np.zeros((N, 32), np.float32)},
        splits={"train": seeds},
        num_nodes=N,
        keep_edge_ids=keep,
    )
    before = gz.open(tmp_path / "s")
    some = np.concatenate([seeds[:200], np.arange(0, N, 500), seeds[:3]])  # of the epoch, others, and again
    expected = [before.graph().sample(some, rng_seed=seed, **call) for seed in range(2)]
    gz.reorder(tmp_path / "s", share=share)
    del before
    opened = cramped(tmp_path / "s", monkeypatch)
    found = [opened.graph().sample(some, rng_seed=seed, **call) for seed in range(2)]
    stats = opened.graph().stats()
    for a, b in zip(expected, found, strict=True):
        same(a, b)
    if call["fanouts"][0]:
        assert stats["hot"] > 0
        # Where 98 % of what is sampled in an epoch are there, little else is read: those that are not of it.
        alone = opened.graph().sample(seeds[:100], [2], rng_seed=9)
        again = opened.graph().stats()
        assert share < 0.5 or again["hot"] - stats["hot"] >= 95
        same(alone, gz.Graph(tmp_path / "s" / TOPOLOGY).sample(seeds[:100], [2], rng_seed=9))


def test_a_topology_that_is_held_is_not_read_from_the_copy(store, monkeypatch):
    gz.reorder(store)
    opened = cramped(store, monkeypatch, 1 << 30)
    opened.graph().sample(opened.split("train"), [5, 5])
    assert opened.graph().stats()["hot"] == 0


def test_what_training_samples_lies_in_fewer_pages(graph, store, monkeypatch):
    seeds = graph[2][:100]

    def bytes_read() -> int:
        opened = cramped(store, monkeypatch)
        for seed in range(5):
            opened.graph().sample(seeds, [3, 3], rng_seed=seed)
        return opened.graph().stats()["bytes_read"]

    plain = bytes_read()
    if plain == 0:
        pytest.skip(f"{store} keeps files in memory")
    gz.reorder(store, seeds=seeds, fanouts=[-1, 3], share=1.0)  # all that the first hop can lead to
    assert bytes_read() < plain / 2


def test_a_pickled_store_and_a_pickled_graph_sample_the_same(graph, store, monkeypatch):
    gz.reorder(store)
    opened = cramped(store, monkeypatch)
    expected = opened.graph().sample(graph[2], [5, 5])
    same(pickle.loads(pickle.dumps(opened)).graph().sample(graph[2], [5, 5]), expected)
    same(pickle.loads(pickle.dumps(opened.graph())).sample(graph[2], [5, 5]), expected)

    def child() -> None:
        same(opened.graph().sample(graph[2], [5, 5]), expected)

    assert in_child(child)


def several_edge_types(store: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5000, 90_000), rng.integers(0, 3000, 90_000)
    nodes = {t: {"features": {"x": rng.random((n, 40))}} for t, n in (("a", 5000), ("b", 3000))}
    nodes["b"]["splits"] = {"train": np.arange(50)}
    edges = {("a", "to", "b"): (a, b), ("b", "back", "a"): (b, a)}
    gz.ingest(store, spec={"nodes": nodes, "edges": edges})


def test_several_edge_types_each_have_their_lists(tmp_path, monkeypatch):
    several_edge_types(tmp_path / "s")
    seeds = {"b": np.arange(40, 90)}
    expected = gz.open(tmp_path / "s").sample(seeds, [7, 5, 3])
    found = gz.reorder(tmp_path / "s")
    assert found["a", "to", "b"] > 0 < found["b", "back", "a"]
    opened = cramped(tmp_path / "s", monkeypatch, 100_000)
    got = opened.sample(seeds, [7, 5, 3])
    for field in ("nodes", "src", "dst", "edge_ids"):
        for key, values in getattr(expected, field).items():
            np.testing.assert_array_equal(getattr(got, field)[key], values)
    assert all(opened.graph(t).stats()["hot"] > 0 for t in opened.edge_types)
    assert [e for _, e in verify(tmp_path / "s") if e is not None] == []


def test_copied_lists_are_held_instead_of_a_topology_that_leaves_no_room_for_rows():
    parts = [Part("g", 400), Part("g0", 40, 0, "g"), Part("y", 10, 8), Part("x", 1000, 512)]
    parts += [Part(f"x{i}", 50, 512, "x") for i in range(4)]

    def held(room: int) -> set[str]:
        return {k for k, s in divide(parts, None, int(room / 0.65) + 1).items() if s.held}

    assert held(1500) == {"g", "y", "x"}  # all fits
    assert held(620) == {"g", "y", "x0", "x1", "x2", "x3"}  # and all that is read most
    assert held(600) == {"g0", "y", "x0", "x1", "x2", "x3"}  # not with the topology
    assert held(210) == {"g0", "y", "x0", "x1", "x2"}
    assert held(60) == {"g0", "y"}
    assert held(30) == {"y"}  # the copy is larger than what is left, and read, too


def test_a_copy_is_held_only_with_a_gain_and_never_brings_in_a_topology_that_had_no_place():
    """Beside the copied lists stand those in the other direction, or those of another edge type."""
    parts = [Part("g", 400), Part("g0", 40, 0, "g"), Part("out", 380), Part("x", 1000, 512)]
    parts += [Part(f"x{i}", 50, 512, "x") for i in range(4)]

    def held(parts: list[Part], room: int) -> set[str]:
        return {k for k, s in divide(parts, None, int(room / 0.65) + 1).items() if s.held}

    every = {"x0", "x1", "x2", "x3"}
    assert held(parts, 990) == {"g", "out", *every}
    assert held(parts, 820) == {"g0", "out", *every}  # "out" had its place before
    assert held(parts, 700) == {"g0", *every}  # and here it had none: more room for rows is no reason
    assert held(parts, 410) == {"g0", "x0", "x1"}  # fewer of them, since "out" is read beside
    equal = [Part("g", 400), Part("g0", 400, 0, "g"), Part("x", 1000, 512), Part("x0", 50, 512, "x")]
    assert held(equal, 420) == {"g"}  # no gain
    two = [Part("g", 400), Part("g0", 40, 0, "g"), Part("h", 300), Part("h0", 30, 0, "h"), *parts[3:]]
    assert held(two, 270) == {"g0", "h0", *every}
    assert held(two, 900) == {"g", "h", *every}


def test_a_store_with_edge_ids_keeps_its_topology_which_has_them(graph, tmp_path, monkeypatch):
    """They lie beside the lists of the topology alone; a copy of lists held instead would be no gain."""
    src, dst, seeds = graph
    x = np.zeros((N, 256), np.float32)
    columns = {"features": {"x": x}, "splits": {"train": seeds}, "num_nodes": N, "keep_edge_ids": True}
    gz.ingest(tmp_path / "s", edges=(src, dst), **columns)
    gz.reorder(tmp_path / "s", share=0.5)
    for free in (1 << 20, 4 << 20, 8 << 20):
        plan = cramped(tmp_path / "s", monkeypatch, free).memory_plan()
        assert not any("lists-" in name and "held" in str(share) for name, share in plan.items())


def test_labor_and_hgt_draw_the_same_from_the_copy(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    import gz_pyg

    several_edge_types(tmp_path / "s")
    options = {"input_nodes": ("b", np.arange(40, 90)), "batch_size": 10}

    def batches() -> list:
        monkeypatch.setattr(memory_plan, "free_ram", lambda: 100_000)
        found = []
        for make in (
            lambda: gz_pyg.NeighborLoader(tmp_path / "s", [7, 5, 3], labor=True, **options),
            lambda: gz_pyg.HGTLoader(tmp_path / "s", [30, 20], **options),
        ):
            torch.manual_seed(5)
            found += [{t: b[t].n_id for t in ("a", "b")} | b.edge_index_dict for b in make()]
        return found

    expected = batches()
    gz.reorder(tmp_path / "s")
    for a, b in zip(expected, batches(), strict=True):
        for key in a | b:
            np.testing.assert_array_equal(a[key], b[key])


# ---- what stays ----


def test_a_store_opened_before_others_changed_the_copy_goes_on(graph, store, monkeypatch):
    expected = gz.open(store).graph().sample(graph[2], [5, 5])
    monkeypatch.setattr(memory_plan, "free_ram", lambda: 1_000_000)
    gz.reorder(store)
    early = [gz.open(store, cache=0) for _ in range(2)]  # no graph of them is open yet
    gz.reorder(store, share=0.05)
    same(early[0].graph().sample(graph[2], [5, 5]), expected)
    gz.reorder(store, undo=True)
    same(early[1].graph().sample(graph[2], [5, 5]), expected)


@pytest.mark.parametrize("which", ["ids", "starts", "lists"])
@pytest.mark.parametrize("undo", [False, True])
def test_a_copy_that_is_gone_or_damaged_is_made_again_or_removed(graph, store, which, undo, monkeypatch):
    expected = gz.open(store).graph().sample(graph[2], [5, 5])
    monkeypatch.setattr(memory_plan, "free_ram", lambda: 1_000_000)
    for damage in (Path.unlink, lambda p: p.write_bytes(b"not ours")):
        gz.reorder(store)
        damage(store / entry(store)["hot"][which])
        gz.reorder(store, undo=undo)
        assert ("hot" in entry(store)) != undo
        assert [e for _, e in verify(store) if e is not None] == []
        same(gz.open(store).graph().sample(graph[2], [5, 5]), expected)


def test_undone_and_ingested_anew_nothing_is_left(graph, store):
    plain, text = files(store), entry(store)
    gz.reorder(store)
    assert len(files(store) - plain) == 2 + 3
    gz.reorder(store, undo=True)
    assert files(store) == plain
    assert entry(store) == text
    gz.reorder(store)
    gz.reorder(store, "x", undo=True)  # the rows alone
    assert "hot" in entry(store)
    src, dst, _ = graph
    gz.ingest(store, edges=(src, dst), features={"x": np.zeros((N, 32), np.float32)}, overwrite=True)
    assert "hot" not in entry(store)


KILLS = {
    "while lists are copied": ("gz._hot.lists", "_sort_out"),
    "before it is said where they begin": ("gz._hot.lists", "_write_starts"),
    "before they are named": ("gz._hot.publish", "set_hot_lists"),
}


@pytest.mark.parametrize("where", KILLS)
def test_a_killed_run_leaves_the_store_sound_and_is_run_again(store, where, tmp_path):
    shutil.copytree(store, tmp_path / "other")
    gz.reorder(tmp_path / "other")
    module, name = KILLS[where]

    def die(*_, **__) -> None:
        (tmp_path / "dead").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    def killed() -> None:
        setattr(sys.modules[module], name, die)
        gz.reorder(store)

    assert not in_child(killed)
    assert (tmp_path / "dead").exists()
    assert "hot" not in entry(store)
    assert [e for _, e in verify(store) if e is not None] == []
    gz.reorder(store)
    for name in ("ids", "starts", "lists"):
        np.testing.assert_array_equal(part(store, name), part(tmp_path / "other", name))
    assert len(files(store)) == len(files(tmp_path / "other"))
    assert not list(store.rglob("*.new"))


def test_a_disk_without_room_for_lists_is_an_error_before_they_are_written(store, monkeypatch):
    def full(*_):
        raise OSError(28, "needs more")

    monkeypatch.setattr(lists, "check_room", full)
    with pytest.raises(OSError, match="needs more"):
        gz.reorder(store)
    assert "hot" not in entry(store)
    assert not list(store.rglob("*.new"))


# ---- damage ----


def rewrite(path: Path, array: np.ndarray) -> None:
    path.unlink()
    writer = gz._engine.ColumnWriter(str(path), array.dtype.name, list(array.shape[1:]))
    writer.append(np.ascontiguousarray(array))
    writer.finish()


def wild_begin(a: np.ndarray) -> np.ndarray:
    a[:, 0] = E - 1
    return a


def wild_copy(a: np.ndarray) -> np.ndarray:
    a[:, 1] = -5
    return a


DAMAGE = [
    ("ids", lambda a: np.concatenate([a[1:], a[1:2]]), "one twice", "twice"),
    ("ids", lambda a: np.concatenate([a[:-1], [N]]).astype(np.int32), f"is {N}, but there are", f"is {N}"),
    ("ids", lambda a: a.astype(np.float32), "list of int32 or int64", "list of int32 or int64"),
    ("starts", lambda a: a[:-1], "must be int64 of shape", "lists begin"),
    ("starts", lambda a: a[:, 0], "must be int64 of shape", "two numbers"),
    ("starts", wild_begin, None, "cannot be at"),
    ("starts", wild_copy, None, "cannot be at"),
    ("lists", lambda a: a + 1, "is not what the topology has", None),
    ("lists", lambda a: np.full_like(a, N), "is not what the topology has", "not there"),
    ("lists", lambda a: np.full_like(a, -1), "is not what the topology has", "not there"),
    ("lists", lambda a: a.astype(np.int64), "the width of the topology's", "must be int32"),
    ("lists", lambda a: np.concatenate([a, a]), "but its lists have", None),
]


@pytest.mark.parametrize(("which", "change", "says", "reads"), DAMAGE)
def test_damage_is_found_by_verify_and_is_never_a_wild_read(store, which, change, says, reads, monkeypatch):
    gz.reorder(store)
    path = store / entry(store)["hot"][which]
    rewrite(path, change(gz.FeatureStore(path).get_tensor().copy()))
    forge.edit_json(store, lambda d: d.pop("files"))
    found = " ".join(str(e) for _, e in verify(store) if e is not None)
    assert (says or "does not begin there") in found
    opened = cramped(store, monkeypatch)
    if reads is None:
        opened.graph().sample(opened.split("train"), [-1, -1])
        return
    with pytest.raises(gz.FormatError, match=reads):
        opened.graph().sample(opened.split("train"), [-1, -1])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda e: e.update(hot=3), "is not an object"),
        (lambda e: e["hot"].pop("starts"), "not a path inside"),
        (lambda e: e["hot"].update(lists="/etc/passwd"), "not a path inside"),
        (lambda e: e["hot"].update(ids="nodes/x.npy"), "such a file is called .gd"),
        (lambda e: e.update({"in": None, "out": e["in"]}), "no `in` topology"),
    ],
)
def test_a_manifest_that_breaks_the_rules_is_refused(store, change, says):
    gz.reorder(store)
    forge.edit_json(store, lambda d: change(d["edges"][0]))
    with pytest.raises(gz.FormatError, match=says):
        gz.open(store)
