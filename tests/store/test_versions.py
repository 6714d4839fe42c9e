"""A reader sees one version of a store, whatever happens to the store while it is open."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import threading

import forge
import numpy as np
import pytest

import gz

N, E = 50, 300
RNG = np.random.default_rng(0)
SRC, DST = RNG.integers(0, N, (2, E))


def ingest(path, version: int, **options) -> None:
    value = np.full(N, version)
    edges = (SRC, DST) if version % 2 else (DST, SRC)
    gz.ingest(path, edges=edges, num_nodes=N, features={"x": value, "y": value}, directions="both",
              overwrite=True, **options)  # fmt: skip


@pytest.fixture
def path(tmp_path):
    ingest(tmp_path / "s", 1)
    return tmp_path / "s"


def replaced(path, call) -> None:
    with pytest.raises(OSError, match="was replaced .*; open it again") as e:
        call()
    assert e.value.errno == errno.ESTALE
    assert str(e.value.filename).startswith(str(path))


def test_what_is_open_stays_and_what_is_not_is_an_error(path):
    reader = gz.open(path)
    x, graph = reader.feature("x"), reader.graph()
    before = graph.sample([0], [-1]).nodes.tolist()
    ingest(path, 2)
    assert (x.gather(np.arange(N)) == 1).all()
    assert graph.sample([0], [-1]).nodes.tolist() == before
    assert reader.feature("x") is x
    replaced(path, lambda: reader.feature("y"))
    replaced(path, lambda: reader.graph(direction="out"))
    replaced(path, reader.check_current)
    again = gz.open(path)
    assert (again.feature("y").get_tensor() == 2).all()
    again.graph(direction="out")


def test_files_of_the_old_store_serve_as_long_as_they_are_there(path, tmp_path):
    reader = gz.open(path)
    os.rename(path, tmp_path / "away")
    ingest(path, 2)
    assert (reader.feature("x").get_tensor() == 1).all()
    assert (reader.feature("y").gather([0, 1]) == 1).all()
    assert reader.graph(direction="out").num_edges == E
    shutil.rmtree(tmp_path / "away")
    assert (reader.feature("x").gather([0, 1]) == 1).all()


def test_files_copied_over_those_of_an_open_store_are_not_taken_for_it(path, tmp_path):
    reader = gz.open(path)
    x = reader.feature("x")
    ingest(tmp_path / "new", 2)
    for folder, _, files in os.walk(tmp_path / "new"):
        for file in files:  # as rsync does: a new file under the old name
            target = path / os.path.relpath(os.path.join(folder, file), tmp_path / "new")
            shutil.copy(os.path.join(folder, file), f"{target}.tmp")
            os.replace(f"{target}.tmp", target)
    assert (x.get_tensor() == 1).all()
    replaced(path, lambda: reader.feature("y"))
    replaced(path, lambda: reader.graph(direction="out"))
    assert (gz.open(path).feature("y").get_tensor() == 2).all()


def test_a_pickle_is_of_one_version(path):
    store = gz.open(path)
    pickles = [
        pickle.dumps(o) for o in (store, store.graph(), store.graph(direction="out"), store.feature("x"))
    ]
    for p in pickles:
        pickle.loads(p)
    store.add_feature("z", np.zeros(N))  # a change of columns is no other version
    for p in pickles:
        pickle.loads(p)
    ingest(path, 2)
    for p in pickles:
        replaced(path, lambda p=p: pickle.loads(p))


def test_a_pickled_id_map_is_of_one_version(tmp_path):
    keys = np.array(["a", "b", "c", "d"])
    gz.ingest(tmp_path / "s", edges=(keys[:3], keys[1:]), ids="map")
    ids = gz.open(tmp_path / "s").id_map()
    pickled = pickle.dumps(ids)
    assert pickle.loads(pickled).to_original([0, 1]) == ids.to_original([0, 1])
    gz.ingest(tmp_path / "s", edges=(keys[1:], keys[:3][::-1]), ids="map", overwrite=True)
    replaced(tmp_path / "s", lambda: pickle.loads(pickled))


def test_a_column_does_not_go_into_the_store_that_came_after(path):
    store = gz.open(path)
    column = store.new_column("emb", 4)
    ingest(path, 2)
    replaced(path, lambda: store.add_feature("z", np.zeros(N)))
    with pytest.raises(OSError):
        column.publish()
    assert gz.open(path).node_columns() == ["x", "y"]


def test_stores_of_before_open_pickle_and_change(path):
    forge.edit_json(path, lambda d: [d.pop("generation"), d.pop("files")])
    store = gz.open(path)
    pickled = pickle.dumps(store)
    store.add_feature("z", np.arange(N))
    assert pickle.loads(pickled).feature("z").gather([3])[0] == 3
    assert gz.open(path).manifest.generation is not None
    assert store.graph(direction="out").num_edges == E


@pytest.mark.slow
def test_readers_never_mix_versions_while_a_store_is_replaced(path):
    """Each version has its number in both columns, and its own edges."""
    stop, wrong, seen = threading.Event(), [], set()

    def read() -> None:
        while not stop.is_set():
            try:
                store = gz.open(path)
                x = int(store.feature("x").gather([7])[0])
                y = int(store.feature("y").gather([7])[0])
                into = store.graph().sample([3], [-1]).nodes.tolist()
                out = store.graph(direction="out").sample([3], [-1]).nodes.tolist()
            except OSError as e:
                if e.errno not in (errno.ESTALE, errno.ENOENT):
                    wrong.append(e)
                continue
            near, far = (SRC, DST) if x % 2 else (DST, SRC)
            if (
                x != y
                or set(into[1:]) != set(near[far == 3]) - {3}
                or set(out[1:]) != set(far[near == 3]) - {3}
            ):
                wrong.append((x, y, into, out))
            seen.add(x)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for r in readers:
        r.start()
    for version in range(2, 14):
        ingest(path, version)
    stop.set()
    for r in readers:
        r.join()
    assert wrong == []
    assert len(seen) > 2
